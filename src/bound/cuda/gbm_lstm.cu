/* bound/cuda/gbm_lstm.cu - growth bounds of an LSTM's cell (../gbm_lstm.h). A block has a unit, its
 * threads share the unit's rows; what is not a row (../gbm_unit.h) every thread computes for itself.
 * Nothing is kept along a row: an entry is computed again from its weights where it is needed.
 *
 * Boxes that are no intervals are not found here: bounds over them mean nothing. */
#include "bound/cuda/gbm_lstm.cuh"

/* ---- entries ------------------------------------------------------------------------------ */

/* What meets at entry j of unit i's rows over v and h, one after the other. */
struct entry_in {
    float w[GATES], centre, radius, k, khat;
};

static __device__ entry_in entry_at(const gbm_cell &c, size_t i, size_t j)
{
    const bool over_v = j < c.w.D;
    const size_t n = over_v ? c.w.D : c.w.H, at = over_v ? j : j - c.w.D;
    const float *w = (over_v ? c.w.w_ih : c.w.w_hh) + i * n + at;
    const float *lo = over_v ? c.words : c.state, *K = over_v ? c.loss.Kv : c.loss.Kh,
                *Khat = over_v ? c.loss.Kahat : c.loss.Kbhat;
    entry_in e;
#pragma unroll
    for (int q = 0; q < GATES; q++)
        e.w[q] = w[(size_t)q * c.w.H * n];
    e.centre = (lo[n + at] + lo[at]) / 2;
    e.radius = (lo[n + at] - lo[at]) / 2;
    e.k = (over_v ? c.loss.kv : c.loss.kh) + (K ? K[i * n + at] : 0);
    e.khat = Khat ? Khat[i * n + at] : 0;
    return e;
}

static __device__ float larger(iv x)
{
    return x.hi >= -x.lo ? x.hi : -x.lo;
}

/* J: the range of dc' / dx. */
static __device__ iv jacobian(const entry_in &e, const iv (&P)[GO])
{
    iv j = {0, 0};
#pragma unroll
    for (int q = 0; q < GO; q++) {
        const bool up = e.w[q] >= 0;
        j.hi += e.w[q] * (up ? P[q].hi : P[q].lo);
        j.lo += e.w[q] * (up ? P[q].lo : P[q].hi);
    }
    return j;
}

/* The two ends of w_o [E] + [G] [J]. */
static __device__ iv entry_ends(float w, iv j, iv E, iv G)
{
    return iv{w * (w >= 0 ? E.lo : E.hi) + j.lo * (j.lo >= 0 ? G.lo : G.hi),
              w * (w >= 0 ? E.hi : E.lo) + j.hi * (j.hi >= 0 ? G.hi : G.lo)};
}

/* Adjoints of an entry: of its two ends, of J's, of w_o by itself. */
struct entry_adjoint {
    iv j, m_, j_;
    float dw_o;
};

/* `around_`: the adjoint of the mean-value radius. */
static __device__ entry_adjoint entry_back(const entry_in &e, const unit &u, float around_)
{
    entry_adjoint a;
    const float w = e.w[GO];
    a.j = jacobian(e, u.P);
    const iv m = entry_ends(w, a.j, u.E, u.G);
    a.m_.hi = m.hi >= -m.lo ? e.k : 0;
    a.m_.lo = a.m_.hi - e.k; /* one of them is 0 */
    a.dw_o = a.m_.hi * (w >= 0 ? u.E.hi : u.E.lo) + a.m_.lo * (w >= 0 ? u.E.lo : u.E.hi);
    const float hat_ = around_ * e.radius + e.khat, upper = a.j.hi >= -a.j.lo ? hat_ : 0;
    a.j_.hi = a.m_.hi * (a.j.hi >= 0 ? u.G.hi : u.G.lo) + upper;
    a.j_.lo = a.m_.lo * (a.j.lo >= 0 ? u.G.lo : u.G.hi) + (upper - hat_);
    return a;
}

/* ---- a unit, forward ---------------------------------------------------------------------- */

#define FOR_ENTRIES(c, j) for (size_t j = threadIdx.x; j < (c).w.D + (c).w.H; j += UNIT_THREADS)

static __device__ void unit_forward(const gbm_cell &c, size_t i, unit *u)
{
    const size_t H = c.w.H;
    float range[2 * GATES] = {}, radius[1] = {};
    FOR_ENTRIES(c, j)
    {
        const entry_in e = entry_at(c, i, j);
#pragma unroll
        for (int q = 0; q < GATES; q++) {
            range[2 * q] += e.w[q] * e.centre;
            range[2 * q + 1] += fabsf(e.w[q]) * e.radius;
        }
    }
    block_totals(range);
    u->C = iv{c.state[2 * H + i], c.state[3 * H + i]};
#pragma unroll
    for (int q = 0; q < GATES; q++)
        unit_gate(u, q, range[2 * q] + c.w.b_ih[q * H + i] + c.w.b_hh[q * H + i], range[2 * q + 1]);
    unit_factors(u);
    FOR_ENTRIES(c, j)
    {
        const entry_in e = entry_at(c, i, j);
        radius[0] += larger(jacobian(e, u->P)) * e.radius;
    }
    block_totals(radius);
    unit_cell(u, radius[0], c.mode);
    unit_state(u);
}

/* A bound that cannot be computed is no bound. */
static __device__ float widened(float m)
{
    return isnan(m) ? INFINITY : m;
}

static __device__ void store_entries(const gbm_cell &c, size_t i, const unit &u)
{
    const size_t D = c.w.D, H = c.w.H;
    FOR_ENTRIES(c, j)
    {
        const entry_in e = entry_at(c, i, j);
        const iv J = jacobian(e, u.P);
        const float m = widened(larger(entry_ends(e.w[GO], J, u.E, u.G))), hat = widened(larger(J));
        const size_t col = j - D;
        if (j >= D) {
            c.m[i * H + col] = c.mt[col * 2 * H + i] = (double)m;
            c.m[(H + i) * H + col] = c.mt[col * 2 * H + H + i] = (double)hat;
        } else if (c.mv) {
            c.mv[i * D + j] = m;
            c.ahat[i * D + j] = hat;
        }
    }
    if (threadIdx.x == 0) {
        c.mc[i] = (double)widened(u.G.hi * u.act[GF].hi);
        c.f[i] = (double)widened(u.act[GF].hi);
    }
}

static __device__ void store_value(const gbm_cell &c, size_t i, const unit &u)
{
    double sum[3] = {}; /* of Mv, of Mh, with their weights */
    FOR_ENTRIES(c, j)
    {
        const entry_in e = entry_at(c, i, j);
        const iv J = jacobian(e, u.P);
        const float m = larger(entry_ends(e.w[GO], J, u.E, u.G));
        sum[0] += j < c.w.D ? (double)m : 0;
        sum[1] += j < c.w.D ? 0 : (double)m;
        sum[2] += (double)e.k * (double)m + (double)e.khat * (double)larger(J);
    }
    block_totals(sum);
    if (threadIdx.x != 0)
        return;
    const float mc = u.G.hi * u.act[GF].hi;
    c.value[i] = (float)sum[2] + (c.loss.kc + (c.loss.Kc ? c.loss.Kc[i] : 0)) * mc +
                 (c.loss.Kfmax ? c.loss.Kfmax[i] * u.act[GF].hi : 0);
    c.parts[3 * i] = sum[0];
    c.parts[3 * i + 1] = sum[1];
    c.parts[3 * i + 2] = (double)mc;
}

/* ---- a unit, backward --------------------------------------------------------------------- */

/* What the entries send back to [E] and [G], and E's and G's share of the cell: the adjoint of the
 * mean-value radius. */
static __device__ float ends_back(const gbm_cell &c, size_t i, const unit &u, unit_adjoint *a)
{
    float sum[4] = {}; /* w and |w| with their adjoints, G's lower and upper end */
    FOR_ENTRIES(c, j)
    {
        const entry_in e = entry_at(c, i, j);
        const entry_adjoint x = entry_back(e, u, 0);
        sum[0] += e.w[GO] * (x.m_.hi + x.m_.lo);
        sum[1] += fabsf(e.w[GO]) * e.k; /* |w| (hi - lo) */
        sum[2] += x.m_.lo * fmaxf(x.j.lo, 0) - x.m_.hi * fmaxf(-x.j.hi, 0);
        sum[3] += x.m_.hi * fmaxf(x.j.hi, 0) - x.m_.lo * fmaxf(-x.j.lo, 0);
    }
    block_totals(sum);
    const float kc = c.loss.kc + (c.loss.Kc ? c.loss.Kc[i] : 0);
    const iv E_ = {(sum[0] - sum[1]) / 2, (sum[0] + sum[1]) / 2},
             G_ = {sum[2], sum[3] + kc * u.act[GF].hi};
    a->act[GF].hi += kc * u.G.hi + (c.loss.Kfmax ? c.loss.Kfmax[i] : 0);
    return cell_back(&u, E_, G_, a);
}

static __device__ void unit_backward(const gbm_cell &c, size_t i, const unit &u)
{
    const size_t D = c.w.D, H = c.w.H;
    unit_adjoint a = {};
    const float around_ = ends_back(c, i, u, &a);
    float sum[2 * GO] = {};
    FOR_ENTRIES(c, j)
    {
        const entry_in e = entry_at(c, i, j);
        const entry_adjoint x = entry_back(e, u, around_);
#pragma unroll
        for (int q = 0; q < GO; q++) {
            sum[2 * q] += e.w[q] * (x.j_.hi + x.j_.lo);
            sum[2 * q + 1] += fabsf(e.w[q]) * (x.j_.hi - x.j_.lo);
        }
    }
    block_totals(sum);
#pragma unroll
    for (int q = 0; q < GO; q++)
        a.P[q] = iv{(sum[2 * q] - sum[2 * q + 1]) / 2, (sum[2 * q] + sum[2 * q + 1]) / 2};
    factors_back(&u, &a);
    float dm[GATES], dr[GATES];
#pragma unroll
    for (int q = 0; q < GATES; q++) {
        dm[q] = a.mid[q] + a.T[q].lo + a.T[q].hi;
        dr[q] = a.T[q].hi - a.T[q].lo;
        if (threadIdx.x == 0)
            c.db[q * H + i] = dm[q];
    }
    FOR_ENTRIES(c, j)
    {
        const entry_in e = entry_at(c, i, j);
        const entry_adjoint x = entry_back(e, u, around_);
        const size_t n = j < D ? D : H;
        float *out = j < D ? c.dw_ih + i * D + j : c.dw_hh + i * H + (j - D);
#pragma unroll
        for (int q = 0; q < GATES; q++) {
            const float w = e.w[q], of_radius = w > 0 ? dr[q] : w < 0 ? -dr[q] : 0;
            const float direct = q == GO  ? x.dw_o
                                 : w >= 0 ? x.j_.hi * u.P[q].hi + x.j_.lo * u.P[q].lo
                                          : x.j_.hi * u.P[q].lo + x.j_.lo * u.P[q].hi;
            out[(size_t)q * H * n] = direct + dm[q] * e.centre + of_radius * e.radius;
        }
    }
}

static __global__ void __launch_bounds__(UNIT_THREADS) unit_kernel(gbm_cell c)
{
    const size_t i = blockIdx.x;
    unit u;
    unit_forward(c, i, &u);
    if (c.m)
        store_entries(c, i, u);
    if (c.value)
        store_value(c, i, u);
    if (c.dw_ih)
        unit_backward(c, i, u);
}

/* ---- what others call --------------------------------------------------------------------- */

gbm_cell gbm_cell_of(const node *n)
{
    const gbm_lstm_args *a = (const gbm_lstm_args *)n->args;
    gbm_cell c = {};
    c.w = lstm_weights{shape_cols(n->in[IN_W_IH]->shape),
                       shape_cols(n->in[IN_W_HH]->shape),
                       n->in[IN_W_IH]->value,
                       n->in[IN_W_HH]->value,
                       n->in[IN_B_IH]->value,
                       n->in[IN_B_HH]->value};
    c.words = n->in[IN_WORDS]->value;
    c.state = n->in[IN_STATE]->value;
    c.mode = (gbm_cell_mode)a->mode;
    return c;
}

stet_status gbm_cell_run(cuda_device *d, const node *n, const gbm_cell *c)
{
    if (c->w.H == 0)
        return STET_OK;
    unit_kernel<<<(unsigned)c->w.H, UNIT_THREADS, 0, d->stream>>>(*c);
    return cuda_launched(d, n->op->name);
}

/* ---- gradients kept ----------------------------------------------------------------------- */

static size_t weight_count(const gbm_cell *c)
{
    return 4 * c->w.H * (c->w.D + c->w.H + 1);
}

stet_status gbm_cell_keep(tape *t, node *n, scratch *mem, gbm_cell *c, size_t more, float **rest)
{
    if (!n->needs_grad || !t->record) {
        *rest = mem->take<float>(more);
        return *rest ? STET_OK : STET_ENOMEM;
    }
    float *x = (float *)store_arena_alloc(t->values, weight_count(c) + more, sizeof(float));
    n->saved = x;
    if (!x)
        return STET_ENOMEM;
    c->dw_ih = x;
    c->dw_hh = x + 4 * c->w.H * c->w.D;
    c->db = c->dw_hh + 4 * c->w.H * c->w.H;
    *rest = x + weight_count(c);
    return STET_OK;
}

float *gbm_cell_rest(const node *n)
{
    const gbm_cell c = gbm_cell_of(n);
    return (float *)n->saved + weight_count(&c);
}

struct add_scaled {
    const float *from, *by, *also; /* also: NULL for 1 */
    size_t cols, H;
    bool each_unit;
    float *to;
    __device__ void operator()(size_t i) const
    {
        const float scale = by[each_unit ? i / cols % H : 0] * (also ? *also : 1);
        to[i] += scale * from[i];
    }
};

stet_status gbm_cell_back(cuda_device *d, node *n, const float *by, const float *also,
                          bool each_unit)
{
    const gbm_cell c = gbm_cell_of(n);
    const float *saved = (const float *)n->saved;
    const size_t D = c.w.D, H = c.w.H,
                 first[IN_WEIGHTS] = {0, 4 * H * D, 4 * H * (D + H), 4 * H * (D + H)};
    for (int k = 0; k < IN_WEIGHTS; k++) {
        node *x = n->in[k];
        if (!x->needs_grad)
            continue;
        const size_t count = shape_count(x->shape);
        const add_scaled f = {saved + first[k], by, also, count / (4 * H), H, each_unit, x->grad};
        TRY(each(d, n->op->name, count, f));
    }
    return STET_OK;
}

/* ---- gbm_lstm_rows ------------------------------------------------------------------------ */

/* A warp has the sum of one part over the units. */
static __global__ void parts_kernel(const double *parts, size_t H, float *out)
{
    const unsigned p = threadIdx.x / WARP;
    double sum = 0;
    for (size_t i = threadIdx.x % WARP; i < H; i += WARP)
        sum += parts[3 * i + p];
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0)
        out[p] = (float)sum;
}

/* (H + 3): what each unit contributes, then the sums of Mv, Mh, Mc, which have no gradient. */
extern "C" stet_status cuda_gbm_lstm_rows_fwd(tape *t, node *n)
{
    cuda_device *d = cuda_now();
    const gbm_lstm_args *a = (const gbm_lstm_args *)n->args;
    gbm_cell c = gbm_cell_of(n);
    scratch mem(d);
    float *rest;
    TRY(gbm_cell_keep(t, n, &mem, &c, 1, &rest));
    c.loss.kv = (float)a->k_v;
    c.loss.kh = (float)a->k_h;
    c.loss.kc = (float)a->k_c;
    c.value = n->value;
    c.parts = mem.take<double>(3 * c.w.H);
    if (!c.parts)
        return STET_ENOMEM;
    TRY(gbm_cell_run(d, n, &c));
    parts_kernel<<<1, 3 * WARP, 0, d->stream>>>(c.parts, c.w.H, n->value + c.w.H);
    return cuda_launched(d, n->op->name);
}

extern "C" stet_status cuda_gbm_lstm_rows_bwd(tape *, node *n)
{
    return gbm_cell_back(cuda_now(), n, n->grad, NULL, true);
}
