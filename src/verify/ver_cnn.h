/* verify/ver_cnn.h - between ver_cnn.c, ver_cnn_dense.c and ver_cnn_joint.c. */
#ifndef VERIFY_VER_CNN_H
#define VERIFY_VER_CNN_H

#include "verify/ver_scores.h"

/* Products of a word: p[first[kernel] + l * filters + f], and q. */
typedef struct cnn_products {
    double *p, *q;
} cnn_products;

/* Windows of a kernel: ranges of the float32 values, (windows, filters). */
typedef struct cnn_windows {
    size_t n, first;
    double g;
    double *lo, *hi;
} cnn_windows;

typedef struct cnn_state {
    cnn_windows w[VER_CNN_KERNELS];
    size_t width;
    double *y_lo, *y_hi; /* (kernels * filters) after ReLU and maximum */
    double *y;           /* scratch, as many */
    double *u_lo, *u_hi; /* (features) of a layer before the last, after ReLU */
    double *drop;        /* scratch, (positions) */
} cnn_state;

stet_status ver_cnn_open(ver_work *w);
const cnn_products *ver_cnn_word(const ver_work *w, size_t i); /* of word i of the task */
double ver_cnn_weight(const ver_model *m, int label, int other, size_t f); /* om_f */
/* A feature of the references in real arithmetic; *error takes what float32 may get wrong about it
 * on any text of the task: at most the widest window error. */
double ver_cnn_feature(const ver_work *w, size_t f, double *error);
ver_sum ver_cnn_head(const ver_work *w, int label,
                     int other); /* biases, rounding of the last layer */

/* The bound that a witness leads to. */
stet_status ver_cnn_joint(ver_work *w, int label, int other, const json_t *witness, double *out);

#endif
