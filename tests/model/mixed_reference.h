/* tests/model/mixed_reference.h - mixtures of words by hand: draws from the streams that model/device_args.h
 * names, vectors mixed one by one, each copy through the forward pass of the host. */
#ifndef TESTS_MODEL_MIXED_REFERENCE_H
#define TESTS_MODEL_MIXED_REFERENCE_H

#include "base/mem.h"
#include "model/answers.h"
#include "test.h"

/* weight[0..n) of a word of n rows */
static inline void reference_weights(uint64_t seed, size_t copy, size_t word, size_t n,
                                     double alpha, double *weight)
{
    rng r = rng_stream(seed, STREAM_DEFENSE, mixture_stream(copy, word));
    double sum = 0;
    weight[0] = 1;
    if (n == 1)
        return;
    for (size_t k = 0; k < n; k++)
        sum += weight[k] = rng_gamma(&r, alpha);
    const size_t one = sum > 0 ? n : rng_below(&r, n);
    for (size_t k = 0; k < n; k++)
        weight[k] = sum > 0 ? weight[k] / sum : k == one;
}

/* Logits (K) of one text, of whose words rows (n, D) are the vectors. */
static inline void logits_of_vectors(const model *m, size_t n, const real *rows, float *logits)
{
    arena mem = {0};
    batcher b;
    batch x;
    tape t;
    pass p;
    real z[16];
    uint32_t *ids = arena_new(&mem, uint32_t, n), *own = arena_new(&mem, uint32_t, n), first = 0;
    uint64_t start[2] = {0, n};
    int32_t label = 0;
    for (uint32_t i = 0; i < n; i++)
        ids[i] = STET_UNK, own[i] = i;
    const stet_corpus c = {1, n, m->n_classes, ids, start, &label};
    CHECK_LE(m->n_classes, 16);
    CHECK_OK(batcher_init(&b, m));
    CHECK_OK(batch_make(&b, m, &c, &first, 1, &mem, &x));
    seq_index seq = x.seq;
    seq.n_rows = n;
    seq.row = own;
    tape_init(&t, &mem, NULL, false);
    CHECK_OK(pass_init(&p, m, &t, NULL, NULL, &x));
    p.rows = tape_numbers(&t, shape2(n, m->dim), rows);
    p.seq = &seq;
    p.word = ids;
    CHECK_OK(tape_download(&t, model_forward(m, &p), z));
    for (size_t k = 0; k < m->n_classes; k++)
        logits[k] = (float)z[k];
    batcher_deinit(&b);
    arena_deinit(&mem);
}

static inline void reference_mixtures(const model *m, const mixed_texts *t, float *logits)
{
    for (size_t i = 0; i < t->n; i++)
        for (size_t copy = 0; copy < t->copies; copy++) {
            const uint64_t begin = t->start[i], n = t->start[i + 1] - begin;
            real *rows = mem_zalloc(n * m->dim, sizeof *rows);
            for (size_t w = 0; w < n; w++) {
                double weight[64];
                const uint32_t from = t->slot_at[begin + w], to = t->slot_at[begin + w + 1];
                CHECK_LE(to - from, 64);
                reference_weights(t->seed[i], copy, w, to - from, t->alpha, weight);
                for (uint32_t s = from; s < to; s++)
                    for (size_t d = 0; d < m->dim; d++)
                        rows[w * m->dim + d] +=
                            (real)(weight[s - from] * (double)m->table[t->slot[s] * m->dim + d]);
            }
            logits_of_vectors(m, n, rows, logits + (i * t->copies + copy) * m->n_classes);
            mem_free(rows);
        }
}

#endif
