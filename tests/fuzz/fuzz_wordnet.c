/* tests/fuzz/fuzz_wordnet.c - the input is four files with a line "%%" between them: index.noun,
 * data.noun, noun.exc and cntlist.rev; the rest of the database is empty. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "lexicon/wordnet.h"
#include "stet/lexicon.h"
#include "stet/option.h"

enum { GIVEN = 4, FILES = 13 };
static const char *const names[FILES] = {
    "index.noun", "data.noun", "noun.exc", "cntlist.rev", "index.verb", "index.adj", "index.adv",
    "data.verb",  "data.adj",  "data.adv", "verb.exc",    "adj.exc",    "adv.exc"};
static void write_files(const uint8_t *data, size_t size)
{
    const uint8_t *p = data, *end = data + size;
    for (size_t i = 0; i < GIVEN; i++) {
        const uint8_t *mark = memmem(p, (size_t)(end - p), "%%\n", 3);
        fuzz_put(names[i], p, (size_t)((mark ? mark : end) - p));
        p = mark ? mark + 3 : end;
    }
}

static void look_up(const stet_wordnet *w, const char *word)
{
    for (int pos = 0; pos <= STET_OTHER; pos++) {
        char **list;
        size_t n;
        wordnet_reading r;
        const stet_wn_variant variant = pos == STET_OTHER ? STET_WN_TEXTATTACK : STET_WN_OPENATTACK;
        if (stet_wordnet_synonyms(w, word, (stet_pos)pos, variant, &list, &n) == STET_OK) {
            for (size_t i = 0; i < n; i++) {
                if (!*list[i])
                    abort();
            }
        }
        stet_free(list);
        if (pos < STET_OTHER)
            (void)wordnet_read(w, word, (stet_pos)pos, &r);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    for (size_t i = GIVEN; i < FILES && !made; i++)
        fuzz_put(names[i], (const uint8_t *)"", 0);
    made = true;
    write_files(data, size);
    stet_wordnet *w;
    if (stet_wordnet_open(fuzz_folder(), &w) != STET_OK)
        return 0;
    static const char *const words[] = {"cat", "cats", "mice", "Tom", "be", "a"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        look_up(w, words[i]);
    stet_wordnet_free(w);
    return 0;
}
