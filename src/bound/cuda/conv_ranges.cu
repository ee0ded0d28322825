/* bound/cuda/conv_ranges.cu - ranges of max-pooled convolutions over substitution sets
 * (../conv_ranges.h).
 *
 * One product projects words and substitutes; extremes over the sets are further rows of the same
 * table. A thread has one filter of one text and walks over windows with all three sides at once: at
 * a word that stays, they are one number. Maxima and their places stay in registers. */
#include "bound/cuda/conv_ranges.cuh"

enum { WEIGHT, BIAS, ROWS };

/* forward ------------------------------------------------------------------------------------ */

enum { GROUPS = 16 }; /* threads that share the windows of a text and filter */

struct pooled_window {
    float s;
    uint32_t at;
    __device__ bool beats(const pooled_window &other) const
    {
        return window_wins(s, at, other.s, other.at);
    }
};

/* The best windows of each side, and the best of the others on the upper one. */
struct best_windows {
    pooled_window side[RANGE_SIDES], next;
    __device__ void take(int i, pooled_window w)
    {
        if (w.beats(side[i])) {
            if (i == RANGE_UPPER)
                next = side[i];
            side[i] = w;
        } else if (i == RANGE_UPPER && w.beats(next)) {
            next = w;
        }
    }
};

struct ranges_pool {
    size_t F, k;
    const float *table, *b;
    float *y;        /* (B, RANGE_SIDES, F) */
    conv_windows to; /* won, next, next_at */
};

/* TAPS is k in the usual cases, 0 otherwise. */
template <int TAPS>
static __global__ void __launch_bounds__(WARP *GROUPS) ranges_kernel(set_view s, ranges_pool p)
{
    __shared__ pooled_window part[GROUPS][RANGE_SIDES + 1][WARP];
    const size_t k = TAPS ? TAPS : p.k, ld = p.k * p.F;
    const size_t text = blockIdx.x, f = (size_t)blockIdx.y * WARP + threadIdx.x;
    const uint32_t *row = s.row + s.first[text], *lo_row = s.lo_row + s.first[text];
    const uint32_t len = s.first[text + 1] - s.first[text];
    const uint32_t windows = len >= k ? len - (uint32_t)k + 1 : 1;
    const size_t taps = len < k ? len : k; /* a shorter text is continued with zeros */
    const size_t to_hi = s.n_moving * ld;
    const pooled_window none = {-INFINITY, UINT32_MAX};
    best_windows best = {{none, none, none}, none};
    if (f < p.F)
        for (uint32_t t = threadIdx.y; t < windows; t += GROUPS) {
            float sum[RANGE_SIDES] = {0, 0, 0};
#pragma unroll
            for (size_t l = 0; l < (TAPS ? TAPS : taps); l++)
                if (!TAPS || l < taps) {
                    const float *at = p.table + l * p.F + f;
                    const uint32_t v = row[t + l], lo = lo_row[t + l];
                    const float own = at[v * ld];
                    sum[RANGE_VALUE] += own;
                    /* the same for the whole warp */
                    sum[RANGE_LOWER] += lo == v ? own : at[lo * ld];
                    sum[RANGE_UPPER] += lo == v ? own : at[lo * ld + to_hi];
                }
            for (int i = 0; i < RANGE_SIDES; i++)
                best.take(i, pooled_window{sum[i], t});
        }
    for (int i = 0; i < RANGE_SIDES; i++)
        part[threadIdx.y][i][threadIdx.x] = best.side[i];
    part[threadIdx.y][RANGE_SIDES][threadIdx.x] = best.next;
    __syncthreads();
    if (threadIdx.y >= RANGE_SIDES || f >= p.F)
        return;
    /* one row of threads for each side */
    const int side = (int)threadIdx.y;
    best_windows all = {{none, none, none}, none};
    for (int g = 0; g < GROUPS; g++) {
        const pooled_window w = part[g][side][threadIdx.x];
        if (side == RANGE_UPPER) {
            all.take(RANGE_UPPER, w);
            all.take(RANGE_UPPER, part[g][RANGE_SIDES][threadIdx.x]);
        } else if (w.beats(all.side[RANGE_VALUE])) {
            all.side[RANGE_VALUE] = w;
        }
    }
    const pooled_window w = all.side[side == RANGE_UPPER ? RANGE_UPPER : RANGE_VALUE];
    const float x = w.s + p.b[f];
    const size_t at = (text * RANGE_SIDES + (size_t)side) * p.F + f;
    p.y[at] = x < 0 ? 0 : x; /* a NaN stays */
    p.to.won[at] = w.at;
    if (side == RANGE_UPPER && p.to.next) {
        p.to.next[text * p.F + f] = all.next.s;
        p.to.next_at[text * p.F + f] = all.next.at;
    }
}

/* Room for what the op keeps, in memory of the pass. */
static stet_status keep_windows(tape *t, node *n, const set_view *s, const conv_taps *c)
{
    const conv_ranges_args *a = (const conv_ranges_args *)n->args;
    conv_windows *keep = (conv_windows *)arena_alloc(t->mem, 1, sizeof *keep);
    if (!keep)
        return STET_ENOMEM;
    *keep = conv_windows{};
    keep->cols = c->k * c->F;
    keep->table = (float *)store_arena_alloc(
        t->values, (s->n_rows + 2 * s->n_moving) * keep->cols, sizeof *keep->table);
    keep->won =
        (uint32_t *)store_arena_alloc(t->values, s->B * RANGE_SIDES * c->F, sizeof *keep->won);
    n->saved = keep;
    if (!keep->table || !keep->won || !a->runners_up)
        return keep->table && keep->won ? STET_OK : STET_ENOMEM;
    keep->next = (float *)store_arena_alloc(t->values, s->B * c->F, sizeof *keep->next);
    keep->next_at = (uint32_t *)store_arena_alloc(t->values, s->B * c->F, sizeof *keep->next_at);
    return keep->next && keep->next_at ? STET_OK : STET_ENOMEM;
}

extern "C" stet_status cuda_conv_ranges_fwd(tape *t, node *n)
{
    cuda_device *d = cuda_now();
    const conv_ranges_args *a = (const conv_ranges_args *)n->args;
    const set_view s = set_view_of(a->s);
    const conv_taps c = conv_taps_of(n->in[WEIGHT]);
    TRY(keep_windows(t, n, &s, &c));
    const conv_windows *keep = (const conv_windows *)n->saved;
    if (c.F == 0 || s.B == 0)
        return STET_OK;
    TRY(conv_project(d, &c, n->in[ROWS]->value, s.n_rows, keep->table));
    TRY(sets_extremes(d, &s, a->eps, keep->table, keep->cols));
    const ranges_pool p = {c.F, c.k, keep->table, n->in[BIAS]->value, n->value, *keep};
    const dim3 grid((unsigned)s.B, (unsigned)((c.F + WARP - 1) / WARP)), block(WARP, GROUPS);
    switch (c.k) {
    case 3:
        ranges_kernel<3><<<grid, block, 0, d->stream>>>(s, p);
        break;
    case 4:
        ranges_kernel<4><<<grid, block, 0, d->stream>>>(s, p);
        break;
    case 5:
        ranges_kernel<5><<<grid, block, 0, d->stream>>>(s, p);
        break;
    default:
        ranges_kernel<0><<<grid, block, 0, d->stream>>>(s, p);
        break;
    }
    return cuda_launched(d, "conv_ranges");
}

/* backward ----------------------------------------------------------------------------------- */

/* Term (l, text and side, f): the extreme word under tap l of the winning window. */
struct ranges_term {
    set_view s;
    window_terms to;
    const float *y, *dy;
    const uint32_t *won;
    __device__ void operator()(size_t i) const
    {
        const size_t f = i % to.F, at = i / to.F % (s.B * RANGE_SIDES) * to.F + f,
                     text = i / to.F / RANGE_SIDES % s.B, l = i / to.F / RANGE_SIDES / s.B;
        const size_t side = i / to.F % RANGE_SIDES;
        const bool counts = y[at] > 0 && l < s.first[text + 1] - s.first[text];
        if (!counts || dy[at] == 0) {
            to.none(i);
            return;
        }
        const uint32_t v = s.row[s.first[text] + won[at] + l];
        to.put(i, dy[at], v,
               side == RANGE_VALUE
                   ? v
                   : extreme_row(s, to.table, to.cols, v, l * to.F + f, side == RANGE_UPPER));
    }
};

struct ranges_bias_entry {
    const float *y, *dy;
    size_t F;
    __device__ float operator()(size_t i, size_t f) const
    {
        return y[i * F + f] > 0 ? dy[i * F + f] : 0;
    }
};

extern "C" stet_status cuda_conv_ranges_bwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const conv_ranges_args *a = (const conv_ranges_args *)n->args;
    const set_view s = set_view_of(a->s);
    const conv_taps c = conv_taps_of(n->in[WEIGHT]);
    const conv_windows *keep = (const conv_windows *)n->saved;
    node *w = n->in[WEIGHT], *b = n->in[BIAS], *rows = n->in[ROWS];
    if (c.F == 0 || c.D == 0 || s.B == 0)
        return STET_OK;
    scratch mem(d);
    tap_terms terms;
    window_terms to;
    const size_t windows = s.B * RANGE_SIDES;
    TRY(window_terms_take(&mem, &c, keep, &s, windows, a->eps, &terms, &to));
    TRY(each(d, "conv_ranges", c.k * windows * c.F,
             ranges_term{s, to, n->value, n->grad, keep->won}));
    if (b->needs_grad)
        TRY(grad_add_columns(d, b, windows, ranges_bias_entry{n->value, n->grad, c.F}));
    if (w->needs_grad)
        TRY(conv_weight_gradient(d, &c, &terms, rows->value, w->grad));
    return rows->needs_grad ? conv_rows_gradient(d, &c, &terms, s.n_rows, rows->grad) : STET_OK;
}
