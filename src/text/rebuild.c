/* text/rebuild.c - a text with some of its tokens replaced.
 *
 * All other bytes stay as they are, with one exception: where the replacement would run into a
 * neighbour and make another word of both ("did" + "n't" -> "not" would give "didnot", "x.5" with
 * "3" would give "3.5"), one space is put between them. So the tokens of the new text are those of the old one with the
 * replacements in place, which is what an attack or a certificate speaks about. */
#include <string.h>

#include "base/buf.h"
#include "text/tokens.h"
#include "text/utf8.h"

typedef enum case_pattern { CASE_AS_GIVEN, CASE_UPPER, CASE_CAPITAL } case_pattern;

static case_pattern pattern_of(const char *s, size_t n)
{
    size_t upper = 0, lower = 0;
    bool first_upper = false;
    for (size_t at = 0; at < n;) {
        int32_t code;
        at += utf8_code(s + at, n - at, &code);
        const bool is_upper = utf8_lower(code) != code, is_lower = utf8_upper(code) != code;
        first_upper = first_upper || (is_upper && upper + lower == 0);
        upper += is_upper;
        lower += is_lower && !is_upper;
    }
    if (upper > 1 && lower == 0)
        return CASE_UPPER;
    return first_upper && upper == 1 ? CASE_CAPITAL : CASE_AS_GIVEN;
}

static void append_in_case(buf *b, const char *word, case_pattern pattern)
{
    const size_t n = strlen(word);
    if (pattern == CASE_AS_GIVEN) {
        buf_bytes(b, word, n);
        return;
    }
    for (size_t at = 0; at < n;) {
        int32_t code;
        char utf8[4];
        const bool raise = pattern == CASE_UPPER || at == 0;
        at += utf8_code(word + at, n - at, &code);
        const int32_t upper = utf8_upper(code); /* some are not the capital of what they came from */
        buf_bytes(b, utf8, utf8_put(raise && utf8_lower(upper) == code ? upper : code, utf8));
    }
}

/* Does s[0..n) begin inside a word if a word stands before it: with a letter, or with an apostrophe
 * and a letter? */
static bool would_continue(const char *s, size_t n)
{
    if (n == 0)
        return false;
    const glyph g = utf8_glyph(s, n);
    return in_word(g.class) || (g.class == CHAR_APOS && n > g.bytes &&
                                utf8_glyph(s + g.bytes, n - g.bytes).class == CHAR_WORD);
}

/* Does s[0..n) end inside a word if a word stands after it? */
static bool would_be_continued(const char *s, size_t n)
{
    if (n == 0)
        return false;
    const glyph g = utf8_last_glyph(s, n);
    return in_word(g.class) ||
           (g.class == CHAR_APOS && n > g.bytes && in_word(utf8_last_glyph(s, n - g.bytes).class));
}

/* Is token i the clitic of a contraction (n't, 's, ...), written together with the word before it?
 * Then it attaches to another word as well. */
static bool is_attached(const stet_tokens *t, size_t i)
{
    if (i == 0 || i >= t->n || t->v[i].start != t->v[i - 1].end || t->v[i].len < 2)
        return false;
    const char *word = stet_token_word(t, i);
    return (word[0] == '\'' || strcmp(word, "n't") == 0) &&
           in_word(utf8_last_glyph(stet_token_word(t, i - 1), t->v[i - 1].len).class);
}

/* Letters only, and nothing that means more beside a quotation mark or in <br>. */
static bool is_plain(const char *word)
{
    const size_t n = strlen(word);
    for (size_t at = 0; at < n;) {
        const glyph g = utf8_glyph(word + at, n - at);
        if (g.class != CHAR_WORD || (g.code >= '0' && g.code <= '9'))
            return false;
        at += g.bytes;
    }
    return strcmp(word, "br") != 0;
}

/* What may change its meaning beside a number, a mark or an apostrophe. */
static bool joins(glyph g)
{
    return in_word(g.class) || g.class == CHAR_APOS || g.code == '.' || g.code == ',' ||
           g.code == '-' || g.code == '<' || g.code == '/';
}

/* Put a space at the end of `b` if s[0..n), which comes next, would run into it; `plain`: neither is
 * an odd word. */
static void keep_apart(buf *b, const char *s, size_t n, bool plain)
{
    if (b->n == 0 || n == 0)
        return;
    if (!plain && joins(utf8_last_glyph(b->data, b->n)) && joins(utf8_glyph(s, n))) {
        buf_char(b, ' ');
        return;
    }
    const bool quoted_clitic = utf8_last_glyph(b->data, b->n).class == CHAR_APOS && is_clitic(s, n);
    if (quoted_clitic || (would_be_continued(b->data, b->n) && would_continue(s, n)))
        buf_char(b, ' ');
}

stet_status stet_text_rebuild(const char *text, size_t len, const stet_tokens *t, const size_t *at,
                              const char *const *with, size_t n, char **out)
{
    *out = NULL;
    for (size_t k = 0; k < n; k++)
        if (at[k] >= t->n || (k > 0 && at[k] <= at[k - 1]) || t->v[at[k]].end > len)
            return error_set(STET_EUSAGE,
                             "token %zu of %zu: positions must ascend and be of this text", at[k],
                             t->n);
    buf b = {0};
    size_t done = 0; /* bytes of the text dealt with */
    for (size_t k = 0; k <= n; k++) {
        const size_t next = k < n ? t->v[at[k]].start : len;
        const bool plain = k == 0 || is_plain(with[k - 1]);
        if (k > 0 && !(plain && is_attached(t, at[k - 1] + 1)))
            keep_apart(&b, text + done, next - done, plain);
        buf_bytes(&b, text + done, next - done);
        if (k == n)
            break;
        done = t->v[at[k]].end;
        keep_apart(&b, with[k], strlen(with[k]), is_plain(with[k]));
        append_in_case(&b, with[k], pattern_of(text + next, done - next));
    }
    *out = buf_take(&b);
    return *out ? STET_OK : STET_ENOMEM;
}
