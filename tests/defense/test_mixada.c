/* Mixtures of texts: the golden step, cases by hand; texts that join a training. */
#include "defense/mixada.h"

#include "alloc_fail.h"
#include "defense_run.h"
#include "golden_net.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- the golden file ---------------------------------------------------------------------- */

TEST(mixing_features_is_the_golden_step)
{
    json_t *file = golden_defenses();
    const json_t *c = at_key(at_key(file, "mixada"), "sentmix"), *perm = at_key(c, "perm");
    net_step s;
    net_step_begin(&s, file);
    uint32_t with[8], place[8];
    for (uint32_t b = 0; b < s.x.seq.n_texts; b++)
        place[s.x.order[b]] = b;
    for (size_t b = 0; b < s.x.seq.n_texts; b++)
        with[b] = place[json_integer_value(json_array_get(perm, s.x.order[b]))];
    const double share = json_number_value(at_key(c, "lam"));
    s.v.logits = model_forward(s.m, &s.p);
    node *base = op_cross_entropy(&s.t, s.v.logits, s.x.label),
         *z = mixed_rows(&s.t, s.v.logits, s.x.seq.n_texts, share, with),
         *mixed = mixed_loss(&s.v, z, share, with), *y = op_add(&s.t, base, mixed);
    CHECK_OK(tape_backward(&s.t, y));
    for (size_t b = 0; b < s.x.seq.n_texts; b++)
        check_numbers("logits_mix", json_array_get(at_key(c, "logits_mix"), s.x.order[b]),
                      z->value + b * 2, value_tolerance);
    CHECK_NEAR(base->value[0], json_number_value(at_key(c, "loss_ori")), gradient_tolerance);
    CHECK_NEAR(mixed->value[0], json_number_value(at_key(c, "loss_mix")), gradient_tolerance);
    CHECK_NEAR(y->value[0], json_number_value(at_key(c, "loss")), gradient_tolerance);
    check_grad(&s, at_key(c, "grad"));
    net_step_end(&s);
    json_decref(file);
}

/* ---- by hand ------------------------------------------------------------------------------ */

/* Two texts of labels 0 and 1, both answered with (0.8, 0.2). */
static double by_hand(double share)
{
    arena mem = {0};
    tape t;
    pass p = {.t = &t};
    tape_init(&t, &mem, NULL, false);
    real z[4] = {(real)log(0.8), (real)log(0.2), (real)log(0.8), (real)log(0.2)};
    int32_t label[2] = {0, 1};
    const uint32_t with[2] = {1, 0};
    const batch x = {.seq = {.n_texts = 2}, .label = label};
    const step_view v = {
        .mem = &mem, .p = &p, .x = &x, .logits = tape_numbers(&t, shape2(2, 2), z)};
    const node *y = mixed_loss(&v, mixed_rows(&t, v.logits, 2, share, with), share, with);
    CHECK_OK(tape_status(&t));
    const double out = (double)y->value[0];
    arena_deinit(&mem);
    return out;
}

TEST(the_divergence_of_mixed_labels_by_hand)
{
    const double own = 0.028168, other = 0.3 * log(0.3 / 0.8) + 0.7 * log(0.7 / 0.2);
    CHECK_NEAR(by_hand(0.7), (own + other) / 2, 2e-6);
    CHECK_NEAR(by_hand(0.3), (own + other) / 2, 2e-6); /* both texts change places */
    /* a mixture that is one of the texts has that text's loss */
    CHECK_NEAR(by_hand(1), -0.5 * (log(0.8) + log(0.2)), 1e-6);
    CHECK_NEAR(by_hand(0), by_hand(1), 1e-6);
}

/* ---- steps -------------------------------------------------------------------------------- */

TEST(without_weight_it_is_plain_training_and_with_it_the_loss_has_both)
{
    for (int kind = 0; kind < 3; kind++) {
        run plain, x;
        CHECK_OK(run_start(&plain, kind, 3, "standard", NULL, false));
        CHECK_OK(run_start(&x, kind, 3, "mixada", SETTINGS("mixada-weight=0"), false));
        const double ce = run_step(&plain, 0);
        CHECK_NEAR(ce, run_step(&x, 0), 1e-5);
        for (size_t i = 0; i < x.m->n_values; i++)
            CHECK_NEAR(plain.grad[i], x.grad[i], 1e-5);
        run_end(&x);
        CHECK_OK(run_start(&x, kind, 3, "mixada", SETTINGS("mixada-weight=2"), false));
        const double loss = run_step(&x, 0.05);
        CHECK_NEAR(loss, ce + 2 * metric(&x, "mixada_mixed"), 1e-4);
        CHECK(metric(&x, "mixada_mixed") > 0.01);
        for (int i = 0; i < 60; i++)
            run_step(&x, 0.05);
        CHECK(run_step(&x, 0) < loss);
        run_end(&plain);
        run_end(&x);
    }
}

TEST(want_of_memory_is_reported_and_nothing_leaks)
{
    run x;
    CHECK_OK(run_start(&x, CNN, 2, "mixada", NULL, false));
    CHECK_LE(3, ALLOC_FAIL_LOOP(scarce_step, &((scarce_run){&x, "mixada", NULL})));
    run_end(&x);
}

/* ---- more texts --------------------------------------------------------------------------- */

/* A file of ten texts, one word each: w0 ... w9. */
static const char *ten_texts(void)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/more.tsv", test_dir());
    FILE *f = fopen(path, "w");
    CHECK(f);
    for (int i = 0; i < 10; i++)
        fprintf(f, "%d\tw%d\n", i % 2, i);
    CHECK(fclose(f) == 0);
    return path;
}

/* Which of the ten words the added texts of a step have, as bits. */
static unsigned added(run *x, uint64_t step, size_t *n)
{
    arena mem = {0};
    const stet_corpus corpus = small_corpus(2, 2), *c = &corpus;
    const uint32_t *pick = all_texts;
    step_view v = view_of(x, &x->batches, &mem);
    v.step = step;
    v.steps_per_epoch = 4;
    *n = TEXTS;
    CHECK_OK(defense_list_batch(&x->l, &v, &c, &pick, n));
    unsigned seen = 0;
    for (size_t i = TEXTS; i < *n; i++) {
        CHECK_EQ(c->start[pick[i] + 1] - c->start[pick[i]], 1);
        const char *word = stet_vocab_word(x->m->vocab, c->ids[c->start[pick[i]]]);
        const unsigned k = (unsigned)atoi(word + 1);
        CHECK_EQ(c->label[pick[i]], k % 2);
        CHECK(!(seen >> k & 1));
        seen |= 1u << k;
    }
    arena_deinit(&mem);
    return seen;
}

TEST(every_added_text_is_read_once_an_epoch)
{
    char setting[4200];
    snprintf(setting, sizeof setting, "augment-texts=%s", ten_texts());
    run x;
    CHECK_OK(run_start(&x, CNN, 2, "augment", SETTINGS(setting), false));
    unsigned first[2] = {0};
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        unsigned all = 0;
        for (uint64_t k = 0; k < 4; k++) {
            size_t n;
            const unsigned now = added(&x, 4 * epoch + k, &n);
            CHECK(n == TEXTS + 2 || n == TEXTS + 3);
            CHECK_EQ(all & now, 0);
            all |= now;
            first[epoch] = k ? first[epoch] : now;
        }
        CHECK_EQ(all, 1023);
    }
    CHECK(first[0] != first[1]); /* in another order */
    size_t n;
    CHECK_EQ(added(&x, 0, &n), first[0]); /* a resumed run repeats its steps */
    CHECK(isfinite(run_step(&x, 0.01)));
    run_end(&x);
    CHECK_FAILS(run_start(&x, CNN, 2, "augment", NULL, false), STET_EUSAGE, "--augment-texts FILE");
    run_end(&x);
    CHECK_FAILS(run_start(&x, CNN, 2, "augment", SETTINGS("augment-texts=/nowhere.tsv"), false),
                STET_EIO, "/nowhere.tsv");
    run_end(&x);
    CHECK_OK(run_start(&x, CNN, 2, "augment,mixada", SETTINGS(setting), false));
    CHECK(isfinite(run_step(&x, 0.01)));
    run_end(&x);
}
