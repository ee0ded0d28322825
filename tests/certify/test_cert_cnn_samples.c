/* Random substitutions of real reviews: none goes below the bound. SAMPLES of them in all: mostly a
 * few words, and every tenth time most of those that the joint bound holds for the worst. */
#include "base/mem.h"
#include "harness.h"
#include "model/variants.h"

#ifndef SAMPLES
#define SAMPLES 1000000
#endif

enum { REVIEWS = 20, MAX_LEN = 400, DIM = 24, BLOCK = 2500, WHOLE = 100 };
static const char *const settings[] = {"filters=8", "kernels=2,3", NULL};

/* Random vectors, of which those that may replace each other are drawn together. */
static float *close_vectors(const stet_vocab *v, const stet_subst *s)
{
    const size_t n = stet_vocab_size(v);
    float *x = mem_alloc(n * DIM, sizeof *x);
    CHECK(x);
    rng r = rng_stream(1, STREAM_TEST, 0);
    for (size_t i = 0; i < n * DIM; i++)
        x[i] = (float)rng_normal(&r);
    for (uint32_t id = STET_FIRST_WORD; id < n; id++) {
        const char *word = stet_vocab_word(v, id);
        size_t count;
        const uint32_t own = stet_subst_word_id(s, word, strlen(word));
        const uint32_t *set = own == UINT32_MAX ? NULL : stet_subst_of(s, own, &count);
        for (size_t k = 0; set && k < count; k++) {
            const char *other = stet_subst_word(s, set[k]);
            float *y = x + stet_vocab_id(v, other, strlen(other)) * DIM;
            for (size_t d = 0; d < DIM; d++)
                y[d] += 0.9F * (x[id * DIM + d] - y[d]);
        }
    }
    return x;
}

/* Real reviews, real sets, random weights. */
typedef struct world {
    stet_dataset *data;
    stet_subst *sets;
    model *m;
    size_t index[REVIEWS];
} world;

static void world_init(world *x)
{
    char reviews[4096];
    snprintf(reviews, sizeof reviews, "%s", test_data("imdb/test.tsv.xz"));
    CHECK_OK(stet_subst_load(test_data("counterfitted/counterfitted_neighbors.json.xz"), &x->sets));
    const stet_data_options how = {0};
    CHECK_OK(stet_dataset_load(reviews, &how, &x->data));
    CHECK_EQ(stet_dataset_sample(x->data, REVIEWS, 3, x->index), REVIEWS);
    stet_dataset *few;
    stet_counter *counter;
    stet_vocab *v;
    CHECK_OK(stet_dataset_pick(x->data, x->index, REVIEWS, &few));
    CHECK_OK(stet_counter_new(&counter));
    CHECK_OK(stet_counter_add_dataset(counter, few, STET_TOK_WORD));
    for (uint32_t i = 0; i < stet_subst_words(x->sets); i++)
        CHECK_OK(stet_counter_add_word(counter, stet_subst_word(x->sets, i), 0));
    CHECK_OK(stet_vocab_build(counter, 0, 0, &v));
    float *vectors = close_vectors(v, x->sets);
    const stet_vectors t = {.n = stet_vocab_size(v), .dim = DIM, .data = vectors};
    const stet_model_new_args args = {.name = "cnn",
                                      .settings = settings,
                                      .vocab = v,
                                      .vectors = &t,
                                      .max_len = MAX_LEN,
                                      .n_classes = 2,
                                      .seed = 2};
    CHECK_OK(stet_model_new(&args, &x->m));
    CHECK_OK(stet_model_compile(x->m));
    mem_free(vectors);
    stet_vocab_free(v);
    stet_counter_free(counter);
    stet_dataset_free(few);
}

static void world_deinit(world *x)
{
    stet_model_free(x->m);
    stet_subst_free(x->sets);
    stet_dataset_free(x->data);
}

/* Review i as a task for the class that the model gives it. */
typedef struct review {
    uint32_t ids[MAX_LEN], *start, *word;
    cert_task task;
} review;

static void review_init(const world *x, size_t i, review *out)
{
    const stet_str text = stet_dataset_text(x->data, x->index[i]);
    const stet_sets sets = {.words = x->sets};
    stet_words *words;
    stet_bound *bound;
    stet_reading r = {0};
    stet_choices c = {0};
    CHECK_OK(stet_model_words(x->m, &words));
    CHECK_OK(stet_sets_bind(&sets, words, &bound));
    CHECK_OK(stet_words_read(words, text.data, text.len, &r));
    CHECK_OK(stet_bound_choices(bound, words, &r, &c));
    const size_t n = r.n;
    CHECK_EQ(n, c.n);
    words_rows(words, r.ids, n, out->ids);
    out->start = mem_zalloc(n + 1, sizeof *out->start);
    out->word = mem_alloc(n + c.start[n], sizeof *out->word);
    CHECK(out->start && out->word);
    size_t at = 0;
    for (size_t p = 0; p < n; p++) {
        out->word[at++] = out->ids[p];
        for (uint32_t k = c.start[p]; k < c.start[p + 1]; k++)
            words_rows(words, &c.word[k], 1, &out->word[at++]);
        out->start[p + 1] = (uint32_t)at;
    }
    stet_view *v;
    CHECK_OK(stet_view_open(x->m, NULL, out->ids, n, &v));
    out->task = (cert_task){.n = n,
                            .start = out->start,
                            .word = out->word,
                            .budget = STET_ANY,
                            .label = stet_argmax(stet_view_logits(v), 2)};
    stet_view_free(v);
    stet_choices_deinit(&c);
    stet_reading_deinit(&r);
    stet_bound_free(bound);
    stet_words_free(words);
}

static void review_deinit(review *x)
{
    mem_free(x->start);
    mem_free(x->word);
}

/* One variant: its edits are written to `out`, their number is returned. */
static size_t draw(const cert_task *t, const uint32_t *worst, rng *r, stet_edit *out)
{
    const size_t sort = rng_below(r, 20);
    const double share = sort < 2    ? 1
                         : sort == 2 ? rng_double(r)
                                     : 0.03,
                 obey = sort < 2 ? 0.7 + 0.3 * rng_double(r) : 0;
    size_t n = 0;
    for (size_t p = 0; p < t->n; p++) {
        const size_t count = t->start[p + 1] - t->start[p];
        if (count == 1 || (share < 1 && rng_double(r) > share))
            continue;
        const size_t s = rng_double(r) < obey ? worst[p] : rng_below(r, count);
        if (s)
            out[n++] = (stet_edit){(uint32_t)p, t->word[t->start[p] + s]};
    }
    return n;
}

/* The smallest margin of n variants, the first few also by full evaluation. */
static double least_of(const model *m, const review *x, stet_view *v, const uint32_t *worst,
                       size_t n, rng *r)
{
    static stet_edit edits[BLOCK * MAX_LEN];
    static size_t start[BLOCK + 1];
    static float logits[BLOCK * 2];
    double least = INFINITY;
    const size_t label = (size_t)x->task.label;
    for (size_t i = 0; i < n; i++)
        start[i + 1] = start[i] + draw(&x->task, worst, r, edits + start[i]);
    CHECK_OK(stet_view_edits(v, edits, start, n, logits));
    for (size_t i = 0; i < n; i++)
        least = fmin(least, (double)logits[2 * i + label] - (double)logits[2 * i + 1 - label]);
    CHECK_OK(variants_whole(m, x->ids, x->task.n, edits, start, n < WHOLE ? n : WHOLE, logits));
    for (size_t i = 0; i < n && i < WHOLE; i++)
        least = fmin(least, (double)logits[2 * i + label] - (double)logits[2 * i + 1 - label]);
    return least;
}

TEST(no_sampled_substitution_of_a_review_goes_below_a_bound)
{
    world x;
    world_init(&x);
    harness h;
    CHECK_OK(harness_init(&h, &cert_cnn, x.m));
    double gap = 0, width = 0;
    size_t samples = 0;
    for (size_t i = 0; i < REVIEWS; i++) {
        review t;
        review_init(&x, i, &t);
        double drop[MAX_LEN], best = -INFINITY, least = INFINITY;
        uint32_t worst[MAX_LEN];
        CHECK_OK(cert_cnn.open(h.work, &t.task));
        for (size_t method = 0; method < 2; method++) {
            cert_bound b = {.drop = drop, .worst = worst};
            CHECK_OK(cert_cnn.bound(h.work, method, 1 - t.task.label, 30, &b));
            best = fmax(best, b.margin);
        }
        rng r = rng_stream(4, STREAM_TEST, i);
        stet_view *v;
        CHECK_OK(stet_view_open(x.m, NULL, t.ids, t.task.n, &v));
        const float *clean = stet_view_logits(v);
        for (size_t done = 0; done < SAMPLES / REVIEWS; done += BLOCK, samples += BLOCK)
            least = fmin(least, least_of(x.m, &t, v, worst, BLOCK, &r));
        CHECK_LE(best, least);
        gap += least - best;
        width += fabs((double)clean[0] - (double)clean[1]) - best;
        stet_view_free(v);
        review_deinit(&t);
    }
    CHECK_LE(SAMPLES, samples);
    printf("%zu samples: the smallest is above the bound by %.3f of what the bound takes\n",
           samples, gap / width);
    CHECK(gap < 0.7 * width); /* near enough that a wrong bound would show */
    harness_deinit(&h);
    world_deinit(&x);
}
