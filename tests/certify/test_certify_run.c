/* Whole runs: shares, the file and its sums, threads, interrupts, sets of unknown words. */
#include <dirent.h>
#include <stdatomic.h>
#include <unistd.h>

#include "alloc_fail.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sha256.h"
#include "exact.h"
#include "model/small_world.h"
#include "stet/attack.h"
#include "stet/verify.h"

static stet_certify_args args_of(const world *w, const char *file)
{
    stet_certify_args a = STET_CERTIFY_DEFAULTS;
    a.model = w->m, a.data = w->data, a.sets = &w->sets, a.file = file;
    a.model_name = "runs/small/";
    a.how.time_limit = 0;
    return a;
}

static const char *path_of(const char *name)
{
    static char path[4][512];
    static size_t turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", test_dir(), name);
    return p;
}

static json_t *parse(const char *line, size_t n)
{
    json_t *o;
    CHECK_OK(json_read_text("line", line, n, &o));
    return o;
}

static void check_sum(const char *line, json_t *o)
{
    char hex[SHA256_HEX];
    sha256 h;
    sha256_init(&h);
    const char *end = strstr(line, ",\"sum\":");
    for (const char *next; (next = strstr(end + 1, ",\"sum\":"));)
        end = next;
    sha256_add(&h, line, (size_t)(end - line));
    sha256_hex(&h, hex);
    CHECK_STR(json_string_value(json_object_get(o, "sum")), hex);
}

/* Every leaf has claims for all other classes, all above 0. */
static void check_claims(const json_t *claims, size_t classes)
{
    CHECK_EQ(json_array_size(claims), classes - 1);
    for (size_t i = 0; i < json_array_size(claims); i++) {
        const json_t *c = json_array_get(claims, i);
        CHECK(json_real_value(json_object_get(c, "bound")) > 0);
        CHECK(json_is_string(json_object_get(c, "method")));
        CHECK(json_is_integer(json_object_get(c, "other")));
    }
}

static size_t check_tree(const json_t *v, size_t classes)
{
    if (json_object_get(v, "at")) {
        CHECK(json_array_size(json_object_get(v, "words")) > 0);
        return check_tree(json_object_get(v, "first"), classes) +
               check_tree(json_object_get(v, "second"), classes);
    }
    if (!json_object_get(v, "over_budget"))
        check_claims(json_object_get(v, "claims"), classes);
    return 1;
}

TEST(the_file_says_what_the_result_says)
{
    for (int complete = 0; complete < 2; complete++) {
        world w;
        make(&w, 0, 8, 3);
        const char *path = path_of("c.jsonl");
        stet_certify_args a = args_of(&w, path);
        a.how.complete = complete;
        a.how.method = "loose"; /* so that there are trees */
        stet_certify_result r;
        CHECK_OK(certify_run_with(&a, &exact_family, &r));
        CHECK_EQ(r.n, TEXTS);
        CHECK_EQ(r.correct, TEXTS - 6);
        CHECK_NEAR(r.clean, 0.9, 1e-12);
        char *all = read_all(path);
        size_t count[STET_VERDICTS] = {0}, leaves = 0, line = 0;
        bool strange = false;
        for (char *p = all, *end; (end = strchr(p, '\n')); p = end + 1, line++) {
            *end = '\0';
            json_t *o = parse(p, (size_t)(end - p));
            check_sum(p, o);
            if (line == 0) {
                CHECK_STR(json_string_value(json_object_get(json_object_get(o, "note"), "model")),
                          "small");
                CHECK_EQ(json_integer_value(json_object_get(o, "texts")), TEXTS);
            } else {
                int v = 0;
                while (strcmp(stet_verdict_name((stet_verdict)v),
                              json_string_value(json_object_get(o, "verdict"))) != 0)
                    v++;
                count[v]++;
                CHECK_EQ(v, r.verdict[line - 1]);
                CHECK_EQ(json_integer_value(json_object_get(o, "text")), r.index[line - 1]);
                if (v == STET_CERTIFIED && json_object_get(o, "tree"))
                    leaves += check_tree(json_object_get(o, "tree"), 3);
                else if (v == STET_CERTIFIED)
                    check_claims(json_object_get(o, "claims"), 3);
                CHECK_EQ(v == STET_BROKEN, json_array_size(json_object_get(o, "edits")) > 0);
                strange |= strstr(p, "\"strange\"") != NULL;
            }
            json_decref(o);
        }
        CHECK_EQ(line, TEXTS + 1);
        CHECK(strange); /* a word that the vocabulary lacks is in its set, and reads as unknown */
        for (int v = 0; v < STET_VERDICTS; v++)
            CHECK_EQ(count[v], r.verdicts[v]);
        CHECK_EQ(leaves > 4, complete);
        CHECK_EQ(count[STET_BROKEN] > 0, complete);
        if (complete)
            CHECK_EQ(count[STET_UNDECIDED], 0);
        mem_free(all);
        stet_certify_result_deinit(&r);
        unmake(&w);
    }
}

TEST(threads_change_nothing)
{
    for (int complete = 0; complete < 2; complete++) {
        world w;
        make(&w, 0, 10, 2);
        const char *one = path_of("one.jsonl"), *two = path_of("two.jsonl");
        stet_certify_result r;
        stet_certify_args a = args_of(&w, one);
        a.how.complete = complete;
        a.how.largest = true;
        stet_set_threads(1);
        CHECK_OK(stet_certify_run(&a, &r));
        CHECK_EQ(r.budget_at_least[0], r.correct);
        for (size_t b = 1; b < r.n_budget; b++)
            CHECK(r.budget_at_least[b] <= r.budget_at_least[b - 1]);
        CHECK(r.budget_at_least[r.n_budget - 1] >= r.verdicts[STET_CERTIFIED]);
        stet_certify_result_deinit(&r);
        a.file = two;
        stet_set_threads(3);
        CHECK_OK(stet_certify_run(&a, &r));
        stet_certify_result_deinit(&r);
        char *x = read_all(one), *y = read_all(two);
        CHECK_STR(x, y);
        mem_free(x);
        mem_free(y);
        unmake(&w);
    }
    stet_set_threads(0);
}

static size_t files_in(const char *dir)
{
    DIR *d = opendir(dir);
    size_t n = 0;
    for (const struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* ---- going on ----------------------------------------------------------------------------- */

static void check_same_result(const stet_certify_result *x, const stet_certify_result *y)
{
    CHECK_EQ(x->n, y->n);
    CHECK(memcmp(x->verdicts, y->verdicts, sizeof x->verdicts) == 0);
    CHECK(memcmp(x->margin_bins, y->margin_bins, sizeof x->margin_bins) == 0);
    CHECK_NEAR(x->margin_lo, y->margin_lo, 0);
    CHECK_NEAR(x->margin_hi, y->margin_hi, 0);
    CHECK_NEAR(x->slack_mean, y->slack_mean, 0);
    CHECK_NEAR(x->candidates_mean, y->candidates_mean, 0);
    CHECK_NEAR(x->attackable_mean, y->attackable_mean, 0);
    CHECK_STR(x->method, y->method);
    CHECK_EQ(x->n_budget, y->n_budget);
    CHECK(memcmp(x->budget_at_least, y->budget_at_least,
                 x->n_budget * sizeof *x->budget_at_least) == 0);
    CHECK(memcmp(x->verdict, y->verdict, x->n * sizeof *x->verdict) == 0);
}

/* The lines for the caller, but for their times. */
static void collect(void *user, const char *line)
{
    const char *seconds = strstr(line, "\"seconds\":");
    buf_bytes(user, line, (size_t)(seconds - line));
    buf_str(user, strchr(seconds, ','));
}

TEST(a_file_cut_anywhere_is_continued_to_the_same_bytes)
{
    world w;
    make(&w, 0, 8, 3);
    const char *file = path_of("c.jsonl"), *part = path_of("c.jsonl.part");
    stet_certify_args a = args_of(&w, file);
    a.how.complete = a.how.largest = true;
    buf lines = {0}, again = {0};
    a.line = collect, a.line_user = &lines;
    stet_certify_result whole, r;
    CHECK_OK(stet_certify_run(&a, &whole));
    CHECK_EQ(whole.resumed, 0);
    char *all = read_all(file);
    const size_t size = strlen(all);
    a.line_user = &again;
    rng s = rng_stream(5, STREAM_TEST, 0);
    for (int turn = 0; turn < 60; turn++) {
        size_t cut = rng_below(&s, size + 1);
        for (; turn % 3 == 0 && cut < size && all[cut] != '\n'; cut++)
            ; /* right before the end of a line, or behind all */
        CHECK_EQ(unlink(file), 0);
        CHECK_OK(file_write_all(part, all, cut));
        buf_clear(&again);
        CHECK_OK(stet_certify_run(&a, &r));
        CHECK(r.resumed <= TEXTS);
        CHECK(!file_exists(part));
        char *now = read_all(file);
        CHECK_STR(now, all);
        CHECK_STR(again.data, lines.data);
        check_same_result(&whole, &r);
        mem_free(now);
        stet_certify_result_deinit(&r);
    }
    buf_deinit(&lines);
    buf_deinit(&again);
    mem_free(all);
    stet_certify_result_deinit(&whole);
    unmake(&w);
}

static void stop_at_twenty(void *user, size_t index, const stet_certified_text *t,
                           const stet_certificate *c)
{
    (void)user, (void)t, (void)c;
    if (index == 20)
        stet_interrupt();
}

TEST(a_run_that_is_stopped_goes_on)
{
    world w;
    make(&w, 0, 8, 2);
    const char *file = path_of("c.jsonl"), *part = path_of("c.jsonl.part");
    stet_certify_args a = args_of(&w, path_of("whole.jsonl"));
    stet_certify_result r;
    CHECK_OK(stet_certify_run(&a, &r));
    stet_certify_result_deinit(&r);
    char *all = read_all(a.file);
    a.file = file;
    a.each = stop_at_twenty;
    stet_status st = STET_OK;
    for (int i = 0; i < 50 && st == STET_OK; i++) { /* others may be done before this thread is told */
        st = stet_certify_run(&a, &r);
        if (st == STET_OK) {
            stet_interrupt_clear();
            stet_certify_result_deinit(&r);
            remove(file);
        }
    }
    CHECK(st == STET_EINTR && strstr(stet_last_error(), "run the same command again"));
    stet_interrupt_clear();
    CHECK(file_exists(part) && !file_exists(file));
    a.each = NULL;
    a.how.refine++; /* another run may not */
    CHECK_FAILS(stet_certify_run(&a, &r), STET_EFORMAT,
                "c.jsonl.part:1: an unfinished run with another");
    a.how.refine--;
    CHECK_OK(stet_certify_run(&a, &r));
    CHECK_LE(20, r.resumed);
    char *now = read_all(file);
    CHECK_STR(now, all);
    stet_certify_result_deinit(&r);
    now[strcspn(now, "\n") + 30] ^= 1; /* in the second line */
    CHECK_OK(file_write_all(part, now, strlen(now)));
    CHECK_FAILS(stet_certify_run(&a, &r), STET_EFORMAT, "c.jsonl.part:2: damaged");
    mem_free(now);
    mem_free(all);
    unmake(&w);
}

/* One word whose vector overflows everything. */
TEST(a_text_that_cannot_be_bounded_is_undecided_with_its_reason)
{
    world w;
    make(&w, 2, 8, 2);
    const char *file = path_of("c.jsonl");
    stet_certify_args a = args_of(&w, file);
    const uint32_t id = stet_vocab_id(stet_model_vocab(w.m), "w7", 2);
    for (size_t d = 0; d < w.m->dim; d++)
        w.m->table[id * w.m->dim + d] = 1e25f;
    model_forget(w.m);
    CHECK_OK(stet_model_save(w.m, path_of("model")));
    stet_certify_result r;
    CHECK_OK(stet_certify_run(&a, &r));
    CHECK(r.unbounded > 0 && r.unbounded < TEXTS && r.reason);
    CHECK(r.verdicts[STET_CERTIFIED] > 0);
    CHECK_LE(r.unbounded, r.verdicts[STET_UNDECIDED]);
    char *all = read_all(file);
    CHECK(strstr(all, "\"reason\":"));
    const size_t unbounded = r.unbounded;
    stet_certify_result_deinit(&r);
    char *end = all; /* and the same from the file */
    for (int i = 0; i < 40; i++)
        end = strchr(end, '\n') + 1;
    CHECK_OK(file_write_all(path_of("c.jsonl.part"), all, (size_t)(end - all)));
    CHECK_OK(stet_certify_run(&a, &r));
    CHECK_EQ(r.resumed, 39);
    CHECK_EQ(r.unbounded, unbounded);
    char *now = read_all(file);
    CHECK_STR(now, all);
    stet_verify_result v;
    CHECK_OK(stet_verify_file(file, path_of("model"), NULL, &v));
    CHECK_EQ(v.failed, 0);
    CHECK_EQ(v.undecided, r.verdicts[STET_UNDECIDED]);
    mem_free(now);
    mem_free(all);
    stet_certify_result_deinit(&r);
    unmake(&w);
}

TEST(an_interrupted_run_leaves_no_file)
{
    world w;
    make(&w, 0, 10, 2);
    const stet_certify_args a = args_of(&w, path_of("c.jsonl"));
    stet_certify_result r;
    stet_interrupt();
    CHECK_EQ(stet_certify_run(&a, &r), STET_EINTR);
    stet_interrupt_clear();
    CHECK_EQ(files_in(test_dir()), 0);
    CHECK_OK(stet_certify_run(&a, &r));
    CHECK_EQ(files_in(test_dir()), 1);
    stet_certify_result_deinit(&r);
    unmake(&w);
}

/* Certified texts stand every attack, broken ones fall to trying everything. */
static void note_line(void *user, const char *line)
{
    json_t *o = parse(line, strlen(line));
    bool *turned = user;
    turned[json_integer_value(json_object_get(o, "index"))] =
        strcmp(json_string_value(json_object_get(o, "outcome")), "success") == 0;
    json_decref(o);
}

TEST(certified_texts_stand_every_attack)
{
    for (const cert_family *const *f = cert_families; *f; f++) {
        if (!(*f)->methods)
            continue;
        int kind = 0;
        while (strcmp(small_kinds[kind].name, model_descs[f - cert_families]->name) != 0)
            kind++;
        world w;
        make(&w, kind, 7, 2);
        stet_certify_args a = args_of(&w, NULL);
        a.how.complete = true;
        stet_certify_result r;
        CHECK_OK(stet_certify_run(&a, &r));
        bool turned[TEXTS] = {0};
        stet_attack_args t = STET_ATTACK_DEFAULTS;
        t.model = w.m, t.data = w.data, t.sets = &w.sets, t.attack = "exhaustive";
        t.each = note_line, t.each_user = turned;
        stet_attack_result ar;
        CHECK_OK(stet_attack_run(&t, &ar));
        CHECK_EQ(ar.decided, ar.correct);
        for (size_t i = 0; i < TEXTS; i++)
            if (r.verdict[i] != STET_UNDECIDED)
                CHECK_EQ(turned[i], r.verdict[i] == STET_BROKEN);
        CHECK(r.undecided < 0.1 && r.broken > 0);
        stet_certify_result_deinit(&r);
        unmake(&w);
    }
}

static atomic_size_t dear_bounds; /* of all workers */
static stet_status count_dear(void *work, size_t method, int other, size_t refine, cert_bound *out)
{
    dear_bounds += method == cert_bilstm.dear;
    return cert_bilstm.bound(work, method, other, refine, out);
}

/* Where the words that a cheap bound fears change the answer, the dearest one is spared; the verdicts
 * are the same. */
TEST(a_text_that_is_broken_by_the_feared_words_is_not_bounded_further)
{
    static cert_family with, without;
    with = without = cert_bilstm;
    with.bound = without.bound = count_dear;
    without.dear = 0;
    size_t calls[2];
    world w;
    make(&w, 1, 7, 2);
    stet_certify_result r[2];
    for (int k = 0; k < 2; k++) {
        const stet_certify_args a = args_of(&w, NULL);
        dear_bounds = 0;
        CHECK_OK(certify_run_with(&a, k ? &without : &with, &r[k]));
        calls[k] = dear_bounds;
    }
    for (size_t i = 0; i < TEXTS; i++)
        CHECK_EQ(r[0].verdict[i], r[1].verdict[i]);
    CHECK(calls[0] < calls[1]);
    for (int k = 0; k < 2; k++)
        stet_certify_result_deinit(&r[k]);
    unmake(&w);
}

TEST(what_does_not_fit_together_is_refused)
{
    world w;
    make(&w, 0, 6, 2);
    stet_certify_args a = args_of(&w, path_of("no/such/folder/c.jsonl"));
    stet_certify_result r;
    CHECK_EQ(stet_certify_run(&a, &r), STET_EIO);
    const size_t twice[] = {3, 3};
    a = args_of(&w, NULL);
    a.index = twice, a.n_index = 2;
    CHECK_FAILS(stet_certify_run(&a, &r), STET_EUSAGE, "ascend");
    a = args_of(&w, NULL);
    a.sets = NULL;
    CHECK_FAILS(stet_certify_run(&a, &r), STET_EUSAGE, "substitution sets");
    a = args_of(&w, NULL);
    a.how.method = "magic";
    CHECK_FAILS(stet_certify_run(&a, &r), STET_EUSAGE, "no method 'magic'");
    unmake(&w);
}

static stet_status one_run(void *world_)
{
    const world *w = world_;
    static const size_t few[] = {1, 2, 5};
    stet_certify_args a = args_of(w, path_of("c.jsonl"));
    a.index = few, a.n_index = 3;
    a.how.complete = a.how.largest = true;
    a.how.refine = 3;
    stet_certify_result r;
    unlink(path_of("c.jsonl.part"));
    const stet_status st = stet_certify_run(&a, &r);
    if (st == STET_OK)
        stet_certify_result_deinit(&r);
    model_forget(w->m); /* what it keeps is no leak */
    return st;
}

TEST(a_run_survives_every_failed_allocation)
{
    world w;
    make(&w, 0, 5, 2);
    stet_set_threads(1);
    CHECK_LE(20, ALLOC_FAIL_LOOP(one_run, &w));
    stet_set_threads(0);
    unmake(&w);
}
