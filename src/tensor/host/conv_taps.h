/* tensor/host/conv_taps.h - what convolutions over words share.
 *
 * A window's response is the sum over its taps l of w[:, :, l] x, x being the row of the word under
 * the tap. Words repeat, so every row is projected on all taps once, and a window is a sum of k
 * gathered stretches. After max-pooling a gradient reaches few windows: for each filter and tap it
 * is a short list of rows with their factors. */
#ifndef TENSOR_HOST_CONV_TAPS_H
#define TENSOR_HOST_CONV_TAPS_H

#include "base/arena.h"
#include "tensor/host/panel.h"

typedef struct conv_filters {
    size_t F, D, k;
    const real *w; /* (F, D, k) as nn.Conv1d */
} conv_filters;

/* Columns of a projection: k F rounded up to whole panels. */
size_t conv_cols(const conv_filters *c);
/* p (n, cols; ld): column l F + f is w[f, :, l] x. */
stet_status conv_project(const conv_filters *c, const real *rows, size_t n, arena *mem, real *p,
                         size_t ld);

/* A text as the pooling kernel sees it: the projection of position t on tap l is at p + row[t] * ld
 * + l * tap. The kernel reads whole vectors: PANEL elements of room must follow the last row. */
typedef struct pooled_text {
    const uint32_t *row;
    size_t len;
    const real *p;
    size_t ld, tap;
} pooled_text;

/* best[f] = largest response of filter f < n over the windows of k words, at[f] where it is first.
 * A text shorter than k has one window, whose last taps see zeros. Both have room for a multiple of
 * PANEL. */
typedef void pool_kernel(const pooled_text *x, size_t k, size_t n, real *best, uint32_t *at);
pool_kernel *conv_pool_kernel(void); /* the best for this machine */

/* The responses alone, of TOP_FILTERS filters whose projections lie together: that of row r on tap l is
 * at p + (r k + l) TOP_FILTERS. len > 0. The sums have the bits of those above. */
enum { TOP_FILTERS = 16, TOP_SLIDES = 4 }; /* windows that are open at a word, in registers */
typedef void top_kernel(const uint32_t *row, size_t len, size_t k, const real *p, real *top);
top_kernel *conv_top_kernel(void);
/* The same of a text that was cut into n spans, whose windows are all of the text's: entry[s] of
 * `table` (entries, TOP_FILTERS) holds what the kernel above makes of span s, or is NO_ENTRY. */
typedef struct top_span {
    uint32_t first, words;
} top_span;
#define NO_ENTRY UINT32_MAX
typedef void joined_kernel(const uint32_t *row, const top_span *span, size_t n,
                           const uint32_t *entry, size_t k, const real *p, const real *table,
                           real *top);
joined_kernel *conv_joined_kernel(void);
/* The same of up to MIXED_COPIES copies of a text whose word t is a mixture of rows row[s], s from
 * at[t] to at[t + 1], in copy c with weight[c * slots + s]. top (copies, TOP_FILTERS);
 * k <= CONV_MOST_TAPS. */
enum { CONV_MOST_TAPS = 64, MIXED_COPIES = 2 };
typedef struct mixed_words {
    size_t len, copies, slots;
    const uint32_t *at, *row;
    const real *weight;
} mixed_words;
typedef void mixed_kernel(const mixed_words *x, size_t k, const real *p, real *top);
mixed_kernel *conv_mixed_kernel(void);

/* The same as a pool_kernel with the best of all other windows; -infinity where there is no other. */
typedef struct pool_two {
    real *best;
    uint32_t *at;
    real *next;
    uint32_t *next_at;
} pool_two;
typedef void pool_two_kernel(const pooled_text *x, size_t k, size_t n, const pool_two *out);
pool_two_kernel *conv_pool_two_kernel(void);

/* What the gradient of w[f, :, l] is the sum of: factors times rows. */
typedef struct tap_term {
    real g;
    uint32_t row;
} tap_term;

typedef struct tap_terms {
    size_t cap;
    tap_term *term; /* (F, k, cap) */
    uint32_t *n;    /* (F, k) */
} tap_terms;

/* Empty lists with room for `cap` terms each. */
stet_status tap_terms_make(const conv_filters *c, size_t cap, arena *mem, tap_terms *out);

static inline void tap_terms_add(const tap_terms *t, size_t list, real g, uint32_t row)
{
    t->term[list * t->cap + t->n[list]++] = (tap_term){g, row};
}

/* dw (F, D, k) += the terms, in their order. */
void conv_weight_gradient(const conv_filters *c, const tap_terms *t, const real *rows, real *dw);
/* The same for the rows (n, D) they name. */
stet_status conv_rows_gradient(const conv_filters *c, const tap_terms *t, arena *mem, real *drows);

#endif
