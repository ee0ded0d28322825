/* The checker's bounds where arithmetic is at its edge: orders of summation, and numbers that overflow,
 * underflow or cancel. */
#include <limits.h>

#include "model/s4.h"
#include "pair.h"
#include "verify/ver_activation.h"
#include "verify/ver_line.h"

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
    expect_no_bound("cnn", dense, WORDS, 1e33f);
    expect_no_bound("cnn", dense, HEAD, 1e38f);
    expect_no_bound("cnn", dense, HEAD - 2, 1e38f); /* the layer before it */
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

/* A layer whose units overflow has none either, although the last one reads nothing of them. */
TEST(what_overflows_before_the_last_layer_has_no_bound)
{
    model *m = new_model("cnn", dense, 4, 3, 1, 1);
    const int layer = model_param_id(m, "dense.weight"), last = model_param_id(m, "fc.weight");
    for (size_t i = 0; i < shape_count(m->params[layer].shape); i++)
        model_value(m, layer)[i] = 3e38f;
    for (size_t i = 0; i < shape_count(m->params[last].shape); i++)
        model_value(m, last)[i] = 0;
    for (int k = 0; k < 3; k++)
        model_value(m, last + 1)[k] = k == 0;
    pair p;
    pair_open(&p, harness_fresh(m));
    const uint32_t start[] = {0, 2}, word[] = {6, 7};
    const ver_task t = {1, start, word, VER_ANY, p.none};
    open_task(&p, &t);
    double own;
    CHECK_OK(p.v.kind->bound(&p.w, 0, 1, "ibp", NULL, &own));
    CHECK(!(own > -INFINITY));
    pair_close(&p);
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
        pair p;
        double least[HARNESS_CLASSES];
        ver_task t;
        pair_open_close(&p, m, &c, 0.01, &r, least, &t);
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
