/* Real reviews, sampled: no variant of a text has a margin below any bound of the text. Half of the
 * samples are near the words that the bounds fear.
 *
 * Models are random, on random vectors, unless STET_SAMPLE_MODEL (a folder) and STET_SAMPLE_SETS
 * name trained ones; STET_SAMPLES is the number of variants. */
#include "base/mem.h"
#include "certify/certifier.h"
#include "test.h"

enum { DIM = 24, TEXTS = 40, AT_ONCE = 500 };

typedef struct world {
    stet_model *m;
    stet_dataset *data;
    stet_sets sets;
} world;

static stet_model *random_model(const stet_dataset *d, const char *kind)
{
    static const char *const settings[][3] = {
        {"filters=20", "kernels=3,4,5", NULL}, {"hidden=6", NULL}, {"channels=8", "state=8", NULL}};
    const char *const *how = kind[0] == 'c'   ? settings[0]
                             : kind[0] == 'b' ? settings[1]
                                              : settings[2];
    stet_counter *count;
    stet_vocab *v;
    CHECK_OK(stet_counter_new(&count));
    CHECK_OK(stet_counter_add_dataset(count, d, STET_TOK_WORD));
    CHECK_OK(stet_vocab_build(count, 1, 0, &v));
    const size_t n = stet_vocab_size(v);
    float *data = mem_alloc(n * DIM, sizeof *data);
    CHECK(data);
    rng r = rng_stream(1, STREAM_TEST, 0);
    for (size_t i = 0; i < n * DIM; i++)
        data[i] = (float)(0.5 * rng_normal(&r));
    const stet_vectors t = {.n = n, .dim = DIM, .data = data};
    const stet_model_new_args a = {.name = kind,
                                   .settings = how,
                                   .vocab = v,
                                   .vectors = &t,
                                   .max_len = 200,
                                   .n_classes = 2,
                                   .seed = 1};
    stet_model *m;
    CHECK_OK(stet_model_new(&a, &m));
    stet_counter_free(count);
    stet_vocab_free(v);
    mem_free(data);
    return m;
}

static void make(world *w, const char *kind)
{
    stet_dataset *all;
    const stet_data_options how = STET_DATA_DEFAULTS;
    CHECK_OK(stet_dataset_load(test_data("imdb/test.tsv.xz"), &how, &all));
    size_t index[TEXTS];
    CHECK_EQ(stet_dataset_sample(all, TEXTS, 3, index), TEXTS);
    CHECK_OK(stet_dataset_pick(all, index, TEXTS, &w->data));
    stet_dataset_free(all);
    const char *dir = getenv("STET_SAMPLE_MODEL"), *sets = getenv("STET_SAMPLE_SETS");
    CHECK_OK(
        stet_sets_load(sets ? sets : test_data("counterfitted/euc-top8-d0.7.json.xz"), &w->sets));
    if (dir)
        CHECK_OK(stet_model_load(dir, &w->m));
    else
        w->m = random_model(w->data, kind);
}

typedef struct subject {
    const cert_family *f;
    void *work;
    stet_view *view;
    cert_task t;
    uint32_t *start, *word, *worst;
    cert_bound b;
} subject;

static void read_text(const world *w, size_t i, subject *s)
{
    stet_words *words;
    stet_bound *bound;
    stet_reading r = {0};
    stet_choices c = {0};
    const stet_str text = stet_dataset_text(w->data, i);
    CHECK_OK(stet_model_words(w->m, &words));
    CHECK_OK(stet_sets_bind(&w->sets, words, &bound));
    CHECK_OK(stet_words_read(words, text.data, text.len, &r));
    CHECK_OK(stet_bound_choices(bound, words, &r, &c));
    const size_t n = r.n;
    uint32_t *ids = mem_alloc(n, sizeof *ids);
    words_rows(words, r.ids, n, ids);
    s->start = mem_alloc(n + 1, sizeof *s->start);
    s->word = mem_alloc(n + c.start[c.n], sizeof *s->word);
    s->worst = mem_zalloc(n, sizeof *s->worst);
    s->b = (cert_bound){.drop = mem_alloc(n, sizeof(double)),
                        .worst = mem_zalloc(n, sizeof(uint32_t))};
    uint32_t made = 0;
    for (size_t p = 0; p < n; p++) {
        s->start[p] = made;
        s->word[made++] = ids[p];
        for (uint32_t k = c.start[p]; k < c.start[p + 1]; k++)
            words_rows(words, &c.word[k], 1, &s->word[made++]);
    }
    s->start[n] = made;
    s->t = (cert_task){.n = n, .start = s->start, .word = s->word, .budget = STET_ANY};
    CHECK_OK(s->view ? stet_view_reopen(s->view, ids, n)
                     : stet_view_open(w->m, NULL, ids, n, &s->view));
    s->t.label = stet_argmax(stet_view_logits(s->view), 2);
    mem_free(ids);
    stet_choices_deinit(&c);
    stet_reading_deinit(&r);
    stet_bound_free(bound);
    stet_words_free(words);
}

static void end_text(subject *s)
{
    mem_free(s->start);
    mem_free(s->word);
    mem_free(s->worst);
    mem_free(s->b.drop);
    mem_free(s->b.worst);
}

static double best_bound(subject *s)
{
    double best = -INFINITY;
    CHECK_OK(s->f->open(s->work, &s->t));
    for (size_t m = 0; s->f->methods[m]; m++) {
        s->b.additive = false;
        CHECK_OK(s->f->bound(s->work, m, 1 - s->t.label, 10, &s->b));
        best = fmax(best, s->b.margin);
        if (s->b.additive)
            memcpy(s->worst, s->b.worst, s->t.n * sizeof *s->worst);
    }
    return best;
}

/* A batch of variants: the lowest margin. */
static double sample(subject *s, rng *r)
{
    static size_t start[AT_ONCE + 1];
    static float logits[AT_ONCE * 2];
    stet_edit *edits = mem_alloc(s->t.n * AT_ONCE, sizeof *edits);
    size_t n = 0;
    for (size_t i = 0; i < AT_ONCE; i++) {
        const bool feared = i % 2;
        start[i] = n;
        for (size_t p = 0; p < s->t.n; p++) {
            const uint32_t count = s->start[p + 1] - s->start[p];
            const uint32_t k =
                feared && rng_below(r, 8) ? s->worst[p] : (uint32_t)rng_below(r, count);
            if (k)
                edits[n++] = (stet_edit){(uint32_t)p, s->word[s->start[p] + k]};
        }
    }
    start[AT_ONCE] = n;
    CHECK_OK(stet_view_edits(s->view, edits, start, AT_ONCE, logits));
    double least = INFINITY;
    for (size_t i = 0; i < AT_ONCE; i++)
        least = fmin(least, (double)logits[2 * i + (size_t)s->t.label] -
                                logits[2 * i + 1 - (size_t)s->t.label]);
    mem_free(edits);
    return least;
}

static void sampled_never_below(const char *kind)
{
    const char *wanted = getenv("STET_SAMPLES");
    const size_t total = wanted ? strtoull(wanted, NULL, 10) : 40000,
                 batches = total / (TEXTS * AT_ONCE) + 1;
    world w = {0};
    make(&w, kind);
    if (strcmp(stet_model_kind(w.m), kind) != 0)
        SKIP("another kind of model was named");
    const cert_family *f;
    CHECK_OK(cert_family_of(kind, &f));
    cert_shared shared;
    CHECK_OK(cert_shared_init(&shared, w.m, f));
    subject s = {.f = f};
    CHECK_OK(f->work_new(shared.impl, &s.work));
    rng r = rng_stream(2, STREAM_TEST, 0);
    size_t informative = 0;
    for (size_t i = 0; i < TEXTS; i++) {
        read_text(&w, i, &s);
        const double bound = best_bound(&s);
        informative += bound > -INFINITY;
        for (size_t k = 0; k < batches; k++)
            CHECK_LE(bound, sample(&s, &r));
        end_text(&s);
    }
    CHECK(informative > TEXTS / 2);
    stet_view_free(s.view);
    f->work_free(s.work);
    stet_model_free(w.m);
    stet_dataset_free(w.data);
    stet_sets_free(&w.sets);
}

TEST(no_sampled_review_is_below_a_bound_of_the_cnn)
{
    sampled_never_below("cnn");
}

TEST(no_sampled_review_is_below_a_bound_of_the_bilstm)
{
    sampled_never_below("bilstm");
}

TEST(no_sampled_review_is_below_a_bound_of_s4)
{
    sampled_never_below("s4");
}
