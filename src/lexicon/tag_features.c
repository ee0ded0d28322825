/* lexicon/tag_features.c - see tag_features.h. */
#include "lexicon/tag_features.h"

#include <string.h>

#include "base/strmap.h"
#include "text/utf8.h"

typedef struct template_part {
    tag_piece piece;
    int at; /* 0 this word, -1 the one before, ... */
} template_part;

typedef struct tag_template {
    const char *name;
    size_t n;
    template_part part[3];
} tag_template;

/* The first 14 are those of NLTK's tagger, in its order, with the names of its files. */
static const tag_template templates[TAG_TEMPLATES] = {
    {"bias", 0, {{0}}},
    {"i suffix", 1, {{PIECE_SUFFIX3, 0}}},
    {"i pref1", 1, {{PIECE_PREFIX1, 0}}},
    {"i-1 tag", 1, {{PIECE_TAG, -1}}},
    {"i-2 tag", 1, {{PIECE_TAG, -2}}},
    {"i tag+i-2 tag", 2, {{PIECE_TAG, -1}, {PIECE_TAG, -2}}},
    {"i word", 1, {{PIECE_PLAIN, 0}}},
    {"i-1 tag+i word", 2, {{PIECE_TAG, -1}, {PIECE_PLAIN, 0}}},
    {"i-1 word", 1, {{PIECE_PLAIN, -1}}},
    {"i-1 suffix", 1, {{PIECE_PLAIN_SUFFIX3, -1}}},
    {"i-2 word", 1, {{PIECE_PLAIN, -2}}},
    {"i+1 word", 1, {{PIECE_PLAIN, 1}}},
    {"i+1 suffix", 1, {{PIECE_PLAIN_SUFFIX3, 1}}},
    {"i+2 word", 1, {{PIECE_PLAIN, 2}}},
    /* ours */
    {"i exact", 1, {{PIECE_EXACT, 0}}},
    {"i suffix1", 1, {{PIECE_SUFFIX1, 0}}},
    {"i suffix2", 1, {{PIECE_SUFFIX2, 0}}},
    {"i suffix4", 1, {{PIECE_SUFFIX4, 0}}},
    {"i suffix5", 1, {{PIECE_SUFFIX5, 0}}},
    {"i pref2", 1, {{PIECE_PREFIX2, 0}}},
    {"i pref3", 1, {{PIECE_PREFIX3, 0}}},
    {"i pref4", 1, {{PIECE_PREFIX4, 0}}},
    {"i shape", 1, {{PIECE_SHAPE, 0}}},
    {"i-1 shape+i shape", 2, {{PIECE_SHAPE, -1}, {PIECE_SHAPE, 0}}},
    {"i shape+i+1 shape", 2, {{PIECE_SHAPE, 0}, {PIECE_SHAPE, 1}}},
    {"i-1 word+i word", 2, {{PIECE_PLAIN, -1}, {PIECE_PLAIN, 0}}},
    {"i word+i+1 word", 2, {{PIECE_PLAIN, 0}, {PIECE_PLAIN, 1}}},
    {"i-1 word+i+1 word", 2, {{PIECE_PLAIN, -1}, {PIECE_PLAIN, 1}}},
    {"i-2 tag+i-1 tag+i word", 3, {{PIECE_TAG, -2}, {PIECE_TAG, -1}, {PIECE_PLAIN, 0}}},
    {"i suffix+i+1 suffix", 2, {{PIECE_SUFFIX3, 0}, {PIECE_PLAIN_SUFFIX3, 1}}},
    {"i shape+i suffix", 2, {{PIECE_SHAPE, 0}, {PIECE_SUFFIX3, 0}}},
};

tag_value tag_value_of(const char *text, size_t len)
{
    return (tag_value){text, len, hash_bytes(text, len, 0)};
}

/* ---- pieces -------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* The first `n` characters of a word. */
static tag_value prefix(const char *s, size_t len, size_t n)
{
    size_t bytes = 0;
    for (; n && bytes < len; n--) {
        do
            bytes++;
        while (bytes < len && is_continuation(s[bytes]));
    }
    return tag_value_of(s, bytes);
}

static tag_value suffix(const char *s, size_t len, size_t n)
{
    size_t start = len;
    for (; n && start; n--) {
        do
            start--;
        while (start && is_continuation(s[start]));
    }
    return tag_value_of(s + start, len - start);
}

size_t tag_lower(const char *s, size_t len, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < len;) {
        int32_t code;
        char bytes[4];
        i += utf8_code(s + i, len - i, &code);
        const size_t size = utf8_put(utf8_lower(code), bytes);
        if (n + size > TAG_WORD_MAX)
            break;
        memcpy(out + n, bytes, size);
        n += size;
    }
    return n;
}

static tag_value plain_form(const char *s, size_t len, char *store)
{
    const bool number = len && is_digit(s[0]);
    if (len && s[0] != '-' && memchr(s, '-', len))
        return tag_value_of("!HYPHEN", 7);
    if (number && len == 4 && is_digit(s[1]) && is_digit(s[2]) && is_digit(s[3]))
        return tag_value_of("!YEAR", 5);
    if (number)
        return tag_value_of("!DIGITS", 7);
    return tag_value_of(store, tag_lower(s, len, store));
}

/* X upper case, x other letters, d digits, the rest as it is; runs are cut to two. */
static tag_value shape_of(const char *s, size_t len, char *store)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        const char c = s[i] >= 'A' && s[i] <= 'Z'                      ? 'X'
                       : (s[i] >= 'a' && s[i] <= 'z') || (s[i] & 0x80) ? 'x'
                       : is_digit(s[i])                                ? 'd'
                                                                       : s[i];
        if (n < 2 || store[n - 1] != c || store[n - 2] != c)
            store[n++] = c;
    }
    return tag_value_of(store, n);
}

static void fill_word(tag_word *w, const char *s, size_t len)
{
    if (len > TAG_WORD_MAX) {
        len = TAG_WORD_MAX;
        while (len && is_continuation(s[len]))
            len--;
    }
    tag_value *p = w->piece;
    p[PIECE_PLAIN] = plain_form(s, len, w->plain);
    p[PIECE_PLAIN_SUFFIX3] = suffix(p[PIECE_PLAIN].text, p[PIECE_PLAIN].len, 3);
    p[PIECE_EXACT] = tag_value_of(s, len);
    for (size_t k = 1; k <= 5; k++)
        p[PIECE_SUFFIX1 + k - 1] = suffix(s, len, k);
    for (size_t k = 1; k <= 4; k++)
        p[PIECE_PREFIX1 + k - 1] = prefix(s, len, k);
    p[PIECE_SHAPE] = shape_of(s, len, w->shape);
}

/* A place beyond the sentence: all its pieces come from its name, which stays in capitals. */
static void fill_pad(tag_word *w, const char *name)
{
    const tag_value v = tag_value_of(name, strlen(name));
    for (size_t k = 0; k < PIECE_COUNT; k++)
        w->piece[k] = v;
    w->piece[PIECE_PLAIN_SUFFIX3] = suffix(name, v.len, 3);
}

/* ---- the window ---------------------------------------------------------------------------- */

static const char *const start_pads[TAG_REACH] = {"-START-", "-START2-"};
static const char *const end_pads[TAG_REACH] = {"-END-", "-END2-"};

/* Word `i` of the sentence, or the pad that stands there. */
static void fill(tag_window *w, tag_word *slot, size_t i)
{
    if (i < w->n)
        fill_word(slot, w->words[i], strlen(w->words[i]));
    else if (i - w->n < TAG_REACH)
        fill_pad(slot, end_pads[i - w->n]);
}

void tag_window_start(tag_window *w, const char *const *words, size_t n)
{
    w->words = words;
    w->n = n;
    w->i = 0;
    for (size_t k = 0; k < 2 * TAG_REACH + 1; k++) {
        w->at[k] = &w->slots[k];
        if (k < TAG_REACH)
            fill_pad(w->at[k], start_pads[k]);
        else
            fill(w, w->at[k], k - TAG_REACH);
    }
    for (size_t k = 0; k < TAG_REACH; k++)
        w->tag[k] = tag_value_of(start_pads[k], strlen(start_pads[k]));
}

void tag_window_next(tag_window *w, tag_value tag)
{
    tag_word *oldest = w->at[0];
    memmove(w->at, w->at + 1, 2 * TAG_REACH * sizeof *w->at);
    w->at[2 * TAG_REACH] = oldest;
    w->i++;
    fill(w, oldest, w->i + TAG_REACH);
    w->tag[1] = w->tag[0];
    w->tag[0] = tag;
}

/* ---- features ------------------------------------------------------------------------------ */

static inline const tag_value *value_of(const tag_window *w, template_part p)
{
    return p.piece == PIECE_TAG ? &w->tag[-1 - p.at] : &w->at[TAG_REACH + p.at]->piece[p.piece];
}

static inline uint64_t hash_start(size_t t)
{
    return (t + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline uint64_t hash_join(uint64_t h, uint64_t piece)
{
    h = (h ^ piece) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

static inline uint64_t hash_end(uint64_t h)
{
    return h ? h : 1; /* 0 marks a free slot */
}

uint64_t tag_feature_hash(const tag_window *w, size_t t)
{
    const tag_template *form = &templates[t];
    uint64_t h = hash_start(t);
    for (size_t k = 0; k < form->n; k++)
        h = hash_join(h, value_of(w, form->part[k])->hash);
    return hash_end(h);
}

void tag_feature_text(const tag_window *w, size_t t, buf *out)
{
    const tag_template *form = &templates[t];
    buf_str(out, form->name);
    for (size_t k = 0; k < form->n; k++) {
        const tag_value *v = value_of(w, form->part[k]);
        buf_char(out, ' ');
        buf_bytes(out, v->text, v->len);
    }
}

/* All pieces but the last end at the next space; the last is the rest, spaces included. */
static bool hash_text(const char *p, const char *end, size_t t, uint64_t *hash)
{
    uint64_t h = hash_start(t);
    for (size_t k = templates[t].n; k > 0; k--) {
        if (p == end || *p++ != ' ')
            return false;
        const char *space = k > 1 ? memchr(p, ' ', (size_t)(end - p)) : NULL;
        const char *stop = space ? space : end;
        h = hash_join(h, hash_bytes(p, (size_t)(stop - p), 0));
        p = stop;
    }
    *hash = hash_end(h);
    return p == end;
}

bool tag_feature_parse(const char *text, size_t len, size_t *t, uint64_t *hash)
{
    for (size_t k = 0; k < TAG_TEMPLATES; k++) {
        const size_t n = strlen(templates[k].name);
        if (n <= len && memcmp(text, templates[k].name, n) == 0 &&
            hash_text(text + n, text + len, k, hash)) {
            *t = k;
            return true;
        }
    }
    return false;
}
