/* tensor/cuda/lstm.cu - both directions of one LSTM layer over texts of different lengths.
 *
 * Every distinct row of the input is projected on the gates of both directions once, by one product.
 * A block then walks one direction of one text (lstm.cuh). A block needs no other, and a short text ends
 * early: nothing is computed on padding.
 *
 * Backward the blocks leave the gates' gradients of each token; the rest is products over all
 * tokens, and sums over the tokens of each row in their order. */
#include "tensor/cuda/lstm.cuh"

struct lstm {
    const uint32_t *start, *row; /* of the sequence, on the device */
    size_t B, T, V, D, H, G;     /* G = 4 H */
    bool every;                  /* token's state is the result, not the last ones alone */
    const float *w_hh[2], *b_ih[2], *b_hh[2];
    /* for backward, by token; NULL: not wanted */
    float *gates; /* (T, 2, G): i f g o */
    float *h[2];  /* (T, H): state before the token */
    float *c[2];  /* (T, H): cell before the token */
    float *tc[2]; /* (T, H): tanh of the cell after it */
};

static lstm lstm_of(const node *n, bool every)
{
    const seq_index *seq = ((const seq_args *)n->args)->at;
    lstm s = {};
    s.every = every;
    s.start = seq->start;
    s.row = seq->row;
    s.B = seq->n_texts;
    s.T = seq->n_tokens;
    s.V = seq->n_rows;
    s.D = shape_cols(n->in[0]->shape);
    s.H = shape_cols(n->in[2]->shape);
    s.G = 4 * s.H;
    for (int d = 0; d < 2; d++) {
        s.w_hh[d] = n->in[4 * d + 2]->value;
        s.b_ih[d] = n->in[4 * d + 3]->value;
        s.b_hh[d] = n->in[4 * d + 4]->value;
    }
    s.gates = (float *)n->saved;
    for (int d = 0; s.gates && d < 2; d++) {
        s.h[d] = s.gates + 2 * s.T * s.G + 3 * d * s.T * s.H;
        s.c[d] = s.h[d] + s.T * s.H;
        s.tc[d] = s.c[d] + s.T * s.H;
    }
    return s;
}

static size_t kept_size(const lstm *s)
{
    return 2 * s->T * s->G + 6 * s->T * s->H;
}

/* forward ------------------------------------------------------------------------------------ */

/* x (V, 2, G): the projected rows. `u` is for the other sizes. */
template <int UNITS>
static __global__ void __launch_bounds__(4 * UNITS, 1)
    lstm_kernel(lstm s, const float *x, const float *, float *y)
{
    __shared__ __align__(16) float state[2][UNITS]; /* before the step, after it, in turn */
    const unsigned k = quad_unit(), q = quad_gate(), j = q * UNITS + k;
    const size_t G = 4 * UNITS, text = blockIdx.x, d = blockIdx.y;
    const uint32_t first = s.start[text], len = s.start[text + 1] - first;
    extern __shared__ __align__(16) float shared[];
    held_weights<UNITS> w;
    float h = 0, c = 0;
    w.take([&](int i) { return s.w_hh[d][j * UNITS + i]; }, reinterpret_cast<float4 *>(shared));
    if (q == 0)
        state[0][k] = 0;
    /* the next words' projections are on their way while a step is computed */
    const float bias = s.b_ih[d][j] + s.b_hh[d][j];
    float ahead[2] = {0, 0};
    for (uint32_t t = 0; t < 2 && t < len; t++)
        ahead[t] = x[((size_t)s.row[token_at(d, first, len, t)] * 2 + d) * G + j];
    uint32_t row_ahead = len > 2 ? s.row[token_at(d, first, len, 2)] : 0;
    __syncthreads();
    for (uint32_t t = 0; t < len; t++) {
        const size_t token = token_at(d, first, len, t);
        const float now = ahead[0] + bias;
        ahead[0] = ahead[1];
        ahead[1] = x[((size_t)row_ahead * 2 + d) * G + j];
        row_ahead = t + 3 < len ? s.row[token_at(d, first, len, t + 3)] : 0;
        const float mine = activate(q, now + w.dot(state[t % 2]));
        const float i = quad_get(mine, 0), f = quad_get(mine, 1), g = quad_get(mine, 2),
                    o = quad_get(mine, 3), before = c;
        c = f * c + i * g;
        const float tc = fast_tanh(c);
        if (s.gates) {
            s.gates[(token * 2 + d) * G + j] = mine;
            float *kept = q == 0 ? s.h[d] : q == 1 ? s.c[d] : s.tc[d];
            if (q < 3)
                kept[token * UNITS + k] = q == 0 ? h : q == 1 ? before : tc;
        }
        h = o * tc;
        if (q == 0)
            state[(t + 1) % 2][k] = h;
        if (q == 0 && s.every)
            y[(token * 2 + d) * UNITS + k] = h;
        __syncthreads();
    }
    if (q == 0 && !s.every)
        y[(text * 2 + d) * UNITS + k] = h;
}

/* u (2, H, G): w_hh turned over. */
static __global__ void __launch_bounds__(1024)
    lstm_far_kernel(lstm s, const float *x, const float *u, float *y)
{
    extern __shared__ __align__(16) float shared[];
    const size_t H = s.H, G = 4 * H, text = blockIdx.x, d = blockIdx.y;
    float *h = shared, *c = h + padded(H), *gate = c + padded(H);
    const uint32_t first = s.start[text], len = s.start[text + 1] - first;
    for (size_t k = threadIdx.x; k < H; k += blockDim.x)
        h[k] = c[k] = 0;
    __syncthreads();
    for (uint32_t t = 0; t < len; t++) {
        const size_t token = token_at(d, first, len, t);
        for (size_t j = threadIdx.x; j < G; j += blockDim.x) {
            const float z = x[((size_t)s.row[token] * 2 + d) * G + j] +
                            (s.b_ih[d][j] + s.b_hh[d][j]) + dot_far(u + d * H * G + j, G, h, H);
            gate[j] = activate((unsigned)(j / H), z);
            if (s.gates)
                s.gates[(token * 2 + d) * G + j] = gate[j];
        }
        __syncthreads();
        for (size_t k = threadIdx.x; k < H; k += blockDim.x) {
            const float before = c[k];
            c[k] = gate[H + k] * c[k] + gate[k] * gate[2 * H + k];
            const float tc = fast_tanh(c[k]);
            if (s.gates) {
                s.h[d][token * H + k] = h[k];
                s.c[d][token * H + k] = before;
                s.tc[d][token * H + k] = tc;
            }
            h[k] = gate[3 * H + k] * tc;
            if (s.every)
                y[(token * 2 + d) * H + k] = h[k];
        }
        __syncthreads();
    }
    for (size_t k = threadIdx.x; !s.every && k < H; k += blockDim.x)
        y[(text * 2 + d) * H + k] = h[k];
}

/* The rows on the gates of both directions: x (V, 2, G). */
static stet_status project(cuda_device *d, const lstm *s, const node *n, float *w_in, float *x)
{
    store *at = d->scratch.store;
    for (int k = 0; k < 2; k++)
        store_copy(at, w_in + k * s->G * s->D, n->in[4 * k + 1]->value, s->G * s->D * sizeof *w_in);
    return cuda_gemm(d, false, true, s->V, 2 * s->G, s->D, n->in[0]->value, s->D, w_in, s->D, 0, x);
}

static stet_status lstm_fwd(tape *t, node *n, bool every)
{
    cuda_device *d = cuda_now();
    lstm s = lstm_of(n, every);
    size_t bytes;
    TRY(lstm_shared(n, s.H, 6, &bytes));
    if (n->needs_grad) {
        n->saved = store_arena_alloc(t->values, kept_size(&s), sizeof(float));
        if (!n->saved)
            return STET_ENOMEM;
        s = lstm_of(n, every);
    }
    if (s.H == 0)
        return STET_OK;
    scratch mem(d);
    float *w_in = mem.take<float>(2 * s.G * s.D), *x = mem.take<float>(s.V * 2 * s.G);
    const bool split = lstm_split<held_weights<128>>(s.H), held = split || lstm_held(s.H);
    float *u = mem.take<float>(held ? 1 : 2 * s.H * s.G);
    if (!w_in || !x || !u)
        return STET_ENOMEM;
    TRY(project(d, &s, n, w_in, x));
    if (split)
        return launch_held<128>(d, "bilstm", lstm_kernel<128>, dim3((unsigned)s.B, 2), s,
                                (const float *)x, (const float *)u, n->value);
    if (!held)
        TRY(each(d, "bilstm", 2 * s.H * s.G, turn_over{{s.w_hh[0], s.w_hh[1]}, s.H, u}));
    FOR_UNITS(lstm_kernel, lstm_far_kernel, s.H, dim3((unsigned)s.B, 2), bytes, s, x, u, n->value);
    return cuda_launched(d, "bilstm");
}

extern "C" stet_status cuda_bilstm_fwd(tape *t, node *n)
{
    return lstm_fwd(t, n, false);
}

extern "C" stet_status cuda_bilstm_states_fwd(tape *t, node *n)
{
    return lstm_fwd(t, n, true);
}

/* backward ----------------------------------------------------------------------------------- */

/* What forward kept of a token and a unit. */
struct step_kept {
    float i, f, g, o, c, tc;
};

static __device__ step_kept kept_at(const lstm &s, size_t d, size_t token, size_t H, size_t k)
{
    const float *gate = s.gates + (token * 2 + d) * 4 * H + k;
    const size_t at = token * H + k;
    return step_kept{gate[0], gate[H], gate[2 * H], gate[3 * H], s.c[d][at], s.tc[d][at]};
}

/* The gradient of what went into gate q, from those of the state and of the cell. */
static __device__ float gate_back(const step_kept &s, unsigned q, float dh, float dc)
{
    return q == 0   ? dc * (s.g * s.i * (1 - s.i))
           : q == 1 ? dc * (s.c * s.f * (1 - s.f))
           : q == 2 ? dc * (s.i * (1 - s.g * s.g))
                    : dh * (s.tc * s.o * (1 - s.o));
}

/* dz_out (T, 2, G): the gradients of what went into the gates. A thread holds the weights of its gate
 * that reach its unit. */
template <int UNITS>
static __global__ void __launch_bounds__(4 * UNITS, 1)
    lstm_bwd_kernel(lstm s, const float *dy, float *dz_out)
{
    __shared__ __align__(
        16) float dz[2][4 * QUAD_ROW(UNITS)]; /* of this step and the next, in turn */
    const unsigned k = quad_unit(), q = quad_gate();
    const size_t G = 4 * UNITS, text = blockIdx.x, d = blockIdx.y;
    const uint32_t first = s.start[text], len = s.start[text + 1] - first;
    extern __shared__ __align__(16) float shared[];
    held_weights<UNITS> w;
    float dh = s.every ? 0 : dy[(text * 2 + d) * UNITS + k], dc = 0;
    w.take([&](int j) { return s.w_hh[d][(q * UNITS + j) * UNITS + k]; },
           reinterpret_cast<float4 *>(shared));
    /* the tokens before are on their way while a step is computed */
    step_kept ahead[2] = {};
    for (uint32_t t = 0; t < 2 && t < len; t++)
        ahead[t] = kept_at(s, d, token_at(d, first, len, len - 1 - t), UNITS, k);
    for (uint32_t t = len; t-- > 0;) {
        const step_kept now = ahead[0];
        ahead[0] = ahead[1];
        if (t >= 2)
            ahead[1] = kept_at(s, d, token_at(d, first, len, t - 2), UNITS, k);
        if (s.every)
            dh += dy[(token_at(d, first, len, t) * 2 + d) * UNITS + k];
        const float e = dc + dh * (now.o * (1 - now.tc * now.tc));
        const float mine = gate_back(now, q, dh, e);
        dc = e * now.f;
        dz[t % 2][q * QUAD_ROW(UNITS) + k] = mine;
        dz_out[(token_at(d, first, len, t) * 2 + d) * G + q * UNITS + k] = mine;
        __syncthreads();
        dh = quad_sum(w.dot(dz[t % 2] + q * QUAD_ROW(UNITS)));
    }
}

static __global__ void __launch_bounds__(1024)
    lstm_far_bwd_kernel(lstm s, const float *dy, float *dz_out)
{
    extern __shared__ __align__(16) float shared[];
    const size_t H = s.H, G = 4 * H, text = blockIdx.x, d = blockIdx.y, k = threadIdx.x;
    float *dz = shared, *part = dz + G;
    const uint32_t first = s.start[text], len = s.start[text + 1] - first;
    float dh = k < H && !s.every ? dy[(text * 2 + d) * H + k] : 0, dc = 0;
    for (uint32_t t = len; t-- > 0;) {
        const size_t token = token_at(d, first, len, t);
        if (k < H) {
            const step_kept now = kept_at(s, d, token, H, k);
            if (s.every)
                dh += dy[(token * 2 + d) * H + k];
            const float e = dc + dh * (now.o * (1 - now.tc * now.tc));
            for (unsigned q = 0; q < 4; q++)
                dz[q * H + k] = gate_back(now, q, dh, e);
            dc = e * now.f;
        }
        __syncthreads();
        for (size_t j = threadIdx.x; j < G; j += blockDim.x) {
            const size_t gate = j / H * H;
            dz_out[(token * 2 + d) * G + j] = dz[j];
            part[j] = dot_far(s.w_hh[d] + gate * H + j % H, H, dz + gate, H);
        }
        __syncthreads();
        if (k < H)
            dh = (part[k] + part[H + k]) + (part[2 * H + k] + part[3 * H + k]);
        /* the next turn writes dz, which all have read */
    }
}

static stet_status lstm_bwd(node *n, bool every)
{
    cuda_device *d = cuda_now();
    const lstm s = lstm_of(n, every);
    size_t bytes;
    TRY(lstm_shared(n, s.H, 8, &bytes));
    if (s.H == 0)
        return STET_OK;
    scratch mem(d);
    float *dz = mem.take<float>(s.T * 2 * s.G), *dx = mem.take<float>(s.V * 2 * s.G);
    sorted_keys sorted;
    if (!dz || !dx)
        return STET_ENOMEM;
    if (lstm_split<held_weights<128>>(s.H))
        TRY(launch_held<128>(d, "bilstm", lstm_bwd_kernel<128>, dim3((unsigned)s.B, 2), s,
                             (const float *)n->grad, dz));
    else
        FOR_UNITS(lstm_bwd_kernel, lstm_far_bwd_kernel, s.H, dim3((unsigned)s.B, 2), bytes, s,
                  n->grad, dz);
    TRY(cuda_launched(d, "bilstm"));
    for (int k = 0; k < 2; k++)
        if (n->in[4 * k + 2]->needs_grad)
            TRY(cuda_gemm(d, true, false, s.G, s.H, s.T, dz + k * s.G, 2 * s.G, s.h[k], s.H, 1,
                          n->in[4 * k + 2]->grad));
    store_clear(d->scratch.store, dx, s.V * 2 * s.G * sizeof *dx);
    TRY(cuda_sort(&mem, s.row, s.T, s.V, &sorted));
    TRY(scatter_add(&mem, "bilstm", sorted, s.T, s.V, 2 * s.G, matrix_entry{dz, 2 * s.G}, true,
                    dx));
    return lstm_input_gradients(d, "bilstm", n->in + 1, n->in[0], dx, s.V,
                                matrix_entry{dx, 2 * s.G});
}

extern "C" stet_status cuda_bilstm_bwd(tape *, node *n)
{
    return lstm_bwd(n, false);
}

extern "C" stet_status cuda_bilstm_states_bwd(tape *, node *n)
{
    return lstm_bwd(n, true);
}
