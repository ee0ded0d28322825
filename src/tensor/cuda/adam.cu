/* tensor/cuda/adam.cu - the optimiser's loops: see optim.h. */
#include "tensor/cuda/device.cuh"

stet_status cuda_add_rows_to(cuda_device *d, const float *from, const uint32_t *at, size_t n,
                             size_t rows, size_t c, float *into); /* rows.cu */

struct square {
    const float *x;
    __device__ double operator()(size_t i) const
    {
        return (double)x[i] * (double)x[i];
    }
};

/* The groups one after the other; the root after the last. */
struct add_square {
    double *to;
    bool first, last;
    __device__ void operator()(double sum) const
    {
        sum += first ? 0 : *to;
        *to = last ? sqrt(sum) : sum;
    }
};

/* These return nothing: what fails is told by the next call that returns a status. */
static void keep(const char *what, stet_status st)
{
    if (st != STET_OK)
        cuda_failed(cuda_now(), what, stet_last_error());
}

static void cuda_norm(const param_group *groups, size_t n, const float *grad, double *norm)
{
    const char *what = "the norm of the gradient";
    for (size_t k = 0; k < n; k++)
        keep(what, sum_over(cuda_now(), what, groups[k].n, square{grad + groups[k].first},
                            add_square{norm, k == 0, k + 1 == n}));
    if (n == 0)
        keep(what, sum_over(cuda_now(), what, 0, square{grad}, add_square{norm, true, true}));
}

static __device__ float not_tiny(float x)
{
    return x < OPTIM_TINY && x > -OPTIM_TINY ? 0 : x;
}

static __device__ void adam_one(const adam_step &s, float scale, float grad, size_t i)
{
    const float g = grad * scale + s.l2 * s.param[i];
    const float m = not_tiny(s.beta1 * s.m[i] + (1 - s.beta1) * g);
    const float v = not_tiny(s.beta2 * s.v[i] + (1 - s.beta2) * g * g);
    s.m[i] = m;
    s.v[i] = v;
    s.param[i] =
        not_tiny(s.param[i] * s.shrink - s.rate * m / (sqrtf(v) * s.root_correction + s.eps));
}

struct adam_entry {
    adam_step s;
    __device__ void operator()(size_t i) const
    {
        const double norm = *s.norm;
        const float scale = (float)(s.clip > 0 && norm > s.clip ? s.clip / norm : 1);
        adam_one(s, scale, s.grad[s.first + i], s.first + i);
    }
};

static void cuda_adam(const adam_step *s)
{
    keep("a step of Adam", each(cuda_now(), "a step of Adam", s->n, adam_entry{*s}));
}

struct add_row_entry {
    const float *from;
    const uint32_t *at;
    size_t D;
    float *into;
    __device__ void operator()(size_t i) const
    {
        const size_t row = i / D;
        into[(at ? at[row] : row) * D + (i - row * D)] += from[i];
    }
};

static void cuda_add_rows(const float *from, const uint32_t *at, size_t n, size_t D, bool apart,
                          float *into)
{
    cuda_device *d = cuda_now();
    keep("adding rows", apart ? each(d, "adding rows", n * D, add_row_entry{from, at, D, into})
                              : cuda_add_rows_to(d, from, at, n, UINT32_MAX, D, into));
}

struct adam_row_entry {
    adam_step s;
    const uint32_t *row;
    size_t D;
    __device__ void operator()(size_t i) const
    {
        adam_one(s, 1, s.grad[i], (size_t)row[i / D] * D + i % D);
    }
};

static void cuda_adam_rows(const adam_step *s, const uint32_t *row, size_t D)
{
    keep("a step of Adam",
         each(cuda_now(), "a step of Adam", s->n * D, adam_row_entry{*s, row, D}));
}

const optim_device optim_cuda = {cuda_norm, cuda_adam, cuda_add_rows, cuda_adam_rows};
