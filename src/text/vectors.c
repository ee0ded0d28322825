/* text/vectors.c - tables of word vectors: rows, claims, and the public loaders. */
#include "text/vectors.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "text/utf8.h"

stet_status vectors_init(stet_vectors *t, size_t n, size_t dim)
{
    size_t size;
    *t = (stet_vectors){.n = n, .dim = dim};
    if (!size_mul(n, dim, &size))
        return error_set(STET_ENOMEM, "%zu vectors of %zu numbers do not fit in memory", n, dim);
    t->data = mem_aligned(size, sizeof *t->data);
    t->known = mem_zalloc(n, 1);
    if (!t->data || !t->known) {
        stet_vectors_deinit(t);
        return STET_ENOMEM;
    }
    memset(t->data, 0, size * sizeof *t->data);
    return STET_OK;
}

void stet_vectors_deinit(stet_vectors *t)
{
    mem_free_aligned(t->data);
    mem_free(t->known);
    *t = (stet_vectors){0};
}

void vectors_fill_unknown(stet_vectors *t)
{
    enum { BAND = 16 }; /* columns at a time: a cache line of each row */
    for (size_t k = 0; t->n_known > 0 && k < t->dim; k += BAND) {
        const size_t width = t->dim - k < BAND ? t->dim - k : BAND;
        double sum[BAND] = {0};
        for (size_t i = STET_FIRST_WORD; i < t->n; i++) /* unknown rows are zero */
            for (size_t b = 0; b < width; b++)
                sum[b] += (double)t->data[i * t->dim + k + b];
        for (size_t b = 0; b < width; b++)
            t->data[STET_UNK * t->dim + k + b] = (float)(sum[b] / (double)t->n_known);
    }
}

/* ---- claims ------------------------------------------------------------------------------- */

/* Words that a vocabulary cannot hold get no row. */
static bool is_proper(const char *word, size_t len)
{
    const bool reserved =
        len == 5 && (memcmp(word, "<pad>", 5) == 0 || memcmp(word, "<unk>", 5) == 0);
    return !reserved && word[len - 1] != '\r' && utf8_check(word, len) == len;
}

bool vec_table_wants(const vec_table *tab, const char *word, size_t len)
{
    if (!tab->vocab)
        return is_proper(word, len) && strmap_find(tab->words, word, len) == STRMAP_NONE;
    const uint32_t id = stet_vocab_id(tab->vocab, word, len);
    return id >= STET_FIRST_WORD && !tab->t->known[id];
}

/* Make room for row `n - 1`; new rows are not cleared, because a vector follows. */
static stet_status grow_rows(vec_table *tab, size_t n)
{
    if (n <= tab->rows)
        return STET_OK;
    stet_vectors *const t = tab->t, bigger = {.dim = t->dim};
    const size_t rows = n + n / 2;
    TRY(vectors_init(&bigger, rows, t->dim));
    memcpy(bigger.data, t->data, t->n * t->dim * sizeof *t->data);
    memcpy(bigger.known, t->known, t->n);
    mem_free_aligned(t->data);
    mem_free(t->known);
    t->data = bigger.data;
    t->known = bigger.known;
    tab->rows = rows;
    return STET_OK;
}

stet_status vec_table_claim(vec_table *tab, const char *word, size_t len, size_t *row)
{
    *row = VEC_NO_ROW;
    if (!vec_table_wants(tab, word, len))
        return STET_OK;
    stet_vectors *const t = tab->t;
    size_t id;
    if (tab->vocab) {
        id = stet_vocab_id(tab->vocab, word, len);
    } else {
        TRY(strmap_add(tab->words, word, len, NULL));
        id = STET_FIRST_WORD + tab->words->n - 1;
        TRY(grow_rows(tab, id + 1));
        t->n = id + 1;
    }
    t->known[id] = 1;
    t->n_known++;
    *row = id;
    return STET_OK;
}

const char *vec_table_word(const vec_table *tab, size_t row)
{
    return tab->vocab ? stet_vocab_word(tab->vocab, (uint32_t)row)
                      : strmap_text(tab->words, (uint32_t)(row - STET_FIRST_WORD));
}

bool vec_table_full(const vec_table *tab)
{
    return tab->vocab && tab->t->n_known == tab->n_wanted;
}

stet_status vec_table_set_dim(vec_table *tab, const char *path, size_t dim)
{
    if (tab->first_path && dim != tab->t->dim)
        return error_set(STET_EFORMAT, "%s: vectors have %zu numbers, but those of %s have %zu",
                         path, dim, tab->first_path, tab->t->dim);
    if (tab->first_path)
        return STET_OK;
    tab->first_path = path;
    tab->rows = tab->vocab ? stet_vocab_size(tab->vocab) : STET_FIRST_WORD;
    return vectors_init(tab->t, tab->rows, dim);
}

/* ---- loading ------------------------------------------------------------------------------ */

static stet_status load_files(const char *const *paths, size_t n_paths, vec_table *tab)
{
    if (n_paths == 0)
        return error_set(STET_EUSAGE, "no file of word vectors was given");
    for (size_t i = 0; i < n_paths; i++)
        TRY(vectors_read(paths[i], tab));
    vectors_fill_unknown(tab->t);
    return STET_OK;
}

stet_status stet_vectors_load(const char *const *paths, size_t n_paths, const stet_vocab *v,
                              stet_vectors *out)
{
    *out = (stet_vectors){0};
    vec_table tab = {.t = out, .vocab = v, .n_wanted = stet_vocab_size(v) - STET_FIRST_WORD};
    for (uint32_t id = STET_FIRST_WORD; id < stet_vocab_size(v) && !tab.spaced; id++)
        tab.spaced = strpbrk(stet_vocab_word(v, id), " \t") != NULL;
    const stet_status st = load_files(paths, n_paths, &tab);
    if (st != STET_OK) {
        stet_vectors_deinit(out);
        return st;
    }
    if (out->n_known == 0 && tab.n_wanted > 0)
        log_warn("%s: none of the %zu words asked for has a vector", paths[0], tab.n_wanted);
    return STET_OK;
}

static stet_status make_vocab(const strmap *words, stet_vocab **v)
{
    const char **list = mem_alloc(words->n + 1, sizeof *list);
    if (!list)
        return STET_ENOMEM;
    for (uint32_t i = 0; i < words->n; i++)
        list[i] = strmap_text(words, i);
    const stet_status st = stet_vocab_from_words(list, words->n, v);
    mem_free(list);
    return st;
}

stet_status stet_vectors_load_all(const char *const *paths, size_t n_paths, stet_vocab **v,
                                  stet_vectors *out)
{
    *v = NULL;
    *out = (stet_vectors){0};
    strmap words = {0};
    vec_table tab = {.t = out, .words = &words, .spaced = true};
    stet_status st = load_files(paths, n_paths, &tab);
    if (st == STET_OK)
        st = make_vocab(&words, v);
    if (st != STET_OK)
        stet_vectors_deinit(out);
    strmap_deinit(&words);
    return st;
}
