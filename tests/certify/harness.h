/* tests/certify/harness.h - is a bound sound? Tiny random models of any kind, random sets, and the
 * truth: the float32 program tried on every combination of words that the budget allows.
 *
 *     model *m = harness_model("cnn", settings, 8, 3, 1.0, seed);
 *     harness_tally tally = {0};
 *     harness h;
 *     CHECK_OK(harness_init(&h, &cert_cnn, m));
 *     for (...) {
 *         cert_case c;
 *         harness_case(m, n, 3, STET_ANY, &r, &c);
 *         harness_check(&h, &c, 30, 0, &tally);
 *     }
 *     harness_deinit(&h);
 *     CHECK_EQ(tally.violations, 0); */
#ifndef TESTS_CERTIFY_HARNESS_H
#define TESTS_CERTIFY_HARNESS_H

#include "certify/certify_impl.h"
#include "test.h"

enum { HARNESS_POSITIONS = 32, HARNESS_SET = 8, HARNESS_METHODS = 8, HARNESS_CLASSES = 8 };

/* A compiled model with `classes` classes on random vectors of length `dim` whose entries, like all
 * weights after `scale`, are of order one. Words have ids STET_FIRST_WORD .. m->n_words - 1. */
model *harness_model(const char *kind, const char *const *settings, size_t dim, size_t classes,
                     double scale, uint64_t seed);

/* The same with word scores of order `scores`, beside the network of any kind. */
model *harness_scored(const char *kind, const char *const *settings, size_t dim, size_t classes,
                      double scale, double scores, uint64_t seed);

/* What was compiled, anew, after the model's numbers were changed. */
void harness_recompile(model *m);
/* The same by way of test_dir(), takes m. */
model *harness_fresh(model *m);

/* An S4 model of one layer on vectors so small that float32 has few digits left of them, and with
 * weights that bring them back to size: what underflow loses, the margin feels. */
model *harness_s4_of_little(const char *const *settings, uint64_t seed);

typedef struct cert_case {
    cert_task task; /* points into the arrays below: do not copy a case */
    uint32_t start[HARNESS_POSITIONS + 1], word[HARNESS_POSITIONS * HARNESS_SET];
    bool unpaid[HARNESS_POSITIONS];
} cert_case;

/* A random text of n words; about two in three positions have a set of up to `most` words (the
 * reference included). With a budget some changes are free. */
void harness_case(const model *m, size_t n, size_t most, size_t budget, rng *r, cert_case *out);

/* least[c]: the smallest margin of the task's label against class c over all combinations, by views
 * and by full evaluation in float32; how many combinations there were. */
size_t harness_minimum(const model *m, const cert_task *t, double least[HARNESS_CLASSES]);

/* A family at work on one model. */
typedef struct harness {
    const cert_family *family;
    const model *m;
    void *shared, *work;
} harness;
stet_status harness_init(harness *h, const cert_family *family, const model *m);
void harness_deinit(harness *h);

/* A family from its beginning to every bound of a case, for ALLOC_FAIL_LOOP. */
typedef struct harness_use {
    const cert_family *family;
    const model *m;
    const cert_case *c;
} harness_use;
stet_status harness_complete(void *use);

typedef struct harness_tally {
    size_t cases, combinations, bounds, violations;
    double drop[HARNESS_METHODS]; /* sums: how far the bound is below the clean margin */
    double true_drop;             /* the same of the truth: of all bounds of one method */
} harness_tally;

/* Every method against every class: the bound must not exceed the truth, its parts must add up.
 * `raise` is added to each bound first: a broken bound, which must be noticed. */
void harness_check(harness *h, const cert_case *c, size_t refine, double raise,
                   harness_tally *tally);

/* The same against `count` random combinations, for tasks that nobody can enumerate: what is tried,
 * by views, includes each position's worst word according to every bound that is a sum. */
void harness_sample(harness *h, const cert_task *t, size_t refine, size_t count, rng *r,
                    harness_tally *tally);

#endif
