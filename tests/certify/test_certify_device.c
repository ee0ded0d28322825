/* Whole runs on a device: many texts wait for it at once, and the file is the one of the host. */
#include <string.h>
#include <unistd.h>

#include "model/answers.h"
#include "model/cnn.h"
#include "model/small_world.h"
#include "stet/certify.h"
#include "tensor/locked_store.h"

enum { THREADS = 2 };

static size_t most_edits, most_ranges; /* texts of a batch */
static bool slept[2];

/* The first batch of each kind takes its time: the others ask meanwhile. */
static void count(size_t texts, size_t *most, bool *before)
{
    *most = texts > *most ? texts : *most;
    if (!*before)
        usleep(500000);
    *before = true;
}

static stet_status toy_open(const model *m, store *s, void **out)
{
    (void)s;
    *out = (void *)(uintptr_t)m;
    return cnn_compile_words(m);
}

static void toy_close(void *own, store *s)
{
    (void)own, (void)s;
}

static size_t toy_room(const void *own)
{
    (void)own;
    return 1;
}

/* By views of the host. */
static stet_status toy_edits(const void *own, const edit_batch *b, float *room)
{
    const model *m = own;
    (void)room;
    count(b->n_texts, &most_edits, &slept[0]);
    for (size_t v = 0; v < b->n_variants; v++) {
        const uint32_t from = b->first[b->of[v]], n = b->first[b->of[v] + 1] - from;
        const size_t start[2] = {0, b->edit_at[v + 1] - b->edit_at[v]};
        stet_view *view;
        TRY(stet_view_open(m, NULL, b->word + from, n, &view));
        const stet_status st =
            stet_view_edits(view, b->edit + b->edit_at[v], start, 1, b->logits + v * b->n_classes);
        stet_view_free(view);
        TRY(st);
    }
    return STET_OK;
}

/* One filter over one text: bias, then position by position its least and its largest word. */
static void toy_range(const model *m, const range_batch *b, size_t text, size_t kernel, size_t f)
{
    const cnn_compiled *c = m->compiled;
    const size_t features = c->n_kernels * c->filters, feature = kernel * c->filters + f;
    const uint32_t from = b->first[text], n = b->first[text + 1] - from;
    const real bias = model_value(m, (int)(2 * kernel + 1))[f];
    const float pad = b->pad[text * features + feature];
    float *top = b->top + 2 * text * features + feature;
    top[0] = top[features] = 0;
    for (size_t t = 0; t == 0 || t + c->k[kernel] <= n; t++) {
        real lo = bias, hi = bias;
        for (size_t l = 0; l < c->k[kernel] && t + l < n; l++) {
            const size_t tap = c->first[kernel] + l * c->filters + f;
            const uint32_t *set = b->word + b->at[from + t + l],
                           *end = b->word + b->at[from + t + l + 1];
            real least = c->word[*set * c->width + tap], largest = least;
            for (; set < end; set++) {
                const real x = c->word[*set * c->width + tap];
                least = x < least ? x : least;
                largest = x > largest ? x : largest;
            }
            lo += least;
            hi += largest;
        }
        top[0] = lo - pad > top[0] ? lo - pad : top[0];
        top[features] = hi + pad > top[features] ? hi + pad : top[features];
    }
}

static stet_status toy_ranges(const void *own, const range_batch *b)
{
    const model *m = own;
    const cnn_compiled *c = m->compiled;
    count(b->n_texts, &most_ranges, &slept[1]);
    for (size_t text = 0; text < b->n_texts; text++)
        for (size_t k = 0; k < c->n_kernels; k++)
            for (size_t f = 0; f < c->filters; f++)
                toy_range(m, b, text, k, f);
    return STET_OK;
}

static const answer_desc toy = {.kernels = DEV_CPU,
                                .open = toy_open,
                                .close = toy_close,
                                .word_room = toy_room,
                                .variant_room = toy_room,
                                .edits = toy_edits,
                                .ranges = toy_ranges};

/* The file of a run on the device; the caller frees it. */
static char *run_on(const world *w, const char *where, const stet_certify_how *how)
{
    char path[512];
    stet_certify_result r;
    snprintf(path, sizeof path, "%s/%s.jsonl", test_dir(), where);
    unlink(path);
    stet_certify_args a = STET_CERTIFY_DEFAULTS;
    a.model = w->m, a.data = w->data, a.sets = &w->sets, a.file = path;
    a.how = *how;
    a.device = where;
    most_edits = most_ranges = 0;
    slept[0] = slept[1] = false;
    CHECK_OK(stet_certify_run(&a, &r));
    CHECK_EQ(r.n, TEXTS);
    CHECK(r.verdicts[STET_CERTIFIED] > 0 && r.verdicts[STET_UNDECIDED] > 0);
    stet_certify_result_deinit(&r);
    return read_all(path);
}

static void check_same_file(const world *w, const stet_certify_how *how)
{
    char *here = run_on(w, "cpu", how);
    CHECK_EQ(most_edits + most_ranges, 0);
    char *there = run_on(w, "locked", how);
    CHECK_STR(here, there);
    mem_free(here);
    mem_free(there);
}

/* Text k alone, on the host. */
static stet_verdict certify_one(const world *w, size_t k, const stet_certify_how *how,
                                double *margin, double *slack)
{
    stet_certify_result r;
    stet_certify_args a = STET_CERTIFY_DEFAULTS;
    a.model = w->m, a.data = w->data, a.sets = &w->sets;
    a.how = *how;
    a.index = &k, a.n_index = 1;
    CHECK_OK(stet_certify_run(&a, &r));
    const stet_verdict v = r.verdict[0];
    *margin = r.margin_lo;
    *slack = r.slack_mean;
    stet_certify_result_deinit(&r);
    return v;
}

/* Moves the model's answers until rounding alone leaves a text unproved, which calls for a closer look. */
static void move_to_a_close_text(const world *w, const stet_certify_how *how)
{
    double margin, slack, closer;
    size_t k = 0;
    while (certify_one(w, k, how, &margin, &slack) != STET_UNDECIDED)
        CHECK(++k < TEXTS);
    real *bias = (real *)(uintptr_t)model_value(w->m, (int)w->m->n_params - 1);
    bias[stet_dataset_label(w->data, k)] -= (real)(margin + slack / 10);
    CHECK_EQ(certify_one(w, k, how, &margin, &closer), STET_CERTIFIED);
    CHECK_LE(closer, 0.9 * slack);
}

TEST(many_texts_wait_for_the_device_and_nothing_changes)
{
    world w;
    make(&w, 0, 14, 3);
    model_desc desc = *w.m->desc;
    desc.answers = &toy;
    w.m->desc = &desc;
    CHECK_OK(store_register(&locked_desc));
    stet_set_threads(THREADS);
    stet_certify_how how = STET_CERTIFY_HOW;
    how.method = "ibp";
    how.time_limit = 0;
    check_same_file(&w, &how);
    CHECK_LE(8 * THREADS, most_edits);
    CHECK_LE(8 * THREADS, most_ranges);
    /* Where cores do most of the work there are as many texts as threads. */
    how.largest = true;
    check_same_file(&w, &how);
    CHECK(most_edits >= 1 && most_edits <= THREADS && most_ranges <= THREADS);
    how.largest = false;
    how.method = "auto";
    check_same_file(&w, &how);
    CHECK(most_ranges >= 1 && most_ranges <= THREADS);
    how.method = "ibp";
    move_to_a_close_text(&w, &how);
    check_same_file(&w, &how);
    stet_set_threads(0);
    unmake(&w);
}
