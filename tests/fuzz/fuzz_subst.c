/* tests/fuzz/fuzz_subst.c - substitution sets, built ones and JSON maps; what was read is
 * consistent and survives being written and read again. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "lexicon/subst.h"

static void use(const stet_subst *s)
{
    size_t pairs = 0;
    for (uint32_t w = 0; w < stet_subst_words(s); w++) {
        const char *word = stet_subst_word(s, w);
        if (stet_subst_word_id(s, word, strlen(word)) != w)
            abort();
        size_t n;
        const uint32_t *subs = stet_subst_of(s, w, &n);
        for (size_t i = 0; i < n; i++)
            if (!stet_subst_word(s, subs[i]) || subs[i] == w)
                abort();
        pairs += n;
    }
    stet_subst_stats stats;
    if (pairs != stet_subst_pairs(s) ||
        stet_subst_stats_of(s, NULL, STET_TOK_WORD, &stats) != STET_OK)
        abort();
}

/* A damaged image would be stopped by its fingerprint: give it the right one, so that the other
 * checks are tried too. */
static void try_image(const uint8_t *data, size_t size)
{
    enum { FINGERPRINT_AT = 16, HASHED_FROM = 24 };
    if (size < 64)
        return;
    unsigned char *image = mem_aligned(size, 1);
    if (!image)
        return;
    memcpy(image, data, size);
    const uint64_t h = hash_bytes(image + HASHED_FROM, size - HASHED_FROM, 0);
    memcpy(image + FINGERPRINT_AT, &h, sizeof h);
    stet_subst s = {0};
    if (subst_view(&s, image, size, "image") == STET_OK)
        use(&s);
    mem_free_aligned(image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_image(data, size);
    stet_subst *s, *again;
    if (stet_subst_load(fuzz_file(data, size), &s) != STET_OK)
        return 0;
    use(s);
    const uint64_t fingerprint = stet_subst_fingerprint(s);
    const char *path = fuzz_file(s->image, s->image_size);
    stet_subst_free(s);
    if (stet_subst_load(path, &again) != STET_OK || stet_subst_fingerprint(again) != fingerprint)
        abort();
    stet_subst_free(again);
    return 0;
}
