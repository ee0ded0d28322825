/* A model and what the checker makes of its folder, side by side; the models that its bounds are tried
 * on. */
#ifndef TESTS_VERIFY_PAIR_H
#define TESTS_VERIFY_PAIR_H

#include "../certify/harness.h"
#include "verify/ver_exact.h"

static const char *const s4[] = {"channels=5", "state=4", "layers=1", NULL};
static const char *const s4_deep[] = {"channels=4", "state=4", "layers=2", NULL};
static const char *const s4_relu[] = {"channels=5", "state=4", "s4-block=relu", NULL};
static const char *const s4_max[] = {"channels=5", "state=4", "s4-pool=max", NULL};
static const char *const s4_both[] = {"channels=5", "state=4", "s4-block=relu", "s4-pool=max",
                                      NULL};
static const char *const s4_both_deep[] = {"channels=4",    "state=4",     "layers=2",
                                           "s4-block=relu", "s4-pool=max", NULL};
static const char *const s4_span[] = {"channels=5",  "state=4", "s4-block=relu",
                                      "s4-pool=max", "span=4",  NULL};
static const char *const s4_deep_span[] = {"channels=5", "state=4", "layers=2", "span=3", NULL};
static const char *const s4_bare[] = {"channels=5",  "state=4", "s4-block=bare",
                                      "s4-pool=max", "span=4",  NULL};
static const char *const s4_bare_deep[] = {"channels=4", "state=4", "layers=2", "s4-block=bare",
                                           NULL};
static const char *const *const s4_variants[] = {s4_relu, s4_max,       s4_both, s4_both_deep,
                                                 s4_span, s4_deep_span, s4_bare, s4_bare_deep};
enum { S4_VARIANTS = sizeof s4_variants / sizeof *s4_variants };
static const char *const bilstm[] = {"hidden=4", NULL};
static const char *const bilstm_max[] = {"hidden=4", "pool=max", NULL};
static const char *const bilstm_mean[] = {"hidden=4", "pool=mean", NULL};
static const char *const bilstm_max_span[] = {"hidden=4", "pool=max", "span=3", NULL};
static const char *const bilstm_mean_span[] = {"hidden=4", "pool=mean", "span=4", NULL};
static const char *const *const bilstm_pools[] = {bilstm, bilstm_max, bilstm_mean, bilstm_max_span,
                                                  bilstm_mean_span};
enum { POOLS = 5 };
static const char *const cnn[] = {"filters=5", "kernels=1,2,4", NULL};
static const char *const dense[] = {"filters=5", "kernels=1,2,4", "dense=6", NULL};
static const char *const s4cnn[] = {"filters=5", "kernels=1,4", "rank=2", "state=4", NULL};
static const char *const sum_alone[] = {NULL}, *const sum_net[] = {"score-hidden=5", NULL};
static const char *const cnn_net[] = {"filters=5", "kernels=1,2,4", "score-hidden=5", NULL};
static const char *const bilstm_net[] = {"hidden=4", "score-hidden=5", NULL};

static double word_scores; /* how large scores of words are; 0: models have none */

static inline model *new_model(const char *kind, const char *const *settings, size_t dim,
                               size_t classes, double scale, uint64_t seed)
{
    return word_scores != 0 ? harness_scored(kind, settings, dim, classes, scale, word_scores, seed)
                            : harness_model(kind, settings, dim, classes, scale, seed);
}

typedef struct pair {
    model *m;
    ver_model v;
    ver_work w;
    bool none[HARNESS_POSITIONS];
} pair;

/* Of a model that harness_fresh has left in test_dir(). */
static inline void pair_open(pair *p, model *m)
{
    *p = (pair){.m = m};
    CHECK_OK(ver_model_load(test_dir(), &p->v));
    stet_identity is;
    CHECK_OK(stet_model_identity(m, &is));
    CHECK(strcmp(p->v.sha_config, is.config) == 0 && strcmp(p->v.sha_weights, is.weights) == 0 &&
          strcmp(p->v.sha_vocabulary, is.vocabulary) == 0);
    p->w.m = &p->v;
}

static inline void pair_close(pair *p)
{
    ver_work_deinit(&p->w);
    ver_model_deinit(&p->v);
    stet_model_free(p->m);
}

static inline ver_task task_of(const pair *p, const cert_task *t)
{
    return (ver_task){t->n, t->start, t->word, t->budget, t->unpaid ? t->unpaid : p->none};
}

static inline void open_task(pair *p, const ver_task *t)
{
    arena_restore(&p->w.mem, (arena_mark){0});
    p->w.t = t;
    CHECK_OK(p->v.kind->open(&p->w));
}

/* Synonyms close to their word, so that bounds mean something: word i differs from word 0 of its
 * set by noise. */
static inline void make_close(model *m, const cert_case *c, double noise, rng *r)
{
    for (size_t p = 0; p < c->task.n; p++)
        for (uint32_t i = c->start[p] + 1; i < c->start[p + 1]; i++)
            for (size_t d = 0; d < m->dim; d++)
                m->table[c->word[i] * m->dim + d] =
                    m->table[c->word[c->start[p]] * m->dim + d] + (float)(noise * rng_normal(r));
}

/* The case with such synonyms, on both sides; least: the smallest margins over all combinations. *t is
 * the checker's task, opened. */
static inline void pair_open_close(pair *p, model *m, const cert_case *c, double noise, rng *r,
                                   double *least, ver_task *t)
{
    make_close(m, c, noise, r);
    m = harness_fresh(m);
    harness_minimum(m, &c->task, least);
    pair_open(p, m);
    *t = task_of(p, &c->task);
    open_task(p, t);
}

static inline bool has_exact(const pair *p)
{
    const ver_kind *k = p->v.kind;
    return ver_exact_here() && (k == &ver_cnn || k == &ver_s4cnn || k == &ver_sum_kind);
}

/* Own bounds of every method, of an open task with three classes, are at most the truth; how many
 * are positive. */
static inline size_t check_bounds(pair *p, int label, const double *least)
{
    size_t positive = 0;
    for (int other = 0; other < 3; other++)
        for (const char *const *method = p->v.kind->methods; *method && other != label; method++) {
            double own;
            CHECK_OK(p->v.kind->bound(&p->w, label, other, *method, NULL, &own));
            CHECK_LE(own, least[other]);
            positive += own > 0;
            if (!has_exact(p))
                continue;
            p->w.exact = true;
            CHECK_OK(p->v.kind->bound(&p->w, label, other, *method, NULL, &own));
            CHECK_LE(own, least[other]);
            p->w.exact = false;
        }
    return positive;
}

/* Kinds with scores of words. */
static const struct {
    const char *name;
    const char *const *settings;
    const cert_family *family;
    double tolerance; /* of a text without choices */
} scored[] = {{"sum", sum_alone, &cert_sum, 4e-5},
              {"sum", sum_net, &cert_sum, 1e-4},
              {"cnn", cnn, &cert_cnn, 4e-5},
              {"bilstm", bilstm, &cert_bilstm, 1e-4},
              {"s4", s4, &cert_s4, 1e-3},
              {"bilstm", bilstm_max, &cert_bilstm, 1e-4},
              {"s4", s4_both, &cert_s4, 1e-3},
              {"cnn", cnn_net, &cert_cnn, 1e-4},
              {"cnn", dense, &cert_cnn, 1e-4},
              {"bilstm", bilstm_net, &cert_bilstm, 2e-4}};
enum { SCORED = sizeof scored / sizeof *scored };

#endif
