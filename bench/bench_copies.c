/* How many copies of a review a second does a TextCNN that votes answer: by the forward pass, by the
 * compiled model a few at a time, and by the compiled model all together, so that they share their
 * windows? The answers are compared first. A TextCNN of the default size with random weights, a text of
 * 230 words (IMDB's mean), and copies as RanMASK, Text-CRS and SAFER draw them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "bench.h"
#include "model/cnn.h"
#include "model/rule.h"

enum { WORDS = 20000, DIM = 300, LEN = 230, COPIES = 4096, FEW = 64, K = 2 };

static model *random_model(bool compiled)
{
    static char text[WORDS][16];
    static const char *words[WORDS];
    for (int i = 0; i < WORDS; i++) {
        snprintf(text[i], sizeof text[i], "w%d", i);
        words[i] = text[i];
    }
    const size_t n = WORDS + STET_FIRST_WORD;
    stet_vocab *v = NULL;
    model *m = NULL;
    float *data = mem_alloc(n * DIM, sizeof *data);
    rng r = rng_stream(1, STREAM_BENCH, 0);
    for (size_t i = 0; data && i < n * DIM; i++)
        data[i] = (float)(0.4 * rng_normal(&r));
    const stet_vectors t = {.n = n, .dim = DIM, .data = data};
    if (data && stet_vocab_from_words(words, WORDS, &v) == STET_OK) {
        const stet_model_new_args how = {
            .name = "cnn", .vocab = v, .vectors = &t, .max_len = 512, .n_classes = K, .seed = 1};
        if (stet_model_new(&how, &m) != STET_OK || (compiled && stet_model_compile(m) != STET_OK))
            m = NULL;
    }
    if (!m)
        fprintf(stderr, "%s\n", stet_last_error());
    stet_vocab_free(v);
    mem_free(data);
    return m;
}

static uint32_t any_word(rng *r)
{
    return STET_FIRST_WORD + (uint32_t)rng_below(r, WORDS);
}

/* Each word is masked with a chance of 0.7, or two of five words are one of `choices`. */
static void draw(rng *r, bool masks, size_t choices, uint32_t *ids)
{
    static uint32_t list[LEN][128];
    for (size_t t = 0; t < LEN; t++)
        for (size_t k = 0; k < choices; k++)
            list[t][k] = any_word(r);
    for (size_t i = 0; i < COPIES * LEN; i++) {
        const size_t t = i % LEN;
        const bool is_free = t % 5 < 2;
        ids[i] = masks ? rng_below(r, 10) < 7 ? STET_UNK : list[t][0]
                       : list[t][is_free ? rng_below(r, choices) : 0];
    }
}

typedef struct asked {
    const model *m;
    stet_corpus c;
    size_t at_once;
    float *logits;
} asked;

static void ask(void *ctx)
{
    const asked *a = ctx;
    for (size_t i = 0; i < a->c.n_texts; i += a->at_once) {
        const stet_corpus piece = corpus_piece(&a->c, i, a->at_once);
        if (model_network_logits(a->m, &piece, a->logits + i * K) != STET_OK)
            fprintf(stderr, "%s\n", stet_last_error());
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        bool masks;
        size_t choices;
    } kinds[] = {{"7 of 10 words masked", true, 1},
                 {"7 words at 2 of 5 places", false, 7},
                 {"100 words at 2 of 5 places", false, 100}};
    enum { WAYS = 3 };
    static const char *const who[WAYS] = {"forward pass", "64 copies", "4096 copies"};
    static uint32_t ids[COPIES * LEN];
    static uint64_t start[COPIES + 1];
    static int32_t label[COPIES];
    static float logits[WAYS][COPIES * K];
    bench_start(argc, argv, "copies", "copies of a text that a TextCNN votes on");
    model *plain = random_model(false), *m = random_model(true);
    if (!plain || !m)
        return 1;
    for (size_t i = 0; i < COPIES; i++)
        start[i + 1] = (i + 1) * LEN;
    const stet_corpus all = {COPIES, COPIES * LEN, K, ids, start, label};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        rng r = rng_stream(2, STREAM_BENCH, k);
        draw(&r, kinds[k].masks, kinds[k].choices, ids);
        asked a[WAYS] = {
            {plain, all, COPIES, logits[0]}, {m, all, FEW, logits[1]}, {m, all, COPIES, logits[2]}};
        bench_fn *fn[WAYS] = {ask, ask, ask};
        void *ctx[WAYS] = {&a[0], &a[1], &a[2]};
        bench_time t[WAYS];
        double worst = 0;
        for (size_t w = 0; w < WAYS; w++)
            ask(&a[w]);
        for (size_t i = 0; i < COPIES * K; i++)
            worst = fmax(worst, fabs((double)logits[0][i] - logits[2][i]));
        bench_check(kinds[k].name, worst, 1e-4);
        bench_check(kinds[k].name, memcmp(logits[1], logits[2], sizeof logits[1]) != 0, 0);
        bench_measure_each(fn, ctx, WAYS, t);
        for (size_t w = 0; w < WAYS; w++)
            bench_rate(kinds[k].name, who[w], t[w], COPIES, "copies/s");
    }
    stet_model_free(plain);
    stet_model_free(m);
    return bench_finish();
}
