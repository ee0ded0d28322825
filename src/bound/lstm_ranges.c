/* bound/lstm_ranges.c - see lstm_ranges.h.
 *
 * A step knows the word's projections by their extremes, x in [x-, x+], and the state by centre and
 * radius. Gates:  T+- = (x+-) + b + U hc +- |U| hr; sigmoid and tanh only grow; c = f c + i g and
 * h = o tanh(c) are products of intervals whose left factor is positive (interval.h).
 *
 * As in tensor/cpu/lstm.c a piece of work is one direction of one group of texts, sorted by falling
 * length, and what backward needs is kept step by step: rows of a piece are its tokens in the order
 * in which it reads them. Backward leaves the gradients of centre and radius where the gates were,
 * for what comes before the steps; the recurrent weights get theirs after some CHUNK tokens. */
#include "bound/lstm_ranges.h"

#include <string.h>

#include "base/pool.h"
#include "base/simd.h"
#include "bound/bound_ops.h"
#include "bound/interval.h"
#include "model/bilstm.h"
#include "tensor/host/lstm_walk.h"
#include "tensor/host/panel.h"
#include "tensor/joined.h"
#include "tensor/kernels.h"
#include "tensor/vmath.h"

/* Texts of a piece; tokens in one update of a recurrent gradient; columns of a piece of the input's. */
enum { GROUP = LSTM_GROUP, CHUNK = 32, COLUMNS = 64 };

/* Inputs: the weights of both directions, then the rows. */
enum { ROWS = 2 * LSTM_PER_DIRECTION, INPUTS };

/* One direction. */
typedef struct direction {
    const real *bias; /* (4H) both, added */
    real *u, *u_abs;  /* (H, G) panels of U^T and |U|^T */
    real *v, *v_abs;  /* (4H, P) panels of U and |U| */
    real *gate; /* (T, 2, G): lower and upper ends of i f g o; backward: gradients of centre, radius
                 */
    real *h;    /* (T, 2, P): centre and radius of the state before the token */
    real *c;    /* (T, 2, H): ends of the cell before the token */
    real *tau;  /* (T, 2, H): ends of tanh of the cell after it */
    uint32_t *lo_row, *hi_row; /* (T) */
} direction;

typedef struct lstm {
    const batch_sets *s;
    const seq_index *seq;
    real eps;
    bool every; /* token's state is wanted, not the last ones alone */
    size_t D, H, G, P, groups;
    node *const *w; /* w_ih, w_hh, b_ih, b_hh of both directions, rows */
    real *table;    /* (n_rows + 2 n_moving, 2, G): projections and their extremes */
    uint32_t *at;   /* (2, n_moving, 2, G): the rows that are these */
    real *y;        /* (B, 2, 2 H); every: (T, 2, 2 H) */
    direction *dir; /* (2) */
    /* backward */
    const real *dy;
    real *du;      /* (2, groups, 2, 4H, P): by centre and radius */
    real *dtable;  /* as table */
    real *scratch; /* (workers, scratch_size) */
    size_t scratch_size;
} lstm;

typedef struct kept {
    real *table;
    uint32_t *at;
    direction dir[2];
} kept;

static lstm lstm_of(const node *n)
{
    const set_ranges_args *d = n->args;
    lstm s = {.s = d->s,
              .seq = d->s->at,
              .eps = (real)d->eps,
              .every = n->op == &bilstm_states_ranges_op,
              .w = n->in,
              .y = n->value};
    s.D = shape_cols(s.w[LSTM_W_IH]->shape);
    s.H = shape_cols(s.w[LSTM_W_HH]->shape);
    s.G = panel_padded(4 * s.H);
    s.P = panel_padded(s.H);
    s.groups = lstm_groups(s.seq);
    return s;
}

/* ---- forward ------------------------------------------------------------------------------ */

/* From products with centre and radius, in `gate`, to the gates' ends. */
SIMD_CLONES static void pre_activations(size_t n, const real *RESTRICT x_lo,
                                        const real *RESTRICT x_hi, const real *RESTRICT bias,
                                        real *RESTRICT centre, real *RESTRICT radius)
{
    for (size_t j = 0; j < n; j++) {
        const real m = centre[j] + bias[j], r = radius[j];
        centre[j] = m + x_lo[j] - r;
        radius[j] = m + x_hi[j] + r;
    }
}

static void activate(size_t H, real *gate)
{
    vec_sigmoid(gate, gate, 2 * H);
    vec_tanh(gate + 2 * H, gate + 2 * H, H);
    vec_sigmoid(gate + 3 * H, gate + 3 * H, H);
}

/* Lower and upper ends of c = f c + i g, from those of the gates. */
SIMD_CLONES static void next_cell(size_t H, const real *RESTRICT lo, const real *RESTRICT hi,
                                  const real *RESTRICT c, real *RESTRICT out)
{
    for (size_t u = 0; u < H; u++) {
        const iv i = {lo[u], hi[u]}, f = {lo[H + u], hi[H + u]}, g = {lo[2 * H + u], hi[2 * H + u]};
        const iv next = iv_add(iv_mul_pos(f, (iv){c[u], c[H + u]}), iv_mul_pos(i, g));
        out[u] = next.lo;
        out[H + u] = next.hi;
    }
}

/* Lower and upper ends of h = o tau. */
SIMD_CLONES static void next_state(size_t H, const real *RESTRICT o_lo, const real *RESTRICT o_hi,
                                   const real *RESTRICT tau, real *RESTRICT lo, real *RESTRICT hi)
{
    for (size_t u = 0; u < H; u++) {
        const iv h = iv_mul_pos((iv){o_lo[u], o_hi[u]}, (iv){tau[u], tau[H + u]});
        lo[u] = h.lo;
        hi[u] = h.hi;
    }
}

SIMD_CLONES static void to_centre_and_radius(size_t H, const real *RESTRICT lo,
                                             const real *RESTRICT hi, real *RESTRICT centre,
                                             real *RESTRICT radius)
{
    for (size_t u = 0; u < H; u++) {
        centre[u] = (lo[u] + hi[u]) / 2;
        radius[u] = (hi[u] - lo[u]) / 2;
    }
}

/* Where the result has the lower ends, or their gradient, of text r of a walk at its step. */
static size_t result_at(const lstm *s, const lstm_walk *w, size_t r)
{
    const size_t row = s->every ? walk_token(s->seq, w, r) : w->b + r;
    return row * 4 * s->H + w->dir * s->H;
}

/* One text's step: `c_next` is where its cell goes, `h_next` its state as centre and radius; NULL
 * after the last word, when the state is the result. */
static void step_forward(const lstm *s, const lstm_walk *w, size_t r, real *c_next, real *h_next)
{
    const direction *d = &s->dir[w->dir];
    const size_t H = s->H, G = s->G, row = w->row + r, at = walk_token(s->seq, w, r);
    real *lo = d->gate + row * 2 * G, *hi = lo + G, *tau = d->tau + row * 2 * H;
    d->lo_row[row] = s->s->lo_row[at];
    d->hi_row[row] = s->s->hi_row[at];
    pre_activations(4 * H, s->table + (d->lo_row[row] * 2 + w->dir) * G,
                    s->table + (d->hi_row[row] * 2 + w->dir) * G, d->bias, lo, hi);
    activate(H, lo);
    activate(H, hi);
    next_cell(H, lo, hi, d->c + row * 2 * H, tau);
    if (c_next)
        memcpy(c_next, tau, 2 * H * sizeof *tau);
    vec_tanh(tau, tau, 2 * H);
    real *y_lo = s->y + result_at(s, w, r), *y_hi = y_lo + 2 * H;
    next_state(H, lo + 3 * H, hi + 3 * H, tau, y_lo, y_hi);
    if (h_next)
        to_centre_and_radius(H, y_lo, y_hi, h_next, h_next + s->P);
}

static void forward_piece(void *ctx, size_t piece, int worker)
{
    (void)worker;
    lstm *s = ctx;
    const size_t H = s->H, G = s->G, P = s->P;
    lstm_walk w = walk_start(s->seq, piece);
    const direction *d = &s->dir[w.dir];
    memset(d->h + w.row * 2 * P, 0, w.n * 2 * P * sizeof *d->h);
    memset(d->c + w.row * 2 * H, 0, w.n * 2 * H * sizeof *d->c);
    while (w.n) {
        const size_t next = walk_going_on(s->seq, &w), after = w.row + w.n;
        const real *h = d->h + w.row * 2 * P;
        real *gate = d->gate + w.row * 2 * G;
        panel_product(w.n, G, H, h, 2 * P, d->u, gate, 2 * G);
        panel_product(w.n, G, H, h + P, 2 * P, d->u_abs, gate + G, 2 * G);
        for (size_t r = 0; r < w.n; r++)
            step_forward(s, &w, r, r < next ? d->c + (after + r) * 2 * H : NULL,
                         r < next ? d->h + (after + r) * 2 * P : NULL);
        w.row = after;
        w.n = next;
        w.t++;
    }
}

/* The direction's weights as the steps want them, forward and backward. */
static stet_status pack(const lstm *s, size_t dir, arena *mem)
{
    direction *d = &s->dir[dir];
    const size_t H = s->H;
    node *const *w = s->w + dir * LSTM_PER_DIRECTION;
    real *bias = arena_new(mem, real, 4 * H), *magnitude = arena_new(mem, real, 4 * H * H);
    d->u = arena_znew(mem, real, H * s->G);
    d->u_abs = arena_znew(mem, real, H * s->G);
    d->v = arena_znew(mem, real, 4 * H * s->P);
    d->v_abs = arena_znew(mem, real, 4 * H * s->P);
    if (!bias || !magnitude || !d->u || !d->u_abs || !d->v || !d->v_abs)
        return STET_ENOMEM;
    for (size_t j = 0; j < 4 * H; j++)
        bias[j] = w[LSTM_B_IH]->value[j] + w[LSTM_B_HH]->value[j];
    const real *u = w[LSTM_W_HH]->value;
    for (size_t j = 0; j < 4 * H * H; j++)
        magnitude[j] = u[j] < 0 ? -u[j] : u[j];
    d->bias = bias;
    panel_pack(H, 4 * H, u, 1, H, 0, d->u);
    panel_pack(H, 4 * H, magnitude, 1, H, 0, d->u_abs);
    panel_pack(4 * H, H, u, H, 1, 0, d->v);
    panel_pack(4 * H, H, magnitude, H, 1, 0, d->v_abs);
    return STET_OK;
}

static stet_status make_room(const lstm *s, size_t dir, arena *mem)
{
    direction *d = &s->dir[dir];
    const size_t T = s->seq->n_tokens, H = s->H;
    d->gate = arena_new(mem, real, T * 2 * s->G);
    d->h = s->P > H ? arena_znew(mem, real, T * 2 * s->P) /* products read the padding */
                    : arena_new(mem, real, T * 2 * s->P);
    d->c = arena_new(mem, real, T * 2 * H);
    d->tau = arena_new(mem, real, T * 2 * H);
    d->lo_row = arena_new(mem, uint32_t, T);
    d->hi_row = arena_new(mem, uint32_t, T);
    return d->gate && d->h && d->c && d->tau && d->lo_row && d->hi_row ? STET_OK : STET_ENOMEM;
}

/* The rows on the gates of both directions, and their extremes. */
static stet_status project(lstm *s, arena *mem)
{
    const size_t D = s->D, H = s->H, G = s->G;
    s->table = arena_new(mem, real, (s->s->n_rows + 2 * s->s->n_moving) * 2 * G);
    s->at = arena_new(mem, uint32_t, 2 * s->s->n_moving * 2 * G);
    const arena_mark scratch = arena_save(mem);
    real *w_in = arena_znew(mem, real, D * 2 * G);
    if (!s->table || !s->at || !w_in)
        return STET_ENOMEM;
    for (size_t d = 0; d < 2; d++)
        panel_pack(D, 4 * H, s->w[d * LSTM_PER_DIRECTION + LSTM_W_IH]->value, 1, D, d * G, w_in);
    panel_product(s->s->n_rows, 2 * G, D, s->w[ROWS]->value, D, w_in, s->table, 2 * G);
    batch_sets_extremes(s->s, (double)s->eps, s->table, 2 * G, s->at);
    arena_restore(mem, scratch);
    return STET_OK;
}

static stet_status ranges_fwd(tape *t, node *n)
{
    lstm s = lstm_of(n);
    kept *keep = n->saved = arena_znew(t->mem, kept, 1);
    if (!keep)
        return STET_ENOMEM;
    s.dir = keep->dir;
    for (size_t d = 0; d < 2; d++) {
        TRY(pack(&s, d, t->mem));
        TRY(make_room(&s, d, t->mem));
    }
    TRY(project(&s, t->mem));
    keep->table = s.table;
    keep->at = s.at;
    pool_run(2 * s.groups, forward_piece, &s);
    return STET_OK;
}

/* ---- backward: the steps ------------------------------------------------------------------ */

/* Ends' gradients as those of centre and radius, through an activation with these slopes. */
static ALWAYS_INLINE void put_gate(iv y_, real slope_lo, real slope_hi, real *centre, real *radius)
{
    const real lo = y_.lo * slope_lo, hi = y_.hi * slope_hi;
    *centre = lo + hi;
    *radius = hi - lo;
}

/* One text's step: dh, dc (2, H) are the gradients of the ends after it; dc becomes that before it,
 * and the gates become the gradients of centre and radius of their arguments. */
SIMD_CLONES static void step_backward(size_t H, const real *RESTRICT c, const real *RESTRICT tau,
                                      const real *RESTRICT dh, real *RESTRICT dc, real *RESTRICT lo,
                                      real *RESTRICT hi)
{
    INDEPENDENT
    for (size_t u = 0; u < H; u++) {
        const iv i = {lo[u], hi[u]}, f = {lo[H + u], hi[H + u]}, g = {lo[2 * H + u], hi[2 * H + u]},
                 o = {lo[3 * H + u], hi[3 * H + u]}, before = {c[u], c[H + u]},
                 after = {tau[u], tau[H + u]};
        iv i_ = {0, 0}, f_ = {0, 0}, g_ = {0, 0}, o_ = {0, 0}, tau_ = {0, 0}, before_ = {0, 0};
        iv_mul_pos_back((iv){v_settle(dh[u]), v_settle(dh[H + u])}, o, after, &o_, &tau_);
        const iv c_ = {v_settle(dc[u] + tau_.lo * (1 - after.lo * after.lo)),
                       v_settle(dc[H + u] + tau_.hi * (1 - after.hi * after.hi))};
        iv_mul_pos_back(c_, f, before, &f_, &before_);
        iv_mul_pos_back(c_, i, g, &i_, &g_);
        dc[u] = before_.lo;
        dc[H + u] = before_.hi;
        put_gate(i_, i.lo * (1 - i.lo), i.hi * (1 - i.hi), &lo[u], &hi[u]);
        put_gate(f_, f.lo * (1 - f.lo), f.hi * (1 - f.hi), &lo[H + u], &hi[H + u]);
        put_gate(g_, 1 - g.lo * g.lo, 1 - g.hi * g.hi, &lo[2 * H + u], &hi[2 * H + u]);
        put_gate(o_, o.lo * (1 - o.lo), o.hi * (1 - o.hi), &lo[3 * H + u], &hi[3 * H + u]);
    }
}

/* The state before: from gradients of centre and radius to those of the ends. */
SIMD_CLONES static void state_gradient(size_t H, const real *RESTRICT centre,
                                       const real *RESTRICT radius, real *RESTRICT dh)
{
    for (size_t u = 0; u < H; u++) {
        dh[u] = (centre[u] - radius[u]) / 2;
        dh[H + u] = (centre[u] + radius[u]) / 2;
    }
}

/* The result's gradient, whose ends lie 2 H apart. */
SIMD_CLONES static void add_ends(size_t H, const real *RESTRICT dy, real *RESTRICT dh)
{
    for (size_t u = 0; u < H; u++) {
        dh[u] += dy[u];
        dh[H + u] += dy[2 * H + u];
    }
}

static void backward_piece(void *ctx, size_t piece, int worker)
{
    const lstm *s = ctx;
    const size_t H = s->H, G = s->G, P = s->P;
    lstm_walk w = walk_start(s->seq, piece);
    const direction *d = &s->dir[w.dir];
    const size_t texts = w.n;
    real *dh = s->scratch + (size_t)worker * s->scratch_size;        /* (GROUP, 2, H) */
    real *dc = dh + GROUP * 2 * H;                                   /* (GROUP, 2, H) */
    real *centre = dc + GROUP * 2 * H, *radius = centre + GROUP * P; /* (GROUP, P) */
    real *du = s->du + (w.dir * s->groups + piece / 2) * 2 * 4 * H * P;
    size_t held = 0; /* tokens that du does not have yet */
    w.row = s->seq->start[w.b + texts];
    w.n = 0;
    for (w.t = text_len(s->seq, w.b); w.t-- > 0;) {
        while (w.n < texts && text_len(s->seq, w.b + w.n) > w.t) { /* this is a text's last word */
            memset(dh + w.n * 2 * H, 0, 2 * H * sizeof *dh);
            if (!s->every)
                add_ends(H, s->dy + result_at(s, &w, w.n), dh + w.n * 2 * H);
            memset(dc + w.n * 2 * H, 0, 2 * H * sizeof *dc);
            w.n++;
        }
        for (size_t r = 0; s->every && r < w.n; r++)
            add_ends(H, s->dy + result_at(s, &w, r), dh + r * 2 * H);
        w.row -= w.n;
        real *gate = d->gate + w.row * 2 * G;
        for (size_t r = 0; r < w.n; r++)
            step_backward(H, d->c + (w.row + r) * 2 * H, d->tau + (w.row + r) * 2 * H,
                          dh + r * 2 * H, dc + r * 2 * H, gate + r * 2 * G, gate + r * 2 * G + G);
        panel_product(w.n, P, 4 * H, gate, 2 * G, d->v, centre, P);
        panel_product(w.n, P, 4 * H, gate + G, 2 * G, d->v_abs, radius, P);
        for (size_t r = 0; r < w.n; r++)
            state_gradient(H, centre + r * P, radius + r * P, dh + r * 2 * H);
        held += w.n;
        if (held > CHUNK || w.t == 1) { /* before the first token the state is 0 */
            const real *h = d->h + w.row * 2 * P;
            lstm_recurrent_gradient(H, held, gate, 2 * G, h, 2 * P, du);
            lstm_recurrent_gradient(H, held, gate + G, 2 * G, h + P, 2 * P, du + 4 * H * P);
            held = 0;
        }
    }
}

/* ---- backward: the weights ---------------------------------------------------------------- */

/* dU = centre^T hc + sign(U) .* radius^T hr, over all groups. */
static void add_recurrent_gradients(const lstm *s)
{
    const size_t H = s->H, P = s->P;
    for (size_t d = 0; d < 2; d++) {
        const node *u = s->w[d * LSTM_PER_DIRECTION + LSTM_W_HH];
        for (size_t g = 0; u->grad && g < s->groups; g++) {
            const real *centre = s->du + (d * s->groups + g) * 2 * 4 * H * P,
                       *radius = centre + 4 * H * P;
            for (size_t j = 0; j < 4 * H; j++)
                for (size_t k = 0; k < H; k++) {
                    const real w = u->value[j * H + k], r = radius[j * P + k];
                    u->grad[j * H + k] += centre[j * P + k] + (w > 0 ? r : w < 0 ? -r : 0);
                }
        }
    }
}

/* Some columns of the table's and the biases' gradients. */
static void column_piece(void *ctx, size_t piece, int worker)
{
    (void)worker;
    const lstm *s = ctx;
    const size_t blocks = (4 * s->H + COLUMNS - 1) / COLUMNS, dir = piece / blocks,
                 first = piece % blocks * COLUMNS, left = 4 * s->H - first,
                 n = left < COLUMNS ? left : COLUMNS;
    const direction *d = &s->dir[dir];
    double bias[COLUMNS] = {0};
    const token_gradients tokens = {
        d->lo_row, d->hi_row, s->seq->n_tokens, d->gate + first, d->gate + s->G + first, 2 * s->G};
    batch_sets_back(s->s, (double)s->eps, s->at, 2 * s->G, dir * s->G + first, n, &tokens,
                    s->dtable, bias);
    for (int b = LSTM_B_IH; b <= LSTM_B_HH; b++) {
        real *db = s->w[dir * LSTM_PER_DIRECTION + (size_t)b]->grad;
        for (size_t j = 0; db && j < n; j++)
            db[first + j] += (real)bias[j];
    }
}

static stet_status input_gradient(lstm *s, arena *mem)
{
    const batch_sets *b = s->s;
    const size_t H = s->H, G = s->G, D = s->D;
    s->dtable = arena_znew(mem, real, (b->n_rows + 2 * b->n_moving) * 2 * G);
    if (!s->dtable)
        return STET_ENOMEM;
    pool_run(2 * ((4 * H + COLUMNS - 1) / COLUMNS), column_piece, s);
    for (size_t d = 0; d < 2; d++) {
        const node *w = s->w[d * LSTM_PER_DIRECTION + LSTM_W_IH];
        if (w->grad)
            TRY(gemm_long(mem, true, false, 4 * H, D, b->n_rows, 1, s->dtable + d * G, 2 * G,
                          s->w[ROWS]->value, D, 1, w->grad, D));
        if (s->w[ROWS]->grad)
            TRY(gemm(false, false, b->n_rows, D, 4 * H, 1, s->dtable + d * G, 2 * G, w->value, D, 1,
                     s->w[ROWS]->grad, D));
    }
    return STET_OK;
}

static stet_status ranges_bwd(tape *t, node *n)
{
    lstm s = lstm_of(n);
    kept *keep = n->saved;
    const arena_mark scratch = arena_save(t->mem);
    s.at = keep->at;
    s.dir = keep->dir;
    s.dy = n->grad;
    s.scratch_size = 4 * GROUP * s.H + 2 * GROUP * s.P;
    s.scratch = arena_new(t->mem, real, (size_t)stet_threads() * s.scratch_size);
    s.du = arena_znew(t->mem, real, 2 * s.groups * 2 * 4 * s.H * s.P);
    if (!s.scratch || !s.du)
        return STET_ENOMEM;
    pool_run(2 * s.groups, backward_piece, &s);
    add_recurrent_gradients(&s);
    TRY(input_gradient(&s, t->mem));
    arena_restore(t->mem, scratch);
    return STET_OK;
}

static stet_status ranges_infer(const node *n, shape *out)
{
    const set_ranges_args *d = n->args;
    const bool every = n->op == &bilstm_states_ranges_op;
    *out = shape2(every ? d->s->seq->n_tokens : d->s->seq->n_texts,
                  4 * shape_cols(n->in[LSTM_W_HH]->shape));
    return op_expect_shape(n, ROWS, shape2(d->s->n_rows, shape_cols(n->in[LSTM_W_IH]->shape)),
                           "the rows");
}

const op_desc bilstm_ranges_op = {
    .name = "bilstm_ranges",
    .n_in = INPUTS,
    .infer = ranges_infer,
    .forward = {[DEV_CPU] = ranges_fwd, CUDA_KERNEL(cuda_bilstm_ranges_fwd)},
    .backward = {[DEV_CPU] = ranges_bwd, CUDA_KERNEL(cuda_bilstm_ranges_bwd)},
};

const op_desc bilstm_states_ranges_op = {
    .name = "bilstm_states_ranges",
    .n_in = INPUTS,
    .infer = ranges_infer,
    .forward = {[DEV_CPU] = ranges_fwd, CUDA_KERNEL(cuda_bilstm_ranges_fwd)},
    .backward = {[DEV_CPU] = ranges_bwd, CUDA_KERNEL(cuda_bilstm_ranges_bwd)},
};

static node *push(tape *t, const batch_sets *s, node *const w[8], double eps, bool every)
{
    const set_ranges_args d = {s, eps};
    node *in[INPUTS];
    for (int i = 0; i < ROWS; i++)
        in[i] = w[i];
    in[ROWS] = s->rows;
    return tape_push(t, every ? &bilstm_states_ranges_op : &bilstm_ranges_op, in, INPUTS, &d,
                     sizeof d);
}

node *op_bilstm_ranges(tape *t, const batch_sets *s, node *const w[8], double eps)
{
    return push(t, s, w, eps, false);
}

node *op_bilstm_states_ranges(tape *t, const batch_sets *s, node *const w[8], double eps)
{
    return push(t, s, w, eps, true);
}

node *bilstm_ranges_made(tape *t, const node *ranges)
{
    if (!ranges || !tape_runs(t, &bilstm_made_op))
        return NULL;
    const lstm s = lstm_of(ranges);
    return tape_constant(t, shape2(s.seq->n_rows, 2 * s.G), ((const kept *)ranges->saved)->table);
}
