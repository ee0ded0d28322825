/* tests/fuzz/fuzz_subst_sources.c - the line formats of substitution sets: pairs, stop words,
 * sememes and forms. The first byte says which. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stet/lexicon.h"

/* Senses for the forms to belong to. */
static const char *senses(void)
{
    static char path[128];
    static const char text[] = "film\tn\t1\tbn:1\ta\nmovie\tn\t1\tbn:1\ta\nbig\ta\t2\tbn:2\tb\n";
    if (!path[0]) {
        fuzz_put("senses", (const uint8_t *)text, strlen(text));
        snprintf(path, sizeof path, "%s/senses", fuzz_folder());
    }
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *path = fuzz_file(data + 1, size - 1);
    stet_subst_builder *b;
    if (stet_subst_builder_new(&b) != STET_OK)
        return 0;
    stet_status st;
    switch (data[0] % 4) {
    case 0:
        st = stet_subst_add_pairs(b, path);
        break;
    case 1:
        st = stet_subst_add_sememes(b, path, NULL);
        break;
    case 2:
        st = stet_subst_add_sememes(b, senses(), path);
        break;
    default:
        st = stet_subst_add_pairs(b, path);
        if (st == STET_OK)
            st = stet_subst_drop_pairs(b, path);
        if (st == STET_OK)
            st = stet_subst_drop_stop_words(b, path);
    }
    stet_subst *s;
    if (st == STET_OK && stet_subst_make_symmetric(b) == STET_OK &&
        stet_subst_build(b, &s) == STET_OK) {
        if (data[0] % 4 == 3 && stet_subst_pairs(s) > 0)
            abort(); /* every pair was dropped */
        stet_subst_free(s);
    }
    stet_subst_builder_free(b);
    return 0;
}
