/* lexicon/nearest.h - exact nearest neighbours of every row of a table among the other rows. */
#ifndef LEXICON_NEAREST_H
#define LEXICON_NEAREST_H

#include "stet/lexicon.h"

#define NEAREST_NONE UINT32_MAX

typedef struct nearest_options {
    size_t k;
    stet_metric metric;
    double threshold; /* l2, l2sq: at most this; cos: at least this */
    bool strict;      /* the threshold itself is out */
} nearest_options;

/* What rows are ranked by: the squared distance (l2 and l2sq alike) or the cosine (0 if a row is
 * zero), evaluated in double, coordinate by coordinate. */
double nearest_value(stet_metric metric, const float *a, const float *b, size_t dim);

/* For each row of x (n, dim) its k nearest other rows, nearest first, ties by the smaller row, as
 * ids (n, k) with NEAREST_NONE after the last one; value (n, k) gets their nearest_value unless it
 * is NULL. The result is exactly that of comparing all values in double. */
stet_status nearest_find(const float *x, size_t n, size_t dim, const nearest_options *how,
                         uint32_t *ids, double *value);

#endif
