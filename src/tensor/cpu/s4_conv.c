/* tensor/cpu/s4_conv.c - causal convolution of every text with its channel's kernel.
 *
 * The term d u joins the kernel as d + K_0. With time reversed inside the text, all three products
 * are the same causal convolution:
 *
 *     y = K * u,   rev(du) = K * rev(dy),   rev(dK) = u * rev(dy)
 *
 * Texts of up to S4_DIRECT_MAX words are convolved term by term, longer ones in blocks by their
 * spectra; dK of all long texts is summed as a spectrum and transformed back once.
 *
 * One piece of work is a line of channels through all texts, so sums run in the order of the texts
 * and no two pieces write to the same place. */
#include "tensor/cpu/s4_conv.h"

#include "base/pool.h"
#include "tensor/cpu/block_fft.h"
#include "tensor/cpu/toeplitz.h"
#include "tensor/op_args.h"

enum { IN_U, IN_K, IN_D };

typedef struct scratch { /* of one worker; `blocks` is that of the longest text */
    vreal *k, *dk;       /* (64 blocks) the kernel and its gradient */
    vreal *x, *e, *y;    /* (64 blocks) a text, one reversed, a result */
    vcomplex *kf, *dkf;  /* (blocks, FFT_STRIDE) spectra: of the kernel, its gradient, */
    vcomplex *xf, *ef;   /* a text, one reversed */
} scratch;

typedef struct conv_job {
    node *n;
    const seq_index *seq;
    size_t channels, len, direct_max;
    bool want_dk; /* of the kernel or of d */
    fft_roots roots;
    scratch *scratch;
} conv_job;

static size_t block_count(size_t len)
{
    return (len + FFT_BLOCK - 1) / FFT_BLOCK;
}

static size_t block_len(size_t len, size_t b) /* of block b */
{
    return len - b * FFT_BLOCK < FFT_BLOCK ? len - b * FFT_BLOCK : FFT_BLOCK;
}

/* A line of channels: the first and how many there are. */
typedef struct line {
    size_t first, lanes;
} line;

static line line_of(const conv_job *job, size_t piece)
{
    const size_t first = piece * LINE, left = job->channels - first;
    return (line){first, left < LINE ? left : LINE};
}

/* One text of a (T, H) array in this line: row t starts at v + t stride. Rows are far apart, so
 * each is asked for AHEAD of its turn; texts follow each other, which makes that right beyond the
 * end too. */
typedef struct rows {
    real *v;
    size_t stride, len, lanes;
} rows;

enum { AHEAD = FFT_BLOCK };

static rows rows_of(const conv_job *job, real *v, size_t text, line c)
{
    const size_t start = job->seq->start[text];
    return (rows){v + start * job->channels + c.first, job->channels,
                  job->seq->start[text + 1] - start, c.lanes};
}

static ALWAYS_INLINE void read_row(rows r, size_t t, vreal *x)
{
    const real *from = r.v + t * r.stride;
    __builtin_prefetch(from + AHEAD * r.stride, 0);
    line_load(x, from, r.lanes);
}

static ALWAYS_INLINE void write_row(vreal y, rows r, size_t t, bool add)
{
    real *to = r.v + t * r.stride;
    __builtin_prefetch(to + AHEAD * r.stride, 1);
    if (add) {
        vreal old;
        line_load(&old, to, r.lanes);
        y += old;
    }
    line_store(&y, to, r.lanes);
}

/* by spectra --------------------------------------------------------------------------------- */

/* Memory is walked upwards in both directions of time. Reversed, the last word of a text is at the
 * end of its last block, and the zeros that fill it up come first. */
static ALWAYS_INLINE void to_spectra(const fft_roots *w, rows r, bool reverse, vcomplex *xf)
{
    const size_t blocks = block_count(r.len);
    vreal x[FFT_BLOCK];
    for (size_t b = 0; b < blocks; b++) {
        const size_t here = block_len(r.len, b);
        for (size_t i = 0; i < here; i++)
            read_row(r, b * FFT_BLOCK + i, &x[reverse ? FFT_BLOCK - 1 - i : i]);
        for (size_t i = here; i < FFT_BLOCK; i++)
            x[reverse ? FFT_BLOCK - 1 - i : i] = (vreal){0};
        fft_forward(w, x, xf + (reverse ? blocks - 1 - b : b) * FFT_STRIDE);
    }
}

static ALWAYS_INLINE void from_spectra(const fft_roots *w, vcomplex *xf, rows r, bool reverse,
                                       bool add)
{
    const size_t blocks = block_count(r.len);
    for (size_t b = 0; b < blocks; b++)
        fft_inverse(w, xf + b * FFT_STRIDE);
    for (size_t b = 0; b < blocks; b++) {
        const size_t here = block_len(r.len, b);
        const size_t from = reverse ? blocks - 1 - b : b;
        const vcomplex *low = xf + from * FFT_STRIDE, *high = from ? low - FFT_STRIDE : NULL;
        for (size_t i = 0; i < here; i++) {
            const size_t at = reverse ? FFT_BLOCK - 1 - i : i;
            write_row(high ? low[at].re + high[at].im : low[at].re, r, b * FFT_BLOCK + i, add);
        }
    }
}

/* The kernel, and its spectrum scaled for the way back. */
static ALWAYS_INLINE void read_kernel(const conv_job *job, line c, const scratch *s)
{
    const node *kernel = job->n->in[IN_K];
    const size_t longest = job->seq->max_len, blocks = block_count(longest);
    memset(s->k, 0, blocks * FFT_BLOCK * sizeof *s->k);
    for (size_t lane = 0; lane < c.lanes; lane++) {
        for (size_t l = 0; l < longest; l++)
            s->k[l][lane] = kernel->value[(c.first + lane) * job->len + l];
        s->k[0][lane] += job->n->in[IN_D]->value[c.first + lane];
    }
    for (size_t l = 0; l < longest; l++)
        s->y[l] = s->k[l] / FFT_BLOCK;
    to_spectra(&job->roots, (rows){(real *)s->y, LINE, longest, LINE}, false, s->kf);
}

/* Block b of dkf counts time from its end, and so do its entries. */
static ALWAYS_INLINE void add_kernel_grad(const conv_job *job, line c, const scratch *s)
{
    const node *kernel = job->n->in[IN_K], *d = job->n->in[IN_D];
    const size_t longest = job->seq->max_len, blocks = block_count(longest);
    for (size_t b = 0; b < blocks; b++)
        fft_inverse(&job->roots, s->dkf + b * FFT_STRIDE);
    for (size_t b = 0; b < blocks; b++)
        for (size_t i = 0; i < FFT_BLOCK; i++) {
            const vcomplex *x = s->dkf + b * FFT_STRIDE + FFT_BLOCK - 1 - i;
            const vreal sum = b + 1 < blocks ? x->re + (x + FFT_STRIDE)->im : x->re;
            s->dk[b * FFT_BLOCK + i] += sum / FFT_BLOCK;
        }
    for (size_t lane = 0; lane < c.lanes; lane++) {
        if (d->needs_grad)
            d->grad[c.first + lane] += s->dk[0][lane];
        if (kernel->needs_grad)
            for (size_t l = 0; l < longest; l++)
                kernel->grad[(c.first + lane) * job->len + l] += s->dk[l][lane];
    }
}

/* term by term ------------------------------------------------------------------------------- */

static ALWAYS_INLINE void read_text(rows r, bool reverse, vreal *x)
{
    for (size_t t = 0; t < r.len; t++)
        read_row(r, t, &x[reverse ? r.len - 1 - t : t]);
    for (size_t t = r.len; t < toeplitz_room(r.len); t++)
        x[t] = (vreal){0};
}

static ALWAYS_INLINE void write_text(const vreal *y, rows r, bool reverse, bool add)
{
    for (size_t t = 0; t < r.len; t++)
        write_row(y[reverse ? r.len - 1 - t : t], r, t, add);
}

/* the op ------------------------------------------------------------------------------------- */

static SIMD_CLONES void forward_line(void *ctx, size_t piece, int worker)
{
    const conv_job *job = ctx;
    const scratch *s = &job->scratch[worker];
    const line c = line_of(job, piece);
    read_kernel(job, c, s);
    for (size_t b = 0; b < job->seq->n_texts; b++) {
        const rows u = rows_of(job, job->n->in[IN_U]->value, b, c),
                   y = rows_of(job, job->n->value, b, c);
        if (u.len <= job->direct_max) {
            read_text(u, false, s->x);
            toeplitz_mul(s->x, s->k, u.len, s->y);
            write_text(s->y, y, false, false);
        } else {
            to_spectra(&job->roots, u, false, s->xf);
            fft_mul(s->xf, s->kf, block_count(u.len), s->xf, FFT_STRIDE, false);
            from_spectra(&job->roots, s->xf, y, false, false);
        }
    }
}

/* du.v is NULL where du is not wanted. */
static ALWAYS_INLINE void backward_direct(const conv_job *job, const scratch *s, rows u, rows dy,
                                          rows du)
{
    read_text(dy, true, s->e);
    if (du.v) {
        toeplitz_mul(s->e, s->k, u.len, s->y);
        write_text(s->y, du, true, true);
    }
    if (job->want_dk) {
        read_text(u, false, s->x);
        toeplitz_mul(s->e, s->x, u.len, s->y);
        for (size_t l = 0; l < u.len; l++)
            s->dk[l] += s->y[u.len - 1 - l];
    }
}

static ALWAYS_INLINE void backward_spectra(const conv_job *job, const scratch *s, rows u, rows dy,
                                           rows du)
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

static SIMD_CLONES void backward_line(void *ctx, size_t piece, int worker)
{
    const conv_job *job = ctx;
    const scratch *s = &job->scratch[worker];
    const line c = line_of(job, piece);
    const node *u = job->n->in[IN_U];
    const size_t blocks = block_count(job->seq->max_len);
    read_kernel(job, c, s);
    memset(s->dk, 0, blocks * FFT_BLOCK * sizeof *s->dk);
    memset(s->dkf, 0, blocks * FFT_STRIDE * sizeof *s->dkf);
    for (size_t b = 0; b < job->seq->n_texts; b++) {
        const rows x = rows_of(job, u->value, b, c), dy = rows_of(job, job->n->grad, b, c);
        const rows du = u->needs_grad ? rows_of(job, u->grad, b, c) : (rows){0};
        if (x.len <= job->direct_max)
            backward_direct(job, s, x, dy, du);
        else
            backward_spectra(job, s, x, dy, du);
    }
    if (job->want_dk)
        add_kernel_grad(job, c, s);
}

static bool make_scratch(tape *t, conv_job *job)
{
    const size_t workers = (size_t)stet_threads(), blocks = block_count(job->seq->max_len);
    const size_t steps = blocks * FFT_BLOCK, spectrum = blocks * FFT_STRIDE;
    job->scratch = arena_new(t->mem, scratch, workers);
    for (size_t i = 0; job->scratch && i < workers; i++) {
        vreal *v = arena_new(t->mem, vreal, 5 * steps);
        vcomplex *f = arena_new(t->mem, vcomplex, 4 * spectrum);
        if (!v || !f)
            return false;
        job->scratch[i] = (scratch){.k = v,
                                    .dk = v + steps,
                                    .x = v + 2 * steps,
                                    .e = v + 3 * steps,
                                    .y = v + 4 * steps,
                                    .kf = f,
                                    .dkf = f + spectrum,
                                    .xf = f + 2 * spectrum,
                                    .ef = f + 3 * spectrum};
    }
    return job->scratch;
}

static stet_status run(tape *t, node *n, size_t direct_max, pool_fn *fn)
{
    conv_job job = {.n = n,
                    .seq = ((const s4_conv_args *)n->args)->seq,
                    .channels = shape_cols(n->shape),
                    .len = shape_cols(n->in[IN_K]->shape),
                    .direct_max = direct_max,
                    .want_dk = n->in[IN_K]->needs_grad || n->in[IN_D]->needs_grad};
    fft_roots_init(&job.roots);
    const arena_mark mark = arena_save(t->mem);
    if (!make_scratch(t, &job))
        return STET_ENOMEM;
    pool_run((job.channels + LINE - 1) / LINE, fn, &job);
    arena_restore(t->mem, mark);
    return STET_OK;
}

stet_status s4_conv_forward(tape *t, node *n, size_t direct_max)
{
    return run(t, n, direct_max, forward_line);
}

stet_status s4_conv_backward(tape *t, node *n, size_t direct_max)
{
    return run(t, n, direct_max, backward_line);
}

stet_status cpu_s4_conv_fwd(tape *t, node *n)
{
    return s4_conv_forward(t, n, S4_DIRECT_MAX);
}

stet_status cpu_s4_conv_bwd(tape *t, node *n)
{
    return s4_conv_backward(t, n, S4_DIRECT_MAX);
}
