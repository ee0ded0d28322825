/* lexicon/subst_stats.c - how much freedom a substitution set gives: a nearly empty set makes any
 * attack look weak, so every report shows these figures. */
#include "lexicon/subst.h"

#include <string.h>

#include "base/mem.h"

/* ---- components --------------------------------------------------------------------------- */

static uint32_t root_of(uint32_t *parent, uint32_t v)
{
    while (parent[v] != v)
        v = parent[v] = parent[parent[v]];
    return v;
}

/* Union-find over the words; every word of a set is in at least one pair. */
static stet_status count_components(const stet_subst *s, stet_subst_stats *out)
{
    uint32_t *parent = mem_alloc(s->n_words, sizeof *parent);
    uint32_t *size = mem_zalloc(s->n_words, sizeof *size);
    const bool ok = parent && size;
    if (ok) {
        for (uint32_t w = 0; w < s->n_words; w++)
            parent[w] = w;
        for (uint32_t w = 0; w < s->n_words; w++)
            for (uint32_t j = s->start[w]; j < s->start[w + 1]; j++)
                parent[root_of(parent, w)] = root_of(parent, s->subs[j]);
        for (uint32_t w = 0; w < s->n_words; w++) {
            const uint32_t n = ++size[root_of(parent, w)];
            out->components += n == 1;
            if (n > out->largest_component)
                out->largest_component = n;
        }
    }
    mem_free(parent);
    mem_free(size);
    return ok ? STET_OK : STET_ENOMEM;
}

/* ---- pairs -------------------------------------------------------------------------------- */

/* Pairs whose reverse is a pair too. The pairs are turned round and sorted by counting: then one pass over each word's
 * substitutes and the words whose substitute it is will do, however many there are. */
static stet_status count_symmetric(const stet_subst *s, size_t *out)
{
    const size_t n = s->n_words;
    size_t *end = mem_zalloc(n + 1, sizeof *end);             /* of each word's list in `from` */
    uint32_t *from = mem_alloc(s->n_pairs + 1, sizeof *from); /* whose substitute it is */
    uint32_t *seen = mem_zalloc(n + 1, sizeof *seen); /* last word with this substitute, + 1 */
    const bool ok = end && from && seen;
    for (size_t j = 0; ok && j < s->n_pairs; j++)
        end[s->subs[j] + 1]++;
    for (size_t w = 0; ok && w < n; w++)
        end[w + 1] += end[w];
    for (uint32_t w = 0; ok && w < n; w++)
        for (uint32_t j = s->start[w]; j < s->start[w + 1]; j++)
            from[end[s->subs[j]]++] = w;
    for (uint32_t w = 0; ok && w < n; w++) {
        for (uint32_t j = s->start[w]; j < s->start[w + 1]; j++)
            seen[s->subs[j]] = w + 1;
        for (size_t j = w ? end[w - 1] : 0; j < end[w]; j++)
            *out += seen[from[j]] == w + 1;
    }
    mem_free(end);
    mem_free(from);
    mem_free(seen);
    return ok ? STET_OK : STET_ENOMEM;
}

static stet_status count_pairs(const stet_subst *s, stet_subst_stats *out)
{
    size_t symmetric = 0;
    for (uint32_t w = 0; w < s->n_words; w++)
        out->replaceable += s->start[w + 1] > s->start[w];
    TRY(count_symmetric(s, &symmetric));
    if (s->n_pairs > 0) {
        out->candidates_mean = (double)s->n_pairs / (double)out->replaceable;
        out->symmetric_share = (double)symmetric / (double)s->n_pairs;
    }
    return STET_OK;
}

/* ---- tokens ------------------------------------------------------------------------------- */

/* The words of the set as a vocabulary: id - STET_FIRST_WORD is the number in the set. */
static stet_status words_as_vocab(const stet_subst *s, stet_vocab **out)
{
    const char **word = mem_alloc(s->n_words, sizeof *word);
    if (!word)
        return STET_ENOMEM;
    for (uint32_t w = 0; w < s->n_words; w++)
        word[w] = stet_subst_word(s, w);
    const stet_status st = stet_vocab_from_words(word, s->n_words, out);
    mem_free(word);
    return st;
}

static stet_status count_tokens(const stet_subst *s, const stet_dataset *d, stet_tokenizer kind,
                                stet_subst_stats *out)
{
    stet_vocab *v;
    TRY(words_as_vocab(s, &v));
    stet_corpus c;
    const stet_status st = stet_corpus_encode(d, v, kind, 0, &c);
    stet_vocab_free(v);
    if (st != STET_OK)
        return st;
    uint64_t replaceable = 0, candidates = 0;
    for (size_t i = 0; i < c.n_tokens; i++) {
        if (c.ids[i] < STET_FIRST_WORD)
            continue;
        const uint32_t w = c.ids[i] - STET_FIRST_WORD;
        replaceable += s->start[w + 1] > s->start[w];
        candidates += s->start[w + 1] - s->start[w];
    }
    if (replaceable > 0) {
        out->tokens_replaceable = (double)replaceable / (double)c.n_tokens;
        out->candidates_per_token = (double)candidates / (double)replaceable;
    }
    stet_corpus_deinit(&c);
    return STET_OK;
}

stet_status stet_subst_stats_of(const stet_subst *s, const stet_dataset *d, stet_tokenizer kind,
                                stet_subst_stats *out)
{
    *out = (stet_subst_stats){.words = s->n_words, .pairs = s->n_pairs};
    TRY(count_pairs(s, out));
    TRY(count_components(s, out));
    return d ? count_tokens(s, d, kind, out) : STET_OK;
}
