/* text/utf8.h - characters as the tokenisers see them. */
#ifndef TEXT_UTF8_H
#define TEXT_UTF8_H

#include "base/error.h"

typedef enum char_class {
    CHAR_SPACE, /* also control characters */
    CHAR_WORD,  /* letters and decimal digits */
    CHAR_MARK,  /* combining: part of the word it follows, nothing alone */
    CHAR_SKIP,  /* invisible formatting: kept in spans, absent from normalised forms */
    CHAR_APOS,  /* apostrophes of every kind */
    CHAR_OTHER  /* a token of its own */
} char_class;

/* Is it part of the word that it follows? */
static inline bool in_word(char_class c)
{
    return c == CHAR_WORD || c == CHAR_MARK || c == CHAR_SKIP;
}

typedef struct glyph {
    int32_t code; /* after folding: typographic and Windows-1252 quotes, dashes */
    uint32_t bytes;
    char_class class;
} glyph;

/* The code point at s[0..n), n > 0, and its length. A byte that is not UTF-8 reads as U+FFFD. */
size_t utf8_code(const char *s, size_t n, int32_t *code);
/* The same, folded and classified. */
glyph utf8_glyph(const char *s, size_t n);
/* The last character of s[0..n), n > 0. */
glyph utf8_last_glyph(const char *s, size_t n);
int32_t utf8_lower(int32_t code);
int32_t utf8_upper(int32_t code);
size_t utf8_put(int32_t code, char *dst); /* up to 4 bytes */

/* Canonical composition (NFC) in place of s[0..n), up to `cap` bytes; gives the new length. Words
 * too long for the buffer inside are left as they are. */
size_t utf8_compose(char *s, size_t n, size_t cap);

/* Offset of the first byte that is NUL or not valid UTF-8; n if there is none. */
size_t utf8_check(const char *s, size_t n);

#endif
