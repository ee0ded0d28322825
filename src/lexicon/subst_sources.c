/* lexicon/subst_sources.c - where pairs come from: neighbour maps, lists of pairs, WordNet,
 * nearest neighbours of vectors, and the caller. Sememes have their own file. */
#include "lexicon/subst.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/stream.h"
#include "lexicon/nearest.h"

/* ---- neighbour maps ----------------------------------------------------------------------- */

static stet_status add_json_list(stet_subst_builder *b, const char *key, size_t key_len,
                                 const json_t *list)
{
    if (!json_is_array(list))
        return error_set(STET_EFORMAT, "expected a list of words");
    uint32_t from, to;
    TRY(subst_intern(b, key, key_len, &from));
    size_t i;
    const json_t *sub;
    json_array_foreach(list, i, sub)
    {
        if (!json_is_string(sub))
            return error_set(STET_EFORMAT, "item %zu: expected a word", i + 1);
        stet_status st = subst_intern(b, json_string_value(sub), json_string_length(sub), &to);
        if (st != STET_OK)
            return error_prefix(st, "item %zu", i + 1);
        TRY(subst_add_edge(b, from, to));
    }
    return STET_OK;
}

stet_status subst_add_json(stet_subst_builder *b, json_t *map, const char *name)
{
    if (!json_is_object(map))
        return error_set(STET_EFORMAT, "%s: expected a map {\"word\": [\"word\", ...]}", name);
    for (void *it = json_object_iter(map); it; it = json_object_iter_next(map, it)) {
        const char *key = json_object_iter_key(it);
        const json_t *list = json_object_iter_value(it);
        const stet_status st = add_json_list(b, key, strlen(key), list);
        if (st != STET_OK)
            return st == STET_ENOMEM ? st : error_prefix(st, "%s: \"%.100s\"", name, key);
    }
    return STET_OK;
}

stet_status subst_add_set(stet_subst_builder *b, const stet_subst *s)
{
    for (uint32_t w = 0; w < s->n_words; w++) {
        uint32_t from, to;
        const char *word = stet_subst_word(s, w);
        TRY(strmap_add(&b->words, word, strlen(word), &from));
        for (uint32_t j = s->start[w]; j < s->start[w + 1]; j++) {
            const char *sub = stet_subst_word(s, s->subs[j]);
            TRY(strmap_add(&b->words, sub, strlen(sub), &to));
            TRY(subst_add_edge(b, from, to));
        }
    }
    return STET_OK;
}

stet_status subst_is_built(const char *path, bool *yes)
{
    *yes = strcmp(path, "builtin") == 0;
    if (*yes || strcmp(path, "-") == 0)
        return STET_OK;
    file_map m;
    TRY(file_map_open(&m, path));
    *yes = subst_is_image(m.data, m.size);
    file_map_close(&m);
    return STET_OK;
}

stet_status stet_subst_add_neighbours(stet_subst_builder *b, const char *path)
{
    bool built;
    TRY(subst_is_built(path, &built));
    if (built) {
        stet_subst *s;
        TRY(stet_subst_load(path, &s));
        const stet_status st = subst_add_set(b, s);
        stet_subst_free(s);
        return st;
    }
    json_t *map;
    TRY(json_read_file(path, &map));
    const stet_status st = subst_add_json(b, map, path);
    json_decref(map);
    return st;
}

/* ---- lists of pairs ----------------------------------------------------------------------- */

/* The next run of non-blanks in [*at, end); its length, 0 if there is none. */
static size_t next_word(const char **at, const char *end)
{
    while (*at < end && (**at == ' ' || **at == '\t'))
        (*at)++;
    const char *p = *at;
    while (p < end && *p != ' ' && *p != '\t')
        p++;
    return (size_t)(p - *at);
}

static stet_status read_pair(const char *line, size_t len, subst_pair_fn *fn, void *ctx)
{
    const char *end = line + len, *a = line;
    const size_t a_len = next_word(&a, end);
    const char *b = a + a_len;
    const size_t b_len = next_word(&b, end);
    const char *rest = b + b_len;
    if (a_len == 0)
        return STET_OK;
    if (b_len == 0 || next_word(&rest, end) > 0)
        return error_set(STET_EFORMAT, "expected two words, WORD WORD");
    const char *fault = subst_word_fault(a, a_len);
    if (!fault)
        fault = subst_word_fault(b, b_len);
    if (fault)
        return error_set(STET_EFORMAT, "expected two words, found %s", fault);
    return fn(ctx, a, a_len, b, b_len);
}

stet_status subst_read_pairs(const char *path, subst_pair_fn *fn, void *ctx)
{
    stream *s;
    TRY(stream_open(path, &s));
    stet_status st = STET_OK;
    char *line;
    size_t len;
    while (st == STET_OK && stream_line(s, &line, &len, &st)) {
        st = read_pair(line, len, fn, ctx);
        if (st == STET_EFORMAT)
            st = error_prefix(st, "%s:%zu", path, stream_line_number(s));
    }
    stream_close(s);
    return st;
}

static stet_status add_pair(void *ctx, const char *a, size_t a_len, const char *b, size_t b_len)
{
    stet_subst_builder *builder = ctx;
    uint32_t ia, ib;
    TRY(strmap_add(&builder->words, a, a_len, &ia));
    TRY(strmap_add(&builder->words, b, b_len, &ib));
    TRY(subst_add_edge(builder, ia, ib));
    return subst_add_edge(builder, ib, ia);
}

stet_status stet_subst_add_pairs(stet_subst_builder *b, const char *path)
{
    return subst_read_pairs(path, add_pair, b);
}

/* ---- WordNet ------------------------------------------------------------------------------ */

static stet_status add_synonyms(stet_subst_builder *b, const stet_wordnet *w, const char *word,
                                stet_pos pos, stet_wn_variant variant)
{
    char **syn;
    size_t n;
    TRY(stet_wordnet_synonyms(w, word, pos, variant, &syn, &n));
    const stet_status st = stet_subst_add_list(b, word, (const char *const *)syn, n);
    mem_free(syn);
    return st;
}

stet_status stet_subst_add_wordnet(stet_subst_builder *b, const stet_wordnet *w,
                                   const stet_vocab *words, stet_wn_variant variant)
{
    const size_t n = stet_vocab_size(words);
    for (uint32_t id = STET_FIRST_WORD; id < n; id++) {
        const char *word = stet_vocab_word(words, id);
        if (id % 1024 == 0)
            TRY(interrupt_status());
        if (subst_word_fault(word, strlen(word)))
            continue;
        if (variant == STET_WN_TEXTATTACK) { /* all parts of speech in one call */
            TRY(add_synonyms(b, w, word, STET_OTHER, variant));
            continue;
        }
        for (stet_pos pos = STET_NOUN; pos <= STET_ADV; pos++)
            TRY(add_synonyms(b, w, word, pos, variant));
    }
    return STET_OK;
}

/* ---- vectors ------------------------------------------------------------------------------ */

/* Some words of GloVe hold spaces: no text has such a word, and no set. */
static bool is_candidate(const stet_vectors *t, const stet_vocab *v, uint32_t id)
{
    const char *word = stet_vocab_word(v, id);
    return t->known[id] && !subst_word_fault(word, strlen(word));
}

/* Numbers in the builder of the candidates, and their rows one after the other. */
static stet_status gather_candidates(stet_subst_builder *b, const stet_vectors *t,
                                     const stet_vocab *v, uint32_t *id, float *row)
{
    size_t n = 0;
    for (uint32_t w = STET_FIRST_WORD; w < t->n; w++) {
        if (!is_candidate(t, v, w))
            continue;
        const char *word = stet_vocab_word(v, w);
        TRY(strmap_add(&b->words, word, strlen(word), &id[n]));
        memcpy(row + n++ * t->dim, t->data + w * t->dim, t->dim * sizeof *row);
    }
    return STET_OK;
}

static size_t count_candidates(const stet_vectors *t, const stet_vocab *v)
{
    size_t n = 0;
    for (uint32_t w = STET_FIRST_WORD; w < t->n; w++)
        n += is_candidate(t, v, w);
    return n;
}

stet_status stet_subst_add_nearest(stet_subst_builder *b, const stet_vectors *t,
                                   const stet_vocab *v, size_t k, stet_metric metric,
                                   double threshold, bool strict)
{
    if (stet_vocab_size(v) != t->n)
        return error_set(STET_EUSAGE, "%zu vectors for a vocabulary of %zu words", t->n,
                         stet_vocab_size(v));
    const size_t n = count_candidates(t, v);
    k = k < n ? k : n; /* nobody has more */
    const nearest_options how = {k, metric, threshold, strict};
    uint32_t *id = mem_alloc(n, sizeof *id), *found = NULL;
    float *row = mem_aligned(n * t->dim, sizeof *row);
    stet_status st = id && row ? gather_candidates(b, t, v, id, row) : STET_ENOMEM;
    if (st == STET_OK && k > 0 && !(found = mem_alloc(n, k * sizeof *found)))
        st = STET_ENOMEM;
    if (st == STET_OK)
        st = nearest_find(row, n, t->dim, &how, found, NULL);
    for (size_t i = 0; i < n && st == STET_OK; i++)
        for (size_t j = 0; j < k && found[i * k + j] != NEAREST_NONE && st == STET_OK; j++)
            st = subst_add_edge(b, id[i], id[found[i * k + j]]);
    mem_free(found);
    mem_free_aligned(row);
    mem_free(id);
    return st;
}

/* ---- one word ----------------------------------------------------------------------------- */

stet_status stet_subst_add_list(stet_subst_builder *b, const char *word, const char *const *subs,
                                size_t n)
{
    uint32_t from, to;
    TRY(subst_intern(b, word, strlen(word), &from));
    for (size_t i = 0; i < n; i++) {
        TRY(subst_intern(b, subs[i], strlen(subs[i]), &to));
        TRY(subst_add_edge(b, from, to));
    }
    return STET_OK;
}
