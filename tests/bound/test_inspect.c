/* What stet inspect says of a model: sums, true Lipschitz constants, contraction. */
#include "stet/bound.h"

#include "alloc_fail.h"
#include "bound/bounded_kinds.h"
#include "test.h"

enum { N = 9 };

static stet_corpus small_corpus(void)
{
    static uint32_t ids[4 * N];
    static uint64_t start[5];
    static int32_t label[4];
    rng r = rng_stream(41, STREAM_TEST, 0);
    for (size_t i = 0; i < 4 * N; i++)
        ids[i] = (uint32_t)(STET_UNK + rng_below(&r, SMALL_WORDS + 1));
    for (size_t i = 0; i < 5; i++)
        start[i] = i * N;
    return (stet_corpus){4, 4 * N, 2, ids, start, label};
}

static stet_subst *small_subst(void)
{
    stet_subst_builder *b;
    stet_subst *s;
    CHECK_OK(stet_subst_builder_new(&b));
    CHECK_OK(stet_subst_add_list(b, "w1", (const char *const[]){"w2", "w3"}, 2));
    CHECK_OK(stet_subst_build(b, &s));
    stet_subst_builder_free(b);
    return s;
}

TEST(sums_are_those_of_the_training_term)
{
    FOR_EACH_BOUNDED(kind)
    {
        model *m = small_model(kind, 2, 1);
        stet_gbm g;
        CHECK_OK(stet_gbm_of(m, &(stet_gbm_options)STET_GBM_DEFAULTS, &g));
        CHECK_STR(g.kind, m->desc->name);
        double sum = 0;
        for (size_t i = 0; i < g.rows * g.cols; i++)
            sum += (double)g.m[i];
        CHECK_NEAR(sum, g.sum, 1e-6 * sum);
        if (strcmp(g.kind, "bilstm") != 0) { /* boxes differ there */
            arena mem = {0};
            tape t;
            node **params;
            gbm_report report;
            tape_init(&t, &mem, NULL, false);
            CHECK_OK(model_nodes(m, &t, NULL, &params));
            const gbm_term_args a = {.of = GBM_OF_LAYER, .k = {1, 1, 1}};
            CHECK_NEAR(gbm_term(m, &t, params, &a, &report)->value[0], sum, 1e-4 * sum);
            for (int p = 0; p < GBM_PARTS; p++)
                CHECK_NEAR(report.part[p] ? report.part[p]->value[0] : 0, g.by_part[p], 1e-4 * sum);
            arena_deinit(&mem);
        }
        CHECK(g.logit_sum > 0);
        char name[64];
        CHECK(strlen(stet_gbm_row_name(&g, g.rows - 1, name, sizeof name)) > 5);
        CHECK(strlen(stet_gbm_col_name(&g, g.cols - 1, name, sizeof name)) > 1);
        stet_gbm_deinit(&g);
        stet_model_free(m);
    }
}

TEST(smaller_boxes_give_smaller_bounds)
{
    model *m = small_model(1, 2, 1);
    const stet_corpus c = small_corpus();
    stet_subst *s = small_subst();
    stet_gbm all, seen, near;
    CHECK_OK(stet_gbm_of(m, &(stet_gbm_options)STET_GBM_DEFAULTS, &all));
    CHECK_OK(stet_gbm_of(m, &(stet_gbm_options){.texts = &c}, &seen));
    CHECK_OK(stet_gbm_of(m, &(stet_gbm_options){.texts = &c, .synonyms = s, .words = 3}, &near));
    CHECK(near.sum < seen.sum && seen.sum < all.sum);
    for (size_t i = 0; i < all.rows * all.cols; i++)
        CHECK_LE(seen.m[i], all.m[i]);
    CHECK_EQ(all.n_contraction, 2);
    CHECK(seen.contraction[0] > 0 && seen.contraction[0] <= all.contraction[0]);
    CHECK(strstr(all.boxes, "no text leaves") && strstr(seen.boxes, "4 texts") &&
          strstr(near.boxes, "synonyms"));
    stet_gbm_deinit(&all);
    stet_gbm_deinit(&seen);
    stet_gbm_deinit(&near);
    stet_subst_free(s);
    stet_model_free(m);
}

static void features_of(const model *m, real *rows, double *out)
{
    arena mem = {0};
    tape t;
    node **params;
    uint32_t start[2] = {0, N}, index[N];
    for (uint32_t i = 0; i < N; i++)
        index[i] = i;
    const seq_index seq = {1, N, N, N, start, index};
    tape_init(&t, &mem, NULL, false);
    CHECK_OK(model_nodes(m, &t, NULL, &params));
    pass p = {
        .t = &t, .param = params, .rows = tape_constant(&t, shape2(N, m->dim), rows), .seq = &seq};
    const node *y = m->desc->features(m, &p);
    CHECK_OK(tape_status(&t));
    for (size_t i = 0; i < m->desc->n_features(m); i++)
        out[i] = (double)y->value[i];
    arena_deinit(&mem);
}

/* One word of a CNN moves in a random direction: no norm's constant is passed, and the largest
 * entry, which the paper gives as the constant of the largest norm, is. */
TEST(lipschitz_constants_hold_and_the_largest_entry_is_none)
{
    size_t beyond_entry = 0;
    double worst = 0;
    for (uint64_t seed = 0; seed < 10; seed++) {
        model *m = small_model(0, 2, seed);
        stet_gbm g;
        CHECK_OK(stet_gbm_of(m, &(stet_gbm_options)STET_GBM_DEFAULTS, &g));
        CHECK(g.lipschitz.one_inf <= g.lipschitz.two_two &&
              g.lipschitz.two_two <= sqrt(g.lipschitz.inf_inf * g.lipschitz.one_one) * (1 + 1e-9));
        for (int trial = 0; trial < 50; trial++) {
            rng r = rng_stream(seed, STREAM_TEST, (uint64_t)trial);
            real x[N * SMALL_DIM];
            double before[32], after[32], in[3] = {0}, out[3] = {0}; /* largest, sum, squares */
            for (size_t i = 0; i < N * SMALL_DIM; i++)
                x[i] = (real)rng_normal(&r);
            features_of(m, x, before);
            const size_t word = rng_below(&r, N);
            for (size_t c = 0; c < SMALL_DIM; c++) {
                const double d =
                    (trial % 2 ? (rng_below(&r, 2) ? 0.1 : -0.1) : 0.1 * rng_normal(&r));
                x[word * SMALL_DIM + c] += (real)d;
                in[0] = fmax(in[0], fabs(d)), in[1] += fabs(d), in[2] += d * d;
            }
            features_of(m, x, after);
            for (size_t f = 0; f < g.rows; f++) {
                const double d = fabs(after[f] - before[f]);
                out[0] = fmax(out[0], d), out[1] += d, out[2] += d * d;
            }
            CHECK_LE(out[0], g.lipschitz.inf_inf * in[0] * (1 + 1e-4));
            CHECK_LE(out[0], g.lipschitz.one_inf * in[1] * (1 + 1e-4));
            CHECK_LE(out[1], g.lipschitz.one_one * in[1] * (1 + 1e-4));
            CHECK_LE(sqrt(out[2]), g.lipschitz.two_two * sqrt(in[2]) * (1 + 1e-4));
            worst = fmax(worst, sqrt(out[2]) / (g.lipschitz.two_two * sqrt(in[2])));
            beyond_entry += out[0] > g.lipschitz.one_inf * in[0];
        }
        stet_gbm_deinit(&g);
        stet_model_free(m);
    }
    fprintf(stderr, "  %zu of 500 changes pass the largest entry; sampled / constant 2->2 %.2f\n",
            beyond_entry, worst);
    CHECK(beyond_entry > 0);
}

TEST(weights_that_are_not_finite_give_infinite_constants)
{
    model *m = small_model(0, 2, 3);
    stet_gbm g;
    m->value[5] = (real)NAN;
    CHECK_OK(stet_gbm_of(m, &(stet_gbm_options)STET_GBM_DEFAULTS, &g));
    CHECK(isinf(g.sum) && isinf(g.lipschitz.inf_inf) && isinf(g.lipschitz.one_inf));
    stet_gbm_deinit(&g);
    memset(m->value, 0, m->n_values * sizeof *m->value);
    CHECK_OK(stet_gbm_of(m, &(stet_gbm_options)STET_GBM_DEFAULTS, &g));
    CHECK(g.sum == 0 && g.lipschitz.two_two == 0);
    stet_gbm_deinit(&g);
    stet_model_free(m);
}

typedef struct use {
    const model *m;
    stet_gbm_options how;
} use;

static stet_status look(void *ctx)
{
    const use *u = ctx;
    stet_gbm g;
    const stet_status st = stet_gbm_of(u->m, &u->how, &g);
    stet_gbm_deinit(&g);
    return st;
}

TEST(want_of_memory_is_reported_and_nothing_leaks)
{
    const stet_corpus c = small_corpus();
    stet_subst *s = small_subst();
    FOR_EACH_BOUNDED(kind)
    {
        model *m = small_model(kind, 2, 1);
        use u = {m, {.texts = &c, .synonyms = s, .words = 2}};
        CHECK_LE(5, ALLOC_FAIL_LOOP(look, &u));
        stet_model_free(m);
    }
    stet_subst_free(s);
}
