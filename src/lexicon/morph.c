/* lexicon/morph.c - see morph.h. The rules are the table of morphy(7WN) with NLTK's one addition
 * ("ves" to "f"), because the attacks that look words up were defined on NLTK's reader. Like NLTK
 * and unlike WordNet's own program, the rules apply once and every form counts, not the first. */
#include "lexicon/morph.h"

#include <string.h>

typedef struct detachment {
    const char *suffix, *ending;
} detachment;

enum { MAX_RULES = 10 };
static const detachment rules[STET_OTHER][MAX_RULES] = {
    [STET_NOUN] = {{"s", ""},
                   {"ses", "s"},
                   {"ves", "f"},
                   {"xes", "x"},
                   {"zes", "z"},
                   {"ches", "ch"},
                   {"shes", "sh"},
                   {"men", "man"},
                   {"ies", "y"}},
    [STET_VERB] = {{"s", ""},
                   {"ies", "y"},
                   {"es", "e"},
                   {"es", ""},
                   {"ed", "e"},
                   {"ed", ""},
                   {"ing", "e"},
                   {"ing", ""}},
    [STET_ADJ] = {{"er", ""}, {"est", ""}, {"er", "e"}, {"est", "e"}},
};

static bool ends_with(const char *word, size_t len, const char *suffix)
{
    const size_t n = strlen(suffix);
    return n <= len && memcmp(word + len - n, suffix, n) == 0;
}

stet_status morph_forms(const wn_file *exceptions, stet_pos pos, const char *word, size_t len,
                        morph_visit *visit, void *ctx)
{
    if (len == 0 || len > MORPH_WORD_MAX)
        return STET_OK;
    TRY(visit(ctx, word, len));

    stet_str line, form;
    if (wn_file_find(exceptions, word, len, &line)) {
        wn_fields fields = {exceptions, line.data, line.data + line.len};
        wn_fields_next(&fields, &form); /* the inflected form */
        while (wn_fields_next(&fields, &form)) {
            if (form.len <= MORPH_WORD_MAX)
                TRY(visit(ctx, form.data, form.len));
        }
        return STET_OK;
    }
    for (const detachment *r = rules[pos]; r < rules[pos] + MAX_RULES && r->suffix; r++) {
        if (!ends_with(word, len, r->suffix))
            continue;
        char base[MORPH_WORD_MAX]; /* no ending is longer than its suffix */
        const size_t stem = len - strlen(r->suffix), ending = strlen(r->ending);
        memcpy(base, word, stem);
        memcpy(base + stem, r->ending, ending);
        TRY(visit(ctx, base, stem + ending));
    }
    return STET_OK;
}
