/* tests/fuzz/fuzz_tagger.c - a tagger's file; what loads must give every word one of its tags. */
#include "fuzz.h"

#include <stdlib.h>

#include "stet/lexicon.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const words[] = {"This", "movie", "was", "", "state-of-the-art",
                                        "\xff", "."};
    enum { N = sizeof words / sizeof *words };
    const char *tags[N];
    stet_tagger *t;
    if (stet_tagger_load(fuzz_file(data, size), &t) != STET_OK)
        return 0;
    if (stet_tagger_tag(t, words, N, tags) != STET_OK)
        abort();
    for (size_t i = 0; i < N; i++) {
        if (!*tags[i])
            abort();
    }
    stet_tagger_free(t);
    return 0;
}
