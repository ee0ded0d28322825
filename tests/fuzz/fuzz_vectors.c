/* tests/fuzz/fuzz_vectors.c - files of word vectors: a few words of them, and all. */
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>

#include "stet/text.h"

static void check(const stet_vectors *t, const stet_vocab *v)
{
    size_t known = 0;
    for (size_t i = 0; i < t->n; i++)
        known += t->known[i];
    if (t->n != stet_vocab_size(v) || known != t->n_known)
        abort();
    for (size_t i = STET_FIRST_WORD * t->dim; i < t->n * t->dim; i++)
        if (!isfinite(t->data[i]))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const words[] = {"the", "film", "1998", ".", "at name@domain.com", "absent"};
    const char *path = fuzz_file(data, size);
    stet_vocab *v;
    stet_vectors t;
    if (stet_vocab_from_words(words, sizeof words / sizeof *words, &v) != STET_OK)
        abort();
    if (stet_vectors_load(&path, 1, v, &t) == STET_OK) {
        check(&t, v);
        stet_vectors_deinit(&t);
    }
    stet_vocab_free(v);
    if (stet_vectors_load_all(&path, 1, &v, &t) == STET_OK) {
        check(&t, v);
        stet_vectors_deinit(&t);
        stet_vocab_free(v);
    }
    return 0;
}
