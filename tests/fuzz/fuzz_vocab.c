/* tests/fuzz/fuzz_vocab.c - vocab.txt; what was read gives the same ids again. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "stet/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stet_vocab *v;
    if (stet_vocab_load(fuzz_file(data, size), &v) != STET_OK)
        return 0;
    for (uint32_t i = 0; i < stet_vocab_size(v); i++) {
        const char *word = stet_vocab_word(v, i);
        if (stet_vocab_id(v, word, strlen(word)) != i)
            abort();
    }
    stet_vocab_free(v);
    return 0;
}
