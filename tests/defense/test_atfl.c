/* ATFL: the golden attack and its loss, what the attack may change, steps on small models. */
#include "defense/atfl.h"

#include "alloc_fail.h"
#include "defense_run.h"
#include "golden_net.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- the golden file ---------------------------------------------------------------------- */

typedef struct golden_attack {
    net_step s;
    atfl_state state;
    uint32_t start[32], word[64], slot[32];
    step_texts t;
} golden_attack;

static void begin(golden_attack *a, const json_t *file, double cap)
{
    const json_t *c = at_key(file, "fgpm"), *texts = at_key(c, "texts"), *y = at_key(c, "y");
    *a = (golden_attack){.state = {.cfg = {.most = 20,
                                           .rounds = json_integer_value(at_key(c, "max_iter")),
                                           .at_once = json_integer_value(at_key(c, "m")),
                                           .cap = cap,
                                           .pairing = 0.5}}};
    net_step_begin(&a->s, file);
    for (uint32_t w = 0; w < a->s.m->n_words; w++) {
        char key[16];
        snprintf(key, sizeof key, "%u", w);
        const json_t *list = json_object_get(at_key(c, "candidates"), key);
        a->start[w + 1] = a->start[w];
        for (size_t k = 0; k < json_array_size(list); k++)
            a->word[a->start[w + 1]++] = (uint32_t)json_integer_value(json_array_get(list, k));
    }
    a->state.sets = (word_sets){a->s.m->n_words, a->start, a->word};
    a->state.slot = a->slot;
    a->t = (step_texts){.mem = &a->s.mem, .n_own = json_array_size(texts)};
    for (size_t i = 0; i < a->t.n_own; i++) {
        const json_t *text = json_array_get(texts, i);
        uint32_t *ids = arena_new(&a->s.mem, uint32_t, json_array_size(text));
        for (size_t k = 0; k < json_array_size(text); k++)
            ids[k] = (uint32_t)json_integer_value(json_array_get(text, k));
        CHECK_OK(texts_add(&a->t, ids, json_array_size(text),
                           (int32_t)json_integer_value(json_array_get(y, i))));
    }
    a->s.v.n_own = a->t.n_own;
}

TEST(the_attack_is_that_of_the_golden_file)
{
    json_t *file = golden_defenses();
    static const char *const want[] = {"adversarial", "adversarial_cap_quarter"};
    for (int i = 0; i < 2; i++) {
        golden_attack a;
        uint32_t *ids[8];
        begin(&a, file, i ? 0.25 : 0.5);
        CHECK_OK(fgpm(&a.state, &a.s.v, &a.t, ids));
        const json_t *texts = at_key(at_key(file, "fgpm"), want[i]);
        for (size_t b = 0; b < a.t.n_own; b++)
            for (size_t k = 0; k < a.t.v[b].n; k++)
                CHECK_EQ(ids[b][k],
                         json_integer_value(json_array_get(json_array_get(texts, b), k)));
        CHECK_EQ(a.state.n_changed, i ? 2 : 3);
        for (size_t w = 0; w < a.s.m->n_words; w++)
            CHECK_EQ(a.slot[w], 0);
        net_step_end(&a.s);
    }
    json_decref(file);
}

TEST(the_loss_is_that_of_the_golden_file)
{
    json_t *file = golden_defenses();
    const json_t *c = at_key(file, "fgpm");
    static const char *const cases[] = {"lambda_0.5", "lambda_1"};
    for (int i = 0; i < 2; i++) {
        golden_attack a;
        net_step *s = &a.s;
        batch x;
        begin(&a, file, 0.5);
        a.state.cfg.pairing = i ? 1 : 0.5;
        CHECK_OK(defense_atfl.batch(&a.state, &s->v, &a.t));
        CHECK_EQ(a.t.n, 2 * a.t.n_own);
        CHECK_OK(texts_batch(&s->v, &a.t, &x));
        memset(s->grad, 0, sizeof s->grad);
        s->learned.n = 0;
        CHECK_OK(pass_init(&s->p, s->m, &s->t, &s->w, s->grad, &x));
        s->v.x = &x;
        s->v.logits = model_forward(s->m, &s->p);
        node *base = op_cross_entropy(&s->t, s->v.logits, x.label),
             *y = defense_atfl.loss(&a.state, &s->v, base);
        CHECK_OK(tape_backward(&s->t, y));
        CHECK_NEAR(
            base->value[0],
            (json_number_value(at_key(c, "ce_clean")) + json_number_value(at_key(c, "ce_adv"))) / 2,
            value_tolerance);
        CHECK_NEAR(a.state.pairing->value[0], json_number_value(at_key(c, "pairing")),
                   value_tolerance);
        CHECK_NEAR(y->value[0], json_number_value(at_key(at_key(c, cases[i]), "loss")),
                   value_tolerance);
        check_grad(s, at_key(at_key(c, cases[i]), "grad"));
        net_step_end(s);
    }
    json_decref(file);
}

TEST(scores_of_swaps_by_hand)
{
    const real g[] = {1, -2}, here[] = {0, 0}, one[] = {1, 1}, two[] = {0.5, -0.5};
    const real elsewhere[] = {(real)0.1, (real)0.1}, far[] = {3, 3};
    CHECK_NEAR(swap_score(here, one, g, 2), -1, 1e-6);
    CHECK_NEAR(swap_score(here, two, g, 2), 1.5, 1e-6);
    CHECK_NEAR(swap_score(here, far, elsewhere, 2), 0.6, 1e-6); /* so the second swap is made */
    CHECK_NEAR(swap_score(two, one, g, 2), -2.5, 1e-6);         /* from the word that is there now */
}

/* ---- what it may do ----------------------------------------------------------------------- */

/* The small corpus, every other text `less` words shorter, and behind it the copies that the defence
 * makes. */
static step_texts with_copies(run *x, size_t less, arena *mem)
{
    const stet_corpus c = small_corpus(2, 2);
    tape t;
    pass p = {.t = &t};
    tape_init(&t, mem, NULL, false);
    step_view v = view_of(x, &x->batches, mem);
    v.p = &p;
    step_texts texts = {.mem = mem, .n_own = TEXTS};
    for (size_t i = 0; i < TEXTS; i++)
        CHECK_OK(texts_add(&texts, c.ids + c.start[i], i % 2 ? LEN : LEN - less, c.label[i]));
    CHECK_OK(defense_atfl.batch(x->l.d[0].state, &v, &texts));
    return texts;
}

/* Words change where they can, to substitutes of the text's own word, a quarter of them at most: two of
 * nine, and two of eight. */
TEST(swaps_stay_within_the_sets_and_the_cap)
{
    size_t most[LEN + 1] = {0};
    for (int kind = 0; kind < 3; kind++)
        for (int at_once = 1; at_once <= 3; at_once += 2) {
            char setting[32];
            snprintf(setting, sizeof setting, "atfl-at-once=%d", at_once);
            run x;
            CHECK_OK(run_start(&x, kind, 2, "atfl", SETTINGS(setting), true));
            arena mem = {0};
            const step_texts texts = with_copies(&x, 1, &mem);
            const atfl_state *s = x.l.d[0].state;
            size_t all = 0;
            for (size_t i = 0; i < TEXTS; i++) {
                const step_text *was = &texts.v[i], *is = &texts.v[TEXTS + i];
                size_t changed = 0;
                CHECK(is->n == was->n && is->label == was->label);
                for (size_t k = 0; k < was->n; k++) {
                    bool found = is->ids[k] == was->ids[k];
                    changed += !found;
                    for (uint32_t j = s->sets.start[was->ids[k]];
                         j < s->sets.start[was->ids[k] + 1]; j++)
                        found |= s->sets.word[j] == is->ids[k];
                    CHECK(found);
                }
                CHECK_LE(changed, was->n / 4);
                most[was->n] = changed > most[was->n] ? changed : most[was->n];
                all += changed;
            }
            CHECK(all > 0);
            arena_deinit(&mem);
            run_end(&x);
        }
    CHECK_EQ(most[LEN - 1], 2);
    CHECK_EQ(most[LEN], 2);
}

/* Words that are multiplied once for all rounds end in the same swaps as words multiplied anew. */
TEST(swaps_do_not_depend_on_who_multiplies)
{
    size_t made = 0, changed = 0;
    for (int kind = 0; kind < 3; kind++) {
        run x;
        CHECK_OK(run_start(&x, kind, 2, "atfl",
                           SETTINGS("atfl-rounds=6", "atfl-at-once=1", "atfl-cap=1"), true));
        arena mem = {0};
        const step_texts once = with_copies(&x, 1, &mem);
        model_desc plain = *x.m->desc;
        made += plain.make != NULL;
        plain.make = NULL;
        x.m->desc = &plain;
        const step_texts anew = with_copies(&x, 1, &mem);
        for (size_t i = 0; i < TEXTS; i++) {
            const step_text *was = &once.v[i], *is = &once.v[TEXTS + i];
            CHECK_EQ(memcmp(is->ids, anew.v[TEXTS + i].ids, is->n * sizeof *is->ids), 0);
            for (size_t k = 0; k < is->n; k++)
                changed += is->ids[k] != was->ids[k];
        }
        arena_deinit(&mem);
        run_end(&x);
    }
    CHECK(made > 0 && changed > TEXTS);
}

/* With one substitute a word, every swap of a text that is still answered right is at another word;
 * and so are those of one round. */
TEST(no_swap_is_made_twice)
{
    static const char *const how[][3] = {{"atfl-rounds=3", "atfl-at-once=1", "atfl-most=1"},
                                         {"atfl-rounds=1", "atfl-at-once=3", "atfl-most=2"}};
    for (int kind = 0; kind < 3; kind++)
        for (int w = 0; w < 2; w++) {
            run x;
            CHECK_OK(run_start(&x, kind, 2, "atfl",
                               SETTINGS(how[w][0], how[w][1], how[w][2], "atfl-cap=1"), true));
            arena mem = {0};
            const step_texts texts = with_copies(&x, 0, &mem);
            const atfl_state *s = x.l.d[0].state;
            size_t right = 0;
            for (size_t i = 0; i < TEXTS; i++) {
                const step_text *was = &texts.v[i], *is = &texts.v[TEXTS + i];
                size_t changed = 0, free = 0;
                float before[2], after[2];
                CHECK_OK(model_logits_of(x.m, was->ids, LEN, before));
                CHECK_OK(model_logits_of(x.m, is->ids, LEN, after));
                for (size_t k = 0; k < LEN; k++) {
                    changed += is->ids[k] != was->ids[k];
                    free += s->sets.start[was->ids[k] + 1] > s->sets.start[was->ids[k]];
                }
                const int end_of = w ? stet_argmax(before, 2) : stet_argmax(after, 2);
                if (end_of != is->label || stet_argmax(before, 2) != is->label)
                    continue;
                right++;
                CHECK_EQ(changed, free < 3 ? free : 3);
            }
            CHECK(right > 0);
            arena_deinit(&mem);
            run_end(&x);
        }
}

TEST(swaps_raise_the_loss)
{
    for (int kind = 0; kind < 3; kind++) {
        run x, y, plain;
        CHECK_OK(run_start(&plain, kind, 2, "standard", NULL, true));
        CHECK_OK(run_start(&x, kind, 2, "atfl", SETTINGS("atfl-pairing=0"), true));
        CHECK_OK(run_start(&y, kind, 2, "atfl", SETTINGS("atfl-rounds=0"), true));
        const double loss = run_step(&plain, 0);
        CHECK(run_step(&x, 0) > loss + 1e-3);
        CHECK(metric(&x, "atfl_swapped") > 0);
        /* equal copies: the same mean, nothing to pair */
        CHECK_NEAR(run_step(&y, 0), loss, 1e-5);
        for (size_t i = 0; i < y.m->n_values; i++)
            CHECK_NEAR(plain.grad[i], y.grad[i], 1e-5);
        CHECK_NEAR(metric(&y, "atfl_pairing"), 0, 1e-9);
        run_end(&x), run_end(&y), run_end(&plain);
    }
}

TEST(it_combines_with_others_and_refuses_scores)
{
    run x;
    CHECK_OK(run_start(&x, CNN, 2, "atfl,certified,gbm", SETTINGS("ramp=0"), true));
    CHECK(isfinite(run_step(&x, 0.01)) && metric(&x, "worst") > 0);
    run_end(&x);
    CHECK_FAILS(run_start(&x, 4, 2, "atfl", NULL, true), STET_EUSAGE, "word scores");
    run_end(&x);
}

TEST(want_of_memory_is_reported_and_nothing_leaks)
{
    run x;
    CHECK_OK(run_start(&x, CNN, 2, "atfl", NULL, true));
    CHECK_LE(5, ALLOC_FAIL_LOOP(scarce_step, &((scarce_run){&x, "atfl", NULL})));
    run_end(&x);
}
