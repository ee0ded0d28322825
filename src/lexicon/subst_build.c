/* lexicon/subst_build.c - the builder: pairs from any source, thinned out by filters, made into a
 * substitution set.
 *
 * Pairs are kept in one array in the order in which they came. A filter first groups them by word
 * (stable, repeats dropped), then keeps those that pass. Each filter acts at once, on what was
 * added before it: the order of calls is the order of operations. */
#include "lexicon/subst.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stream.h"
#include "lexicon/function_words.h"
#include "lexicon/sets.h"

stet_status stet_subst_builder_new(stet_subst_builder **out)
{
    *out = mem_zalloc(1, sizeof **out);
    return *out ? STET_OK : STET_ENOMEM;
}

void stet_subst_builder_free(stet_subst_builder *b)
{
    if (!b)
        return;
    strmap_deinit(&b->words);
    mem_free(b->edges);
    mem_free(b);
}

stet_status subst_intern(stet_subst_builder *b, const char *word, size_t len, uint32_t *id)
{
    const char *fault = subst_word_fault(word, len);
    if (fault)
        return error_set(STET_EFORMAT, "expected a word, found %s", fault);
    return strmap_add(&b->words, word, len, id);
}

stet_status subst_add_edge(stet_subst_builder *b, uint32_t from, uint32_t to)
{
    if (from == to)
        return STET_OK;
    TRY(mem_grow(&b->edges, &b->cap, b->n_edges + 1, sizeof *b->edges));
    b->edges[b->n_edges++] = (subst_edge){from, to};
    return STET_OK;
}

/* Where each word's edges begin once sorted: start (words + 1). */
static stet_status count_rows(const stet_subst_builder *b, size_t **out)
{
    size_t *start = mem_zalloc(b->words.n + 1, sizeof *start);
    if (!start)
        return STET_ENOMEM;
    for (size_t e = 0; e < b->n_edges; e++)
        start[b->edges[e].from + 1]++;
    for (size_t w = 0; w < b->words.n; w++)
        start[w + 1] += start[w];
    *out = start;
    return STET_OK;
}

/* Sort the edges by word, each word's substitutes in the order they came, repeats dropped. */
static stet_status group(stet_subst_builder *b)
{
    if (b->n_edges == 0)
        return STET_OK;
    size_t *next = NULL;
    TRY(count_rows(b, &next));
    subst_edge *sorted = mem_alloc(b->n_edges, sizeof *sorted);
    uint32_t *seen = mem_zalloc(b->words.n, sizeof *seen); /* last word with this substitute, + 1 */
    const bool ok = sorted && seen;
    if (ok) {
        for (size_t e = 0; e < b->n_edges; e++)
            sorted[next[b->edges[e].from]++] = b->edges[e];
        size_t kept = 0;
        for (size_t e = 0; e < b->n_edges; e++) {
            if (seen[sorted[e].to] == sorted[e].from + 1)
                continue;
            seen[sorted[e].to] = sorted[e].from + 1;
            b->edges[kept++] = sorted[e];
        }
        b->n_edges = kept;
    }
    mem_free(next);
    mem_free(sorted);
    mem_free(seen);
    return ok ? STET_OK : STET_ENOMEM;
}

/* ---- filters ------------------------------------------------------------------------------ */

void subst_keep_if(stet_subst_builder *b, subst_keep_fn *keep, const void *ctx)
{
    size_t kept = 0;
    for (size_t e = 0; e < b->n_edges; e++)
        if (keep(b, ctx, b->edges[e]))
            b->edges[kept++] = b->edges[e];
    b->n_edges = kept;
}

static bool is_no_stop_word(const stet_subst_builder *b, const void *ctx, subst_edge e)
{
    return strmap_find(ctx, strmap_text(&b->words, e.from), strmap_len(&b->words, e.from)) ==
           STRMAP_NONE;
}

stet_status stet_subst_drop_stop_words(stet_subst_builder *b, const char *path)
{
    strmap stop = {0};
    const stet_status st = stop_words_read(path, &stop);
    if (st == STET_OK)
        subst_keep_if(b, is_no_stop_word, &stop);
    strmap_deinit(&stop);
    return st;
}

/* Unordered pairs as sorted 64-bit keys. */
typedef struct pair_set {
    const stet_subst_builder *b;
    uint64_t *key;
    size_t n, cap;
} pair_set;

static uint64_t pair_key(uint32_t a, uint32_t b)
{
    return a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;
}

static stet_status collect_pair(void *ctx, const char *a, size_t a_len, const char *b, size_t b_len)
{
    pair_set *set = ctx;
    const uint32_t ia = strmap_find(&set->b->words, a, a_len);
    const uint32_t ib = strmap_find(&set->b->words, b, b_len);
    if (ia == STRMAP_NONE || ib == STRMAP_NONE)
        return STET_OK;
    TRY(mem_grow(&set->key, &set->cap, set->n + 1, sizeof *set->key));
    set->key[set->n++] = pair_key(ia, ib);
    return STET_OK;
}

static int compare_keys(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool is_no_pair(const stet_subst_builder *b, const void *ctx, subst_edge e)
{
    (void)b;
    const pair_set *set = ctx;
    const uint64_t key = pair_key(e.from, e.to);
    return !bsearch(&key, set->key, set->n, sizeof key, compare_keys);
}

stet_status stet_subst_drop_pairs(stet_subst_builder *b, const char *path)
{
    pair_set set = {.b = b};
    stet_status st = subst_read_pairs(path, collect_pair, &set);
    if (st == STET_OK && set.n > 0) {
        qsort(set.key, set.n, sizeof *set.key, compare_keys);
        subst_keep_if(b, is_no_pair, &set);
    }
    mem_free(set.key);
    return st;
}

static bool in_vocab(const stet_subst_builder *b, const stet_vocab *v, uint32_t word)
{
    const uint32_t id = stet_vocab_id(v, strmap_text(&b->words, word), strmap_len(&b->words, word));
    return id >= STET_FIRST_WORD;
}

static bool both_in_vocab(const stet_subst_builder *b, const void *ctx, subst_edge e)
{
    return in_vocab(b, ctx, e.from) && in_vocab(b, ctx, e.to);
}

stet_status stet_subst_keep_vocab(stet_subst_builder *b, const stet_vocab *v)
{
    subst_keep_if(b, both_in_vocab, v);
    return STET_OK;
}

static bool both_typed(const stet_subst_builder *b, const void *ctx, subst_edge e)
{
    (void)b;
    const unsigned char *typed = ctx;
    return typed[e.from] && typed[e.to];
}

/* Words without a pair are not asked: no set will hold them. */
static stet_status keep_typed(stet_subst_builder *b, const word_reader *r, odd_words *odd)
{
    enum { UNSEEN = 2 };
    unsigned char *typed = mem_alloc(b->words.n + 1, sizeof *typed);
    if (!typed)
        return STET_ENOMEM;
    memset(typed, UNSEEN, b->words.n);
    stet_status st = STET_OK;
    for (size_t e = 0; st == STET_OK && e < b->n_edges; e++) {
        const uint32_t both[] = {b->edges[e].from, b->edges[e].to};
        for (int k = 0; st == STET_OK && k < 2; k++) {
            bool yes = typed[both[k]] == 1;
            if (typed[both[k]] == UNSEEN)
                st = odd_words_see(odd, r, strmap_text(&b->words, both[k]), &yes);
            typed[both[k]] = yes;
        }
    }
    if (st == STET_OK && odd->n)
        subst_keep_if(b, both_typed, typed);
    mem_free(typed);
    return st;
}

stet_status stet_subst_keep_typed(stet_subst_builder *b, stet_tokenizer kind, size_t *left_out)
{
    const word_reader r = {.tokenizer = kind};
    odd_words odd = {0};
    const stet_status st = keep_typed(b, &r, &odd);
    if (st == STET_OK)
        odd_words_tell(&odd);
    *left_out = odd.n;
    odd_words_deinit(&odd);
    return st;
}

stet_status subst_typed(const stet_subst *s, const word_reader *r, stet_subst **own)
{
    *own = NULL;
    stet_subst_builder *b;
    TRY(stet_subst_builder_new(&b));
    odd_words odd = {0};
    stet_status st = subst_add_set(b, s);
    if (st == STET_OK)
        st = keep_typed(b, r, &odd);
    if (st == STET_OK && odd.n)
        st = stet_subst_build(b, own);
    if (st == STET_OK)
        odd_words_tell(&odd);
    odd_words_deinit(&odd);
    stet_subst_builder_free(b);
    return st;
}

static bool same_pos(const stet_subst_builder *b, const void *ctx, subst_edge e)
{
    (void)b;
    const unsigned char *pos = ctx;
    return pos[e.from] == pos[e.to];
}

stet_status stet_subst_keep_same_pos(stet_subst_builder *b, const stet_tagger *t)
{
    if (b->n_edges == 0)
        return STET_OK;
    unsigned char *pos = mem_alloc(b->words.n, 1);
    if (!pos)
        return STET_ENOMEM;
    stet_status st = STET_OK;
    for (uint32_t w = 0; w < b->words.n && st == STET_OK; w++) {
        const char *word = strmap_text(&b->words, w), *tag;
        st = stet_tagger_tag(t, &word, 1, &tag);
        if (st == STET_OK)
            pos[w] = (unsigned char)stet_pos_of_penn(tag);
    }
    if (st == STET_OK)
        subst_keep_if(b, same_pos, pos);
    mem_free(pos);
    return st;
}

/* Characters, not bytes: every byte that does not continue a UTF-8 sequence begins one. */
static size_t characters(const char *word)
{
    size_t n = 0;
    for (; *word; word++)
        n += ((unsigned char)*word & 0xc0) != 0x80;
    return n;
}

static bool both_long(const stet_subst_builder *b, const void *ctx, subst_edge e)
{
    const size_t least = *(const size_t *)ctx;
    return characters(strmap_text(&b->words, e.from)) >= least &&
           characters(strmap_text(&b->words, e.to)) >= least;
}

stet_status stet_subst_keep_long(stet_subst_builder *b, size_t least)
{
    subst_keep_if(b, both_long, &least);
    return STET_OK;
}

stet_status stet_subst_make_symmetric(stet_subst_builder *b)
{
    TRY(group(b));
    const size_t n = b->n_edges;
    for (size_t e = 0; e < n; e++)
        TRY(subst_add_edge(b, b->edges[e].to, b->edges[e].from));
    return group(b);
}

stet_status stet_subst_keep_top(stet_subst_builder *b, size_t k)
{
    TRY(group(b));
    size_t kept = 0, rank = 0;
    uint32_t word = STRMAP_NONE;
    for (size_t e = 0; e < b->n_edges; e++) {
        rank = b->edges[e].from == word ? rank + 1 : 0;
        word = b->edges[e].from;
        if (rank < k)
            b->edges[kept++] = b->edges[e];
    }
    b->n_edges = kept;
    return STET_OK;
}

/* ---- the result --------------------------------------------------------------------------- */

static int compare_words(const void *a, const void *b, void *words)
{
    return strcmp(strmap_text(words, *(const uint32_t *)a),
                  strmap_text(words, *(const uint32_t *)b));
}

/* The words that take part in a pair, sorted; `rank` (words) gets each one's place. */
static stet_status sort_words(stet_subst_builder *b, uint32_t *rank, uint32_t **out, size_t *n)
{
    memset(rank, 0, b->words.n * sizeof *rank);
    for (size_t e = 0; e < b->n_edges; e++)
        rank[b->edges[e].from] = rank[b->edges[e].to] = 1;
    uint32_t *order = mem_alloc(b->words.n, sizeof *order);
    if (!order)
        return STET_ENOMEM;
    *n = 0;
    for (uint32_t w = 0; w < b->words.n; w++)
        if (rank[w])
            order[(*n)++] = w;
    qsort_r(order, *n, sizeof *order, compare_words, &b->words);
    for (uint32_t i = 0; i < *n; i++)
        rank[order[i]] = i;
    *out = order;
    return STET_OK;
}

static stet_status write_image(const stet_subst_builder *b, const size_t *row,
                               const uint32_t *order, const uint32_t *rank, size_t n,
                               stet_subst **out)
{
    size_t text_bytes = 0;
    for (size_t i = 0; i < n; i++)
        text_bytes += strmap_len(&b->words, order[i]) + 1;
    subst_parts p;
    TRY(subst_new(n, b->n_edges, text_bytes, &p, out));
    uint32_t at = 0, pairs = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t len = strmap_len(&b->words, order[i]) + 1;
        memcpy(p.text + at, strmap_text(&b->words, order[i]), len);
        for (size_t e = row[order[i]]; e < row[order[i] + 1]; e++)
            p.subs[pairs++] = rank[b->edges[e].to];
        p.text_at[i + 1] = at += (uint32_t)len;
        p.start[i + 1] = pairs;
    }
    subst_seal(*out);
    return STET_OK;
}

stet_status stet_subst_build(stet_subst_builder *b, stet_subst **out)
{
    *out = NULL;
    TRY(group(b));
    size_t *row = NULL, n = 0;
    uint32_t *order = NULL, *rank = mem_alloc(b->words.n + 1, sizeof *rank);
    stet_status st = rank ? sort_words(b, rank, &order, &n) : STET_ENOMEM;
    if (st == STET_OK)
        st = count_rows(b, &row);
    if (st == STET_OK)
        st = write_image(b, row, order, rank, n, out);
    mem_free(row);
    mem_free(order);
    mem_free(rank);
    return st;
}
