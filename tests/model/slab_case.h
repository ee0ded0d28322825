/* tests/model/slab_case.h - batches of slabs (model/slabs.h) against those of batch_make, number by
 * number, on any store. */
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
} slab_case;

static const slab_case slab_cases[] = {
    {50, 20, 7, 1000, 30, false},        /* three slabs, texts that are cut, a last batch of six */
    {50, 20, 7, 1000, 30, true},         /* with a word before and one after each */
    {5000, 400, 64, 700, 300, false},    /* many words */
    {5000, 1200, 64, 4300, 1200, false}, /* more than a slab has room for */
    {1 << 23, 100, 5, 400, 40, false},   /* fewer tables of slots than batches */
    {90, 10, 100, 30, 8, false},         /* all texts in one batch */
    {90, 10, 1, 65, 8, true},            /* a slab and one */
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

/* Three epochs, of which the first begins in the middle and the last leaves some batches out.
 * `*begun`, where given, counts uploads: none while a batch is taken, but for the first of a row. */
static inline void slabs_make_the_same(const slab_case *k, store *s, const size_t *begun)
{
    const model m = slab_model(k);
    stet_corpus c = slab_corpus(k);
    arena mem = {0};
    batcher b = {0};
    slabs *made;
    uint32_t *order = mem_alloc(k->texts, sizeof *order);
    const size_t steps = (k->texts + k->size - 1) / k->size;
    rng r = rng_stream(6, STREAM_TEST, k->texts);
    CHECK_OK(batcher_init(&b, &m));
    CHECK_OK(slabs_open(&m, &c, k->size, s, &made));
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
        }
    }
    slabs_close(made);
    batcher_deinit(&b);
    arena_deinit(&mem);
    mem_free(order);
    stet_corpus_deinit(&c);
}

#endif
