/* bound/s4_gate_norm.c - see s4_gate_norm.h. Row by row:
 *
 *     z = a s(b), the halves of x        s > 0: a product of intervals with a positive factor
 *     r = u + z                          as if z did not depend on u
 *     n = (r - mean r) / sigma           r - mean r exactly; sigma from the norm of its centre,
 * give or take the norm of the radius; |n_i| <= sqrt(H - 1) gamma n + beta
 *
 * Backward repeats the row and then walks it from the end. */
#include "bound/s4_gate_norm.h"

#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "base/simd.h"
#include "bound/bound_ops.h"
#include "bound/interval.h"
#include "tensor/kernels.h"
#include "tensor/vmath.h"

enum { X, X_RADIUS, U, U_RADIUS, GAMMA, BETA, INPUTS };

enum { ROWS = 64 }; /* of a piece */

/* What a row needs on its way: arrays of H. */
typedef struct row {
    real *gate_lo, *gate_hi; /* s(b) */
    real *centre, *radius;   /* of r; the centre without its mean */
    real norm, norm_radius, radius_sum;
    iv inv; /* 1 / sigma */
} row;
enum { ROW_ARRAYS = 4, GRAD_ARRAYS = 5 };

typedef struct job {
    const node *n;
    size_t H, count;
    real eps;
    real *scratch; /* (workers, ROW_ARRAYS + GRAD_ARRAYS, H) */
    real *partial; /* (pieces, 2, H): gamma's and beta's gradients */
} job;

static job job_of(const node *n)
{
    return (job){.n = n,
                 .H = shape_cols(n->in[U]->shape),
                 .count = shape_rows(n->shape),
                 .eps = (real) * (const double *)n->args};
}

static row row_in(real *scratch, size_t H)
{
    return (row){.gate_lo = scratch,
                 .gate_hi = scratch + H,
                 .centre = scratch + 2 * H,
                 .radius = scratch + 3 * H};
}

static ALWAYS_INLINE iv half_of(const real *x, const real *radius, size_t j)
{
    return (iv){x[j] - radius[j], x[j] + radius[j]};
}

/* Sums of x and of its squares in lanes, the same on every machine. */
enum { LANES = 16 };
SIMD_CLONES static double sum_of(size_t n, const real *RESTRICT x)
{
    double lane[LANES] = {0}, sum = 0;
    size_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (size_t i = 0; i < LANES; i++)
            lane[i] += (double)x[j + i];
    for (; j < n; j++)
        lane[j % LANES] += (double)x[j];
    for (size_t i = 0; i < LANES; i++)
        sum += lane[i];
    return sum;
}

SIMD_CLONES static double squares_of(size_t n, const real *RESTRICT x)
{
    double lane[LANES] = {0}, sum = 0;
    size_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (size_t i = 0; i < LANES; i++)
            lane[i] += (double)(x[j + i] * x[j + i]);
    for (; j < n; j++)
        lane[j % LANES] += (double)(x[j] * x[j]);
    for (size_t i = 0; i < LANES; i++)
        sum += lane[i];
    return sum;
}

SIMD_CLONES static void take_away(size_t n, real by, real *x)
{
    for (size_t j = 0; j < n; j++)
        x[j] -= by;
}

static real inverse_sigma(real norm, size_t H, real eps)
{
    return 1 / (real)sqrt((double)(norm * norm / (real)H + eps));
}

SIMD_CLONES static void ends_of(size_t n, const real *RESTRICT x, const real *RESTRICT radius,
                                real *RESTRICT lo, real *RESTRICT hi)
{
    for (size_t j = 0; j < n; j++) {
        lo[j] = x[j] - radius[j];
        hi[j] = x[j] + radius[j];
    }
}

SIMD_CLONES static void add_gated(size_t n, const real *RESTRICT x, const real *RESTRICT q,
                                  const real *RESTRICT lo, const real *RESTRICT hi,
                                  const real *RESTRICT u, const real *RESTRICT u_radius,
                                  real *RESTRICT centre, real *RESTRICT radius)
{
    for (size_t j = 0; j < n; j++) {
        const iv z = iv_mul_pos((iv){lo[j], hi[j]}, half_of(x, q, j));
        centre[j] = u[j] + (z.lo + z.hi) / 2;
        radius[j] = u_radius[j] + (z.hi - z.lo) / 2;
    }
}

/* From the inputs of row i to r and 1 / sigma. */
static void walk_row(const job *s, size_t i, row *r)
{
    const size_t H = s->H;
    node *const *in = s->n->in;
    const real *x = in[X]->value + i * 2 * H, *q = in[X_RADIUS]->value + i * 2 * H;
    ends_of(H, x + H, q + H, r->gate_lo, r->gate_hi);
    vec_sigmoid(r->gate_lo, r->gate_lo, 2 * H); /* one behind the other */
    add_gated(H, x, q, r->gate_lo, r->gate_hi, in[U]->value + i * H, in[U_RADIUS]->value + i * H,
              r->centre, r->radius);
    take_away(H, (real)(sum_of(H, r->centre) / (double)H), r->centre);
    r->norm = (real)sqrt(squares_of(H, r->centre));
    r->norm_radius = (real)sqrt(squares_of(H, r->radius));
    r->radius_sum = (real)sum_of(H, r->radius);
    const real near = r->norm > r->norm_radius ? r->norm - r->norm_radius : 0;
    r->inv =
        (iv){inverse_sigma(r->norm + r->norm_radius, H, s->eps), inverse_sigma(near, H, s->eps)};
}

/* The mean moves too: deviation of r - mean r. */
static ALWAYS_INLINE real spread_of(real radius, real sum, size_t H)
{
    return radius * (1 - 2 / (real)H) + sum / (real)H;
}

/* ---- forward ------------------------------------------------------------------------------ */

SIMD_CLONES static void forward_norm(const row *r, size_t H, const real *RESTRICT gamma,
                                     const real *RESTRICT beta, real *RESTRICT centre,
                                     real *RESTRICT radius)
{
    const real most = (real)sqrt((double)H - 1), sum = r->radius_sum;
    const real *RESTRICT from = r->centre, *RESTRICT by = r->radius;
    const iv inv = r->inv;
    for (size_t j = 0; j < H; j++) {
        const real spread = spread_of(by[j], sum, H);
        iv n = iv_mul_pos(inv, (iv){from[j] - spread, from[j] + spread});
        n.lo = n.lo < -most ? -most : n.lo;
        n.hi = n.hi > most ? most : n.hi;
        centre[j] = gamma[j] * (n.lo + n.hi) / 2 + beta[j];
        radius[j] = (gamma[j] < 0 ? -gamma[j] : gamma[j]) * (n.hi - n.lo) / 2;
    }
}

static void forward_row(const job *s, size_t i, row *r)
{
    real *centre = s->n->value + i * 2 * s->H;
    walk_row(s, i, r);
    forward_norm(r, s->H, s->n->in[GAMMA]->value, s->n->in[BETA]->value, centre, centre + s->H);
}

static void forward_piece(void *ctx, size_t piece, int worker)
{
    const job *s = ctx;
    row r = row_in(s->scratch + (size_t)worker * (ROW_ARRAYS + GRAD_ARRAYS) * s->H, s->H);
    for (size_t i = piece * ROWS; i < (piece + 1) * ROWS && i < s->count; i++)
        forward_row(s, i, &r);
}

static stet_status run(tape *t, job *s, pool_fn *fn)
{
    s->scratch =
        arena_new(t->mem, real, (size_t)stet_threads() * (ROW_ARRAYS + GRAD_ARRAYS) * s->H);
    if (!s->scratch)
        return STET_ENOMEM;
    pool_run((s->count + ROWS - 1) / ROWS, fn, s);
    return STET_OK;
}

static stet_status gate_norm_fwd(tape *t, node *n)
{
    job s = job_of(n);
    const arena_mark scratch = arena_save(t->mem);
    TRY(run(t, &s, forward_piece));
    arena_restore(t->mem, scratch);
    return STET_OK;
}

/* ---- backward ----------------------------------------------------------------------------- */

/* Gradients of a row, arrays of H; those of the spread and of 1 / sigma are to be summed up. */
typedef struct row_grads {
    real *centre, *radius, *spread, *inv_lo, *inv_hi;
} row_grads;

/* Through gamma, beta and the division: gradients of r's centre (its mean removed) and radius, the
 * sum of the spreads' gradients still missing. */
SIMD_CLONES static void norm_back(const row *r, size_t H, const real *RESTRICT gamma,
                                  const real *RESTRICT dy, const row_grads *g,
                                  real *RESTRICT d_gamma, real *RESTRICT d_beta)
{
    const real most = (real)sqrt((double)H - 1), sum = r->radius_sum;
    const real *RESTRICT dq = dy + H, *RESTRICT from = r->centre, *RESTRICT around = r->radius;
    real *RESTRICT d_centre = g->centre, *RESTRICT d_radius = g->radius,
                   *RESTRICT d_spread = g->spread, *RESTRICT inv_lo = g->inv_lo,
                   *RESTRICT inv_hi = g->inv_hi;
    const iv inv = r->inv;
    INDEPENDENT
    for (size_t j = 0; j < H; j++) {
        const real spread = spread_of(around[j], sum, H);
        const iv x = {from[j] - spread, from[j] + spread}, n = iv_mul_pos(inv, x);
        const real lo = n.lo < -most ? -most : n.lo, hi = n.hi > most ? most : n.hi;
        const real sign = gamma[j] < 0 ? -1 : 1, by = gamma[j] * dy[j] / 2,
                   by_q = sign * gamma[j] * dq[j] / 2;
        d_gamma[j] += dy[j] * (lo + hi) / 2 + sign * dq[j] * (hi - lo) / 2;
        d_beta[j] += dy[j];
        iv x_ = {0, 0}, inv_ = {0, 0};
        iv_mul_pos_back((iv){n.lo < -most ? 0 : by - by_q, n.hi > most ? 0 : by + by_q}, inv, x,
                        &inv_, &x_);
        inv_lo[j] = inv_.lo;
        inv_hi[j] = inv_.hi;
        d_spread[j] = x_.hi - x_.lo;
        d_centre[j] = x_.lo + x_.hi;
        d_radius[j] = (x_.hi - x_.lo) * (1 - 2 / (real)H);
    }
}

/* 1 / sigma as a function of the norms. */
static void sigma_back(const job *s, const row *r, iv inv_, real *d_norm, real *d_norm_radius)
{
    const real far = r->norm + r->norm_radius, near = r->norm - r->norm_radius, H = (real)s->H;
    const real d_far = -inv_.lo * r->inv.lo * r->inv.lo * r->inv.lo * far / H,
               d_near =
                   near > 0 ? -inv_.hi * r->inv.hi * r->inv.hi * r->inv.hi * near / H : (real)0;
    *d_norm = d_far + d_near;
    *d_norm_radius = d_far - d_near;
}

SIMD_CLONES static void add_both(size_t n, const real *RESTRICT centre, real by,
                                 const real *RESTRICT radius, real by_radius, real more,
                                 real *RESTRICT d_centre, real *RESTRICT d_radius)
{
    for (size_t j = 0; j < n; j++) {
        d_centre[j] += by * centre[j];
        d_radius[j] += by_radius * radius[j] + more;
    }
}

/* Through the residual and the gate to the inputs. */
SIMD_CLONES static void gate_back(const job *s, size_t i, const row *r,
                                  const real *RESTRICT d_centre, const real *RESTRICT d_radius)
{
    const size_t H = s->H;
    node *const *in = s->n->in;
    const real *RESTRICT x = in[X]->value + i * 2 * H,
                         *RESTRICT q = in[X_RADIUS]->value + i * 2 * H,
                         *RESTRICT gate_lo = r->gate_lo, *RESTRICT gate_hi = r->gate_hi;
    real *RESTRICT dx = in[X]->grad + i * 2 * H, *RESTRICT dq = in[X_RADIUS]->grad + i * 2 * H,
                   *RESTRICT du = in[U]->grad + i * H,
                   *RESTRICT du_radius = in[U_RADIUS]->grad + i * H;
    INDEPENDENT
    for (size_t j = 0; j < H; j++) {
        const iv gate = {gate_lo[j], gate_hi[j]};
        iv gate_ = {0, 0}, a_ = {0, 0};
        iv_mul_pos_back((iv){(d_centre[j] - d_radius[j]) / 2, (d_centre[j] + d_radius[j]) / 2},
                        gate, half_of(x, q, j), &gate_, &a_);
        const iv b_ = {gate_.lo * gate.lo * (1 - gate.lo), gate_.hi * gate.hi * (1 - gate.hi)};
        du[j] += d_centre[j];
        du_radius[j] += d_radius[j];
        dx[j] += a_.lo + a_.hi;
        dq[j] += a_.hi - a_.lo;
        dx[H + j] += b_.lo + b_.hi;
        dq[H + j] += b_.hi - b_.lo;
    }
}

static void backward_row(const job *s, size_t i, row *r, const row_grads *g, real *d_gamma,
                         real *d_beta)
{
    const size_t H = s->H;
    real d_norm, d_norm_radius;
    walk_row(s, i, r);
    norm_back(r, H, s->n->in[GAMMA]->value, s->n->grad + i * 2 * H, g, d_gamma, d_beta);
    const iv inv_ = {(real)sum_of(H, g->inv_lo), (real)sum_of(H, g->inv_hi)};
    sigma_back(s, r, inv_, &d_norm, &d_norm_radius);
    const real by = r->norm > 0 ? d_norm / r->norm : 0,
               by_radius = r->norm_radius > 0 ? d_norm_radius / r->norm_radius : 0;
    add_both(H, r->centre, by, r->radius, by_radius, (real)(sum_of(H, g->spread) / (double)H),
             g->centre, g->radius);
    take_away(H, (real)(sum_of(H, g->centre) / (double)H), g->centre);
    gate_back(s, i, r, g->centre, g->radius);
}

static void backward_piece(void *ctx, size_t piece, int worker)
{
    const job *s = ctx;
    const size_t H = s->H;
    real *scratch = s->scratch + (size_t)worker * (ROW_ARRAYS + GRAD_ARRAYS) * H,
         *d_gamma = s->partial + piece * 2 * H, *d = scratch + ROW_ARRAYS * H;
    row r = row_in(scratch, H);
    const row_grads g = {d, d + H, d + 2 * H, d + 3 * H, d + 4 * H};
    memset(d_gamma, 0, 2 * H * sizeof *d_gamma);
    for (size_t i = piece * ROWS; i < (piece + 1) * ROWS && i < s->count; i++)
        backward_row(s, i, &r, &g, d_gamma, d_gamma + H);
}

static stet_status gate_norm_bwd(tape *t, node *n)
{
    job s = job_of(n);
    const size_t H = s.H, pieces = (s.count + ROWS - 1) / ROWS;
    const arena_mark scratch = arena_save(t->mem);
    s.partial = arena_new(t->mem, real, pieces * 2 * H);
    if (!s.partial)
        return STET_ENOMEM;
    TRY(run(t, &s, backward_piece));
    for (int side = 0; side < 2; side++) {
        real *d = n->in[GAMMA + side]->grad;
        for (size_t p = 0; d && p < pieces; p++)
            vec_axpy(1, s.partial + (p * 2 + (size_t)side) * H, d, H);
    }
    arena_restore(t->mem, scratch);
    return STET_OK;
}

static stet_status gate_norm_infer(const node *n, shape *out)
{
    *out = n->in[X]->shape;
    TRY(op_expect_shape(n, X_RADIUS, *out, "the radius"));
    TRY(op_expect_count(n, GAMMA, shape_cols(*out) / 2, "gamma"));
    return op_expect_count(n, BETA, shape_cols(*out) / 2, "beta");
}

const op_desc s4_gate_norm_op = {
    .name = "s4_gate_norm",
    .n_in = INPUTS,
    .infer = gate_norm_infer,
    .forward = {[DEV_CPU] = gate_norm_fwd, CUDA_KERNEL(cuda_s4_gate_norm_fwd)},
    .backward = {[DEV_CPU] = gate_norm_bwd, CUDA_KERNEL(cuda_s4_gate_norm_bwd)},
};

node *op_s4_gate_norm(tape *t, node *x, node *x_radius, node *u, node *u_radius, node *gamma,
                      node *beta, double eps)
{
    node *in[INPUTS] = {x, x_radius, u, u_radius, gamma, beta};
    return tape_push(t, &s4_gate_norm_op, in, INPUTS, &eps, sizeof eps);
}
