/* Word scores beside every kind of network, and the sum model: bounds against the truth. */
#include "alloc_fail.h"
#include "certify/cert_scores.h"
#include "certify/certifier.h"
#include "harness.h"

static const char *const cnn[] = {"filters=4", "kernels=2,3", NULL};
static const char *const bilstm[] = {"hidden=3", NULL};
static const char *const s4[] = {"channels=4", "state=4", NULL};
static const char *const sum[] = {NULL};
static const char *const sum_net[] = {"score-hidden=5", NULL};
static const char *const cnn_net[] = {"filters=4", "kernels=2,3", "score-hidden=5", NULL};
static const char *const bilstm_net[] = {"hidden=3", "score-hidden=5", NULL};
static const char *const s4_net[] = {"channels=4", "state=4", "score-hidden=5", NULL};
static const struct {
    const char *name;
    const char *const *settings;
    double scale;
} kinds[] = {{"sum", sum, 1}, {"sum", sum_net, 1}, {"cnn", cnn, 1},           {"bilstm", bilstm, 1},
             {"s4", s4, 1},   {"cnn", cnn_net, 1}, {"bilstm", bilstm_net, 1}, {"s4", s4_net, 1}};
enum { KINDS = sizeof kinds / sizeof *kinds, SUMS = 2, WITHOUT_NET = 5 };
static const size_t budgets[] = {STET_ANY, 1, 2};

static model *scored(size_t kind, size_t classes, double scores, uint64_t seed)
{
    return harness_scored(kinds[kind].name, kinds[kind].settings, 6, classes, kinds[kind].scale,
                          scores, seed);
}

static const cert_family *family_of(const model *m)
{
    const cert_family *f;
    CHECK_OK(cert_family_of(stet_model_kind(m), &f));
    return f;
}

/* ---- the truth ---------------------------------------------------------------------------- */

/* From scores that hardly matter to those that decide alone. */
TEST(no_bound_exceeds_the_truth)
{
    static const double sizes[] = {0.02, 0.5, 20};
    for (size_t kind = 0; kind < KINDS; kind++) {
        harness_tally tally = {0}, lies = {0};
        for (size_t i = 0; i < 18; i++) {
            rng r = rng_stream(1, STREAM_TEST, 100 * kind + i);
            model *m = scored(kind, 2 + i % 3, sizes[i % 3], i);
            harness h;
            CHECK_OK(harness_init(&h, family_of(m), m));
            for (size_t k = 0; k < 8; k++) {
                cert_case c;
                harness_case(m, 1 + rng_below(&r, 6), 3, budgets[k % 3], &r, &c);
                harness_check(&h, &c, 20, 0, &tally);
                harness_check(&h, &c, 20, kind < SUMS ? 1e-3 * sizes[i % 3] : 1, &lies);
            }
            harness_deinit(&h);
            stet_model_free(m);
        }
        CHECK_EQ(tally.violations, 0);
        CHECK(lies.violations > tally.bounds / 20); /* what is wrong shows */
        printf("%s: %zu combinations\n", kinds[kind].name, tally.combinations);
    }
}

TEST(no_sample_of_a_longer_text_goes_below_a_bound)
{
    for (size_t kind = 0; kind < KINDS; kind++) {
        harness_tally tally = {0};
        for (size_t i = 0; i < 6; i++) {
            rng r = rng_stream(2, STREAM_TEST, 100 * kind + i);
            model *m = scored(kind, 3, 1, i);
            harness h;
            CHECK_OK(harness_init(&h, family_of(m), m));
            cert_case c;
            harness_case(m, HARNESS_POSITIONS, 6, budgets[i % 3], &r, &c);
            harness_sample(&h, &c.task, 20, 3000, &r, &tally);
            harness_deinit(&h);
            stet_model_free(m);
        }
        CHECK_EQ(tally.violations, 0);
    }
}

/* The bound of a sum is the margin of a text: within a budget, and with changes that are free. */
TEST(the_bound_of_the_sum_model_is_attained)
{
    for (size_t i = 0; i < 60; i++) {
        rng r = rng_stream(3, STREAM_TEST, i);
        model *m = scored(i % SUMS, 2 + i % 3, 1, i);
        harness h;
        CHECK_OK(harness_init(&h, &cert_sum, m));
        cert_case c;
        double least[HARNESS_CLASSES], drop[HARNESS_POSITIONS];
        uint32_t worst[HARNESS_POSITIONS];
        harness_case(m, 1 + rng_below(&r, 7), 3, budgets[i / 2 % 3], &r, &c);
        harness_minimum(m, &c.task, least);
        CHECK_OK(cert_sum.open(h.work, &c.task));
        for (int k = 0; k < (int)m->n_classes; k++) {
            cert_bound b = {.drop = drop, .worst = worst};
            if (k == c.task.label)
                continue;
            CHECK_OK(cert_sum.bound(h.work, 0, k, 0, &b));
            CHECK_LE(b.margin, least[k]);
            CHECK_LE(least[k], b.margin + 2 * b.slack);
            CHECK(b.slack < 1e-4);
        }
        harness_deinit(&h);
        stet_model_free(m);
    }
}

/* ---- one word serves both ----------------------------------------------------------------- */

/* The network's bound and that of the scores, added: what a sum over positions must beat. */
TEST(a_sum_over_positions_takes_one_word_for_network_and_score)
{
    for (size_t kind = SUMS; kind < WITHOUT_NET; kind++) {
        size_t better = 0, sums = 0;
        for (size_t i = 0; i < 20; i++) {
            rng r = rng_stream(4, STREAM_TEST, i);
            model *m = scored(kind, 2, 0.3, i),
                  *plain = harness_model(kinds[kind].name, kinds[kind].settings, 6, 2,
                                         kinds[kind].scale, i);
            memcpy(plain->value, m->value, plain->n_values * sizeof *plain->value);
            const cert_family *f = family_of(m);
            harness h, g;
            CHECK_OK(harness_init(&h, f, m));
            CHECK_OK(harness_init(&g, f, plain));
            cert_case c;
            harness_case(m, 12, 5, budgets[i % 3], &r, &c);
            arena mem = {0};
            cert_scores s;
            CHECK_OK(cert_scores_open(&s, m, &c.task, &mem));
            cert_scores_against(&s, 1 - c.task.label);
            CHECK_OK(f->open(h.work, &c.task));
            CHECK_OK(f->open(g.work, &c.task));
            for (size_t method = 0; f->methods[method]; method++) {
                double drop[HARNESS_POSITIONS];
                uint32_t worst[HARNESS_POSITIONS];
                cert_bound a = {.drop = drop, .worst = worst}, b = a;
                CHECK_OK(f->bound(g.work, method, 1 - c.task.label, 0, &b));
                const bool additive = b.additive;
                const double apart = b.margin + s.sum.margin;
                CHECK_OK(f->bound(h.work, method, 1 - c.task.label, 0, &a));
                if (additive == a.additive)
                    CHECK_LE(apart - 1e-4 * (1 + fabs(apart)), a.margin);
                sums += additive && a.additive;
                better += additive && a.additive && a.margin > apart + 1e-3;
            }
            arena_deinit(&mem);
            harness_deinit(&h);
            harness_deinit(&g);
            stet_model_free(m);
            stet_model_free(plain);
        }
        CHECK(2 * better > sums);
    }
}

/* ---- verdicts ----------------------------------------------------------------------------- */

/* Without --complete, too: the sum model says what breaks a text, or how many words may change. */
TEST(the_sum_model_decides_every_text)
{
    size_t count[STET_VERDICTS] = {0}, some = 0;
    for (size_t i = 0; i < 120; i++) {
        rng r = rng_stream(5, STREAM_TEST, i);
        model *m = scored(i % SUMS, 2 + i % 2, 1, i);
        stet_certifier *c;
        stet_certify_how how = STET_CERTIFY_HOW;
        how.largest = true;
        how.budget = budgets[i % 3];
        CHECK_OK(stet_certifier_new(m, &how, &c));
        cert_case x;
        harness_case(m, 6, 3, STET_ANY, &r, &x);
        uint32_t ids[6], start[7] = {0}, word[6 * 3], made = 0;
        for (size_t p = 0; p < 6; p++) {
            ids[p] = x.word[x.start[p]];
            for (uint32_t k = x.start[p] + 1; k < x.start[p + 1]; k++)
                word[made++] = x.word[k];
            start[p + 1] = made;
        }
        float logits[HARNESS_CLASSES];
        CHECK_OK(model_logits_of(m, ids, 6, logits));
        x.task.label = stet_argmax(logits, m->n_classes);
        x.task.unpaid = NULL;
        const stet_choices sets = {.n = 6, .start = start, .word = word};
        stet_certificate out;
        CHECK_OK(stet_certify_text(c, ids, &sets, x.task.label, &out));
        size_t truth = 0; /* the largest budget that holds */
        double all[HARNESS_CLASSES];
        for (size_t budget = 1; budget <= 6 && truth + 1 == budget; budget++) {
            x.task.budget = budget;
            harness_minimum(m, &x.task, all);
            double least = INFINITY;
            for (size_t k = 0; k < m->n_classes; k++)
                least = (int)k == x.task.label ? least : fmin(least, all[k]);
            CHECK(fabs(least) > 1e-4); /* no text of these is at the edge */
            truth += least > 0;
        }
        const bool certified = truth == 6 || truth >= how.budget;
        CHECK_EQ(out.verdict, certified ? STET_CERTIFIED : STET_BROKEN);
        if (!certified) {
            CHECK_EQ(out.budget, truth);
            CHECK(out.n_edits > truth && out.n_edits <= how.budget);
            for (size_t e = 0; e < out.n_edits; e++)
                ids[out.edits[e].pos] = out.edits[e].word;
            CHECK_OK(model_logits_of(m, ids, 6, logits));
            CHECK(stet_argmax(logits, m->n_classes) != x.task.label);
            some += truth > 0;
        }
        count[out.verdict]++;
        stet_certificate_deinit(&out);
        stet_certifier_free(c);
        stet_model_free(m);
    }
    CHECK(count[STET_CERTIFIED] > 20 && count[STET_BROKEN] > 20 && some > 5);
}

/* A substitute that takes exactly what the text has, and one that takes a hair less or more: nothing
 * at or beyond the edge is certified, and what is certified is well inside. */
TEST(a_text_a_hair_beyond_the_edge_is_never_certified)
{
    size_t proved = 0;
    for (int hair = -40; hair <= 40; hair++) {
        model *m = harness_scored("sum", sum, 4, 2, 1, 0, 1);
        const uint32_t w = STET_FIRST_WORD;
        real *s = model_value(m, m->scores);
        for (uint32_t i = 0; i < 4; i++)
            s[(w + i) * 2] = (real)0.3;
        s[(w + 4) * 2] =
            (real)(-0.9 + ldexp(hair, -23)); /* four words, one of them this: 0 + hair */
        m = harness_fresh(m);
        stet_certifier *c;
        const stet_certify_how how = STET_CERTIFY_HOW;
        CHECK_OK(stet_certifier_new(m, &how, &c));
        const uint32_t ids[] = {w, w + 1, w + 2, w + 3};
        uint32_t start[] = {0, 1, 1, 1, 1}, sub = w + 4;
        const stet_choices sets = {.n = 4, .start = start, .word = &sub};
        const uint32_t broken[] = {w + 4, w + 1, w + 2, w + 3};
        float logits[2];
        CHECK_OK(model_logits_of(m, broken, 4, logits));
        stet_certificate out;
        CHECK_OK(stet_certify_text(c, ids, &sets, 0, &out));
        const double real_margin =
            (3 * (double)(real)0.3 + (double)(real)(-0.9 + ldexp(hair, -23))) / 2;
        if (out.verdict == STET_CERTIFIED)
            CHECK(real_margin > 0 && logits[0] > logits[1]);
        if (out.verdict == STET_BROKEN)
            CHECK(logits[0] <= logits[1]);
        proved += out.verdict == STET_CERTIFIED;
        stet_certificate_deinit(&out);
        stet_certifier_free(c);
        stet_model_free(m);
    }
    CHECK(proved > 0 && proved < 41);
}

/* ---- what must not be believed ------------------------------------------------------------ */

TEST(scores_that_are_not_finite_are_refused)
{
    const real bad[] = {(real)NAN, (real)INFINITY, (real)1e38};
    for (size_t kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < 3; i++) {
            model *m = scored(kind, 2, 1, 3);
            m->score_table[50] = bad[i];
            cert_shared s;
            CHECK_FAILS(cert_shared_init(&s, m, family_of(m)), STET_EFORMAT, "word scores");
            stet_model_free(m);
        }
}

static stet_status complete_use(void *ctx)
{
    model *m = ctx;
    stet_certifier *c;
    const stet_certify_how how = STET_CERTIFY_HOW;
    const uint32_t ids[] = {5, 6, 7};
    uint32_t start[] = {0, 2, 3, 3}, word[] = {8, 9, 10};
    const stet_choices sets = {.n = 3, .start = start, .word = word};
    stet_certificate out;
    stet_status st = stet_certifier_new(m, &how, &c);
    if (st == STET_OK)
        st = stet_certify_text(c, ids, &sets, 0, &out);
    if (st == STET_OK)
        stet_certificate_deinit(&out);
    stet_certifier_free(c);
    model_forget(m); /* what it keeps is no leak */
    return st;
}

TEST(every_failed_allocation_is_survived)
{
    for (size_t kind = 0; kind < SUMS; kind++) {
        model *m = scored(kind, 2, 1, 4);
        model_forget(m);
        CHECK_LE(4, ALLOC_FAIL_LOOP(complete_use, m));
        stet_model_free(m);
    }
}
