/* verify/ver_reader.c - does a string read as one word, and as itself?
 *
 * A certificate speaks of words; what a person types is a string. A word that the model's tokeniser
 * cuts apart, folds or drops stands in no text as it is written, and a claim about it is a claim about
 * nothing. These are the tokenisers of docs/formats.md, asked this one question. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "verify/ver_impl.h"

enum { LONGEST = 128 }; /* characters of a word */

typedef struct letters {
    int32_t code[LONGEST + 1]; /* 0 at the end */
    size_t n;
} letters;

/* Strict UTF-8, nothing that lower case changes. */
static bool read_letters(const char *word, letters *out)
{
    *out = (letters){0};
    size_t left = strlen(word);
    while (left > 0) {
        const utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)word,
                                                    (utf8proc_ssize_t)left, &out->code[out->n]);
        if (n <= 0 || out->n == LONGEST || utf8proc_tolower(out->code[out->n]) != out->code[out->n])
            return false;
        out->n++;
        word += n;
        left -= (size_t)n;
    }
    out->code[out->n] = 0;
    return out->n > 0;
}

typedef enum sort { LETTER, MARK, OTHER, NOTHING } sort; /* NOTHING: space, control, invisible */

static bool is_digit(int32_t c)
{
    return c >= '0' && c <= '9';
}

static sort sort_of(int32_t c)
{
    /* read as plain quotes and dashes: never as themselves */
    static const int32_t folded[] = {'`',    0xb4,   0x2bc,  0x2018, 0x2019, 0x201b,
                                     0x201c, 0x201d, 0x201e, 0x201f, 0x2026};
    for (size_t i = 0; i < sizeof folded / sizeof *folded; i++)
        if (c == folded[i])
            return NOTHING;
    if (c < 0x80)
        return is_digit(c) || (c >= 'a' && c <= 'z') ? LETTER
               : c <= ' ' || c == 0x7f               ? NOTHING
                                                     : OTHER;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
        return LETTER;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
        return MARK;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
        return NOTHING;
    default:
        return OTHER;
    }
}

static bool is_one_of(const char *word, const char *const *list)
{
    while (*list && strcmp(*list, word) != 0)
        list++;
    return *list;
}

/* 7.5 and 1,000: groups of digits with one dot or comma between them. */
static bool is_number(const letters *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (!is_digit(w->code[i]) && !((w->code[i] == '.' || w->code[i] == ',') && i > 0 &&
                                       is_digit(w->code[i - 1]) && is_digit(w->code[i + 1])))
            return false;
    return true;
}

/* Does the word end in a contraction, which is cut off? It's, I'd, don't, but not o'brien. */
static bool is_contracted(const letters *w, size_t apostrophe)
{
    const int32_t *tail = w->code + apostrophe + 1;
    const size_t n = w->n - apostrophe - 1;
    if (n == 1 && (tail[0] == 's' || tail[0] == 'd' || tail[0] == 'm'))
        return true;
    if (n == 2 && ((tail[0] == 'r' && tail[1] == 'e') || (tail[0] == 'v' && tail[1] == 'e') ||
                   (tail[0] == 'l' && tail[1] == 'l')))
        return true;
    return n == 1 && tail[0] == 't' && apostrophe >= 2 && w->code[apostrophe - 1] == 'n' &&
           w->code[apostrophe - 2] != '\'' && !is_digit(w->code[apostrophe - 2]);
}

/* Letters, marks after them, apostrophes between letters; composed. */
static bool is_plain_word(const char *word, const letters *w)
{
    size_t last = 0;
    bool marks = false;
    for (size_t i = 0; i < w->n; i++) {
        const sort s = sort_of(w->code[i]);
        const bool apostrophe = w->code[i] == '\'';
        if (apostrophe ? i == 0 || sort_of(w->code[i + 1]) != LETTER
                       : s != LETTER && (s != MARK || i == 0))
            return false;
        last = apostrophe ? i : last;
        marks = marks || s == MARK;
    }
    if (last > 0 && is_contracted(w, last))
        return false;
    if (!marks)
        return true;
    utf8proc_uint8_t *composed = utf8proc_NFC((const utf8proc_uint8_t *)word);
    const bool same = composed && strcmp((const char *)composed, word) == 0;
    free(composed);
    return same;
}

static bool by_word(const char *word)
{
    static const char *const pieces[] = {"'s",  "'d", "'m",  "'re", "'ve", "'ll",
                                         "n't", "'",  "...", "--",  NULL};
    letters w;
    if (!read_letters(word, &w))
        return false;
    if (is_one_of(word, pieces))
        return true;
    if (w.n == 1 && sort_of(w.code[0]) == OTHER)
        return true;
    return is_plain_word(word, &w) || is_number(&w);
}

/* Split at white space and this punctuation, lower case, nothing else. */
static bool by_keras(const char *word)
{
    letters w;
    return read_letters(word, &w) && !strpbrk(word, " \t\n\v\f\r!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~");
}

stet_status ver_reader_find(const char *name, ver_reader **out)
{
    if (strcmp(name, "word") != 0 && strcmp(name, "keras") != 0)
        return error_set(STET_EFORMAT, "config.json: cannot check words of the tokenizer '%.40s'",
                         name);
    *out = strcmp(name, "word") == 0 ? by_word : by_keras;
    return STET_OK;
}
