/* An attack that asks for proofs: the same texts are flipped, by the same edits, and the log tells
 * which texts were left. */
#include "alloc_fail.h"
#include "base/file.h"
#include "base/json.h"
#include "model/small_world.h"
#include "stet/certify.h"

static stet_attack_args args_of(const world *w, const char *log)
{
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    a.model = w->m, a.data = w->data, a.sets = &w->sets, a.attack = "greedy", a.log = log;
    return a;
}

static const char *path_of(const char *name)
{
    static char path[2][512];
    static size_t turn;
    char *p = path[turn++ % 2];
    snprintf(p, sizeof path[0], "%s/%s", test_dir(), name);
    remove(p);
    return p;
}

static json_t *lines_of(const char *path)
{
    stream *f;
    json_t *all = json_array(), *o;
    stet_status st = STET_OK;
    CHECK_OK(stream_open(path, &f));
    while (json_next_line(f, &o, &st))
        if (json_object_get(o, "outcome"))
            json_array_append_new(all, o);
        else
            json_decref(o);
    CHECK_OK(st);
    stream_close(f);
    return all;
}

static const char *text_at(const json_t *line, const char *key)
{
    return json_string_value(json_object_get(line, key));
}

/* Whatever is not left is searched as before, to the byte. */
static size_t check_same(const char *without, const char *with)
{
    json_t *a = lines_of(without), *b = lines_of(with);
    size_t stopped = 0;
    CHECK_EQ(json_array_size(a), json_array_size(b));
    for (size_t i = 0; i < json_array_size(a); i++) {
        const json_t *x = json_array_get(a, i), *y = json_array_get(b, i);
        CHECK_STR(text_at(x, "outcome"), text_at(y, "outcome"));
        if (!json_object_get(y, "stopped")) {
            CHECK(json_equal(x, y));
            continue;
        }
        stopped++;
        CHECK_STR(text_at(y, "stopped"), "certified");
        CHECK_STR(text_at(y, "outcome"), "failure");
        CHECK_LE(json_integer_value(json_object_get(y, "queries")),
                 json_integer_value(json_object_get(x, "queries")));
        CHECK_LE(json_integer_value(json_object_get(y, "evaluations")),
                 json_integer_value(json_object_get(x, "evaluations")));
    }
    json_decref(a);
    json_decref(b);
    return stopped;
}

/* The other attacks ask before their search, where the settings say so. */
static void check_proofs_first(world *w)
{
    static const char *const names[] = {"pwws", "ga", "pso", "textfooler"};
    static const char *const yes[] = {"proofs=yes", NULL};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *without = path_of("all.jsonl"), *with = path_of("proofs.jsonl");
        remove(without);
        remove(with);
        stet_attack_args a = args_of(w, without);
        stet_attack_result plain, stopped;
        a.attack = names[i];
        CHECK_OK(stet_attack_run(&a, &plain));
        a.log = with;
        a.prover = stet_certify_prover;
        a.settings = yes;
        CHECK_OK(stet_attack_run(&a, &stopped));
        CHECK_EQ(stopped.succeeded, plain.succeeded);
        CHECK_EQ(stopped.proved, check_same(without, with));
    }
}

TEST(a_text_that_is_proved_is_left_and_no_verdict_changes)
{
    size_t left = 0;
    for (int kind = 0; kind < 3; kind++) {
        world w;
        make(&w, kind, 12, kind == 0 ? 3 : 2);
        const char *without = path_of("without.jsonl"), *with = path_of("with.jsonl");
        stet_attack_args a = args_of(&w, without);
        stet_attack_result plain, stopped, again;
        CHECK_OK(stet_attack_run(&a, &plain));
        CHECK_EQ(plain.proved, 0);
        a.log = with;
        a.prover = stet_certify_prover;
        CHECK_OK(stet_attack_run(&a, &stopped));
        CHECK_EQ(stopped.succeeded, plain.succeeded);
        CHECK_EQ(stopped.proved, check_same(without, with));
        left += stopped.proved;
        CHECK_OK(stet_attack_run(&a, &again)); /* from the log */
        CHECK_EQ(again.resumed, TEXTS);
        CHECK_EQ(again.proved, stopped.proved);
        static const char *const no[] = {"greedy-proofs=no", NULL};
        a.settings = no;
        a.log = NULL;
        CHECK_OK(stet_attack_run(&a, &again));
        CHECK_EQ(again.proved, 0);
        CHECK_NEAR(again.queries_mean, plain.queries_mean, 0);
        check_proofs_first(&w);
        unmake(&w);
    }
    CHECK_LE(10, left);
}

TEST(a_proof_is_of_the_words_that_may_change)
{
    world w;
    make(&w, 0, 12, 2);
    char stop[512], words[256] = "";
    snprintf(stop, sizeof stop, "%s/stop", test_dir());
    for (int i = 0; i < 20; i++)
        snprintf(words + strlen(words), sizeof words - strlen(words), "w%d\n", i);
    CHECK_OK(file_write_all(stop, words, strlen(words)));
    stet_attack_args a = args_of(&w, NULL);
    stet_attack_result all, some;
    a.prover = stet_certify_prover;
    CHECK_OK(stet_attack_run(&a, &all));
    a.stop = stop;
    const char *without = path_of("some.jsonl"), *with = path_of("some-proved.jsonl");
    a.log = with;
    CHECK_OK(stet_attack_run(&a, &some));
    CHECK(some.proved > all.proved);
    a.log = without;
    a.prover = NULL;
    CHECK_OK(stet_attack_run(&a, &some));
    check_same(without, with);
    unmake(&w);
}

/* ---- a prover that says what it is told --------------------------------------------------- */

typedef struct scripted {
    stet_prover face;
    size_t asked[2]; /* without and with effort */
    bool cheap, hard;
} scripted;
static scripted script;

static stet_status say(stet_prover *p, size_t worker, const uint32_t *ids,
                       const stet_choices *choices, int label, bool hard, bool *out)
{
    (void)worker, (void)ids, (void)label;
    scripted *s = (scripted *)p;
    CHECK(choices->words != NULL);
    s->asked[hard]++;
    *out = hard ? s->hard : s->cheap;
    return STET_OK;
}

static void say_no_more(stet_prover *p)
{
    (void)p;
}

static stet_status make_script(const stet_model *m, stet_prover **out)
{
    (void)m;
    script.face = (stet_prover){.proved = say, .free = say_no_more};
    *out = &script.face;
    return STET_OK;
}

static stet_status no_proofs(const stet_model *m, stet_prover **out)
{
    (void)m;
    *out = NULL;
    return STET_ENOTSUP;
}

TEST(the_cheap_proof_is_asked_first_and_the_other_once)
{
    world w;
    make(&w, 0, 12, 2);
    stet_set_threads(1); /* the script counts */
    stet_attack_args a = args_of(&w, NULL);
    stet_attack_result plain, r;
    CHECK_OK(stet_attack_run(&a, &plain));
    a.prover = make_script;
    script = (scripted){.cheap = false};
    CHECK_OK(stet_attack_run(&a, &r));
    CHECK_EQ(r.succeeded, plain.succeeded);
    CHECK_NEAR(r.queries_mean, plain.queries_mean, 0);
    CHECK(script.asked[1] > 0 && script.asked[1] < script.asked[0]);
    script = (scripted){.cheap = true};
    CHECK_OK(stet_attack_run(&a, &r));
    CHECK_EQ(r.succeeded, 0);
    CHECK_EQ(r.proved, script.asked[0]);
    CHECK_EQ(script.asked[1], 0);
    CHECK_NEAR(r.queries_mean, 1, 0); /* the text itself */
    script = (scripted){.hard = true};
    CHECK_OK(stet_attack_run(&a, &r));
    CHECK_EQ(r.proved, script.asked[1]);
    CHECK(r.succeeded > 0); /* by the first sweep, before anybody is asked */
    a.attack = "pwws"; /* counts queries as its framework does: asks nobody */
    script = (scripted){.cheap = true};
    CHECK_OK(stet_attack_run(&a, &r));
    CHECK_EQ(script.asked[0] + r.proved, 0);
    static const char *const yes[] = {"proofs=yes", NULL};
    a.settings = yes; /* unless it is told to: then before the search, and never again */
    CHECK_OK(stet_attack_run(&a, &r));
    CHECK(r.proved > 0);
    CHECK_EQ(r.proved, script.asked[0]);
    CHECK_EQ(r.succeeded + script.asked[1], 0);
    CHECK_LE(r.queries_mean, 1);
    a.settings = NULL;
    a.attack = "greedy";
    a.prover = no_proofs; /* a model without certificates is attacked as before */
    CHECK_OK(stet_attack_run(&a, &r));
    CHECK_EQ(r.succeeded, plain.succeeded);
    stet_set_threads(0);
    unmake(&w);
}

static stet_status run_small(void *ctx)
{
    stet_attack_args a = args_of(ctx, NULL);
    const size_t few[] = {0, 1};
    a.index = few, a.n_index = 2;
    a.prover = stet_certify_prover;
    stet_attack_result r;
    return stet_attack_run(&a, &r);
}

TEST(a_prover_survives_every_failed_allocation)
{
    world w;
    make(&w, 0, 3, 2);
    stet_set_threads(1);
    CHECK_OK(run_small(&w)); /* what the model keeps is made once */
    CHECK_LE(20, ALLOC_FAIL_LOOP(run_small, &w));
    stet_set_threads(0);
    unmake(&w);
}
