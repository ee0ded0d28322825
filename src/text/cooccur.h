/* text/cooccur.h - how often words of a corpus stand near each other. */
#ifndef TEXT_COOCCUR_H
#define TEXT_COOCCUR_H

#include "base/error.h"
#include "stet/text.h"

typedef struct cooc_entry {
    uint32_t row, col; /* word ids */
    float x;           /* sum of 1/distance over all places where they are at most `window` apart */
} cooc_entry;

typedef struct cooc_block {
    cooc_entry *v;
    size_t n, cap;
} cooc_block;

/* The nonzero entries, cut into blocks: word w is in group w % COOC_GROUPS, and the block (p, q)
 * has the entries with rows of group p and columns of group q. Blocks that share neither group
 * touch different words, so they can be worked on at the same time. Their number is fixed: nothing
 * depends on threads. */
enum { COOC_GROUPS = 32 };
typedef struct cooc {
    cooc_block block[COOC_GROUPS][COOC_GROUPS];
    size_t n; /* entries in all */
} cooc;

/* Count over `c`, whose ids are below `n_words`. Unknown words take up their place but are not
 * counted, and no pair crosses the border of a text. */
stet_status cooc_count(const stet_corpus *c, size_t n_words, size_t window, cooc *out);
void cooc_deinit(cooc *x);

#endif
