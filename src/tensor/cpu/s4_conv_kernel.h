/* tensor/cpu/s4_conv_kernel.h - the work of s4_conv.c, included by each_width.h: one column of
 * LANES channels through all texts. */
#include "tensor/cpu/block_fft_kernel.h"

#ifndef TENSOR_CPU_S4_CONV_KERNEL_H
#define TENSOR_CPU_S4_CONV_KERNEL_H

enum { TILE = 8 }; /* results of a direct sum that stay in registers */

#define buffers NAME(buffers)
#define buffers_of NAME(buffers_of)
#define read_row NAME(read_row)
#define write_row NAME(write_row)
#define to_spectra NAME(to_spectra)
#define from_spectra NAME(from_spectra)
#define read_text NAME(read_text)
#define write_text NAME(write_text)
#define sum_directly NAME(sum_directly)
#define read_kernel NAME(read_kernel)
#define add_kernel_grad NAME(add_kernel_grad)
#define backward_direct NAME(backward_direct)
#define backward_spectra NAME(backward_spectra)

#endif

typedef struct buffers { /* `blocks` is that of the longest text */
    vec *k, *dk;         /* (64 blocks) the kernel and its gradient */
    vec *x, *e, *y;      /* (64 blocks) a text, one reversed, a result */
    vcomplex *kf, *dkf;  /* (blocks, FFT_STRIDE) spectra: of the kernel, its gradient, */
    vcomplex *xf, *ef;   /* a text, one reversed */
} buffers;

TARGET static buffers buffers_of(const conv_job *job, int worker)
{
    const size_t blocks = block_count(job->seq->max_len);
    const size_t steps = blocks * FFT_BLOCK, spectrum = blocks * FFT_STRIDE;
    vec *v = (vec *)(job->scratch + (size_t)worker * job->scratch_size);
    vcomplex *f = (vcomplex *)(v + 5 * steps);
    return (buffers){.k = v,
                     .dk = v + steps,
                     .x = v + 2 * steps,
                     .e = v + 3 * steps,
                     .y = v + 4 * steps,
                     .kf = f,
                     .dkf = f + spectrum,
                     .xf = f + 2 * spectrum,
                     .ef = f + 3 * spectrum};
}

/* Rows are far apart, so each is asked for AHEAD of its turn; texts follow each other, which makes
 * that right beyond the end too. */
TARGET static ALWAYS_INLINE void read_row(rows r, size_t t, vec *x)
{
    const real *from = r.v + t * r.stride;
    __builtin_prefetch(from + AHEAD * r.stride, 0);
    if (r.channels == LANES) {
        *x = *(const vec *)from;
    } else {
        *x = (vec){0};
        memcpy(x, from, r.channels * sizeof *from);
    }
}

TARGET static ALWAYS_INLINE void write_row(const vec *y, rows r, size_t t, bool add)
{
    real *to = r.v + t * r.stride;
    __builtin_prefetch(to + AHEAD * r.stride, 1);
    if (r.channels == LANES && add)
        *(vec *)to += *y;
    else if (r.channels == LANES)
        *(vec *)to = *y;
    else
        for (size_t c = 0; c < r.channels; c++)
            to[c] = (add ? to[c] : 0) + (*y)[c];
}

/* by spectra --------------------------------------------------------------------------------- */

/* Memory is walked upwards in both directions of time. Reversed, the last word of a text is at the
 * end of its last block, and the zeros that fill it up come first. */
TARGET static ALWAYS_INLINE void to_spectra(const fft_roots *w, rows r, bool reverse, vcomplex *xf)
{
    const size_t blocks = block_count(r.len);
    _Alignas(64) vec x[FFT_BLOCK];
    for (size_t b = 0; b < blocks; b++) {
        const size_t here = block_len(r.len, b);
        for (size_t i = 0; i < here; i++)
            read_row(r, b * FFT_BLOCK + i, &x[reverse ? FFT_BLOCK - 1 - i : i]);
        for (size_t i = here; i < FFT_BLOCK; i++)
            x[reverse ? FFT_BLOCK - 1 - i : i] = (vec){0};
        fft_forward(w, x, xf + (reverse ? blocks - 1 - b : b) * FFT_STRIDE);
    }
}

TARGET static ALWAYS_INLINE void from_spectra(const fft_roots *w, vcomplex *xf, rows r,
                                              bool reverse, bool add)
{
    const size_t blocks = block_count(r.len);
    for (size_t b = 0; b < blocks; b++)
        fft_inverse(w, xf + b * FFT_STRIDE);
    for (size_t b = 0; b < blocks; b++) {
        const size_t here = block_len(r.len, b), from = reverse ? blocks - 1 - b : b;
        const vcomplex *low = xf + from * FFT_STRIDE, *high = from ? low - FFT_STRIDE : NULL;
        for (size_t i = 0; i < here; i++) {
            const size_t at = reverse ? FFT_BLOCK - 1 - i : i;
            vec y = low[at].re;
            if (high)
                y += high[at].im;
            write_row(&y, r, b * FFT_BLOCK + i, add);
        }
    }
}

/* term by term ------------------------------------------------------------------------------- */

TARGET static ALWAYS_INLINE void read_text(rows r, bool reverse, vec *x)
{
    for (size_t t = 0; t < r.len; t++)
        read_row(r, t, &x[reverse ? r.len - 1 - t : t]);
    for (size_t t = r.len; t % TILE; t++)
        x[t] = (vec){0};
}

TARGET static ALWAYS_INLINE void write_text(const vec *y, rows r, bool reverse)
{
    for (size_t t = 0; t < r.len; t++)
        write_row(&y[reverse ? r.len - 1 - t : t], r, t, reverse);
}

/* y[t] = sum over s <= t of x[s] k[t - s] for t < n, in whole tiles. */
TARGET static ALWAYS_INLINE void sum_directly(const vec *RESTRICT x, const vec *RESTRICT k,
                                              size_t n, vec *RESTRICT y)
{
    for (size_t t = 0; t < n; t += TILE) {
        vec sum[TILE];
        UNROLL
        for (int i = 0; i < TILE; i++)
            sum[i] = (vec){0};
        for (size_t s = 0; s < t; s++) {
            const vec xs = x[s];
            UNROLL
            for (int i = 0; i < TILE; i++)
                sum[i] += xs * k[t - s + (size_t)i];
        }
        UNROLL
        for (int j = 0; j < TILE; j++) {
            const vec xs = x[t + (size_t)j];
            UNROLL
            for (int i = j; i < TILE; i++)
                sum[i] += xs * k[i - j];
        }
        UNROLL
        for (int i = 0; i < TILE; i++)
            y[t + (size_t)i] = sum[i];
    }
}

/* kernels in and out ------------------------------------------------------------------------- */

/* The kernel, and its spectrum scaled for the way back. All that K has of the last block is taken:
 * if that is the whole block, a text's result does not depend on the texts beside it. */
TARGET static ALWAYS_INLINE void read_kernel(const conv_job *job, column c, const buffers *s)
{
    const node *kernel = job->n->in[IN_K];
    const size_t steps = block_count(job->seq->max_len) * FFT_BLOCK;
    const size_t known = job->len < steps ? job->len : steps;
    memset(s->k, 0, steps * sizeof *s->k);
    for (size_t i = 0; i < c.channels; i++) {
        for (size_t l = 0; l < known; l++)
            s->k[l][i] = kernel->value[(c.first + i) * job->len + l];
        s->k[0][i] += job->n->in[IN_D]->value[c.first + i];
    }
    for (size_t l = 0; l < steps; l++)
        s->y[l] = s->k[l] / FFT_BLOCK;
    to_spectra(&job->roots, (rows){(real *)s->y, (size_t)LANES, (size_t)LANES, steps}, false,
               s->kf);
}

/* Block b of dkf counts time from its end, and so do its entries. */
TARGET static ALWAYS_INLINE void add_kernel_grad(const conv_job *job, column c, const buffers *s)
{
    const node *kernel = job->n->in[IN_K], *d = job->n->in[IN_D];
    const size_t longest = job->seq->max_len, blocks = block_count(longest);
    for (size_t b = 0; b < blocks; b++)
        fft_inverse(&job->roots, s->dkf + b * FFT_STRIDE);
    for (size_t b = 0; b < blocks; b++)
        for (size_t i = 0; i < FFT_BLOCK; i++) {
            const vcomplex *x = s->dkf + b * FFT_STRIDE + FFT_BLOCK - 1 - i;
            vec sum = x->re;
            if (b + 1 < blocks)
                sum += (x + FFT_STRIDE)->im;
            s->dk[b * FFT_BLOCK + i] += sum / FFT_BLOCK;
        }
    for (size_t i = 0; i < c.channels; i++) {
        if (d->needs_grad)
            d->grad[c.first + i] += s->dk[0][i];
        if (kernel->needs_grad)
            for (size_t l = 0; l < longest; l++)
                kernel->grad[(c.first + i) * job->len + l] += s->dk[l][i];
    }
}

/* columns ------------------------------------------------------------------------------------ */

TARGET static void NAME(forward_column)(void *ctx, size_t piece, int worker)
{
    const conv_job *job = ctx;
    const buffers s = buffers_of(job, worker);
    const column c = column_of(job, piece);
    read_kernel(job, c, &s);
    for (size_t b = 0; b < job->seq->n_texts; b++) {
        const rows u = rows_of(job, job->n->in[IN_U]->value, b, c);
        const rows y = rows_of(job, job->n->value, b, c);
        if (u.len <= job->direct_max) {
            read_text(u, false, s.x);
            sum_directly(s.x, s.k, u.len, s.y);
            write_text(s.y, y, false);
        } else {
            to_spectra(&job->roots, u, false, s.xf);
            fft_mul(s.xf, s.kf, block_count(u.len), s.xf, FFT_STRIDE, false);
            from_spectra(&job->roots, s.xf, y, false, false);
        }
    }
}

/* du.v is NULL where du is not wanted. */
TARGET static ALWAYS_INLINE void backward_direct(const conv_job *job, const buffers *s, rows u,
                                                 rows dy, rows du)
{
    read_text(dy, true, s->e);
    if (du.v) {
        sum_directly(s->e, s->k, u.len, s->y);
        write_text(s->y, du, true);
    }
    if (job->want_dk) {
        read_text(u, false, s->x);
        sum_directly(s->e, s->x, u.len, s->y);
        for (size_t l = 0; l < u.len; l++)
            s->dk[l] += s->y[u.len - 1 - l];
    }
}

TARGET static ALWAYS_INLINE void backward_spectra(const conv_job *job, const buffers *s, rows u,
                                                  rows dy, rows du)
{
    const size_t blocks = block_count(u.len);
    to_spectra(&job->roots, dy, true, s->ef);
    if (job->want_dk) { /* block p of the product is block blocks - 1 - p of dK */
        to_spectra(&job->roots, u, false, s->xf);
        fft_mul(s->ef, s->xf, blocks, s->dkf + (blocks - 1) * FFT_STRIDE, -FFT_STRIDE, true);
    }
    if (du.v) {
        fft_mul(s->ef, s->kf, blocks, s->ef, FFT_STRIDE, false);
        from_spectra(&job->roots, s->ef, du, true, true);
    }
}

TARGET static void NAME(backward_column)(void *ctx, size_t piece, int worker)
{
    const conv_job *job = ctx;
    const buffers s = buffers_of(job, worker);
    const column c = column_of(job, piece);
    const node *u = job->n->in[IN_U];
    const size_t blocks = block_count(job->seq->max_len);
    read_kernel(job, c, &s);
    memset(s.dk, 0, blocks * FFT_BLOCK * sizeof *s.dk);
    memset(s.dkf, 0, blocks * FFT_STRIDE * sizeof *s.dkf);
    for (size_t b = 0; b < job->seq->n_texts; b++) {
        const rows x = rows_of(job, u->value, b, c), dy = rows_of(job, job->n->grad, b, c);
        const rows du = u->needs_grad ? rows_of(job, u->grad, b, c) : (rows){0};
        if (x.len <= job->direct_max)
            backward_direct(job, &s, x, dy, du);
        else
            backward_spectra(job, &s, x, dy, du);
    }
    if (job->want_dk)
        add_kernel_grad(job, c, &s);
}

static const conv_fns NAME(conv_fns) = {LANES, NAME(forward_column), NAME(backward_column)};
