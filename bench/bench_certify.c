/* How many reviews a second does each bound of the text CNN take? A model of the default size with
 * random weights and texts with the statistics of IMDB under Jia et al.'s sets: 230 words, 44 of
 * 100 can be replaced, by 5.6 words on average. Tasks are opened anew for every bound, as on one
 * core of a run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "bench.h"
#include "certify/certify_impl.h"

enum { WORDS = 30000, DIM = 300, LEN = 230, REVIEWS = 32, MOST = 8, REFINE = 30 };

static void must(stet_status st)
{
    if (st == STET_OK)
        return;
    fprintf(stderr, "%s\n", stet_last_error());
    exit(1);
}

/* Words in groups of MOST neighbours whose vectors are alike. */
static float *vectors(size_t n, rng *r)
{
    float *x = mem_alloc(n * DIM, sizeof *x);
    if (!x)
        must(STET_ENOMEM);
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < DIM; d++)
            x[i * DIM + d] = (float)(i % MOST ? x[(i - i % MOST) * DIM + d] + 0.1 * rng_normal(r)
                                              : 0.4 * rng_normal(r));
    return x;
}

static model *random_model(void)
{
    static char text[WORDS][16];
    static const char *words[WORDS];
    for (int i = 0; i < WORDS; i++) {
        snprintf(text[i], sizeof text[i], "w%d", i);
        words[i] = text[i];
    }
    const size_t n = WORDS + STET_FIRST_WORD;
    rng r = rng_stream(1, STREAM_BENCH, 0);
    float *data = vectors(n, &r);
    stet_vocab *v;
    model *m;
    must(stet_vocab_from_words(words, WORDS, &v));
    const stet_vectors t = {.n = n, .dim = DIM, .data = data};
    const stet_model_new_args how = {
        .name = "cnn", .vocab = v, .vectors = &t, .max_len = 512, .n_classes = 2, .seed = 1};
    must(stet_model_new(&how, &m));
    must(stet_model_compile(m));
    stet_vocab_free(v);
    mem_free(data);
    return m;
}

typedef struct review {
    uint32_t start[LEN + 1], word[LEN * MOST];
    cert_task task;
} review;

/* Words by Zipf's law; the sets of replaceable ones have 3 to MOST words. */
static void random_review(const model *m, rng *r, review *out)
{
    for (size_t p = 0; p < LEN; p++) {
        const size_t groups = (m->n_words - MOST) / MOST,
                     first = MOST * (size_t)(exp(rng_double(r) * log((double)groups)));
        const size_t count = rng_below(r, 100) < 44 ? 5 + rng_below(r, MOST - 4) : 1;
        for (size_t s = 0; s < count; s++)
            out->word[out->start[p] + s] = (uint32_t)(first + s);
        out->start[p + 1] = out->start[p] + (uint32_t)count;
    }
    out->task = (cert_task){
        .n = LEN, .start = out->start, .word = out->word, .budget = STET_ANY, .label = 0};
}

typedef struct job {
    const review *review;
    void *work;
    size_t method, next;
    double sum;
} job;

static void bound_one(void *ctx)
{
    job *j = ctx;
    static double drop[LEN];
    static uint32_t worst[LEN];
    cert_bound b = {.drop = drop, .worst = worst};
    must(cert_cnn.open(j->work, &j->review[j->next++ % REVIEWS].task));
    must(cert_cnn.bound(j->work, j->method, 1, REFINE, &b));
    j->sum = b.margin;
}

int main(int argc, char **argv)
{
    bench_start(argc, argv, "certify", "reviews a second and core, by bound of the CNN");
    model *m = random_model();
    review *reviews = mem_zalloc(REVIEWS, sizeof *reviews);
    rng r = rng_stream(2, STREAM_BENCH, 0);
    void *shared, *work;
    must(reviews ? STET_OK : STET_ENOMEM);
    for (size_t i = 0; i < REVIEWS; i++)
        random_review(m, &r, &reviews[i]);
    must(cert_cnn.prepare(m, &shared));
    must(cert_cnn.work_new(shared, &work));
    double ibp = 0;
    for (size_t method = 0; cert_cnn.methods[method]; method++) {
        job j = {.review = reviews, .work = work, .method = method};
        bound_one(&j);
        ibp = method == 0 ? j.sum : ibp;
        if (method == 1) /* joint is not below intervals */
            bench_check("order", fmax(0, ibp - j.sum), 1e-3);
        bench_rate(cert_cnn.methods[method], "cnn", bench_measure(bound_one, &j), 1, "reviews/s");
    }
    cert_cnn.work_free(work);
    cert_cnn.shared_free(shared);
    mem_free(reviews);
    stet_model_free(m);
    return bench_finish();
}
