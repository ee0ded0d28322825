/* model/s4_view.c - edits of one text without re-reading it.
 *
 * The state space is linear: a changed word at position p adds K[t - p] times the change of its encoding to
 * every later y_t. What follows (GELU, gated linear map, residual, norm) acts on each position by itself, so only
 * positions whose y really moved are evaluated again, from all variants together in blocks of rows for one matrix product;
 * the mean over the text is corrected by what they changed, or the maximum is taken over what moved and what did not. Deeper models have no such shortcut past their first layer:
 * s4.c says that they have no views. With spans (spans.h) nothing moves beyond the piece of a changed word. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/simd.h"
#include "model/s4.h"
#include "model/spans.h"
#include "tensor/host/panel.h"
#include "tensor/kernels.h"

enum { PIECE = 16, ROWS = 192 };
static const real still = (real)0x1p-24; /* relative: y moved by no more than its rounding */

typedef struct compiled {
    size_t H, span;
    bool max; /* S4_MAX */
    s4_block block;
    real *word;     /* (n_words, H): every word encoded */
    real *kernel;   /* (model_steps, H): K transposed, D added at lag 0 */
    size_t mixed; /* 2H, H or 0, in whole panels */
    real *mix;    /* mix.weight packed for panel_product */
} compiled;

typedef struct view {
    stet_view base;
    const compiled *c;
    real *y;       /* (n, H): convolution output */
    real *scale;   /* (n): largest |y_t|, for the test of movement */
    real *out;     /* (n, H): after the norm */
    double *total; /* (H): sum of out over the text, or its largest */
    real *before;  /* (n + 1, H): the largest of the first t positions; NULL unless it counts */
} view;

/* ---- compile ------------------------------------------------------------------------------ */

static const real *weight(const model *m, int which)
{
    return model_value(m, S4_FIRST_LAYER + which);
}

static stet_status encode_words(const model *m, compiled *c)
{
    c->word = mem_aligned(m->n_words * c->H, sizeof *c->word);
    if (!c->word)
        return STET_ENOMEM;
    TRY(model_project_words(m, model_value(m, S4_ENC_W), true, c->H, c->word, c->H));
    for (size_t i = 0; i < m->n_words; i++)
        vec_axpy(1, model_value(m, S4_ENC_B), c->word + i * c->H, c->H);
    return STET_OK;
}

static stet_status make_kernel(const model *m, compiled *c)
{
    arena a = {0};
    tape t;
    tape_init(&t, &a, NULL, false);
    node **p;
    stet_status st = model_nodes(m, &t, NULL, &p);
    node **w = st == STET_OK ? p + S4_FIRST_LAYER : NULL;
    const size_t len = model_steps(m);
    const node *k =
        w ? op_s4_kernel(&t, w[S4_A], w[S4_W], w[S4_P], w[S4_B], w[S4_C], w[S4_LOG_DT], len) : NULL;
    if (st == STET_OK)
        st = tape_status(&t);
    c->kernel = mem_aligned(len * c->H, sizeof *c->kernel);
    if (st == STET_OK && !c->kernel)
        st = STET_ENOMEM;
    for (size_t l = 0; st == STET_OK && l < len; l++)
        for (size_t h = 0; h < c->H; h++)
            c->kernel[l * c->H + h] = k->value[h * len + l] + (l == 0 ? weight(m, S4_D)[h] : 0);
    arena_deinit(&a);
    return st;
}

static stet_status pack_mix(const model *m, compiled *c)
{
    if (c->block == BLOCK_BARE)
        return STET_OK;
    const size_t outputs = c->block == BLOCK_RELU ? c->H : 2 * c->H;
    c->mixed = panel_padded(outputs);
    c->mix = mem_aligned(c->H * c->mixed, sizeof *c->mix);
    if (!c->mix)
        return STET_ENOMEM;
    memset(c->mix, 0, c->H * c->mixed * sizeof *c->mix);
    panel_pack(c->H, outputs, weight(m, S4_MIX_W), 1, c->H, 0, c->mix);
    return STET_OK;
}

stet_status s4_compile(const model *m, void **out)
{
    compiled *c = mem_zalloc(1, sizeof *c);
    if (!c)
        return STET_ENOMEM;
    const s4_cfg *cfg = m->cfg;
    c->H = (size_t)cfg->channels;
    c->block = (s4_block)cfg->block;
    c->max = cfg->pool == S4_MAX;
    c->span = model_span(m);
    stet_status st = encode_words(m, c);
    if (st == STET_OK)
        st = make_kernel(m, c);
    if (st == STET_OK)
        st = pack_mix(m, c);
    if (st == STET_OK)
        *out = c;
    else
        s4_compiled_free(c);
    return st;
}

void s4_compiled_free(void *p)
{
    compiled *c = p;
    mem_free_aligned(c->word);
    mem_free_aligned(c->kernel);
    mem_free_aligned(c->mix);
    mem_free(c);
}

/* ---- positions by themselves -------------------------------------------------------------- */

/* A block of positions waiting for the matrix product. */
typedef struct block {
    real *y;             /* (ROWS, H): in: convolution output; then its GELU */
    real *mixed;         /* (ROWS, 2H in whole panels) */
    real *out;           /* (ROWS, H) */
    const real *u[ROWS]; /* encodings, for the residual */
    size_t n;
} block;

static bool block_init(arena *a, const compiled *c, block *b)
{
    b->y = arena_new(a, real, ROWS * c->H);
    b->mixed = arena_new(a, real, ROWS * c->mixed);
    b->out = arena_new(a, real, ROWS * c->H);
    b->n = 0;
    return b->y && (b->mixed || !c->mixed) && b->out;
}

/* Sums and maxima run in LANES parts that are joined at the end: one part would wait for each step. */
enum { LANES = 32 };

SIMD_CLONES
static void norm_row(const real *RESTRICT x, const real *RESTRICT gamma, const real *RESTRICT beta,
                     real *RESTRICT out, size_t n)
{
    real part[LANES] = {0}, mean = 0, var = 0;
    for (size_t from = 0; from + LANES <= n; from += LANES)
        for (size_t l = 0; l < LANES; l++)
            part[l] += x[from + l];
    for (size_t i = n / LANES * LANES; i < n; i++)
        mean += x[i];
    for (size_t l = 0; l < LANES; l++) {
        mean += part[l];
        part[l] = 0;
    }
    mean /= (real)n;
    for (size_t from = 0; from + LANES <= n; from += LANES)
        for (size_t l = 0; l < LANES; l++)
            part[l] += (x[from + l] - mean) * (x[from + l] - mean);
    for (size_t i = n / LANES * LANES; i < n; i++)
        var += (x[i] - mean) * (x[i] - mean);
    for (size_t l = 0; l < LANES; l++)
        var += part[l];
    const real inv = (real)(1 / sqrt((double)(var / (real)n) + S4_NORM_EPS));
    for (size_t i = 0; i < n; i++)
        out[i] = (x[i] - mean) * inv * gamma[i] + beta[i];
}

/* a = u + a gate */
SIMD_CLONES
static void residual_row(real *RESTRICT a, const real *RESTRICT gate, const real *RESTRICT u,
                         size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] = u[i] + a[i] * gate[i];
}

/* out = mix(ReLU(y)), or without mix */
static void block_run_relu(const model *m, const compiled *c, block *b)
{
    const size_t H = c->H;
    for (size_t i = 0; i < b->n * H; i++)
        b->y[i] = b->y[i] < 0 ? 0 : b->y[i]; /* NaN stays NaN */
    if (c->block == BLOCK_BARE) {
        memcpy(b->out, b->y, b->n * H * sizeof *b->out);
        return;
    }
    panel_product(b->n, c->mixed, H, b->y, H, c->mix, b->mixed, c->mixed);
    for (size_t r = 0; r < b->n; r++) {
        memcpy(b->out + r * H, b->mixed + r * c->mixed, H * sizeof *b->out);
        vec_axpy(1, weight(m, S4_MIX_B), b->out + r * H, H);
    }
}

/* out = LayerNorm(u + a sigmoid(b)), (a, b) = mix(GELU(y)) */
static void block_run(const model *m, const compiled *c, block *b)
{
    if (c->block != BLOCK_GLU) {
        block_run_relu(m, c, b);
        return;
    }
    const size_t H = c->H;
    const real *bias = weight(m, S4_MIX_B);
    vec_gelu(b->y, b->y, b->n * H);
    panel_product(b->n, c->mixed, H, b->y, H, c->mix, b->mixed, c->mixed);
    for (size_t r = 0; r < b->n; r++) {
        real *a = b->mixed + r * c->mixed, *gate = a + H;
        vec_axpy(1, bias, a, 2 * H);
        vec_sigmoid(gate, gate, H);
        residual_row(a, gate, b->u[r], H);
        norm_row(a, weight(m, S4_NORM_W), weight(m, S4_NORM_B), b->out + r * H, H);
    }
}

/* Logits from what the classifier sees of n positions: `total` is their sum or their largest. */
static void head(const model *m, const compiled *c, const double *total, size_t n, real *mean,
                 float *out)
{
    const size_t H = c->H;
    const real *fc = model_value(m, (int)m->n_params - 2),
               *bias = model_value(m, (int)m->n_params - 1);
    for (size_t h = 0; h < H; h++)
        mean[h] = (real)(c->max ? total[h] : total[h] / (double)n);
    for (size_t k = 0; k < m->n_classes; k++)
        out[k] = (float)(vec_dot(fc + k * H, mean, H) + bias[k]);
}

/* ---- opening a text ----------------------------------------------------------------------- */

stet_view *s4_view_new(void)
{
    view *v = mem_zalloc(1, sizeof *v);
    return v ? &v->base : NULL;
}

static const real *encoding(const view *v, uint32_t word)
{
    return v->c->word + word * v->c->H;
}

SIMD_CLONES
static void add_product(real *RESTRICT y, const real *RESTRICT a, const real *RESTRICT b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += a[i] * b[i];
}

SIMD_CLONES
static real largest(const real *x, size_t n)
{
    real part[LANES] = {0}, top = 0;
    for (size_t from = 0; from + LANES <= n; from += LANES)
        for (size_t l = 0; l < LANES; l++) {
            const real a = x[from + l] < 0 ? -x[from + l] : x[from + l];
            part[l] = a > part[l] ? a : part[l];
        }
    for (size_t i = n / LANES * LANES; i < n; i++)
        top = fabs((double)x[i]) > (double)top ? (real)fabs((double)x[i]) : top;
    for (size_t l = 0; l < LANES; l++)
        top = part[l] > top ? part[l] : top;
    return top;
}

static void convolve(void *ctx, size_t t, int worker)
{
    (void)worker;
    view *v = ctx;
    const size_t H = v->c->H;
    real *y = v->y + t * H;
    memset(y, 0, H * sizeof *y);
    for (size_t p = span_start(v->c->span, t); p <= t; p++)
        add_product(y, v->c->kernel + (t - p) * H, encoding(v, v->base.ids[p]), H);
    v->scale[t] = 1 + largest(y, H);
}

/* The larger of both; NaN stays NaN. */
SIMD_CLONES
static void take_in(double *RESTRICT total, const real *RESTRICT out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        total[i] = (double)out[i] > total[i] || out[i] != out[i] ? (double)out[i] : total[i];
}

/* The largest up to each position. */
static void pool_clean(view *v)
{
    const size_t H = v->c->H;
    for (size_t h = 0; h < H; h++)
        v->total[h] = (double)(v->before[h] = (real)-INFINITY);
    for (size_t t = 0; t < v->base.n; t++) {
        take_in(v->total, v->out + t * H, H);
        for (size_t h = 0; h < H; h++)
            v->before[(t + 1) * H + h] = (real)v->total[h];
    }
}

static stet_status open_clean(view *v)
{
    const size_t H = v->c->H;
    const arena_mark mark = arena_save(&v->base.mem);
    block b;
    real *mean = arena_new(&v->base.mem, real, H);
    if (!mean || !block_init(&v->base.mem, v->c, &b))
        return STET_ENOMEM;
    pool_run(v->base.n, convolve, v);
    memset(v->total, 0, H * sizeof *v->total);
    for (size_t from = 0; from < v->base.n; from += ROWS) {
        b.n = v->base.n - from < ROWS ? v->base.n - from : ROWS;
        memcpy(b.y, v->y + from * H, b.n * H * sizeof *b.y);
        for (size_t r = 0; r < b.n; r++)
            b.u[r] = encoding(v, v->base.ids[from + r]);
        block_run(v->base.m, v->c, &b);
        memcpy(v->out + from * H, b.out, b.n * H * sizeof *b.out);
        for (size_t i = 0; !v->c->max && i < b.n * H; i++)
            v->total[i % H] += (double)b.out[i];
    }
    if (v->c->max)
        pool_clean(v);
    head(v->base.m, v->c, v->total, v->base.n, mean, v->base.logits);
    arena_restore(&v->base.mem, mark);
    return STET_OK;
}

stet_status s4_view_open(stet_view *p)
{
    view *v = (view *)p;
    v->c = p->m->compiled;
    const size_t H = v->c->H, n = p->n;
    v->y = arena_new(&v->base.mem, real, n * H);
    v->scale = arena_new(&v->base.mem, real, n);
    v->out = arena_new(&v->base.mem, real, n * H);
    v->total = arena_new(&v->base.mem, double, H);
    v->before = v->c->max ? arena_new(&v->base.mem, real, (n + 1) * H) : NULL;
    if (!v->y || !v->scale || !v->out || !v->total || (v->c->max && !v->before))
        return STET_ENOMEM;
    return open_clean(v);
}

/* ---- edits -------------------------------------------------------------------------------- */

typedef struct scratch {
    block b;
    real *delta;         /* (n edits at most, H): changes of encodings of the current variant */
    real *change, *mean; /* (H) */
    double *total;       /* (PIECE, H) */
    size_t variant[ROWS], pos[ROWS]; /* whose position each waiting row is */
} scratch;

typedef struct edits_job {
    const view *v;
    const stet_edit *edits;
    const size_t *start;
    size_t n;
    float *logits;
    scratch *work; /* one per worker */
} edits_job;

SIMD_CLONES
static void add_difference(double *RESTRICT total, const real *RESTRICT new,
                           const real *RESTRICT old, size_t n)
{
    for (size_t i = 0; i < n; i++)
        total[i] += (double)new[i] - (double)old[i];
}

SIMD_CLONES
static void row_sum(real *RESTRICT y, const real *RESTRICT a, const real *RESTRICT b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

static void flush(const view *v, size_t from, scratch *w)
{
    const size_t H = v->c->H;
    block_run(v->base.m, v->c, &w->b);
    for (size_t r = 0; r < w->b.n; r++) {
        double *total = w->total + (w->variant[r] - from) * H;
        if (v->c->max)
            take_in(total, w->b.out + r * H, H);
        else
            add_difference(total, w->b.out + r * H, v->out + w->pos[r] * H, H);
    }
    w->b.n = 0;
}

/* Put the moved positions of variant i into the block. */
static void add_variant(const edits_job *j, size_t from, size_t i, scratch *w)
{
    const view *v = j->v;
    const size_t H = v->c->H, n = j->start[i + 1] - j->start[i];
    const stet_edit *e = j->edits + j->start[i];
    for (size_t k = 0; k < n; k++) {
        const real *new = encoding(v, e[k].word), *old = encoding(v, v->base.ids[e[k].pos]);
        for (size_t h = 0; h < H; h++)
            w->delta[k * H + h] = new[h] - old[h];
    }
    double *total = w->total + (i - from) * H;
    for (size_t h = 0; v->c->max && h < H; h++)
        total[h] = (double)v->before[(n ? e[0].pos : v->base.n) * H + h];
    size_t read = 0, first = 0; /* edits at positions <= t, and those of them in earlier pieces */
    for (size_t t = n ? e[0].pos : v->base.n; t < v->base.n; t++) {
        const bool edited = read < n && e[read].pos == t;
        read += edited;
        while (first < read && e[first].pos < span_start(v->c->span, t))
            first++;
        memset(w->change, 0, H * sizeof *w->change);
        for (size_t k = first; k < read; k++)
            add_product(w->change, v->c->kernel + (t - e[k].pos) * H, w->delta + k * H, H);
        if (first == read || (!edited && largest(w->change, H) <= still * v->scale[t])) {
            if (v->c->max)
                take_in(total, v->out + t * H, H);
            continue;
        }
        if (w->b.n == ROWS)
            flush(v, from, w);
        const size_t r = w->b.n++;
        row_sum(w->b.y + r * H, v->y + t * H, w->change, H);
        w->b.u[r] = encoding(v, edited ? e[read - 1].word : v->base.ids[t]);
        w->variant[r] = i;
        w->pos[r] = t;
    }
}

static void edits_piece(void *ctx, size_t piece, int worker)
{
    const edits_job *j = ctx;
    const view *v = j->v;
    scratch *w = &j->work[worker];
    const size_t H = v->c->H, from = piece * PIECE, to = from + PIECE < j->n ? from + PIECE : j->n;
    for (size_t i = from; i < to; i++)
        memcpy(w->total + (i - from) * H, v->total, H * sizeof *w->total);
    for (size_t i = from; i < to; i++)
        add_variant(j, from, i, w);
    flush(v, from, w);
    for (size_t i = from; i < to; i++)
        head(v->base.m, v->c, w->total + (i - from) * H, v->base.n, w->mean,
             j->logits + i * v->base.m->n_classes);
}

static bool scratch_init(arena *a, const compiled *c, size_t most_edits, scratch *w)
{
    const size_t H = c->H;
    w->delta = arena_new(a, real, (most_edits + 1) * H);
    w->change = arena_new(a, real, H);
    w->mean = arena_new(a, real, H);
    w->total = arena_new(a, double, PIECE *H);
    return block_init(a, c, &w->b) && w->delta && w->change && w->mean && w->total;
}

stet_status s4_view_edits(stet_view *p, const stet_edit *edits, const size_t *start, size_t n,
                          float *logits)
{
    view *v = (view *)p;
    size_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = start[i + 1] - start[i] > most ? start[i + 1] - start[i] : most;
    const arena_mark mark = arena_save(&v->base.mem);
    const size_t workers = (size_t)stet_threads();
    edits_job j = {v, edits, start, n, logits, arena_new(&v->base.mem, scratch, workers)};
    bool ok = j.work != NULL;
    for (size_t i = 0; ok && i < workers; i++)
        ok = scratch_init(&v->base.mem, v->c, most, &j.work[i]);
    if (ok)
        pool_run((n + PIECE - 1) / PIECE, edits_piece, &j);
    arena_restore(&v->base.mem, mark);
    return ok ? STET_OK : STET_ENOMEM;
}
