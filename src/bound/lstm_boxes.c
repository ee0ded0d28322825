/* bound/lstm_boxes.c - see lstm_boxes.h. */
#include "bound/lstm_boxes.h"

#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "bound/lstm_rows.h"
#include "tensor/kernels.h"

/* ---- reading a text ----------------------------------------------------------------------- */

/* z (4H): what goes into the gates, without the state's part. */
static void advance(const lstm_weights *w, real *z, const real *h, const real *c, real *h_next,
                    real *c_next)
{
    const size_t H = w->H;
    for (size_t j = 0; j < 4 * H; j++)
        z[j] += vec_dot(w->w_hh + j * H, h, H);
    vec_sigmoid(z, z, 2 * H);
    vec_tanh(z + 2 * H, z + 2 * H, H);
    vec_sigmoid(z + 3 * H, z + 3 * H, H);
    for (size_t i = 0; i < H; i++)
        c_next[i] = z[H + i] * c[i] + z[i] * z[2 * H + i];
    vec_tanh(c_next, h_next, H);
    for (size_t i = 0; i < H; i++)
        h_next[i] *= z[3 * H + i];
}

stet_status lstm_read(const lstm_weights *w, const real *rows, const uint32_t *index, size_t n,
                      bool reverse, arena *scratch, real *h, real *c)
{
    const size_t D = w->D, H = w->H;
    const arena_mark mark = arena_save(scratch);
    real *x = arena_new(scratch, real, n * D), *z = arena_new(scratch, real, n * 4 * H);
    if (!x || !z)
        return STET_ENOMEM;
    for (size_t t = 0; t < n; t++) {
        memcpy(x + t * D, rows + (size_t)index[reverse ? n - 1 - t : t] * D, D * sizeof *x);
        for (size_t j = 0; j < 4 * H; j++)
            z[t * 4 * H + j] = w->b_ih[j] + w->b_hh[j];
    }
    TRY(gemm(false, true, n, 4 * H, D, 1, x, D, w->w_ih, D, 1, z, 4 * H));
    memset(h, 0, H * sizeof *h);
    memset(c, 0, H * sizeof *c);
    for (size_t t = 0; t < n; t++)
        advance(w, z + t * 4 * H, h + t * H, c + t * H, h + (t + 1) * H, c + (t + 1) * H);
    arena_restore(scratch, mark);
    return STET_OK;
}

/* ---- observed and local ------------------------------------------------------------------- */

static void observe(real *lo, real *hi, const real *x, size_t H, size_t n, double forget,
                    bool first)
{
    for (size_t i = 0; i < H; i++) {
        const real back = first ? 0 : (real)forget * (hi[i] - lo[i]);
        real least = first ? x[i] : lo[i] + back, most = first ? x[i] : hi[i] - back;
        for (size_t t = 0; t < n; t++) {
            least = x[t * H + i] < least ? x[t * H + i] : least;
            most = x[t * H + i] > most ? x[t * H + i] : most;
        }
        lo[i] = least;
        hi[i] = most;
    }
}

void box_observe(const state_box *b, size_t H, const real *h, const real *c, size_t n,
                 double forget, bool first)
{
    observe(b->h_lo, b->h_hi, h, H, n, forget, first);
    observe(b->c_lo, b->c_hi, c, H, n, forget, first);
}

void box_around(const state_box *b, size_t H, const real *h, const real *c, double radius)
{
    const real r = (real)radius;
    for (size_t i = 0; i < H; i++) {
        const iv hull = iv_cap((iv){h[i] - r, h[i] + r}, (iv){-1, 1});
        b->h_lo[i] = hull.lo;
        b->h_hi[i] = hull.hi;
        b->c_lo[i] = c[i] - r;
        b->c_hi[i] = c[i] + r;
    }
}

/* ---- invariant ---------------------------------------------------------------------------- */

enum { ROUNDS = 4 }; /* each tightens h, and with it the gates of the next */

typedef struct invariant {
    const lstm_weights *w;
    const real *centre[2], *radius[2]; /* of v and h */
    double words;
    const state_box *b;
} invariant;

/* 1 + f + ... + f^(n-1) */
static double geometric(double f, double n)
{
    return f < 1 ? -expm1(n * log(f)) / (1 - f) : n;
}

static iv gate_range(const invariant *v, size_t i, int q)
{
    const size_t n[2] = {v->w->D, v->w->H}, at = (size_t)q * v->w->H + i;
    const real *matrix[2] = {v->w->w_ih, v->w->w_hh};
    real mid = v->w->b_ih[at] + v->w->b_hh[at], rad = 0;
    for (int s = 0; s < 2; s++) {
        real r[2];
        row_range(matrix[s] + at * n[s],
                  &(segment){.centre = v->centre[s], .radius = v->radius[s], .n = n[s]}, r);
        mid += r[0];
        rad += r[1];
    }
    return (iv){mid - rad, mid + rad};
}

/* |c| grows by at most sup |i g| a step and keeps at most f+ of itself. */
static void unit_invariant(void *ctx, size_t i, int worker)
{
    (void)worker;
    const invariant *v = ctx;
    const iv in = iv_sigmoid(gate_range(v, i, GI)), f = iv_sigmoid(gate_range(v, i, GF));
    const iv g = iv_tanh(gate_range(v, i, GG)), o = iv_sigmoid(gate_range(v, i, GO));
    const iv ig = iv_with_zero(iv_mul_pos(in, g));
    const real most = (real)geometric((double)f.hi, v->words);
    const iv c = {ig.lo * most, ig.hi * most};
    const iv h = iv_cap(iv_with_zero(iv_mul_pos(o, iv_tanh(c))), (iv){-1, 1});
    v->b->c_lo[i] = c.lo;
    v->b->c_hi[i] = c.hi;
    v->b->h_lo[i] = h.lo;
    v->b->h_hi[i] = h.hi;
}

static void centre_radius(const real *lo, const real *hi, size_t n, real *centre, real *radius)
{
    for (size_t i = 0; i < n; i++) {
        centre[i] = iv_mid((iv){lo[i], hi[i]});
        radius[i] = iv_rad((iv){lo[i], hi[i]});
    }
}

stet_status box_invariant(const lstm_weights *w, const real *v_lo, const real *v_hi, size_t words,
                          arena *scratch, const state_box *b)
{
    const arena_mark mark = arena_save(scratch);
    real *v = arena_new(scratch, real, 2 * w->D), *h = arena_new(scratch, real, 2 * w->H);
    if (!v || !h)
        return STET_ENOMEM;
    const invariant job = {
        .w = w, .centre = {v, h}, .radius = {v + w->D, h + w->H}, .words = (double)words, .b = b};
    centre_radius(v_lo, v_hi, w->D, v, v + w->D);
    for (size_t i = 0; i < w->H; i++) {
        b->h_lo[i] = -1;
        b->h_hi[i] = 1;
    }
    /* Each round starts from a box that holds every h, so its results hold every c and h: no round
     * needs the one before to be tight. */
    for (int round = 0; round < ROUNDS; round++) {
        centre_radius(b->h_lo, b->h_hi, w->H, h, h + w->H);
        pool_run(w->H, unit_invariant, (void *)&job);
    }
    arena_restore(scratch, mark);
    return STET_OK;
}
