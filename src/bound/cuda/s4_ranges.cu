/* bound/cuda/s4_ranges.cu - boxes on their way through an S4 layer (../s4_ranges.c): the encoder over
 * substitution sets, |K|, GELU. The second half of a layer is s4_gate_norm.cu. */
#include "bound/cuda/set_ranges.cuh"

/* ---- encoder: (T, 2 H) -------------------------------------------------------------------- */

enum { ENC_W, ENC_B, ENC_ROWS };

struct encoder {
    const batch_sets *s;
    double eps;
    size_t H, D, T;
    set_extremes words;
};

static encoder encoder_of(const node *n)
{
    const set_ranges_args *a = (const set_ranges_args *)n->args;
    encoder e = {};
    e.s = a->s;
    e.eps = a->eps;
    e.H = shape_rows(n->in[ENC_W]->shape);
    e.D = shape_cols(n->in[ENC_W]->shape);
    e.T = a->s->at->n_tokens;
    e.words.V = a->s->at->n_rows;
    e.words.cols = e.H;
    e.words.lo_from = (uint32_t *)n->saved;
    e.words.hi_from = n->saved ? e.words.lo_from + e.words.V * e.H : NULL;
    return e;
}

struct encode_token {
    const uint32_t *row;
    const float *lo, *hi, *bias; /* (V, H) */
    size_t H;
    float *out; /* (T, 2 H) */
    __device__ void operator()(size_t i) const
    {
        const size_t t = i / H, j = i % H, at = row[t] * H + j;
        out[t * 2 * H + j] = (lo[at] + hi[at]) / 2 + bias[j];
        out[t * 2 * H + H + j] = (hi[at] - lo[at]) / 2;
    }
};

extern "C" stet_status cuda_s4_encoder_ranges_fwd(tape *t, node *n)
{
    cuda_device *d = cuda_now();
    encoder e = encoder_of(n);
    if (n->needs_grad) {
        n->saved = store_arena_alloc(t->values, 2 * e.words.V * e.H, sizeof(uint32_t));
        if (!n->saved)
            return STET_ENOMEM;
        e = encoder_of(n);
    }
    scratch mem(d);
    float *table = mem.take<float>(e.s->n_rows * e.H);
    e.words.lo = mem.take<float>(e.words.V * e.H);
    e.words.hi = mem.take<float>(e.words.V * e.H);
    if (!table || !e.words.lo || !e.words.hi)
        return STET_ENOMEM;
    TRY(cuda_gemm(d, false, true, e.s->n_rows, e.H, e.D, n->in[ENC_ROWS]->value, e.D,
                  n->in[ENC_W]->value, e.D, 0, table));
    TRY(cuda_set_extremes(d, e.s, e.eps, table, e.words));
    const encode_token f = {e.s->at->row,        e.words.lo, e.words.hi,
                            n->in[ENC_B]->value, e.H,        n->value};
    return each(d, n->op->name, e.T * e.H, f);
}

/* The gradients of a token's centre and radius in column j. */
struct box_gradients {
    const float *g; /* (T, 2 H) */
    size_t H;
    __device__ float2 operator()(size_t token, size_t j) const
    {
        const float *at = g + token * 2 * H + j;
        return make_float2(at[0], at[H]);
    }
};

extern "C" stet_status cuda_s4_encoder_ranges_bwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const encoder e = encoder_of(n);
    node *w = n->in[ENC_W], *bias = n->in[ENC_B], *rows = n->in[ENC_ROWS];
    scratch mem(d);
    float *dends = mem.take<float>(e.words.V * 2 * e.H),
          *dtable = mem.take<float>(e.s->n_rows * e.H);
    if (!dends || !dtable)
        return STET_ENOMEM;
    TRY(cuda_token_ends(d, n->op->name, e.s, e.H, box_gradients{n->grad, e.H}, dends));
    TRY(cuda_set_back(d, e.s, e.eps, e.words, dends, dtable));
    if (w->needs_grad)
        TRY(cuda_gemm(d, true, false, e.H, e.D, e.s->n_rows, dtable, e.H, rows->value, e.D, 1,
                      w->grad));
    if (bias->needs_grad)
        TRY(grad_add_columns(d, bias, e.words.V, ends_entry{dends, e.H, 0}));
    if (rows->needs_grad)
        TRY(cuda_gemm(d, false, false, e.s->n_rows, e.D, e.H, dtable, e.H, w->value, e.D, 1,
                      rows->grad));
    return STET_OK;
}

/* ---- |K| with d added to K_0: (H, L) ------------------------------------------------------ */

struct kernel_magnitude {
    const float *k, *d; /* (H, L), (H) */
    size_t L;
    float *out;
    __device__ float tap(size_t i) const
    {
        return k[i] + (i % L == 0 ? d[i / L] : 0);
    }
    __device__ void operator()(size_t i) const
    {
        out[i] = fabsf(tap(i));
    }
};

struct kernel_magnitude_back {
    kernel_magnitude of;
    const float *dy;
    float *dk, *dd; /* NULL: not wanted */
    __device__ void operator()(size_t i) const
    {
        const float k = of.tap(i), g = k > 0 ? dy[i] : k < 0 ? -dy[i] : 0;
        if (dk)
            dk[i] += g;
        if (dd && i % of.L == 0)
            dd[i / of.L] += g;
    }
};

static kernel_magnitude magnitude_of(const node *n)
{
    return kernel_magnitude{n->in[0]->value, n->in[1]->value, shape_cols(n->shape), n->value};
}

extern "C" stet_status cuda_s4_magnitude_fwd(tape *, node *n)
{
    return each(cuda_now(), n->op->name, shape_count(n->shape), magnitude_of(n));
}

extern "C" stet_status cuda_s4_magnitude_bwd(tape *, node *n)
{
    node *k = n->in[0], *d = n->in[1];
    const kernel_magnitude_back f = {magnitude_of(n), n->grad, k->needs_grad ? k->grad : NULL,
                                     d->needs_grad ? d->grad : NULL};
    return each(cuda_now(), n->op->name, shape_count(n->shape), f);
}

/* ---- GELU: centre and radius in, (n, 2 H) out --------------------------------------------- */

static __device__ float gelu_at(float x)
{
    return x * normcdff(x);
}

static __device__ float gelu_slope_at(float x)
{
    return normcdff(x) + x * expf(-0.5f * x * x) * 0.398942280f;
}

/* It falls, then rises: least at the point of the box nearest to its minimum. */
struct gelu_points {
    float lo, hi, low, lowest_at;
    __device__ gelu_points(float centre, float radius)
        : lo(centre - radius), hi(centre + radius), lowest_at(-0.751791524693564457f)
    {
        low = lo > lowest_at ? lo : hi < lowest_at ? hi : lowest_at;
    }
};

struct gelu_box_value {
    const float *centre, *radius;
    size_t H;
    float *out;
    __device__ void operator()(size_t i) const
    {
        const gelu_points p(centre[i], radius[i]);
        const float lo = gelu_at(p.lo), hi = gelu_at(p.hi), low = gelu_at(p.low),
                    top = hi > lo ? hi : lo;
        float *at = out + i / H * 2 * H + i % H;
        at[0] = (low + top) / 2;
        at[H] = (top - low) / 2;
    }
};

struct gelu_box_back {
    const float *centre, *radius, *dy;
    size_t H;
    float *d_centre, *d_radius; /* NULL: not wanted */
    __device__ void operator()(size_t i) const
    {
        const gelu_points p(centre[i], radius[i]);
        const float *at = dy + i / H * 2 * H + i % H;
        const float at_low = (at[0] - at[H]) / 2 * gelu_slope_at(p.low),
                    at_top = (at[0] + at[H]) / 2;
        const bool upper = gelu_at(p.hi) > gelu_at(p.lo);
        float lo = upper ? 0 : at_top * gelu_slope_at(p.lo),
              hi = upper ? at_top * gelu_slope_at(p.hi) : 0;
        if (p.low > p.lowest_at)
            lo += at_low;
        else if (p.low < p.lowest_at)
            hi += at_low;
        if (d_centre)
            d_centre[i] += lo + hi;
        if (d_radius)
            d_radius[i] += hi - lo;
    }
};

extern "C" stet_status cuda_gelu_box_fwd(tape *, node *n)
{
    const gelu_box_value f = {n->in[0]->value, n->in[1]->value, shape_cols(n->in[0]->shape),
                              n->value};
    return each(cuda_now(), n->op->name, shape_count(n->in[0]->shape), f);
}

extern "C" stet_status cuda_gelu_box_bwd(tape *, node *n)
{
    node *c = n->in[0], *r = n->in[1];
    const gelu_box_back f = {c->value,
                             r->value,
                             n->grad,
                             shape_cols(c->shape),
                             c->needs_grad ? c->grad : NULL,
                             r->needs_grad ? r->grad : NULL};
    return each(cuda_now(), n->op->name, shape_count(c->shape), f);
}
