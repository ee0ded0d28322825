/* tests/fuzz/fuzz_model.h - a small CNN: 6 words of 4 numbers, 2 filters, 2 classes. */
#ifndef STET_FUZZ_MODEL_H
#define STET_FUZZ_MODEL_H

#include <stdlib.h>

#include "stet/model.h"

static inline stet_model *fuzz_model(void)
{
    static const char *const words[] = {"good", "bad", "film", "w1"};
    static const char *const settings[] = {"filters=2", "kernels=1,2", NULL};
    static float data[6 * 4];
    for (int i = 4; i < 6 * 4; i++)
        data[i] = (float)(i % 7) / 7 - 0.4f;
    const stet_vectors vectors = {.n = 6, .dim = 4, .data = data};
    stet_vocab *v;
    stet_model *m;
    if (stet_vocab_from_words(words, 4, &v) != STET_OK ||
        stet_model_new(&(stet_model_new_args){.name = "cnn",
                                              .settings = settings,
                                              .vocab = v,
                                              .vectors = &vectors,
                                              .max_len = 16,
                                              .n_classes = 2,
                                              .seed = 1},
                       &m) != STET_OK)
        abort();
    stet_vocab_free(v);
    return m;
}

#endif
