/* text/words.c - see stet/words.h and text/words.h. */
#include "text/words.h"

#include <string.h>

#include "base/mem.h"
#include "base/strmap.h"

struct stet_words {
    const word_reader *r;
    const stet_words *under; /* of a fork; NULL: the vocabulary comes right below */
    uint32_t first;          /* id of `own` number 0 */
    strmap own;
    word_reader plain; /* of a program */
    stet_vocab *none;
};

/* ---- making ------------------------------------------------------------------------------- */

stet_status words_new(const word_reader *r, stet_words **out)
{
    *out = mem_zalloc(1, sizeof **out);
    if (!*out)
        return STET_ENOMEM;
    (*out)->r = r;
    (*out)->first = (uint32_t)stet_vocab_size(r->vocab);
    return STET_OK;
}

stet_status stet_words_new(stet_tokenizer kind, stet_words **out)
{
    *out = NULL;
    stet_vocab *none;
    TRY(stet_vocab_from_words(NULL, 0, &none));
    const word_reader plain = {
        .tokenizer = kind, .vocab = none, .max_len = SIZE_MAX, .most_rows = 1};
    const stet_status st = words_new(&plain, out);
    if (st != STET_OK) {
        stet_vocab_free(none);
        return st;
    }
    (*out)->plain = plain;
    (*out)->none = none;
    (*out)->r = &(*out)->plain;
    return STET_OK;
}

stet_status stet_words_fork(const stet_words *w, stet_words **out)
{
    TRY(words_new(w->r, out));
    (*out)->under = w;
    (*out)->first = (uint32_t)stet_words_size(w);
    return STET_OK;
}

void stet_words_free(stet_words *w)
{
    if (!w)
        return;
    strmap_deinit(&w->own);
    stet_vocab_free(w->none);
    mem_free(w);
}

void stet_words_forget(stet_words *w)
{
    if (w->own.n)
        strmap_deinit(&w->own);
}

/* ---- words and ids ------------------------------------------------------------------------ */

const word_reader *words_reader(const stet_words *w)
{
    return w->r;
}

size_t stet_words_size(const stet_words *w)
{
    return w->first + w->own.n;
}

uint32_t stet_words_find(const stet_words *w, const char *word, size_t len)
{
    const uint32_t known = stet_vocab_id(w->r->vocab, word, len);
    if (known != STET_UNK)
        return known;
    for (; w; w = w->under) {
        const uint32_t own = w->own.n ? strmap_find(&w->own, word, len) : STRMAP_NONE;
        if (own != STRMAP_NONE)
            return w->first + own;
    }
    return UINT32_MAX;
}

stet_status stet_words_add(stet_words *w, const char *word, size_t len, uint32_t *id)
{
    *id = stet_words_find(w, word, len);
    if (*id != UINT32_MAX)
        return STET_OK;
    TRY(strmap_add(&w->own, word, len, id));
    *id += w->first;
    return STET_OK;
}

const char *stet_words_word(const stet_words *w, uint32_t id)
{
    if (id < stet_vocab_size(w->r->vocab))
        return stet_vocab_word(w->r->vocab, id);
    while (id < w->first)
        w = w->under;
    return id - w->first < w->own.n ? strmap_text(&w->own, id - w->first) : NULL;
}

/* ---- reading ------------------------------------------------------------------------------ */

stet_status reader_cut(const word_reader *r, const char *text, size_t len, stet_tokens *out)
{
    return r->cut ? r->cut(r, text, len, out) : stet_tokenize(r->tokenizer, text, len, out);
}

stet_status stet_words_read(stet_words *w, const char *text, size_t len, stet_reading *out)
{
    out->text = (stet_str){text, len};
    out->n = 0;
    TRY(reader_cut(w->r, text, len, &out->tokens));
    const stet_tokens *t = &out->tokens;
    const size_t n = t->n < w->r->max_len ? t->n : w->r->max_len;
    TRY(mem_grow(&out->ids, &out->cap, n, sizeof *out->ids));
    for (size_t i = 0; i < n; i++)
        TRY(stet_words_add(w, stet_token_word(t, i), t->v[i].len, &out->ids[i]));
    out->n = n;
    return STET_OK;
}

void stet_reading_deinit(stet_reading *r)
{
    stet_tokens_deinit(&r->tokens);
    mem_free(r->ids);
    *r = (stet_reading){0};
}

stet_status reader_types(const word_reader *r, stet_tokens *scratch, const char *word, size_t len,
                         bool *yes)
{
    TRY(reader_cut(r, word, len, scratch));
    *yes = scratch->n == 1 && scratch->v[0].len == len &&
           memcmp(stet_token_word(scratch, 0), word, len) == 0;
    return STET_OK;
}

stet_status stet_words_typed(const stet_words *w, const char *word, size_t len, bool *yes)
{
    stet_tokens scratch = {0};
    const stet_status st = reader_types(w->r, &scratch, word, len, yes);
    stet_tokens_deinit(&scratch);
    return st;
}

/* ---- rows --------------------------------------------------------------------------------- */

size_t reader_rows(const word_reader *r, const char *word, size_t len, uint32_t *out)
{
    if (r->rows)
        return r->rows(r, word, len, out);
    out[0] = stet_vocab_id(r->vocab, word, len);
    return 1;
}

size_t reader_words(const word_reader *r, const uint32_t *rows, size_t n, uint32_t *at)
{
    size_t words = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || !r->begins || r->begins(r, rows[i]))
            at[words++] = (uint32_t)i;
    at[words] = (uint32_t)n;
    return words;
}

size_t words_rows(const stet_words *w, const uint32_t *ids, size_t n, uint32_t *out)
{
    const word_reader *r = w->r;
    const size_t known = stet_vocab_size(r->vocab);
    size_t made = 0;
    for (size_t i = 0; i < n; i++) {
        if (!r->rows) {
            out[made++] = ids[i] < known ? ids[i] : STET_UNK;
            continue;
        }
        const char *word = stet_words_word(w, ids[i]);
        made += r->rows(r, word, strlen(word), out + made);
    }
    return made;
}
