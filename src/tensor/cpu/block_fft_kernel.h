/* tensor/cpu/block_fft_kernel.h - the transforms and products of block_fft.h on LANES channels side
 * by side; included by a file that each_width.h includes. */
#ifndef TENSOR_CPU_BLOCK_FFT_KERNEL_H
#define TENSOR_CPU_BLOCK_FFT_KERNEL_H

#define vcomplex NAME(vcomplex)
#define fft_split NAME(fft_split)
#define fft_merge NAME(fft_merge)
#define fft_split_children NAME(fft_split_children)
#define fft_merge_three NAME(fft_merge_three)
#define fft_forward NAME(fft_forward)
#define fft_inverse NAME(fft_inverse)
#define fft_mul_add NAME(fft_mul_add)
#define fft_mul NAME(fft_mul)

#endif

typedef struct vcomplex {
    vec re, im;
} vcomplex;

/* (a, b) -> (a + r b, a - r b) and, times 2, back */
TARGET static ALWAYS_INLINE void fft_split(vcomplex *a, vcomplex *b, const fft_roots *w, int v)
{
    const vec re = w->re[v] * b->re - w->im[v] * b->im, im = w->re[v] * b->im + w->im[v] * b->re;
    *b = (vcomplex){a->re - re, a->im - im};
    *a = (vcomplex){a->re + re, a->im + im};
}

TARGET static ALWAYS_INLINE void fft_merge(vcomplex *a, vcomplex *b, const fft_roots *w, int v)
{
    const vec re = a->re - b->re, im = a->im - b->im;
    *a = (vcomplex){a->re + b->re, a->im + b->im};
    *b = (vcomplex){w->re[v] * re + w->im[v] * im, w->re[v] * im - w->im[v] * re};
}

/* Eight values of node v: four of each of its children, two of each grandchild. */
TARGET static ALWAYS_INLINE void fft_split_children(vcomplex x[8], const fft_roots *w, int v)
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        fft_split(&x[i], &x[i + 2], w, 2 * v);
        fft_split(&x[i + 4], &x[i + 6], w, 2 * v + 1);
    }
    UNROLL
    for (int i = 0; i < 4; i++)
        fft_split(&x[2 * i], &x[2 * i + 1], w, 4 * v + i);
}

TARGET static ALWAYS_INLINE void fft_merge_three(vcomplex x[8], const fft_roots *w, int v)
{
    UNROLL
    for (int i = 0; i < 4; i++)
        fft_merge(&x[2 * i], &x[2 * i + 1], w, 4 * v + i);
    UNROLL
    for (int i = 0; i < 2; i++) {
        fft_merge(&x[i], &x[i + 2], w, 2 * v);
        fft_merge(&x[i + 4], &x[i + 6], w, 2 * v + 1);
    }
    UNROLL
    for (int i = 0; i < 4; i++)
        fft_merge(&x[i], &x[i + 4], w, v);
}

/* The spectrum of 64 real values. */
TARGET static ALWAYS_INLINE void fft_forward(const fft_roots *w, const vec *RESTRICT x,
                                             vcomplex *RESTRICT out)
{
    for (int j = 0; j < 8; j++) {
        vcomplex v[8];
        UNROLL
        for (int i = 0; i < 4; i++) { /* the first level meets real numbers only */
            const vec a = x[j + 8 * i], b = x[j + 8 * i + 32];
            const vec re = w->re[1] * b, im = w->im[1] * b;
            v[i] = (vcomplex){a + re, im};
            v[i + 4] = (vcomplex){a - re, -im};
        }
        fft_split_children(v, w, 1);
        UNROLL
        for (int i = 0; i < 8; i++)
            out[8 * i + j] = v[i];
    }
    for (int q = 0; q < 8; q++) {
        vcomplex v[8];
        UNROLL
        for (int i = 0; i < 8; i++)
            v[i] = out[8 * q + i];
        UNROLL
        for (int i = 0; i < 4; i++)
            fft_split(&v[i], &v[i + 4], w, 8 + q);
        fft_split_children(v, w, 8 + q);
        UNROLL
        for (int i = 0; i < 8; i++)
            out[8 * q + i] = v[i];
    }
}

/* 64 times the polynomial of a spectrum, in its place. */
TARGET static ALWAYS_INLINE void fft_inverse(const fft_roots *w, vcomplex *x)
{
    for (int q = 0; q < 8; q++) {
        vcomplex v[8];
        UNROLL
        for (int i = 0; i < 8; i++)
            v[i] = x[8 * q + i];
        fft_merge_three(v, w, 8 + q);
        UNROLL
        for (int i = 0; i < 8; i++)
            x[8 * q + i] = v[i];
    }
    for (int j = 0; j < 8; j++) {
        vcomplex v[8];
        UNROLL
        for (int i = 0; i < 8; i++)
            v[i] = x[8 * i + j];
        fft_merge_three(v, w, 1);
        UNROLL
        for (int i = 0; i < 8; i++)
            x[8 * i + j] = v[i];
    }
}

TARGET static ALWAYS_INLINE void fft_mul_add(vcomplex *sum, const vcomplex *x, const vcomplex *y)
{
    sum->re += x->re * y->re;
    sum->im += x->re * y->im;
    sum->re -= x->im * y->im;
    sum->im += x->im * y->re;
}

/* out[p] = sum of x[i] y[p - i] over i <= p for the blocks p < n, or added to what is there; `step`
 * leads from out[p] to out[p + 1]. Two results at a time share their loads; as they are made from
 * the last down, out may be x. */
TARGET static ALWAYS_INLINE void fft_mul(const vcomplex *x, const vcomplex *y, size_t n,
                                         vcomplex *out, ptrdiff_t step, bool add)
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
