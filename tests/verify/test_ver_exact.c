/* The checker's exact arithmetic: true claims stand, a claim that is a hair above the truth falls, and
 * memory that runs out is an answer. Against the truth of all combinations: test_ver_bounds.c. */
#include <math.h>

#include "../alloc_fail.h"
#include "../certify/harness.h"
#include "verify/ver_exact.h"
#include "verify/ver_line.h"

static const struct {
    const char *name;
    const char *const *settings;
    double scores;
    const char *method;
} models[] = {
    {"cnn", (const char *const[]){"filters=5", "kernels=1,2,4", NULL}, 0, "ibp"},
    {"cnn", (const char *const[]){"filters=5", "kernels=1,2,4", NULL}, 1, "ibp"},
    {"cnn", (const char *const[]){"filters=5", "kernels=1,2,4", "score-hidden=5", NULL}, 1, "ibp"},
    {"s4cnn", (const char *const[]){"filters=5", "kernels=1,3", "rank=2", "state=4", NULL}, 1,
     "ibp"},
    {"sum", (const char *const[]){NULL}, 1, "exact"},
    {"sum", (const char *const[]){"score-hidden=5", NULL}, 1, "exact"}};
enum { MODELS = sizeof models / sizeof *models, N = 4, CLASSES = 3 };

typedef struct text {
    ver_model v;
    ver_work w;
    ver_task t;
    uint32_t start[N + 1], word[2 * N];
    int label;
    double clean, bound[CLASSES]; /* exact */
} text;

static double bound_of(text *x, int label, int other, bool exact)
{
    double b;
    x->w.exact = exact;
    x->w.is_exact = false;
    CHECK_OK(x->v.kind->bound(&x->w, label, other, x->v.kind->value, NULL, &b));
    CHECK_EQ(x->w.is_exact, exact);
    x->w.exact = false;
    return b;
}

/* A text of four words, with w10 beside the first of them: false where it is not robust. */
static bool make_text(text *x, size_t kind, uint64_t seed)
{
    static const bool none[N];
    const size_t at = kind % MODELS;
    model *m = models[at].scores > 0
                   ? harness_scored(models[at].name, models[at].settings, 5, CLASSES, 1,
                                    models[at].scores, seed)
                   : harness_model(models[at].name, models[at].settings, 5, CLASSES, 1, seed);
    stet_model_free(harness_fresh(m));
    *x = (text){.t = {N, x->start, x->word, VER_ANY, none}};
    CHECK_OK(ver_model_load(test_dir(), &x->v));
    x->w.m = &x->v;
    for (uint32_t p = 0, k = 0; p < N; p++) {
        x->start[p] = k;
        x->word[k++] = STET_FIRST_WORD + p;
        if (p == 0)
            x->word[k++] = STET_FIRST_WORD + 10;
        x->start[p + 1] = k;
    }
    x->w.t = &x->t;
    CHECK_OK(x->v.kind->open(&x->w));
    bool robust = true;
    for (int c = 1; c < CLASSES; c++)
        if (x->v.kind->margin(&x->w, c, x->label) > 0)
            x->label = c;
    x->clean = INFINITY;
    for (int c = 0; c < CLASSES; c++) {
        if (c == x->label)
            continue;
        x->clean = fmin(x->clean, x->v.kind->margin(&x->w, x->label, c));
        x->bound[c] = bound_of(x, x->label, c, true);
        CHECK_LE(bound_of(x, x->label, c, false), x->bound[c]);
        robust = robust && x->bound[c] > 0;
    }
    return robust;
}

static void drop_text(text *x)
{
    ver_work_deinit(&x->w);
    ver_model_deinit(&x->v);
}

/* The text's line, with the claim against `lifted` moved up by so many steps. */
static json_t *line_of(const text *x, size_t kind, int lifted, int steps)
{
    json_t *claims = json_array();
    for (int c = 0; c < CLASSES; c++) {
        double bound = x->bound[c];
        for (int i = 0; i < steps && c == lifted; i++)
            bound = nextafter(bound, INFINITY);
        if (c != x->label)
            json_array_append_new(claims, json_pack("{s:i, s:f, s:s}", "other", c, "bound", bound,
                                                    "method", models[kind % MODELS].method));
    }
    return json_pack("{s:i, s:i, s:i, s:s, s:n, s:f, s:[ssss], s:{s:[s]}, s:o}", "text", 0, "label",
                     x->label, "answer", x->label, "verdict", "certified", "budget", "clean",
                     x->clean, "words", "w0", "w1", "w2", "w3", "sets", "0", "w10", "claims",
                     claims);
}

static stet_status check(text *x, json_t *line, bool exact, size_t *claims)
{
    arena mem = {0};
    ver_line l;
    ver_work w = {.m = &x->v, .want_exact = exact};
    stet_verify_result r = {.least = INFINITY};
    stet_status st = ver_line_read(&x->v, line, &mem, &l);
    if (st == STET_OK)
        st = ver_line_check(&w, &l, VER_ANY, &mem, &r);
    *claims = r.exact;
    arena_deinit(&mem);
    ver_work_deinit(&w);
    return st;
}

TEST(a_claim_at_the_truth_stands_and_one_step_above_it_falls)
{
    size_t seen[MODELS] = {0};
    for (size_t k = 0; ver_exact_here() && k < 40 * MODELS; k++) {
        text x;
        size_t exact;
        if (make_text(&x, k, k)) {
            const int other = x.label == 0;
            json_t *honest = line_of(&x, k, other, 0), *forged = line_of(&x, k, other, 1);
            CHECK_OK(check(&x, honest, true, &exact));
            CHECK_EQ(exact, CLASSES - 1);
            CHECK_FAILS(check(&x, forged, true, &exact), STET_EFORMAT, "claimed");
            CHECK_OK(check(&x, forged, false, &exact)); /* below what double forgives */
            CHECK_EQ(exact, 0);
            json_decref(honest);
            json_decref(forged);
            seen[k % MODELS]++;
        }
        drop_text(&x);
    }
    for (size_t k = 0; ver_exact_here() && k < MODELS; k++)
        CHECK_LE(10, seen[k]);
}

static stet_status bound_again(void *ctx)
{
    text *x = ctx;
    double b;
    const int other = x->label == 0;
    return x->v.kind == &ver_cnn ? ver_exact_cnn(&x->w, x->label, other, NULL, &b)
                                 : ver_exact_sum(&x->w, x->label, other, &b);
}

TEST(running_out_of_memory_for_exact_numbers_is_an_answer)
{
    for (size_t k = 0; ver_exact_here() && k < MODELS; k++) {
        text x;
        make_text(&x, k, k);
        CHECK_LE(20, ALLOC_FAIL_LOOP(bound_again, &x));
        drop_text(&x);
    }
}
