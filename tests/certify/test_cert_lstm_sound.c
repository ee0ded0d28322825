/* The bounds of the BiLSTM against the truth: every combination of short texts, samples of long
 * ones. */
#include "alloc_fail.h"
#include "base/mem.h"
#include "certify/cert_lstm.h"
#include "harness.h"
#include "model/bilstm.h"

/* Draw all words towards one point, so that sets are as close as synonyms are in a trained model.
 */
static void gather(model *m, double spread)
{
    const size_t D = m->dim;
    for (size_t i = STET_FIRST_WORD + 1; i < m->n_words; i++)
        for (size_t j = 0; j < D; j++) {
            const float at = m->table[STET_FIRST_WORD * D + j];
            m->table[i * D + j] = at + (float)spread * (m->table[i * D + j] - at);
        }
    harness_recompile(m);
}

enum { POOLS = 5 };
static const char *const pools[POOLS][2] = {{"pool=last"},
                                            {"pool=max"},
                                            {"pool=mean"},
                                            {"pool=max", "span=2"},
                                            {"pool=mean", "span=3"}};

static model *pooled_model(size_t i, uint64_t seed, double spread, size_t pool)
{
    static const char *const hidden[] = {"hidden=2", "hidden=3", "hidden=5"};
    const char *const settings[] = {hidden[i % 3], pools[pool][0], pools[pool][1], NULL};
    model *m = harness_model("bilstm", settings, 3 + i % 4, 2 + i % 2, 0.5 + 0.5 * (double)(i % 3),
                             seed + i);
    gather(m, spread);
    return m;
}

static model *small_model(size_t i, uint64_t seed, double spread)
{
    return pooled_model(i, seed, spread, 0);
}

static void exhaust(size_t models, size_t cases, uint64_t seed, double spread, size_t pool,
                    double raise, harness_tally *tally)
{
    static const size_t budgets[] = {STET_ANY, 1, 2};
    for (size_t i = 0; i < models; i++) {
        rng r = rng_stream(seed, STREAM_TEST, i);
        model *m = pooled_model(i, seed, spread, pool);
        harness h;
        CHECK_OK(harness_init(&h, &cert_bilstm, m));
        for (size_t k = 0; k < cases; k++) {
            cert_case c;
            harness_case(m, 1 + rng_below(&r, 6), 4, budgets[k % 3], &r, &c);
            harness_check(&h, &c, 0, raise, tally);
        }
        harness_deinit(&h);
        stet_model_free(m);
    }
}

static void no_violation(double spread, size_t pool)
{
    harness_tally tally = {0};
    exhaust(12, 60, 1, spread, pool, 0, &tally);
    CHECK_EQ(tally.cases, 720);
    CHECK_EQ(tally.violations, 0);
    printf("%s %s, words %g apart, true drop / drop of the bound:", pools[pool][0],
           pools[pool][1] ? pools[pool][1] : "", spread);
    for (size_t i = 0; cert_bilstm.methods[i]; i++)
        printf(" %s %.3f", cert_bilstm.methods[i], tally.true_drop / tally.drop[i]);
    printf(" (%zu combinations)\n", tally.combinations);
}

static void put(model *m, int id, size_t n, const real *values)
{
    CHECK_EQ(n, shape_count(m->params[id].shape));
    memcpy(model_value(m, id), values, n * sizeof *values);
}

/* Two words, each 0 and replaceable by 1, of which one may change: by hand the unit ends at 0,
 * 0.163350 or 0.214380, which is also what joining the boxes of all ways to get there gives. */
TEST(one_swap_of_two_words_by_hand)
{
    static const real none[8];
    model *m = harness_model("bilstm", (const char *const[]){"hidden=1", NULL}, 1, 2, 1, 1);
    const int last = (int)m->n_params - 2;
    m->table[STET_FIRST_WORD] = 0;
    m->table[STET_FIRST_WORD + 1] = 1;
    for (int d = 0; d < 2; d++) {
        const int first = d * LSTM_PER_DIRECTION;
        put(m, first + LSTM_W_IH, 4, d ? none : (real[]){1, 0.5, 2, -1}); /* i f g o */
        put(m, first + LSTM_W_HH, 4, d ? none : (real[]){0.5, -0.5, -1, 1});
        put(m, first + LSTM_B_IH, 4, d ? none : (real[]){0, 1, 0, 0});
        put(m, first + LSTM_B_HH, 4, none);
    }
    put(m, last, 4, (real[]){1, 0, 0, 0});
    put(m, last + 1, 2, none);
    harness_recompile(m);
    cert_case c = {.start = {0, 2, 4},
                   .word = {STET_FIRST_WORD, STET_FIRST_WORD + 1, STET_FIRST_WORD,
                            STET_FIRST_WORD + 1}};
    c.task = (cert_task){.n = 2, .start = c.start, .word = c.word, .budget = 1};
    double least[HARNESS_CLASSES];
    harness h;
    CHECK_OK(harness_init(&h, &cert_bilstm, m));
    for (int label = 0; label < 2; label++) {
        harness_tally tally = {0};
        c.task.label = label;
        CHECK_EQ(harness_minimum(m, &c.task, least), 3);
        CHECK_NEAR(least[1 - label], label == 0 ? 0 : -0.214380, 1e-6);
        harness_check(&h, &c, 0, 0, &tally);
        CHECK_EQ(tally.violations, 0);
    }
    harness_deinit(&h);
    stet_model_free(m);
}

TEST(no_combination_of_words_goes_below_a_bound)
{
    for (size_t pool = 0; pool < POOLS; pool++) {
        no_violation(1, pool);
        no_violation(0.2, pool);
        no_violation(0.02, pool);
    }
}

/* A bound that claims a little more than the truth is found out. */
TEST(a_broken_bound_is_caught)
{
    for (size_t pool = 0; pool < POOLS; pool++) {
        harness_tally tally = {0};
        exhaust(4, 40, 7, 0.02, pool, 0.02, &tally);
        CHECK(tally.violations > 0);
    }
}

/* ---- samples ------------------------------------------------------------------------------ */

/* A million variants. */
TEST(no_sample_goes_below_a_bound)
{
    enum { MODELS = 20, CASES = 5, VARIANTS = 10000 };
    static const double spread[] = {1, 0.3, 0.1, 0.02};
    static const size_t budgets[] = {STET_ANY, STET_ANY, 3, 8};
    harness_tally tally = {0};
    for (size_t i = 0; i < MODELS; i++) {
        rng r = rng_stream(11, STREAM_TEST, i);
        const char *const settings[] = {i % 2 ? "hidden=6" : "hidden=11", NULL};
        model *m =
            harness_model("bilstm", settings, 5, 2 + i % 2, 0.5 + 0.5 * (double)(i % 3), 100 + i);
        gather(m, spread[i % 4]);
        harness h;
        CHECK_OK(harness_init(&h, &cert_bilstm, m));
        for (size_t k = 0; k < CASES; k++) {
            cert_case c;
            harness_case(m, 6 + rng_below(&r, 10), 5, budgets[(i + k) % 4], &r, &c);
            harness_sample(&h, &c.task, 0, VARIANTS, &r, &tally);
        }
        harness_deinit(&h);
        stet_model_free(m);
    }
    CHECK_EQ(tally.combinations, MODELS * CASES * VARIANTS);
    CHECK_EQ(tally.violations, 0);
}

/* ---- tubes at the size of real models ------------------------------------------------------ */

enum { D = 50, H = 64, N = 200, MOST = 6 };

/* An LSTM in float32, the text's words, and both again in double. */
typedef struct large {
    float w[4 * H * D], u[4 * H * H], b[4 * H], table[N * MOST * D];
    double w64[4 * H * D], u64[4 * H * H], b64[4 * H], zero[4 * H], table64[N * MOST * D];
    uint32_t start[N + 1];
    size_t pick[N];
    lstm_cell64 cell[2];
    lstm_pair pair;
    arena mem;
} large;

static void random_floats(float *a, double *a64, size_t n, double scale, rng *r)
{
    for (size_t i = 0; i < n; i++)
        a64[i] = a[i] = (float)(scale * rng_normal(r));
}

/* Every second position has substitutes `spread` away from its word. */
static void large_init(large *x, double scale, double spread, uint64_t seed)
{
    rng r = rng_stream(seed, STREAM_TEST, 0);
    memset(x, 0, sizeof *x);
    random_floats(x->w, x->w64, 4 * H * D, scale / sqrt(D), &r);
    random_floats(x->u, x->u64, 4 * H * H, scale / sqrt(H), &r);
    random_floats(x->b, x->b64, 4 * H, 0.2, &r);
    for (size_t p = 0; p < N; p++) {
        const size_t from = x->start[p], set = p % 2 ? 1 + rng_below(&r, MOST) : 1;
        random_floats(x->table + from * D, x->table64 + from * D, D, 1, &r);
        for (size_t j = D; j < set * D; j++)
            x->table64[from * D + j] = x->table[from * D + j] =
                x->table[from * D + j % D] + (float)(spread * rng_normal(&r));
        x->start[p + 1] = (uint32_t)(from + set);
    }
    for (int d = 0; d < 2; d++)
        CHECK_OK(lstm_cell64_init(&x->cell[d], D, H, x->w64, x->u64, x->b64, x->zero, &x->mem));
    cert_encoded words[2];
    for (int d = 0; d < 2; d++)
        CHECK_OK(cert_encode_vectors(x->table64, x->start[N], D, x->cell[d].wt, 4 * H, &x->mem,
                                     &words[d]));
    CHECK_OK(lstm_pair_open(&x->pair, x->cell, lstm_float32, N, 0, x->start, words, &x->mem));
    for (tube_level level = 0; level < TUBE_LEVELS; level++)
        CHECK_OK(lstm_pair_build(&x->pair, level));
}

/* Plain loops in float32: the state after one more word. */
static void step_float(const large *x, const float *v, float *h, float *c)
{
    float T[4 * H];
    for (size_t r = 0; r < 4 * H; r++) {
        T[r] = x->b[r];
        for (size_t j = 0; j < D; j++)
            T[r] += x->w[r * D + j] * v[j];
        for (size_t j = 0; j < H; j++)
            T[r] += x->u[r * H + j] * h[j];
    }
    for (size_t i = 0; i < H; i++) {
        const float in = 1 / (1 + expf(-T[GI * H + i])), forget = 1 / (1 + expf(-T[GF * H + i]));
        c[i] = forget * c[i] + in * tanhf(T[GG * H + i]);
        h[i] = tanhf(c[i]) / (1 + expf(-T[GO * H + i]));
    }
}

static void check_inside(const large *x, int d, size_t step, const float *h, const float *c)
{
    for (tube_level level = 0; level < TUBE_LEVELS; level++) {
        const lstm_tube *tube = &x->pair.piece[0].tube[level][d];
        for (size_t i = 0, at = (step + 1) * H; i < H; i++, at++) {
            CHECK_LE(tube->h.lo[at], h[i]);
            CHECK_LE(h[i], tube->h.hi[at]);
            CHECK_LE(tube->c.lo[at], c[i]);
            CHECK_LE(c[i], tube->c.hi[at]);
        }
    }
}

static void check_variants(large *x, size_t count, uint64_t seed)
{
    rng r = rng_stream(seed, STREAM_TEST, 1);
    for (size_t k = 0; k < count; k++) {
        for (size_t p = 0; p < N; p++)
            x->pick[p] = k == 0 ? 0 : rng_below(&r, x->start[p + 1] - x->start[p]);
        for (int d = 0; d < 2; d++) {
            float h[H] = {0}, c[H] = {0};
            for (size_t step = 0; step < N; step++) {
                const size_t p = lstm_place(&x->pair.piece[0].text[d], step);
                step_float(x, x->table + (x->start[p] + x->pick[p]) * D, h, c);
                check_inside(x, d, step, h, c);
            }
        }
    }
}

static double mean_width(const large *x, tube_level level)
{
    double sum = 0;
    for (size_t i = 0; i < H; i++)
        sum += x->pair.piece[0].tube[level][0].h.hi[N * H + i] - x->pair.piece[0].tube[level][0].h.lo[N * H + i];
    return sum / H;
}

TEST(states_stay_inside_their_tubes)
{
    static large x;
    static const struct {
        double scale, spread;
    } kinds[] = {{0.5, 0.02}, {0.5, 0.1}, {1, 0.02}, {2, 0.2}}; /* contractive to chaotic */
    for (size_t k = 0; k < 4; k++) {
        large_init(&x, kinds[k].scale, kinds[k].spread, 20 + k);
        check_variants(&x, 12, 40 + k);
        printf("weights %g, words %g apart: last widths", kinds[k].scale, kinds[k].spread);
        for (tube_level level = 0; level < TUBE_LEVELS; level++)
            printf(" %.4f", mean_width(&x, level));
        printf("\n");
        arena_deinit(&x.mem);
    }
}

/* A tube that leaves a little away loses a state. */
TEST(a_narrow_tube_is_caught)
{
    static large x;
    large_init(&x, 0.5, 0.1, 20);
    double narrowest = 2;
    for (size_t i = 0; i < H; i++) {
        const ival h = ival_at(x.pair.piece[0].tube[TUBE_LINEAR][0].h, N * H + i);
        narrowest = fmin(narrowest, h.hi - h.lo);
    }
    CHECK(narrowest > 1e-4);
    float h[H] = {0}, c[H] = {0};
    for (size_t step = 0; step < N; step++)
        step_float(&x, x.table + x.start[step] * D, h, c);
    const lstm_tube *exact = &x.pair.piece[0].tube[TUBE_LINEAR][0];
    size_t outside = 0;
    for (size_t i = 0; i < H; i++) /* half of it, the wrong half */
        outside += h[i] < ival_mid(ival_at(exact->h, N * H + i)) || h[i] > exact->h.hi[N * H + i];
    CHECK(outside > 0);
    arena_deinit(&x.mem);
}

/* ---- bad numbers and no memory ------------------------------------------------------------- */

TEST(weights_that_are_not_numbers_prove_nothing)
{
    static const float bad[] = {NAN, INFINITY, 1e38f};
    for (size_t k = 0; k < 3; k++)
        for (int id = 0; id < 2 * LSTM_PER_DIRECTION + 2; id++) {
            rng r = rng_stream(3, STREAM_TEST, k);
            model *m = small_model(1, 5, 0.1);
            model_value(m, id)[1] = bad[k];
            harness h;
            cert_case c;
            harness_case(m, 5, 3, STET_ANY, &r, &c);
            stet_status st = harness_init(&h, &cert_bilstm, m);
            double drop[HARNESS_POSITIONS];
            uint32_t worst[HARNESS_POSITIONS];
            if (st == STET_OK)
                st = cert_bilstm.open(h.work, &c.task);
            for (size_t method = 0; st == STET_OK && cert_bilstm.methods[method]; method++) {
                cert_bound b = {.drop = drop, .worst = worst};
                CHECK_OK(cert_bilstm.bound(h.work, method, !c.task.label, 0, &b));
                CHECK(!(b.margin > 0));
            }
            CHECK(st == STET_OK || st == STET_EFORMAT);
            harness_deinit(&h);
            stet_model_free(m);
        }
}

typedef struct use {
    model *m;
    cert_case c;
} use;

static stet_status certify_once(void *ctx)
{
    const use *x = ctx;
    double drop[HARNESS_POSITIONS];
    uint32_t worst[HARNESS_POSITIONS];
    harness h;
    stet_status st = harness_init(&h, &cert_bilstm, x->m);
    if (st == STET_OK)
        st = cert_bilstm.open(h.work, &x->c.task);
    for (size_t method = 0; st == STET_OK && cert_bilstm.methods[method]; method++) {
        cert_bound b = {.drop = drop, .worst = worst};
        st = cert_bilstm.bound(h.work, method, !x->c.task.label, 0, &b);
    }
    cert_bilstm.work_free(h.work);
    cert_bilstm.shared_free(h.shared);
    return st;
}

TEST(every_failed_allocation_is_survived)
{
    static use x;
    rng r = rng_stream(9, STREAM_TEST, 0);
    x.m = small_model(0, 9, 0.1);
    harness_case(x.m, 4, 3, STET_ANY, &r, &x.c);
    CHECK_LE(3, ALLOC_FAIL_LOOP(certify_once, &x));
    stet_model_free(x.m);
}
