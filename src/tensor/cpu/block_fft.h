/* tensor/cpu/block_fft.h - causal convolution of some channels side by side, in blocks of 64
 * tokens.
 *
 * A block is a polynomial of degree 63 with real coefficients. The transform evaluates it at the 64
 * roots of x^64 = i. The product of two blocks, reduced modulo x^64 - i, is
 *
 *     low + i high,    low + high x^64 being the full product,
 *
 * so one complex transform of length 64 gives both halves of a real convolution of length 128: the
 * real part belongs to the block itself, the imaginary part to the next one. Longer convolutions
 * are sums of such products over pairs of blocks, made before the way back.
 *
 * The transform is the tree x^2m - r^2 = (x^m - r)(x^m + r), six levels, three at a time in
 * registers; each node has one root, and no reordering is ever needed since products do not care
 * about order. */
#ifndef TENSOR_CPU_BLOCK_FFT_H
#define TENSOR_CPU_BLOCK_FFT_H

#include <math.h>

#include "tensor/tensor.h"

enum {
    FFT_BLOCK = 64,
    FFT_STRIDE = FFT_BLOCK + 1 /* from block to block: a power of two would crowd one cache set */
};

/* Root v: node v splits x^2m - root^2; its children are 2v and 2v + 1. */
typedef struct fft_roots {
    real re[FFT_BLOCK], im[FFT_BLOCK];
} fft_roots;

static inline void fft_roots_init(fft_roots *w)
{
    const double quarter = acos(0);
    double angle[FFT_BLOCK] = {0, quarter / 2}; /* the square root of i */
    w->re[0] = w->im[0] = 0;
    for (int v = 1; v < FFT_BLOCK; v++) {
        if (v > 1)
            angle[v] = angle[v / 2] / 2 + (v % 2 ? quarter : 0); /* of r, or of -r */
        w->re[v] = (real)cos(angle[v]);
        w->im[v] = (real)sin(angle[v]);
    }
}

#endif
