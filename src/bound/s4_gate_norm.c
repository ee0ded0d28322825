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

enum { X, X_RADIUS, U, U_RADIUS, GAMMA, BETA, INPUTS };

enum { ROWS = 64 }; /* of a piece */

/* What a row needs on its way: arrays of H. */
typedef struct row {
    real *gate_lo, *gate_hi; /* s(b) */
    real *centre, *radius;   /* of r; the centre without its mean */
    real norm, norm_radius;
    iv inv; /* 1 / sigma */
} row;
enum { ROW_ARRAYS = 4, GRAD_ARRAYS = 2 };

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

static iv half_of(const real *x, const real *radius, size_t j)
{
    return (iv){x[j] - radius[j], x[j] + radius[j]};
}

static real inverse_sigma(real norm, size_t H, real eps)
{
    return 1 / (real)sqrt((double)(norm * norm / (real)H + eps));
}

/* From the inputs of row i to r and 1 / sigma. */
SIMD_CLONES static void walk_row(const job *s, size_t i, row *r)
{
    const size_t H = s->H;
    node *const *in = s->n->in;
    const real *x = in[X]->value + i * 2 * H, *q = in[X_RADIUS]->value + i * 2 * H,
               *u = in[U]->value + i * H, *u_radius = in[U_RADIUS]->value + i * H;
    for (size_t j = 0; j < H; j++) {
        r->gate_lo[j] = x[H + j] - q[H + j];
        r->gate_hi[j] = x[H + j] + q[H + j];
    }
    vec_sigmoid(r->gate_lo, r->gate_lo, H);
    vec_sigmoid(r->gate_hi, r->gate_hi, H);
    double mean = 0, all = 0, squares = 0;
    for (size_t j = 0; j < H; j++) {
        const iv z = iv_mul_pos((iv){r->gate_lo[j], r->gate_hi[j]}, half_of(x, q, j));
        r->centre[j] = u[j] + (z.lo + z.hi) / 2;
        r->radius[j] = u_radius[j] + (z.hi - z.lo) / 2;
        mean += (double)r->centre[j] / (double)H;
    }
    for (size_t j = 0; j < H; j++) {
        r->centre[j] -= (real)mean;
        all += (double)(r->centre[j] * r->centre[j]);
        squares += (double)(r->radius[j] * r->radius[j]);
    }
    r->norm = (real)sqrt(all);
    r->norm_radius = (real)sqrt(squares);
    const real near = r->norm > r->norm_radius ? r->norm - r->norm_radius : 0;
    r->inv =
        (iv){inverse_sigma(r->norm + r->norm_radius, H, s->eps), inverse_sigma(near, H, s->eps)};
}

/* The mean moves too: deviation j of r - mean r, with `sum` the radii's. */
static real spread_of(const row *r, size_t j, size_t H, real sum)
{
    return r->radius[j] * (1 - 2 / (real)H) + sum / (real)H;
}

static real radius_sum(const row *r, size_t H)
{
    double sum = 0;
    for (size_t j = 0; j < H; j++)
        sum += (double)r->radius[j];
    return (real)sum;
}

/* ---- forward ------------------------------------------------------------------------------ */

static void forward_row(const job *s, size_t i, row *r)
{
    const size_t H = s->H;
    const real *gamma = s->n->in[GAMMA]->value, *beta = s->n->in[BETA]->value,
               most = (real)sqrt((double)H - 1);
    real *centre = s->n->value + i * 2 * H, *radius = centre + H;
    walk_row(s, i, r);
    const real sum = radius_sum(r, H);
    for (size_t j = 0; j < H; j++) {
        const real spread = spread_of(r, j, H, sum);
        iv n = iv_mul_pos(r->inv, (iv){r->centre[j] - spread, r->centre[j] + spread});
        n.lo = n.lo < -most ? -most : n.lo;
        n.hi = n.hi > most ? most : n.hi;
        centre[j] = gamma[j] * (n.lo + n.hi) / 2 + beta[j];
        radius[j] = (gamma[j] < 0 ? -gamma[j] : gamma[j]) * (n.hi - n.lo) / 2;
    }
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

/* Through gamma, beta and the division: gradients of r's centre (its mean removed) and radius, the
 * sum of the spreads' gradients still missing; returns it. */
static double norm_back(const job *s, size_t i, const row *r, iv *inv_, real *d_centre,
                        real *d_radius, real *d_gamma, real *d_beta)
{
    const size_t H = s->H;
    const real *gamma = s->n->in[GAMMA]->value, *dy = s->n->grad + i * 2 * H, *dq = dy + H,
               most = (real)sqrt((double)H - 1), sum = radius_sum(r, H);
    double spreads = 0;
    for (size_t j = 0; j < H; j++) {
        const real spread = spread_of(r, j, H, sum);
        const iv x = {r->centre[j] - spread, r->centre[j] + spread}, n = iv_mul_pos(r->inv, x);
        const real lo = n.lo < -most ? -most : n.lo, hi = n.hi > most ? most : n.hi;
        const real sign = gamma[j] < 0 ? -1 : 1, by = gamma[j] * dy[j] / 2,
                   by_q = sign * gamma[j] * dq[j] / 2;
        d_gamma[j] += dy[j] * (lo + hi) / 2 + sign * dq[j] * (hi - lo) / 2;
        d_beta[j] += dy[j];
        iv x_ = {0, 0};
        iv_mul_pos_back((iv){n.lo < -most ? 0 : by - by_q, n.hi > most ? 0 : by + by_q}, r->inv, x,
                        inv_, &x_);
        const real d_spread = x_.hi - x_.lo;
        d_centre[j] = x_.lo + x_.hi;
        d_radius[j] = d_spread * (1 - 2 / (real)H);
        spreads += (double)d_spread;
    }
    return spreads;
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

/* Through the residual and the gate to the inputs. */
static void gate_back(const job *s, size_t i, const row *r, const real *d_centre,
                      const real *d_radius)
{
    const size_t H = s->H;
    node *const *in = s->n->in;
    const real *x = in[X]->value + i * 2 * H, *q = in[X_RADIUS]->value + i * 2 * H;
    real *dx = in[X]->grad + i * 2 * H, *dq = in[X_RADIUS]->grad + i * 2 * H,
         *du = in[U]->grad + i * H, *du_radius = in[U_RADIUS]->grad + i * H;
    for (size_t j = 0; j < H; j++) {
        const iv gate = {r->gate_lo[j], r->gate_hi[j]};
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

static void backward_row(const job *s, size_t i, row *r, real *d_centre, real *d_radius,
                         real *d_gamma, real *d_beta)
{
    const size_t H = s->H;
    iv inv_ = {0, 0};
    real d_norm, d_norm_radius;
    walk_row(s, i, r);
    const double spreads = norm_back(s, i, r, &inv_, d_centre, d_radius, d_gamma, d_beta);
    sigma_back(s, r, inv_, &d_norm, &d_norm_radius);
    const real by = r->norm > 0 ? d_norm / r->norm : 0,
               by_radius = r->norm_radius > 0 ? d_norm_radius / r->norm_radius : 0;
    double mean = 0;
    for (size_t j = 0; j < H; j++) {
        d_centre[j] += by * r->centre[j];
        d_radius[j] += by_radius * r->radius[j] + (real)(spreads / (double)H);
        mean += (double)d_centre[j] / (double)H;
    }
    for (size_t j = 0; j < H; j++)
        d_centre[j] -= (real)mean;
    gate_back(s, i, r, d_centre, d_radius);
}

static void backward_piece(void *ctx, size_t piece, int worker)
{
    const job *s = ctx;
    const size_t H = s->H;
    real *scratch = s->scratch + (size_t)worker * (ROW_ARRAYS + GRAD_ARRAYS) * H,
         *d_gamma = s->partial + piece * 2 * H, *d_centre = scratch + ROW_ARRAYS * H;
    row r = row_in(scratch, H);
    memset(d_gamma, 0, 2 * H * sizeof *d_gamma);
    for (size_t i = piece * ROWS; i < (piece + 1) * ROWS && i < s->count; i++)
        backward_row(s, i, &r, d_centre, d_centre + H, d_gamma, d_gamma + H);
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
