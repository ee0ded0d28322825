/* Files of models that answer by votes: what the certifier writes stands, and what does not follow
 * from its counts is noticed. */
#include "../redteam/forged.h"
#include "train/small_run.h"

#include <unistd.h>

#include "base/buf.h"
#include "bound/hulls.h"
#include "defense/votes.h"
#include "model/model_impl.h"
#include "stet/certify.h"
#include "verify/ver_votes.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- shares ------------------------------------------------------------------------------- */

TEST(the_checker_s_own_bounds_of_a_share_are_clopper_and_pearson_s)
{
    static const struct {
        uint64_t k, n;
        double error, lower, upper;
    } table[] = {{100, 100, 0.05, 0.970487, 1},          {100, 100, 0.001, 0.933254, 1},
                 {99, 100, 0.05, 0.953440, 0.999487},    {95, 100, 0.05, 0.897747, 0.980094},
                 {60, 100, 0.05, 0.512976, 0.682474},    {10, 10, 0.05, 0.741134, 1},
                 {9, 10, 0.05, 0.605837, 0.994884},      {0, 10, 0.05, 0, 0.258866},
                 {500, 1000, 0.05, 0.473518, 0.526482},  {990, 1000, 0.01, 0.979957, 0.995860},
                 {950, 1000, 0.001, 0.925047, 0.968756}, {4900, 5000, 0.05, 0.976427, 0.983147},
                 {5000, 5000, 0.05, 0.999401, 1}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        CHECK_NEAR(ver_share_lower(table[i].k, table[i].n, table[i].error), table[i].lower, 1e-6);
        CHECK_NEAR(ver_share_upper(table[i].k, table[i].n, table[i].error), table[i].upper, 1e-6);
    }
    rng r = rng_stream(1, STREAM_TEST, 0); /* two codes, one number */
    for (int i = 0; i < 300; i++) {
        const uint64_t n = 1 + rng_below(&r, i % 10 ? 6000 : 10000000), k = rng_below(&r, n + 1);
        const double error = pow(10, -9 * rng_double(&r)) / 2;
        CHECK_NEAR(ver_share_lower(k, n, error), share_lower(k, n, error), 1e-10);
        CHECK_NEAR(ver_share_upper(k, n, error), share_upper(k, n, error), 1e-10);
    }
}

/* ---- one line at a time ------------------------------------------------------------------- */

enum { WORDS = 30, MOST_CLASSES = 4 };

/* A model without a network: words w0 .. w29 and a rule of this folder. */
static stet_status load_rule(const char *how, ver_model *m)
{
    json_t *o;
    CHECK_OK(json_read_text("rule", how, strlen(how), &o));
    const stet_status st = ver_votes_load(o, test_dir(), m);
    json_decref(o);
    return st;
}

static void voting_model(const char *how, size_t classes, ver_model *m)
{
    char name[8];
    *m = (ver_model){.classes = classes, .max_len = 100, .n_words = WORDS + 2};
    CHECK_OK(ver_reader_find("word", &m->reads));
    CHECK_OK(strmap_add(&m->vocab, "<pad>", 5, NULL));
    CHECK_OK(strmap_add(&m->vocab, "<unk>", 5, NULL));
    for (int i = 0; i < WORDS; i++) {
        snprintf(name, sizeof name, "w%d", i);
        CHECK_OK(strmap_add(&m->vocab, name, strlen(name), NULL));
    }
    CHECK_OK(load_rule(how, m));
}

TEST(settings_that_the_program_refuses_are_refused)
{
    static const char *const bad[][2] = {
        {"{\"name\":\"ranmask\",\"settings\":{\"ranmask-rate\":0.5,\"ranmask-draws\":9,"
         "\"ranmask-error\":0.05,\"ranmask-kept\":1}}",
         "config.json: rule: unknown key \"ranmask-kept\""},
        {"{\"name\":\"ranmask\",\"settings\":{\"ranmask-rate\":1.5,\"ranmask-draws\":9,"
         "\"ranmask-error\":0.05}}",
         "\"ranmask-rate\" is not between 0 and 1"},
        {"{\"name\":\"ranmask\",\"settings\":{\"ranmask-rate\":0.5,\"ranmask-draws\":9,"
         "\"ranmask-error\":0.6}}",
         "not a chance up to 0.5"},
        {"{\"name\":\"safer\",\"settings\":{\"safer-draws\":9,\"safer-error\":0.3}}",
         "not a chance up to 0.25"},
        {"{\"name\":\"ranmask\",\"twice\":true,\"settings\":{}}", "unknown key \"twice\""},
        {"{\"name\":\"ranmask\"}", "config.json: rule: expected an object"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ver_model m = {.classes = 2};
        CHECK_FAILS(load_rule(bad[i][0], &m), STET_EFORMAT, bad[i][1]);
        ver_model_deinit(&m);
    }
}

/* What a text says of itself; of n words the first `free` have the next word as a substitute. */
typedef struct told {
    size_t n, free, radius, budget; /* budget SIZE_MAX: null */
    const char *verdict, *own;      /* the rule's own part of "votes" */
    double confidence;
    uint64_t count[MOST_CLASSES], draws;
} told;

static stet_status check_told(const ver_model *m, const told *t, size_t needed)
{
    buf b = {0};
    buf_printf(&b,
               "{\"text\":0,\"label\":1,\"answer\":1,\"verdict\":\"%s\",\"budget\":", t->verdict);
    if (t->budget == SIZE_MAX)
        buf_str(&b, "null,\"clean\":1,\"words\":[");
    else
        buf_printf(&b, "%zu,\"clean\":1,\"words\":[", t->budget);
    for (size_t i = 0; i < t->n; i++)
        buf_printf(&b, "%s\"w%zu\"", i ? "," : "", i);
    buf_str(&b, "],\"sets\":{");
    for (size_t i = 0; i < t->free; i++)
        buf_printf(&b, "%s\"%zu\":[\"w%zu\"]", i ? "," : "", i, i + 1);
    buf_str(&b, "},\"votes\":{\"counts\":[");
    for (size_t k = 0; k < m->classes; k++)
        buf_printf(&b, "%s%llu", k ? "," : "", (unsigned long long)t->count[k]);
    buf_printf(&b,
               "],\"draws\":%llu,\"error\":0.05,\"confidence\":%.17g,\"changeable\":%zu,"
               "\"radius\":%zu%s}}",
               (unsigned long long)t->draws, t->confidence, t->free, t->radius, t->own);
    json_t *o;
    arena mem = {0};
    ver_line l;
    ver_work w = {.m = m};
    stet_verify_result r = {0};
    CHECK_OK(json_read_text("line", b.data, b.n, &o));
    stet_status st = ver_line_read(m, o, &mem, &l);
    if (st == STET_OK)
        st = ver_line_check(&w, &l, needed, &mem, &r);
    json_decref(o);
    arena_deinit(&mem);
    buf_deinit(&b);
    return st;
}

/* All votes but some are for class 1. */
static void draw_counts(rng *r, size_t classes, told *t)
{
    uint64_t left = rng_below(r, 2) ? rng_below(r, 40) : rng_below(r, t->draws);
    memset(t->count, 0, sizeof t->count);
    t->count[1] = t->draws - left;
    for (size_t k = 0; left && k < classes; k++)
        if (k != 1) {
            const uint64_t n =
                k == (classes == 2 ? 0 : classes - 1) ? left : rng_below(r, left + 1);
            t->count[k] = n;
            left -= n;
        }
}

/* The radius that the certifier finds stands, and the next one does not; SIZE_MAX: none does. */
static void expect_radius(const ver_model *m, told *t, size_t radius)
{
    for (size_t budget = 1; budget <= t->free; budget++) { /* asked */
        const size_t R = radius == SIZE_MAX ? 0 : radius;
        t->radius = R;
        t->verdict = R >= budget ? "likely" : "undecided";
        t->budget = R;
        if (radius == SIZE_MAX) {
            CHECK_FAILS(check_told(m, t, budget), STET_EFORMAT, "do not support it");
            continue;
        }
        CHECK_OK(check_told(m, t, budget));
        t->verdict = R >= budget ? "undecided" : "likely";
        CHECK_FAILS(check_told(m, t, budget), STET_EFORMAT, "\"verdict\": from the radius follows");
        t->verdict = R >= budget ? "likely" : "undecided";
        t->budget++;
        CHECK_FAILS(check_told(m, t, budget), STET_EFORMAT, "\"budget\": from the radius follows");
        if (R < t->free) {
            t->radius = t->budget = R + 1;
            t->verdict = R + 1 >= budget ? "likely" : "undecided";
            CHECK_FAILS(check_told(m, t, budget), STET_EFORMAT, "do not support it");
        }
    }
}

TEST(the_radius_of_masked_votes_is_the_certifier_s)
{
    rng r = rng_stream(2, STREAM_TEST, 0);
    size_t some = 0;
    for (int trial = 0; trial < 300; trial++) {
        const double rate = (double)rng_below(&r, 11) / 10;
        const size_t classes = 2 + rng_below(&r, 3);
        char how[256], own[64];
        snprintf(how, sizeof how,
                 "{\"name\":\"ranmask\",\"settings\":{\"ranmask-rate\":%.17g,\"ranmask-votes\":9,"
                 "\"ranmask-draws\":2000,\"ranmask-error\":0.05}}",
                 rate);
        ver_model m;
        voting_model(how, classes, &m);
        told t = {.n = 1 + rng_below(&r, 29), .draws = 2000, .confidence = 0.95, .own = own};
        t.free = t.n;
        draw_counts(&r, classes, &t);
        const size_t masked = masked_words(t.n, rate);
        snprintf(own, sizeof own, ",\"words\":%zu,\"masked\":%zu", t.n, masked);
        const size_t radius =
            masked_radius(t.n, t.n - masked, share_lower(t.count[1], t.draws, 0.05));
        some += radius != SIZE_MAX && radius > 0;
        expect_radius(&m, &t, radius);
        t.radius = t.budget = 0, t.verdict = "undecided";
        t.confidence = 0.96;
        CHECK_FAILS(check_told(&m, &t, 1), STET_EFORMAT, "\"confidence\" is 0.96");
        t.confidence = 0.95;
        snprintf(own, sizeof own, ",\"words\":%zu,\"masked\":%zu", t.n, masked + 1);
        CHECK_FAILS(check_told(&m, &t, 1), STET_EFORMAT, "\"words\" or \"masked\": expected");
        snprintf(own, sizeof own, ",\"words\":%zu,\"masked\":%zu", t.n + 1, masked);
        CHECK_FAILS(check_told(&m, &t, 1), STET_EFORMAT, "\"words\" or \"masked\": expected");
        t.count[1]++;
        CHECK_FAILS(check_told(&m, &t, 1), STET_EFORMAT, "\"counts\"");
        ver_model_deinit(&m);
    }
    CHECK_LE(50, some);
}

/* Lists in which a word and the next one share most words. */
static stet_subst *draw_lists(rng *r)
{
    stet_subst_builder *b;
    stet_subst *s;
    char path[300];
    CHECK_OK(stet_subst_builder_new(&b));
    for (int i = 0; i < WORDS; i++) {
        char word[8], other[8];
        const size_t span = 9 + rng_below(r, 3);
        snprintf(word, sizeof word, "w%d", i);
        for (int k = 0; k < WORDS; k++)
            if (k != i && (size_t)abs(k - i) <= span) {
                snprintf(other, sizeof other, "w%d", k);
                CHECK_OK(stet_subst_add_list(b, word, (const char *const[]){other}, 1));
            }
    }
    CHECK_OK(stet_subst_build(b, &s));
    stet_subst_builder_free(b);
    snprintf(path, sizeof path, "%s/safer.subst", test_dir());
    CHECK_OK(stet_subst_save(s, path));
    return s;
}

/* The same lists by numbers, as the certifier has them. */
static void bind_lists(const ver_model *m, const stet_subst *s, word_sets *out)
{
    *out = (word_sets){m->n_words, mem_zalloc(m->n_words + 1, sizeof *out->start),
                       mem_zalloc((size_t)WORDS * WORDS, sizeof *out->word)};
    CHECK(out->start && out->word);
    for (uint32_t w = 0; w < m->n_words; w++) {
        const char *word = strmap_text(&m->vocab, w);
        const uint32_t key = stet_subst_word_id(s, word, strlen(word));
        size_t n = 0;
        const uint32_t *list = key == UINT32_MAX ? NULL : stet_subst_of(s, key, &n);
        out->start[w + 1] = out->start[w];
        for (size_t k = 0; k < n; k++) {
            const char *other = stet_subst_word(s, list[k]);
            out->word[out->start[w + 1]++] = strmap_find(&m->vocab, other, strlen(other));
        }
    }
}

TEST(the_radius_of_swapped_votes_is_the_certifier_s)
{
    rng r = rng_stream(3, STREAM_TEST, 0);
    size_t some = 0;
    for (int trial = 0; trial < 200; trial++) {
        const size_t classes = 2 + rng_below(&r, 3);
        stet_subst *lists = draw_lists(&r);
        ver_model m;
        word_sets sets;
        voting_model("{\"name\":\"safer\",\"settings\":{\"safer-most\":100,\"safer-votes\":9,"
                     "\"safer-draws\":2000,\"safer-error\":0.05}}",
                     classes, &m);
        bind_lists(&m, lists, &sets);
        buf own = {0};
        told t = {.n = 2 + rng_below(&r, 20), .draws = 2000};
        t.free = 1 + rng_below(&r, t.n < 8 ? t.n : 8);
        t.confidence = classes > 2 ? 0.9 : 0.95;
        draw_counts(&r, classes, &t);
        double q[8];
        for (uint32_t i = 0; i < t.free; i++) {
            q[i] = draws_shared(&sets, 2 + i, 3 + i);
            buf_printf(&own, "%s%.17g", i ? "," : ",\"shared\":[", q[i]);
        }
        buf_char(&own, ']');
        t.own = own.data;
        size_t radius = SIZE_MAX, R = 0;
        for (; R <= t.free; R++) {
            const vote_bounds b =
                votes_bound(t.count, classes, 1, 0.05, swapped_chance(q, t.free, R));
            if (!b.holds)
                break;
            radius = R;
        }
        some += radius != SIZE_MAX && radius > 0 && radius < t.free;
        expect_radius(&m, &t, radius);
        t.own = ",\"shared\":[]";
        CHECK_FAILS(check_told(&m, &t, 1), STET_EFORMAT, "\"shared\": expected");
        t.confidence = classes > 2 ? 0.95 : 0.9;
        CHECK_FAILS(check_told(&m, &t, 1), STET_EFORMAT, "\"confidence\"");
        buf_deinit(&own);
        word_sets_deinit(&sets);
        ver_model_deinit(&m);
        stet_subst_free(lists);
    }
    CHECK_LE(20, some);
}

/* ---- lists -------------------------------------------------------------------------------- */

TEST(lists_that_are_damaged_are_refused)
{
    rng r = rng_stream(4, STREAM_TEST, 0);
    stet_subst *s = draw_lists(&r);
    char path[300], digest[65], *all;
    size_t size;
    snprintf(path, sizeof path, "%s/safer.subst", test_dir());
    stet_sets_sha256(&(stet_sets){.words = s}, digest);
    CHECK_OK(file_read_all(path, 1 << 20, &all, &size));
    ver_model m;
    ver_lists l;
    voting_model("{\"name\":\"safer\",\"settings\":{\"safer-draws\":10,\"safer-error\":0.05}}", 2,
                 &m);
    CHECK_STR(m.votes->lists.sha256, digest);
    for (size_t cut = 0; cut < size; cut += 1 + size / 50) {
        CHECK_OK(file_write_all(path, all, cut));
        CHECK_FAILS(ver_lists_load(path, &m.vocab, &m.mem, &l), STET_EFORMAT, "safer.subst: ");
    }
    for (int trial = 0; trial < 400;
         trial++) { /* refused, or other lists: but in the unused head */
        const size_t at = rng_below(&r, size);
        const char was = all[at];
        all[at] = (char)(was ^ 1 << rng_below(&r, 8));
        CHECK_OK(file_write_all(path, all, size));
        if (ver_lists_load(path, &m.vocab, &m.mem, &l) == STET_OK)
            CHECK(strcmp(l.sha256, digest) != 0 || (at >= 12 && at < 24) || (at >= 48 && at < 64));
        all[at] = was;
    }
    /* the first list: its own word, no word, one word twice; a word that no text has */
    char *first = all + 64 + 8 * (WORDS + 1), was[4], *text = first + 4 * stet_subst_pairs(s);
    const uint32_t bad[] = {0, WORDS, (unsigned char)first[4]};
    memcpy(was, first, 4);
    for (size_t i = 0; i < 3; i++) {
        first[0] = (char)bad[i];
        CHECK_OK(file_write_all(path, all, size));
        CHECK_FAILS(ver_lists_load(path, &m.vocab, &m.mem, &l), STET_EFORMAT, "list 0 holds");
    }
    memcpy(first, was, 4);
    text[4] = '0'; /* w0, w1, ...: the second word is the first once more */
    CHECK_OK(file_write_all(path, all, size));
    CHECK_FAILS(ver_lists_load(path, &m.vocab, &m.mem, &l), STET_EFORMAT, "word 1 is out of order");
    text[4] = '1', text[0] = 'v';
    CHECK_OK(file_write_all(path, all, size));
    CHECK_FAILS(ver_lists_load(path, &m.vocab, &m.mem, &l), STET_EFORMAT, "not in the vocabulary");
    mem_free(all);
    ver_model_deinit(&m);
    stet_subst_free(s);
}

/* ---- whole files -------------------------------------------------------------------------- */

enum { TEXTS = 8 };

typedef struct world {
    stet_model *m;
    stet_dataset *data;
    stet_sets sets;
    const char *dir;
    stet_certify_args a;
    size_t index[TEXTS];
} world;

static void make(world *w, const char *defense, const char *const *settings)
{
    static char dir[256], sets[256], file[256];
    stet_train_result t;
    snprintf(dir, sizeof dir, "%s", at(defense));
    snprintf(sets, sizeof sets, "%s", at("sets"));
    snprintf(file, sizeof file, "%s", at("cert.jsonl"));
    stet_train_args a = small_run("cnn", dir);
    write_sets(sets);
    a.synonyms = sets;
    a.defense = defense;
    a.defense_settings = settings;
    CHECK_OK(stet_train(&a, &t));
    *w = (world){.dir = dir, .a = STET_CERTIFY_DEFAULTS};
    CHECK_OK(stet_model_load(dir, &w->m));
    CHECK_OK(stet_dataset_load(a.data, &a.format, &w->data));
    CHECK_OK(stet_sets_load(sets, &w->sets));
    for (size_t i = 0; i < TEXTS; i++)
        w->index[i] = i;
    w->a.model = w->m, w->a.data = w->data, w->a.sets = &w->sets, w->a.file = file;
    w->a.index = w->index, w->a.n_index = TEXTS, w->a.how.budget = 1;
}

static void unmake(world *w)
{
    stet_sets_free(&w->sets);
    stet_dataset_free(w->data);
    stet_model_free(w->m);
}

typedef struct failures {
    size_t n, line;
    char why[256];
} failures;

static void note(void *user, size_t line, const char *why)
{
    failures *f = user;
    f->n++;
    f->line = line;
    snprintf(f->why, sizeof f->why, "%s", why);
}

static stet_verify_result verified(const world *w, failures *f)
{
    stet_verify_result r;
    *f = (failures){0};
    const stet_verify_options how = {.failed = note, .user = f};
    CHECK_OK(stet_verify_against(w->a.file, w->dir, w->data, &w->sets, &how, &r));
    CHECK_EQ(r.failed, f->n);
    return r;
}

static void put_at(json_t *o, const char *part, const char *key, json_t *v)
{
    json_object_set_new(part ? json_object_get(o, part) : o, key, v);
}

/* One key of line `at` has another value, and the sums fit. */
static void expect_refused(const world *w, size_t at, const char *part, const char *key, json_t *v,
                           const char *why)
{
    lines l;
    failures f;
    char *all;
    size_t size;
    CHECK_OK(file_read_all(w->a.file, 1 << 24, &all, &size));
    lines_read(w->a.file, &l);
    put_at(l.line[at], part, key, v);
    lines_write(w->a.file, &l);
    verified(w, &f);
    if (f.n != 1 || f.line != at + 1 || !strstr(f.why, why))
        test_fail(__FILE__, __LINE__, "%s: %zu lines, %zu: %s", key, f.n, f.line, f.why);
    for (size_t i = 0; i < l.n; i++)
        json_decref(l.line[i]);
    CHECK_OK(file_write_all(w->a.file, all, size));
    mem_free(all);
}

static size_t likely_line(const world *w)
{
    lines l;
    size_t at = 0;
    lines_read(w->a.file, &l);
    for (size_t i = 1; i < l.n; i++)
        if (strcmp(json_string_value(json_object_get(l.line[i], "verdict")), "likely") == 0)
            at = i;
    for (size_t i = 0; i < l.n; i++)
        json_decref(l.line[i]);
    CHECK(at);
    return at;
}

static void expect_file(world *w)
{
    failures f;
    stet_certify_result c, again;
    CHECK_OK(stet_certify_run(&w->a, &c));
    stet_verify_result r = verified(w, &f);
    if (f.n)
        test_fail(__FILE__, __LINE__, "line %zu: %s", f.line, f.why);
    CHECK(r.likely > 0 && r.likely == c.verdicts[STET_LIKELY] && r.texts == TEXTS);
    CHECK(r.certified == 0 && r.broken == 0 && r.claims == 0);
    CHECK(r.confidence == 0.95 && c.confidence == 0.95);
    CHECK_EQ(r.likely + r.undecided + r.wrong, TEXTS);
    /* a part of it is gone on with */
    char *all, *now, part[300];
    size_t size, n;
    snprintf(part, sizeof part, "%s.part", w->a.file);
    CHECK_OK(file_read_all(w->a.file, 1 << 24, &all, &size));
    for (size_t turn = 0; turn < 8; turn++) {
        const size_t cut = size * turn / 7;
        CHECK_EQ(unlink(w->a.file), 0);
        CHECK_OK(file_write_all(part, all, cut));
        CHECK_OK(stet_certify_run(&w->a, &again));
        CHECK(cut < size / 2 || again.resumed > 0);
        CHECK(again.likely == c.likely && again.confidence == c.confidence);
        CHECK(memcmp(again.verdict, c.verdict, c.n * sizeof *c.verdict) == 0);
        stet_certify_result_deinit(&again);
        CHECK_OK(file_read_all(w->a.file, 1 << 24, &now, &n));
        CHECK_STR(now, all);
        mem_free(now);
    }
    mem_free(all);
    stet_certify_result_deinit(&c);
}

/* What every rule's file is refused for. */
static void expect_forgeries_refused(world *w)
{
    const size_t k = likely_line(w);
    expect_refused(w, k, NULL, "verdict", json_string("certified"), "in a statistical file");
    expect_refused(w, k, NULL, "verdict", json_string("broken"), "in a statistical file");
    expect_refused(w, k, NULL, "verdict", json_string("undecided"), "follows \"likely\"");
    expect_refused(w, k, NULL, "claims", json_array(), "unknown key \"claims\"");
    expect_refused(w, k, NULL, "answer", json_integer(7), "\"answer\"");
    expect_refused(w, k, NULL, "clean", json_real(-3), "does not fit the verdict");
    expect_refused(w, k, NULL, "votes", json_null(), "");
    expect_refused(w, k, "votes", "counts", json_pack("[i, i]", 2000, 2000), "sum to 4000");
    expect_refused(w, k, "votes", "counts", json_pack("[i, i]", 1000, 1000), "do not support");
    expect_refused(w, k, "votes", "counts", json_pack("[i]", 2000), "expected 2 numbers");
    expect_refused(w, k, "votes", "counts", json_pack("[i, i]", -1, 2001), "expected 0 to");
    expect_refused(w, k, "votes", "draws", json_integer(4000), "\"draws\" is 4000");
    expect_refused(w, k, "votes", "error", json_real(0.01), "\"error\" is 0.01");
    expect_refused(w, k, "votes", "confidence", json_real(0.99), "from the error follows 0.95");
    expect_refused(w, k, "votes", "radius", json_integer(100), "do not support it");
    expect_refused(w, k, "votes", "radius", json_null(), "follows \"undecided\"");
    expect_refused(w, k, "votes", "changeable", json_integer(0), "words have substitutes");
    expect_refused(w, k, "votes", "more", json_integer(0), "unknown key \"more\"");
    expect_refused(w, k, NULL, "budget", json_integer(100), "\"budget\": from the radius follows");
    expect_refused(w, k, NULL, "sets", json_object(), "");
    expect_refused(w, 0, NULL, "statistical", json_false(), "expected true");
    expect_refused(w, 0, NULL, "lists", json_string("0"), "\"lists\"");
    expect_refused(w, 0, "rule", "name", json_string("dne"), "\"rule\" is not that of the model");
    expect_refused(w, 0, "rule", "settings", json_object(), "\"rule\" is not that of the model");
    expect_refused(w, 0, NULL, "arithmetic", json_object(), "unknown key \"arithmetic\"");
}

/* The same lines under the header of proofs, and the other way round. */
static void expect_not_mixed(world *w)
{
    lines l;
    failures f;
    lines_read(w->a.file, &l);
    json_object_del(l.line[0], "statistical");
    lines_write(w->a.file, &l);
    verified(w, &f);
    CHECK(f.n == 1 && f.line == 1 && strstr(f.why, "a file of proofs, but the model"));
    for (size_t i = 0; i < l.n; i++)
        json_decref(l.line[i]);
    /* a model that does not vote */
    stet_train_result t;
    stet_train_args a = small_run("cnn", at("plain"));
    CHECK_OK(stet_train(&a, &t));
    stet_model *plain;
    CHECK_OK(stet_model_load(a.out, &plain));
    world p = *w;
    p.m = plain, p.dir = a.out, p.a.model = plain;
    stet_certify_result r;
    CHECK_OK(stet_certify_run(&p.a, &r));
    CHECK(r.confidence == 0);
    stet_certify_result_deinit(&r);
    CHECK(verified(&p, &f).confidence == 0 && f.n == 0);
    expect_refused(&p, 1, NULL, "verdict", json_string("likely"), "in a file of proofs");
    expect_refused(&p, 0, NULL, "statistical", json_true(), "the model does not vote");
    stet_model_free(plain);
}

TEST(a_file_of_a_model_that_votes_with_masks_stands_and_nothing_added_to_it_does)
{
    world w;
    make(&w, "ranmask", SETTINGS("ranmask-rate=0.8", "ranmask-votes=21", "ranmask-draws=2000"));
    expect_file(&w);
    expect_forgeries_refused(&w);
    const size_t k = likely_line(&w);
    expect_refused(&w, k, "votes", "words", json_integer(99), "\"words\" or \"masked\": expected");
    expect_refused(&w, k, "votes", "masked", json_integer(98), "\"words\" or \"masked\": expected");
    expect_not_mixed(&w);
    unmake(&w);
}

TEST(a_file_of_a_model_that_votes_with_synonyms_stands_and_nothing_added_to_it_does)
{
    world w;
    make(&w, "safer", SETTINGS("safer-most=4", "safer-votes=21", "safer-draws=2000"));
    expect_file(&w);
    expect_forgeries_refused(&w);
    const size_t k = likely_line(&w);
    expect_refused(&w, k, "votes", "shared", json_array(), "\"shared\": expected");
    expect_not_mixed(&w);
    /* other lists are another model */
    failures f;
    stet_certify_result r;
    CHECK_OK(stet_certify_run(&w.a, &r));
    stet_certify_result_deinit(&r);
    char path[300];
    snprintf(path, sizeof path, "%s/safer.subst", w.dir);
    write_sets(path);
    verified(&w, &f);
    CHECK(f.n == 1 && f.line == 1 && strstr(f.why, "\"lists\" is not the digest"));
    unmake(&w);
}
