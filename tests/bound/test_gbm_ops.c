/* The growth bounds of whole models on the tape: gradients of the term, and what it bounds. */
#include "bound/bounded_kinds.h"

#include "test.h"

enum { H = 7 }; /* of the small bilstm */

/* Boxes for both directions of the small bilstm; other models do not look. */
typedef struct boxes {
    real v[2][SMALL_DIM], state[4][H], eta[SMALL_DIM];
} boxes;

static void make_boxes(boxes *b, rng *r)
{
    for (size_t i = 0; i < SMALL_DIM; i++) {
        const double at = rng_normal(r), half = 0.5 * rng_double(r);
        b->v[0][i] = (real)(at - half), b->v[1][i] = (real)(at + half);
        b->eta[i] = (real)(0.2 * rng_double(r));
    }
    for (size_t i = 0; i < H; i++) {
        b->state[0][i] = (real)-rng_double(r), b->state[1][i] = (real)rng_double(r);
        b->state[2][i] = (real)(-2 * rng_double(r)), b->state[3][i] = (real)(2 * rng_double(r));
    }
}

/* The term and, where `part` is given, its parts. */
static double term_of(const model *m, gbm_term_args a, const boxes *b, real *grad, double *part)
{
    arena mem = {0};
    tape t;
    node **params;
    gbm_report report;
    tape_init(&t, &mem, NULL, grad != NULL);
    CHECK_OK(model_nodes(m, &t, grad, &params));
    if (b) {
        a.words = tape_numbers(&t, shape2(2, SMALL_DIM), b->v[0]);
        a.state[0] = a.state[1] = tape_numbers(&t, shape2(4, H), b->state[0]);
        a.eta = tape_numbers(&t, shape1(SMALL_DIM), b->eta);
    }
    node *y = gbm_term(m, &t, params, &a, &report);
    CHECK_OK(tape_status(&t));
    CHECK_EQ(shape_count(y->shape), 1);
    if (grad)
        CHECK_OK(tape_backward(&t, y));
    for (int p = 0; part && p < GBM_PARTS; p++)
        part[p] = report.part[p] ? (double)report.part[p]->value[0] : 0;
    const double v = (double)y->value[0];
    arena_deinit(&mem);
    return v;
}

#define FOR_EACH_TERM(kind, of, classes)                                                           \
    FOR_EACH_BOUNDED(kind)                                                                         \
    for (gbm_of of = GBM_OF_LAYER; of < terms_end(kind); of++)                                     \
        for (size_t classes = 2; classes <= 3; classes++)

#ifdef STET_DOUBLE
/* All values by `by` of a step, and what they make of others. */
static void move_values(model *m, const real *step, double by)
{
    arena mem = {0};
    for (size_t i = 0; i < m->n_values; i++)
        m->value[i] += (real)by * step[i];
    CHECK_OK(weights_derive(NULL, m, &mem, NULL));
    arena_deinit(&mem);
}

static const char *const of_names[] = {"layer", "logits", "gain", "rho"};

TEST(gradients_of_every_term_equal_finite_differences)
{
    double worst = 0;
    FOR_EACH_TERM(kind, of, classes)
    {
        rng r = rng_stream(21, STREAM_TEST, (uint64_t)kind * 8 + of);
        model *m = small_model(kind, classes, 3);
        static boxes b;
        make_boxes(&b, &r);
        const gbm_term_args a = {.of = of, .k = {1, 0.6, 0.3}, .steps = 6, .rho0 = 0.1};
        real *grad = mem_zalloc(m->n_values, sizeof *grad),
             *step = mem_zalloc(m->n_values, sizeof *step);
        CHECK(grad && step);
        term_of(m, a, &b, grad, NULL);
        double slope = 0, size = 0, error = INFINITY;
        for (size_t i = 0; i < m->n_values; i++) {
            slope += grad[i] * (step[i] = rng_normal(&r) / 10);
            size += fabs(grad[i]);
        }
        CHECK(size > 0); /* the published code's gradient is zero; ours must not be */
        for (double e = 1e-6; error > 1e-5 && e > 5e-9; e /= 10) { /* a kink may be near: shrink */
            double side[2];
            for (int s = 0; s < 2; s++) {
                move_values(m, step, s ? 2 * e : -e);
                side[s] = term_of(m, a, &b, NULL, NULL);
            }
            move_values(m, step, -e);
            error = fmin(error, fabs((side[1] - side[0]) / (2 * e) - slope) / (1e-3 + fabs(slope)));
        }
        if (error > 1e-4)
            test_fail(__FILE__, __LINE__, "%s, %s, %zu classes: relative error %g",
                      small_kinds[kind].name, of_names[of], classes, error);
        worst = fmax(worst, error);
        mem_free(grad);
        mem_free(step);
        stet_model_free(m);
    }
    fprintf(stderr, "  worst relative error %.2g\n", worst);
}
#endif

/* ---- what the term of the logits bounds --------------------------------------------------- */

/* One text, every position its own row. */
static void logits_of(const model *m, real *rows, size_t n, double out[2])
{
    arena mem = {0};
    tape t;
    node **params;
    uint32_t start[2] = {0, (uint32_t)n}, index[SMALL_MAX_LEN];
    for (size_t i = 0; i < n; i++)
        index[i] = (uint32_t)i;
    const seq_index seq = {1, n, n, n, start, index};
    tape_init(&t, &mem, NULL, false);
    CHECK_OK(model_nodes(m, &t, NULL, &params));
    pass p = {
        .t = &t, .param = params, .rows = tape_constant(&t, shape2(n, m->dim), rows), .seq = &seq};
    const node *y = model_forward(m, &p);
    CHECK_OK(tape_status(&t));
    out[0] = (double)y->value[0];
    out[1] = (double)y->value[1];
    arena_deinit(&mem);
}

/* M_out of the CNN, column by column: the term with k = 1 is the sum over coordinates, so a model
 * whose other coordinates are zeroed gives one column. */
static double column(const model *m, size_t c)
{
    real *keep = mem_alloc(m->n_values, sizeof *keep);
    CHECK(keep);
    memcpy(keep, m->value, m->n_values * sizeof *keep);
    for (size_t p = 0; p < m->n_params; p++)
        if (m->params[p].shape.rank == 3)
            for (size_t i = 0; i < shape_count(m->params[p].shape); i++)
                if (i / m->params[p].shape.dim[2] % m->dim != c)
                    m->value[m->params[p].first + i] = 0;
    const gbm_term_args a = {.of = GBM_OF_LOGITS, .k = {1, 1, 1}};
    const double v = term_of(m, a, NULL, NULL, NULL);
    memcpy(m->value, keep, m->n_values * sizeof *keep);
    mem_free(keep);
    return v;
}

TEST(no_change_of_words_moves_the_cnn_margin_by_more_than_the_logit_bound)
{
    double tightest = 0;
    for (uint64_t seed = 0; seed < 10; seed++) {
        model *m = small_model(0, 2, seed);
        rng r = rng_stream(22, STREAM_TEST, seed);
        double bound[SMALL_DIM];
        for (size_t c = 0; c < SMALL_DIM; c++)
            bound[c] = column(m, c);
        for (int trial = 0; trial < 100; trial++) {
            enum { N = 7 };
            real x[N * SMALL_DIM], y[N * SMALL_DIM];
            double before[2], after[2], allowed = 0;
            for (size_t i = 0; i < N * SMALL_DIM; i++)
                y[i] = x[i] = (real)rng_normal(&r);
            const size_t words = 1 + rng_below(&r, 3);
            for (size_t w = 0; w < words; w++) {
                const size_t p = rng_below(&r, N), c = rng_below(&r, SMALL_DIM);
                y[p * SMALL_DIM + c] += (real)(0.5 * rng_normal(&r));
            }
            for (size_t i = 0; i < N * SMALL_DIM; i++)
                allowed += bound[i % SMALL_DIM] * fabs((double)y[i] - (double)x[i]);
            logits_of(m, x, N, before);
            logits_of(m, y, N, after);
            const double moved = fabs((before[0] - before[1]) - (after[0] - after[1]));
            CHECK_LE(moved, allowed * (1 + 1e-5) + 1e-6);
            tightest = fmax(tightest, allowed > 0 ? moved / allowed : 0);
        }
        stet_model_free(m);
    }
    fprintf(stderr, "  largest change / bound %.2g\n", tightest);
}

/* ---- the rest ----------------------------------------------------------------------------- */

TEST(parts_add_up_to_the_layer_term)
{
    FOR_EACH_TERM(kind, of, classes)
    {
        if (of != GBM_OF_LAYER)
            continue;
        rng r = rng_stream(23, STREAM_TEST, (uint64_t)kind);
        model *m = small_model(kind, classes, 4);
        static boxes b;
        make_boxes(&b, &r);
        gbm_term_args a = {.of = of, .k = {1, 1, 1}};
        double sum[GBM_PARTS];
        const double all = term_of(m, a, &b, NULL, sum);
        CHECK_NEAR(sum[GBM_V] + sum[GBM_H] + sum[GBM_C], all, 1e-4 * all);
        for (int part = 0; part < GBM_PARTS; part++) {
            gbm_term_args one = a;
            memset(one.k, 0, sizeof one.k);
            one.k[part] = 2;
            CHECK_NEAR(term_of(m, one, &b, NULL, NULL), 2 * sum[part], 1e-4 * all);
        }
        CHECK(gbm_entries(m, GBM_OF_LAYER) >= 24 && gbm_entries(m, GBM_OF_LOGITS) >= SMALL_DIM);
        stet_model_free(m);
    }
}

TEST(the_head_is_averaged_over_pairs_of_classes)
{
    model *m = small_model(0, 3, 5);
    arena mem = {0};
    tape t;
    node **params;
    tape_init(&t, &mem, NULL, false);
    CHECK_OK(model_nodes(m, &t, NULL, &params));
    const node *omega = gbm_head(m, &t, params);
    const size_t F = m->desc->n_features(m);
    const real *w = model_value(m, model_param_id(m, "fc.weight"));
    for (size_t i = 0; i < F; i++) {
        const double x = (double)w[i], y = (double)w[F + i], z = (double)w[2 * F + i];
        CHECK_NEAR(omega->value[i], (fabs(x - y) + fabs(y - z) + fabs(x - z)) / 3, 1e-6);
    }
    arena_deinit(&mem);
    stet_model_free(m);
}

/* The sum over filters, coordinates and units of |w| |v| M, by hand. */
TEST(logits_behind_a_layer_grow_by_its_weights)
{
    enum { DENSE = 21, F = 9 };
    CHECK(small_kinds[DENSE].settings == small_cnn_dense);
    static const size_t width[] = {2, 3, 5};
    model *m = small_model(DENSE, 2, 8);
    const real *v = model_value(m, model_param_id(m, "dense.weight")),
               *fc = model_value(m, model_param_id(m, "fc.weight"));
    const size_t units = m->desc->n_features(m);
    double sum = 0;
    for (size_t f = 0; f < 3 * F; f++) {
        double omega = 0;
        for (size_t j = 0; j < units; j++)
            omega += fabs((double)fc[j] - (double)fc[units + j]) * fabs((double)v[j * 3 * F + f]);
        const size_t k = width[f / F];
        const real *w = model_value(m, (int)(2 * (f / F))) + f % F * SMALL_DIM * k;
        for (size_t d = 0; d < SMALL_DIM; d++) {
            double most = 0;
            for (size_t l = 0; l < k; l++)
                most = fmax(most, fabs((double)w[d * k + l]));
            sum += omega * most;
        }
    }
    const gbm_term_args a = {.of = GBM_OF_LOGITS, .k = {1, 1, 1}};
    CHECK_NEAR(term_of(m, a, NULL, NULL, NULL), sum, 1e-4 * sum);
    stet_model_free(m);
}

TEST(gain_and_contraction_are_for_recurrent_models)
{
    FOR_EACH_BOUNDED(kind)
    {
        model *m = small_model(kind, 2, 5);
        for (gbm_of of = terms_end(kind); of <= GBM_OF_RHO; of++) {
            arena mem = {0};
            tape t;
            node **params;
            gbm_report report;
            tape_init(&t, &mem, NULL, true);
            CHECK_OK(model_nodes(m, &t, NULL, &params));
            CHECK(!gbm_term(m, &t, params, &(gbm_term_args){.of = of}, &report));
            CHECK_FAILS(tape_status(&t), STET_EUSAGE, small_kinds[kind].name);
            arena_deinit(&mem);
        }
        stet_model_free(m);
    }
}

TEST(threads_do_not_change_a_bit)
{
    FOR_EACH_TERM(kind, of, classes)
    {
        rng r = rng_stream(24, STREAM_TEST, (uint64_t)kind);
        model *m = small_model(kind, classes, 6);
        static boxes b;
        make_boxes(&b, &r);
        const gbm_term_args a = {.of = of, .k = {1, 1, 1}, .steps = 5};
        real *grad[2];
        double v[2];
        for (int i = 0; i < 2; i++) {
            stet_set_threads(i + 1);
            grad[i] = mem_zalloc(m->n_values, sizeof(real));
            CHECK(grad[i]);
            v[i] = term_of(m, a, &b, grad[i], NULL);
        }
        CHECK(v[0] == v[1] && memcmp(grad[0], grad[1], m->n_values * sizeof(real)) == 0);
        mem_free(grad[0]);
        mem_free(grad[1]);
        stet_model_free(m);
    }
}
