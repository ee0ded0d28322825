/* text/wordpiece.c - a vocabulary of pieces: see wordpiece.h. */
#include "text/wordpiece.h"

#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "text/utf8.h"

enum { FILE_MAX = 256 << 20 };
static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
enum { N_SPECIAL = sizeof special / sizeof *special, PAD = 0, UNKNOWN, BEGIN, END, MASK };

/* ---- making ------------------------------------------------------------------------------- */

static stet_status add_piece(wordpiece *w, const char *s, size_t len, bool *is_new)
{
    const size_t before = w->piece.n;
    uint32_t id, inner;
    TRY(strmap_add(&w->piece, s, len, &id));
    *is_new = w->piece.n > before;
    w->longest = len > w->longest ? len : w->longest;
    if (!*is_new || len < 3 || memcmp(s, "##", 2) != 0)
        return STET_OK;
    TRY(strmap_add(&w->inner, s + 2, len - 2, &inner));
    TRY(mem_grow(&w->inner_id, &w->cap_inner, (size_t)inner + 1, sizeof *w->inner_id));
    w->inner_id[inner] = id;
    return STET_OK;
}

static stet_status find_special(wordpiece *w, const char *what)
{
    uint32_t id[N_SPECIAL];
    for (size_t i = 0; i < N_SPECIAL; i++) {
        id[i] = strmap_find(&w->piece, special[i], strlen(special[i]));
        if (id[i] == STRMAP_NONE)
            return error_set(STET_EFORMAT, "%s: has no piece %s: not a vocabulary of BERT", what,
                             special[i]);
    }
    w->unknown = id[UNKNOWN];
    w->begin = id[BEGIN];
    w->end = id[END];
    w->pad = id[PAD];
    w->mask = id[MASK];
    return STET_OK;
}

static stet_status parse_lines(wordpiece *w, const char *what, const char *s, size_t size)
{
    size_t line = 1;
    for (size_t at = 0; at < size; line++) {
        const char *end = memchr(s + at, '\n', size - at);
        size_t n = end ? (size_t)(end - (s + at)) : size - at;
        const size_t whole = n;
        n -= n && s[at + n - 1] == '\r';
        if (n == 0 || memchr(s + at, '\0', n))
            return error_set(STET_EFORMAT, "%s:%zu: %s", what, line,
                             n ? "a piece with a NUL byte"
                               : "an empty line where a piece should be");
        bool is_new;
        TRY(add_piece(w, s + at, n, &is_new));
        if (!is_new)
            return error_set(STET_EFORMAT, "%s:%zu: the piece '%.*s' is there twice", what, line,
                             (int)(n < 100 ? n : 100), s + at);
        at += whole + 1;
    }
    return find_special(w, what);
}

stet_status wordpiece_parse(const char *what, const char *lines, size_t size, bool lower,
                            wordpiece *out)
{
    *out = (wordpiece){.lower = lower};
    const stet_status st = parse_lines(out, what, lines, size);
    if (st != STET_OK)
        wordpiece_deinit(out);
    return st;
}

stet_status wordpiece_load(const char *path, bool lower, wordpiece *out)
{
    char *data;
    size_t size;
    *out = (wordpiece){0};
    TRY(file_read_all(path, FILE_MAX, &data, &size));
    const stet_status st = wordpiece_parse(path, data, size, lower, out);
    mem_free(data);
    return st;
}

/* Each character alone and inside a word, so that every word can be spelt. */
static stet_status add_letters(wordpiece *w, const char *word)
{
    const size_t len = strlen(word);
    for (size_t at = 0; at < len;) {
        int32_t code;
        char s[8] = "##";
        bool is_new;
        const size_t n = utf8_code(word + at, len - at, &code);
        memcpy(s + 2, word + at, n);
        TRY(add_piece(w, s + 2, n, &is_new));
        TRY(add_piece(w, s, n + 2, &is_new));
        at += n;
    }
    return STET_OK;
}

static stet_status choose(wordpiece *w, const stet_counter *c, size_t most)
{
    bool is_new;
    for (size_t i = 0; i < N_SPECIAL; i++)
        TRY(add_piece(w, special[i], strlen(special[i]), &is_new));
    for (size_t i = 0; i < stet_counter_size(c); i++)
        TRY(add_letters(w, stet_counter_word(c, i)));
    stet_vocab *v; /* by falling count */
    TRY(stet_vocab_build(c, 2, 0, &v));
    stet_status st = STET_OK;
    for (size_t i = STET_FIRST_WORD; st == STET_OK && w->piece.n < most && i < stet_vocab_size(v);
         i++) {
        const char *word = stet_vocab_word(v, (uint32_t)i);
        st = add_piece(w, word, strlen(word), &is_new);
    }
    stet_vocab_free(v);
    return st == STET_OK ? find_special(w, "the vocabulary") : st;
}

stet_status wordpiece_from_counts(const stet_counter *c, size_t most, bool lower, wordpiece *out)
{
    *out = (wordpiece){.lower = lower};
    const stet_status st = choose(out, c, most);
    if (st != STET_OK)
        wordpiece_deinit(out);
    return st;
}

stet_status wordpiece_save(const wordpiece *w, const char *path)
{
    buf b = {0};
    for (uint32_t i = 0; i < w->piece.n; i++) {
        buf_bytes(&b, strmap_text(&w->piece, i), strmap_len(&w->piece, i));
        buf_char(&b, '\n');
    }
    stet_status st = buf_status(&b);
    if (st == STET_OK)
        st = file_write_all(path, b.data, b.n);
    buf_deinit(&b);
    return st;
}

void wordpiece_deinit(wordpiece *w)
{
    strmap_deinit(&w->piece);
    strmap_deinit(&w->inner);
    mem_free(w->inner_id);
    *w = (wordpiece){0};
}

/* ---- words to pieces ---------------------------------------------------------------------- */

static size_t characters(const char *s, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)s[i] & 0xc0) != 0x80;
    return n;
}

/* The longest piece at the front of s[0..len), its bytes in *taken. */
static uint32_t longest_piece(const wordpiece *w, const char *s, size_t len, bool inner,
                              size_t *taken)
{
    for (size_t n = len < w->longest ? len : w->longest; n > 0; n--) {
        if (n < len && ((unsigned char)s[n] & 0xc0) == 0x80)
            continue; /* inside a character */
        const uint32_t at = strmap_find(inner ? &w->inner : &w->piece, s, n);
        *taken = n;
        if (at != STRMAP_NONE)
            return inner ? w->inner_id[at] : at;
    }
    return STRMAP_NONE;
}

size_t wordpiece_pieces(const wordpiece *w, const char *word, size_t len, uint32_t *out)
{
    size_t n = 0, taken = 0;
    bool whole = characters(word, len) <= WORDPIECE_MOST;
    for (size_t at = 0; whole && at < len; at += taken) {
        out[n] = longest_piece(w, word + at, len - at, at > 0, &taken);
        whole = out[n++] != STRMAP_NONE;
    }
    if (whole && n)
        return n;
    out[0] = w->unknown;
    return 1;
}
