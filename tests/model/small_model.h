/* tests/model/small_model.h - random models of every kind, small enough to try everything. */
#ifndef TESTS_SMALL_MODEL_H
#define TESTS_SMALL_MODEL_H

#include "base/mem.h"
#include "base/rng.h"
#include "model/model_impl.h"
#include "test.h"

enum { SMALL_WORDS = 40, SMALL_DIM = 12, SMALL_MAX_LEN = 32 };

static const char *const small_cnn[] = {"filters=9", "kernels=2,3,5", NULL};
static const char *const small_cnn_dense[] = {"filters=9", "kernels=2,3,5", "dense=11", NULL};
static const char *const small_cnn_wide[] = {"filters=17", "kernels=1,4,7", NULL};
static const char *const small_bilstm[] = {"hidden=7", NULL};
static const char *const small_bilstm_max[] = {"hidden=7", "pool=max", NULL};
static const char *const small_bilstm_mean[] = {"hidden=7", "pool=mean", NULL};
static const char *const small_s4[] = {"channels=8", "state=6", NULL};
static const char *const small_s4_deep[] = {"channels=8", "state=6", "layers=2", NULL};
static const char *const small_s4_relu[] = {"channels=8", "state=6", "s4-block=relu", "s4-pool=max",
                                            NULL};
static const char *const small_s4_relu_deep[] = {"channels=8", "state=6", "layers=2",
                                                 "s4-block=relu", NULL};
static const char *const small_s4_max[] = {"channels=8", "state=6", "s4-pool=max", NULL};
static const char *const small_bilstm_span[] = {"hidden=7", "pool=max", "span=4", NULL};
static const char *const small_bilstm_mean_span[] = {"hidden=7", "pool=mean", "span=5", NULL};
static const char *const small_s4_span[] = {"channels=8", "state=6",  "s4-block=relu",
                                            "s4-pool=max", "span=4", NULL};
static const char *const small_s4_deep_span[] = {"channels=8", "state=6", "layers=2", "span=3",
                                                 NULL};
static const char *const small_s4_bare[] = {"channels=8", "state=6", "s4-block=bare",
                                            "s4-pool=max", "span=4", "s4-memory=4", NULL};
static const char *const small_s4_bare_deep[] = {"channels=8", "state=6", "layers=2",
                                                 "s4-block=bare", NULL};
static const char *const small_s4_mean_span[] = {"channels=8", "state=6", "span=5", NULL};
static const char *const small_s4cnn[] = {"filters=5", "kernels=2,5", "rank=2", "state=6", NULL};
static const char *const small_sum[] = {NULL};
static const char *const small_sum_net[] = {"score-hidden=6", NULL};
static const char *const small_cnn_net[] = {"filters=9", "kernels=2,3,5", "score-hidden=6", NULL};
static const char *const small_bilstm_net[] = {"hidden=7", "score-hidden=5", NULL};
static const char *const small_s4_net[] = {"channels=8", "state=6", "score-hidden=4", NULL};
static const struct {
    const char *name;
    const char *const *settings;
    bool scores; /* words have scores of their own */
} small_kinds[] = {{"cnn", small_cnn, false},
                   {"bilstm", small_bilstm, false},
                   {"s4", small_s4, false},
                   {"s4", small_s4_deep, false},
                   {"cnn", small_cnn, true},
                   {"bilstm", small_bilstm, true},
                   {"s4", small_s4, true},
                   {"sum", small_sum, true},
                   {"sum", small_sum_net, true},
                   {"bilstm", small_bilstm_max, false},
                   {"bilstm", small_bilstm_mean, true},
                   {"s4", small_s4_relu, false},
                   {"s4", small_s4_relu_deep, true},
                   {"s4", small_s4_max, false},
                   {"bilstm", small_bilstm_span, false},
                   {"bilstm", small_bilstm_mean_span, true},
                   {"s4", small_s4_span, true},
                   {"s4", small_s4_deep_span, false},
                   {"s4", small_s4_mean_span, false},
                   {"s4", small_s4_bare, true},
                   {"s4", small_s4_bare_deep, false},
                   {"cnn", small_cnn_dense, false},
                   {"cnn", small_cnn_dense, true},
                   {"cnn", small_cnn_wide, false},
                   {"s4cnn", small_s4cnn, true},
                   {"cnn", small_cnn_net, true},
                   {"bilstm", small_bilstm_net, true},
                   {"s4", small_s4_net, true}};
enum { SMALL_KINDS = sizeof small_kinds / sizeof *small_kinds };

static size_t small_word_layer; /* units of a word layer that models get; 0: none */

static inline model *small_model(int kind, size_t n_classes, uint64_t seed)
{
    char text[SMALL_WORDS][16];
    const char *words[SMALL_WORDS];
    for (int i = 0; i < SMALL_WORDS; i++) {
        snprintf(text[i], sizeof text[i], "w%d", i);
        words[i] = text[i];
    }
    stet_vocab *v;
    CHECK_OK(stet_vocab_from_words(words, SMALL_WORDS, &v));
    enum { N = SMALL_WORDS + STET_FIRST_WORD };
    static float data[N * SMALL_DIM];
    rng r = rng_stream(seed, STREAM_TEST, 99);
    for (int i = 0; i < N * SMALL_DIM; i++)
        data[i] = i < SMALL_DIM ? 0 : (float)rng_normal(&r);
    const stet_vectors t = {.n = N, .dim = SMALL_DIM, .data = data};
    const stet_model_new_args how = {.name = small_kinds[kind].name,
                                     .settings = small_kinds[kind].settings,
                                     .vocab = v,
                                     .vectors = &t,
                                     .max_len = SMALL_MAX_LEN,
                                     .n_classes = n_classes,
                                     .word_scores = small_kinds[kind].scores,
                                     .word_layer = small_word_layer,
                                     .seed = seed};
    model *m;
    CHECK_OK(stet_model_new(&how, &m));
    for (size_t i = 0; m->scores >= 0 && i < m->n_words * n_classes; i++)
        model_value(m, m->scores)[i] = (real)(0.3 * rng_normal(&r));
    stet_vocab_free(v);
    return m;
}

#endif
