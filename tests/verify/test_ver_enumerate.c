/* The method "enumerate": what it proves is true, what is true beyond rounding it proves, and the
 * checker derives the same by itself. */
#include "../certify/harness.h"
#include "base/mem.h"
#include "stet/certify.h"
#include "verify/ver_line.h"

static const struct {
    const char *kind, *settings[4];
    double edge; /* margins below it may be lost to rounding */
} kinds[] = {{"cnn", {"filters=5", "kernels=1,2,4"}, 1e-4},
             {"bilstm", {"hidden=4"}, 1e-3},
             {"s4", {"channels=5", "state=4", "layers=1"}, 1e-2},
             {"s4", {"channels=4", "state=4", "layers=2"}, 1e-1}};

typedef struct outcome {
    size_t proved, lost, false_claims, combinations;
} outcome;

/* The task of a certificate: own words and sets as choices. */
static void as_choices(const cert_case *c, uint32_t *ids, uint32_t *start, uint32_t *word,
                       stet_choices *out)
{
    uint32_t made = 0;
    for (size_t p = 0; p < c->task.n; p++) {
        ids[p] = c->word[c->start[p]];
        start[p] = made;
        for (uint32_t k = c->start[p] + 1; k < c->start[p + 1]; k++)
            word[made++] = c->word[k];
    }
    start[c->task.n] = made;
    *out = (stet_choices){.n = c->task.n, .start = start, .word = word};
}

static void try_one(model *m, const cert_case *c, size_t budget, double edge, outcome *out)
{
    stet_certify_how how = STET_CERTIFY_HOW;
    how.method = "enumerate";
    how.budget = budget;
    uint32_t ids[HARNESS_POSITIONS], start[HARNESS_POSITIONS + 1],
        word[HARNESS_POSITIONS * HARNESS_SET];
    stet_choices choices;
    as_choices(c, ids, start, word, &choices);
    float logits[HARNESS_CLASSES];
    CHECK_OK(model_logits_of(m, ids, c->task.n, logits));
    cert_task t = c->task;
    t.label = stet_argmax(logits, m->n_classes);
    t.budget = budget;
    t.unpaid = NULL;
    double least[HARNESS_CLASSES], lowest = INFINITY;
    out->combinations += harness_minimum(m, &t, least);
    for (int k = 0; k < (int)m->n_classes; k++)
        lowest = k == t.label ? lowest : fmin(lowest, least[k]);

    stet_certifier *certifier;
    stet_certificate r;
    CHECK_OK(stet_certifier_new(m, &how, &certifier));
    CHECK_OK(stet_certify_text(certifier, ids, &choices, t.label, &r));
    const bool proved = r.verdict == STET_CERTIFIED;
    out->proved += proved;
    out->false_claims += proved && !(r.margin <= lowest);
    out->lost += !proved && lowest > edge;
    if (proved) { /* and the checker: every class at least as much, nothing above the truth */
        CHECK_STR(r.method, "enumerate");
        const bool none[HARNESS_POSITIONS] = {false};
        ver_model v;
        CHECK_OK(ver_model_load(test_dir(), &v));
        ver_work w = {.m = &v};
        arena mem = {0};
        const ver_task whole = {t.n, t.start, t.word, budget, none};
        CHECK_OK(ver_open_task(&w, &whole));
        double weakest = INFINITY;
        for (int k = 0; k < (int)m->n_classes; k++) {
            double own;
            if (k == t.label)
                continue;
            CHECK_OK(ver_enumerate(&w, &whole, t.label, k, r.margin, &mem, &own));
            CHECK_LE(own, least[k]);
            weakest = fmin(weakest, own);
        }
        CHECK_LE(r.margin, weakest + 1e-6 * (1 + r.margin));
        arena_deinit(&mem);
        ver_work_deinit(&w);
        ver_model_deinit(&v);
    }
    stet_certificate_deinit(&r);
    stet_certifier_free(certifier);
}

TEST(what_is_enumerated_is_the_truth_but_for_rounding)
{
    static const size_t budgets[] = {1, 2, STET_ANY};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        outcome all = {0};
        for (uint64_t seed = 0; seed < 30; seed++) {
            rng r = rng_stream(seed, STREAM_TEST, 31);
            model *m =
                harness_fresh(harness_model(kinds[i].kind, kinds[i].settings, 4, 3, 1, seed));
            cert_case c;
            harness_case(m, 1 + rng_below(&r, 6), 3, STET_ANY, &r, &c);
            try_one(m, &c, budgets[seed % 3], kinds[i].edge, &all);
            stet_model_free(m);
        }
        printf("%s: %zu of 30 proved, %zu combinations\n", kinds[i].kind, all.proved,
               all.combinations);
        CHECK_EQ(all.false_claims, 0);
        CHECK_EQ(all.lost, 0);
        CHECK_LE(3, all.proved);
    }
}

/* A budget that lets nearly nothing through, positions that do not pay: each combination once. */
TEST(combinations_are_those_that_the_budget_allows)
{
    const char *const cnn[] = {"filters=2", "kernels=1", NULL};
    model *m = harness_fresh(harness_model("cnn", cnn, 2, 2, 1, 1));
    ver_model v;
    CHECK_OK(ver_model_load(test_dir(), &v));
    ver_work w = {.m = &v};
    arena mem = {0};
    for (uint64_t seed = 0; seed < 60; seed++) {
        rng r = rng_stream(seed, STREAM_TEST, 32);
        cert_case c;
        harness_case(m, 1 + rng_below(&r, 6), 4, seed % 4 ? seed % 4 : STET_ANY, &r, &c);
        const bool none[HARNESS_POSITIONS] = {false};
        const ver_task t = {c.task.n, c.start, c.word, c.task.budget,
                            c.task.unpaid ? c.task.unpaid : none};
        double least[HARNESS_CLASSES], own;
        harness_minimum(m, &c.task, least);
        CHECK_OK(ver_enumerate(&w, &t, c.task.label, 1 - c.task.label, INFINITY, &mem, &own));
        CHECK_NEAR(own, least[1 - c.task.label], 1e-4);
    }
    uint32_t start[64], word[63 * 3];
    bool none[63] = {false};
    for (uint32_t p = 0; p < 63; p++) {
        start[p] = 3 * p;
        for (uint32_t k = 0; k < 3; k++)
            word[3 * p + k] = STET_FIRST_WORD + k;
    }
    start[63] = 3 * 63;
    const ver_task many = {63, start, word, VER_ANY, none};
    double own;
    CHECK_FAILS(ver_enumerate(&w, &many, 0, 1, 0, &mem, &own), STET_EFORMAT, "more combinations");
    arena_deinit(&mem);
    ver_work_deinit(&w);
    ver_model_deinit(&v);
    stet_model_free(m);
}
