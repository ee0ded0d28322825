/* verify/ver_exact_cnn.h - between ver_exact_cnn.c and ver_exact_joint.c.
 *
 * One feature is looked at after the other: the values of all its words, over the common denominator
 * 2^298 (2^24 - n), then its windows, its range, and its share of the bound. */
#ifndef VERIFY_VER_EXACT_CNN_H
#define VERIFY_VER_EXACT_CNN_H

#include "verify/ver_exact_words.h"

typedef struct exact_cnn {
    exact_words words; /* the bound */
    const json_t *witness;
    bool limited;
    /* of the feature at work */
    size_t kernel, filter, k, windows;
    mpz_t n, M;       /* gamma = n / M */
    mpq_t unit;       /* 2^-298 / M: what one is worth */
    mpz_t *lo, *hi;   /* (words, k) of float32's word at a tap */
    mpz_t b_lo, b_hi; /* of its bias */
    mpz_t *end;       /* (windows) upper ends */
    mpz_t y_lo, y_hi;
    mpq_t om, by;  /* the feature's weight in the margin, and its part at work */
    mpq_t head;    /* sizes of the last layer's terms */
    mpz_t x, y, z; /* scratch */
    mpq_t q, r;
} exact_cnn;

static inline mpz_t *exact_value(const exact_cnn *e, mpz_t *of, size_t i, size_t l)
{
    return &of[i * e->k + l];
}

/* by * x * unit onto a sum. */
void exact_add(exact_cnn *e, mpq_t sum, const mpq_t by, const mpz_t x);

/* The witness's rows of feature f, onto the bound; what their weights leave of 1 into e->r. */
void exact_joint_rows(exact_cnn *e, size_t f);

#endif
