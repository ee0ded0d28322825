/* bound/cuda/lstm_box.cu - boxes for the states of an LSTM (../lstm_box_ops.h): what one text shows of
 * them, read by one block as in tensor/cuda/lstm.cu, and what no text leaves. */
#include "bound/cuda/gbm_lstm.cuh"
#include "tensor/cuda/lstm.cuh"

enum { IN_ROWS = IN_WEIGHTS, IN_BOX };

/* ---- reading ------------------------------------------------------------------------------ */

struct reading {
    size_t H, n;
    const float *z; /* (n, 4 H): the words' projections, in the order of reading */
    const float *u; /* (H, 4 H): w_hh turned over */
    const float *b_ih, *b_hh;
    const float *before; /* (4, H) observed: the box so far; NULL: the box around the last state */
    bool first;
    float by;
    float *box; /* (4, H) */
};

/* A unit's ends, over the states that were seen. */
struct seen {
    iv h, c;
};

static __device__ seen seen_before(const reading &r, size_t k)
{
    if (r.first || !r.before)
        return seen{{0, 0}, {0, 0}}; /* every text begins with this state */
    const float *at = r.before + k;
    const float h = r.by * (at[r.H] - at[0]), c = r.by * (at[3 * r.H] - at[2 * r.H]);
    return seen{{at[0] + h, at[r.H] - h}, {at[2 * r.H] + c, at[3 * r.H] - c}};
}

static __device__ iv with(iv x, float y)
{
    return iv{y < x.lo ? y : x.lo, y > x.hi ? y : x.hi};
}

static __device__ void put_box(const reading &r, size_t k, iv h, iv c)
{
    r.box[k] = h.lo;
    r.box[r.H + k] = h.hi;
    r.box[2 * r.H + k] = c.lo;
    r.box[3 * r.H + k] = c.hi;
}

/* What is left to do when all words are read. */
static __device__ void finish(const reading &r, size_t k, seen s, float h, float c)
{
    if (r.before)
        put_box(r, k, s.h, s.c);
    else
        put_box(r, k, iv_cap(iv{h - r.by, h + r.by}, iv{-1, 1}), iv{c - r.by, c + r.by});
}

template <int UNITS> static __global__ void __launch_bounds__(4 * UNITS, 1) read_kernel(reading r)
{
    __shared__ __align__(16) float state[2][UNITS]; /* before the step, after it, in turn */
    const unsigned k = quad_unit(), q = quad_gate(), j = q * UNITS + k;
    const size_t G = 4 * UNITS;
    extern __shared__ __align__(16) float shared[];
    held_weights<UNITS> w;
    float h = 0, c = 0;
    w.take([&](int i) { return r.u[i * G + j]; }, reinterpret_cast<float4 *>(shared));
    if (q == 0)
        state[0][k] = 0;
    seen s = seen_before(r, k);
    const float bias = r.b_ih[j] + r.b_hh[j];
    float ahead[2] = {r.n > 0 ? r.z[j] : 0, r.n > 1 ? r.z[G + j] : 0};
    __syncthreads();
    for (size_t t = 0; t < r.n; t++) {
        const float now = ahead[0] + bias;
        ahead[0] = ahead[1];
        if (t + 2 < r.n)
            ahead[1] = r.z[(t + 2) * G + j];
        const float mine = activate(q, now + w.dot(state[t % 2]));
        s = seen{with(s.h, h), with(s.c, c)}; /* the last state starts no step */
        c = quad_get(mine, 1) * c + quad_get(mine, 0) * quad_get(mine, 2);
        h = quad_get(mine, 3) * fast_tanh(c);
        if (q == 0)
            state[(t + 1) % 2][k] = h;
        __syncthreads();
    }
    if (q == 0)
        finish(r, k, s, h, c);
}

static __global__ void __launch_bounds__(1024) read_far_kernel(reading r)
{
    extern __shared__ __align__(16) float shared[];
    const size_t H = r.H, G = 4 * H, k = threadIdx.x;
    float *h = shared, *gate = h + padded(H), c = 0;
    seen s = {};
    if (k < H) {
        h[k] = 0;
        s = seen_before(r, k);
    }
    __syncthreads();
    for (size_t t = 0; t < r.n; t++) {
        for (size_t j = threadIdx.x; j < G; j += blockDim.x)
            gate[j] = activate((unsigned)(j / H), r.z[t * G + j] + (r.b_ih[j] + r.b_hh[j]) +
                                                      dot_far(r.u + j, G, h, H));
        __syncthreads();
        if (k < H) {
            s = seen{with(s.h, h[k]), with(s.c, c)};
            c = gate[H + k] * c + gate[k] * gate[2 * H + k];
            h[k] = gate[3 * H + k] * fast_tanh(c);
        }
        __syncthreads();
    }
    if (k < H)
        finish(r, k, s, h[k], c);
}

struct words_in_order {
    const float *rows;
    const uint32_t *at;
    size_t n, D;
    bool reverse;
    float *to;
    __device__ void operator()(size_t i) const
    {
        const size_t t = i / D;
        to[i] = rows[(size_t)at[reverse ? n - 1 - t : t] * D + i % D];
    }
};

static stet_status read_words(node *n, const float *before)
{
    cuda_device *d = cuda_now();
    const lstm_read_args *a = (const lstm_read_args *)n->args;
    const size_t D = shape_cols(n->in[IN_W_IH]->shape), H = shape_cols(n->in[IN_W_HH]->shape);
    size_t bytes;
    TRY(lstm_shared(n, H, 5, &bytes));
    if (H == 0)
        return STET_OK;
    scratch mem(d);
    float *x = mem.take<float>(a->n * D + 1), *z = mem.take<float>(a->n * 4 * H + 1),
          *u = mem.take<float>(4 * H * H);
    if (!x || !z || !u)
        return STET_ENOMEM;
    const words_in_order words = {n->in[IN_ROWS]->value, a->at, a->n, D, a->reverse, x};
    TRY(each(d, n->op->name, a->n * D, words));
    TRY(cuda_gemm(d, false, true, a->n, 4 * H, D, x, D, n->in[IN_W_IH]->value, D, 0, z));
    TRY(each(d, n->op->name, 4 * H * H, turn_over{{n->in[IN_W_HH]->value, NULL}, H, u}));
    const reading r = {
        H,        a->n,         z,       u, n->in[IN_B_IH]->value, n->in[IN_B_HH]->value, before,
        a->first, (float)a->by, n->value};
    if (lstm_split<held_weights<128>>(H))
        return launch_held<128>(d, n->op->name, read_kernel<128>, dim3(1), r);
    FOR_UNITS(read_kernel, read_far_kernel, H, dim3(1), bytes, r);
    return cuda_launched(d, n->op->name);
}

extern "C" stet_status cuda_lstm_observed_fwd(tape *, node *n)
{
    return read_words(n, n->in[IN_BOX]->value);
}

extern "C" stet_status cuda_lstm_around_fwd(tape *, node *n)
{
    return read_words(n, NULL);
}

/* ---- invariants --------------------------------------------------------------------------- */

enum { ROUNDS = 4 }; /* each tightens h, and with it the gates of the next */

/* 1 + f + ... + f^(n-1) */
static __device__ double geometric(double f, double n)
{
    return f < 1 ? -expm1(n * log(f)) / (1 - f) : n;
}

/* |c| grows by at most sup |i g| a step and keeps at most f+ of itself. `from` (4, H) holds every
 * state, and so does `to`. */
static __global__ void __launch_bounds__(UNIT_THREADS)
    invariant_kernel(lstm_weights w, const float *words, double steps, const float *from, float *to)
{
    const size_t i = blockIdx.x, H = w.H, D = w.D;
    float range[2 * GATES] = {};
    for (size_t j = threadIdx.x; j < D + H; j += UNIT_THREADS) {
        const bool over_v = j < D;
        const size_t n = over_v ? D : H, at = over_v ? j : j - D;
        const float *row = (over_v ? w.w_ih : w.w_hh) + i * n + at, *lo = over_v ? words : from;
        const iv x = {lo[at], lo[n + at]};
#pragma unroll
        for (int q = 0; q < GATES; q++) {
            const float v = row[(size_t)q * H * n];
            range[2 * q] += v * iv_mid(x);
            range[2 * q + 1] += fabsf(v) * iv_rad(x);
        }
    }
    block_totals(range);
    if (threadIdx.x != 0)
        return;
    iv gate[GATES];
#pragma unroll
    for (int q = 0; q < GATES; q++) {
        const float mid = range[2 * q] + (w.b_ih[q * H + i] + w.b_hh[q * H + i]),
                    rad = range[2 * q + 1];
        gate[q] =
            q == GG ? iv_tanh(iv{mid - rad, mid + rad}) : iv_sigmoid(iv{mid - rad, mid + rad});
    }
    const iv ig = iv_with_zero(iv_mul_pos(gate[GI], gate[GG]));
    const float most = (float)geometric((double)gate[GF].hi, steps);
    const iv c = {ig.lo * most, ig.hi * most};
    const iv h = iv_cap(iv_with_zero(iv_mul_pos(gate[GO], iv_tanh(c))), iv{-1, 1});
    to[i] = h.lo;
    to[H + i] = h.hi;
    to[2 * H + i] = c.lo;
    to[3 * H + i] = c.hi;
}

/* |h| <= 1 */
struct widest_state {
    size_t H;
    float *box;
    __device__ void operator()(size_t i) const
    {
        box[i] = i < H ? -1 : 1;
    }
};

extern "C" stet_status cuda_lstm_invariant_fwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const lstm_weights w = {shape_cols(n->in[IN_W_IH]->shape),
                            shape_cols(n->in[IN_W_HH]->shape),
                            n->in[IN_W_IH]->value,
                            n->in[IN_W_HH]->value,
                            n->in[IN_B_IH]->value,
                            n->in[IN_B_HH]->value};
    const double steps = (double)*(const size_t *)n->args;
    if (w.H == 0)
        return STET_OK;
    scratch mem(d);
    float *other = mem.take<float>(4 * w.H);
    if (!other)
        return STET_ENOMEM;
    TRY(each(d, n->op->name, 2 * w.H, widest_state{w.H, n->value}));
    for (int round = 0; round < ROUNDS; round++) /* an even number: the last one writes n->value */
        invariant_kernel<<<(unsigned)w.H, UNIT_THREADS, 0, d->stream>>>(
            w, n->in[IN_WORDS]->value, steps, round % 2 ? other : n->value,
            round % 2 ? n->value : other);
    return cuda_launched(d, n->op->name);
}
