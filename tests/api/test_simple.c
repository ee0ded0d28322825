/* One string, one call: what the simple calls say is what the calls below them say. */
#include "alloc_fail.h"
#include "base/args.h"
#include "base/json.h"
#include "model/small_world.h"
#include "stet/sandwich.h"
#include "stet/simple.h"

static json_t *parse(const char *line)
{
    json_t *o;
    CHECK_OK(json_read_text("line", line, strlen(line), &o));
    return o;
}

TEST(a_prediction_is_that_of_the_model)
{
    world w;
    make(&w, 0, 12, 3);
    for (size_t i = 0; i < TEXTS; i++) {
        const stet_str text = stet_dataset_text(w.data, i);
        float prob[3];
        int label;
        stet_predicted *p;
        CHECK_OK(stet_model_predict(w.m, text.data, text.len, prob, &label));
        CHECK_OK(stet_text_predict(w.m, text.data, &p));
        CHECK_EQ(p->label, label);
        CHECK_EQ(p->n_classes, 3);
        CHECK(memcmp(p->prob, prob, sizeof prob) == 0);
        CHECK_STR(p->name, stet_model_class_name(w.m, (size_t)label));
        json_t *o = parse(p->json);
        CHECK_STR(json_string_value(json_object_get(o, "text")), text.data);
        CHECK_STR(json_string_value(json_object_get(o, "label")), p->name);
        json_decref(o);
        stet_result_free(p);
    }
    unmake(&w);
}

TEST(many_predictions_are_those_of_single_texts)
{
    world w;
    make(&w, 1, 12, 2);
    const char *text[TEXTS];
    float prob[TEXTS][2];
    int label[TEXTS];
    for (size_t i = 0; i < TEXTS; i++)
        text[i] = stet_dataset_text(w.data, i).data;
    CHECK_OK(stet_texts_predict(w.m, text, TEXTS, prob[0], label));
    for (size_t i = 0; i < TEXTS; i++) {
        stet_predicted *p;
        CHECK_OK(stet_text_predict(w.m, text[i], &p));
        CHECK_EQ(label[i], p->label);
        CHECK_NEAR(prob[i][1], p->prob[1], 1e-6);
        stet_result_free(p);
    }
    CHECK_OK(stet_texts_predict(w.m, NULL, 0, NULL, NULL));
    const char *odd[] = {"", "not \xff UTF-8 \xe2\x82"};
    CHECK_OK(stet_texts_predict(w.m, odd, 2, prob[0], label));
    for (size_t i = 0; i < 2; i++) {
        stet_predicted *p;
        CHECK_OK(stet_text_predict(w.m, odd[i], &p));
        CHECK_NEAR(prob[i][1], p->prob[1], 1e-6);
        stet_result_free(p);
    }
    unmake(&w);
}

/* ---- certify ------------------------------------------------------------------------------ */

typedef struct lines {
    const world *w;
    size_t n, certified;
} lines;

/* Beside every line of a run, the simple call; they differ in their times alone. */
static void compare(void *user, const char *line)
{
    lines *l = user;
    json_t *of_run = parse(line);
    const size_t i = (size_t)json_integer_value(json_object_get(of_run, "index"));
    CHECK_EQ(i, l->n++);
    stet_certify_how how = STET_CERTIFY_HOW;
    how.complete = true, how.time_limit = 0;
    stet_certified *c;
    CHECK_OK(stet_text_certify(l->w->m, &l->w->sets, stet_dataset_text(l->w->data, i).data,
                               stet_dataset_label(l->w->data, i), &how, &c));
    json_t *own = parse(c->json);
    static const char *const keys[] = {
        "verdict", "certified",       "largest_budget", "clean_margin", "margin",  "method",
        "harm",    "counter_example", "changeable",     "substitutes",  "branches"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (!json_equal(json_object_get(of_run, keys[k]), json_object_get(own, keys[k])))
            test_fail(__FILE__, __LINE__, "%s: %s\n%s", keys[k], line, c->json);
    CHECK_STR(json_string_value(json_object_get(own, "verdict")), c->verdict_name);
    CHECK_EQ(c->verdict == STET_BROKEN, c->text != NULL);
    if (c->text) { /* which is what it says */
        int answer;
        CHECK_OK(stet_model_predict(l->w->m, c->text, strlen(c->text), NULL, &answer));
        CHECK(answer != c->label);
        CHECK(c->n_swaps > 0);
    }
    l->certified += c->verdict == STET_CERTIFIED;
    json_decref(of_run);
    json_decref(own);
    stet_result_free(c);
}

TEST(a_certificate_is_that_of_a_run)
{
    for (int kind = 0; kind < 2; kind++) {
        world w;
        make(&w, kind, 8, 2);
        lines l = {.w = &w};
        stet_certify_args a = STET_CERTIFY_DEFAULTS;
        a.model = w.m, a.data = w.data, a.sets = &w.sets, a.harm = true;
        a.how.complete = true, a.how.time_limit = 0;
        a.line = compare, a.line_user = &l;
        stet_certify_result r;
        CHECK_OK(stet_certify_run(&a, &r));
        CHECK_EQ(l.n, TEXTS);
        CHECK_EQ(l.certified, r.verdicts[STET_CERTIFIED]);
        CHECK(l.certified > 0 && r.verdicts[STET_BROKEN] > 0);
        stet_certify_result_deinit(&r);
        unmake(&w);
    }
}

/* ---- attack ------------------------------------------------------------------------------- */

TEST(an_attack_is_that_of_a_run)
{
    world w;
    make(&w, 0, 12, 2);
    size_t flipped = 0;
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    stet_attack_result r;
    a.model = w.m, a.data = w.data, a.sets = &w.sets;
    CHECK_OK(stet_attack_run(&a, &r));
    for (size_t i = 0; i < TEXTS; i++) {
        stet_attacked *x;
        const char *text = stet_dataset_text(w.data, i).data;
        CHECK_OK(stet_text_attack(w.m, &w.sets, text, stet_dataset_label(w.data, i), NULL, &x));
        CHECK_EQ(x->label, stet_dataset_label(w.data, i));
        if (x->flipped) {
            int answer;
            CHECK_OK(stet_model_predict(w.m, x->text, strlen(x->text), NULL, &answer));
            CHECK_EQ(answer, x->answer);
            CHECK(answer != x->label && x->after < x->before && x->n_swaps > 0);
            for (size_t k = 0; k < x->n_swaps; k++)
                CHECK(strncmp(text + x->swaps[k].start, x->swaps[k].from,
                              x->swaps[k].end - x->swaps[k].start) == 0);
        } else {
            CHECK(!x->text && x->n_swaps == 0);
        }
        flipped += x->flipped;
        stet_result_free(x);
    }
    CHECK_EQ(flipped, r.succeeded);
    CHECK(flipped > 0);
    unmake(&w);
}

/* ---- explain ------------------------------------------------------------------------------ */

TEST(an_explanation_is_what_the_model_does_without_the_word)
{
    world w;
    make(&w, 0, 10, 2);
    stet_explained *e;
    CHECK_OK(stet_text_explain(w.m, &w.sets, "w1 w2 unheard w3", -1, &e));
    CHECK_EQ(e->n, 4);
    CHECK_STR(e->words[2].word, "unheard");
    CHECK_NEAR(e->words[2].weight, 0, 1e-6); /* it is read as unknown already */
    float with[2], without[2];
    int label;
    CHECK_OK(stet_model_predict(w.m, "w1 w2 unheard w3", 16, with, &label));
    CHECK_OK(stet_model_predict(w.m, "w1 unheard unheard w3", 21, without, NULL));
    CHECK_EQ(label, e->label);
    const double margin = log((double)with[label] / (double)with[1 - label]),
                 lower = log((double)without[label] / (double)without[1 - label]);
    CHECK_NEAR(e->margin, margin, 1e-4);
    CHECK_NEAR(e->words[1].weight, margin - lower, 1e-4);
    for (size_t i = 0; i < e->n; i++)
        if (e->words[i].worst) { /* alone, it does what is said */
            char text[64];
            snprintf(text, sizeof text, "%s %s unheard %s", i == 0 ? e->words[0].worst : "w1",
                     i == 1 ? e->words[1].worst : "w2", i == 3 ? e->words[3].worst : "w3");
            CHECK_OK(stet_model_predict(w.m, text, strlen(text), without, NULL));
            CHECK_NEAR(margin - log((double)without[label] / (double)without[1 - label]),
                       e->words[i].drop, 1e-4);
        }
    json_t *o = parse(e->json);
    CHECK_EQ(json_array_size(json_object_get(o, "words")), 4);
    json_decref(o);
    stet_result_free(e);
    unmake(&w);
}

/* ---- bad input ---------------------------------------------------------------------------- */

TEST(a_label_that_the_model_does_not_have_is_refused)
{
    world w;
    make(&w, 0, 10, 2);
    stet_certified *c;
    stet_explained *e;
    CHECK_FAILS(stet_text_certify(w.m, &w.sets, "w1", 2, NULL, &c), STET_EUSAGE, "2 classes");
    CHECK(!c);
    CHECK_FAILS(stet_text_explain(w.m, NULL, "w1", -2, &e), STET_EUSAGE, "label -2");
    CHECK(!e);
    unmake(&w);
}

static stet_status all_calls(void *ctx)
{
    const world *w = ctx;
    stet_predicted *p = NULL;
    stet_attacked *a = NULL;
    stet_certified *c = NULL;
    stet_explained *e = NULL;
    stet_status st = stet_text_predict(w->m, "w1 w2 w3", &p);
    if (st == STET_OK)
        st = stet_text_attack(w->m, &w->sets, "w1 w2 w3", -1, NULL, &a);
    if (st == STET_OK)
        st = stet_text_certify(w->m, &w->sets, "w1 w2 w3", -1, NULL, &c);
    if (st == STET_OK)
        st = stet_text_explain(w->m, &w->sets, "w1 w2 w3", -1, &e);
    CHECK(st == STET_OK || !e);
    stet_result_free(p);
    stet_result_free(a);
    stet_result_free(c);
    stet_result_free(e);
    return st;
}

TEST(no_call_survives_without_memory_or_leaks)
{
    world w;
    make(&w, 0, 10, 2);
    stet_set_threads(1);
    CHECK_OK(all_calls(&w)); /* what the model keeps is not a leak */
    CHECK_LE(100, ALLOC_FAIL_LOOP(all_calls, &w));
    unmake(&w);
}

/* ---- functions as victims ----------------------------------------------------------------- */

typedef struct host {
    const stet_model *m;
    size_t calls, texts, most, fail_at;
    stet_status with;
    const char *bad; /* a call with this text fails */
} host;

static stet_status ask_model(void *user, const char *const *texts, size_t n, size_t k, double *prob)
{
    host *h = user;
    bool fails = ++h->calls == h->fail_at;
    h->texts += n;
    h->most = n > h->most ? n : h->most;
    for (size_t i = 0; i < n; i++)
        fails |= h->bad && strcmp(texts[i], h->bad) == 0;
    if (fails) {
        stet_set_error("the host had enough");
        return h->with;
    }
    for (size_t i = 0; i < n; i++) {
        float p[8];
        CHECK_OK(stet_model_predict(h->m, texts[i], strlen(texts[i]), p, NULL));
        for (size_t c = 0; c < k; c++)
            prob[i * k + c] = (double)p[c];
    }
    return STET_OK;
}

static char *copy_of(stet_str s)
{
    char *out = calloc(s.len + 1, 1);
    CHECK(out != NULL);
    memcpy(out, s.data, s.len);
    return out;
}

static stet_attack_args args_of(const world *w, host *h)
{
    stet_attack_args a;
    stet_attack_args_init(&a, sizeof a);
    a.data = w->data, a.sets = &w->sets;
    a.victim = ask_model, a.victim_user = h;
    return a;
}

TEST(a_function_is_attacked_as_the_model_behind_it)
{
    world w;
    make(&w, 0, 12, 2);
    host h = {.m = w.m};
    stet_attack_args a = args_of(&w, &h);
    stet_attack_result of_function, of_model;
    CHECK_OK(stet_attack_run(&a, &of_function));
    a.victim = NULL, a.model = w.m;
    CHECK_OK(stet_attack_run(&a, &of_model));
    CHECK_EQ(of_function.succeeded, of_model.succeeded);
    CHECK_EQ(of_function.correct, of_model.correct);
    CHECK_NEAR(of_function.queries_mean, of_model.queries_mean, 1e-9);
    CHECK(h.texts > 2 * h.calls); /* in batches */
    unmake(&w);
}

TEST(texts_under_attack_ask_a_function_together)
{
    world w;
    make(&w, 0, 12, 2);
    host one = {.m = w.m}, many = one, small = one;
    stet_attack_args a = args_of(&w, &one);
    stet_attack_result alone, together, limited;
    stet_set_threads(1);
    CHECK_OK(stet_attack_run(&a, &alone));
    stet_set_threads(16);
    a.victim_user = &many;
    CHECK_OK(stet_attack_run(&a, &together));
    a.victim_user = &small, a.victim_batch = 10;
    CHECK_OK(stet_attack_run(&a, &limited));
    stet_set_threads(0);
    CHECK_EQ(one.texts, many.texts);
    CHECK_EQ(one.texts, small.texts);
    CHECK(8 * many.calls < one.calls);
    CHECK(many.most > 4 * one.most);
    CHECK_EQ(small.most, 10);
    CHECK_EQ(alone.succeeded, together.succeeded);
    CHECK_EQ(alone.succeeded, limited.succeeded);
    CHECK_NEAR(alone.queries_mean, together.queries_mean, 0);
    unmake(&w);
}

TEST(a_function_that_fails_costs_one_text_unless_it_ends_the_run)
{
    world w;
    make(&w, 0, 12, 2);
    char *fifth = copy_of(stet_dataset_text(w.data, 5)),
         *first = copy_of(stet_dataset_text(w.data, 0));
    host h = {.m = w.m, .bad = fifth, .with = STET_EIO};
    stet_attack_args a = args_of(&w, &h);
    stet_attack_result r;
    CHECK_OK(stet_attack_run(&a, &r));
    CHECK_EQ(r.errors, 1);
    CHECK_EQ(r.n, TEXTS - 1);
    h = (host){.m = w.m, .fail_at = 30, .with = STET_EINTR};
    CHECK_FAILS(stet_attack_run(&a, &r), STET_EINTR, "the host had enough");
    h = (host){.m = w.m, .bad = first, .with = STET_EIO};
    CHECK_FAILS(stet_attack_run(&a, &r), STET_EIO, "the host had enough");
    free(fifth);
    free(first);
    a.model = w.m;
    CHECK_FAILS(stet_attack_run(&a, &r), STET_EUSAGE, "one of a model, a command and a function");
    unmake(&w);
}

/* ---- arguments of other versions ---------------------------------------------------------- */

TEST(a_shorter_struct_keeps_the_defaults_of_what_it_lacks)
{
    stet_attack_args own = STET_ATTACK_DEFAULTS, given;
    stet_attack_args_init(&given, sizeof given);
    CHECK_EQ(given.size, sizeof given);
    CHECK_STR(given.attack, "pwws");
    given.timeout = 5;
    given.seed = 99; /* beyond what the caller's struct had */
    given.size = offsetof(stet_attack_args, seed);
    CHECK_OK(ARGS_TAKE(&own, &given));
    CHECK_EQ(own.seed, 1);
    CHECK_NEAR(own.timeout, 5, 0);
    CHECK_EQ(own.size, sizeof own);
}

TEST(a_longer_struct_may_not_say_what_is_not_known)
{
    struct {
        stet_attack_args a;
        int more;
    } newer;
    stet_attack_args own = STET_ATTACK_DEFAULTS;
    stet_attack_args_init(&newer.a, sizeof newer);
    CHECK_EQ(newer.more, 0);
    CHECK_OK(ARGS_TAKE(&own, &newer.a));
    newer.more = 1;
    CHECK_FAILS(ARGS_TAKE(&own, &newer.a), STET_EUSAGE, "does not know");
    newer.a.size = 3;
    CHECK_FAILS(ARGS_TAKE(&own, &newer.a), STET_EUSAGE, "3 bytes");
}

/* ---- sandwich ----------------------------------------------------------------------------- */

TEST(robust_accuracy_lies_between_proofs_and_attacks)
{
    world w;
    make(&w, 0, 8, 2);
    stet_certify_args a = STET_CERTIFY_DEFAULTS;
    a.model = w.m, a.data = w.data, a.sets = &w.sets;
    const char *const attacks[] = {"greedy", "exhaustive", NULL};
    stet_sandwich s;
    CHECK_OK(stet_sandwich_run(&a, attacks, 1, &s));
    CHECK_EQ(s.n_attacks, 2);
    CHECK(!s.dispute);
    CHECK_LE(s.proved.certified, s.upper);
    CHECK(s.upper < s.proved.clean);
    CHECK_NEAR(s.upper, s.attacked[1].aua, 1e-12); /* which tries everything */
    CHECK_EQ(s.survivors, s.attacked[1].correct - s.attacked[1].succeeded);
    stet_sandwich_deinit(&s);
    a.how.budget = 2;
    CHECK_FAILS(stet_sandwich_run(&a, attacks, 1, &s), STET_EUSAGE, "a budget");
    const char *const unknown[] = {"greedyy", NULL};
    a.how.budget = STET_ANY;
    CHECK_FAILS(stet_sandwich_run(&a, unknown, 1, &s), STET_EUSAGE, "greedyy");
    unmake(&w);
}

/* ---- shards ------------------------------------------------------------------------------- */

static void note_index(void *user, const char *line)
{
    lines *l = user;
    json_t *o = parse(line);
    CHECK_EQ(json_integer_value(json_object_get(o, "index")), l->n); /* in order, none twice */
    l->n++;
    json_decref(o);
}

TEST(shards_are_all_texts_once_and_in_order)
{
    world w;
    make(&w, 0, 6, 2);
    for (size_t shards = 1; shards < 9; shards += 3) {
        lines attacked = {0}, certified = {0};
        for (size_t k = 1; k <= shards; k++) {
            stet_attack_args a = STET_ATTACK_DEFAULTS;
            a.model = w.m, a.data = w.data, a.sets = &w.sets, a.shard = k, a.shards = shards;
            a.each = note_index, a.each_user = &attacked;
            stet_attack_result r;
            CHECK_OK(stet_attack_run(&a, &r));
            stet_certify_args c = STET_CERTIFY_DEFAULTS;
            c.model = w.m, c.data = w.data, c.sets = &w.sets, c.shard = k, c.shards = shards;
            c.line = note_index, c.line_user = &certified;
            stet_certify_result rc;
            CHECK_OK(stet_certify_run(&c, &rc));
            stet_certify_result_deinit(&rc);
        }
        CHECK_EQ(attacked.n, TEXTS);
        CHECK_EQ(certified.n, TEXTS);
    }
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    a.model = w.m, a.data = w.data, a.sets = &w.sets, a.shard = 3, a.shards = 2;
    stet_attack_result r;
    CHECK_FAILS(stet_attack_run(&a, &r), STET_EUSAGE, "no part 3 of 2");
    unmake(&w);
}
