/* A small model with texts, labels and substitution sets, for tests of whole runs. */
#ifndef TESTS_MODEL_SMALL_WORLD_H
#define TESTS_MODEL_SMALL_WORLD_H

#include "base/file.h"
#include "model/small_model.h"
#include "stet/choices.h"
#include "test.h"

enum { TEXTS = 60 };

typedef struct world {
    stet_model *m;
    stet_dataset *data;
    stet_sets sets;
} world;

/* Random texts, most of which the model gets right; every word has up to three substitutes, one of
 * them outside the vocabulary. */
static inline void make(world *w, int kind, size_t longest, size_t classes)
{
    w->m = small_model(kind, classes, 7);
    rng r = rng_stream(3, STREAM_TEST, 1);
    static char text[TEXTS][512];
    stet_str texts[TEXTS];
    int labels[TEXTS];
    for (int i = 0; i < TEXTS; i++) {
        const size_t n = 2 + rng_below(&r, longest - 1);
        text[i][0] = '\0';
        for (size_t k = 0; k < n; k++)
            snprintf(text[i] + strlen(text[i]), sizeof text[i] - strlen(text[i]), "%sw%d",
                     k ? " " : "", (int)rng_below(&r, 30));
        if (i == 5)
            strcpy(text[i], " "); /* nothing to read */
        if (i == 6)
            strcpy(text[i], "unheard of"); /* nothing to change */
        texts[i] = (stet_str){text[i], strlen(text[i])};
        CHECK_OK(stet_model_predict(w->m, text[i], strlen(text[i]), NULL, &labels[i]));
        if (i % 10 == 9)
            labels[i] = (labels[i] + 1) % (int)classes;
    }
    static const char *const names[] = {"no", "yes", "perhaps"};
    CHECK_OK(stet_dataset_new(texts, labels, TEXTS, names, classes, &w->data));
    stet_subst_builder *b;
    CHECK_OK(stet_subst_builder_new(&b));
    for (int i = 0; i < 24; i++) {
        char word[8], one[8], two[8];
        snprintf(word, sizeof word, "w%d", i);
        snprintf(one, sizeof one, "w%d", (i + 11) % 40);
        snprintf(two, sizeof two, "w%d", (i + 23) % 40);
        const char *subs[] = {one, two, "strange"};
        CHECK_OK(stet_subst_add_list(b, word, subs, i % 3 == 0 ? 3 : 2));
    }
    w->sets.texts = NULL;
    CHECK_OK(stet_subst_build(b, &w->sets.words));
    stet_subst_builder_free(b);
}

static inline void unmake(world *w)
{
    stet_model_free(w->m);
    stet_dataset_free(w->data);
    stet_sets_free(&w->sets);
}

static inline char *read_all(const char *path)
{
    char *data;
    size_t size;
    CHECK_OK(file_read_all(path, 1 << 28, &data, &size));
    return data;
}

#endif
