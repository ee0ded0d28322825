/* bound/hulls.c - see hulls.h. */
#include "bound/hulls.h"

#include <string.h>

#include "base/mem.h"

/* ---- substitutes by vocabulary id --------------------------------------------------------- */

static stet_status add(word_sets *s, size_t *cap, uint32_t word, uint32_t id)
{
    uint32_t *n = &s->start[word + 1];
    if (id == word)
        return STET_OK;
    for (uint32_t k = s->start[word]; k < *n; k++)
        if (s->word[k] == id)
            return STET_OK;
    TRY(mem_grow(&s->word, cap, (size_t)*n + 1, sizeof *s->word));
    s->word[(*n)++] = id;
    return STET_OK;
}

stet_status word_sets_make(const stet_subst *s, const stet_vocab *v, word_sets *out)
{
    *out = (word_sets){.n_words = stet_vocab_size(v)};
    out->start = mem_zalloc(out->n_words + 1, sizeof *out->start);
    stet_status st = out->start ? STET_OK : STET_ENOMEM;
    size_t cap = 0;
    for (uint32_t w = 0; st == STET_OK && w < out->n_words; w++) {
        out->start[w + 1] = out->start[w];
        const char *text = stet_vocab_word(v, w);
        const uint32_t key =
            w < STET_FIRST_WORD ? UINT32_MAX : stet_subst_word_id(s, text, strlen(text));
        size_t n = 0;
        const uint32_t *alt = key == UINT32_MAX ? NULL : stet_subst_of(s, key, &n);
        for (size_t k = 0; st == STET_OK && k < n; k++) {
            const char *other = stet_subst_word(s, alt[k]);
            st = add(out, &cap, w, stet_vocab_id(v, other, strlen(other)));
        }
    }
    if (st != STET_OK)
        word_sets_deinit(out);
    return st;
}

/* The row of a word that is one known piece; UINT32_MAX: it is not. `rows` has room for any word. */
static uint32_t only_row(const word_reader *r, const char *word, uint32_t *rows)
{
    char text[256];
    const size_t n = reader_rows(r, word, strlen(word), rows);
    return n == 1 && r->spell(r, rows, 1, text, sizeof text) ? rows[0] : UINT32_MAX;
}

/* (n_words of the model): the word of the sets that is a row, or UINT32_MAX; `row` (words of the sets) is
 * the other way round. */
static void pair_rows(const stet_subst *s, const word_reader *r, size_t n_rows, uint32_t *word,
                      uint32_t *row, uint32_t *rows)
{
    for (size_t i = 0; i < n_rows; i++)
        word[i] = UINT32_MAX;
    for (uint32_t w = 0; w < stet_subst_words(s); w++) {
        row[w] = only_row(r, stet_subst_word(s, w), rows);
        if (row[w] != UINT32_MAX && word[row[w]] == UINT32_MAX)
            word[row[w]] = w;
    }
}

stet_status piece_sets_make(const stet_subst *s, const model *m, word_sets *out)
{
    const size_t n = stet_subst_words(s);
    *out = (word_sets){.n_words = m->n_words};
    out->start = mem_zalloc(out->n_words + 1, sizeof *out->start);
    uint32_t *word = mem_alloc(m->n_words + n + m->reader.most_rows, sizeof *word),
             *row = word ? word + m->n_words : NULL;
    stet_status st = out->start && word ? STET_OK : STET_ENOMEM;
    size_t cap = 0;
    if (st == STET_OK)
        pair_rows(s, &m->reader, m->n_words, word, row, row + n);
    for (uint32_t r = 0; st == STET_OK && r < out->n_words; r++) {
        size_t count = 0;
        const uint32_t *alt = word[r] == UINT32_MAX ? NULL : stet_subst_of(s, word[r], &count);
        out->start[r + 1] = out->start[r];
        for (size_t k = 0; st == STET_OK && k < count; k++)
            if (row[alt[k]] != UINT32_MAX)
                st = add(out, &cap, r, row[alt[k]]);
    }
    mem_free(word);
    if (st != STET_OK)
        word_sets_deinit(out);
    return st;
}

void word_sets_deinit(word_sets *s)
{
    mem_free(s->start);
    mem_free(s->word);
    *s = (word_sets){0};
}

/* ---- boxes -------------------------------------------------------------------------------- */

static void box_start(const model *m, uint32_t word, real *lo, real *hi)
{
    for (size_t j = 0; j < m->dim; j++)
        lo[j] = hi[j] = m->table[word * m->dim + j];
}

static void box_add(const model *m, uint32_t word, real *lo, real *hi)
{
    const real *x = m->table + word * m->dim;
    for (size_t j = 0; j < m->dim; j++) {
        lo[j] = x[j] < lo[j] ? x[j] : lo[j];
        hi[j] = x[j] > hi[j] ? x[j] : hi[j];
    }
}

void table_hull(const model *m, real *lo, real *hi)
{
    if (m->whole) {
        m->whole->desc->row_box(m->whole, lo, hi);
        return;
    }
    box_start(m, STET_UNK, lo, hi); /* no text holds <pad> */
    for (uint32_t w = STET_FIRST_WORD; w < m->n_words; w++)
        box_add(m, w, lo, hi);
}

void word_hull(const word_sets *s, const model *m, uint32_t word, real *lo, real *hi)
{
    box_start(m, word, lo, hi);
    for (uint32_t k = s->start[word]; k < s->start[word + 1]; k++)
        box_add(m, s->word[k], lo, hi);
}

void mean_deviation(const word_sets *s, const model *m, real *eta)
{
    memset(eta, 0, m->dim * sizeof *eta);
    size_t n = 0;
    for (uint32_t w = 0; w < s->n_words; w++)
        n += s->start[w + 1] > s->start[w];
    for (uint32_t w = 0; w < s->n_words; w++) {
        const real *x = m->table + w * m->dim;
        for (size_t j = 0; s->start[w + 1] > s->start[w] && j < m->dim; j++) {
            real far = 0;
            for (uint32_t k = s->start[w]; k < s->start[w + 1]; k++) {
                const real d = m->table[s->word[k] * m->dim + j] - x[j];
                far = d > far ? d : -d > far ? -d : far;
            }
            eta[j] += far / (real)n;
        }
    }
}
