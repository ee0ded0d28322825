/* bound/cuda/s4_gate_norm.cu - ranges of an S4 layer's second half (../s4_gate_norm.h). A warp has a
 * row. Forward keeps the row's sums; its entries are computed again where they are needed. */
#include "tensor/cuda/device.cuh"

#include "bound/interval.h"

enum { X, X_RADIUS, U, U_RADIUS, GAMMA, BETA };

/* What a row is divided by, and what it takes to know it. */
struct row_sums {
    float mean, norm, norm_radius, radii; /* of r's centre; the norms; the sum of the radii */
    iv inv;                               /* 1 / sigma */
};

struct gate_norm {
    const float *x, *q, *u, *u_radius, *gamma, *beta;
    size_t rows, H;
    float eps, most; /* |n| <= most */
};

static gate_norm gate_norm_of(const node *n)
{
    const size_t H = shape_cols(n->in[U]->shape);
    return gate_norm{n->in[X]->value,
                     n->in[X_RADIUS]->value,
                     n->in[U]->value,
                     n->in[U_RADIUS]->value,
                     n->in[GAMMA]->value,
                     n->in[BETA]->value,
                     shape_rows(n->shape),
                     H,
                     (float)*(const double *)n->args,
                     (float)sqrt((double)H - 1)};
}

static __device__ float gate_sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* Entry j of row i: the gate, what it multiplies, and r by centre and radius. */
struct gate_entry {
    iv gate, a;
    float centre, radius;
};

static __device__ gate_entry gate_at(const gate_norm &s, size_t i, size_t j)
{
    const float *x = s.x + i * 2 * s.H + j, *q = s.q + i * 2 * s.H + j;
    gate_entry e;
    e.gate = iv{gate_sigmoid(x[s.H] - q[s.H]), gate_sigmoid(x[s.H] + q[s.H])};
    e.a = iv{x[0] - q[0], x[0] + q[0]};
    const iv z = iv_mul_pos(e.gate, e.a);
    e.centre = s.u[i * s.H + j] + iv_mid(z);
    e.radius = s.u_radius[i * s.H + j] + iv_rad(z);
    return e;
}

static __device__ float inverse_sigma(const gate_norm &s, float norm)
{
    return 1 / sqrtf(norm * norm / (float)s.H + s.eps);
}

#define FOR_ENTRIES(s, j) for (size_t j = threadIdx.x; j < (s).H; j += WARP)

static __device__ row_sums sums_of(const gate_norm &s, size_t i)
{
    row_sums r;
    double mean = 0, all = 0, squares = 0, radii = 0;
    FOR_ENTRIES(s, j)
    {
        const gate_entry e = gate_at(s, i, j);
        mean += (double)e.centre;
        squares += (double)(e.radius * e.radius);
        radii += (double)e.radius;
    }
    r.mean = (float)(warp_sum(mean) / (double)s.H);
    r.norm_radius = (float)sqrt(warp_sum(squares));
    r.radii = (float)warp_sum(radii);
    FOR_ENTRIES(s, j)
    {
        const float c = gate_at(s, i, j).centre - r.mean;
        all += (double)(c * c);
    }
    r.norm = (float)sqrt(warp_sum(all));
    const float near = r.norm > r.norm_radius ? r.norm - r.norm_radius : 0;
    r.inv = iv{inverse_sigma(s, r.norm + r.norm_radius), inverse_sigma(s, near)};
    return r;
}

/* Entry j divided: r - mean r, whose mean moves too, and n before it is cut at most. */
struct norm_entry {
    iv x, n;
    float lo, hi; /* of n, cut */
};

static __device__ norm_entry norm_at(const gate_norm &s, const row_sums &r, const gate_entry &e)
{
    const float centre = e.centre - r.mean,
                spread = e.radius * (1 - 2 / (float)s.H) + r.radii / (float)s.H;
    norm_entry o;
    o.x = iv{centre - spread, centre + spread};
    o.n = iv_mul_pos(r.inv, o.x);
    o.lo = o.n.lo < -s.most ? -s.most : o.n.lo;
    o.hi = o.n.hi > s.most ? s.most : o.n.hi;
    return o;
}

/* Rows of a block's warps. */
#define FOR_ROWS(s, i)                                                                             \
    for (size_t i = (size_t)blockIdx.x * COLUMN_ROWS + threadIdx.y; i < (s).rows;                  \
         i += (size_t)gridDim.x * COLUMN_ROWS)

static __global__ void gate_norm_kernel(gate_norm s, float *out, row_sums *kept)
{
    FOR_ROWS(s, i)
    {
        const row_sums r = sums_of(s, i);
        FOR_ENTRIES(s, j)
        {
            const norm_entry o = norm_at(s, r, gate_at(s, i, j));
            float *at = out + i * 2 * s.H + j;
            at[0] = s.gamma[j] * (o.lo + o.hi) / 2 + s.beta[j];
            at[s.H] = fabsf(s.gamma[j]) * (o.hi - o.lo) / 2;
        }
        if (kept && threadIdx.x == 0)
            kept[i] = r;
    }
}

extern "C" stet_status cuda_s4_gate_norm_fwd(tape *t, node *n)
{
    cuda_device *d = cuda_now();
    const gate_norm s = gate_norm_of(n);
    if (n->needs_grad && !(n->saved = store_arena_alloc(t->values, s.rows, sizeof(row_sums))))
        return STET_ENOMEM;
    if (s.rows == 0)
        return STET_OK;
    gate_norm_kernel<<<blocks_for(s.rows, COLUMN_ROWS), dim3(WARP, COLUMN_ROWS), 0, d->stream>>>(
        s, n->value, (row_sums *)n->saved);
    return cuda_launched(d, n->op->name);
}

/* ---- backward ----------------------------------------------------------------------------- */

/* Adjoints of entry j's ends before the division, and what it sends to 1 / sigma. */
struct norm_adjoint {
    iv x_, inv_;
};

static __device__ norm_adjoint norm_back(const gate_norm &s, const row_sums &r, const norm_entry &o,
                                         const float *dy, size_t i, size_t j)
{
    const float *at = dy + i * 2 * s.H + j;
    const float by = s.gamma[j] * at[0] / 2, by_q = fabsf(s.gamma[j]) * at[s.H] / 2;
    norm_adjoint a = {{0, 0}, {0, 0}};
    iv_mul_pos_back(iv{o.n.lo < -s.most ? 0 : by - by_q, o.n.hi > s.most ? 0 : by + by_q}, r.inv,
                    o.x, &a.inv_, &a.x_);
    return a;
}

/* What all entries of a row together send back. */
struct row_adjoint {
    float by, by_radius, spread, mean; /* factors of centre and radius; spreads' share; the mean */
};

static __device__ row_adjoint row_back(const gate_norm &s, const row_sums &r, const float *dy,
                                       size_t i)
{
    double spreads = 0, mean = 0;
    iv inv_ = {0, 0};
    FOR_ENTRIES(s, j)
    {
        const norm_adjoint a = norm_back(s, r, norm_at(s, r, gate_at(s, i, j)), dy, i, j);
        inv_ = iv_add(inv_, a.inv_);
        spreads += (double)(a.x_.hi - a.x_.lo);
        mean += (double)(a.x_.lo + a.x_.hi);
    }
    inv_ = iv{warp_sum(inv_.lo), warp_sum(inv_.hi)};
    spreads = warp_sum(spreads);
    mean = warp_sum(mean);
    const float H = (float)s.H, far = r.norm + r.norm_radius, near = r.norm - r.norm_radius;
    const float d_far = -inv_.lo * r.inv.lo * r.inv.lo * r.inv.lo * far / H,
                d_near = near > 0 ? -inv_.hi * r.inv.hi * r.inv.hi * r.inv.hi * near / H : 0;
    const float by = r.norm > 0 ? (d_far + d_near) / r.norm : 0,
                by_radius = r.norm_radius > 0 ? (d_far - d_near) / r.norm_radius : 0;
    /* the centres, their mean removed, add up to 0: `by` adds nothing to the mean */
    return row_adjoint{by, by_radius, (float)(spreads / (double)s.H), (float)(mean / (double)s.H)};
}

struct gate_grads {
    float *x, *q, *u, *u_radius; /* NULL: not wanted */
};

static __device__ void add_to(float *x, size_t at, float d)
{
    if (x)
        x[at] += d;
}

static __global__ void gate_norm_bwd_kernel(gate_norm s, const row_sums *kept, const float *dy,
                                            gate_grads d)
{
    FOR_ROWS(s, i)
    {
        const row_sums r = kept[i];
        const row_adjoint all = row_back(s, r, dy, i);
        FOR_ENTRIES(s, j)
        {
            const gate_entry e = gate_at(s, i, j);
            const norm_adjoint a = norm_back(s, r, norm_at(s, r, e), dy, i, j);
            const float centre = a.x_.lo + a.x_.hi + all.by * (e.centre - r.mean) - all.mean;
            const float radius =
                (a.x_.hi - a.x_.lo) * (1 - 2 / (float)s.H) + all.by_radius * e.radius + all.spread;
            iv gate_ = {0, 0}, a_ = {0, 0};
            iv_mul_pos_back(iv{(centre - radius) / 2, (centre + radius) / 2}, e.gate, e.a, &gate_,
                            &a_);
            const iv b_ = {gate_.lo * e.gate.lo * (1 - e.gate.lo),
                           gate_.hi * e.gate.hi * (1 - e.gate.hi)};
            const size_t at = i * 2 * s.H + j;
            add_to(d.u, i * s.H + j, centre);
            add_to(d.u_radius, i * s.H + j, radius);
            add_to(d.x, at, a_.lo + a_.hi);
            add_to(d.q, at, a_.hi - a_.lo);
            add_to(d.x, at + s.H, b_.lo + b_.hi);
            add_to(d.q, at + s.H, b_.hi - b_.lo);
        }
    }
}

struct gate_gamma_entry {
    gate_norm s;
    const row_sums *kept;
    const float *dy;
    __device__ float operator()(size_t i, size_t j) const
    {
        const norm_entry o = norm_at(s, kept[i], gate_at(s, i, j));
        const float *at = dy + i * 2 * s.H + j, sign = s.gamma[j] < 0 ? -1 : 1;
        return at[0] * (o.lo + o.hi) / 2 + sign * at[s.H] * (o.hi - o.lo) / 2;
    }
};

static float *gradient_of(const node *n, int i)
{
    return n->in[i]->needs_grad ? n->in[i]->grad : NULL;
}

extern "C" stet_status cuda_s4_gate_norm_bwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const gate_norm s = gate_norm_of(n);
    const row_sums *kept = (const row_sums *)n->saved;
    const gate_grads grads = {gradient_of(n, X), gradient_of(n, X_RADIUS), gradient_of(n, U),
                              gradient_of(n, U_RADIUS)};
    if (s.rows == 0)
        return STET_OK;
    gate_norm_bwd_kernel<<<blocks_for(s.rows, COLUMN_ROWS), dim3(WARP, COLUMN_ROWS), 0,
                           d->stream>>>(s, kept, n->grad, grads);
    TRY(cuda_launched(d, n->op->name));
    if (n->in[GAMMA]->needs_grad)
        TRY(grad_add_columns(d, n->in[GAMMA], s.rows, gate_gamma_entry{s, kept, n->grad}));
    return n->in[BETA]->needs_grad
               ? grad_add_columns(d, n->in[BETA], s.rows, matrix_entry{n->grad, 2 * s.H})
               : STET_OK;
}
