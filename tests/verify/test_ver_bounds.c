/* The checker's own bounds against the truth and against the certifier's: never above what the
 * float32 program does on any combination of words, never below what the certifier claims. */
#include <inttypes.h>
#include <limits.h>

#include "../certify/harness.h"
#include "base/mem.h"
#include "model/s4.h"
#include "verify/ver_activation.h"
#include "verify/ver_exact.h"
#include "verify/ver_line.h"

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
static const char *const *const s4_variants[] = {
    s4_relu, s4_max, s4_both, s4_both_deep, s4_span, s4_deep_span, s4_bare, s4_bare_deep};
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
static const char *const sum_alone[] = {NULL}, *const sum_net[] = {"score-hidden=5", NULL};
static const char *const cnn_net[] = {"filters=5", "kernels=1,2,4", "score-hidden=5", NULL};
static const char *const bilstm_net[] = {"hidden=4", "score-hidden=5", NULL};

static double word_scores; /* how large scores of words are; 0: models have none */

static model *new_model(const char *kind, const char *const *settings, size_t dim, size_t classes,
                        double scale, uint64_t seed)
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
static void pair_open(pair *p, model *m)
{
    *p = (pair){.m = m};
    CHECK_OK(ver_model_load(test_dir(), &p->v));
    stet_identity is;
    CHECK_OK(stet_model_identity(m, &is));
    CHECK(strcmp(p->v.sha_config, is.config) == 0 && strcmp(p->v.sha_weights, is.weights) == 0 &&
          strcmp(p->v.sha_vocabulary, is.vocabulary) == 0);
    p->w.m = &p->v;
}

static void pair_close(pair *p)
{
    ver_work_deinit(&p->w);
    ver_model_deinit(&p->v);
    stet_model_free(p->m);
}

static ver_task task_of(const pair *p, const cert_task *t)
{
    return (ver_task){t->n, t->start, t->word, t->budget, t->unpaid ? t->unpaid : p->none};
}

static void open_task(pair *p, const ver_task *t)
{
    arena_restore(&p->w.mem, (arena_mark){0});
    p->w.t = t;
    CHECK_OK(p->v.kind->open(&p->w));
}

/* Synonyms close to their word, so that bounds mean something: word i differs from word 0 of its
 * set by noise. */
static void make_close(model *m, const cert_case *c, double noise, rng *r)
{
    for (size_t p = 0; p < c->task.n; p++)
        for (uint32_t i = c->start[p] + 1; i < c->start[p + 1]; i++)
            for (size_t d = 0; d < m->dim; d++)
                m->table[c->word[i] * m->dim + d] =
                    m->table[c->word[c->start[p]] * m->dim + d] + (float)(noise * rng_normal(r));
}

static bool has_exact(const pair *p)
{
    return ver_exact_here() && (p->v.kind == &ver_cnn || p->v.kind == &ver_sum_kind);
}

/* Own bounds of every method, of an open task with three classes, are at most the truth; how many
 * are positive. */
static size_t check_bounds(pair *p, int label, const double *least)
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

/* The same against the minimum over all combinations of random texts. */
static size_t compare_with_truth(const char *kind, const char *const *settings, size_t n,
                                 size_t cases, double noise)
{
    size_t positive = 0;
    for (size_t i = 0; i < cases; i++) {
        rng r = rng_stream(i, STREAM_TEST, 5);
        model *m = new_model(kind, settings, 4, 3, 1.5, i);
        cert_case c;
        harness_case(m, 1 + rng_below(&r, n), 3, i % 3 == 0 ? STET_ANY : i % 3, &r, &c);
        make_close(m, &c, noise, &r);
        pair p;
        double least[HARNESS_CLASSES];
        m = harness_fresh(m);
        harness_minimum(m, &c.task, least);
        pair_open(&p, m);
        const ver_task t = task_of(&p, &c.task);
        open_task(&p, &t);
        positive += check_bounds(&p, c.task.label, least);
        pair_close(&p);
    }
    return positive;
}

TEST(cnn_bounds_never_exceed_the_truth)
{
    CHECK_LE(20, compare_with_truth("cnn", cnn, 5, 60, 0.1));
    compare_with_truth("cnn", cnn, 5, 60, 1);
}

TEST(bilstm_bounds_never_exceed_the_truth)
{
    for (size_t k = 0; k < POOLS; k++) {
        CHECK_LE(20, compare_with_truth("bilstm", bilstm_pools[k], 5, 60, 0.1));
        compare_with_truth("bilstm", bilstm_pools[k], 5, 40, 1);
    }
}

TEST(s4_bounds_never_exceed_the_truth)
{
    CHECK_LE(20, compare_with_truth("s4", s4, 5, 60, 0.05));
    compare_with_truth("s4", s4, 5, 60, 1);
    compare_with_truth("s4", s4_deep, 5, 60, 0.05);
    for (size_t k = 0; k < S4_VARIANTS; k++) {
        CHECK_LE(10, compare_with_truth("s4", s4_variants[k], 5, 60, 0.05));
        compare_with_truth("s4", s4_variants[k], 5, 60, 1);
    }
}

/* A task without choices: the bound is the margin but for rounding. */
static void compare_values(const char *kind, const char *const *settings, double tolerance)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        rng r = rng_stream(seed, STREAM_TEST, 6);
        pair p;
        pair_open(&p, harness_fresh(new_model(kind, settings, 6, 3, 1, seed)));
        cert_case c;
        harness_case(p.m, 1 + rng_below(&r, 20), 1, STET_ANY, &r, &c);
        double least[HARNESS_CLASSES];
        harness_minimum(p.m, &c.task, least);
        const ver_task t = task_of(&p, &c.task);
        open_task(&p, &t);
        for (int other = 0; other < 3; other++) {
            if (other == c.task.label)
                continue;
            double own;
            CHECK_OK(p.v.kind->bound(&p.w, c.task.label, other, p.v.kind->value, NULL, &own));
            CHECK_NEAR(own, least[other], tolerance);
            CHECK_NEAR(p.v.kind->margin(&p.w, c.task.label, other), least[other], 1e-5);
        }
        pair_close(&p);
    }
}

TEST(a_cnn_without_choices_is_evaluated)
{
    compare_values("cnn", cnn, 2e-5);
}

TEST(a_bilstm_without_choices_is_evaluated)
{
    for (size_t k = 0; k < POOLS; k++)
        compare_values("bilstm", bilstm_pools[k], 1e-4);
}

TEST(an_s4_without_choices_is_evaluated)
{
    compare_values("s4", s4, 1e-3);
    compare_values("s4", s4_deep, 1e-2);
    for (size_t k = 0; k < S4_VARIANTS; k++)
        compare_values("s4", s4_variants[k], 1e-2);
}

/* The line of a text w0 w1 ... of n words: word `other` at position 0 gives the class `after`. */
static json_t *broken_line(size_t n, int label, double clean, const char *other, int after)
{
    json_t *words = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(words, json_sprintf("w%zu", i));
    return json_pack("{s:i, s:i, s:i, s:s, s:i, s:f, s:o, s:{s:[s]}, s:[[i, s]], s:i}", "text", 0,
                     "label", label, "answer", label, "verdict", "broken", "budget", 0, "clean",
                     clean, "words", words, "sets", "0", other, "edits", 0, other, "after", after);
}

/* An LSTM with weights so large that a bound of its rounding says nothing of any text. */
TEST(a_counter_example_is_judged_by_its_value)
{
    enum { N = 30 };
    static const char *const wide[] = {"hidden=16", NULL};
    size_t seen[2] = {0}; /* edits that keep the class, that change it */
    for (uint64_t seed = 0; seed < 5; seed++) {
        pair p;
        pair_open(&p, harness_fresh(harness_model("bilstm", wide, 4, 2, 12, seed)));
        uint32_t ids[N];
        float logits[2];
        for (uint32_t i = 0; i < N; i++)
            ids[i] = STET_FIRST_WORD + i;
        CHECK_OK(model_logits_of(p.m, ids, N, logits));
        const int label = stet_argmax(logits, 2);
        const double clean = fabs((double)logits[0] - (double)logits[1]);
        for (uint32_t word = N; word < 60; word++) {
            ids[0] = STET_FIRST_WORD + word;
            CHECK_OK(model_logits_of(p.m, ids, N, logits));
            const bool changes = stet_argmax(logits, 2) != label;
            char text[32];
            snprintf(text, sizeof text, "w%" PRIu32, word);
            arena mem = {0};
            ver_line l;
            stet_verify_result r = {0};
            json_t *line = broken_line(N, label, clean, text, 1 - label);
            CHECK_OK(ver_line_read(&p.v, line, &mem, &l));
            if (fabsf(logits[0] - logits[1]) > 1e-3f) {
                CHECK_EQ(ver_line_check(&p.w, &l, VER_ANY, &mem, &r),
                         changes ? STET_OK : STET_EFORMAT);
                seen[changes]++;
            }
            arena_deinit(&mem);
            json_decref(line);
        }
        pair_close(&p);
    }
    CHECK(seen[0] > 10 && seen[1] > 10);
}

/* Bounds in double lie below the exact ones, by no more than their own rounding; a growth bound is
 * below the intervals that are derived in its place. */
static void check_exact(pair *p, int label, int other, const char *method, const json_t *witness,
                        double own)
{
    double exact;
    p->w.exact = true;
    CHECK_OK(p->v.kind->bound(&p->w, label, other, method, witness, &exact));
    p->w.exact = false;
    if (own > -1e20) /* those of huge biases have their own rounding */
        CHECK_LE(own, exact + 1e-300);
    if (strncmp(method, "gbm", 3) != 0 && fabs(own) < 1e6)
        CHECK_NEAR(own, exact, 1e-10 * (1 + fabs(own)));
}

static float huge_bias; /* of all filters, where it is not 0 */

/* Whatever the certifier proves, with its witness, the checker can follow. */
static size_t follow(const cert_family *f, const char *skip, const char *kind,
                     const char *const *settings, size_t n, size_t cases, double noise)
{
    size_t followed = 0;
    for (size_t i = 0; i < cases; i++) {
        rng r = rng_stream(i, STREAM_TEST, 7);
        model *m = new_model(kind, settings, 4, 3, 1.5, i);
        cert_case c;
        harness_case(m, 1 + rng_below(&r, n), 4, i % 3 == 0 ? STET_ANY : i % 3, &r, &c);
        make_close(m, &c, noise, &r);
        for (int k = 0; huge_bias != 0 && k < 15; k++)
            model_value(m, 2 * (k / 5) + 1)[k % 5] = huge_bias;
        for (size_t k = 0; huge_bias != 0 && k < shape_count(m->params[6].shape); k++)
            model_value(m, 6)[k] *= 0.15f; /* or the logits would be too large to be bounded */
        m = harness_fresh(m);
        harness h;
        pair p;
        double drop[HARNESS_POSITIONS];
        uint32_t worst[HARNESS_POSITIONS];
        CHECK_OK(harness_init(&h, f, m));
        pair_open(&p, m);
        const ver_task t = task_of(&p, &c.task);
        CHECK_OK(f->open(h.work, &c.task));
        open_task(&p, &t);
        for (int other = 0; other < 3; other++)
            for (size_t method = 0; f->methods[method] && other != c.task.label; method++) {
                if (skip && strcmp(f->methods[method], skip) == 0)
                    continue;
                cert_bound b = {.drop = drop, .worst = worst};
                CHECK_OK(f->bound(h.work, method, other, 30, &b));
                json_t *witness = f->witness ? f->witness(h.work, method, other) : NULL;
                double own;
                CHECK_OK(
                    p.v.kind->bound(&p.w, c.task.label, other, f->methods[method], witness, &own));
                if (has_exact(&p))
                    check_exact(&p, c.task.label, other, f->methods[method], witness, own);
                json_decref(witness);
                if (isfinite(b.margin) && !(own >= b.margin - 1e-6 * (1 + fabs(b.margin))))
                    test_fail(__FILE__, __LINE__, "case %zu, %s: claimed %.9g, derived %.9g", i,
                              f->methods[method], b.margin, own);
                followed += b.margin > 0;
            }
        harness_deinit(&h);
        pair_close(&p);
    }
    return followed;
}

TEST(the_cnn_certifier_can_be_followed)
{
    CHECK_LE(20, follow(&cert_cnn, NULL, "cnn", cnn, 8, 150, 0.1));
    follow(&cert_cnn, NULL, "cnn", cnn, 8, 100, 1);
    static const float bias[] = {-1e20f, -1e30f, 1e25f, 1e30f};
    for (size_t k = 0; k < sizeof bias / sizeof *bias; k++) {
        huge_bias = bias[k];
        follow(&cert_cnn, NULL, "cnn", cnn, 8, 20, 0.1);
    }
    huge_bias = 0;
}

TEST(the_bilstm_certifier_can_be_followed)
{
    static const double noise[] = {0.03, 0.1, 0.3, 1};
    for (size_t pool = 0; pool < POOLS; pool++) {
        CHECK_LE(10, follow(&cert_bilstm, NULL, "bilstm", bilstm_pools[pool], 12, 60, 0.1));
        for (size_t k = 0; k < 4;
             k++) /* long enough for decisions that a little rounding might turn */
            follow(&cert_bilstm, NULL, "bilstm", bilstm_pools[pool], 20, pool ? 30 : 120, noise[k]);
    }
}

TEST(the_s4_certifier_can_be_followed)
{
    CHECK_LE(20, follow(&cert_s4, NULL, "s4", s4, 12, 100, 0.05));
    follow(&cert_s4, NULL, "s4", s4, 12, 60, 1);
    follow(&cert_s4, NULL, "s4", s4_deep, 12, 60, 0.05);
    for (size_t k = 0; k < S4_VARIANTS; k++) {
        CHECK_LE(10, follow(&cert_s4, NULL, "s4", s4_variants[k], 12, 60, 0.05));
        follow(&cert_s4, NULL, "s4", s4_variants[k], 12, 40, 1);
    }
}

/* ---- scores of words ---------------------------------------------------------------------- */

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
              {"bilstm", bilstm_net, &cert_bilstm, 2e-4}};
enum { SCORED = sizeof scored / sizeof *scored };

TEST(bounds_with_scores_never_exceed_the_truth)
{
    for (size_t k = 0; k < SCORED; k++) {
        word_scores = 0.05;
        CHECK_LE(10, compare_with_truth(scored[k].name, scored[k].settings, 5, 60, 0.05));
        word_scores = 1;
        compare_with_truth(scored[k].name, scored[k].settings, 5, 60, 1);
    }
}

TEST(texts_with_scores_and_without_choices_are_evaluated)
{
    word_scores = 1;
    for (size_t k = 0; k < SCORED; k++)
        compare_values(scored[k].name, scored[k].settings, scored[k].tolerance);
}

TEST(a_certifier_that_reads_scores_can_be_followed)
{
    for (size_t k = 0; k < SCORED; k++) {
        word_scores = 0.1;
        CHECK_LE(20,
                 follow(scored[k].family, NULL, scored[k].name, scored[k].settings, 10, 100, 0.05));
        word_scores = 1;
        follow(scored[k].family, NULL, scored[k].name, scored[k].settings, 16, 60, 0.3);
    }
}

/* ---- orders of summation ------------------------------------------------------------------ */

/* A float32 accumulator that starts at the bias and takes products that are each half of its last
 * place: it takes none. Real arithmetic, and the program, see all of them. */
TEST(a_sum_that_starts_at_the_bias_is_covered)
{
    enum { DIM = 64, K = 5 };
    static const char *const one_filter[] = {"filters=1", "kernels=5", NULL};
    for (int c = 0; c <= 40; c++) {
        model *m = harness_model("cnn", one_filter, DIM, 2, 0, 1);
        for (size_t i = 0; i < m->n_words * m->dim; i++)
            m->table[i] = 1;
        for (size_t i = 0; i < DIM * K; i++)
            model_value(m, 0)[i] = 0x1p-25f;
        *model_value(m, 1) = 1;
        *model_value(m, 2) = 1;                         /* logit 0 is the feature */
        model_value(m, 3)[1] = 1 + (float)c * 0x1p-22f; /* logit 1 a constant */
        pair p;
        pair_open(&p, harness_fresh(m));
        volatile float sum = *model_value(p.m, 1);
        for (size_t i = 0; i < DIM * K; i++)
            sum += model_value(p.m, 0)[i] * p.m->table[2 * DIM + i % DIM];
        const double margin = (double)sum - (double)model_value(p.m, 3)[1];
        const uint32_t start[] = {0, 1, 2, 3, 4, 5}, word[] = {2, 3, 4, 5, 6};
        const cert_task task = {.n = K, .start = start, .word = word, .budget = STET_ANY};
        const ver_task t = task_of(&p, &task);
        open_task(&p, &t);
        harness h;
        CHECK_OK(harness_init(&h, &cert_cnn, p.m));
        CHECK_OK(h.family->open(h.work, &task));
        for (size_t method = 0; cert_cnn.methods[method]; method++) {
            double own, drop[K];
            uint32_t worst[K];
            cert_bound b = {.drop = drop, .worst = worst};
            CHECK_OK(p.v.kind->bound(&p.w, 0, 1, cert_cnn.methods[method], NULL, &own));
            CHECK_OK(h.family->bound(h.work, method, 1, 30, &b));
            CHECK_LE(own, margin);
            CHECK_LE(b.margin, margin);
        }
        harness_deinit(&h);
        pair_close(&p);
    }
}

/* ---- numbers at the edge of float32 -------------------------------------------------------- */

TEST(lines_over_huge_intervals_hold_every_point)
{
    for (int right = 0; right <= 30; right++)
        for (int is_tanh = 0; is_tanh < 2; is_tanh++) {
            const double hi = pow(10, right);
            const ver_act_line line = ver_line_over(is_tanh, 0, (iv){-30, hi});
            for (double x = -30; x <= fmin(hi, 60); x += 0.5)
                CHECK_LE(fabs(ver_activation(is_tanh, x) - line.slope * x - line.at), line.off);
        }
}

/* Where float32 may overflow no method has a bound, although doubles could go on. A parameter's
 * values all become `by`, or, if id is WORDS, the words' vectors grow by it. */
enum { WORDS = INT_MAX, SCORES = INT_MAX - 1 };
static void expect_no_bound(const char *kind, const char *const *settings, int id, float by)
{
    model *m = new_model(kind, settings, 4, 3, 1, 1);
    for (size_t i = 0; id == WORDS && i < m->n_words * m->dim; i++)
        m->table[i] *= by;
    id = id < 0 ? id + (int)m->n_params : id == SCORES ? m->scores : id;
    for (size_t i = 0; id != WORDS && i < shape_count(m->params[id].shape); i++)
        m->value[m->params[id].first + i] = by;
    pair p;
    pair_open(&p, harness_fresh(m));
    const uint32_t start[] = {0, 2}, word[] = {6, 7};
    const ver_task t = {1, start, word, VER_ANY, p.none};
    open_task(&p, &t);
    for (const char *const *method = p.v.kind->methods; *method; method++) {
        double own;
        CHECK_OK(p.v.kind->bound(&p.w, 0, 1, *method, NULL, &own));
        CHECK(!(own > -INFINITY)); /* NaN stands for nothing either */
    }
    pair_close(&p);
}

TEST(what_overflows_float32_has_no_bound)
{
    enum { HEAD = -2 };
    expect_no_bound("cnn", cnn, WORDS, 1e33f);
    expect_no_bound("cnn", cnn, HEAD, 1e38f);
    expect_no_bound("bilstm", bilstm, WORDS, 1e33f);
    expect_no_bound("bilstm", bilstm, HEAD, 1e38f);
    expect_no_bound("s4", s4, WORDS, 1e20f);
    expect_no_bound("s4", s4, HEAD, 1e38f);
    expect_no_bound("s4", s4, S4_FIRST_LAYER + S4_A, 1e3f);
    expect_no_bound("s4", s4, S4_FIRST_LAYER + S4_LOG_DT, -1e3f);
    word_scores = 1;
    for (size_t k = 0; k < SCORED; k++)
        expect_no_bound(scored[k].name, scored[k].settings, SCORES, 1e38f);
    expect_no_bound("sum", sum_net, WORDS, 1e33f);
}

/* Pairs of states whose parts of K cancel: b c + c (-b), with b and c of up to 37 bits. In real
 * arithmetic K is 0; what double makes of it is noise, and no two programs make the same. */
static void cancel_kernels(model *m, rng *r)
{
    enum { STATES = 2 };
    const size_t first = S4_FIRST_LAYER, channels = shape_rows(m->params[first + S4_A].shape);
    real *const at[] = {model_value(m, (int)first + S4_A), model_value(m, (int)first + S4_W),
                        model_value(m, (int)first + S4_P), model_value(m, (int)first + S4_B),
                        model_value(m, (int)first + S4_C)};
    for (size_t h = 0; h < channels; h++) {
        float big[4];
        for (int k = 0; k < 4; k++)
            big[k] = (float)((1 + rng_below(r, (1 << 24) - 1)) * 4096);
        for (size_t i = h * STATES; i < (h + 1) * STATES; i++) {
            const bool second = i % STATES;
            at[0][i] = at[0][h * STATES];
            at[1][i] = at[1][h * STATES];
            for (int part = 0; part < 2; part++) {
                at[2][2 * i + (size_t)part] = 0;
                at[3][2 * i + (size_t)part] = big[second ? 2 + part : part];
                at[4][2 * i + (size_t)part] = second ? -big[part] : big[2 + part];
            }
        }
    }
}

TEST(kernels_that_cancel_prove_nothing_false)
{
    size_t wrong = 0;
    for (uint64_t seed = 0; seed < 80; seed++) {
        rng r = rng_stream(seed, STREAM_TEST, 15);
        model *m = harness_model("s4", s4, 4, 3, 1, seed);
        cancel_kernels(m, &r);
        cert_case c;
        harness_case(m, 1 + rng_below(&r, 4), 2, STET_ANY, &r, &c);
        make_close(m, &c, 0.01, &r);
        pair p;
        double least[HARNESS_CLASSES];
        m = harness_fresh(m);
        harness_minimum(m, &c.task, least);
        pair_open(&p, m);
        const ver_task t = task_of(&p, &c.task);
        open_task(&p, &t);
        for (int other = 0; other < 3; other++)
            for (const char *const *method = p.v.kind->methods; *method; method++) {
                double own;
                CHECK_OK(p.v.kind->bound(&p.w, c.task.label, other, *method, NULL, &own));
                wrong += other != c.task.label && own > least[other];
            }
        pair_close(&p);
    }
    CHECK_EQ(wrong, 0);
}

/* D takes away what K has at lag 0: the rounding of K to float is that of what was there before. */
TEST(a_kernel_that_d_cancels_keeps_its_rounding)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        rng r = rng_stream(seed, STREAM_TEST, 16);
        model *m = harness_model("s4", s4, 4, 3, 1, seed);
        real *c = model_value(m, S4_FIRST_LAYER + S4_C);
        for (size_t i = 0; i < shape_count(m->params[S4_FIRST_LAYER + S4_C].shape); i++)
            c[i] *= 1e7f;
        cert_case k;
        harness_case(m, 1 + rng_below(&r, 3), 2, STET_ANY, &r, &k);
        make_close(m, &k, 0.01, &r);
        pair p;
        pair_open(&p, harness_fresh(m));
        const ver_task t = task_of(&p, &k.task);
        open_task(&p, &t);
        real *d = model_value(p.m, S4_FIRST_LAYER + S4_D);
        for (size_t h = 0; h < p.v.channels; h++) /* what is kept begins with K at lag 0 */
            d[h] -= (float)((const double *)p.w.kept)[h];
        m = p.m;
        p.m = NULL;
        pair_close(&p);
        m = harness_fresh(m);
        double least[HARNESS_CLASSES];
        harness_minimum(m, &k.task, least);
        pair_open(&p, m);
        open_task(&p, &t);
        check_bounds(&p, k.task.label, least);
        pair_close(&p);
    }
}

TEST(what_underflows_is_part_of_the_bound)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        rng r = rng_stream(seed, STREAM_TEST, 8);
        pair p;
        pair_open(&p, harness_s4_of_little(s4, seed));
        cert_case c;
        harness_case(p.m, 1 + rng_below(&r, 3), 2, STET_ANY, &r, &c);
        double least[HARNESS_CLASSES];
        harness_minimum(p.m, &c.task, least);
        const ver_task t = task_of(&p, &c.task);
        open_task(&p, &t);
        check_bounds(&p, c.task.label, least);
        pair_close(&p);
    }
}
