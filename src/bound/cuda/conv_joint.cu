/* bound/cuda/conv_joint.cu - the joint linear bound of a CNN's margins (../conv_joint.h; the mathematics
 * is at the top of ../conv_joint.c).
 *
 * A pair is a text and one rival class. Every feature of a pair gets its plan, and every tap of the
 * plan's window is a term of the position that it reads. Terms are sorted by position, stably, so that
 * a position sums its own in the CPU's order, for each word that may stand there; then it takes the
 * worst. */
#include "bound/cuda/conv_ranges.cuh"

/* The linear bound of one feature of a pair. */
struct joint_plan {
    uint32_t at; /* the window */
    double omega, slope, offset;
    double lower, upper, next; /* L, U, U2 */
    double base;               /* offset + slope b */
};

/* What backward needs of it: derivatives of the margin's bound. */
struct joint_choice {
    uint32_t at, next_at;
    float response, lower, upper, next;
    float omega;
};

/* What a tap adds to a word's sum: by times the number in its column. */
struct joint_term {
    double by;
    const float *column;
    size_t cols;
};

struct joint_view {
    set_view s;
    double eps;
    size_t F, K, taps;              /* features and taps of all kernel sizes, classes */
    const float *fc_w, *fc_b, *mask; /* (K, F), (K), (B, F) or NULL */
    const int32_t *label;
    __device__ float keep(size_t text, size_t g) const
    {
        return mask ? mask[text * F + g] : 1;
    }
    __device__ size_t len(size_t text) const
    {
        return s.first[text + 1] - s.first[text];
    }
};

/* One kernel size. */
struct joint_kernel {
    conv_taps c;
    const float *b, *ends; /* ends (B, RANGE_SIDES, F) */
    conv_windows w;
    size_t first, first_tap; /* of its features and taps among all */
    __device__ size_t taps_in(size_t len) const
    {
        return len < c.k ? len : c.k;
    }
    /* A window's response when its tokens read these rows of the table. */
    __device__ double response(const uint32_t *row, size_t taps, size_t f) const
    {
        double sum = (double)b[f];
        for (size_t l = 0; l < taps; l++)
            sum += (double)w.table[row[l] * w.cols + l * c.F + f];
        return sum;
    }
};

struct joint_kept {
    joint_choice *choices; /* (pairs, F) */
    uint32_t *word;        /* (K - 1, T) rows of the worst words */
};

static joint_view joint_of(const node *n)
{
    const joint_args *a = (const joint_args *)n->args;
    joint_view j = {set_view_of(a->s), a->eps, 0, shape_cols(n->shape), 0, NULL, NULL, NULL,
                    a->label};
    for (size_t i = 0; i < a->n; i++) {
        const conv_taps c = conv_taps_of(n->in[2 * i]);
        j.F += c.F;
        j.taps += c.F * c.k;
    }
    j.fc_w = n->in[2 * a->n]->value;
    j.fc_b = n->in[2 * a->n + 1]->value;
    j.mask = a->mask ? a->mask->value : NULL;
    return j;
}

static joint_kernel kernel_of(const node *n, size_t i)
{
    const joint_args *a = (const joint_args *)n->args;
    joint_kernel c = {conv_taps_of(n->in[2 * i]), n->in[2 * i + 1]->value, a->ranges[i]->value,
                      *(const conv_windows *)a->ranges[i]->saved, 0, 0};
    for (size_t k = 0; k < i; k++) {
        const conv_taps before = conv_taps_of(n->in[2 * k]);
        c.first += before.F;
        c.first_tap += before.F * before.k;
    }
    return c;
}

static size_t pairs_of(const joint_view *j)
{
    return j->s.B * (j->K - 1);
}

/* forward ------------------------------------------------------------------------------------ */

/* Feature i % F of pair i / F of one kernel size: its plan, and its terms. */
struct make_plan {
    joint_view j;
    joint_kernel c;
    joint_plan *plans; /* (pairs, all features) */
    joint_term *terms; /* (pairs, taps) */
    uint32_t *key;     /* (pairs, taps): rival T + token; (K - 1) T: none */

    __device__ joint_plan plan(size_t text, size_t f, double omega) const
    {
        const size_t F = c.c.F, i = text * RANGE_SIDES * F + f;
        const size_t side = omega >= 0 ? RANGE_LOWER : RANGE_UPPER;
        joint_plan p = {c.w.won[i + side * F], omega, 0, 0, 0, 0, 0, 0};
        if (!(c.ends[i + side * F] > 0))
            return p;
        p.slope = 1;
        if (omega >= 0)
            return p;
        const double next = (double)(c.w.next[text * F + f] + c.b[f]);
        p.upper = (double)c.ends[i + side * F];
        p.lower = c.response(j.s.lo_row + j.s.first[text] + p.at, c.taps_in(j.len(text)), f);
        p.next = next > 0 ? next : 0;
        if (p.lower >= p.next) /* the window always wins */
            return p;
        p.slope = p.upper > p.next ? (p.upper - p.next) / (p.upper - p.lower) : 0;
        p.offset = p.next - p.slope * p.lower;
        return p;
    }

    __device__ void operator()(size_t i) const
    {
        const size_t f = i % c.c.F, g = c.first + f, pair = i / c.c.F, text = pair / (j.K - 1);
        const size_t k = rival_class(pair, j.K, j.label), y = (size_t)j.label[text];
        const double omega =
            (double)j.keep(text, g) * (double)(j.fc_w[y * j.F + g] - j.fc_w[k * j.F + g]);
        joint_plan p = plan(text, f, omega);
        p.base = p.offset + p.slope * (double)c.b[f];
        plans[pair * j.F + g] = p;
        const size_t taps = p.slope > 0 && omega != 0 ? c.taps_in(j.len(text)) : 0;
        const size_t at = pair * j.taps + c.first_tap + f * c.c.k, rival = pair % (j.K - 1);
        for (size_t l = 0; l < c.c.k; l++) {
            terms[at + l] =
                joint_term{omega * p.slope, c.w.table + l * c.c.F + f, c.w.cols};
            key[at + l] = (uint32_t)(l < taps ? rival * j.s.T + j.s.first[text] + p.at + l
                                              : (j.K - 1) * j.s.T);
        }
    }
};

static __device__ size_t first_not_below(const uint32_t *key, size_t n, uint32_t wanted)
{
    size_t from = 0, to = n;
    while (from < to) {
        const size_t mid = (from + to) / 2;
        if (key[mid] < wanted)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

struct least_word {
    double sum;
    uint32_t i;
    __device__ void take(least_word other)
    {
        if (other.sum < sum || (other.sum == sum && other.i < i))
            *this = other;
    }
};

/* A warp has a position of a text beside one rival; its lanes have the words that may stand there. */
static __global__ void worst_word_kernel(joint_view j, sorted_keys sorted, size_t n,
                                         const joint_term *terms, uint32_t *word, double *total)
{
    const size_t all = (j.K - 1) * j.s.T, step = (size_t)gridDim.x * COLUMN_ROWS;
    for (size_t at = (size_t)blockIdx.x * COLUMN_ROWS + threadIdx.y; at < all; at += step) {
        const uint32_t v = j.s.row[at % j.s.T], choices = 1 + j.s.start[v + 1] - j.s.start[v];
        const size_t begin = first_not_below(sorted.key, n, (uint32_t)at);
        size_t end = begin;
        while (end < n && sorted.key[end] == at)
            end++;
        least_word least = {INFINITY, UINT32_MAX};
        double own = 0;
        for (uint32_t i = threadIdx.x; i < choices; i += WARP) {
            const size_t row = i == 0 ? v : j.s.alt[j.s.start[v] + i - 1];
            double sum = 0;
            for (size_t k = begin; k < end; k++) {
                const joint_term t = terms[sorted.from[k]];
                sum += t.by * (double)t.column[row * t.cols];
            }
            least.take(least_word{sum, i});
            own = i == 0 ? sum : own;
        }
        own = __shfl_sync(0xffffffffu, own, 0);
        for (int lane = WARP / 2; lane > 0; lane /= 2)
            least.take(least_word{__shfl_xor_sync(0xffffffffu, least.sum, lane),
                                  __shfl_xor_sync(0xffffffffu, least.i, lane)});
        if (threadIdx.x > 0)
            continue;
        const bool stays = !(least.sum < own); /* also where it is a NaN */
        word[at] = stays ? v : j.s.alt[j.s.start[v] + least.i - 1];
        total[at] = stays ? own : own + j.eps * (least.sum - own);
    }
}

/* A block has one text and class. */
static __global__ void joint_lead_kernel(joint_view j, const joint_plan *plans, const double *total,
                                         float *z)
{
    const size_t text = blockIdx.x / j.K, k = blockIdx.x % j.K, y = (size_t)j.label[text];
    if (k == y) { /* the same for the whole block */
        if (threadIdx.x == 0)
            z[blockIdx.x] = 0;
        return;
    }
    const size_t rival = k < y ? k : k - 1, pair = text * (j.K - 1) + rival;
    double sum = 0;
    for (size_t g = threadIdx.x; g < j.F; g += THREADS) {
        const joint_plan *p = plans + pair * j.F + g;
        sum += p->omega * p->base;
    }
    for (size_t t = j.s.first[text] + threadIdx.x; t < j.s.first[text + 1]; t += THREADS)
        sum += total[rival * j.s.T + t];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        z[blockIdx.x] = (float)-((double)(j.fc_b[y] - j.fc_b[k]) + sum);
}

/* Derivatives of omega (slope a + offset), a the response to the worst words. */
struct settle {
    joint_view j;
    joint_kernel c;
    const joint_plan *plans;
    const uint32_t *word;
    joint_choice *choices;
    __device__ void operator()(size_t i) const
    {
        const size_t f = i % c.c.F, g = c.first + f, pair = i / c.c.F, text = pair / (j.K - 1);
        const joint_plan p = plans[pair * j.F + g];
        const size_t taps = c.taps_in(j.len(text)), at = j.s.first[text] + p.at;
        const uint32_t *worst = word + pair % (j.K - 1) * j.s.T + at;
        const double own = c.response(j.s.row + at, taps, f),
                     a = own + j.eps * (c.response(worst, taps, f) - own),
                     width = p.upper - p.lower;
        joint_choice out = {p.at, 0, (float)(p.omega * p.slope), 0, 0, 0,
                            (float)(p.slope * a + p.offset)};
        if (!(p.omega >= 0 || p.next <= p.lower || width <= 0)) {
            /* a chord: slope (U - U2) / (U - L), offset U2 - slope L */
            out.next_at = c.w.next_at[text * c.c.F + f];
            out.lower = (float)(-p.omega * p.slope * (p.upper - a) / width);
            if (p.slope > 0)
                out.upper = (float)(p.omega * (a - p.lower) * (p.next - p.lower) / (width * width));
            if (p.next > 0)
                out.next = (float)(p.slope > 0 ? p.omega * (p.upper - a) / width : p.omega);
        }
        choices[pair * j.F + g] = out;
    }
};

static stet_status worst_words(cuda_device *d, const joint_view *j, const uint32_t *key,
                               const joint_term *terms, uint32_t *word, double *total)
{
    scratch mem(d);
    const size_t n = pairs_of(j) * j->taps, all = (j->K - 1) * j->s.T;
    sorted_keys sorted;
    TRY(cuda_sort(&mem, key, n, all, &sorted));
    worst_word_kernel<<<blocks_for(all, COLUMN_ROWS), dim3(WARP, COLUMN_ROWS), 0, d->stream>>>(
        *j, sorted, n, terms, word, total);
    return cuda_launched(d, "conv_joint");
}

static stet_status run_forward(cuda_device *d, const joint_view *j, const node *n,
                               const joint_kept *keep)
{
    scratch mem(d);
    const size_t pairs = pairs_of(j), kernels = ((const joint_args *)n->args)->n;
    joint_plan *plans = mem.take<joint_plan>(pairs * j->F);
    joint_term *terms = mem.take<joint_term>(pairs * j->taps);
    uint32_t *key = mem.take<uint32_t>(pairs * j->taps);
    double *total = mem.take<double>((j->K - 1) * j->s.T);
    if (!plans || !terms || !key || !total)
        return STET_ENOMEM;
    for (size_t i = 0; i < kernels; i++) {
        const joint_kernel c = kernel_of(n, i);
        TRY(each(d, "conv_joint", pairs * c.c.F, make_plan{*j, c, plans, terms, key}));
    }
    TRY(worst_words(d, j, key, terms, keep->word, total));
    joint_lead_kernel<<<(unsigned)(j->s.B * j->K), THREADS, 0, d->stream>>>(*j, plans, total,
                                                                            n->value);
    for (size_t i = 0; n->needs_grad && i < kernels; i++) {
        const joint_kernel c = kernel_of(n, i);
        TRY(each(d, "conv_joint", pairs * c.c.F, settle{*j, c, plans, keep->word, keep->choices}));
    }
    return cuda_launched(d, "conv_joint");
}

extern "C" stet_status cuda_conv_joint_fwd(tape *t, node *n)
{
    const joint_view j = joint_of(n);
    joint_kept *keep = (joint_kept *)arena_alloc(t->mem, 1, sizeof *keep);
    if (!keep)
        return STET_ENOMEM;
    if (j.s.B == 0 || j.K < 2) {
        store_clear(t->store, n->value, shape_count(n->shape) * sizeof *n->value);
        return STET_OK;
    }
    keep->choices =
        (joint_choice *)store_arena_alloc(t->values, pairs_of(&j) * j.F, sizeof *keep->choices);
    keep->word = (uint32_t *)store_arena_alloc(t->values, (j.K - 1) * j.s.T, sizeof *keep->word);
    n->saved = keep;
    return keep->choices && keep->word ? run_forward(cuda_now(), &j, n, keep) : STET_ENOMEM;
}

/* backward ----------------------------------------------------------------------------------- */

/* Windows of a pair: that of the plan with the worst words, with all smallest and with all largest
 * values, and the runner-up with all largest. */
enum { WITH_WORST, WITH_LEAST, WITH_MOST, NEXT_WITH_MOST, WINDOWS };

struct joint_slopes {
    joint_view j;
    const joint_choice *choices;
    const float *dz;
    size_t first; /* of the kernel's features */
    /* Gradient of a window's response; `i` = pair WINDOWS + window. */
    __device__ float operator()(size_t i, size_t f) const
    {
        const size_t pair = i / WINDOWS, text = pair / (j.K - 1);
        const joint_choice *c = choices + pair * j.F + first + f;
        const float g = -dz[text * j.K + rival_class(pair, j.K, j.label)];
        switch (i % WINDOWS) {
        case WITH_WORST:
            return g * c->response;
        case WITH_LEAST:
            return g * c->lower;
        case WITH_MOST:
            return g * c->upper;
        default:
            return g * c->next;
        }
    }
};

struct joint_window_term {
    joint_slopes slopes;
    joint_kernel c;
    const uint32_t *word;
    window_terms to;
    __device__ void operator()(size_t i) const
    {
        const joint_view &j = slopes.j;
        const size_t f = i % to.F, w = i / to.F % to.windows, l = i / to.F / to.windows;
        const size_t pair = w / WINDOWS, text = pair / (j.K - 1), which = w % WINDOWS;
        const float g = l < j.len(text) ? slopes(w, f) : 0;
        if (g == 0) {
            to.none(i);
            return;
        }
        const joint_choice *mine = slopes.choices + pair * j.F + c.first + f;
        const size_t at = j.s.first[text] + (which == NEXT_WITH_MOST ? mine->next_at : mine->at) + l;
        const uint32_t v = j.s.row[at];
        to.put(i, g, v,
               which == WITH_WORST
                   ? word[pair % (j.K - 1) * j.s.T + at]
                   : extreme_row(j.s, to.table, to.cols, v, l * to.F + f, which != WITH_LEAST));
    }
};

static stet_status kernel_gradient(cuda_device *d, const joint_view *j, node *n, size_t i)
{
    const joint_args *a = (const joint_args *)n->args;
    const joint_kept *keep = (const joint_kept *)n->saved;
    const joint_kernel c = kernel_of(n, i);
    node *w = n->in[2 * i], *b = n->in[2 * i + 1], *rows = n->in[2 * a->n + 2];
    const size_t windows = pairs_of(j) * WINDOWS;
    const joint_slopes slopes = {*j, keep->choices, n->grad, c.first};
    scratch mem(d);
    tap_terms terms;
    window_terms to;
    if (c.c.F == 0 || c.c.D == 0)
        return STET_OK;
    TRY(window_terms_take(&mem, &c.c, &c.w, &j->s, windows, j->eps, &terms, &to));
    TRY(each(d, "conv_joint", c.c.k * windows * c.c.F,
             joint_window_term{slopes, c, keep->word, to}));
    if (b->needs_grad)
        TRY(grad_add_columns(d, b, windows, slopes));
    if (w->needs_grad)
        TRY(conv_weight_gradient(d, &c.c, &terms, rows->value, w->grad));
    return rows->needs_grad ? conv_rows_gradient(d, &c.c, &terms, j->s.n_rows, rows->grad)
                            : STET_OK;
}

/* How a rival's margin moves with the weight of feature g. */
struct joint_head {
    joint_view j;
    const joint_choice *choices;
    __device__ float operator()(size_t text, size_t k, size_t y, size_t g) const
    {
        const size_t pair = text * (j.K - 1) + (k < y ? k : k - 1);
        return j.keep(text, g) * choices[pair * j.F + g].omega;
    }
};

extern "C" stet_status cuda_conv_joint_bwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const joint_view j = joint_of(n);
    const joint_args *a = (const joint_args *)n->args;
    const joint_kept *keep = (const joint_kept *)n->saved;
    const node *fc_w = n->in[2 * a->n], *fc_b = n->in[2 * a->n + 1];
    const char *what = "conv_joint";
    if (j.s.B == 0 || j.K < 2)
        return STET_OK;
    if (fc_w->needs_grad)
        TRY(rival_weights(d, what, j.label, n->grad, j.s.B, j.K, j.F, joint_head{j, keep->choices},
                          fc_w->grad));
    if (fc_b->needs_grad)
        TRY(rival_bias(d, what, j.label, n->grad, j.s.B, j.K, fc_b->grad));
    for (size_t i = 0; i < a->n; i++)
        TRY(kernel_gradient(d, &j, n, i));
    return STET_OK;
}
