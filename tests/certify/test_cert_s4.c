/* Bounds of S4: golden vectors, every combination of words of short texts, samples of long ones. */
#include "../alloc_fail.h"
#include "base/mem.h"
#include "certify/cert_s4.h"
#include "golden.h"
#include "harness.h"
#include "model/s4.h"

static const char *const one_layer[] = {"channels=6", "state=4", "layers=1", NULL};
static const char *const two_layers[] = {"channels=5", "state=4", "layers=2", NULL};

/* ---- golden vectors ----------------------------------------------------------------------- */

enum { D = 3, H = 4, N = 4, S = 3 };

typedef struct problem {
    arena mem;
    json_t *file;
    double W_t[D * H], b[H], K[N * H], O[2 * H * H], ob[2 * H], gam[H], bet[H], om[H], E[N * S * D];
    uint32_t start[N + 1];
    s4_layer64 layer;
    s4_net64 net;
    s4_text text;
} problem;

static void read_problem(problem *p)
{
    *p = (problem){0};
    p->file = golden("s4_cert.json");
    const json_t *m = json_object_get(p->file, "model");
    double W[H * D], K[H * N], d[H];
    CHECK_EQ(doubles(json_object_get(m, "W"), W), H * D);
    CHECK_EQ(doubles(json_object_get(m, "K"), K), H * N);
    CHECK_EQ(doubles(json_object_get(m, "D"), d), H);
    CHECK_EQ(doubles(json_object_get(m, "b"), p->b), H);
    CHECK_EQ(doubles(json_object_get(m, "O"), p->O), 2 * H * H);
    CHECK_EQ(doubles(json_object_get(m, "ob"), p->ob), 2 * H);
    CHECK_EQ(doubles(json_object_get(m, "gam"), p->gam), H);
    CHECK_EQ(doubles(json_object_get(m, "bet"), p->bet), H);
    CHECK_EQ(doubles(json_object_get(m, "w"), p->om), H);
    CHECK_EQ(doubles(json_object_get(p->file, "E"), p->E), N * S * D);
    for (size_t h = 0; h < H; h++) {
        for (size_t i = 0; i < D; i++)
            p->W_t[i * H + h] = W[h * D + i];
        for (size_t i = 0; i < N; i++)
            p->K[i * H + h] = K[h * N + i] + (i ? 0 : d[h]);
    }
    for (uint32_t i = 0; i <= N; i++)
        p->start[i] = i * S;
    p->layer =
        (s4_layer64){.K = p->K, .mix = p->O, .mix_b = p->ob, .gamma = p->gam, .beta = p->bet};
    p->net = (s4_net64){.D = D,
                        .H = H,
                        .layers = 1,
                        .lags = N,
                        .enc_t = p->W_t,
                        .enc_b = p->b,
                        .layer = &p->layer,
                        .eps = 1e-5};
    CHECK_OK(s4_net64_finish(&p->net, &p->mem));
    cert_encoded words;
    CHECK_OK(cert_encode_vectors(p->E, N * S, D, p->W_t, H, &p->mem, &words));
    CHECK_OK(s4_text_read(&p->text, &p->net, s4_exact, N, p->start, &words, &p->mem));
}

static void check_values(const char *what, const json_t *want, const double *got)
{
    double w[64];
    const size_t n = doubles(want, w);
    CHECK_LE(1, n);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(w[i] - got[i]) <= 1e-10))
            test_fail(__FILE__, __LINE__, "%s[%zu]: %.17g, golden %.17g", what, i, got[i], w[i]);
}

static void check_box(const char *what, const json_t *want, s4_range got)
{
    double lo[N * H], hi[N * H];
    for (size_t i = 0; i < N * H; i++) {
        lo[i] = got.mid[i] - got.rad[i];
        hi[i] = got.mid[i] + got.rad[i];
    }
    check_values(what, json_object_get(want, "lo"), lo);
    check_values(what, json_object_get(want, "hi"), hi);
}

TEST(clean_values_and_boxes_are_the_golden_ones)
{
    problem p;
    read_problem(&p);
    const json_t *clean = json_object_get(p.file, "clean_forward"),
                 *boxes = json_object_get(p.file, "boxes");
    const s4_station *s = &p.text.layer[0];
    check_values("y", json_object_get(clean, "y"), s->y);
    check_values("ab", json_object_get(clean, "ab"), s->ab);
    check_values("cen", json_object_get(clean, "cen"), s->centred);
    check_values("s", json_object_get(clean, "s"), s->sigma);
    check_values("n", json_object_get(clean, "n"), s->norm);
    check_box("box of y", json_object_get(boxes, "y"), s->box_y);
    double mid[N * H], rad[N * H];
    for (size_t i = 0; i < N * H; i++) { /* n from gamma n + beta */
        mid[i] = (p.text.out.mid[i] - p.bet[i % H]) / p.gam[i % H];
        rad[i] = p.text.out.rad[i] / p.gam[i % H];
    }
    check_box("box of n", json_object_get(boxes, "n"), (s4_range){mid, rad});
    json_decref(p.file);
    arena_deinit(&p.mem);
}

TEST(bounds_are_the_golden_ones)
{
    problem p;
    read_problem(&p);
    double clean[H], mid[H], rad[H], contribution[N * S], least[N] = {0}, loss, slack;
    s4_pooled(&p.text, clean, (s4_range){mid, rad});
    double score = 0, box = 0;
    for (size_t h = 0; h < H; h++) {
        score += p.om[h] * clean[h];
        box += p.om[h] * mid[h] - fabs(p.om[h]) * rad[h];
    }
    CHECK_NEAR(score, json_number_value(json_object_get(p.file, "score")), 1e-12);
    CHECK_NEAR(box, json_number_value(json_object_get(p.file, "ibp")), 1e-10);
    CHECK(s4_adjoint(&p.text, p.om, contribution, &loss, &slack));
    CHECK_NEAR(slack, 0, 1e-15);
    CHECK_NEAR(loss, 0, 0);
    double adjoint = score;
    for (size_t i = 0; i < N; i++) {
        for (size_t k = i * S + 1; k < (i + 1) * S; k++)
            least[i] = fmin(least[i], contribution[k]);
        adjoint += least[i];
    }
    check_values("con", json_object_get(p.file, "con"), least);
    CHECK_NEAR(adjoint, json_number_value(json_object_get(p.file, "adj")), 1e-10);
    CHECK_LE(fmax(box, adjoint), json_number_value(json_object_get(p.file, "exhaustive_min")));
    json_decref(p.file);
    arena_deinit(&p.mem);
}

/* ---- soundness ---------------------------------------------------------------------------- */

/* Substitutes within `noise` of their word, so that bounds have something to prove. */
static void move_close(model *m, const cert_case *c, double noise, rng *r)
{
    for (size_t p = 0; p < c->task.n; p++)
        for (uint32_t i = c->start[p] + 1; i < c->start[p + 1]; i++)
            for (size_t d = 0; d < m->dim; d++)
                m->table[c->word[i] * m->dim + d] =
                    m->table[c->word[c->start[p]] * m->dim + d] + (float)(noise * rng_normal(r));
    harness_recompile(m);
}

/* The first channel's kernel is one number, from its state space, and D takes that away again: what is
 * left is the rounding of both. They are large, so that this is felt. */
static void take_out_of_use(model *m)
{
    enum { STATES = 2 };
    const int first = s4_layer_at(m->cfg, 0);
    const double delta = 2 * exp(-(double)model_value(m, first + S4_LOG_DT)[0]);
    double K = 0;
    for (size_t i = 0; i < STATES; i++) {
        model_value(m, first + S4_A)[i] = (float)log(delta); /* the step is 0 but for rounding */
        model_value(m, first + S4_W)[i] = 0;
        for (int part = 0; part < 2; part++) {
            model_value(m, first + S4_P)[2 * i + (size_t)part] = 0;
            model_value(m, first + S4_C)[2 * i + (size_t)part] *= 1000;
        }
        const real *b = model_value(m, first + S4_B) + 2 * i, *c = model_value(m, first + S4_C) + 2 * i;
        K += 2 * ((double)b[0] * (double)c[0] - (double)b[1] * (double)c[1]) / delta;
    }
    model_value(m, first + S4_D)[0] = -(float)K;
}

static bool out_of_use; /* the first channel of every model of try_cases() */

static harness_tally try_cases(const char *const *settings, size_t cases, double noise,
                               double raise)
{
    harness_tally tally = {0};
    for (size_t i = 0; i < cases; i++) {
        rng r = rng_stream(i, STREAM_TEST, 11);
        model *m = harness_model("s4", settings, 4, 3, 1, i / 8);
        if (out_of_use)
            take_out_of_use(m);
        for (size_t k = 0; k < 8 && i < cases; k++, i++) {
            cert_case c;
            harness_case(m, 1 + rng_below(&r, 5), 3, i % 3 == 0 ? STET_ANY : i % 3, &r, &c);
            move_close(m, &c, noise, &r);
            harness h;
            CHECK_OK(harness_init(&h, &cert_s4, m));
            harness_check(&h, &c, 0, raise, &tally);
            harness_deinit(&h);
        }
        i--;
        stet_model_free(m);
    }
    return tally;
}

TEST(no_bound_exceeds_the_least_of_all_combinations)
{
    size_t cases = 0;
    const double noise[] = {0.02, 0.1, 0.5};
    for (int k = 0; k < 3; k++) {
        const harness_tally one = try_cases(one_layer, 600, noise[k], 0),
                            two = try_cases(two_layers, 200, noise[k], 0);
        CHECK_EQ(one.violations, 0);
        CHECK_EQ(two.violations, 0);
        cases += one.cases + two.cases;
        printf(
            "noise %.2f: true drop / bound drop: box %.2f, adjoint %.2f; two layers %.2f, %.2f\n",
            noise[k], one.true_drop / one.drop[0], one.true_drop / one.drop[1],
            two.true_drop / two.drop[0], two.true_drop / two.drop[1]);
    }
    CHECK_LE(2000, cases);
}

/* ReLU and a linear map, or ReLU alone; the largest of each channel, and both; in spans. */
static const char *const variants[][7] = {
    {"channels=4", "state=4", "s4-block=relu"},
    {"channels=4", "state=4", "s4-pool=max"},
    {"channels=4", "state=4", "s4-block=relu", "s4-pool=max"},
    {"channels=4", "layers=2", "s4-block=relu", "s4-pool=max"},
    {"channels=4", "state=4", "s4-block=relu", "s4-pool=max", "span=2"},
    {"channels=4", "layers=2", "span=2"},
    {"channels=4", "state=4", "s4-block=bare"},
    {"channels=4", "layers=2", "s4-block=bare", "s4-pool=max"},
    {"channels=4", "state=4", "s4-block=bare", "s4-pool=max", "span=2", "s4-memory=2"},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

TEST(no_bound_of_a_variant_exceeds_the_least_of_all_combinations)
{
    const double noise[] = {0.02, 0.1, 0.5};
    for (size_t v = 0; v < VARIANTS; v++)
        for (int k = 0; k < 3; k++) {
            const harness_tally t = try_cases(variants[v], 200, noise[k], 0);
            CHECK_EQ(t.violations, 0);
            CHECK_EQ(t.cases, 200);
            printf("variant %zu, noise %.2f: true drop / bound drop: box %.2f, adjoint %.2f\n", v,
                   noise[k], t.true_drop / t.drop[0], t.true_drop / t.drop[1]);
        }
}

TEST(a_channel_that_is_out_of_use_stops_no_certificate)
{
    out_of_use = true;
    const harness_tally t = try_cases(one_layer, 200, 0.02, 0);
    out_of_use = false;
    CHECK_EQ(t.violations, 0);
    CHECK_EQ(t.cases, 200);
    printf("true drop / bound drop: box %.2f, adjoint %.2f\n", t.true_drop / t.drop[0],
           t.true_drop / t.drop[1]);
}

TEST(a_broken_bound_is_noticed)
{
    CHECK_LE(20, try_cases(one_layer, 60, 0.02, 0.01).violations);
    for (size_t v = 0; v < VARIANTS; v++)
        CHECK_LE(10, try_cases(variants[v], 60, 0.02, 0.01).violations);
}

/* Long enough for the convolution by transforms; many words at once. */
static void sample_long(const char *const *wide)
{
    enum { LONG = 150, SAMPLES = 300, WORDS = 40 };
    char text[WORDS][8];
    const char *name[WORDS];
    for (int i = 0; i < WORDS; i++) {
        snprintf(text[i], sizeof text[i], "w%d", i);
        name[i] = text[i];
    }
    stet_vocab *v;
    CHECK_OK(stet_vocab_from_words(name, WORDS, &v));
    rng r = rng_stream(1, STREAM_TEST, 12);
    static float data[(WORDS + STET_FIRST_WORD) * 8];
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) /* words 2k and 2k + 1 are close */
        data[i] = i / 8 % 2 ? data[i - 8] + (float)(0.01 * rng_normal(&r)) : (float)rng_normal(&r);
    const stet_vectors t = {.n = WORDS + STET_FIRST_WORD, .dim = 8, .data = data};
    const stet_model_new_args how = {.name = "s4",
                                     .settings = wide,
                                     .vocab = v,
                                     .vectors = &t,
                                     .max_len = LONG,
                                     .n_classes = 2,
                                     .seed = 3};
    model *m;
    CHECK_OK(stet_model_new(&how, &m));
    CHECK_OK(stet_model_compile(m));
    uint32_t start[LONG + 1], word[2 * LONG], ids[LONG];
    for (uint32_t p = 0; p < LONG; p++) {
        start[p] = 2 * p;
        word[2 * p] = STET_FIRST_WORD + 2 * (uint32_t)rng_below(&r, WORDS / 2);
        word[2 * p + 1] = word[2 * p] + 1;
    }
    start[LONG] = 2 * LONG;
    const cert_task task = {
        .n = LONG, .start = start, .word = word, .budget = STET_ANY, .label = 0};
    harness h;
    double drop[LONG], margin[2];
    uint32_t worst[LONG];
    CHECK_OK(harness_init(&h, &cert_s4, m));
    CHECK_OK(h.family->open(h.work, &task));
    for (size_t k = 0; k < 2; k++) {
        cert_bound b = {.drop = drop, .worst = worst};
        CHECK_OK(h.family->bound(h.work, k, 1, 0, &b));
        margin[k] = b.margin;
    }
    double least = INFINITY;
    for (size_t i = 0; i < SAMPLES; i++) { /* the first takes the adjoint's worst words */
        for (size_t p = 0; p < LONG; p++)
            ids[p] = word[start[p] + (i == 0 ? worst[p] : rng_below(&r, 2))];
        int32_t label = 0;
        uint64_t ends[] = {0, LONG};
        const stet_corpus c = {.n_texts = 1,
                               .n_tokens = LONG,
                               .n_classes = 2,
                               .ids = ids,
                               .start = ends,
                               .label = &label};
        float logits[2];
        CHECK_OK(stet_model_logits(m, &c, logits));
        least = fmin(least, (double)logits[0] - (double)logits[1]);
    }
    CHECK_LE(margin[0], least);
    CHECK_LE(margin[1], least);
    CHECK_LE(least - margin[1], 0.5); /* and not for nothing */
    harness_deinit(&h);
    stet_model_free(m);
    stet_vocab_free(v);
}

TEST(samples_of_long_texts_stay_within_their_bounds)
{
    static const char *const wide[] = {"channels=16", "state=8", "layers=1", NULL};
    static const char *const plain[] = {"channels=16", "state=8", "s4-block=relu", "s4-pool=max",
                                        NULL};
    sample_long(wide);
    static const char *const bare[] = {"channels=16", "state=8", "s4-block=bare", "s4-pool=max",
                                       NULL};
    sample_long(plain);
    sample_long(bare);
}

/* ---- bad numbers -------------------------------------------------------------------------- */

TEST(numbers_that_are_not_finite_are_an_error)
{
    model *m = harness_model("s4", one_layer, 4, 2, 1, 1);
    rng r = rng_stream(1, STREAM_TEST, 13);
    cert_case c;
    harness_case(m, 5, 3, STET_ANY, &r, &c);
    const real bad[] = {NAN, INFINITY, 3e38f};
    for (size_t i = 0; i < m->n_values; i += 7)
        for (int k = 0; k < 3; k++) {
            const real old = m->value[i];
            m->value[i] = bad[k];
            harness h;
            stet_status st = harness_init(&h, &cert_s4, m);
            if (st == STET_OK) {
                double drop[HARNESS_POSITIONS];
                uint32_t worst[HARNESS_POSITIONS];
                cert_bound b = {.drop = drop, .worst = worst, .margin = -1};
                st = h.family->open(h.work, &c.task);
                for (size_t method = 0; st == STET_OK && method < 2; method++) {
                    CHECK_OK(h.family->bound(h.work, method, 1 - c.task.label, 0, &b));
                    CHECK(b.margin < 0 || (k == 2 && isfinite(b.margin)));
                }
                harness_deinit(&h);
            }
            m->value[i] = old;
        }
    stet_model_free(m);
}

/* What a new family makes of the model as it is now. */
static void check_overflow(const model *m, const cert_task *task)
{
    harness h;
    CHECK_OK(harness_init(&h, &cert_s4, m));
    CHECK_FAILS(h.family->open(h.work, task), STET_EFORMAT, "overflow float32");
    harness_deinit(&h);
}

/* Vectors of which one is NaN, or whose squares overflow float32 in a norm; logits that overflow. */
TEST(numbers_that_float32_cannot_hold_are_noticed)
{
    static const uint32_t start[] = {0, 3, 4}, word[] = {3, 4, 5, 6};
    const cert_task task = {.n = 2, .start = start, .word = word, .budget = STET_ANY};
    double drop[2];
    uint32_t worst[2];
    cert_bound b = {.drop = drop, .worst = worst};
    harness h;
    model *m = harness_model("s4", one_layer, 4, 2, 1, 1);
    float *row = m->table + 4 * m->dim, old = row[0];
    row[0] = NAN;
    check_overflow(m, &task);
    row[0] = old;
    float small[4]; /* the last word, which nothing replaces, grows */
    memcpy(small, m->table + 6 * m->dim, sizeof small);
    for (float by = 1e18f; by < 1e28f; by *= 10) {
        for (size_t d = 0; d < m->dim; d++)
            m->table[6 * m->dim + d] = by * small[d];
        check_overflow(m, &task);
    }
    memcpy(m->table + 6 * m->dim, small, sizeof small);
    CHECK_OK(harness_init(&h, &cert_s4, m));
    for (size_t i = m->params[m->n_params - 2].first; i < m->n_values; i++)
        m->value[i] = 1e38f;
    CHECK_OK(h.family->open(h.work, &task));
    for (size_t method = 0; method < 2; method++) {
        CHECK_OK(h.family->bound(h.work, method, 1, 0, &b));
        CHECK(b.margin == -INFINITY);
    }
    harness_deinit(&h);
    stet_model_free(m);
}

TEST(what_underflows_is_part_of_the_bound)
{
    harness_tally tally = {0};
    for (uint64_t seed = 0; seed < 20; seed++) {
        rng r = rng_stream(seed, STREAM_TEST, 15);
        model *m = harness_s4_of_little(one_layer, seed);
        cert_case c;
        harness h;
        harness_case(m, 1 + rng_below(&r, 3), 2, STET_ANY, &r, &c);
        CHECK_OK(harness_init(&h, &cert_s4, m));
        harness_check(&h, &c, 0, 0, &tally);
        harness_deinit(&h);
        stet_model_free(m);
    }
    CHECK_EQ(tally.violations, 0);
}

typedef struct use {
    const model *m;
    const cert_case *c;
} use;

static stet_status bound_once(void *ctx)
{
    const use *u = ctx;
    harness h = {0};
    double drop[HARNESS_POSITIONS];
    uint32_t worst[HARNESS_POSITIONS];
    cert_bound b = {.drop = drop, .worst = worst};
    stet_status st = harness_init(&h, &cert_s4, u->m);
    if (st == STET_OK)
        st = h.family->open(h.work, &u->c->task);
    if (st == STET_OK)
        st = h.family->bound(h.work, 1, 1 - u->c->task.label, 0, &b);
    harness_deinit(&h);
    return st;
}

TEST(running_out_of_memory_is_an_answer)
{
    model *m = harness_model("s4", two_layers, 4, 2, 1, 1);
    rng r = rng_stream(1, STREAM_TEST, 14);
    cert_case c;
    harness_case(m, 5, 3, STET_ANY, &r, &c);
    CHECK_LE(4, ALLOC_FAIL_LOOP(bound_once, (&(use){m, &c})));
    stet_model_free(m);
}
