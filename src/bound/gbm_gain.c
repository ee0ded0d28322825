/* bound/gbm_gain.c - see gbm_gain.h. States and adjoints are in double: over a long horizon they
 * leave the range of float well before they stop meaning something. */
#include "bound/gbm_gain.h"

#include <math.h>
#include <string.h>

#include "base/simd.h"

enum { POWER_STEPS = 200, LANES = 8 };
static const double power_tolerance = 1e-15;

/* Mb of one cell, by rows and by columns, and Nb eta. */
typedef struct block {
    size_t H;
    double *m;       /* (2H, H): Mh over Bhat */
    double *mt;      /* (H, 2H): transposed */
    double *mc, *f;  /* (H): the diagonals beside them */
    real *mv, *ahat; /* (H, D) */
} block;

SIMD_CLONES
static double gain_dot(const double *RESTRICT x, const double *RESTRICT y, size_t n)
{
    double part[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            part[l] += x[i + l] * y[i + l];
    for (; i < n; i++)
        sum += x[i] * y[i];
    for (size_t l = 0; l < LANES; l++)
        sum += part[l];
    return sum;
}

/* y += by x */
SIMD_CLONES
static void gain_add(double by, const double *RESTRICT x, size_t n, double *RESTRICT y)
{
    for (size_t i = 0; i < n; i++)
        y[i] += by * x[i];
}

static stet_status block_make(const lstm_cell_bounds *b, bool inputs, arena *a, block *out)
{
    const size_t H = b->w->H, D = b->w->D;
    real *mh = arena_new(a, real, H * H), *bhat = arena_new(a, real, H * H),
         *mc = arena_new(a, real, H), *f = arena_new(a, real, H);
    *out = (block){.H = H,
                   .m = arena_new(a, double, 2 * H * H),
                   .mt = arena_new(a, double, 2 * H * H),
                   .mc = arena_new(a, double, H),
                   .f = arena_new(a, double, H),
                   .mv = inputs ? arena_new(a, real, H * D) : NULL,
                   .ahat = inputs ? arena_new(a, real, H * D) : NULL};
    if (!mh || !bhat || !mc || !f || !out->m || !out->mt || !out->mc || !out->f ||
        (inputs && (!out->mv || !out->ahat)))
        return STET_ENOMEM;
    TRY(gbm_lstm(
        b->w, b->x, b->mode,
        &(lstm_gbm){
            .mv = out->mv, .mh = mh, .mc = mc, .ahat = out->ahat, .bhat = bhat, .fmax = f}));
    for (size_t i = 0; i < H; i++) {
        for (size_t j = 0; j < H; j++) {
            out->m[i * H + j] = out->mt[j * 2 * H + i] = (double)mh[i * H + j];
            out->m[(H + i) * H + j] = out->mt[j * 2 * H + H + i] = (double)bhat[i * H + j];
        }
        out->mc[i] = (double)mc[i];
        out->f[i] = (double)f[i];
    }
    return STET_OK;
}

/* y = Mb x and y = Mb^T x, both (2H). */
static void block_times(const block *b, const double *x, double *y)
{
    const size_t H = b->H;
    for (size_t i = 0; i < H; i++) {
        y[i] = gain_dot(b->m + i * H, x, H) + b->mc[i] * x[H + i];
        y[H + i] = gain_dot(b->m + (H + i) * H, x, H) + b->f[i] * x[H + i];
    }
}

static void block_transposed_times(const block *b, const double *x, double *y)
{
    const size_t H = b->H;
    for (size_t i = 0; i < H; i++) {
        y[i] = gain_dot(b->mt + i * 2 * H, x, 2 * H);
        y[H + i] = b->mc[i] * x[i] + b->f[i] * x[H + i];
    }
}

/* Weights of the cell's entries, all from one scale. */
typedef struct weights {
    real *v, *h, *c, *a, *b, *f;
} weights;

static stet_status weights_new(size_t D, size_t H, arena *a, weights *k)
{
    *k = (weights){arena_znew(a, real, H * D), arena_znew(a, real, H * H), arena_znew(a, real, H),
                   arena_znew(a, real, H * D), arena_znew(a, real, H * H), arena_znew(a, real, H)};
    return k->v && k->h && k->c && k->a && k->b && k->f ? STET_OK : STET_ENOMEM;
}

static stet_status weighted_gradient(const lstm_cell_bounds *b, const weights *k, real scale,
                                     const lstm_grads *grad, arena *a)
{
    const lstm_gbm_loss loss = {
        .Kv = k->v, .Kh = k->h, .Kc = k->c, .Kahat = k->a, .Kbhat = k->b, .Kfmax = k->f};
    real ignored;
    return gbm_lstm_sum(b->w, b->x, b->mode, &loss, scale, grad, a, &ignored, NULL, NULL);
}

/* ---- horizon gain ------------------------------------------------------------------------- */

/* z (T + 1, 2H): deviations before the first and after each step. */
static void walk_forward(const block *b, const real *eta, size_t D, size_t steps, double *z)
{
    const size_t H = b->H;
    double *input = z; /* z_0 = 0 is written last */
    for (size_t i = 0; i < H; i++) {
        double h = 0, c = 0;
        for (size_t j = 0; j < D; j++) {
            h += (double)b->mv[i * D + j] * (double)eta[j];
            c += (double)b->ahat[i * D + j] * (double)eta[j];
        }
        input[i] = h;
        input[H + i] = c;
    }
    for (size_t t = 1; t <= steps; t++) {
        double *to = z + t * 2 * H;
        if (t == 1)
            memset(to, 0, 2 * H * sizeof *to);
        else
            block_times(b, to - 2 * H, to);
        for (size_t i = 0; i < 2 * H; i++)
            to[i] += input[i];
    }
    memset(z, 0, 2 * H * sizeof *z);
}

/* With l_T = (omega, 0) and l_{t-1} = Mb^T l_t: d gain / dMb = sum of l_t z_{t-1}^T, d gain / d(Nb
 * eta) = sum of l_t. */
static void walk_back(const block *b, const real *omega, const double *z, size_t steps, double by,
                      const real *eta, size_t D, double *l, double *sums, const weights *k)
{
    const size_t H = b->H;
    double *next = l + 2 * H, *dm = sums, *dc = dm + 2 * H * H, *db = dc + 2 * H;
    memset(sums, 0, (2 * H * H + 4 * H) * sizeof *sums);
    for (size_t i = 0; i < H; i++) {
        l[i] = by * (double)omega[i];
        l[H + i] = 0;
    }
    for (size_t t = steps; t > 0; t--) {
        const double *from = z + (t - 1) * 2 * H;
        for (size_t i = 0; i < 2 * H; i++) {
            gain_add(l[i], from, H, dm + i * H);
            dc[i] += l[i] * from[H + i % H];
            db[i] += l[i];
        }
        block_transposed_times(b, l, next);
        memcpy(l, next, 2 * H * sizeof *l);
    }
    for (size_t i = 0; i < H; i++) {
        for (size_t j = 0; j < H; j++) {
            k->h[i * H + j] = (real)dm[i * H + j];
            k->b[i * H + j] = (real)dm[(H + i) * H + j];
        }
        for (size_t j = 0; j < D; j++) {
            k->v[i * D + j] = (real)db[i] * eta[j];
            k->a[i * D + j] = (real)db[H + i] * eta[j];
        }
        k->c[i] = (real)dc[i];
        k->f[i] = (real)dc[H + i];
    }
}

static stet_status gain_of(const lstm_cell_bounds *bounds, const real *eta, const real *omega,
                           size_t steps, bool log_scale, const lstm_grads *grad, arena *a,
                           double *gain, double *z_last)
{
    const size_t H = bounds->w->H, D = bounds->w->D;
    block b;
    TRY(block_make(bounds, true, a, &b));
    double *z = arena_new(a, double, (steps + 1) * 2 * H);
    if (!z)
        return STET_ENOMEM;
    walk_forward(&b, eta, D, steps, z);
    const double *last = z + steps * 2 * H;
    *gain = 0;
    for (size_t i = 0; i < H; i++)
        *gain += (double)omega[i] * last[i];
    if (z_last)
        memcpy(z_last, last, H * sizeof *z_last);
    if (!grad)
        return STET_OK;
    double *l = arena_new(a, double, 4 * H), *sums = arena_new(a, double, 2 * H * H + 4 * H);
    weights k;
    if (!l || !sums)
        return STET_ENOMEM;
    TRY(weights_new(D, H, a, &k));
    walk_back(&b, omega, z, steps, log_scale ? 1 / (1 + *gain) : 1, eta, D, l, sums, &k);
    return weighted_gradient(bounds, &k, 1, grad, a);
}

stet_status gbm_lstm_gain(const lstm_cell_bounds *b, const real *eta, const real *omega,
                          size_t steps, bool log_scale, const lstm_grads *grad, arena *scratch,
                          double *gain, double *z)
{
    const arena_mark mark = arena_save(scratch);
    const stet_status st = gain_of(b, eta, omega, steps, log_scale, grad, scratch, gain, z);
    arena_restore(scratch, mark);
    return st;
}

/* ---- contraction -------------------------------------------------------------------------- */

/* x <- x / |x|_1; returns the old norm. */
static double normalise(double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    for (size_t i = 0; sum > 0 && i < n; i++)
        x[i] /= sum;
    return sum;
}

typedef void times_fn(const block *b, const double *x, double *y);

/* The Perron vector of Mb or its transpose. A vector that starts positive stays so, and f+ > 0 on
 * the diagonal leaves no room for cycles; 200 steps at most, because a gradient step later it is
 * another matrix anyway. */
static void perron(const block *b, times_fn *times, double *x, double *y)
{
    const size_t n = 2 * b->H;
    for (size_t i = 0; i < n; i++)
        x[i] = 1 / (double)n;
    double last = 0;
    for (int k = 0; k < POWER_STEPS; k++) {
        times(b, x, y);
        const double norm = normalise(y, n);
        memcpy(x, y, n * sizeof *x);
        if (!(fabs(norm - last) > power_tolerance * norm))
            return;
        last = norm;
    }
}

static stet_status rho_of(const lstm_cell_bounds *bounds, real scale, const lstm_grads *grad,
                          arena *a, double *rho)
{
    const size_t H = bounds->w->H, D = bounds->w->D;
    block b;
    TRY(block_make(bounds, false, a, &b));
    double *x = arena_new(a, double, 2 * H), *y = arena_new(a, double, 2 * H),
           *t = arena_new(a, double, 2 * H);
    if (!x || !y || !t)
        return STET_ENOMEM;
    perron(&b, block_times, x, t);
    perron(&b, block_transposed_times, y, t);
    block_times(&b, x, t);
    const double yx = gain_dot(y, x, 2 * H);
    *rho = yx > 0 ? gain_dot(y, t, 2 * H) / yx : 0;
    if (!grad || !(yx > 0))
        return STET_OK;
    weights k;
    TRY(weights_new(D, H, a, &k));
    for (size_t i = 0; i < H; i++) {
        for (size_t j = 0; j < H; j++) {
            k.h[i * H + j] = (real)(y[i] * x[j] / yx);
            k.b[i * H + j] = (real)(y[H + i] * x[j] / yx);
        }
        k.c[i] = (real)(y[i] * x[H + i] / yx);
        k.f[i] = (real)(y[H + i] * x[H + i] / yx);
    }
    return weighted_gradient(bounds, &k, scale, grad, a);
}

stet_status gbm_lstm_rho(const lstm_cell_bounds *b, real scale, const lstm_grads *grad,
                         arena *scratch, double *rho)
{
    const arena_mark mark = arena_save(scratch);
    const stet_status st = rho_of(b, scale, grad, scratch, rho);
    arena_restore(scratch, mark);
    return st;
}
