/* bound/bounds_cnn.h - bounds of a convolution over words, for every kind that is one (model/cnn.h). */
#ifndef BOUND_BOUNDS_CNN_H
#define BOUND_BOUNDS_CNN_H

#include "bound/bounds.h"

node *cnn_bound_term(const model *m, tape *t, node *const *params, const gbm_term_args *a,
                     gbm_report *report);
double cnn_bound_entries(const model *m, bool logits);
void cnn_bound_ranges(const model *m, pass *p, const worst_args *a, node *out[RANGE_SIDES]);
node *cnn_bound_joint(const model *m, pass *p, const worst_args *a, const node *mask, node *w,
                      node *b, node **value);
bool cnn_bound_no_joint(const model *m);
stet_status cnn_bound_matrix(const model *m, const stet_gbm_options *how, stet_gbm *g);
void cnn_bound_row_name(const stet_gbm *g, size_t row, char *out, size_t size);
void cnn_bound_col_name(const stet_gbm *g, size_t col, char *out, size_t size);

#define CNN_BOUNDS                                                                                 \
    {                                                                                              \
        .term = cnn_bound_term, .entries = cnn_bound_entries, .ranges = cnn_bound_ranges,          \
        .joint = cnn_bound_joint, .no_joint = cnn_bound_no_joint, .matrix = cnn_bound_matrix,      \
        .row_name = cnn_bound_row_name,                                                            \
        .col_name = cnn_bound_col_name,                                                            \
    }

#endif
