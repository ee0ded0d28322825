/* defense/set_words.c - see set_words.h. */
#include "defense/set_words.h"

#include <string.h>

#include "base/mem.h"

void set_words_deinit(set_words *w)
{
    stet_vocab_free(w->own);
    mem_free(w->row);
    mem_free(w->at);
    *w = (set_words){0};
}

static stet_status own_vocab(const stet_subst *s, stet_vocab **out)
{
    const size_t n = stet_subst_words(s);
    const char **words = mem_alloc(n + 1, sizeof *words);
    if (!words)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++)
        words[i] = stet_subst_word(s, (uint32_t)i);
    const stet_status st = stet_vocab_from_words(words, n, out);
    mem_free(words);
    return st;
}

stet_status set_words_make(const model *m, const stet_subst *s, set_words *out)
{
    *out = (set_words){.vocab = m->vocab, .longest = 1};
    if (!m->reader.rows)
        return STET_OK;
    stet_status st = own_vocab(s, &out->own);
    const size_t n = st == STET_OK ? stet_vocab_size(out->own) : 0;
    uint32_t *some = st == STET_OK ? mem_alloc(m->reader.most_rows, sizeof *some) : NULL;
    out->vocab = out->own;
    out->at = some ? mem_zalloc(n + 1, sizeof *out->at) : NULL;
    if (st == STET_OK && !out->at)
        st = STET_ENOMEM;
    size_t cap = 0;
    for (uint32_t w = 0; st == STET_OK && w < n; w++) {
        const char *word = stet_vocab_word(out->own, w);
        const size_t k = reader_rows(&m->reader, word, strlen(word), some);
        st = mem_grow(&out->row, &cap, out->at[w] + k, sizeof *out->row);
        if (st != STET_OK)
            break;
        memcpy(out->row + out->at[w], some, k * sizeof *some);
        out->at[w + 1] = out->at[w] + (uint32_t)k;
        out->longest = k > out->longest ? k : out->longest;
    }
    mem_free(some);
    if (st != STET_OK)
        set_words_deinit(out);
    return st;
}

uint32_t set_word_of(const set_words *w, const model *m, const uint32_t *rows, size_t n)
{
    char text[1024];
    if (!w->own)
        return rows[0];
    const size_t len = m->reader.spell(&m->reader, rows, n, text, sizeof text);
    return len ? stet_vocab_id(w->own, text, len) : STET_UNK;
}
