/* text/tokenize_word.c - words the way GloVe's vocabulary has them.
 *
 * - Lower case; <br> and white space dropped; letters and digits make words, everything else is a
 *   token of its own, except that dots and dashes in a row make one ("...", "--").
 * - Contractions are split as in the Penn Treebank: do n't, ca n't, it 's, should n't 've. Other
 *   apostrophes between letters stay: o'brien.
 * - Hyphens split: "mind-numbing" is mind - numbing. GloVe has vectors for the parts of nearly all
 *   compounds and for few of the whole: so 99.6 % of IMDB's tokens are known, else 99.3 %.
 * - 7.5 and 1,000 stay whole; 10/10 does not.
 *
 * What a character does depends only on its neighbours, so tokens joined by spaces give the same
 * tokens again, and replacing one word leaves the others as they were. */
#include "text/tokens.h"

#include <string.h>

#include "text/utf8.h"

typedef struct lexer {
    const char *text;
    size_t len;
    stet_tokens *out;
} lexer;

typedef struct word_scan {
    size_t end;
    bool apostrophes, ascii, marks; /* what is in it */
} word_scan;

/* An ASCII letter or digit, by one bit each. */
static inline bool word_byte(char c)
{
    static const uint64_t bits[4] = {UINT64_C(0x03ff000000000000), UINT64_C(0x07fffffe07fffffe)};
    return bits[(unsigned char)c >> 6] >> ((unsigned char)c & 63) & 1;
}

static inline bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static char_class class_at(const lexer *l, size_t at)
{
    return at < l->len ? utf8_glyph(l->text + at, l->len - at).class : CHAR_SPACE;
}

/* ---- normalised forms --------------------------------------------------------------------- */

static inline stet_status add_ascii(lexer *l, size_t start, size_t end)
{
    TRY(tokens_room(l->out, end - start));
    char *form = tokens_form(l->out);
    for (size_t i = start; i < end; i++)
        form[i - start] = l->text[i] == '`' ? '\'' : ascii_lower(l->text[i]);
    tokens_push(l->out, start, end, end - start);
    return STET_OK;
}

static stet_status add_unicode(lexer *l, size_t start, size_t end, bool compose)
{
    const size_t room = FORM_GROWTH * (end - start);
    TRY(tokens_room(l->out, room));
    char *form = tokens_form(l->out);
    size_t len = 0;
    for (size_t at = start; at < end;) {
        const glyph g = utf8_glyph(l->text + at, end - at);
        at += g.bytes;
        if (g.class == CHAR_APOS)
            form[len++] = '\'';
        else if (g.class != CHAR_SKIP)
            len += utf8_put(utf8_lower(g.code), form + len);
    }
    if (compose)
        len = utf8_compose(form, len, room);
    tokens_push(l->out, start, end, len);
    return STET_OK;
}

static stet_status add_as(lexer *l, size_t start, size_t end, const char *word)
{
    const size_t len = strlen(word);
    TRY(tokens_room(l->out, len));
    memcpy(tokens_form(l->out), word, len);
    tokens_push(l->out, start, end, len);
    return STET_OK;
}

/* ---- words -------------------------------------------------------------------------------- */

static word_scan scan_word(const lexer *l, size_t start)
{
    word_scan w = {.end = start, .ascii = true};
    for (;;) {
        while (w.end < l->len && word_byte(l->text[w.end]))
            w.end++;
        if (w.end == l->len)
            return w;
        const char c = l->text[w.end];
        if ((signed char)c >= 0 && c != '\'' && c != '`')
            return w;
        const glyph g = utf8_glyph(l->text + w.end, l->len - w.end);
        if (g.class == CHAR_APOS ? class_at(l, w.end + g.bytes) != CHAR_WORD : !in_word(g.class))
            return w;
        w.apostrophes = w.apostrophes || g.class == CHAR_APOS;
        w.ascii = w.ascii && g.bytes == 1;
        w.marks = w.marks || g.class == CHAR_MARK;
        w.end += g.bytes;
    }
}

/* The last visible character of text[start, *end); *end moves in front of it. */
static glyph step_back(const lexer *l, size_t start, size_t *end)
{
    glyph g = {.class = CHAR_SKIP};
    while (*end > start && g.class == CHAR_SKIP) {
        g = utf8_last_glyph(l->text + start, *end - start);
        *end -= g.bytes;
    }
    return g;
}

/* Where the contraction at the end of the word text[start, end) begins; `end` if there is none. */
static size_t contraction(const lexer *l, size_t start, size_t end)
{
    char tail[2] = {0};
    size_t n = 0, at = end;
    glyph g;
    while ((g = step_back(l, start, &at)).class != CHAR_APOS) {
        if (at == start || n == 2 || g.bytes != 1)
            return end;
        tail[1] = tail[0];
        tail[0] = ascii_lower((char)g.code);
        n++;
    }
    if (is_clitic(tail, n))
        return at;
    if (n != 1 || tail[0] != 't' || (g = step_back(l, start, &at), g.code != 'n' && g.code != 'N'))
        return end;
    size_t before = at; /* x'n't is no x' with n't, and 5n't no 5 with n't */
    g = step_back(l, start, &before);
    return g.class == CHAR_APOS || (g.code >= '0' && g.code <= '9') ? end : at;
}

/* The end of the word without its contractions, which may be its start. */
static size_t stem_end(const lexer *l, size_t start, size_t end)
{
    for (size_t cut; (cut = contraction(l, start, end)) < end;)
        end = cut;
    return end;
}

/* The end of the first of the contractions text[start, end): where the next one begins. */
static size_t contraction_end(const lexer *l, size_t start, size_t end)
{
    bool own = false; /* passed its own apostrophe? */
    for (size_t at = start; at < end;) {
        const glyph g = utf8_glyph(l->text + at, end - at);
        if (g.class == CHAR_APOS && own) {
            if (ascii_lower(l->text[at + g.bytes]) == 't') /* n't begins before its apostrophe */
                step_back(l, start, &at);
            return at;
        }
        own = own || g.class == CHAR_APOS;
        at += g.bytes;
    }
    return end;
}

/* The end of two or more groups of digits joined by single dots or commas, or `start`. A group that
 * a letter follows is not taken: 1,000.5x is 1,000 . 5x. */
static size_t number_end(const lexer *l, size_t start)
{
    size_t at = start, end = start;
    for (int groups = 1;; groups++) {
        while (at < l->len && digit(l->text[at]))
            at++;
        if (in_word(class_at(l, at)))
            break;
        if (groups > 1)
            end = at;
        if (at + 1 >= l->len || (l->text[at] != '.' && l->text[at] != ',') ||
            !digit(l->text[at + 1]))
            break;
        at++;
    }
    return end;
}

static stet_status add_part(lexer *l, const word_scan *w, size_t start, size_t end)
{
    return w->ascii ? add_ascii(l, start, end) : add_unicode(l, start, end, w->marks);
}

static stet_status lex_word(lexer *l, size_t start, size_t *next)
{
    *next = digit(l->text[start]) ? number_end(l, start) : start;
    if (*next > start)
        return add_ascii(l, start, *next);
    const word_scan w = scan_word(l, start);
    const size_t stem = w.apostrophes ? stem_end(l, start, w.end) : w.end;
    *next = w.end;
    if (stem > start)
        TRY(add_part(l, &w, start, stem));
    for (size_t from = stem, to; from < w.end; from = to) {
        to = contraction_end(l, from, w.end);
        TRY(add_part(l, &w, from, to));
    }
    return STET_OK;
}

/* ---- punctuation -------------------------------------------------------------------------- */

size_t break_tag(const char *s, size_t n)
{
    const char *p = s + 1, *const end = s + n;
    if (p < end && *p == '/')
        p++;
    if (end - p < 3 || ascii_lower(p[0]) != 'b' || ascii_lower(p[1]) != 'r')
        return 0;
    for (p += 2; p < end && (*p == ' ' || *p == '/'); p++) {
    }
    return p < end && *p == '>' ? (size_t)(p + 1 - s) : 0;
}

/* An apostrophe with no letter before it: half of a '' or `` that treebanks write for ", the start
 * of a contraction split off by somebody else ("it 's"), or a quotation mark. */
static stet_status lex_apostrophe(lexer *l, size_t start, size_t bytes, size_t *next)
{
    const size_t after = start + bytes;
    *next = after;
    if (after < l->len) {
        const glyph g = utf8_glyph(l->text + after, l->len - after);
        if (g.class == CHAR_APOS) {
            *next = after + g.bytes;
            return add_as(l, start, *next, "\"");
        }
    }
    const size_t end =
        class_at(l, after) == CHAR_WORD ? stem_end(l, after, scan_word(l, after).end) : after;
    if (!is_clitic(l->text + after, end - after))
        return add_as(l, start, after, "'");
    *next = end;
    return bytes == 1 ? add_ascii(l, start, end) : add_unicode(l, start, end, false);
}

static stet_status lex_run(lexer *l, size_t start, const char *word, size_t *next)
{
    size_t end = start;
    while (end < l->len && l->text[end] == *word)
        end++;
    *next = end;
    return end - start == 1 ? add_ascii(l, start, end) : add_as(l, start, end, word);
}

static stet_status lex_token(lexer *l, size_t at, size_t *next)
{
    const char c = l->text[at];
    if (word_byte(c))
        return lex_word(l, at, next);
    if (c == '.')
        return lex_run(l, at, "...", next);
    if (c == '-')
        return lex_run(l, at, "--", next);
    const size_t tag = c == '<' ? break_tag(l->text + at, l->len - at) : 0;
    if (tag) {
        *next = at + tag;
        return STET_OK;
    }
    const glyph g = utf8_glyph(l->text + at, l->len - at);
    *next = at + g.bytes;
    switch (g.class) {
    case CHAR_WORD:
        return lex_word(l, at, next);
    case CHAR_APOS:
        return lex_apostrophe(l, at, g.bytes, next);
    case CHAR_OTHER:
        return g.code == 0x2026 ? add_as(l, at, *next, "...") : add_unicode(l, at, *next, false);
    default:
        return STET_OK;
    }
}

stet_status tokenize_word(const char *text, size_t len, stet_tokens *out)
{
    lexer l = {text, len, out};
    for (size_t at = 0, next; at < len; at = next) {
        next = at + 1;
        if (text[at] != ' ')
            TRY(lex_token(&l, at, &next));
    }
    return STET_OK;
}
