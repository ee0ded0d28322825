/* defense/cuda/hulls.cu - points in the convex hulls of words and their substitutes (../ascc.h). First
 * every position's softmax over its slots, in double; then points, or a step of the search. */
#include "tensor/cuda/device.cuh"

extern "C" {
#include "defense/defense_args.h"
}

enum { STATE, ROWS, SLOPE };

/* What is known of the slots, in scratch memory. */
struct slots {
    const uint32_t *word, *first, *row, *start; /* word (T): the batch's word of a point */
    size_t T, D, n;
    const float *state, *rows;
    double *p;       /* (n) */
    uint32_t *owner; /* (n) the position */
    uint32_t *of;    /* (n) the row */
};

struct number_slots {
    slots s;
    __device__ void operator()(size_t i) const
    {
        const uint32_t begin = s.start[i], end = s.start[i + 1], first = s.first[s.word[i]];
        double most = -INFINITY, sum = 0;
        for (uint32_t k = begin; k < end; k++)
            most = fmax(most, (double)s.state[k * HULL_STATE + HULL_W]);
        for (uint32_t k = begin; k < end; k++)
            sum += s.p[k] = exp((double)s.state[k * HULL_STATE + HULL_W] - most);
        for (uint32_t k = begin; k < end; k++) {
            s.p[k] /= sum;
            s.owner[k] = (uint32_t)i;
            s.of[k] = s.row[first + (k - begin)];
        }
    }
};

static stet_status find_slots(scratch *mem, const node *n, const hulls *h, slots *out)
{
    slots s = {h->of, h->first, h->row, h->start};
    s.T = h->n_points;
    s.D = shape_cols(n->in[ROWS]->shape);
    s.n = h->n_slots;
    s.state = n->in[STATE]->value;
    s.rows = n->in[ROWS]->value;
    s.p = mem->take<double>(s.n + 1);
    s.owner = mem->take<uint32_t>(2 * s.n + 1);
    if (!s.p || !s.owner)
        return STET_ENOMEM;
    s.of = s.owner + s.n;
    *out = s;
    return each(mem->d, n->op->name, s.T, number_slots{s});
}

/* ---- points ------------------------------------------------------------------------------- */

struct mix_rows {
    slots s;
    float *out;
    __device__ void operator()(size_t i) const
    {
        const size_t t = i / s.D, d = i % s.D;
        float sum = 0;
        for (uint32_t k = s.start[t]; k < s.start[t + 1]; k++)
            sum += (float)s.p[k] * s.rows[(size_t)s.of[k] * s.D + d];
        out[i] = sum;
    }
};

static const hulls *hulls_of(const node *n)
{
    return &((const hull_args *)n->args)->at;
}

extern "C" stet_status cuda_hull_points_fwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    scratch mem(d);
    slots s;
    TRY(find_slots(&mem, n, hulls_of(n), &s));
    return each(d, n->op->name, s.T * s.D, mix_rows{s, n->value});
}

struct slot_entry {
    slots s;
    const float *dy;
    __device__ float operator()(size_t k, size_t d) const
    {
        return (float)s.p[k] * dy[(size_t)s.owner[k] * s.D + d];
    }
};

extern "C" stet_status cuda_hull_points_bwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    node *rows = n->in[ROWS];
    scratch mem(d);
    slots s;
    sorted_keys sorted;
    if (!rows->needs_grad)
        return STET_OK;
    TRY(find_slots(&mem, n, hulls_of(n), &s));
    if (s.n == 0)
        return STET_OK;
    TRY(cuda_sort(&mem, s.of, s.n, shape_rows(rows->shape), &sorted));
    return scatter_add(&mem, n->op->name, sorted, s.n, shape_rows(rows->shape), s.D,
                       slot_entry{s, n->grad}, false, rows->grad);
}

/* ---- steps of searches -------------------------------------------------------------------- */

/* along (n): the slope of the points times each slot's vector; a warp has a slot. */
static __global__ void along_kernel(slots s, const float *g, double *along)
{
    for (size_t k = (size_t)blockIdx.x * COLUMN_ROWS + threadIdx.y; k < s.n;
         k += (size_t)gridDim.x * COLUMN_ROWS) {
        const float *x = g + (size_t)s.owner[k] * s.D, *e = s.rows + (size_t)s.of[k] * s.D;
        double sum = 0;
        for (size_t d = threadIdx.x; d < s.D; d += WARP)
            sum += (double)(x[d] * e[d]);
        sum = warp_sum(sum);
        if (threadIdx.x == 0)
            along[k] = sum;
    }
}

static stet_status find_slopes(scratch *mem, const node *n, const slots *s, double **along)
{
    *along = mem->take<double>(s->n + 1);
    if (!*along)
        return STET_ENOMEM;
    if (s->n == 0)
        return STET_OK;
    along_kernel<<<blocks_for(s->n, COLUMN_ROWS), dim3(WARP, COLUMN_ROWS), 0, mem->d->stream>>>(
        *s, n->in[SLOPE]->value, *along);
    return cuda_launched(mem->d, n->op->name);
}

/* Adam as PyTorch has it, the decay part of the gradient; a position's slots by one thread. */
struct step_slots {
    slots s;
    const double *along;
    double rate, share, by_m, by_v; /* by: what the moments are divided by */
    float *out;
    __device__ void adam(const float *from, double gradient, float *to) const
    {
        const double w = (double)from[HULL_W], g = gradient + 2e-5 * w;
        const double m = 0.9 * (double)from[HULL_M] + 0.1 * g,
                     v = 0.999 * (double)from[HULL_V] + 0.001 * g * g;
        to[HULL_W] = (float)(w - rate * (m / by_m) / (sqrt(v / by_v) + 1e-8));
        to[HULL_M] = (float)m;
        to[HULL_V] = (float)v;
        to[HULL_GRAD] = (float)gradient;
    }
    __device__ void operator()(size_t i) const
    {
        double mean = 0, entropy = 0;
        for (uint32_t at = s.start[i]; at < s.start[i + 1]; at++) {
            mean += s.p[at] * along[at];
            entropy -= s.p[at] > 0 ? s.p[at] * log(s.p[at]) : 0;
        }
        for (uint32_t at = s.start[i]; at < s.start[i + 1]; at++) {
            const double p = s.p[at], less = p > 0 ? p * (log(p) + entropy) : 0;
            adam(s.state + at * HULL_STATE, p * (along[at] - mean) - share * less,
                 out + at * HULL_STATE);
        }
    }
};

extern "C" stet_status cuda_hull_step_fwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const hull_args *a = (const hull_args *)n->args;
    scratch mem(d);
    slots s;
    TRY(find_slots(&mem, n, hulls_of(n), &s));
    double *along;
    TRY(find_slopes(&mem, n, &s, &along));
    const double k = (double)a->k;
    const step_slots f = {
        s, along, a->rate, a->alpha / (double)a->at.n_tokens, 1 - pow(0.9, k), 1 - pow(0.999, k), n->value};
    return each(d, n->op->name, s.T, f);
}

/* A move of one length up the loss (../dne.c); a position's slots by one thread. */
struct climb_slots {
    slots s;
    double *along, step, scale;
    float *out;
    __device__ void operator()(size_t i) const
    {
        const uint32_t begin = s.start[i], end = s.start[i + 1];
        double mean = 0, size = 0, most = -INFINITY;
        for (uint32_t at = begin; at < end; at++)
            mean += s.p[at] * along[at];
        for (uint32_t at = begin; at < end; at++) {
            along[at] = scale * s.p[at] * (along[at] - mean);
            size += along[at] * along[at];
        }
        const double by = step / (sqrt(size) + 1e-6);
        for (uint32_t at = begin; at < end; at++)
            most = fmax(most, (double)s.state[at * HULL_STATE + HULL_W] + by * along[at]);
        for (uint32_t at = begin; at < end; at++) {
            const float *from = s.state + at * HULL_STATE;
            float *to = out + at * HULL_STATE;
            to[HULL_W] = (float)((double)from[HULL_W] + by * along[at] - most);
            to[HULL_M] = from[HULL_M];
            to[HULL_V] = from[HULL_V];
            to[HULL_GRAD] = (float)along[at];
        }
    }
};

extern "C" stet_status cuda_hull_climb_fwd(tape *, node *n)
{
    const climb_args *a = (const climb_args *)n->args;
    scratch mem(cuda_now());
    slots s;
    double *along;
    TRY(find_slots(&mem, n, &a->at, &s));
    TRY(find_slopes(&mem, n, &s, &along));
    return each(mem.d, n->op->name, s.T, climb_slots{s, along, a->step, a->scale, n->value});
}
