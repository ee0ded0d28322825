/* Whole runs: threads, resuming, the check of successes, programs as victims, and input that is not
 * as hoped. */
#include <unistd.h>

#include "alloc_fail.h"
#include "base/file.h"
#include "base/json.h"
#include "model/small_world.h"
#include "stet/attack.h"
#include "test.h"

static stet_attack_args args_of(const world *w, const char *attack)
{
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    a.model = w->m, a.data = w->data, a.sets = &w->sets, a.attack = attack;
    return a;
}

static const char *const all[] = {"pwws", "ga", "pso", "textfooler", "greedy", "exhaustive"};

TEST(accuracy_under_attack_is_what_is_left_of_all)
{
    world w;
    make(&w, 0, 12, 2);
    for (size_t k = 0; k < 6; k++) {
        const stet_attack_args a = args_of(&w, all[k]);
        stet_attack_result r;
        CHECK_OK(stet_attack_run(&a, &r));
        CHECK_EQ(r.n, TEXTS);
        CHECK_EQ(r.correct, TEXTS - 6);
        CHECK_NEAR(r.clean, 0.9, 1e-12);
        CHECK_NEAR(r.aua, (double)(r.correct - r.succeeded) / TEXTS, 1e-12);
        CHECK(r.succeeded > 0 && r.succeeded < r.correct);
        CHECK(r.candidates_mean > 2 && r.candidates_mean < 3);
        CHECK_EQ(r.unconfirmed, 0);
    }
    unmake(&w);
}

TEST(no_attack_beats_greedy_and_exhaustive_agrees)
{
    for (int kind = 0; kind < 3; kind++) {
        world w;
        make(&w, kind, 8, 2);
        stet_attack_args a = args_of(&w, "exhaustive");
        stet_attack_result exact, greedy, r;
        CHECK_OK(stet_attack_run(&a, &exact));
        CHECK_EQ(exact.decided, exact.correct);
        a.attack = "greedy";
        CHECK_OK(stet_attack_run(&a, &greedy));
        CHECK_EQ(greedy.succeeded,
                 exact.succeeded); /* such spaces are small enough to try everything */
        for (size_t k = 0; k < 4; k++)
            for (const char *const *p = stet_attack_profiles(); *p; p++) {
                a.attack = all[k];
                a.profile = *p;
                CHECK_OK(stet_attack_run(&a, &r));
                CHECK(r.succeeded <= exact.succeeded);
                CHECK(r.succeeded <= greedy.succeeded);
            }
        unmake(&w);
    }
}

static void check_same_log(int kind)
{
    world w;
    make(&w, kind, 20, 2);
    for (size_t k = 0; k < 5; k++) {
        char one[512], two[512];
        snprintf(one, sizeof one, "%s/one-%d-%zu.jsonl", test_dir(), kind, k);
        snprintf(two, sizeof two, "%s/two-%d-%zu.jsonl", test_dir(), kind, k);
        stet_attack_args a = args_of(&w, all[k]);
        stet_attack_result r1, r2;
        stet_set_threads(1);
        a.log = one;
        CHECK_OK(stet_attack_run(&a, &r1));
        stet_set_threads(2);
        a.log = two;
        CHECK_OK(stet_attack_run(&a, &r2));
        char *whole = read_all(one), *other = read_all(two);
        CHECK_STR(whole, other);
        mem_free(other);

        /* A crash in the middle of a line. */
        CHECK_EQ(truncate(two, (off_t)(strlen(whole) * 2 / 3)), 0);
        CHECK_OK(stet_attack_run(&a, &r2));
        CHECK(r2.resumed > 0 && r2.resumed < TEXTS);
        other = read_all(two);
        CHECK_STR(whole, other);
        CHECK_EQ(r1.succeeded, r2.succeeded);
        CHECK_NEAR(r1.queries_mean, r2.queries_mean, 0);
        CHECK_NEAR(r1.changed_mean, r2.changed_mean, 0);
        CHECK_NEAR(r1.candidates_mean, r2.candidates_mean, 0);
        mem_free(whole);
        mem_free(other);
    }
    unmake(&w);
}

TEST(threads_and_resuming_change_nothing)
{
    for (int kind = 0; kind < 3; kind++)
        check_same_log(kind);
}

TEST(a_log_of_other_settings_is_refused)
{
    world w;
    make(&w, 0, 8, 2);
    char path[512];
    snprintf(path, sizeof path, "%s/a.jsonl", test_dir());
    stet_attack_args a = args_of(&w, "ga");
    a.log = path;
    stet_attack_result r;
    CHECK_OK(stet_attack_run(&a, &r));
    a.seed = 2;
    CHECK_FAILS(stet_attack_run(&a, &r), STET_EFORMAT, "other settings");
    a.attack = "pwws"; /* another attack may share the file */
    CHECK_OK(stet_attack_run(&a, &r));
    CHECK_EQ(r.resumed, 0);
    CHECK_OK(file_write_all(path, "{\"attack\": 7}\n", 14));
    CHECK_FAILS(stet_attack_run(&a, &r), STET_EFORMAT, "a.jsonl:1");
    unmake(&w);
}

TEST(stop_words_limits_and_budgets_hold)
{
    world w;
    make(&w, 0, 12, 2);
    char stop[512], log[512];
    snprintf(stop, sizeof stop, "%s/stop", test_dir());
    snprintf(log, sizeof log, "%s/log", test_dir());
    CHECK_OK(file_write_all(stop, "w1\nw2\nw3\nw4\n", 12));
    static const char *const settings[] = {"max-change=0.2", "budget=40", NULL};
    for (size_t k = 0; k < 6; k++) {
        stet_attack_args a = args_of(&w, all[k]);
        a.stop = stop;
        a.settings = settings;
        a.log = log;
        stet_attack_result r;
        CHECK_OK(stet_attack_run(&a, &r));
    }
    stream *f;
    CHECK_OK(stream_open(log, &f));
    json_t *o;
    stet_status st = STET_OK;
    size_t seen = 0;
    while (json_next_line(f, &o, &st)) {
        const json_t *changes = json_object_get(o, "changes"), *c;
        size_t i;
        const char *attack = json_string_value(json_object_get(o, "attack"));
        const double words = (double)json_integer_value(json_object_get(o, "words"));
        if (strcmp(attack, "ga") != 0 &&
            strcmp(attack, "pso") != 0) /* their mixing of texts may go over the limit */
            CHECK_LE(json_integer_value(json_object_get(o, "changed")), ceil(0.2 * words));
        CHECK(json_integer_value(json_object_get(o, "queries")) <= 41);
        json_array_foreach(changes, i, c)
        {
            const char *from = json_string_value(json_object_get(c, "from"));
            CHECK(strlen(from) != 2 || from[1] < '1' || from[1] > '4');
            seen++;
        }
        json_decref(o);
    }
    CHECK_OK(st);
    CHECK(seen > 0);
    stream_close(f);
    unmake(&w);
}

TEST(sets_of_texts_are_for_their_own_texts)
{
    world w;
    make(&w, 0, 8, 2);
    const stet_str one = stet_dataset_text(w.data, 0), two = stet_dataset_text(w.data, 3);
    char path[512], log[512], json[2048];
    snprintf(path, sizeof path, "%s/texts.json", test_dir());
    snprintf(log, sizeof log, "%s/texts.jsonl", test_dir());
    snprintf(json, sizeof json,
             "{\"%s\": {\"0\": [\"w31\", \"w32\", \"w33\", \"w34\"]}, "
             "\"%s\": {\"1\": [\"w35\", \"strange\"]}, \"not there\": {}}",
             one.data, two.data);
    CHECK_OK(file_write_all(path, json, strlen(json)));
    stet_sets sets;
    CHECK_OK(stet_sets_load(path, &sets));
    stet_attack_args a = args_of(&w, "exhaustive");
    a.sets = &sets;
    a.log = log;
    stet_attack_result r;
    CHECK_OK(stet_attack_run(&a, &r));
    CHECK_EQ(r.n, 2);
    CHECK_EQ(r.decided, 2);
    CHECK_NEAR(r.attackable_mean, 1, 1e-12);
    CHECK_NEAR(r.candidates_mean, 3, 1e-12);
    CHECK_NEAR(r.evaluations_mean, 4, 1e-12); /* the text itself, and each substitute */
    char *lines = read_all(log);
    CHECK(strstr(lines, "\"index\":0,") && strstr(lines, "\"index\":3,"));
    mem_free(lines);
    const size_t other[] = {0, 1};
    a.log = NULL;
    a.index = other, a.n_index = 2;
    CHECK_FAILS(stet_attack_run(&a, &r), STET_EUSAGE, "text 1 is not among the texts of the sets");
    stet_sets_free(&sets);
    unmake(&w);
}

TEST(a_text_over_its_time_has_no_result)
{
    world w;
    make(&w, 0, 20, 2);
    for (size_t k = 0; k < 6; k++) {
        char whole[512], late[512];
        snprintf(whole, sizeof whole, "%s/whole-%zu.jsonl", test_dir(), k);
        snprintf(late, sizeof late, "%s/late-%zu.jsonl", test_dir(), k);
        stet_attack_args a = args_of(&w, all[k]);
        stet_attack_result r1, r2;
        a.log = whole;
        CHECK_OK(stet_attack_run(&a, &r1));
        a.log = late;
        a.time_limit = 1e-9;
        CHECK_OK(stet_attack_run(&a, &r2));
        CHECK(r2.timeouts > 0); /* not all: some have nothing to ask */
        CHECK_EQ(r2.n + r2.timeouts, TEXTS);
        CHECK_EQ(r2.succeeded, 0);
        CHECK_EQ(r2.correct + r2.timeouts, r1.correct);
        a.time_limit = 1e6; /* the same log goes on with the texts that have none */
        CHECK_OK(stet_attack_run(&a, &r2));
        CHECK_EQ(r2.timeouts, 0);
        CHECK_EQ(r2.n, TEXTS);
        CHECK_EQ(r2.succeeded, r1.succeeded);
        CHECK_NEAR(r2.queries_mean, r1.queries_mean, 0);
        CHECK_NEAR(r2.evaluations_mean, r1.evaluations_mean, 0);
        CHECK_EQ(unlink(late), 0); /* and a limit that nobody meets changes nothing */
        CHECK_OK(stet_attack_run(&a, &r2));
        char *one = read_all(whole), *two = read_all(late);
        CHECK_STR(one, two);
        mem_free(one);
        mem_free(two);
    }
    unmake(&w);
}

TEST(the_built_in_stop_list_keeps_function_words)
{
    const stet_str text = {"the w1 is not w2", 16};
    stet_model *m = small_model(0, 2, 7);
    int label;
    CHECK_OK(stet_model_predict(m, text.data, text.len, NULL, &label));
    stet_dataset *d;
    CHECK_OK(stet_dataset_new(&text, &label, 1, NULL, 2, &d));
    char path[512];
    snprintf(path, sizeof path, "%s/sets.json", test_dir());
    const char *json = "{\"the\": [\"w5\"], \"is\": [\"w6\"], \"not\": [\"w7\"], "
                       "\"w1\": [\"w8\"], \"w2\": [\"w9\"]}";
    CHECK_OK(file_write_all(path, json, strlen(json)));
    stet_sets sets;
    CHECK_OK(stet_sets_load(path, &sets));
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    a.model = m, a.data = d, a.sets = &sets, a.attack = "exhaustive";
    stet_attack_result r;
    CHECK_OK(stet_attack_run(&a, &r));
    CHECK_NEAR(r.attackable_mean, 5, 0);
    a.stop = "builtin";
    CHECK_OK(stet_attack_run(&a, &r));
    CHECK_NEAR(r.attackable_mean, 2, 0);
    stet_sets_free(&sets);
    stet_dataset_free(d);
    stet_model_free(m);
}

TEST(a_page_marks_the_changes)
{
    world w;
    make(&w, 0, 8, 2);
    char path[512];
    snprintf(path, sizeof path, "%s/a.html", test_dir());
    stet_attack_args a = args_of(&w, "greedy");
    a.html = path;
    stet_attack_result r;
    CHECK_OK(stet_attack_run(&a, &r));
    char *page = read_all(path);
    CHECK(strstr(page, "<del>w") && strstr(page, "<ins>w") && strstr(page, "prefers-color-scheme"));
    mem_free(page);
    unmake(&w);
}

/* ---- programs ----------------------------------------------------------------------------- */

static stet_attack_args program_args(const world *w, const char *command)
{
    stet_attack_args a = args_of(w, "pwws");
    a.model = NULL;
    a.command = command;
    a.timeout = 0.5;
    return a;
}

TEST(a_program_can_be_the_victim)
{
    world w;
    make(&w, 0, 6, 2);
    /* Says yes to a text with w1. */
    stet_attack_args a = program_args(
        &w, "sed -u -E 's/^.\"texts\":.(.*)..$/\\1/; s/\"[^\"]*\\bw1\\b[^\"]*\"/[0.1,0.9]/g;"
            " s/\"[^\"]*\"/[0.8,0.2]/g; s/^(.*)$/{\"probabilities\":[\\1]}/'");
    a.timeout = 10;
    stet_attack_result r;
    CHECK_OK(stet_attack_run(&a, &r));
    CHECK_EQ(r.errors, 0);
    CHECK_EQ(r.n, TEXTS);
    CHECK(r.correct > 0 && r.succeeded > 0);
    unmake(&w);
}

TEST(a_program_that_fails_costs_a_clear_error)
{
    world w;
    make(&w, 0, 4, 2);
    static const struct {
        const char *command, *says;
    } bad[] = {
        {"exit 3", "ended without an answer"},
        {"exec sleep 100", "did not answer within"},
        {"cat", "expected {\"probabilities\""},
        {"while read x; do echo nonsense; done", "answer"},
        {"while read x; do echo '{\"probabilities\":[[2,2]]}'; done", "sum to 1"},
        {"while read x; do echo '{\"probabilities\":[[-1,2]]}'; done", "not a number"},
        {"while read x; do echo '{\"probabilities\":[[1]]}'; done", "expected 2 probabilities"},
        {"/no/such/program 2>/dev/null", "ended without an answer"},
        {"read x; printf '{\"probabilities\":[['; exec sleep 100", "did not answer within"},
        {"read x; printf '{\"probabilities\":[['; exit 0", "ended without an answer"},
        {"while read x; do echo '{\"probabilities\":[]}'; done", "expected"},
    };
    size_t index[8] = {0, 1, 2, 3, 4, 7, 8, 10};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        stet_attack_args a = program_args(&w, bad[k].command);
        a.timeout = 0.2;
        a.index = index;
        a.n_index = 8;
        stet_attack_result r;
        CHECK_FAILS(stet_attack_run(&a, &r), STET_EIO, bad[k].says);
        a.n_index = 2; /* it stops at the first text, whatever follows */
        CHECK_FAILS(stet_attack_run(&a, &r), STET_EIO, "no answer to the first text");
    }
    unmake(&w);
}

/* Answers five questions, then dies: the text it dies on is an error, the next one gets a new
 * process. */
TEST(a_program_that_dies_half_way_costs_one_text_at_a_time)
{
    world w;
    make(&w, 0, 4, 2);
    stet_attack_args a =
        program_args(&w, "sed -u -E 's/^.\"texts\":.(.*)..$/\\1/; "
                         "s/\"[^\"]*\\bw1\\b[^\"]*\"/[0.1,0.9]/g; s/\"[^\"]*\"/[0.8,0.2]/g; "
                         "s/^(.*)$/{\"probabilities\":[\\1]}/; 5q'");
    a.timeout = 10;
    const size_t index[] = {0, 1, 2, 3, 4};
    a.index = index, a.n_index = 5;
    stet_set_threads(1);
    stet_attack_result r;
    CHECK_OK(stet_attack_run(&a, &r));
    CHECK(r.errors > 0);
    CHECK(r.n > 0);
    CHECK_EQ(r.n + r.errors, 5);
    unmake(&w);
}

TEST(what_does_not_fit_together_is_told)
{
    world w;
    make(&w, 0, 4, 2);
    stet_attack_result r;
    stet_attack_args a = args_of(&w, "pwsw");
    CHECK_FAILS(stet_attack_run(&a, &r), STET_EUSAGE, "did you mean 'pwws'");
    a = args_of(&w, "pwws");
    a.profile = "openatack";
    CHECK_FAILS(stet_attack_run(&a, &r), STET_EUSAGE, "did you mean 'openattack'");
    a = args_of(&w, "pwws");
    static const char *const other[] = {"ga-population=3", NULL};
    a.settings = other;
    CHECK_FAILS(stet_attack_run(&a, &r), STET_EUSAGE, "no setting 'ga-population'");
    a = args_of(&w, "pwws");
    a.command = "cat";
    CHECK_FAILS(stet_attack_run(&a, &r), STET_EUSAGE, "one of a model, a command and a function");
    a = args_of(&w, "pwws");
    a.stop = "/no/such/file";
    CHECK_FAILS(stet_attack_run(&a, &r), STET_EIO, "/no/such/file");
    unmake(&w);
}

static stet_status run_small(void *ctx)
{
    const world *w = ctx;
    static const size_t index[] = {0, 1};
    stet_attack_args a = args_of(w, "greedy");
    a.index = index;
    a.n_index = 2;
    stet_attack_result r;
    return stet_attack_run(&a, &r);
}

TEST(a_run_survives_every_failed_allocation)
{
    world w;
    make(&w, 0, 4, 2);
    stet_set_threads(1);
    CHECK_OK(stet_model_compile(w.m));
    CHECK_LE(10, ALLOC_FAIL_LOOP(run_small, &w));
    unmake(&w);
}
