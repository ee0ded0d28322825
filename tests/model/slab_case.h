/* tests/model/slab_case.h - batches of slabs (model/slabs.h) against those of batch_make and, with what
 * may stand in them, of batch_number_sets, number by number, on any store. */
#ifndef TESTS_MODEL_SLAB_CASE_H
#define TESTS_MODEL_SLAB_CASE_H

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "model/slabs.h"
#include "test.h"

typedef struct slab_case {
    size_t words, max_len, size, texts, longest;
    bool framed;
    size_t near; /* the largest set; 0: there are none */
} slab_case;

static const slab_case slab_cases[] = {
    {50, 20, 7, 1000, 30, false, 0},     /* three slabs, texts that are cut, a last batch of six */
    {50, 20, 7, 1000, 30, true, 0},      /* with a word before and one after each */
    {5000, 400, 64, 700, 300, false, 0}, /* many words */
    {5000, 1200, 64, 4300, 1200, false, 0}, /* more than a slab has room for */
    {1 << 23, 100, 5, 400, 40, false, 0},   /* fewer tables of slots than batches */
    {90, 10, 100, 30, 8, false, 0},         /* all texts in one batch */
    {90, 10, 1, 65, 8, true, 0},            /* a slab and one */
    {50, 20, 7, 1000, 30, false, 5},        /* with sets, all of whose words are in most batches */
    {20000, 400, 64, 700, 300, true, 9},    /* and few of them */
    {3000, 900, 64, 4300, 900, false, 3},   /* more of them than a slab has room for */
    {1 << 23, 100, 5, 400, 40, false, 2},   /* fewer tables of slots than batches */
    {90, 10, 1, 65, 8, false, 60},          /* sets that are larger than the batch */
};
enum { SLAB_CASES = sizeof slab_cases / sizeof *slab_cases };

/* As much of a model as batches need. */
static inline model slab_model(const slab_case *k)
{
    return (model){.n_words = k->words,
                   .max_len = k->max_len,
                   .reader = {.most_rows = 1, .framed = k->framed, .before = 3, .after = 7}};
}

/* Frequent words and rare ones; every tenth text is empty. */
static inline stet_corpus slab_corpus(const slab_case *k)
{
    rng r = rng_stream(5, STREAM_TEST, k->words);
    stet_corpus c = {.n_texts = k->texts, .n_classes = 3};
    c.ids = mem_alloc(k->texts * k->longest + 1, sizeof *c.ids);
    c.start = mem_zalloc(k->texts + 1, sizeof *c.start);
    c.label = mem_alloc(k->texts, sizeof *c.label);
    for (size_t i = 0; i < k->texts; i++) {
        const size_t n = rng_below(&r, 10) ? 1 + rng_below(&r, k->longest) : 0;
        for (size_t p = 0; p < n; p++)
            c.ids[c.n_tokens++] = (uint32_t)rng_below(&r, 1 + rng_below(&r, k->words));
        c.start[i + 1] = c.n_tokens;
        c.label[i] = (int32_t)rng_below(&r, 3);
    }
    return c;
}

/* Every third word has none, others up to k->near, distinct: steps from the word around all. */
static inline word_sets slab_sets(const slab_case *k)
{
    rng r = rng_stream(7, STREAM_TEST, k->words);
    word_sets s = {k->words, mem_zalloc(k->words + 1, sizeof *s.start),
                   mem_alloc(k->words * k->near + 1, sizeof *s.word)};
    for (size_t w = 0; w < k->words; w++) {
        uint32_t at = s.start[w];
        for (size_t i = w % 3 ? rng_below(&r, k->near + 1) : 0, by = 0; i > 0; i--) {
            by += 1 + rng_below(&r, 1 + (k->words - 1) / k->near - 1);
            s.word[at++] = (uint32_t)((w + by) % k->words);
        }
        s.start[w + 1] = at;
    }
    return s;
}

/* Word p of text i, by its definition. */
static inline uint32_t word_at(const slab_case *k, const stet_corpus *c, uint32_t i, size_t p,
                               size_t rows)
{
    if (k->framed && p == 0)
        return 3;
    if (k->framed && p + 1 == rows)
        return 7;
    return c->start[i] == c->start[i + 1] ? STET_UNK : c->ids[c->start[i] + p - k->framed];
}

/* Every row has its word, and words stand in the order of their first use. */
static inline void check_batch(const slab_case *k, const stet_corpus *c, const uint32_t *pick,
                               const batch *x)
{
    const seq_index *q = &x->seq;
    size_t seen = 0;
    for (size_t b = 0; b < q->n_texts; b++) {
        const uint32_t i = pick[x->order[b]];
        const size_t n = (size_t)(c->start[i + 1] - c->start[i]),
                     cut = n < k->max_len ? n : k->max_len,
                     rows = k->framed ? cut + 2
                            : cut     ? cut
                                      : 1;
        CHECK_EQ(q->start[b + 1] - q->start[b], rows);
        CHECK_EQ(x->label[b], c->label[i]);
        for (size_t p = 0; p < rows; p++) {
            const uint32_t v = q->row[q->start[b] + p];
            CHECK_LE(v, seen);
            seen += v == seen;
            CHECK_EQ(x->word[v], word_at(k, c, i, p, rows));
        }
    }
    CHECK_EQ(seen, q->n_rows);
}

/* Every row may be replaced by the rows of its word's set, no word has two rows, others stand in the
 * order of first use, and a token's extremes are its word's. */
static inline void check_sets(const word_sets *s, const seq_index *q, const set_rows *r,
                              const set_counts *n, size_t n_words)
{
    bool *seen = mem_zalloc(n_words, sizeof *seen);
    size_t next = q->n_rows, moving = 0;
    for (size_t i = 0; i < n->n_rows; i++) {
        CHECK(!seen[r->word[i]]);
        seen[r->word[i]] = true;
    }
    CHECK_EQ(r->start[q->n_rows], n->n_alt);
    for (size_t v = 0; v < q->n_rows; v++) {
        const uint32_t *near = s->word + s->start[r->word[v]];
        CHECK_EQ(r->start[v + 1] - r->start[v], s->start[r->word[v] + 1] - s->start[r->word[v]]);
        for (uint32_t i = r->start[v]; i < r->start[v + 1]; i++) {
            CHECK_LE(r->alt[i], next);
            next += r->alt[i] == next;
            CHECK_EQ(r->word[r->alt[i]], *near++);
        }
        if (r->start[v + 1] > r->start[v])
            CHECK_EQ(r->moving[moving++], v);
    }
    CHECK_EQ(next, n->n_rows);
    CHECK_EQ(moving, n->n_moving);
    for (size_t t = 0; t < q->n_tokens; t++) {
        const uint32_t v = q->row[t];
        if (r->start[v + 1] == r->start[v]) {
            CHECK(r->lo[t] == v && r->hi[t] == v);
            continue;
        }
        const size_t rank = r->lo[t] - n->n_rows;
        CHECK_LE(rank + 1, moving);
        CHECK_EQ(r->moving[rank], v);
        CHECK_EQ(r->hi[t], r->lo[t] + moving);
    }
    mem_free(seen);
}

static inline void same_numbers(const void *a, const void *b, size_t n, const char *what)
{
    if (memcmp(a, b, n * sizeof(uint32_t)) != 0)
        test_fail(__FILE__, __LINE__, "%s differs", what);
}

/* The numbers that `name` stands for. */
static inline void same_far(store *s, const batch *x, const uint32_t *name, const uint32_t *host,
                            size_t n, const char *what)
{
    uint32_t *far = mem_alloc(n, sizeof *far);
    const size_t at = (size_t)((const char *)name - (const char *)x->block);
    CHECK_LE(at + n * sizeof *far, x->block_bytes);
    CHECK_LE(x->known, at);
    if (n > 0)
        CHECK_EQ(name[0], UINT32_MAX); /* whoever reads here gets lost */
    CHECK_OK(store_download(s, far, (const char *)x->twin + at, n * sizeof *far));
    same_numbers(far, host, n, what);
    mem_free(far);
}

static inline void same_batch(store *s, const batch *x, const batch *y)
{
    CHECK_EQ(x->seq.n_texts, y->seq.n_texts);
    CHECK_EQ(x->seq.n_tokens, y->seq.n_tokens);
    CHECK_EQ(x->seq.n_rows, y->seq.n_rows);
    CHECK_EQ(x->seq.max_len, y->seq.max_len);
    same_numbers(x->seq.start, y->seq.start, y->seq.n_texts + 1, "start");
    same_numbers(x->order, y->order, y->seq.n_texts, "order");
    same_numbers(x->label, y->label, y->seq.n_texts, "label");
    same_far(s, x, x->seq.row, y->seq.row, y->seq.n_tokens, "row");
    same_far(s, x, x->word, y->word, y->seq.n_rows, "word");
    const size_t start = (size_t)((const char *)x->seq.start - (const char *)x->block);
    uint32_t first[2]; /* the head is there too */
    CHECK_OK(store_download(s, first, (const char *)x->twin + start, sizeof first));
    same_numbers(first, y->seq.start, 2, "start in the store");
}

static inline void same_sets(store *s, const batch *x, const seq_index *q, const set_rows *r,
                             const set_counts *n)
{
    const set_rows *far = &x->set_rows;
    CHECK_EQ(x->n_set.n_rows, n->n_rows);
    CHECK_EQ(x->n_set.n_alt, n->n_alt);
    CHECK_EQ(x->n_set.n_moving, n->n_moving);
    CHECK(far->word == x->word); /* one list: vectors that learn ask */
    same_far(s, x, far->word, r->word, n->n_rows, "words of sets");
    same_far(s, x, far->start, r->start, q->n_rows + 1, "start of sets");
    same_far(s, x, far->alt, r->alt, n->n_alt, "alt");
    same_far(s, x, far->moving, r->moving, n->n_moving, "moving");
    same_far(s, x, far->lo, r->lo, q->n_tokens, "lo");
    same_far(s, x, far->hi, r->hi, q->n_tokens, "hi");
}

/* What may stand in batch y, by the host, is what came with x. */
static inline void check_alternatives(const slab_case *k, store *s, const word_sets *sets,
                                      batcher *b, const batch *x, const batch *y, arena *mem)
{
    CHECK(x->sets == sets);
    const size_t V = y->seq.n_rows, T = y->seq.n_tokens, most = V * k->near;
    uint32_t *block = arena_new(mem, uint32_t, set_rows_size(V, T, most));
    const set_rows r = set_rows_at(block, V, T, most);
    memcpy(block, y->word, V * sizeof *block);
    const set_counts n = batch_number_sets(b->slot, sets, &y->seq, &r);
    check_sets(sets, &y->seq, &r, &n, k->words);
    same_sets(s, x, &y->seq, &r, &n);
}

/* Three epochs, of which the first begins in the middle and the last leaves some batches out.
 * `*begun`, where given, counts uploads: none while a batch is taken, but for the first of a row. */
static inline void slabs_make_the_same(const slab_case *k, store *s, const size_t *begun)
{
    const model m = slab_model(k);
    stet_corpus c = slab_corpus(k);
    arena mem = {0};
    batcher b = {0};
    slabs *made;
    word_sets own = k->near ? slab_sets(k) : (word_sets){0}, *sets = k->near ? &own : NULL;
    uint32_t *order = mem_alloc(k->texts, sizeof *order);
    const size_t steps = (k->texts + k->size - 1) / k->size;
    rng r = rng_stream(6, STREAM_TEST, k->texts);
    CHECK_OK(batcher_init(&b, &m));
    CHECK_OK(slabs_open(&m, &c, k->size, sets, s, &made));
    for (int epoch = 0; epoch < 3; epoch++) {
        rng_permutation(&r, order, k->texts);
        bool first = true;
        for (size_t i = epoch == 0 ? steps / 3 : 0; i < steps; i++) {
            if (epoch == 2 && i == 10 && steps > 80) {
                i = 79;
                first = true;
            }
            const size_t at = i * k->size, left = k->texts - at;
            const size_t uploads = begun && !first ? *begun : 0;
            batch x, y;
            CHECK_OK(slabs_take(made, order + at, left, &x));
            if (begun && !first)
                CHECK_EQ(*begun, uploads);
            first = false;
            if (left > k->size)
                slabs_ask(made, order + at + k->size, left - k->size);
            arena_restore(&mem, (arena_mark){0});
            CHECK_OK(batch_make(&b, &m, &c, order + at, left < k->size ? left : k->size, &mem, &y));
            check_batch(k, &c, order + at, &y);
            same_batch(s, &x, &y);
            if (sets && (i + (size_t)epoch) % 3 == 0)
                check_alternatives(k, s, sets, &b, &x, &y, &mem);
        }
    }
    slabs_close(made);
    batcher_deinit(&b);
    arena_deinit(&mem);
    mem_free(order);
    mem_free(own.start);
    mem_free(own.word);
    stet_corpus_deinit(&c);
}

#endif
