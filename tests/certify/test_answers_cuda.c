/* Attacks and certificates on the GPU: the CPU's answers up to rounding, its verdicts, its bounds bit by
 * bit, and the same bytes whoever shares a batch. Skips where there is no GPU. */
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/pool.h"
#include "harness.h"
#include "model/answers.h"
#include "model/mixed_reference.h"
#include "model/small_world.h"
#include "model/variants.h"
#include "stet/attack.h"
#include "stet/certify.h"
#include "stet/verify.h"
#include "tensor/host/panel.h"

static void need_gpu(void)
{
    store *s;
    const stet_status st = store_open("cuda", &s);
    if (st == STET_ENOTSUP)
        SKIP(stet_last_error());
    CHECK_OK(st);
    store_close(s);
}

/* ---- variants ----------------------------------------------------------------------------- */

enum { VARIANTS = 70, CLASSES = 3, LONGEST = 32 };

typedef struct text_case {
    uint32_t ids[LONGEST];
    size_t n, start[VARIANTS + 1];
    stet_edit edits[VARIANTS * LONGEST];
    float logits[VARIANTS * CLASSES], clean[CLASSES];
    stet_status status;
} text_case;

static void draw_case(const model *m, rng *r, size_t most, text_case *c)
{
    c->n = 1 + rng_below(r, LONGEST);
    c->start[0] = 0;
    for (size_t i = 0; i < c->n; i++)
        c->ids[i] = (uint32_t)rng_below(r, m->n_words);
    for (size_t i = 0; i < VARIANTS; i++) {
        size_t at = c->start[i];
        const size_t want = rng_below(r, most + 1);
        for (uint32_t p = 0; p < c->n && at - c->start[i] < want; p++)
            if (rng_below(r, c->n - p) < want)
                c->edits[at++] = (stet_edit){p, (uint32_t)rng_below(r, m->n_words)};
        c->start[i + 1] = at;
    }
}

typedef struct many_texts {
    const model *m;
    answers *on;
    text_case *c;
} many_texts;

static void ask_text(void *ctx, size_t i, int worker)
{
    (void)worker;
    const many_texts *t = ctx;
    text_case *c = &t->c[i];
    stet_view *v = NULL;
    c->status = view_open_on(t->m, t->on, NULL, c->ids, c->n, &v);
    if (c->status == STET_OK)
        memcpy(c->clean, stet_view_logits(v), sizeof c->clean);
    if (c->status == STET_OK)
        c->status = stet_view_edits(v, c->edits, c->start, VARIANTS, c->logits);
    stet_view_free(v);
}

/* Many texts at once, against full evaluations on the host. */
static void compare_variants(model *m, size_t texts, uint64_t seed)
{
    rng r = rng_stream(seed, STREAM_TEST, 5);
    many_texts t = {.m = m, .c = mem_zalloc(texts, sizeof *t.c)};
    CHECK(t.c != NULL);
    for (size_t i = 0; i < texts; i++)
        draw_case(m, &r, i % 2 ? LONGEST : 1, &t.c[i]);
    CHECK_OK(answers_open(m, "cuda", &t.on));
    CHECK(t.on != NULL);
    pool_run_wide(texts, (int)texts, ask_text, &t);
    for (size_t i = 0; i < texts; i++) {
        text_case *c = &t.c[i];
        float want[VARIANTS * CLASSES], clean[CLASSES];
        const size_t none[2] = {0, 0};
        CHECK_OK(c->status);
        CHECK_OK(variants_whole(m, c->ids, c->n, NULL, none, 1, clean));
        CHECK_OK(variants_whole(m, c->ids, c->n, c->edits, c->start, VARIANTS, want));
        for (int k = 0; k < CLASSES; k++)
            CHECK_NEAR(c->clean[k], clean[k], 2e-5);
        for (int k = 0; k < VARIANTS * CLASSES; k++)
            CHECK_NEAR(c->logits[k], want[k], 2e-5);
    }
    answers_close(t.on);
    mem_free(t.c);
    stet_model_free(m);
}

TEST(variants_have_the_logits_of_full_evaluations)
{
    need_gpu();
    for (int kind = 0; kind < SMALL_KINDS; kind++)
        compare_variants(small_model(kind, CLASSES, 3 + (uint64_t)kind), 12, 40);
}

TEST(wide_models_too)
{
    static const struct {
        const char *kind, *settings[4];
    } wide[] = {{"cnn", {"filters=300", "kernels=1,3", NULL}},
                {"cnn", {"filters=200", "kernels=2,3,4", "dense=600", NULL}},
                {"bilstm", {"hidden=64", NULL}},
                {"bilstm", {"hidden=100", "pool=max", NULL}},
                {"bilstm", {"hidden=300", "pool=mean", NULL}}};
    need_gpu();
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        compare_variants(harness_model(wide[i].kind, wide[i].settings, 8, CLASSES, 0.2, 11), 5, 41);
}

/* ---- whole texts and mixtures ------------------------------------------------------------- */

enum { TEXTS_ASKED = 45, MOST_ROWS = 9, MOST_COPIES = 19 };

typedef struct drawn_texts {
    uint64_t start[TEXTS_ASKED + 1], seed[TEXTS_ASKED];
    uint32_t ids[TEXTS_ASKED * LONGEST], slot_at[TEXTS_ASKED * LONGEST + 1],
        slot[TEXTS_ASKED * LONGEST * MOST_ROWS];
} drawn_texts;

/* Some of one length one after the other, and half of the words of one row. */
static void draw_texts(const model *m, rng *r, drawn_texts *t)
{
    size_t words = 0;
    memset(t, 0, sizeof *t);
    for (size_t i = 0; i < TEXTS_ASKED; i++) {
        const size_t n = i > 5 && i < 20 ? 7 : 1 + rng_below(r, LONGEST);
        t->seed[i] = rng_u64(r);
        t->start[i + 1] = t->start[i] + n;
        for (; words < t->start[i + 1]; words++) {
            const uint32_t rows = rng_below(r, 2) ? 1 : 2 + (uint32_t)rng_below(r, MOST_ROWS - 1);
            t->ids[words] = (uint32_t)rng_below(r, m->n_words);
            t->slot_at[words + 1] = t->slot_at[words] + rows;
            for (uint32_t s = t->slot_at[words]; s < t->slot_at[words + 1]; s++)
                t->slot[s] = (uint32_t)rng_below(r, m->n_words);
        }
    }
}

static void compare_texts(const model *m, answers *on, const drawn_texts *t)
{
    float got[TEXTS_ASKED * CLASSES], want[CLASSES];
    const size_t none[2] = {0, 0};
    const stet_corpus c = {.n_texts = TEXTS_ASKED,
                           .ids = (uint32_t *)t->ids,
                           .start = (uint64_t *)t->start}; /* only read */
    CHECK_OK(answers_texts(on, &c, got));
    for (size_t i = 0; i < TEXTS_ASKED; i++) {
        CHECK_OK(variants_whole(m, t->ids + t->start[i], t->start[i + 1] - t->start[i], NULL, none, 1,
                                want));
        for (size_t k = 0; k < CLASSES; k++)
            CHECK_NEAR(got[i * CLASSES + k], want[k], 2e-5);
    }
}

static void compare_mixtures(const model *m, answers *on, const drawn_texts *t, size_t copies,
                             double alpha)
{
    static float got[TEXTS_ASKED * MOST_COPIES * CLASSES], want[TEXTS_ASKED * MOST_COPIES * CLASSES];
    const mixed_texts mixed = {TEXTS_ASKED, copies, alpha, t->start, t->slot_at, t->slot, t->seed};
    CHECK(answers_mixtures_there(on));
    CHECK_OK(answers_mixtures(on, &mixed, got));
    reference_mixtures(m, &mixed, want);
    for (size_t i = 0; i < TEXTS_ASKED * copies * CLASSES; i++)
        CHECK_NEAR(got[i], want[i], 2e-5);
}

TEST(texts_and_mixtures_have_the_logits_of_full_evaluations)
{
    static const struct {
        const char *kind, *settings[4];
    } all[] = {{"cnn", {"filters=300", "kernels=1,3", NULL}},
               {"cnn", {"filters=50", "kernels=2,3,4", "dense=60", NULL}},
               {"bilstm", {"hidden=10", NULL}},
               {"bilstm", {"hidden=64", "pool=mean", NULL}},
               {"bilstm", {"hidden=100", "pool=max", NULL}},
               {"bilstm", {"hidden=300", NULL}}};
    static const struct {
        size_t copies;
        double alpha;
    } draws[] = {{8, 1}, {1, 1}, {MOST_COPIES, 0.3}, {3, 2.5}, {16, 0}};
    static drawn_texts t;
    rng r = rng_stream(12, STREAM_TEST, 5);
    need_gpu();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        model *m = harness_model(all[i].kind, all[i].settings, 8, CLASSES, 0.2, 11);
        answers *on;
        CHECK_OK(answers_open(m, "cuda", &on));
        draw_texts(m, &r, &t);
        compare_texts(m, on, &t);
        for (size_t k = 0; k < sizeof draws / sizeof *draws; k++)
            compare_mixtures(m, on, &t, draws[k].copies, draws[k].alpha);
        answers_close(on);
        stet_model_free(m);
    }
}

/* ---- words -------------------------------------------------------------------------------- */

enum { WORDS = 150, DIM = 37, WIDTH = 100, PADDED = 128 };

/* What the GPU makes of a table, in WIDTH columns. */
static void words_there(store *s, const real *table, const real *panels, bool fuses, real *out)
{
    float *t = store_alloc(s, WORDS * DIM, sizeof *t), *p = store_alloc(s, DIM * PADDED, sizeof *p),
          *w = store_alloc(s, WORDS * WIDTH, sizeof *w);
    CHECK(t && p && w);
    store_upload(s, t, table, WORDS * DIM * sizeof *t);
    store_upload(s, p, panels, DIM * PADDED * sizeof *p);
    store_clear(s, w, WORDS * WIDTH * sizeof *w);
    store_enter(s);
    CHECK_OK(cuda_cnn_words(&(cnn_words_on){WORDS, DIM, WIDTH, t, p, w, fuses}));
    store_leave(s);
    CHECK_OK(store_download(s, out, w, WORDS * WIDTH * sizeof *w));
    store_release(s, t);
    store_release(s, p);
    store_release(s, w);
}

TEST(words_are_projected_as_on_the_host_bit_by_bit)
{
    need_gpu();
    static real table[WORDS * DIM], filters[DIM * WIDTH], panels[DIM * PADDED], host[WORDS * PADDED],
        there[WORDS * WIDTH];
    rng r = rng_stream(8, STREAM_TEST, 3);
    for (size_t i = 0; i < WORDS * DIM; i++)
        table[i] = (real)rng_range(&r, -0.5, 0.5);
    for (size_t i = 0; i < DIM * WIDTH; i++)
        filters[i] = (real)rng_range(&r, -0.5, 0.5);
    panel_pack(DIM, WIDTH, filters, WIDTH, 1, 0, panels);
    panel_product(WORDS, PADDED, DIM, table, DIM, panels, host, PADDED);
    store *s;
    CHECK_OK(store_open("cuda", &s));
    words_there(s, table, panels, panel_fuses(), there);
    for (size_t i = 0; i < WORDS; i++)
        CHECK(memcmp(there + i * WIDTH, host + i * PADDED, WIDTH * sizeof *there) == 0);
    words_there(s, table, panels, false, there); /* as hosts without fused operations */
    for (size_t i = 0; i < WORDS; i++)
        for (size_t j = 0; j < WIDTH; j++) {
            volatile float sum = 0;
            for (size_t k = 0; k < DIM; k++) {
                volatile const float term = table[i * DIM + k] * filters[k * WIDTH + j];
                sum = sum + term;
            }
            CHECK(there[i * WIDTH + j] == sum);
        }
    store_close(s);
}

/* ---- attacks ------------------------------------------------------------------------------ */

static stet_attack_args attack_of(const world *w, const char *attack, const char *where)
{
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    a.model = w->m, a.data = w->data, a.sets = &w->sets, a.attack = attack, a.device = where;
    return a;
}

TEST(attacks_flip_what_they_flip_on_the_cpu)
{
    static const char *const all[] = {"pwws", "ga", "pso", "textfooler", "greedy", "exhaustive"};
    static const int kinds[] = {0, 1, 2, 4, 9};
    need_gpu();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        world w;
        make(&w, kinds[i], 9, 2);
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
            stet_attack_result cpu, gpu;
            stet_attack_args a = attack_of(&w, all[k], NULL);
            CHECK_OK(stet_attack_run(&a, &cpu));
            a.device = "cuda";
            CHECK_OK(stet_attack_run(&a, &gpu));
            CHECK_EQ(gpu.n, cpu.n);
            CHECK_EQ(gpu.correct, cpu.correct);
            CHECK_EQ(gpu.succeeded, cpu.succeeded);
            CHECK_EQ(gpu.proved, cpu.proved);
            CHECK_EQ(gpu.unconfirmed, 0);
            CHECK_NEAR(gpu.queries_mean, cpu.queries_mean, 1e-9);
        }
        unmake(&w);
    }
}

TEST(two_runs_have_the_same_log)
{
    need_gpu();
    for (int kind = 0; kind < 2; kind++) {
        world w;
        make(&w, kind, 9, 2);
        char *log[2];
        for (int i = 0; i < 2; i++) {
            char path[512];
            snprintf(path, sizeof path, "%s/log%d.jsonl", test_dir(), i);
            stet_attack_args a = attack_of(&w, "ga", "cuda");
            stet_attack_result r;
            a.log = path;
            unlink(path);
            CHECK_OK(stet_attack_run(&a, &r));
            log[i] = read_all(path);
        }
        CHECK_STR(log[0], log[1]);
        mem_free(log[0]);
        mem_free(log[1]);
        unmake(&w);
    }
}

/* ---- certificates ------------------------------------------------------------------------- */

typedef struct proofs {
    stet_verdict verdict[TEXTS];
    double margin[TEXTS], slack[TEXTS], clean[TEXTS];
} proofs;

static void take_proof(void *user, size_t i, const stet_certified_text *t, const stet_certificate *c)
{
    proofs *p = user;
    (void)t;
    p->verdict[i] = c->verdict;
    p->margin[i] = c->margin;
    p->slack[i] = c->slack;
    p->clean[i] = c->clean;
}

static void certify_on(const world *w, const char *where, const char *method, size_t budget,
                       const char *file, proofs *out)
{
    stet_certify_args a = STET_CERTIFY_DEFAULTS;
    stet_certify_result r;
    a.model = w->m, a.data = w->data, a.sets = &w->sets, a.model_name = "small", a.device = where;
    a.how.method = method, a.how.budget = budget, a.file = file;
    a.each = take_proof, a.each_user = out;
    CHECK_OK(stet_certify_run(&a, &r));
    CHECK_EQ(r.n, TEXTS);
    stet_certify_result_deinit(&r);
}

TEST(bounds_are_those_of_the_cpu_bit_by_bit)
{
    static const char *const methods[] = {"ibp", "auto"};
    static const int kinds[] = {0, 4, 1};
    need_gpu();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        world w;
        make(&w, kinds[i], 12, 2);
        for (size_t k = 0; k < 2; k++)
            for (size_t budget = 2; budget < 5; budget += 2) {
                proofs cpu, gpu;
                const char *method = kinds[i] == 1 ? "auto" : methods[k];
                const size_t most = budget == 4 ? STET_ANY : budget;
                certify_on(&w, NULL, method, most, NULL, &cpu);
                certify_on(&w, "cuda", method, most, NULL, &gpu);
                size_t proved = 0;
                for (size_t t = 0; t < TEXTS; t++) {
                    CHECK_EQ((int)gpu.verdict[t], (int)cpu.verdict[t]);
                    CHECK(gpu.margin[t] == cpu.margin[t]);
                    CHECK(gpu.slack[t] == cpu.slack[t]);
                    CHECK(gpu.clean[t] == cpu.clean[t] ||
                          fabs(gpu.clean[t] - cpu.clean[t]) < 2e-5);
                    proved += cpu.verdict[t] == STET_CERTIFIED;
                }
                CHECK(proved > 0);
            }
        unmake(&w);
    }
}

/* The harness tries every combination of words against bounds whose ranges are the GPU's. */
TEST(no_combination_goes_below_a_bound)
{
    static const char *const plain[] = {"filters=5", "kernels=1,3", NULL},
                             *const dense[] = {"filters=5", "kernels=1,3", "dense=7", NULL};
    need_gpu();
    harness_tally tally = {0};
    for (uint64_t seed = 1; seed <= 12; seed++) {
        model *m = harness_model("cnn", seed > 6 ? dense : plain, 6, CLASSES, 0.5, seed);
        const cert_family *f = seed > 6 ? cert_cnn.of_model(m) : &cert_cnn;
        rng r = rng_stream(seed, STREAM_TEST, 9);
        answers *on;
        harness h;
        CHECK_OK(answers_open(m, "cuda", &on));
        CHECK(on && answers_ranges_there(on));
        CHECK_OK(harness_init(&h, f, m));
        CHECK_EQ(f->use(h.work, on), 1);
        for (size_t n = 1; n <= 7; n++) {
            cert_case c;
            harness_case(m, n, 3, STET_ANY, &r, &c);
            harness_check(&h, &c, 30, 0, &tally);
        }
        harness_deinit(&h);
        answers_close(on);
        stet_model_free(m);
    }
    CHECK_EQ(tally.violations, 0);
}

TEST(the_checker_accepts_certificates_of_the_gpu)
{
    need_gpu();
    world w;
    make(&w, 0, 12, 2);
    char dir[512], file[512];
    snprintf(dir, sizeof dir, "%s/model", test_dir());
    snprintf(file, sizeof file, "%s/gpu.cert", test_dir());
    CHECK_OK(stet_model_save(w.m, dir));
    proofs p;
    unlink(file);
    certify_on(&w, "cuda", "ibp", STET_ANY, file, &p);
    size_t proved = 0;
    for (size_t t = 0; t < TEXTS; t++)
        proved += p.verdict[t] == STET_CERTIFIED;
    CHECK(proved > 0);
    stet_verify_result r;
    CHECK_OK(stet_verify_file(file, dir, NULL, &r));
    CHECK_EQ(r.failed, 0);
    CHECK_EQ(r.certified, proved);
    unmake(&w);
}
