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

/* Cells that are computed at once: one, or both directions. */
struct gbm_cells {
    gbm_cell of[2];
};

static __global__ void __launch_bounds__(UNIT_THREADS)
    unit_kernel(const __grid_constant__ gbm_cells cells)
{
    const gbm_cell &c = cells.of[blockIdx.y];
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

static stet_status run_cells(cuda_device *d, const node *n, const gbm_cells *c, unsigned count)
{
    const unsigned H = (unsigned)c->of[0].w.H;
    if (H == 0)
        return STET_OK;
    unit_kernel<<<dim3(H, count), UNIT_THREADS, 0, d->stream>>>(*c);
    return cuda_launched(d, n->op->name);
}

/* ---- what others call --------------------------------------------------------------------- */

static gbm_cell cell_of(const node *n, node *const *w, const node *words, const node *state)
{
    gbm_cell c = {};
    c.w = lstm_weights{shape_cols(w[IN_W_IH]->shape),
                       shape_cols(w[IN_W_HH]->shape),
                       w[IN_W_IH]->value,
                       w[IN_W_HH]->value,
                       w[IN_B_IH]->value,
                       w[IN_B_HH]->value};
    c.words = words->value;
    c.state = state->value;
    c.mode = (gbm_cell_mode)((const gbm_lstm_args *)n->args)->mode;
    return c;
}

gbm_cell gbm_cell_of(const node *n)
{
    return cell_of(n, n->in, n->in[IN_WORDS], n->in[IN_STATE]);
}

stet_status gbm_cell_run(cuda_device *d, const node *n, const gbm_cell *c)
{
    const gbm_cells one = {{*c}};
    return run_cells(d, n, &one, 1);
}

/* ---- gradients kept ----------------------------------------------------------------------- */

static size_t weight_count(const gbm_cell *c)
{
    return 4 * c->w.H * (c->w.D + c->w.H + 1);
}

/* The gradients go to x (weight_count). */
static void keep_at(gbm_cell *c, float *x)
{
    c->dw_ih = x;
    c->dw_hh = x + 4 * c->w.H * c->w.D;
    c->db = c->dw_hh + 4 * c->w.H * c->w.H;
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
    keep_at(c, x);
    *rest = x + weight_count(c);
    return STET_OK;
}

/* What a cell gave away, and where its gradients belong. */
struct kept_cell {
    const float *from;     /* (weight_count) */
    const float *omega;    /* (H) factors of the units, or NULL */
    const float *slope;    /* (H) of omega */
    float *to[IN_WEIGHTS]; /* NULL: not wanted */
    float *domega;
};

static kept_cell kept_cell_of(node *const *w, const float *from)
{
    kept_cell k = {};
    k.from = from;
    for (int i = 0; i < IN_WEIGHTS; i++)
        k.to[i] = w[i]->needs_grad ? w[i]->grad : NULL;
    return k;
}

/* Gradients += *by (times *also where there is one) times those kept. A thread has both directions, so
 * that operands may be the same. */
struct add_kept {
    size_t D, H;
    int n;
    const float *by, *also;
    kept_cell of[2];
    __device__ static void add(float *to, size_t i, float x)
    {
        if (to)
            to[i] += x;
    }
    __device__ void operator()(size_t i) const
    {
        const size_t hh = 4 * H * D, b = hh + 4 * H * H, omega = b + 4 * H;
        const size_t unit = (i < hh ? i / D : i < b ? (i - hh) / H : i - b) % H;
        const float g = *by * (also ? *also : 1);
        for (int d = 0; d < n; d++) {
            const kept_cell &k = of[d];
            if (i >= omega) {
                add(k.domega, i - omega, g * (k.slope ? k.slope[i - omega] : 0));
                continue;
            }
            const float x = g * (k.omega ? k.omega[unit] : 1) * k.from[i];
            if (i < b) {
                add(i < hh ? k.to[IN_W_IH] : k.to[IN_W_HH], i < hh ? i : i - hh, x);
                continue;
            }
            add(k.to[IN_B_IH], i - b, x);
            add(k.to[IN_B_HH], i - b, x);
        }
    }
};

static stet_status add_kept_run(cuda_device *d, const node *n, add_kept f)
{
    return each(d, n->op->name, 4 * f.H * (f.D + f.H + 1) + f.H, f);
}

float *gbm_cell_rest(const node *n)
{
    const gbm_cell c = gbm_cell_of(n);
    return (float *)n->saved + weight_count(&c);
}

stet_status gbm_cell_back(cuda_device *d, node *n, const float *also, node *omega)
{
    const gbm_cell c = gbm_cell_of(n);
    add_kept f = {c.w.D, c.w.H, 1, n->grad, also, {kept_cell_of(n->in, (const float *)n->saved)}};
    if (omega && omega->needs_grad) {
        f.of[0].slope = gbm_cell_rest(n);
        f.of[0].domega = omega->grad;
    }
    return add_kept_run(d, n, f);
}

/* ---- gbm_lstms ---------------------------------------------------------------------------- */

/* Inputs: the weights of both directions, the box of words, both boxes of states, omega (2 H) or none. */
enum { IN_BOTH_WORDS = 2 * IN_WEIGHTS, IN_STATES, IN_BOTH_OMEGA = IN_STATES + 2 };

/* What the op keeps: the sums of Mv, Mh, Mc; what each unit contributes; for backward the gradients of
 * both directions' weights. */
struct lstms_kept {
    float *parts, *value, *grad;
};

static lstms_kept kept_of(const node *n, size_t H)
{
    float *x = (float *)n->saved;
    return lstms_kept{x, x + GBM_PARTS, x + GBM_PARTS + 2 * H};
}

static gbm_cell direction_of(const node *n, size_t d)
{
    return cell_of(n, n->in + d * IN_WEIGHTS, n->in[IN_BOTH_WORDS], n->in[IN_STATES + d]);
}

static const float *omega_of(const node *n)
{
    return n->n_in > IN_BOTH_OMEGA ? n->in[IN_BOTH_OMEGA]->value : NULL;
}

/* A warp has the sum of one part over the units, the last one that of their values. */
static __global__ void parts_kernel(const double *parts, size_t units, const float *omega,
                                    lstms_kept to, float *y)
{
    const unsigned p = threadIdx.x / WARP;
    double sum = 0;
    for (size_t i = threadIdx.x % WARP; i < units; i += WARP)
        sum += p < GBM_PARTS ? parts[GBM_PARTS * i + p]
                             : (double)to.value[i] * (omega ? (double)omega[i] : 1);
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0)
        *(p < GBM_PARTS ? to.parts + p : y) = (float)sum;
}

extern "C" stet_status cuda_gbm_lstms_fwd(tape *t, node *n)
{
    cuda_device *d = cuda_now();
    const gbm_lstm_args *a = (const gbm_lstm_args *)n->args;
    gbm_cells both = {{direction_of(n, 0), direction_of(n, 1)}};
    const size_t H = both.of[0].w.H, weights = weight_count(both.of);
    const bool learns = n->needs_grad && t->record;
    scratch mem(d);
    double *parts = mem.take<double>(2 * H * GBM_PARTS + 1);
    n->saved =
        store_arena_alloc(t->values, GBM_PARTS + 2 * H + (learns ? 2 * weights : 0), sizeof(float));
    if (!parts || !n->saved)
        return STET_ENOMEM;
    const lstms_kept kept = kept_of(n, H);
    for (size_t k = 0; k < 2; k++) {
        gbm_cell *c = &both.of[k];
        c->loss.kv = (float)a->k_v;
        c->loss.kh = (float)a->k_h;
        c->loss.kc = (float)a->k_c;
        c->value = kept.value + k * H;
        c->parts = parts + k * H * GBM_PARTS;
        if (learns)
            keep_at(c, kept.grad + k * weights);
    }
    TRY(run_cells(d, n, &both, 2));
    parts_kernel<<<1, (GBM_PARTS + 1) * WARP, 0, d->stream>>>(parts, 2 * H, omega_of(n), kept,
                                                              n->value);
    return cuda_launched(d, n->op->name);
}

extern "C" stet_status cuda_gbm_lstms_bwd(tape *, node *n)
{
    const gbm_cell c = direction_of(n, 0);
    const size_t H = c.w.H;
    const lstms_kept kept = kept_of(n, H);
    const float *omega = omega_of(n);
    add_kept f = {c.w.D, H, 2, n->grad, NULL, {}};
    for (size_t k = 0; k < 2; k++) {
        f.of[k] = kept_cell_of(n->in + k * IN_WEIGHTS, kept.grad + k * weight_count(&c));
        if (!omega)
            continue;
        f.of[k].omega = omega + k * H;
        f.of[k].slope = kept.value + k * H;
        f.of[k].domega =
            n->in[IN_BOTH_OMEGA]->needs_grad ? n->in[IN_BOTH_OMEGA]->grad + k * H : NULL;
    }
    return add_kept_run(cuda_now(), n, f);
}
