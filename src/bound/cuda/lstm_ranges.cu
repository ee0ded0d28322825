/* bound/cuda/lstm_ranges.cu - ranges of a bidirectional LSTM's last states, or of all of them
 * (../lstm_ranges.h).
 *
 * As tensor/cuda/lstm.cu: a block walks one direction of one text, a thread has both ends of a gate of a
 * unit, and its weights serve two products, U with the state's centre and |U| with its radius. Kept
 * for backward by token: the gates' ends, the state's centre and radius and the cell's ends before
 * it, and the ends of tanh of the cell after it. */
#include <string.h>

#include "bound/cuda/set_ranges.cuh"
#include "bound/interval.h"
#include "tensor/cuda/lstm.cuh"

enum { ROWS = 2 * PER_DIRECTION };
/* LO HI and CENTRE RADIUS below are dimensions of two. */

struct lstm_ranges {
    const uint32_t *start, *row;
    size_t B, T, V, D, H, G; /* G = 4 H */
    bool every;              /* token's state is the result, not the last ones alone */
    const float *w_hh[2], *b_ih[2], *b_hh[2];
    set_extremes words; /* of both directions' gates: 2 G columns */
    /* for backward, by token; NULL: not wanted */
    float *gates; /* (T, 2, LO HI, G): i f g o */
    float *c;     /* (T, 2, LO HI, H): the cell before the token */
    float *tau;   /* (T, 2, LO HI, H): tanh of the cell after it */
    float *h[2];  /* (T, CENTRE RADIUS, H): the state before the token */
};

static lstm_ranges ranges_of(const node *n)
{
    const set_ranges_args *a = (const set_ranges_args *)n->args;
    lstm_ranges s = {};
    s.every = strcmp(n->op->name, "bilstm_states_ranges") == 0;
    s.start = a->s->at->start;
    s.row = a->s->at->row;
    s.B = a->s->at->n_texts;
    s.T = a->s->at->n_tokens;
    s.V = a->s->at->n_rows;
    s.D = shape_cols(n->in[W_IH]->shape);
    s.H = shape_cols(n->in[W_HH]->shape);
    s.G = 4 * s.H;
    for (int d = 0; d < 2; d++) {
        s.w_hh[d] = n->in[PER_DIRECTION * d + W_HH]->value;
        s.b_ih[d] = n->in[PER_DIRECTION * d + B_IH]->value;
        s.b_hh[d] = n->in[PER_DIRECTION * d + B_HH]->value;
    }
    s.words.V = s.V;
    s.words.cols = 2 * s.G;
    s.gates = (float *)n->saved;
    if (s.gates) {
        s.c = s.gates + 4 * s.T * s.G;
        s.tau = s.c + 4 * s.T * s.H;
        s.h[0] = s.tau + 4 * s.T * s.H;
        s.h[1] = s.h[0] + 2 * s.T * s.H;
        s.words.lo_from = (uint32_t *)(s.h[1] + 2 * s.T * s.H);
        s.words.hi_from = s.words.lo_from + s.V * s.words.cols;
    }
    return s;
}

static size_t kept_size(const lstm_ranges *s)
{
    return 4 * s->T * s->G + 12 * s->T * s->H + 2 * s->V * s->words.cols;
}

static dim3 walks(const lstm_ranges *s)
{
    return dim3((unsigned)s->B, 2);
}

/* c = f c + i g */
static __device__ iv next_cell(iv i, iv f, iv g, iv c)
{
    return iv_add(iv_mul_pos(f, c), iv_mul_pos(i, g));
}

static __device__ iv tanh_ends(iv x)
{
    return iv{fast_tanh(x.lo), fast_tanh(x.hi)};
}

static __device__ iv quad_get(iv x, int q)
{
    return iv{quad_get(x.lo, q), quad_get(x.hi, q)};
}

static __device__ iv activate(unsigned q, iv x)
{
    return iv{activate(q, x.lo), activate(q, x.hi)};
}

static __device__ void put_ends(float *at, size_t step, iv x)
{
    at[0] = x.lo;
    at[step] = x.hi;
}

/* Weights and their magnitudes, which are held too where there are registers for them. */
template <int UNITS> struct held_both {
    typedef held_weights<UNITS, 56> weights;
    weights w;
    float magnitude[UNITS <= 64 ? UNITS : 1];

    template <class F> __device__ void take(F of, float *room)
    {
        w.take(of, reinterpret_cast<float4 *>(room));
        if constexpr (UNITS <= 64) {
#pragma unroll
            for (int i = 0; i < UNITS; i++)
                magnitude[i] = fabsf(w.near[i]);
        }
    }
    __device__ float of_magnitudes(const float *x) const
    {
        if constexpr (UNITS <= 64)
            return dot(magnitude, x);
        else
            return w.dot_magnitude(x);
    }
};

/* forward ------------------------------------------------------------------------------------ */

template <int UNITS>
static __global__ void __launch_bounds__(4 * UNITS, 1)
    ranges_kernel(lstm_ranges s, const float *, float *y)
{
    /* the state before the step and after it, in turn */
    __shared__ __align__(16) float centre[2][UNITS], radius[2][UNITS];
    const unsigned k = quad_unit(), q = quad_gate(), j = q * UNITS + k;
    const size_t G = 4 * UNITS, text = blockIdx.x, d = blockIdx.y;
    const uint32_t first = s.start[text], len = s.start[text + 1] - first;
    extern __shared__ __align__(16) float shared[];
    held_both<UNITS> held;
    held.take([&](int i) { return s.w_hh[d][j * UNITS + i]; }, shared);
    if (q == 0)
        centre[0][k] = radius[0][k] = 0;
    /* the next words' extremes are on their way while a step is computed */
    const float bias = s.b_ih[d][j] + s.b_hh[d][j];
    iv ahead[2] = {}, h = {0, 0}, c = {0, 0};
    for (uint32_t t = 0; t < 2 && t < len; t++) {
        const size_t at = ((size_t)s.row[token_at(d, first, len, t)] * 2 + d) * G + j;
        ahead[t] = iv{s.words.lo[at], s.words.hi[at]};
    }
    uint32_t row_ahead = len > 2 ? s.row[token_at(d, first, len, 2)] : 0;
    __syncthreads();
    for (uint32_t t = 0; t < len; t++) {
        const size_t token = token_at(d, first, len, t), next = ((size_t)row_ahead * 2 + d) * G + j;
        const iv x = ahead[0], before = c;
        ahead[0] = ahead[1];
        ahead[1] = iv{s.words.lo[next], s.words.hi[next]};
        row_ahead = t + 3 < len ? s.row[token_at(d, first, len, t + 3)] : 0;
        const float m = bias + held.w.dot(centre[t % 2]), r = held.of_magnitudes(radius[t % 2]);
        const iv mine = activate(q, iv{m + x.lo - r, m + x.hi + r}), o = quad_get(mine, 3);
        c = next_cell(quad_get(mine, 0), quad_get(mine, 1), quad_get(mine, 2), c);
        const iv tau = tanh_ends(c);
        if (s.gates) {
            put_ends(s.gates + (token * 2 + d) * 2 * G + j, G, mine);
            if (q == 0)
                put_ends(s.h[d] + token * 2 * UNITS + k, UNITS, iv{iv_mid(h), iv_rad(h)});
            else if (q < 3)
                put_ends((q == 1 ? s.c : s.tau) + (token * 2 + d) * 2 * UNITS + k, UNITS,
                         q == 1 ? before : tau);
        }
        h = iv_mul_pos(o, tau);
        if (q == 0)
            centre[(t + 1) % 2][k] = iv_mid(h);
        else if (q == 1)
            radius[(t + 1) % 2][k] = iv_rad(h);
        if (q == 2 && s.every)
            put_ends(y + token * 4 * UNITS + d * UNITS + k, 2 * UNITS, h);
        __syncthreads();
    }
    if (q == 0 && !s.every)
        put_ends(y + text * 4 * UNITS + d * UNITS + k, 2 * UNITS, h);
}

/* u (2, H, G): w_hh turned over. */
static __global__ void __launch_bounds__(1024)
    ranges_far_kernel(lstm_ranges s, const float *u, float *y)
{
    extern __shared__ __align__(16) float shared[];
    const size_t H = s.H, G = 4 * H, text = blockIdx.x, d = blockIdx.y, k = threadIdx.x;
    float *centre = shared, *radius = centre + padded(H), *gate = radius + padded(H); /* (2, G) */
    const uint32_t first = s.start[text], len = s.start[text + 1] - first;
    iv h = {0, 0}, c = {0, 0};
    if (k < H)
        centre[k] = radius[k] = 0;
    __syncthreads();
    for (uint32_t t = 0; t < len; t++) {
        const size_t token = token_at(d, first, len, t);
        for (size_t j = threadIdx.x; j < G; j += blockDim.x) {
            const size_t at = ((size_t)s.row[token] * 2 + d) * G + j;
            const float m = s.b_ih[d][j] + s.b_hh[d][j] + dot_far(u + d * H * G + j, G, centre, H),
                        r = dot_far_magnitude(u + d * H * G + j, G, radius, H);
            const iv x =
                activate((unsigned)(j / H), iv{m + s.words.lo[at] - r, m + s.words.hi[at] + r});
            put_ends(gate + j, G, x);
            if (s.gates)
                put_ends(s.gates + (token * 2 + d) * 2 * G + j, G, x);
        }
        __syncthreads();
        if (k < H) {
            const iv i = {gate[k], gate[G + k]}, f = {gate[H + k], gate[G + H + k]},
                     g = {gate[2 * H + k], gate[G + 2 * H + k]},
                     o = {gate[3 * H + k], gate[G + 3 * H + k]}, before = c;
            c = next_cell(i, f, g, c);
            const iv tau = tanh_ends(c);
            if (s.gates) {
                put_ends(s.h[d] + token * 2 * H + k, H, iv{centre[k], radius[k]});
                put_ends(s.c + (token * 2 + d) * 2 * H + k, H, before);
                put_ends(s.tau + (token * 2 + d) * 2 * H + k, H, tau);
            }
            h = iv_mul_pos(o, tau);
            centre[k] = iv_mid(h);
            radius[k] = iv_rad(h);
            if (s.every)
                put_ends(y + token * 4 * H + d * H + k, 2 * H, h);
        }
        __syncthreads();
    }
    if (k < H && !s.every)
        put_ends(y + text * 4 * H + d * H + k, 2 * H, h);
}

/* The rows on the gates of both directions: table (n_rows, 2, G). */
static stet_status project(cuda_device *d, const lstm_ranges *s, const node *n, float *table)
{
    const size_t rows = shape_rows(n->in[ROWS]->shape);
    scratch mem(d);
    float *w_in = mem.take<float>(2 * s->G * s->D);
    if (!w_in)
        return STET_ENOMEM;
    for (int k = 0; k < 2; k++)
        store_copy(d->scratch.store, w_in + k * s->G * s->D, n->in[PER_DIRECTION * k + W_IH]->value,
                   s->G * s->D * sizeof *w_in);
    return cuda_gemm(d, false, true, rows, 2 * s->G, s->D, n->in[ROWS]->value, s->D, w_in, s->D, 0,
                     table);
}

extern "C" stet_status cuda_bilstm_ranges_fwd(tape *t, node *n)
{
    cuda_device *d = cuda_now();
    const set_ranges_args *a = (const set_ranges_args *)n->args;
    lstm_ranges s = ranges_of(n);
    size_t bytes;
    TRY(lstm_shared(n, s.H, 10, &bytes));
    if (n->needs_grad) {
        n->saved = store_arena_alloc(t->values, kept_size(&s), sizeof(float));
        if (!n->saved)
            return STET_ENOMEM;
        s = ranges_of(n);
    }
    if (s.H == 0)
        return STET_OK;
    scratch mem(d);
    const bool split = lstm_split<held_both<128>::weights>(s.H), held = split || lstm_held(s.H);
    float *u = mem.take<float>(held ? 1 : 2 * s.H * s.G),
          *table = mem.take<float>(a->s->n_rows * 2 * s.G);
    s.words.lo = mem.take<float>(s.V * s.words.cols);
    s.words.hi = mem.take<float>(s.V * s.words.cols);
    if (!u || !table || !s.words.lo || !s.words.hi)
        return STET_ENOMEM;
    TRY(project(d, &s, n, table));
    TRY(cuda_set_extremes(d, a->s, a->eps, table, s.words));
    if (split)
        return launch_held<128, held_both<128>::weights>(d, n->op->name, ranges_kernel<128>,
                                                         walks(&s), s, (const float *)u, n->value);
    if (!held)
        TRY(each(d, n->op->name, 2 * s.H * s.G, turn_over{{s.w_hh[0], s.w_hh[1]}, s.H, u}));
    FOR_UNITS(ranges_kernel, ranges_far_kernel, s.H, walks(&s), bytes, s, u, n->value);
    return cuda_launched(d, n->op->name);
}

/* backward ----------------------------------------------------------------------------------- */

/* What forward kept of a token and a unit. */
struct range_kept {
    iv i, f, g, o, c, tau;
};

static __device__ range_kept kept_at(const lstm_ranges &s, size_t d, size_t token, size_t H,
                                     size_t k)
{
    const float *lo = s.gates + (token * 2 + d) * 8 * H + k, *hi = lo + 4 * H;
    const size_t at = (token * 2 + d) * 2 * H + k;
    return range_kept{{lo[0], hi[0]},         {lo[H], hi[H]},         {lo[2 * H], hi[2 * H]},
                      {lo[3 * H], hi[3 * H]}, {s.c[at], s.c[at + H]}, {s.tau[at], s.tau[at + H]}};
}

/* Of [p] [x] with [p] >= 0, whose adjoint is y_: the adjoint of [p] and that of [x]. */
static __device__ iv left_back(iv y_, iv x)
{
    const float at_hi = y_.hi * x.hi, at_lo = y_.lo * x.lo;
    return iv{(x.hi >= 0 ? 0 : at_hi) + (x.lo >= 0 ? at_lo : 0),
              (x.hi >= 0 ? at_hi : 0) + (x.lo >= 0 ? 0 : at_lo)};
}

static __device__ iv right_back(iv y_, iv p, iv x)
{
    return iv{y_.lo * (x.lo >= 0 ? p.lo : p.hi), y_.hi * (x.hi >= 0 ? p.hi : p.lo)};
}

/* Gradients of the cell's ends after the step, from those of the state's and what later steps gave. */
static __device__ iv cell_gradient(const range_kept &s, iv dh, iv dc)
{
    const iv tau_ = right_back(dh, s.o, s.tau);
    return iv{dc.lo + tau_.lo * (1 - s.tau.lo * s.tau.lo),
              dc.hi + tau_.hi * (1 - s.tau.hi * s.tau.hi)};
}

/* Gradients of centre and radius of what went into gate q: c_ and dh are those of the cell's and the
 * state's ends after the step. */
static __device__ float2 gate_back(const range_kept &s, unsigned q, iv dh, iv c_)
{
    const iv act = q == 0 ? s.i : q == 1 ? s.f : q == 2 ? s.g : s.o;
    const iv act_ = q == 2 ? right_back(c_, s.i, s.g)
                           : left_back(q == 3 ? dh : c_, q == 0   ? s.g
                                                         : q == 1 ? s.c
                                                                  : s.tau);
    const float lo = act_.lo * (q == 2 ? 1 - act.lo * act.lo : act.lo * (1 - act.lo)),
                hi = act_.hi * (q == 2 ? 1 - act.hi * act.hi : act.hi * (1 - act.hi));
    return make_float2(lo + hi, hi - lo);
}

/* From gradients of the state's centre and radius to those of its ends. */
static __device__ iv state_ends(float centre, float radius)
{
    return iv{(centre - radius) / 2, (centre + radius) / 2};
}

/* dz_out (T, 2, CENTRE RADIUS, G). A thread holds the weights of its gate that reach its unit. */
template <int UNITS>
static __global__ void __launch_bounds__(4 * UNITS, 1)
    ranges_bwd_kernel(lstm_ranges s, const float *dy, float *dz_out)
{
    enum { ROW = QUAD_ROW(UNITS) };
    __shared__ __align__(16) float centre[2][4 * ROW], radius[2][4 * ROW];
    const unsigned k = quad_unit(), q = quad_gate();
    const size_t G = 4 * UNITS, text = blockIdx.x, d = blockIdx.y;
    const uint32_t first = s.start[text], len = s.start[text + 1] - first;
    extern __shared__ __align__(16) float shared[];
    held_both<UNITS> held;
    held.take([&](int j) { return s.w_hh[d][(q * UNITS + j) * UNITS + k]; }, shared);
    const float *given = dy + d * UNITS + k; /* of text 0, or of token 0 */
    iv dh = {0, 0}, dc = {0, 0};
    if (!s.every)
        dh = iv{given[text * 4 * UNITS], given[text * 4 * UNITS + 2 * UNITS]};
    /* the token before is on its way while a step is computed */
    range_kept ahead = kept_at(s, d, token_at(d, first, len, len - 1), UNITS, k);
    for (uint32_t t = len; t-- > 0;) {
        const range_kept now = ahead;
        if (t > 0)
            ahead = kept_at(s, d, token_at(d, first, len, t - 1), UNITS, k);
        if (s.every) {
            const float *more = given + token_at(d, first, len, t) * 4 * UNITS;
            dh = iv{dh.lo + more[0], dh.hi + more[2 * UNITS]};
        }
        const iv c_ = cell_gradient(now, dh, dc);
        const float2 mine = gate_back(now, q, dh, c_);
        dc = right_back(c_, now.f, now.c);
        centre[t % 2][q * ROW + k] = mine.x;
        radius[t % 2][q * ROW + k] = mine.y;
        float *out = dz_out + (token_at(d, first, len, t) * 2 + d) * 2 * G + q * UNITS + k;
        out[0] = mine.x;
        out[G] = mine.y;
        __syncthreads();
        const float of_centre = held.w.dot(centre[t % 2] + q * ROW),
                    of_radius = held.of_magnitudes(radius[t % 2] + q * ROW);
        dh = state_ends(quad_sum(of_centre), quad_sum(of_radius));
    }
}

static __global__ void __launch_bounds__(1024)
    ranges_far_bwd_kernel(lstm_ranges s, const float *dy, float *dz_out)
{
    extern __shared__ __align__(16) float shared[];
    const size_t H = s.H, G = 4 * H, text = blockIdx.x, d = blockIdx.y, k = threadIdx.x;
    float *dz = shared, *part = dz + 2 * G; /* (CENTRE RADIUS, G) each */
    const uint32_t first = s.start[text], len = s.start[text + 1] - first;
    iv dh = {0, 0}, dc = {0, 0};
    if (k < H && !s.every)
        dh = iv{dy[text * 4 * H + d * H + k], dy[text * 4 * H + (2 + d) * H + k]};
    for (uint32_t t = len; t-- > 0;) {
        const size_t token = token_at(d, first, len, t);
        if (k < H) {
            const range_kept now = kept_at(s, d, token, H, k);
            if (s.every)
                dh = iv{dh.lo + dy[token * 4 * H + d * H + k],
                        dh.hi + dy[token * 4 * H + (2 + d) * H + k]};
            const iv c_ = cell_gradient(now, dh, dc);
            for (unsigned q = 0; q < 4; q++) {
                const float2 g = gate_back(now, q, dh, c_);
                dz[q * H + k] = g.x;
                dz[G + q * H + k] = g.y;
            }
            dc = right_back(c_, now.f, now.c);
        }
        __syncthreads();
        for (size_t j = threadIdx.x; j < G; j += blockDim.x) {
            const size_t q = j / H * H;
            float *out = dz_out + (token * 2 + d) * 2 * G + j;
            out[0] = dz[j];
            out[G] = dz[G + j];
            part[j] = dot_far(s.w_hh[d] + q * H + j % H, H, dz + q, H);
            part[G + j] = dot_far_magnitude(s.w_hh[d] + q * H + j % H, H, dz + G + q, H);
        }
        __syncthreads();
        if (k < H) {
            const float *r = part + G;
            dh = state_ends((part[k] + part[H + k]) + (part[2 * H + k] + part[3 * H + k]),
                            (r[k] + r[H + k]) + (r[2 * H + k] + r[3 * H + k]));
        }
        /* the next turn writes dz, which all have read */
    }
}

struct add_signed {
    const float *u, *by; /* magnitude's gradient */
    float *grad;
    __device__ void operator()(size_t i) const
    {
        grad[i] += u[i] > 0 ? by[i] : u[i] < 0 ? -by[i] : 0;
    }
};

/* dU = centre^T hc + sign(U) .* radius^T hr, over all tokens. */
static stet_status recurrent_gradient(cuda_device *d, const lstm_ranges *s, const node *n, int dir,
                                      const float *dz)
{
    const node *u = n->in[PER_DIRECTION * dir + W_HH];
    const float *centre = dz + dir * 2 * s->G, *radius = centre + s->G;
    if (!u->needs_grad)
        return STET_OK;
    scratch mem(d);
    float *magnitude = mem.take<float>(s->G * s->H);
    if (!magnitude)
        return STET_ENOMEM;
    TRY(cuda_gemm(d, true, false, s->G, s->H, s->T, centre, 4 * s->G, s->h[dir], 2 * s->H, 1,
                  u->grad));
    TRY(cuda_gemm(d, true, false, s->G, s->H, s->T, radius, 4 * s->G, s->h[dir] + s->H, 2 * s->H, 0,
                  magnitude));
    return each(d, n->op->name, s->G * s->H, add_signed{u->value, magnitude, u->grad});
}

/* The gradients of a token's gates in column j of both directions. */
struct gate_gradients {
    const float *dz; /* (T, 2, CENTRE RADIUS, G) */
    uint32_t G;
    __device__ float2 operator()(size_t token, size_t j) const
    {
        const uint32_t d = (uint32_t)j >= G;
        const float *at = dz + (token * 2 + d) * 2 * G + (j - d * G);
        return make_float2(at[0], at[G]);
    }
};

/* w_ih, b_ih, b_hh and the rows. */
static stet_status input_gradients(cuda_device *d, const lstm_ranges *s, node *n, const float *dz)
{
    const set_ranges_args *a = (const set_ranges_args *)n->args;
    const size_t rows = a->s->n_rows, cols = s->words.cols;
    scratch mem(d);
    float *dends = mem.take<float>(s->V * 2 * cols), *dtable = mem.take<float>(rows * cols);
    if (!dends || !dtable)
        return STET_ENOMEM;
    TRY(cuda_token_ends(d, n->op->name, a->s, cols, gate_gradients{dz, (uint32_t)s->G}, dends));
    TRY(cuda_set_back(d, a->s, a->eps, s->words, dends, dtable));
    return lstm_input_gradients(d, n->op->name, n->in, n->in[ROWS], dtable, s->V,
                                ends_entry{dends, cols, 0});
}

extern "C" stet_status cuda_bilstm_ranges_bwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const lstm_ranges s = ranges_of(n);
    size_t bytes;
    TRY(lstm_shared(n, s.H, 16, &bytes));
    if (s.H == 0)
        return STET_OK;
    scratch mem(d);
    float *dz = mem.take<float>(s.T * 4 * s.G);
    if (!dz)
        return STET_ENOMEM;
    if (lstm_split<held_both<128>::weights>(s.H))
        TRY((launch_held<128, held_both<128>::weights>(d, n->op->name, ranges_bwd_kernel<128>,
                                                       walks(&s), s, (const float *)n->grad, dz)));
    else
        FOR_UNITS(ranges_bwd_kernel, ranges_far_bwd_kernel, s.H, walks(&s), bytes, s, n->grad, dz);
    TRY(cuda_launched(d, n->op->name));
    for (int k = 0; k < 2; k++)
        TRY(recurrent_gradient(d, &s, n, k, dz));
    return input_gradients(d, &s, n, dz);
}
