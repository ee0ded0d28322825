/* One text: verdicts against the truth, budgets, counter-examples, and models and sets that are not
 * as hoped. */
#include "alloc_fail.h"
#include "exact.h"

static const char *const cnn[] = {"filters=6", "kernels=2,3", NULL};
static const char *const dense[] = {"filters=6", "kernels=2,3", "dense=5", NULL};
static const char *const bilstm[] = {"hidden=3", NULL};
static const char *const s4[] = {"channels=4", "state=4", NULL};
static const char *const s4cnn[] = {"filters=4", "kernels=1,3", "rank=2", "state=4", NULL};
static const char *const sum[] = {NULL}, *const sum_net[] = {"score-hidden=4", NULL};
static const struct {
    const char *name;
    const char *const *settings;
    double scale, scores; /* 0: no word scores */
} kinds[] = {{"cnn", cnn, 1.5, 0},   {"bilstm", bilstm, 1, 0},   {"s4", s4, 1, 0},
             {"cnn", cnn, 1.5, 0.5}, {"bilstm", bilstm, 1, 0.3}, {"s4", s4, 1, 0.5},
             {"sum", sum, 1, 1},     {"sum", sum_net, 1, 0.5},   {"s4cnn", s4cnn, 1, 0.5},
             {"cnn", dense, 1.5, 0.5}};
enum { KINDS = sizeof kinds / sizeof *kinds, PLAIN_KINDS = 3 };

static model *model_of(size_t kind, size_t classes, double scale, uint64_t seed)
{
    return kinds[kind].scores > 0
               ? harness_scored(kinds[kind].name, kinds[kind].settings, 5, classes, scale,
                                kinds[kind].scores, seed)
               : harness_model(kinds[kind].name, kinds[kind].settings, 5, classes, scale, seed);
}

static const cert_family *family_of(size_t kind)
{
    const cert_family *f;
    model *m = model_of(kind, 2, 1, 0);
    CHECK_OK(cert_family_for(m, &f));
    stet_model_free(m);
    return f;
}

TEST(every_family_is_tried)
{
    for (size_t i = 0; cert_families[i]; i++) {
        size_t kind = 0;
        while (cert_families[i]->methods && strcmp(kinds[kind].name, model_descs[i]->name) != 0)
            CHECK(++kind < KINDS);
    }
}

/* The case as the public interface takes it. */
typedef struct subject {
    cert_case c;
    uint32_t ids[HARNESS_POSITIONS], start[HARNESS_POSITIONS + 1],
        word[HARNESS_POSITIONS * HARNESS_SET];
    stet_choices choices;
    double least; /* the smallest margin there is */
} subject;

static void finish_subject(const model *m, size_t budget, subject *s)
{
    uint32_t made = 0;
    for (size_t p = 0; p < s->c.task.n; p++) {
        s->ids[p] = s->c.word[s->c.start[p]];
        for (uint32_t k = s->c.start[p] + 1; k < s->c.start[p + 1]; k++)
            s->word[made++] = s->c.word[k];
        s->start[p + 1] = made;
    }
    s->choices = (stet_choices){.n = s->c.task.n, .start = s->start, .word = s->word};
    s->c.task.budget = budget;
    s->c.task.unpaid = NULL;
    double least[HARNESS_CLASSES];
    harness_minimum(m, &s->c.task, least);
    s->least = INFINITY;
    for (size_t k = 0; k < m->n_classes; k++)
        if ((int)k != s->c.task.label)
            s->least = fmin(s->least, least[k]);
}

/* A random text that the model gets right most of the time. */
static void random_subject(const model *m, size_t n, size_t most, size_t budget, rng *r, subject *s)
{
    memset(s, 0, sizeof *s);
    harness_case(m, n, most, budget, r, &s->c);
    float logits[HARNESS_CLASSES];
    uint32_t ids[HARNESS_POSITIONS];
    for (size_t p = 0; p < n; p++)
        ids[p] = s->c.word[s->c.start[p]];
    CHECK_OK(model_logits_of(m, ids, n, logits));
    if (rng_below(r, 10))
        s->c.task.label = stet_argmax(logits, m->n_classes);
    finish_subject(m, budget, s);
}

static void certify(stet_certifier *c, const subject *s, stet_certificate *out)
{
    CHECK_OK(stet_certify_text(c, s->ids, &s->choices, s->c.task.label, out));
}

/* A counter-example uses words of the sets, keeps the budget, and changes the answer. */
static void check_edits(const model *m, const subject *s, size_t budget, const stet_certificate *r)
{
    uint32_t ids[HARNESS_POSITIONS];
    float logits[HARNESS_CLASSES];
    memcpy(ids, s->ids, sizeof ids);
    CHECK(r->n_edits > 0 && r->n_edits <= budget);
    for (size_t i = 0; i < r->n_edits; i++) {
        const uint32_t p = r->edits[i].pos;
        CHECK(i == 0 || p > r->edits[i - 1].pos);
        uint32_t k = s->start[p];
        while (k < s->start[p + 1] && s->word[k] != r->edits[i].word)
            k++;
        CHECK(k < s->start[p + 1]);
        ids[p] = r->edits[i].word;
    }
    CHECK_OK(model_logits_of(m, ids, s->c.task.n, logits));
    CHECK(stet_argmax(logits, m->n_classes) != s->c.task.label);
}

/* The verdict of a complete search, or none where rounding decides. */
static void check_decided(const model *m, const subject *s, size_t budget,
                          const stet_certificate *r, size_t count[STET_VERDICTS])
{
    count[r->verdict]++;
    if (r->answer != s->c.task.label) {
        CHECK_EQ(r->verdict, STET_WRONG);
        return;
    }
    if (r->verdict == STET_CERTIFIED)
        CHECK(s->least > 0 && r->margin > 0 && r->margin <= s->least);
    if (r->verdict == STET_BROKEN)
        check_edits(m, s, budget, r);
    if (s->least > 3 * exact_slack)
        CHECK_EQ(r->verdict, STET_CERTIFIED);
    if (s->least < 0)
        CHECK_EQ(r->verdict, STET_BROKEN);
}

TEST(verdicts_of_exact_bounds_are_the_truth)
{
    size_t count[STET_VERDICTS] = {0};
    for (uint64_t i = 0; i < 60; i++) {
        rng r = rng_stream(1, STREAM_TEST, i);
        model *m = model_of(i % PLAIN_KINDS, 2 + i % 3, 1, i);
        cert_shared sh;
        stet_certifier *c;
        stet_certify_how how = STET_CERTIFY_HOW;
        CHECK_OK(cert_shared_init(&sh, m, &exact_family));
        CHECK_OK(certifier_new(&sh, &how, &c));
        for (int k = 0; k < 5; k++) {
            subject s;
            random_subject(m, 2 + rng_below(&r, 4), 3, STET_ANY, &r, &s);
            stet_certificate out;
            certify(c, &s, &out);
            count[out.verdict]++;
            if (out.answer != s.c.task.label)
                CHECK_EQ(out.verdict, STET_WRONG);
            else
                CHECK_EQ(out.verdict, s.least > exact_slack ? STET_CERTIFIED : STET_UNDECIDED);
            CHECK_EQ(out.budget, out.verdict == STET_CERTIFIED ? STET_ANY : 0);
            for (size_t h = 1; h < out.n_harm; h++)
                CHECK_LE(out.harm[h].drop, out.harm[h - 1].drop);
            stet_certificate_deinit(&out);
        }
        stet_certifier_free(c);
        stet_model_free(m);
    }
    CHECK(count[STET_WRONG] > 5 && count[STET_CERTIFIED] > 20 && count[STET_UNDECIDED] > 20);
}

TEST(splitting_decides_what_a_loose_bound_leaves_open)
{
    size_t count[STET_VERDICTS] = {0}, split = 0;
    for (uint64_t i = 0; i < 90; i++) {
        rng r = rng_stream(2, STREAM_TEST, i);
        const size_t budget = i % 3 == 0 ? STET_ANY : i % 3;
        const size_t kind = i / 3 % PLAIN_KINDS;
        model *m = model_of(kind, 2 + i % 2, kinds[kind].scale, i);
        cert_shared sh;
        stet_certifier *c;
        stet_certify_how how = {
            .method = "loose", .budget = budget, .complete = true, .time_limit = 0};
        CHECK_OK(cert_shared_init(&sh, m, &exact_family));
        CHECK_OK(certifier_new(&sh, &how, &c));
        for (int k = 0; k < 3; k++) {
            subject s;
            random_subject(m, 2 + rng_below(&r, 4), 4, budget, &r, &s);
            stet_certificate out;
            certify(c, &s, &out);
            check_decided(m, &s, budget, &out, count);
            split += out.verdict == STET_CERTIFIED && out.branches > 1;
            stet_certificate_deinit(&out);
        }
        stet_certifier_free(c);
        stet_model_free(m);
    }
    CHECK(count[STET_CERTIFIED] > 30 && count[STET_BROKEN] > 30 && split > 10);
}

TEST(the_largest_budget_is_the_largest_that_holds)
{
    size_t seen[8] = {0};
    for (uint64_t i = 0; i < 60; i++) {
        rng r = rng_stream(3, STREAM_TEST, i);
        model *m = model_of(i % PLAIN_KINDS, 2, 1, i);
        cert_shared sh;
        stet_certifier *c;
        stet_certify_how how = STET_CERTIFY_HOW;
        how.largest = true;
        CHECK_OK(cert_shared_init(&sh, m, &exact_family));
        CHECK_OK(certifier_new(&sh, &how, &c));
        subject s;
        random_subject(m, 6, 3, STET_ANY, &r, &s);
        stet_certificate out;
        certify(c, &s, &out);
        if (out.verdict == STET_UNDECIDED) {
            size_t truth = 0;
            while (finish_subject(m, truth + 1, &s), s.least > exact_slack)
                truth++;
            CHECK_EQ(out.budget, truth);
            seen[truth]++;
        }
        stet_certificate_deinit(&out);
        stet_certifier_free(c);
        stet_model_free(m);
    }
    CHECK(seen[0] > 0 && seen[1] > 0);
}

TEST(a_family_that_lies_is_caught_by_trying_everything)
{
    size_t lies = 0;
    exact_raise = 0.5;
    for (uint64_t i = 0; i < 20; i++) {
        rng r = rng_stream(4, STREAM_TEST, i);
        model *m = harness_model("cnn", cnn, 5, 2, 1.5, i);
        cert_shared sh;
        stet_certifier *c;
        const stet_certify_how how = STET_CERTIFY_HOW;
        CHECK_OK(cert_shared_init(&sh, m, &exact_family));
        CHECK_OK(certifier_new(&sh, &how, &c));
        subject s;
        random_subject(m, 5, 4, STET_ANY, &r, &s);
        stet_certificate out;
        certify(c, &s, &out);
        lies += out.verdict == STET_CERTIFIED && s.least < 0;
        stet_certificate_deinit(&out);
        stet_certifier_free(c);
        stet_model_free(m);
    }
    exact_raise = 0;
    CHECK(lies > 0);
}

/* ---- the families that ship --------------------------------------------------------------- */

TEST(a_kind_without_a_family_has_no_certificates)
{
    const cert_family *f;
    CHECK_FAILS(cert_family_of("toy", &f), STET_ENOTSUP,
                "no certificates for models of kind 'toy'");
    CHECK(!f && !stet_certify_methods("toy") && stet_certify_methods("cnn"));
}

TEST(complete_is_right_for_every_kind_of_model)
{
    for (size_t kind = 0; kind < KINDS; kind++) {
        size_t count[STET_VERDICTS] = {0};
        for (uint64_t i = 0; i < 40; i++) {
            rng r = rng_stream(5, STREAM_TEST, i);
            const size_t budget = i % 2 ? STET_ANY : 1 + i % 4 / 2;
            model *m = model_of(kind, 2 + i % 2, kinds[kind].scale, i);
            stet_certifier *c;
            const stet_certify_how how = {
                .method = "auto", .budget = budget, .complete = true, .refine = 10};
            CHECK_OK(stet_certifier_new(m, &how, &c));
            for (int k = 0; k < 4; k++) {
                subject s;
                random_subject(m, 2 + rng_below(&r, 4), 3, budget, &r, &s);
                stet_certificate out;
                certify(c, &s, &out);
                check_decided(m, &s, budget, &out, count);
                stet_certificate_deinit(&out);
            }
            stet_certifier_free(c);
            stet_model_free(m);
        }
        CHECK(count[STET_CERTIFIED] > 10 && count[STET_BROKEN] > 10);
    }
}

/* A CNN whose one filter fires only where three words stand in a row, and then turns the label. */
static model *trap(const uint32_t word[3], rng *r)
{
    static const char *const settings[] = {"filters=4", "kernels=3", NULL};
    enum { D = 8, F = 4 };
    model *m = harness_model("cnn", settings, D, 2, 0.01, rng_u64(r));
    for (size_t i = 0; i < m->n_words * D; i++)
        m->table[i] = 0;
    real *w = model_value(m, model_param_id(m, "convs.0.weight")); /* (F, D, 3) */
    real *b = model_value(m, model_param_id(m, "convs.0.bias"));
    real *fc = model_value(m, model_param_id(m, "fc.weight")); /* (2, F) */
    real *fb = model_value(m, model_param_id(m, "fc.bias"));
    for (size_t k = 0; k < 3; k++) {
        m->table[word[k] * D + k] = 1;
        w[k * 3 + k] = 1;
    }
    b[0] = (real)-2.5;
    fc[0] = 0, fc[F] = 1;
    fb[0] = (real)0.3, fb[1] = 0;
    harness_recompile(m);
    return m;
}

TEST(no_text_with_a_planted_counter_example_is_certified)
{
    for (uint64_t i = 0; i < 80; i++) {
        rng r = rng_stream(6, STREAM_TEST, i);
        const uint32_t word[3] = {STET_FIRST_WORD, STET_FIRST_WORD + 1, STET_FIRST_WORD + 2};
        model *m = trap(word, &r);
        enum { N = 9, SET = 4 };
        const size_t at = rng_below(&r, N - 2);
        uint32_t ids[N], start[N + 1] = {0}, alt[N * SET];
        for (uint32_t p = 0, made = 0; p < N; p++) {
            ids[p] = STET_FIRST_WORD + 5 + (uint32_t)rng_below(&r, 5);
            const size_t hidden = rng_below(&r, SET);
            for (uint32_t k = 0; k < SET; k++)
                alt[made++] = p >= at && p < at + 3 && k == hidden
                                  ? word[p - at]
                                  : STET_FIRST_WORD + 20 + 4 * p + k;
            start[p + 1] = made;
        }
        const stet_choices choices = {.n = N, .start = start, .word = alt};
        for (int complete = 0; complete < 2; complete++) {
            stet_certifier *c;
            const stet_certify_how how = {.method = "auto",
                                          .budget = i % 2 ? STET_ANY : 3,
                                          .largest = true,
                                          .complete = complete,
                                          .refine = 30};
            CHECK_OK(stet_certifier_new(m, &how, &c));
            stet_certificate out;
            CHECK_OK(stet_certify_text(c, ids, &choices, 0, &out));
            CHECK_EQ(out.verdict, complete ? STET_BROKEN : STET_UNDECIDED);
            CHECK_EQ(out.budget, 2); /* two of the three words do nothing */
            if (complete) {
                CHECK(out.n_edits >= 3);
                for (size_t k = 0, found = 0; k < out.n_edits; k++)
                    if (out.edits[k].pos >= at && out.edits[k].pos < at + 3) {
                        CHECK_EQ(out.edits[k].word, word[out.edits[k].pos - at]);
                        CHECK(++found <= 3);
                    }
            }
            stet_certificate_deinit(&out);
            stet_certifier_free(c);
        }
        stet_model_free(m);
    }
}

/* Moves the last layer's bias until the lowest margin of the text is `margin`. */
static void plant(model *m, subject *s, size_t budget, double margin)
{
    real *bias = model_value(m, model_param_id(m, "fc.bias"));
    bias[s->c.task.label] += (real)(margin - s->least);
    harness_recompile(m);
    finish_subject(m, budget, s);
    CHECK_NEAR(s->least, margin, 1e-5);
}

/* The worst of all combinations is made to change the answer by a hair: every method must leave the
 * text open and a complete search must find it. A hair on the safe side the search proves it. */
TEST(a_counter_example_by_a_hair_is_never_certified)
{
    const double hair = 1e-3;
    for (size_t kind = 0; kind < KINDS; kind++) {
        const cert_family *f = family_of(kind);
        size_t planted = 0;
        for (uint64_t i = 0; planted < 60; i++) {
            CHECK(i < 600);
            rng r = rng_stream(7, STREAM_TEST, i);
            const size_t budget = i % 2 ? STET_ANY : 1 + i % 4 / 2;
            model *m = model_of(kind, 2, kinds[kind].scale, i);
            subject s;
            random_subject(m, 2 + rng_below(&r, 5), 4, budget, &r, &s);
            plant(m, &s, budget, -hair);
            float logits[HARNESS_CLASSES];
            CHECK_OK(model_logits_of(m, s.ids, s.c.task.n, logits));
            if (stet_argmax(logits, 2) != s.c.task.label) { /* no substitution does harm */
                stet_model_free(m);
                continue;
            }
            planted++;
            size_t methods = 0;
            while (f->methods[methods])
                methods++;
            for (size_t k = 0; k < methods + 3; k++) { /* each, auto, and complete on both sides */
                const bool complete = k > methods, safe = k == methods + 2;
                if (safe)
                    plant(m, &s, budget, hair);
                const stet_certify_how how = {.method = k < methods ? f->methods[k] : "auto",
                                              .budget = budget,
                                              .complete = complete,
                                              .refine = 30};
                stet_certifier *c;
                CHECK_OK(stet_certifier_new(m, &how, &c));
                stet_certificate out;
                certify(c, &s, &out);
                CHECK_EQ(out.verdict, safe                   ? STET_CERTIFIED
                                      : complete || f->exact ? STET_BROKEN
                                                             : STET_UNDECIDED);
                if (out.verdict == STET_BROKEN)
                    check_edits(m, &s, budget, &out);
                stet_certificate_deinit(&out);
                stet_certifier_free(c);
            }
            stet_model_free(m);
        }
    }
}

/* ---- not as hoped ------------------------------------------------------------------------- */

TEST(a_model_that_gives_nan_is_an_error_or_undecided_not_a_certificate)
{
    for (size_t kind = 0; kind < KINDS; kind++) {
        for (int how_bad = 0; how_bad < 2; how_bad++) {
            model *m = model_of(kind, 2, 1, 1);
            const float bad = how_bad ? INFINITY : NAN;
            model_value(m, model_param_id(m, "fc.bias"))[0] = bad;
            m->table[10 * 5] = bad; /* and in a word */
            harness_recompile(m);
            const stet_certify_how how = STET_CERTIFY_HOW;
            stet_certifier *c = NULL;
            stet_status st = stet_certifier_new(m, &how, &c);
            const uint32_t ids[2] = {10, 11}, start[3] = {0}, none[1] = {0};
            const stet_choices choices = {
                .n = 2, .start = (uint32_t *)start, .word = (uint32_t *)none};
            stet_certificate out;
            if (st == STET_OK) {
                CHECK_OK(stet_certify_text(c, ids, &choices, 0, &out));
                CHECK_EQ(out.verdict, STET_UNDECIDED);
                CHECK_EQ(out.budget, 0);
                CHECK(strstr(out.reason, "finite"));
                stet_certificate_deinit(&out);
            } else {
                CHECK_EQ(st, STET_EFORMAT);
                CHECK(strstr(stet_last_error(), "finite"));
            }
            stet_certifier_free(c);
            stet_model_free(m);
        }
    }
}

TEST(wrong_calls_are_told_so)
{
    model *m = harness_model("cnn", cnn, 5, 2, 1, 1);
    stet_certifier *c;
    stet_certify_how how = STET_CERTIFY_HOW;
    how.method = "jiont";
    CHECK_FAILS(stet_certifier_new(m, &how, &c), STET_EUSAGE, "no method 'jiont'");
    how.method = "auto";
    how.budget = 0;
    CHECK_FAILS(stet_certifier_new(m, &how, &c), STET_EUSAGE, "budget of 0");
    how.budget = STET_ANY;
    CHECK_OK(stet_certifier_new(m, &how, &c));
    uint32_t ids[2] = {5, 6}, start[3] = {0, 1, 1}, word[1] = {100000};
    const stet_choices choices = {.n = 2, .start = start, .word = word};
    stet_certificate out;
    CHECK_FAILS(stet_certify_text(c, ids, &choices, 0, &out), STET_EUSAGE,
                "outside the vocabulary");
    word[0] = 7;
    CHECK_FAILS(stet_certify_text(c, ids, &choices, 2, &out), STET_EUSAGE, "2 classes");
    CHECK_OK(stet_certify_text(c, NULL, &(stet_choices){0}, 0, &out)); /* an empty text */
    CHECK(out.verdict == STET_WRONG || out.verdict == STET_CERTIFIED);
    stet_certificate_deinit(&out);
    stet_certifier_free(c);
    stet_model_free(m);
}

static stet_status one_text(void *model_)
{
    stet_model *m = model_;
    stet_certifier *c;
    const stet_certify_how how = {
        .method = "auto", .budget = STET_ANY, .largest = true, .complete = true, .refine = 5};
    stet_status st = stet_certifier_new(m, &how, &c);
    if (st != STET_OK)
        return model_forget(m), st;
    uint32_t ids[4] = {5, 6, 7, 8}, start[5] = {0, 3, 6, 9, 12},
             word[12] = {9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
    const stet_choices choices = {.n = 4, .start = start, .word = word};
    for (int label = 0; st == STET_OK && label < 2; label++) {
        stet_certificate out;
        st = stet_certify_text(c, ids, &choices, label, &out);
        if (st == STET_OK)
            stet_certificate_deinit(&out);
    }
    stet_certifier_free(c);
    model_forget(m); /* what it keeps is no leak */
    return st;
}

TEST(a_certifier_survives_every_failed_allocation)
{
    model *m = harness_model("cnn", cnn, 5, 2, 1.5, 3);
    model_forget(m);
    CHECK_LE(10, ALLOC_FAIL_LOOP(one_text, m));
    stet_model_free(m);
}
