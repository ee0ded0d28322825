/* How many single-word variants of a review a second, by incremental and by full evaluation, on one core? The
 * answers of both are compared first. Models of the default size with random weights, a text of 230 words (IMDB's mean). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "model/variants.h"

enum { WORDS = 5000, DIM = 300, LEN = 230, VARIANTS = 2000, FULL = 64 };

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static model *random_model(const char *kind)
{
    static char text[WORDS][16];
    static const char *words[WORDS];
    for (int i = 0; i < WORDS; i++) {
        snprintf(text[i], sizeof text[i], "w%d", i);
        words[i] = text[i];
    }
    stet_vocab *v;
    model *m = NULL;
    const size_t n = WORDS + STET_FIRST_WORD;
    float *data = mem_alloc(n * DIM, sizeof *data);
    rng r = rng_stream(1, STREAM_BENCH, 0);
    for (size_t i = 0; data && i < n * DIM; i++)
        data[i] = (float)(0.4 * rng_normal(&r));
    if (data && stet_vocab_from_words(words, WORDS, &v) == STET_OK) {
        const stet_vectors t = {.n = n, .dim = DIM, .data = data};
        const stet_model_new_args how = {
            .name = kind, .vocab = v, .vectors = &t, .max_len = 512, .n_classes = 2, .seed = 1};
        if (stet_model_new(&how, &m) != STET_OK || stet_model_compile(m) != STET_OK)
            fprintf(stderr, "%s\n", stet_last_error());
        stet_vocab_free(v);
    }
    mem_free(data);
    return m;
}

static int bench(const char *kind)
{
    model *m = random_model(kind);
    if (!m)
        return 1;
    static uint32_t ids[LEN];
    static stet_edit edits[VARIANTS];
    static size_t start[VARIANTS + 1];
    static float fast[VARIANTS * 2], slow[FULL * 2];
    rng r = rng_stream(2, STREAM_BENCH, 0);
    for (int i = 0; i < LEN; i++)
        ids[i] = (uint32_t)rng_below(&r, WORDS) + STET_FIRST_WORD;
    for (size_t i = 0; i < VARIANTS; i++) {
        edits[i] = (stet_edit){(uint32_t)rng_below(&r, LEN),
                               (uint32_t)rng_below(&r, WORDS) + STET_FIRST_WORD};
        start[i + 1] = i + 1;
    }
    stet_view *v;
    if (stet_view_open(m, NULL, ids, LEN, &v) != STET_OK ||
        stet_view_edits(v, edits, start, VARIANTS, fast) != STET_OK)
        return fprintf(stderr, "%s\n", stet_last_error()), 1;
    double t = now();
    if (variants_whole(m, ids, LEN, edits, start, FULL, slow) != STET_OK)
        return fprintf(stderr, "%s\n", stet_last_error()), 1;
    const double full = FULL / (now() - t);
    double worst = 0, best = 0;
    for (size_t i = 0; i < FULL * 2; i++)
        worst = fmax(worst, fabs((double)fast[i] - slow[i]));
    for (int turn = 0; turn < 20; turn++) {
        t = now();
        (void)stet_view_edits(v, edits, start, VARIANTS, fast);
        best = fmax(best, VARIANTS / (now() - t));
    }
    printf("%-7s %10.0f variants/s, full evaluation %7.0f/s, %.0f times; largest difference of "
           "logits %.1e\n",
           kind, best, full, best / full, worst);
    stet_view_free(v);
    stet_model_free(m);
    return worst > 1e-4;
}

int main(void)
{
    stet_set_threads(1);
    return bench("cnn") | bench("bilstm") | bench("s4");
}
