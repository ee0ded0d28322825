/* text/tokens.h - filling a stet_tokens: what the tokenisers share.
 *
 *     TRY(tokens_room(t, 3 * (end - start)));
 *     char *form = tokens_form(t);      write the normalised form there
 *     tokens_push(t, start, end, len); */
#ifndef TEXT_TOKENS_H
#define TEXT_TOKENS_H

#include "base/mem.h"
#include "stet/text.h"

/* Lower case and composition make at most this many bytes of one. */
enum { FORM_GROWTH = 3 };

/* Room for one token more with a form of up to `bytes`, and its NUL. */
static inline stet_status tokens_room(stet_tokens *t, size_t bytes)
{
    if (t->n == t->cap)
        TRY(mem_grow(&t->v, &t->cap, t->n + 1, sizeof *t->v));
    if (t->words_cap - t->words_n <= bytes)
        TRY(mem_grow(&t->words, &t->words_cap, t->words_n + bytes + 1, 1));
    return STET_OK;
}

static inline char *tokens_form(stet_tokens *t)
{
    return t->words + t->words_n;
}

static inline void tokens_push(stet_tokens *t, size_t start, size_t end, size_t len)
{
    t->v[t->n++] =
        (stet_token){(uint32_t)start, (uint32_t)end, (uint32_t)t->words_n, (uint32_t)len};
    t->words[t->words_n + len] = '\0';
    t->words_n += len + 1;
}

static inline char ascii_lower(char c)
{
    return (char)(c + (c >= 'A' && c <= 'Z') * ('a' - 'A'));
}

/* Offsets into the normalised forms, NULs included, have 32 bits. */
#define TEXT_MAX (UINT32_MAX / (FORM_GROWTH + 1))

/* Is s[0..n) what may follow the apostrophe of a contraction other than n't? */
static inline bool is_clitic(const char *s, size_t n)
{
    const char a = n > 0 ? ascii_lower(s[0]) : 0, b = n > 1 ? ascii_lower(s[1]) : 0;
    return (n == 1 && (a == 's' || a == 'd' || a == 'm')) ||
           (n == 2 && ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')));
}

/* Length of <br>, <br />, </br> at the front of s[0..n), or 0; s[0] is '<'. */
size_t break_tag(const char *s, size_t n);

stet_status tokenize_word(const char *text, size_t len, stet_tokens *out);
stet_status tokenize_keras(const char *text, size_t len, stet_tokens *out);

#endif
