/* bound/cuda/score_worst.cu - the worst case of word scores over substitution sets
 * (../score_ranges.h). */
#include "bound/cuda/sets.cuh"

enum { SCORES, BIAS };

struct score_view {
    set_view s;
    const float *scores;  /* (n_rows, K) */
    const int32_t *label; /* (B) */
    size_t K;
    double eps;
    __device__ double lead(uint32_t row, size_t k, size_t y) const
    {
        return (double)scores[row * K + k] - (double)scores[row * K + y];
    }
};

static score_view scores_of(const node *n)
{
    const score_worst_args *a = (const score_worst_args *)n->args;
    return score_view{set_view_of(a->s), n->in[SCORES]->value, a->label, shape_cols(n->shape),
                      a->eps};
}

/* A block has one text and one class. `worst` (K - 1, T), unless NULL: the words that it takes. */
static __global__ void score_kernel(score_view v, const float *bias, uint32_t *worst, float *z)
{
    const size_t text = blockIdx.x / v.K, k = blockIdx.x % v.K, y = (size_t)v.label[text];
    const uint32_t first = v.s.first[text], end = v.s.first[text + 1];
    if (k == y) { /* the same for the whole block */
        if (threadIdx.x == 0)
            z[blockIdx.x] = 0;
        return;
    }
    double sum = 0;
    for (uint32_t t = first + threadIdx.x; t < end; t += THREADS) {
        const uint32_t own = v.s.row[t];
        const double mine = v.lead(own, k, y);
        double most = mine;
        uint32_t best = own;
        for (uint32_t i = v.s.start[own]; i < v.s.start[own + 1]; i++) {
            const double x = v.lead(v.s.alt[i], k, y);
            if (x > most) {
                most = x;
                best = v.s.alt[i];
            }
        }
        if (worst)
            worst[(k < y ? k : k - 1) * v.s.T + t] = best;
        sum += v.eps * most + (1 - v.eps) * mine;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        z[blockIdx.x] = (float)(sum / sqrt((double)(end - first)) +
                                (bias ? (double)bias[k] - (double)bias[y] : 0));
}

extern "C" stet_status cuda_score_worst_fwd(tape *t, node *n)
{
    cuda_device *d = cuda_now();
    const score_view v = scores_of(n);
    uint32_t *worst = NULL;
    if (n->needs_grad && v.K > 1) {
        worst = (uint32_t *)store_arena_alloc(t->values, (v.K - 1) * v.s.T, sizeof *worst);
        if (!worst)
            return STET_ENOMEM;
        n->saved = worst;
    }
    if (v.s.B * v.K == 0)
        return STET_OK;
    score_kernel<<<(unsigned)(v.s.B * v.K), THREADS, 0, d->stream>>>(
        v, n->n_in > BIAS ? n->in[BIAS]->value : NULL, worst, n->value);
    return cuda_launched(d, "score_worst");
}

static __device__ size_t text_of(const set_view &s, uint32_t token)
{
    size_t from = 0, to = s.B; /* s.first[from] <= token < s.first[to] */
    while (to - from > 1) {
        const size_t mid = (from + to) / 2;
        if (s.first[mid] <= token)
            from = mid;
        else
            to = mid;
    }
    return from;
}

/* Term (rival, token) and, where eps < 1, once more for the word itself: + g in the rival's column, - g
 * in the true class's. */
struct score_term {
    score_view v;
    const float *dz;
    const uint32_t *worst;
    size_t n; /* (K - 1) T */
    uint32_t *row;
    float *g;      /* (terms) */
    uint32_t *col; /* (terms, 2): rival, true class */
    __device__ void operator()(size_t i) const
    {
        const size_t j = i % n, token = j % v.s.T, at = j / v.s.T, text = text_of(v.s, token);
        const size_t y = (size_t)v.label[text], k = at < y ? at : at + 1;
        const double root = sqrt((double)(v.s.first[text + 1] - v.s.first[text]));
        const bool own = i >= n;
        row[i] = own ? v.s.row[token] : worst[j];
        g[i] = (float)((own ? 1 - v.eps : v.eps) * (double)dz[text * v.K + k] / root);
        col[2 * i] = (uint32_t)k;
        col[2 * i + 1] = (uint32_t)y;
    }
};

struct score_term_value {
    const float *g;
    const uint32_t *col;
    __device__ float operator()(size_t i, size_t j) const
    {
        return j == col[2 * i] ? g[i] : j == col[2 * i + 1] ? -g[i] : 0;
    }
};

static stet_status scores_gradient(cuda_device *d, const score_view *v, const node *n)
{
    scratch mem(d);
    const size_t once = (v->K - 1) * v->s.T, terms = once * (v->eps < 1 ? 2 : 1);
    uint32_t *row = mem.take<uint32_t>(3 * terms), *col = row + terms;
    float *g = row ? mem.take<float>(terms) : NULL;
    sorted_keys sorted;
    if (!g)
        return STET_ENOMEM;
    TRY(each(d, "score_worst", terms,
             score_term{*v, n->grad, (const uint32_t *)n->saved, once, row, g, col}));
    TRY(cuda_sort(&mem, row, terms, v->s.n_rows, &sorted));
    return scatter_add(&mem, "score_worst", sorted, terms, v->s.n_rows, v->K,
                       score_term_value{g, col}, false, n->in[SCORES]->grad);
}

extern "C" stet_status cuda_score_worst_bwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const score_view v = scores_of(n);
    if (v.K < 2 || v.s.B == 0)
        return STET_OK;
    if (n->in[SCORES]->needs_grad)
        TRY(scores_gradient(d, &v, n));
    return n->n_in > BIAS && n->in[BIAS]->needs_grad
               ? rival_bias(d, "score_worst", v.label, n->grad, v.s.B, v.K, n->in[BIAS]->grad)
               : STET_OK;
}
