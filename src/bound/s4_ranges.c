/* bound/s4_ranges.c - see s4_ranges.h. Boxes are carried as centre and radius (T, H):
 *
 *     encoder         the exact range over each word's set
 *     y = K * u       centre by K, radius by |K|, d added to K_0: exact for every position and
 * channel GELU            falls, then rises: least at the point of the box nearest to its minimum
 *     mix             centre by W, radius by |W|; none with BLOCK_BARE
 *     the rest        s4_gate_norm.c
 *     maximum         its ends are the largest of the ends
 *
 * Two kernels K are computed in a step, one for the clean pass: its texts may be others. */
#include "bound/s4_ranges.h"

#include <math.h>

#include "base/pool.h"
#include "base/simd.h"
#include "bound/batch_sets.h"
#include "bound/bound_ops.h"
#include "bound/s4_gate_norm.h"
#include "model/s4.h"
#include "tensor/host/panel.h"
#include "tensor/kernels.h"

/* Columns of a piece of the encoder's gradient; rows of a piece of GELU. */
enum { COLUMNS = 64, ROWS = 64 };

typedef struct box {
    node *centre, *radius;
    node *both; /* (T, 2 H), centres first, as an op left them; NULL: they are cut apart */
} box;

static box halves(tape *t, box x)
{
    const size_t H = x.both ? shape_cols(x.both->shape) / 2 : 0;
    return x.both ? (box){.centre = op_slice(t, x.both, 0, H), .radius = op_slice(t, x.both, H, H)}
                  : x;
}

/* ---- encoder: (T, 2 H) -------------------------------------------------------------------- */

typedef struct encoder {
    const batch_sets *s;
    double eps;
    size_t H, D, cols;
    const node *n;
    const real *table;  /* (n_rows + 2 n_moving, cols) */
    const uint32_t *at; /* (2, n_moving, cols): the rows that are extremes; kept for backward */
    real *dtable;
} encoder;

static encoder encoder_of(const node *n)
{
    const set_ranges_args *d = n->args;
    const shape w = n->in[0]->shape;
    return (encoder){.s = d->s,
                     .eps = d->eps,
                     .H = shape_rows(w),
                     .D = shape_cols(w),
                     .cols = panel_padded(shape_rows(w)),
                     .n = n,
                     .at = n->saved};
}

static size_t table_size(const encoder *e)
{
    return (e->s->n_rows + 2 * e->s->n_moving) * e->cols;
}

static void gather_piece(void *ctx, size_t piece, int worker)
{
    (void)worker;
    const encoder *e = ctx;
    const real *bias = e->n->in[1]->value;
    for (size_t t = piece * ROWS; t < (piece + 1) * ROWS && t < e->s->at->n_tokens; t++) {
        const real *lo = e->table + e->s->lo_row[t] * e->cols,
                   *hi = e->table + e->s->hi_row[t] * e->cols;
        real *centre = e->n->value + t * 2 * e->H, *radius = centre + e->H;
        for (size_t j = 0; j < e->H; j++) {
            centre[j] = (lo[j] + hi[j]) / 2 + bias[j];
            radius[j] = (hi[j] - lo[j]) / 2;
        }
    }
}

static stet_status encoder_fwd(tape *t, node *n)
{
    encoder e = encoder_of(n);
    uint32_t *at = n->saved = arena_new(t->mem, uint32_t, 2 * e.s->n_moving * e.cols);
    const arena_mark scratch = arena_save(t->mem);
    real *table = arena_new(t->mem, real, table_size(&e)),
         *panels = arena_znew(t->mem, real, e.D * e.cols);
    if (!at || !table || !panels)
        return STET_ENOMEM;
    panel_pack(e.D, e.H, n->in[0]->value, 1, e.D, 0, panels);
    panel_product(e.s->n_rows, e.cols, e.D, n->in[2]->value, e.D, panels, table, e.cols);
    batch_sets_extremes(e.s, e.eps, table, e.cols, at);
    e.table = table;
    pool_run((e.s->at->n_tokens + ROWS - 1) / ROWS, gather_piece, &e);
    arena_restore(t->mem, scratch);
    return STET_OK;
}

static void column_piece(void *ctx, size_t piece, int worker)
{
    (void)worker;
    const encoder *e = ctx;
    const size_t first = piece * COLUMNS, left = e->H - first, n = left < COLUMNS ? left : COLUMNS;
    const token_gradients tokens = {e->s->lo_row,
                                    e->s->hi_row,
                                    e->s->at->n_tokens,
                                    e->n->grad + first,
                                    e->n->grad + e->H + first,
                                    2 * e->H};
    double bias[COLUMNS] = {0};
    batch_sets_back(e->s, e->eps, e->at, e->cols, first, n, &tokens, e->dtable, bias);
    for (size_t j = 0; e->n->in[1]->grad && j < n; j++)
        e->n->in[1]->grad[first + j] += (real)bias[j];
}

static stet_status encoder_bwd(tape *t, node *n)
{
    encoder e = encoder_of(n);
    const arena_mark scratch = arena_save(t->mem);
    e.dtable = arena_znew(t->mem, real, table_size(&e));
    if (!e.dtable)
        return STET_ENOMEM;
    pool_run((e.H + COLUMNS - 1) / COLUMNS, column_piece, &e);
    if (n->in[0]->grad)
        TRY(gemm_long(t->mem, true, false, e.H, e.D, e.s->n_rows, 1, e.dtable, e.cols,
                      n->in[2]->value, e.D, 1, n->in[0]->grad, e.D));
    if (n->in[2]->grad)
        TRY(gemm(false, false, e.s->n_rows, e.D, e.H, 1, e.dtable, e.cols, n->in[0]->value, e.D, 1,
                 n->in[2]->grad, e.D));
    arena_restore(t->mem, scratch);
    return STET_OK;
}

static stet_status encoder_infer(const node *n, shape *out)
{
    const set_ranges_args *d = n->args;
    *out = shape2(d->s->seq->n_tokens, 2 * shape_rows(n->in[0]->shape));
    TRY(op_expect_shape(n, 2, shape2(d->s->n_rows, shape_cols(n->in[0]->shape)), "the rows"));
    return op_expect_count(n, 1, shape_rows(n->in[0]->shape), "the bias");
}

const op_desc s4_encoder_ranges_op = {
    .name = "s4_encoder_ranges",
    .n_in = 3,
    .infer = encoder_infer,
    .forward = {[DEV_CPU] = encoder_fwd, CUDA_KERNEL(cuda_s4_encoder_ranges_fwd)},
    .backward = {[DEV_CPU] = encoder_bwd, CUDA_KERNEL(cuda_s4_encoder_ranges_bwd)},
};

static box encode(pass *p, const batch_sets *s, double eps)
{
    node *in[] = {p->param[S4_ENC_W], p->param[S4_ENC_B], s->rows};
    const set_ranges_args d = {s, eps};
    return (box){.both = tape_push(p->t, &s4_encoder_ranges_op, in, 3, &d, sizeof d)};
}

/* ---- |K| with d added to K_0: (H, L) ------------------------------------------------------- */

static real tap(const node *n, size_t h, size_t i, size_t L)
{
    return n->in[0]->value[h * L + i] + (i == 0 ? n->in[1]->value[h] : 0);
}

static stet_status magnitude_fwd(tape *t, node *n)
{
    (void)t;
    const size_t H = shape_rows(n->shape), L = shape_cols(n->shape);
    for (size_t h = 0; h < H; h++)
        for (size_t i = 0; i < L; i++)
            n->value[h * L + i] = (real)fabs((double)tap(n, h, i, L));
    return STET_OK;
}

static stet_status magnitude_bwd(tape *t, node *n)
{
    (void)t;
    const size_t H = shape_rows(n->shape), L = shape_cols(n->shape);
    real *dk = n->in[0]->grad, *dd = n->in[1]->grad;
    for (size_t h = 0; h < H; h++)
        for (size_t i = 0; i < L; i++) {
            const real g = n->grad[h * L + i], k = tap(n, h, i, L);
            const real d = k > 0 ? g : k < 0 ? -g : 0;
            if (dk)
                dk[h * L + i] += d;
            if (dd && i == 0)
                dd[h] += d;
        }
    return STET_OK;
}

static stet_status magnitude_infer(const node *n, shape *out)
{
    *out = n->in[0]->shape;
    return op_expect_count(n, 1, shape_rows(*out), "d");
}

const op_desc s4_magnitude_op = {
    .name = "s4_magnitude",
    .n_in = 2,
    .infer = magnitude_infer,
    .forward = {[DEV_CPU] = magnitude_fwd, CUDA_KERNEL(cuda_s4_magnitude_fwd)},
    .backward = {[DEV_CPU] = magnitude_bwd, CUDA_KERNEL(cuda_s4_magnitude_bwd)},
};

/* ---- GELU: centre and radius in, (T, 2 H) out ---------------------------------------------- */

static const real gelu_lowest_at = (real)-0.751791524693564457;

/* One row: the ends of the arguments, hi behind lo. */
SIMD_CLONES static void gelu_ends(size_t H, const real *RESTRICT centre,
                                  const real *RESTRICT radius, real *RESTRICT x)
{
    for (size_t j = 0; j < H; j++)
        x[j] = centre[j] - radius[j];
    for (size_t j = 0; j < H; j++)
        x[H + j] = centre[j] + radius[j];
}

/* The ends of the values: the least lies at an end of the arguments, or between them at `lowest`. */
SIMD_CLONES static void gelu_box(size_t H, real lowest, const real *RESTRICT x,
                                 const real *RESTRICT y, real *RESTRICT centre,
                                 real *RESTRICT radius)
{
    for (size_t j = 0; j < H; j++) {
        const real low = x[j] > gelu_lowest_at       ? y[j]
                         : x[H + j] < gelu_lowest_at ? y[H + j]
                                                     : lowest;
        const real top = y[H + j] > y[j] ? y[H + j] : y[j];
        centre[j] = (low + top) / 2;
        radius[j] = (top - low) / 2;
    }
}

SIMD_CLONES static void gelu_box_back(size_t H, const real *RESTRICT x, const real *RESTRICT y,
                                      const real *RESTRICT slope, const real *RESTRICT dc,
                                      const real *RESTRICT dr, real *RESTRICT d_centre,
                                      real *RESTRICT d_radius)
{
    for (size_t j = 0; j < H; j++) {
        const real at_low = (dc[j] - dr[j]) / 2, at_top = (dc[j] + dr[j]) / 2;
        const bool upper = y[H + j] > y[j], low_is_lo = x[j] > gelu_lowest_at,
                   low_is_hi = x[H + j] < gelu_lowest_at;
        const real lo = ((upper ? 0 : at_top) + (low_is_lo ? at_low : 0)) * slope[j],
                   hi = ((upper ? at_top : 0) + (low_is_hi ? at_low : 0)) * slope[H + j];
        d_centre[j] += lo + hi;
        d_radius[j] += hi - lo;
    }
}

typedef struct gelu_job {
    const node *n;
    size_t H, T;
    real *scratch; /* (workers, GELU_ARRAYS, H) */
} gelu_job;
enum { GELU_ARRAYS = 6 };

static void gelu_piece(void *ctx, size_t piece, int worker)
{
    const gelu_job *s = ctx;
    const size_t H = s->H;
    real *x = s->scratch + (size_t)worker * GELU_ARRAYS * H, *y = x + 2 * H, lowest;
    vec_gelu(&gelu_lowest_at, &lowest, 1);
    for (size_t t = piece * ROWS; t < (piece + 1) * ROWS && t < s->T; t++) {
        real *centre = s->n->value + t * 2 * H;
        gelu_ends(H, s->n->in[0]->value + t * H, s->n->in[1]->value + t * H, x);
        vec_gelu(x, y, 2 * H);
        gelu_box(H, lowest, x, y, centre, centre + H);
    }
}

static void gelu_back_piece(void *ctx, size_t piece, int worker)
{
    const gelu_job *s = ctx;
    const size_t H = s->H;
    real *x = s->scratch + (size_t)worker * GELU_ARRAYS * H, *y = x + 2 * H, *slope = y + 2 * H;
    for (size_t t = piece * ROWS; t < (piece + 1) * ROWS && t < s->T; t++) {
        const real *dc = s->n->grad + t * 2 * H;
        gelu_ends(H, s->n->in[0]->value + t * H, s->n->in[1]->value + t * H, x);
        vec_gelu(x, y, 2 * H);
        vec_gelu_grad(x, slope, 2 * H);
        gelu_box_back(H, x, y, slope, dc, dc + H, s->n->in[0]->grad + t * H,
                      s->n->in[1]->grad + t * H);
    }
}

static stet_status gelu_run(tape *t, const node *n, pool_fn *fn)
{
    const arena_mark scratch = arena_save(t->mem);
    gelu_job s = {.n = n, .H = shape_cols(n->in[0]->shape), .T = shape_rows(n->shape)};
    s.scratch = arena_new(t->mem, real, (size_t)stet_threads() * GELU_ARRAYS * s.H);
    if (!s.scratch)
        return STET_ENOMEM;
    pool_run((s.T + ROWS - 1) / ROWS, fn, &s);
    arena_restore(t->mem, scratch);
    return STET_OK;
}

static stet_status gelu_fwd(tape *t, node *n)
{
    return gelu_run(t, n, gelu_piece);
}

static stet_status gelu_bwd(tape *t, node *n)
{
    return gelu_run(t, n, gelu_back_piece);
}

static stet_status gelu_infer(const node *n, shape *out)
{
    *out = shape2(shape_rows(n->in[0]->shape), 2 * shape_cols(n->in[0]->shape));
    return op_expect_shape(n, 1, n->in[0]->shape, "the radius");
}

const op_desc gelu_box_op = {
    .name = "gelu_box",
    .n_in = 2,
    .infer = gelu_infer,
    .forward = {[DEV_CPU] = gelu_fwd, CUDA_KERNEL(cuda_gelu_box_fwd)},
    .backward = {[DEV_CPU] = gelu_bwd, CUDA_KERNEL(cuda_gelu_box_bwd)},
};

node *op_gelu_box(tape *t, node *centre, node *radius)
{
    node *in[] = {centre, radius};
    return tape_push(t, &gelu_box_op, in, 2, NULL, 0);
}

/* ---- layers ------------------------------------------------------------------------------- */

/* Lower and upper ends to centre and radius, and back. */
static box box_between(tape *t, node *lo, node *hi)
{
    return (box){.centre = op_scale(t, op_add(t, lo, hi), 0.5),
                 .radius = op_scale(t, op_sub(t, hi, lo), 0.5)};
}

/* ReLU keeps the order, so ends go to ends. */
static box relu_box(tape *t, box y)
{
    return box_between(t, op_relu(t, op_sub(t, y.centre, y.radius)),
                       op_relu(t, op_add(t, y.centre, y.radius)));
}

static box mix_box(tape *t, node *const *w, box g)
{
    return (box){.centre = op_linear(t, g.centre, w[S4_MIX_W], w[S4_MIX_B]),
                 .radius = op_matmul(t, g.radius, false, op_abs(t, w[S4_MIX_W]), true)};
}

static box layer(const s4_cfg *cfg, pass *p, node *const *w, box from, const seq_index *seq)
{
    const size_t H = (size_t)cfg->channels;
    tape *t = p->t;
    const box u = halves(t, from);
    node *k =
        op_s4_kernel(t, w[S4_A], w[S4_W], w[S4_P], w[S4_B], w[S4_C], w[S4_LOG_DT], seq->max_len);
    real *zeros = arena_znew(t->mem, real, H);
    if (!k || !zeros) {
        tape_fail(t, STET_ENOMEM);
        return (box){0};
    }
    node *k_d[] = {k, w[S4_D]};
    node *magnitude = tape_push(t, &s4_magnitude_op, k_d, 2, NULL, 0);
    node *y = op_s4_conv(t, u.centre, k, w[S4_D], seq),
         *y_radius = op_s4_conv(t, u.radius, magnitude, tape_numbers(t, shape1(H), zeros), seq);
    if (cfg->block != BLOCK_GLU) {
        const box g = relu_box(t, (box){.centre = y, .radius = y_radius});
        return cfg->block == BLOCK_RELU ? mix_box(t, w, g) : g;
    }
    const box x = mix_box(t, w, halves(t, (box){.both = op_gelu_box(t, y, y_radius)}));
    return (box){.both = op_s4_gate_norm(t, x.centre, x.radius, u.centre, u.radius, w[S4_NORM_W],
                                         w[S4_NORM_B], S4_NORM_EPS)};
}

void s4_ranges(const model *m, pass *p, const batch_sets *s, double eps, node **lo, node **hi)
{
    const s4_cfg *cfg = m->cfg;
    tape *t = p->t;
    const spans cut = spans_cut(t, s->seq, model_span(m));
    const batch_sets *pieces = batch_sets_cut(t, s, &cut);
    box u = encode(p, pieces, eps);
    for (int l = 0; l < (int)cfg->layers; l++)
        u = layer(cfg, p, p->param + s4_layer_at(cfg, l), u, pieces->seq);
    if (u.both)
        u.both = spans_join(t, &cut, u.both);
    else
        u = (box){.centre = spans_join(t, &cut, u.centre), .radius = spans_join(t, &cut, u.radius)};
    if (cfg->pool == S4_MAX) {
        u = halves(t, u);
        *lo = op_seq_max(t, op_sub(t, u.centre, u.radius), s->seq);
        *hi = op_seq_max(t, op_add(t, u.centre, u.radius), s->seq);
        return;
    }
    const box mean = u.both ? halves(t, (box){.both = op_seq_mean(t, u.both, s->seq)})
                            : (box){.centre = op_seq_mean(t, u.centre, s->seq),
                                    .radius = op_seq_mean(t, u.radius, s->seq)};
    *lo = op_sub(t, mean.centre, mean.radius);
    *hi = op_add(t, mean.centre, mean.radius);
}
