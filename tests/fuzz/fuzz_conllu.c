/* tests/fuzz/fuzz_conllu.c - treebanks: what can be read can be trained on and scored. */
#include "fuzz.h"

#include <stdlib.h>

#include "stet/lexicon.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(data, size);
    stet_tagger *t;
    size_t right, total;
    if (stet_tagger_train(path, 2, 1, &t) != STET_OK)
        return 0;
    if (stet_tagger_eval(t, path, &right, &total) != STET_OK || total == 0 || right > total)
        abort();
    stet_tagger_free(t);
    return 0;
}
