/* tensor/cpu/block_fft.h - causal convolution of channels in lines, in blocks of 64 tokens.
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

#include "tensor/cpu/channels.h"

enum {
    FFT_BLOCK = 64,
    FFT_STRIDE = FFT_BLOCK + 1 /* from block to block: a power of two would crowd one cache set */
};

typedef struct vcomplex {
    vreal re, im;
} vcomplex;

/* root[v]: node v splits x^2m - root^2; its children are 2v and 2v + 1. */
typedef struct fft_roots {
    real re[FFT_BLOCK], im[FFT_BLOCK];
} fft_roots;

static inline void fft_roots_init(fft_roots *w)
{
    const double quarter = acos(0);
    double angle[FFT_BLOCK] = {0, quarter / 2}; /* the square root of i */
    for (int v = 1; v < FFT_BLOCK; v++) {
        if (v > 1)
            angle[v] = angle[v / 2] / 2 + (v % 2 ? quarter : 0); /* of r, or of -r */
        w->re[v] = (real)cos(angle[v]);
        w->im[v] = (real)sin(angle[v]);
    }
    w->re[0] = w->im[0] = 0;
}

/* (a, b) -> (a + r b, a - r b) and, times 2, back */
static ALWAYS_INLINE void fft_split(vcomplex *a, vcomplex *b, const fft_roots *w, int v)
{
    const vreal re = w->re[v] * b->re - w->im[v] * b->im, im = w->re[v] * b->im + w->im[v] * b->re;
    *b = (vcomplex){a->re - re, a->im - im};
    *a = (vcomplex){a->re + re, a->im + im};
}

static ALWAYS_INLINE void fft_merge(vcomplex *a, vcomplex *b, const fft_roots *w, int v)
{
    const vreal re = a->re - b->re, im = a->im - b->im;
    *a = (vcomplex){a->re + b->re, a->im + b->im};
    *b = (vcomplex){w->re[v] * re + w->im[v] * im, w->re[v] * im - w->im[v] * re};
}

/* Eight values of node v: four of each of its children, two of each grandchild. */
static ALWAYS_INLINE void fft_split_children(vcomplex x[8], const fft_roots *w, int v)
{
    for (int i = 0; i < 2; i++) {
        fft_split(&x[i], &x[i + 2], w, 2 * v);
        fft_split(&x[i + 4], &x[i + 6], w, 2 * v + 1);
    }
    for (int i = 0; i < 4; i++)
        fft_split(&x[2 * i], &x[2 * i + 1], w, 4 * v + i);
}

static ALWAYS_INLINE void fft_merge_three(vcomplex x[8], const fft_roots *w, int v)
{
    for (int i = 0; i < 4; i++)
        fft_merge(&x[2 * i], &x[2 * i + 1], w, 4 * v + i);
    for (int i = 0; i < 2; i++) {
        fft_merge(&x[i], &x[i + 2], w, 2 * v);
        fft_merge(&x[i + 4], &x[i + 6], w, 2 * v + 1);
    }
    for (int i = 0; i < 4; i++)
        fft_merge(&x[i], &x[i + 4], w, v);
}

/* The spectrum of 64 real values. */
static ALWAYS_INLINE void fft_forward(const fft_roots *w, const vreal *RESTRICT x,
                                      vcomplex *RESTRICT out)
{
    for (int j = 0; j < 8; j++) {
        vcomplex v[8];
        for (int i = 0; i < 4; i++) { /* the first level meets real numbers only */
            const vreal a = x[j + 8 * i], b = x[j + 8 * i + 32];
            const vreal re = w->re[1] * b, im = w->im[1] * b;
            v[i] = (vcomplex){a + re, im};
            v[i + 4] = (vcomplex){a - re, -im};
        }
        fft_split_children(v, w, 1);
        for (int i = 0; i < 8; i++)
            out[8 * i + j] = v[i];
    }
    for (int q = 0; q < 8; q++) {
        vcomplex *v = out + 8 * q;
        for (int i = 0; i < 4; i++)
            fft_split(&v[i], &v[i + 4], w, 8 + q);
        fft_split_children(v, w, 8 + q);
    }
}

/* 64 times the polynomial of a spectrum, in its place. */
static ALWAYS_INLINE void fft_inverse(const fft_roots *w, vcomplex *x)
{
    for (int q = 0; q < 8; q++)
        fft_merge_three(x + 8 * q, w, 8 + q);
    for (int j = 0; j < 8; j++) {
        vcomplex v[8];
        for (int i = 0; i < 8; i++)
            v[i] = x[8 * i + j];
        fft_merge_three(v, w, 1);
        for (int i = 0; i < 8; i++)
            x[8 * i + j] = v[i];
    }
}

static ALWAYS_INLINE void fft_mul_add(vcomplex *sum, const vcomplex *x, const vcomplex *y)
{
    sum->re += x->re * y->re;
    sum->im += x->re * y->im;
    sum->re -= x->im * y->im;
    sum->im += x->im * y->re;
}

/* out[p] = sum of x[i] y[p - i] over i <= p for the blocks p < n, or added to what is there; `step`
 * leads from out[p] to out[p + 1]. Two results at a time share their loads; as they are made from
 * the last down, out may be x. */
static ALWAYS_INLINE void fft_mul(const vcomplex *x, const vcomplex *y, size_t n, vcomplex *out,
                                  ptrdiff_t step, bool add)
{
    for (size_t f = 0; f < FFT_BLOCK; f++) {
        for (size_t p = n; p > 0;) {
            const bool two = p > 1;
            p -= two ? 2 : 1;
            vcomplex a = {{0}, {0}}, b = {{0}, {0}}, next = y[(p + two) * FFT_STRIDE + f];
            for (size_t i = 0; i <= p; i++) {
                const vcomplex xi = x[i * FFT_STRIDE + f], yi = y[(p - i) * FFT_STRIDE + f];
                fft_mul_add(&a, &xi, &yi);
                fft_mul_add(&b, &xi, &next);
                next = yi;
            }
            vcomplex *to = out + (ptrdiff_t)p * step + (ptrdiff_t)f;
            if (add) {
                a.re += to->re;
                a.im += to->im;
            }
            if (two) {
                fft_mul_add(&b, &x[(p + 1) * FFT_STRIDE + f], &next);
                if (add) {
                    b.re += to[step].re;
                    b.im += to[step].im;
                }
                to[step] = b;
            }
            *to = a;
        }
    }
}

#endif
