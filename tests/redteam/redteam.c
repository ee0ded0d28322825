/* tests/redteam/redteam.c - a permanent adversary: tries to make a proof lie.
 *
 *     REDTEAM_SECONDS=600 REDTEAM_SEED=1 redteam
 *
 * A round is a random model of every kind, plain or crafted to hurt (ill-conditioned, integers with
 * ties, hardly there, huge), random texts as people type them and random sets, some of their words such
 * as no text can hold. Certificates are written and checked; then
 *
 *   - an honest file must stand;
 *   - every combination that a certificate covers is typed into the raw text and predicted: the label
 *     must stand; a counter-example must be one;
 *   - the file is mutated, its sums made to fit: what is still accepted must still be true.
 *
 * Prints counts and the seed; exits with 1 on the first violation, and says which. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "../certify/harness.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "forged.h"
#include "model/s4.h"
#include "stet/verify.h"

enum { TEXTS = MOST_LINES - 1 }; /* and a header */
static double most_combinations = 3000; /* that a text is tried with; more: not at all */

typedef struct counts {
    size_t models, refused, texts, certified, undecided, broken, strings, files, mutations,
        accepted, wrong_but_true, exact;
} counts;

static counts total;
static uint64_t seed_now;
static char where[160]; /* what is being tried */

static void violation(const char *what, const char *line)
{
    printf("VIOLATION, seed %llu, %s: %s\n%s\n", (unsigned long long)seed_now, where, what,
           line ? line : "");
    exit(1);
}

/* ---- models ------------------------------------------------------------------------------- */

static const struct {
    const char *kind; /* "+cnn": with word scores */
    const char *settings[6];
} kinds[] = {{"cnn", {"filters=4", "kernels=1,2,3"}},
             {"bilstm", {"hidden=4"}},
             {"s4", {"channels=4", "state=4", "layers=1"}},
             {"s4", {"channels=4", "state=4", "layers=2"}},
             {"+sum", {NULL}},
             {"+sum", {"score-hidden=4"}},
             {"+cnn", {"filters=4", "kernels=1,2,3"}},
             {"+bilstm", {"hidden=4"}},
             {"+s4", {"channels=4", "state=4", "layers=1"}},
             {"bilstm", {"hidden=4", "pool=max"}},
             {"+bilstm", {"hidden=4", "pool=mean"}},
             {"s4", {"channels=4", "state=4", "s4-block=relu", "s4-pool=max"}},
             {"+s4", {"channels=4", "state=4", "s4-pool=max"}},
             {"+bilstm", {"hidden=4", "pool=max", "span=3"}},
             {"s4", {"channels=4", "state=4", "s4-block=relu", "s4-pool=max", "span=3"}},
             {"+s4", {"channels=4", "state=4", "s4-block=bare", "s4-pool=max", "span=3"}},
             {"+s4cnn", {"filters=3", "kernels=1,3", "rank=2", "state=4"}},
             {"cnn", {"filters=3", "kernels=1,3", "dense=4"}},
             {"+cnn", {"filters=2", "kernels=2", "dense=6"}}};
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef enum craft { PLAIN, CLOSE, UNEVEN, INTEGERS, CANCEL, SMALL, HUGE_NUMBERS, CRAFTS } craft;
static const char *const craft_names[CRAFTS] = {
    "plain", "close words", "uneven exponents", "integers", "cancel", "subnormal", "huge"};

/* S4's kernels: pairs of states that cancel. Other models: rows that do. */
static void make_cancel(model *m, rng *r)
{
    const bool s4 = strcmp(stet_model_kind(m), "s4") == 0;
    if (!s4) {
        for (size_t i = 0; i + 1 < m->n_values; i += 2)
            m->value[i + 1] = -m->value[i] * (1 + (real)rng_below(r, 3) * 0x1p-23f);
        return;
    }
    real *const b = model_value(m, S4_FIRST_LAYER + S4_B),
                *const c = model_value(m, S4_FIRST_LAYER + S4_C),
                *const a = model_value(m, S4_FIRST_LAYER + S4_A),
                *const w = model_value(m, S4_FIRST_LAYER + S4_W),
                *const p = model_value(m, S4_FIRST_LAYER + S4_P);
    const size_t n = shape_count(m->params[S4_FIRST_LAYER + S4_A].shape);
    for (size_t i = 0; i + 1 < n; i += 2) {
        a[i + 1] = a[i];
        w[i + 1] = w[i];
        for (size_t part = 0; part < 2; part++) {
            const float x = (float)((1 + rng_below(r, (1 << 24) - 1)) * 4096),
                        y = (float)((1 + rng_below(r, (1 << 24) - 1)) * 4096);
            p[2 * i + part] = p[2 * i + 2 + part] = 0;
            b[2 * i + part] = x, c[2 * i + part] = y;
            b[2 * i + 2 + part] = y, c[2 * i + 2 + part] = -x;
        }
    }
}

static void craft_model(model *m, craft how, rng *r)
{
    const size_t n = m->n_words * m->dim;
    for (size_t i = 0; how == CLOSE && i < n; i++) /* word 2k + 1 is next to word 2k */
        m->table[i] =
            i / m->dim % 2 ? m->table[i - m->dim] + 0.02f * (float)rng_normal(r) : m->table[i];
    for (size_t i = 0; how == UNEVEN && i < m->n_values; i++)
        m->value[i] *= (real)ldexp(1, (int)rng_below(r, 24) - 14);
    for (size_t i = 0; how == INTEGERS && i < n; i++)
        m->table[i] = (float)((int)rng_below(r, 5) - 2);
    for (size_t i = 0; how == INTEGERS && i < m->n_values; i++)
        m->value[i] = (real)((int)rng_below(r, 5) - 2);
    if (how == CANCEL)
        make_cancel(m, r);
    for (size_t i = 0; how == SMALL && i < n; i++)
        m->table[i] *= 1e-41f;
    for (size_t i = 0; how == SMALL && i < m->n_values; i++)
        m->value[i] *= (real)(rng_below(r, 3) ? 1 : 1e10);
    const float by = (float)pow(10, 3 + (double)rng_below(r, 10));
    for (size_t i = 0; how == HUGE_NUMBERS && i < n; i++)
        m->table[i] *= by;
}

/* ---- texts and sets ----------------------------------------------------------------------- */

static size_t word_count(const model *m)
{
    return m->n_words - STET_FIRST_WORD;
}

/* A word as somebody types it. */
static void put_typed(buf *b, size_t word, rng *r)
{
    static const char *const before[] = {"", "", "", "(", "\""}, *const after[] = {"",   "",  "",
                                                                                   ",",  "!", "...",
                                                                                   "\"", "'s"};
    buf_printf(b, "%s%c%zu%s", before[rng_below(r, 5)], rng_below(r, 3) ? 'w' : 'W', word,
               after[rng_below(r, 8)]);
}

static char *make_text(const model *m, rng *r)
{
    buf b = {0};
    const size_t n = 1 + rng_below(r, 7);
    for (size_t i = 0; i < n; i++) {
        if (i)
            buf_str(&b, rng_below(r, 6) ? " " : "  <br />");
        put_typed(&b, rng_below(r, word_count(m)), r);
    }
    return buf_take(&b);
}

/* Substitutes of a word: its neighbour and some others, some of which no text can hold. */
static void write_sets(const model *m, const char *path, rng *r)
{
    static const char *const odd[] = {"W9",        "w1-w2",    "<pad>", "<unk>", "unheard",
                                      "wi\\u0301", "w\\u00ed", "5",     "it's",  "two words"};
    buf b = {0};
    buf_char(&b, '{');
    for (size_t w = 0; w < word_count(m); w++) {
        if (w > 0)
            buf_char(&b, ',');
        buf_printf(&b, "\"%c%zu\":[\"w%zu\"", rng_below(r, 20) ? 'w' : 'W', w, w ^ 1);
        for (size_t k = rng_below(r, 3); k > 0; k--)
            buf_printf(&b, ",\"w%zu\"", (w + 2 * k) % word_count(m));
        const char *strange =
            odd[rng_below(r, 9)]; /* words with spaces are refused with the file */
        if (rng_below(r, 8) == 0)
            buf_printf(&b, ",\"%s\"", strange);
        buf_char(&b, ']');
    }
    buf_char(&b, '}');
    CHECK_OK(file_write_all(path, b.data, b.n));
    buf_deinit(&b);
}

/* ---- truth -------------------------------------------------------------------------------- */

typedef struct world {
    model *m;
    char *text[TEXTS];
    stet_dataset *data;
    stet_sets sets;
} world;

static int predict(const world *w, const char *text)
{
    int label = -1;
    if (stet_model_predict(w->m, text, strlen(text), NULL, &label) != STET_OK)
        return -1; /* not finite: no answer */
    return label;
}

/* Type `with` at the positions `at` of the text and predict. */
static int type_in(const world *w, const char *text, const size_t *at, const char *const *with,
                   size_t n)
{
    stet_tokens tokens = {0};
    char *out = NULL;
    CHECK_OK(stet_tokenize(stet_model_tokenizer(w->m), text, strlen(text), &tokens));
    CHECK_OK(stet_text_rebuild(text, strlen(text), &tokens, at, with, n, &out));
    total.strings++;
    const int label = predict(w, out);
    stet_free(out);
    stet_tokens_deinit(&tokens);
    return label;
}

/* Does the label stand for every combination of at most `budget` changes that the line's sets allow?
 * -1: too many to try. */
static int holds(const world *w, const json_t *line, const char *text, size_t budget)
{
    const json_t *sets = json_object_get(line, "sets");
    const int label = (int)json_integer_value(json_object_get(line, "label"));
    size_t at[64], pick[64] = {0}, n = 0;
    const json_t *list[64];
    const char *key;
    json_t *v;
    double all = 1;
    json_object_foreach((json_t *)(uintptr_t)sets, key, v)
    {
        if (n == 64)
            return -1;
        size_t i = n++;
        for (; i > 0 && at[i - 1] > strtoul(key, NULL, 10); i--) {
            at[i] = at[i - 1];
            list[i] = list[i - 1];
        }
        at[i] = strtoul(key, NULL, 10);
        list[i] = v;
        all *= 1 + (double)json_array_size(v);
    }
    if (all > most_combinations)
        return -1;
    for (;;) {
        size_t where_at[64], changed = 0;
        const char *with[64];
        for (size_t i = 0; i < n; i++)
            if (pick[i]) {
                where_at[changed] = at[i];
                with[changed++] = json_string_value(json_array_get(list[i], pick[i] - 1));
            }
        if (changed <= budget && type_in(w, text, where_at, with, changed) != label)
            return 0;
        size_t i = 0;
        while (i < n && ++pick[i] > json_array_size(list[i]))
            pick[i++] = 0;
        if (i == n)
            return 1;
    }
}

/* What a line states that has been accepted, about this text: without the data the checker takes the
 * text's number as it is stated. */
static void check_line(const world *w, const json_t *line, const char *text, const char *raw,
                       bool forged)
{
    const char *verdict = json_string_value(json_object_get(line, "verdict"));
    const json_t *budget = json_object_get(line, "budget");
    const size_t most = json_is_null(budget) ? SIZE_MAX : (size_t)json_integer_value(budget);
    const bool claims = json_object_get(line, "claims") || json_object_get(line, "tree");
    if (strcmp(verdict, "certified") == 0 && !claims)
        violation("accepted: certified without a claim", raw);
    if (claims && holds(w, line, text, most) == 0)
        violation(forged ? "a forged certificate is accepted and false" : "a certificate is false",
                  raw);
    if (strcmp(verdict, "broken") == 0) {
        const json_t *edits = json_object_get(line, "edits");
        size_t at[64], n = json_array_size(edits);
        const char *with[64];
        for (size_t i = 0; i < n && i < 64; i++) {
            at[i] = (size_t)json_integer_value(json_array_get(json_array_get(edits, i), 0));
            with[i] = json_string_value(json_array_get(json_array_get(edits, i), 1));
        }
        const int after = type_in(w, text, at, with, n);
        if (!forged && after != (int)json_integer_value(json_object_get(line, "after")))
            violation("a counter-example is none", raw);
    }
    if (forged)
        return;
    total.certified += strcmp(verdict, "certified") == 0;
    total.undecided += strcmp(verdict, "undecided") == 0;
    total.broken += strcmp(verdict, "broken") == 0;
}

static const char *text_of(const world *w, const json_t *line)
{
    return w->text[json_integer_value(json_object_get(line, "text"))];
}

/* ---- forged files ------------------------------------------------------------------------- */

static void first_failure(void *user, size_t line, const char *why)
{
    char *to = user;
    if (!*to)
        snprintf(to, 256, "line %zu: %s", line, why);
}

static size_t check_file(const char *path, bool exact, char why[256])
{
    stet_verify_result r;
    *why = '\0';
    const stet_verify_options how = {.failed = first_failure, .user = why, .exact = exact};
    const stet_status st = stet_verify_file(path, test_dir(), &how, &r);
    if (exact && st == STET_ENOTSUP)
        return 0;
    total.files++;
    total.exact += st == STET_OK ? r.exact : 0;
    return st == STET_OK ? r.failed : 1;
}

static void forge(const world *w, const char *path, size_t times, rng *r)
{
    lines honest;
    lines_read(path, &honest);
    if (honest.n < 2)
        return;
    for (size_t k = 0; k < times; k++) {
        lines l = {.n = honest.n};
        for (size_t i = 0; i < l.n; i++)
            l.line[i] = json_deep_copy(honest.line[i]);
        const size_t which = rng_below(r, 12) ? 1 + rng_below(r, l.n - 1) : 0;
        for (size_t changes = 1 + rng_below(r, 2); changes > 0; changes--)
            lines_mutate(&l, which, word_count(w->m), r);
        char why[256];
        lines_write(path, &l);
        total.mutations++;
        if (check_file(path, false, why) == 0) {
            total.accepted++;
            char *raw = json_dumps(l.line[which], JSON_COMPACT);
            if (which > 0 && !json_equal(l.line[which], honest.line[which])) {
                /* without --data the checker takes words and sets as stated: so does the truth */
                json_t *words = json_object_get(l.line[which], "words");
                if (json_equal(words, json_object_get(honest.line[which], "words")))
                    check_line(w, l.line[which], text_of(w, honest.line[which]), raw, true);
            }
            free(raw);
        }
        for (size_t i = 0; i < l.n; i++)
            json_decref(l.line[i]);
    }
    for (size_t i = 0; i < honest.n; i++)
        json_decref(honest.line[i]);
}

/* ---- rounds ------------------------------------------------------------------------------- */

static void make_data(world *w, rng *r)
{
    stet_str text[TEXTS];
    int label[TEXTS];
    for (size_t i = 0; i < TEXTS; i++) {
        w->text[i] = make_text(w->m, r);
        text[i] = (stet_str){w->text[i], strlen(w->text[i])};
        const int answer = predict(w, w->text[i]);
        label[i] =
            answer < 0 || rng_below(r, 10) == 0 ? (int)rng_below(r, w->m->n_classes) : answer;
    }
    CHECK_OK(stet_dataset_new(text, label, TEXTS, NULL, w->m->n_classes, &w->data));
}

static void certify_and_attack(world *w, size_t forgeries, rng *r)
{
    static const size_t budgets[] = {STET_ANY, 1, 2, 3};
    char path[600], why[256];
    snprintf(path, sizeof path, "%s/red.cert", test_dir());
    stet_certify_args a = STET_CERTIFY_DEFAULTS;
    a.model = w->m, a.data = w->data, a.sets = &w->sets, a.file = path, a.model_name = "red";
    a.how.budget = budgets[rng_below(r, 4)];
    a.how.complete = rng_below(r, 2);
    a.how.largest = rng_below(r, 2);
    a.how.time_limit = 0.2;
    if (rng_below(r, 8) == 0)
        a.how.method = "enumerate";
    stet_certify_result result;
    if (stet_certify_run(&a, &result) != STET_OK) { /* numbers that nothing can be said of */
        total.refused++;
        return;
    }
    stet_certify_result_deinit(&result);
    total.texts += TEXTS;
    if (check_file(path, false, why) != 0 || check_file(path, true, why) != 0)
        violation("an honest file is rejected", why);
    lines l;
    lines_read(path, &l);
    for (size_t i = 1; i < l.n; i++) {
        char *raw = json_dumps(l.line[i], JSON_COMPACT);
        check_line(w, l.line[i], text_of(w, l.line[i]), raw, false);
        free(raw);
        json_decref(l.line[i]);
    }
    json_decref(l.line[0]);
    forge(w, path, forgeries, r);
}

static void round_of(uint64_t seed, size_t kind, craft how, size_t forgeries)
{
    rng r = rng_stream(seed, STREAM_TEST, 100 + kind * CRAFTS + how);
    char path[600];
    snprintf(where, sizeof where, "%s, %s", kinds[kind].kind, craft_names[how]);
    world w = {0};
    const bool scored = kinds[kind].kind[0] == '+';
    const size_t dim = 2 + rng_below(&r, 4), classes = 2 + rng_below(&r, 2);
    const double scale = 0.5 + rng_double(&r);
    const uint64_t own = rng_u64(&r);
    model *m =
        scored ? harness_scored(kinds[kind].kind + 1, kinds[kind].settings, dim, classes, scale,
                                rng_double(&r), own)
               : harness_model(kinds[kind].kind, kinds[kind].settings, dim, classes, scale, own);
    craft_model(m, how, &r);
    total.models++;
    w.m = harness_fresh(m);
    snprintf(path, sizeof path, "%s/red.json", test_dir());
    write_sets(w.m, path, &r);
    CHECK_OK(stet_sets_load(path, &w.sets));
    make_data(&w, &r);
    certify_and_attack(&w, forgeries, &r);
    for (size_t i = 0; i < TEXTS; i++)
        mem_free(w.text[i]);
    stet_dataset_free(w.data);
    stet_sets_free(&w.sets);
    stet_model_free(w.m);
}

static void report(double seconds)
{
    printf(
        "seed %llu: %zu models (%zu refused), %zu texts: %zu certified, %zu broken, %zu undecided; "
        "%zu strings typed; %zu claims exact; %zu files checked, %zu of them forged, %zu forgeries "
        "accepted and "
        "true; "
        "no violation (%.0f s)\n",
        (unsigned long long)seed_now, total.models, total.refused, total.texts, total.certified,
        total.broken, total.undecided, total.strings, total.exact, total.files, total.mutations,
        total.accepted, seconds);
}

static void run(double seconds, size_t rounds, size_t forgeries)
{
    const double start = seconds_now();
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < rounds && seconds_now() - start < seconds; i++)
        for (size_t kind = 0; kind < KINDS; kind++)
            for (craft how = 0; how < CRAFTS && seconds_now() - start < seconds; how++)
                round_of(seed_now + i, kind, how, forgeries);
    report(seconds_now() - start);
}

/* REDTEAM_SECONDS and REDTEAM_SEED: how long, and from where (each day has a seed of its own); by
 * default a short round that is always the same. */
TEST(no_proof_can_be_made_to_lie)
{
    const char *seconds = getenv("REDTEAM_SECONDS"), *seed = getenv("REDTEAM_SEED");
    seed_now = seed ? strtoull(seed, NULL, 10) : seconds ? (uint64_t)time(NULL) / 86400 : 1;
    if (seconds) {
        alarm(0); /* the time is the caller's */
        run(strtod(seconds, NULL), SIZE_MAX, 40);
    } else {
        most_combinations = 300;
        run(60, 1, 6);
    }
    CHECK_LE(1, total.certified);
    CHECK_LE(10, total.mutations);
}
