/* bound/cuda/gbm_lstm_gain.cu - what the one-step bounds of an LSTM's cell become over many steps
 * (../gbm_gain.h), in double. One block makes the steps, a warp an entry of the state at a time; all
 * deviations and adjoints are kept, and the weights' sums over the steps are made afterwards, each by
 * a thread of its own. */
#include "bound/cuda/gbm_lstm.cuh"

enum { WALKERS = 1024, POWER_STEPS = 200 };
static const double power_tolerance = 1e-15;

/* Mb of one cell (see gbm_cell). */
struct block {
    size_t H;
    const double *m, *mt, *mc, *f;
};

static stet_status block_make(cuda_device *d, const node *n, scratch *mem, gbm_cell c, bool inputs,
                              float **mv, block *out)
{
    const size_t H = c.w.H, D = c.w.D;
    c.m = mem->take<double>(4 * H * H + 2 * H);
    c.mv = inputs ? mem->take<float>(2 * H * D) : NULL;
    if (!c.m || (inputs && !c.mv))
        return STET_ENOMEM;
    c.mt = c.m + 2 * H * H;
    c.mc = c.mt + 2 * H * H;
    c.f = c.mc + H;
    c.ahat = c.mv ? c.mv + H * D : NULL;
    c.dw_ih = NULL; /* entries alone */
    *mv = c.mv;
    *out = block{H, c.m, c.mt, c.mc, c.f};
    return gbm_cell_run(d, n, &c);
}

/* x.y over a warp, the same for all its threads. */
template <class T> static __device__ double warp_dot(const T *x, const T *y, size_t n)
{
    double sum = 0;
    for (size_t j = threadIdx.x % WARP; j < n; j += WARP)
        sum += (double)x[j] * (double)y[j];
    return warp_sum(sum);
}

#define FOR_WARPS(i, n) for (size_t i = threadIdx.x / WARP; i < (n); i += WALKERS / WARP)

/* y = Mb x (2 H), by the whole block; with what is added, or NULL. */
static __device__ void block_times(const block &b, const double *x, const double *add, double *y)
{
    FOR_WARPS(i, 2 * b.H)
    {
        const double sum = warp_dot(b.m + i * b.H, x, b.H);
        if (threadIdx.x % WARP == 0)
            y[i] =
                sum + (i < b.H ? b.mc[i] * x[b.H + i] : b.f[i - b.H] * x[i]) + (add ? add[i] : 0);
    }
    __syncthreads();
}

static __device__ void block_transposed_times(const block &b, const double *x, double *y)
{
    FOR_WARPS(i, b.H)
    {
        const double sum = warp_dot(b.mt + i * 2 * b.H, x, 2 * b.H);
        if (threadIdx.x % WARP == 0) {
            y[i] = sum;
            y[b.H + i] = b.mc[i] * x[i] + b.f[i] * x[b.H + i];
        }
    }
    __syncthreads();
}

/* The sum of f(i) over i < n in a fixed order, for every thread of the block. */
template <class F> static __device__ double walkers_sum(size_t n, F f)
{
    __shared__ double total;
    if (threadIdx.x < WARP) {
        double sum = 0;
        for (size_t i = threadIdx.x; i < n; i += WARP)
            sum += f(i);
        sum = warp_sum(sum);
        if (threadIdx.x == 0)
            total = sum;
    }
    __syncthreads();
    const double sum = total;
    __syncthreads();
    return sum;
}

/* ---- horizon gain ------------------------------------------------------------------------- */

struct walk {
    block b;
    const float *mv, *ahat, *eta, *omega;
    size_t D, steps;
    double *z;     /* (steps + 1, 2 H): deviations before the first and after each step */
    double *l;     /* (steps, 2 H): adjoints of the state after each step; NULL: no gradient */
    double *input; /* (2 H): Nb eta */
    double *db;    /* (2 H): its adjoint */
    float *value, *z_last;
};

static __global__ void __launch_bounds__(WALKERS) gain_kernel(walk w)
{
    const size_t H = w.b.H;
    FOR_WARPS(i, 2 * H)
    {
        const double sum = warp_dot(i < H ? w.mv + i * w.D : w.ahat + (i - H) * w.D, w.eta, w.D);
        if (threadIdx.x % WARP == 0) {
            w.input[i] = sum;
            w.z[i] = 0;
        }
    }
    __syncthreads();
    for (size_t t = 1; t <= w.steps; t++)
        block_times(w.b, w.z + (t - 1) * 2 * H, w.input, w.z + t * 2 * H);
    const double *last = w.z + w.steps * 2 * H;
    const float *omega = w.omega;
    const double gain = walkers_sum(H, [=](size_t i) { return (double)omega[i] * last[i]; });
    if (threadIdx.x == 0)
        *w.value = (float)log1p(gain);
    if (!w.l)
        return;
    for (size_t i = threadIdx.x; i < H; i += WALKERS) {
        w.z_last[i] = (float)(last[i] / (1 + gain));
        w.l[(w.steps - 1) * 2 * H + i] = (double)omega[i] / (1 + gain);
        w.l[(w.steps - 1) * 2 * H + H + i] = 0;
    }
    __syncthreads();
    for (size_t t = w.steps - 1; t > 0; t--)
        block_transposed_times(w.b, w.l + t * 2 * H, w.l + (t - 1) * 2 * H);
    for (size_t i = threadIdx.x; i < 2 * H; i += WALKERS) {
        double sum = 0;
        for (size_t t = w.steps; t-- > 0;)
            sum += w.l[t * 2 * H + i];
        w.db[i] = sum;
    }
}

/* Weights of the cell's entries in the loss. */
struct entry_weights {
    float *v, *h, *c, *a, *b, *f;
};

static stet_status weights_take(scratch *mem, size_t D, size_t H, gbm_cell *c, entry_weights *k)
{
    float *x = mem->take<float>(2 * H * (D + H + 1));
    if (!x)
        return STET_ENOMEM;
    *k = entry_weights{x, x + H * D, x + H * (D + H), NULL, NULL, NULL};
    x += H * (D + H + 1);
    k->a = x;
    k->b = x + H * D;
    k->f = x + H * (D + H);
    c->loss = lstm_gbm_loss{0, 0, 0, k->v, k->h, k->c, k->a, k->b, k->f};
    return STET_OK;
}

/* d gain / dMb = sum of l_t z_{t-1}^T, d gain / d(Nb eta) = sum of l_t; entry i of a row over v, h and
 * c of all 2 H rows. */
struct weigh_gain {
    walk w;
    entry_weights k;
    __device__ void operator()(size_t at) const
    {
        const size_t H = w.b.H, D = w.D, n = D + H + 1, row = at / n, j = at % n, i = row % H;
        const bool of_cell = row >= H;
        if (j < D) {
            (of_cell ? k.a : k.v)[i * D + j] = (float)w.db[row] * w.eta[j];
            return;
        }
        const size_t col = j - D < H ? j - D : H + i; /* the cell meets its own unit alone */
        double sum = 0;
        for (size_t t = w.steps; t-- > 0;)
            sum += w.l[t * 2 * H + row] * w.z[t * 2 * H + col];
        if (j - D < H)
            (of_cell ? k.b : k.h)[i * H + col] = (float)sum;
        else
            (of_cell ? k.f : k.c)[i] = (float)sum;
    }
};

/* log(1 + gain) */
extern "C" stet_status cuda_gbm_lstm_gain_fwd(tape *t, node *n)
{
    cuda_device *d = cuda_now();
    gbm_cell c = gbm_cell_of(n);
    const size_t H = c.w.H, D = c.w.D, steps = ((const gbm_lstm_args *)n->args)->steps;
    scratch mem(d);
    walk w = {};
    float *z_last;
    TRY(gbm_cell_keep(t, n, &mem, &c, H, &z_last));
    float *mv;
    TRY(block_make(d, n, &mem, c, true, &mv, &w.b));
    w.mv = mv;
    w.ahat = mv + H * D;
    w.eta = n->in[IN_ETA]->value;
    w.omega = n->in[IN_OMEGA]->value;
    w.D = D;
    w.steps = steps;
    w.z = mem.take<double>((2 * steps + 3) * 2 * H);
    if (!w.z)
        return STET_ENOMEM;
    w.input = w.z + (steps + 1) * 2 * H;
    w.db = w.input + 2 * H;
    w.l = n->saved ? w.db + 2 * H : NULL;
    w.value = n->value;
    w.z_last = z_last;
    gain_kernel<<<1, WALKERS, 0, d->stream>>>(w);
    TRY(cuda_launched(d, n->op->name));
    if (!n->saved)
        return STET_OK;
    entry_weights k;
    TRY(weights_take(&mem, D, H, &c, &k));
    TRY(each(d, n->op->name, 2 * H * (D + H + 1), weigh_gain{w, k}));
    return gbm_cell_run(d, n, &c); /* the gradient of the entries' weighted sum is kept */
}

extern "C" stet_status cuda_gbm_lstm_gain_bwd(tape *, node *n)
{
    return gbm_cell_back(cuda_now(), n, NULL, n->in[IN_OMEGA]);
}

/* ---- contraction -------------------------------------------------------------------------- */

/* Block 0 finds the Perron vector of Mb, block 1 that of its transpose: x (2, 2 H); y as much scratch.
 * As on the CPU: at most POWER_STEPS steps. */
static __global__ void __launch_bounds__(WALKERS)
    perron_kernel(block b, double *x_all, double *y_all, double tolerance)
{
    const size_t n = 2 * b.H;
    double *x = x_all + blockIdx.x * n, *y = y_all + blockIdx.x * n, last = 0;
    for (size_t i = threadIdx.x; i < n; i += WALKERS)
        x[i] = 1 / (double)n;
    __syncthreads();
    for (int k = 0; k < POWER_STEPS; k++) {
        if (blockIdx.x == 0)
            block_times(b, x, NULL, y);
        else
            block_transposed_times(b, x, y);
        const double norm = walkers_sum(n, [=](size_t i) { return y[i]; });
        for (size_t i = threadIdx.x; i < n; i += WALKERS)
            x[i] = norm > 0 ? y[i] / norm : y[i];
        __syncthreads();
        if (!(fabs(norm - last) > tolerance * norm))
            return;
        last = norm;
    }
}

/* rho = y.Mb x / y.x: value = max(0, rho - rho0)^2, slope = its derivative, yx = y.x. */
static __global__ void __launch_bounds__(WALKERS)
    rho_kernel(block b, const double *xy, double *mx, double rho0, float *value, float *slope,
               double *yx_out)
{
    const size_t n = 2 * b.H;
    const double *x = xy, *y = xy + n;
    block_times(b, x, NULL, mx);
    const double yx = walkers_sum(n, [=](size_t i) { return y[i] * x[i]; }),
                 ymx = walkers_sum(n, [=](size_t i) { return y[i] * mx[i]; });
    if (threadIdx.x != 0)
        return;
    const double rho = yx > 0 ? ymx / yx : 0, over = rho > rho0 ? rho - rho0 : 0;
    *value = (float)(over * over);
    *slope = (float)(2 * over);
    *yx_out = yx;
}

/* d rho / dMb = y x^T / y.x; nothing of it reaches the input. */
struct weigh_rho {
    const double *x, *y, *yx;
    size_t D, H;
    entry_weights k;
    __device__ void operator()(size_t at) const
    {
        const size_t n = D + H + 1, row = at / n, j = at % n, i = row % H;
        const bool of_cell = row >= H;
        if (j < D) {
            (of_cell ? k.a : k.v)[i * D + j] = 0;
            return;
        }
        const size_t col = j - D < H ? j - D : H + i;
        const float g = *yx > 0 ? (float)(y[row] * x[col] / *yx) : 0;
        if (j - D < H)
            (of_cell ? k.b : k.h)[i * H + col] = g;
        else
            (of_cell ? k.f : k.c)[i] = g;
    }
};

/* max(0, rho - rho0)^2 */
extern "C" stet_status cuda_gbm_lstm_rho_fwd(tape *t, node *n)
{
    cuda_device *d = cuda_now();
    gbm_cell c = gbm_cell_of(n);
    const size_t H = c.w.H, D = c.w.D;
    scratch mem(d);
    float *slope, *ignored;
    block b;
    TRY(gbm_cell_keep(t, n, &mem, &c, 1, &slope));
    TRY(block_make(d, n, &mem, c, false, &ignored, &b));
    double *xy = mem.take<double>(8 * H + 1), *mx = xy + 4 * H, *yx = mx + 4 * H;
    if (!xy)
        return STET_ENOMEM;
    perron_kernel<<<2, WALKERS, 0, d->stream>>>(b, xy, mx, power_tolerance);
    rho_kernel<<<1, WALKERS, 0, d->stream>>>(b, xy, mx, ((const gbm_lstm_args *)n->args)->rho0,
                                             n->value, slope, yx);
    TRY(cuda_launched(d, n->op->name));
    if (!n->saved)
        return STET_OK;
    entry_weights k;
    TRY(weights_take(&mem, D, H, &c, &k));
    TRY(each(d, n->op->name, 2 * H * (D + H + 1), weigh_rho{xy, xy + 2 * H, yx, D, H, k}));
    return gbm_cell_run(d, n, &c); /* the gradient of the entries' weighted sum is kept */
}

extern "C" stet_status cuda_gbm_lstm_rho_bwd(tape *, node *n)
{
    return gbm_cell_back(cuda_now(), n, gbm_cell_rest(n), NULL);
}
