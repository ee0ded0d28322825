/* tests/fuzz/fuzz_subst_texts.c - sets that hold at one position of one text. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "stet/lexicon.h"

static void use(const stet_subst_texts *s, size_t i, stet_tokens *t)
{
    const stet_str text = stet_subst_texts_text(s, i);
    const size_t positions = stet_subst_texts_positions(s, i);
    for (size_t p = 0; p < positions; p++) {
        size_t n;
        const char *const *at = stet_subst_texts_at(s, i, p, &n);
        for (size_t k = 0; k < n; k++)
            if (strlen(at[k]) == 0)
                abort();
    }
    size_t found;
    if (stet_subst_texts_find(s, text.data, text.len, &found) != STET_OK || found > i)
        abort(); /* a text finds itself, or an earlier one with the same letters */
    if (stet_tokenize(STET_TOK_WORD, text.data, text.len, t) != STET_OK)
        return;
    size_t *position = malloc((t->n + 1) * sizeof *position);
    if (!position)
        return;
    stet_subst_texts_align(s, i, text.data, text.len, t, position);
    for (size_t k = 0; k < t->n; k++)
        if (position[k] != SIZE_MAX && position[k] >= positions)
            abort();
    free(position);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stet_subst_texts *s;
    if (stet_subst_texts_load(fuzz_file(data, size), &s) != STET_OK)
        return 0;
    stet_tokens t = {0};
    for (size_t i = 0; i < stet_subst_texts_count(s); i++)
        use(s, i, &t);
    stet_tokens_deinit(&t);
    stet_subst_texts_free(s);
    return 0;
}
