/* tensor/cpu/lstm.c - both directions of one LSTM layer over texts of different lengths.
 *
 * Words repeat, so every distinct row of the input is projected on the gates of both directions
 * once, by one product, and the steps gather from it; backward the gates' gradients are added up by
 * row before they meet the input again. Texts are sorted by falling length, so those still running
 * at a step are the first few: nothing is computed on padding. The reverse direction starts at each
 * text's own end.
 *
 * A piece of work is one direction of one group of texts; the cut depends on the batch alone.
 * Inside a piece what backward needs is kept step by step: for each token (row of the three arrays)
 * the gates and the state before it. */
#include <string.h>

#include "base/pool.h"
#include "base/simd.h"
#include "tensor/cpu/lstm_step.h"
#include "tensor/kernels.h"
#include "tensor/op_args.h"
#include "tensor/tape.h"

enum {
    GROUP = 16,
    CHUNK = 32,
    ROWS = 64
}; /* texts of a piece; tokens in one update of dU; rows of dP in a piece */

typedef struct kept {
    real *z[2]; /* (T, G): gates; once backward has run, their gradients */
    real *h[2]; /* (T, P): state before the token */
    real *c[2];
    bool spent; /* z holds gradients */
} kept;

typedef struct lstm {
    const seq_index *seq;
    size_t D, H, G, P;
    node **w;   /* w_ih, w_hh, b_ih, b_hh of both directions */
    real *w_in; /* (2 G, D): both w_ih, rows padded */
    real *x;    /* (V, 2 G): projected rows */
    lstm_cell cell[2];
    size_t groups;
    kept keep;
    bool record;
    real *scratch; /* (workers, scratch_size) */
    size_t scratch_size;
    real *y;        /* (B, 2 H) */
    const real *dy; /* (B, 2 H) */
    real *du;       /* (2, groups, 4H, P) */
    /* where each row of the input occurs: tokens[first[v] .. first[v + 1]) */
    uint32_t *first, *tokens, *slot[2]; /* slot: (T) row of a token in keep */
    real *dx;                           /* (V, 2 G): gradients by row */
    real *db;                           /* (pieces of ROWS, 2 G) */
} lstm;

static size_t text_len(const lstm *s, size_t b)
{
    return s->seq->start[b + 1] - s->seq->start[b];
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static lstm lstm_of(const node *n)
{
    lstm s = {.seq = ((const bilstm_args *)n->args)->seq, .w = n->in + 1};
    s.D = shape_cols(n->in[0]->shape);
    s.H = shape_cols(n->in[2]->shape);
    s.G = lstm_padded(4 * s.H);
    s.P = lstm_padded(s.H);
    s.groups = (s.seq->n_texts + GROUP - 1) / GROUP;
    s.y = n->value;
    return s;
}

/* weights ------------------------------------------------------------------------------------ */

static stet_status pack_input_weights(lstm *s, arena *mem)
{
    s->w_in = arena_znew(mem, real, 2 * s->G * s->D);
    if (!s->w_in)
        return STET_ENOMEM;
    for (size_t d = 0; d < 2; d++)
        memcpy(s->w_in + d * s->G * s->D, s->w[4 * d]->value, 4 * s->H * s->D * sizeof(real));
    return STET_OK;
}

static stet_status pack_cells(lstm *s, arena *mem)
{
    const size_t H = s->H;
    for (int d = 0; d < 2; d++) {
        real *u = arena_new(mem, real, H * s->G), *u_back = arena_new(mem, real, 4 * H * s->P);
        real *bias = arena_znew(mem, real, s->G);
        if (!u || !u_back || !bias)
            return STET_ENOMEM;
        lstm_pack(H, s->w[4 * d + 1]->value, u, u_back);
        for (size_t j = 0; j < 4 * H; j++)
            bias[j] = s->w[4 * d + 2]->value[j] + s->w[4 * d + 3]->value[j];
        s->cell[d] = (lstm_cell){H, s->G, s->P, bias, u, u_back};
    }
    return STET_OK;
}

/* forward ------------------------------------------------------------------------------------ */

/* A piece's walk through time: texts b .. b + n run at step t, their rows start at `row`. */
typedef struct walk {
    size_t dir, b, n, t, row;
} walk;

static walk walk_start(const lstm *s, size_t piece)
{
    const size_t b = piece / 2 * GROUP;
    return (walk){piece % 2, b, smaller(GROUP, s->seq->n_texts - b), 0, s->seq->start[b]};
}

/* Texts still running at step t. */
static size_t running(const lstm *s, const walk *w, size_t n, size_t t)
{
    while (n && text_len(s, w->b + n - 1) <= t)
        n--;
    return n;
}

static const real *projected(const lstm *s, const walk *w, size_t r)
{
    const size_t b = w->b + r, at = w->dir ? text_len(s, b) - 1 - w->t : w->t;
    return s->x + (s->seq->row[s->seq->start[b] + at] * 2 + w->dir) * s->G;
}

/* Without recording, two sets of states take turns in the worker's scratch. */
static void forward_piece(void *ctx, size_t piece, int worker)
{
    lstm *s = ctx;
    const size_t P = s->P, G = s->G;
    real *scratch = s->scratch + (size_t)worker * s->scratch_size;
    real *lost = scratch; /* (P): the last c of a text, of no further use */
    real *ring = lost + P;
    walk w = walk_start(s, piece);
    real *z, *h, *c, *h_new, *c_new;
    if (s->record) {
        z = s->keep.z[w.dir] + w.row * G;
        h = s->keep.h[w.dir] + w.row * P;
        c = s->keep.c[w.dir] + w.row * P;
    } else {
        h = ring;
        c = ring + 2 * GROUP * P;
        z = ring + 4 * GROUP * P;
    }
    memset(h, 0, w.n * P * sizeof *h);
    memset(c, 0, w.n * P * sizeof *c);
    for (; w.n; w.t++) {
        const size_t next = running(s, &w, w.n, w.t + 1);
        const size_t step = s->record ? w.n : w.t % 2 ? (size_t)-GROUP : GROUP;
        h_new = h + step * P;
        c_new = c + step * P;
        const real *x[GROUP];
        real *hs[GROUP], *cs[GROUP];
        for (size_t r = 0; r < w.n; r++) {
            x[r] = projected(s, &w, r);
            hs[r] = r < next ? h_new + r * P : s->y + ((w.b + r) * 2 + w.dir) * s->H;
            cs[r] = r < next ? c_new + r * P : lost;
        }
        lstm_step_forward(&s->cell[w.dir], w.n, w.t == 0, x, h, c, z, hs, cs);
        z += s->record ? w.n * G : 0;
        h = h_new;
        c = c_new;
        w.n = next;
    }
}

static stet_status run_forward(lstm *s, arena *mem, const real *rows)
{
    const size_t V = s->seq->n_rows;
    TRY(pack_input_weights(s, mem));
    TRY(pack_cells(s, mem));
    s->scratch_size = s->P + (s->record ? 0 : GROUP * (4 * s->P + s->G));
    s->scratch = arena_new(mem, real, (size_t)stet_threads() * s->scratch_size);
    s->x = arena_new(mem, real, V * 2 * s->G);
    if (!s->scratch || !s->x)
        return STET_ENOMEM;
    gemm(false, true, V, 2 * s->G, s->D, 1, rows, s->D, s->w_in, s->D, 0, s->x, 2 * s->G);
    pool_run(2 * s->groups, forward_piece, s);
    return STET_OK;
}

stet_status cpu_bilstm_fwd(tape *t, node *n)
{
    lstm s = lstm_of(n);
    s.record = t->record && n->needs_grad;
    if (s.record) {
        kept *keep = n->saved = arena_znew(t->mem, kept, 1);
        if (!keep)
            return STET_ENOMEM;
        for (int d = 0; d < 2; d++) {
            keep->z[d] = arena_new(t->mem, real, s.seq->n_tokens * s.G);
            keep->h[d] = arena_znew(t->mem, real, s.seq->n_tokens * s.P);
            keep->c[d] = arena_new(t->mem, real, s.seq->n_tokens * s.P);
            if (!keep->z[d] || !keep->h[d] || !keep->c[d])
                return STET_ENOMEM;
        }
        s.keep = *keep;
    }
    const arena_mark scratch = arena_save(t->mem);
    TRY(run_forward(&s, t->mem, n->in[0]->value));
    arena_restore(t->mem, scratch);
    return STET_OK;
}

/* backward: the steps ------------------------------------------------------------------------ */

static void backward_piece(void *ctx, size_t piece, int worker)
{
    lstm *s = ctx;
    const size_t H = s->H, P = s->P, G = s->G;
    walk w = walk_start(s, piece);
    const size_t d = w.dir, texts = w.n;
    const lstm_cell *cell = &s->cell[d];
    real *dh = s->scratch + (size_t)worker * s->scratch_size, *dc = dh + GROUP * P;
    real *du = s->du ? s->du + (d * s->groups + piece / 2) * 4 * H * P : NULL;

    w.row = s->seq->start[w.b + texts]; /* of the step after the last */
    w.n = 0;
    size_t pending = w.row; /* dU has the tokens from here on */
    for (w.t = text_len(s, w.b); w.t-- > 0;) {
        while (w.n < texts && text_len(s, w.b + w.n) > w.t) {
            memcpy(dh + w.n * P, s->dy + ((w.b + w.n) * 2 + d) * H, H * sizeof *dh);
            memset(dc + w.n * P, 0, P * sizeof *dc);
            w.n++;
        }
        w.row -= w.n;
        lstm_step_backward(cell, w.n, w.t == 0, s->keep.c[d] + w.row * P, s->keep.z[d] + w.row * G,
                           dh, dc);
        if (du && w.t > 0 && (pending - w.row >= CHUNK || w.t == 1)) {
            lstm_recurrent_gradient(cell, pending - w.row, s->keep.z[d] + w.row * G,
                                    s->keep.h[d] + w.row * P, du);
            pending = w.row;
        }
    }
}

/* backward: by row of the input -------------------------------------------------------------- */

/* The row of each token in `keep`, and the tokens of each input row. */
static stet_status index_tokens(lstm *s, arena *mem)
{
    const seq_index *q = s->seq;
    s->first = arena_znew(mem, uint32_t, q->n_rows + 2);
    s->tokens = arena_new(mem, uint32_t, q->n_tokens);
    s->slot[0] = arena_new(mem, uint32_t, q->n_tokens);
    s->slot[1] = arena_new(mem, uint32_t, q->n_tokens);
    if (!s->first || !s->tokens || !s->slot[0] || !s->slot[1])
        return STET_ENOMEM;
    for (size_t g = 0; g < s->groups; g++) {
        walk w = walk_start(s, 2 * g);
        for (; (w.n = running(s, &w, w.n, w.t)) > 0; w.row += w.n, w.t++) {
            for (size_t r = 0; r < w.n; r++) {
                const size_t begin = q->start[w.b + r], end = q->start[w.b + r + 1];
                s->slot[0][begin + w.t] = s->slot[1][end - 1 - w.t] = (uint32_t)(w.row + r);
            }
        }
    }
    /* counting sort; first[v + 1] runs through row v's tokens and ends where row v + 1's begin */
    for (size_t i = 0; i < q->n_tokens; i++)
        s->first[q->row[i] + 2]++;
    for (size_t v = 2; v < q->n_rows + 2; v++)
        s->first[v] += s->first[v - 1];
    for (size_t i = 0; i < q->n_tokens; i++)
        s->tokens[s->first[q->row[i] + 1]++] = (uint32_t)i;
    return STET_OK;
}

SIMD_CLONES static void add_into(size_t n, const real *RESTRICT x, real *RESTRICT sum)
{
    for (size_t j = 0; j < n; j++)
        sum[j] += x[j];
}

static void gather_piece(void *ctx, size_t piece, int worker)
{
    (void)worker;
    lstm *s = ctx;
    const size_t G = s->G, end = smaller((piece + 1) * ROWS, s->seq->n_rows);
    real *db = s->db + piece * 2 * G;
    memset(db, 0, 2 * G * sizeof *db);
    for (size_t v = piece * ROWS; v < end; v++) {
        real *dx = s->dx + v * 2 * G;
        memset(dx, 0, 2 * G * sizeof *dx);
        for (size_t i = s->first[v]; i < s->first[v + 1]; i++)
            for (size_t d = 0; d < 2; d++)
                add_into(4 * s->H, s->keep.z[d] + s->slot[d][s->tokens[i]] * G, dx + d * G);
        add_into(2 * G, dx, db);
    }
}

/* w_ih, b_ih, b_hh and the input, all from the gradients by row. */
static stet_status input_gradients(lstm *s, arena *mem, node *rows)
{
    const size_t V = s->seq->n_rows, pieces = (V + ROWS - 1) / ROWS, G = s->G, H = s->H, D = s->D;
    s->dx = arena_new(mem, real, V * 2 * G);
    s->db = arena_new(mem, real, pieces * 2 * G);
    if (!s->dx || !s->db)
        return STET_ENOMEM;
    TRY(index_tokens(s, mem));
    pool_run(pieces, gather_piece, s);
    for (size_t d = 0; d < 2; d++) {
        node *const *w = s->w + 4 * d;
        if (w[0]->grad)
            gemm(true, false, 4 * H, D, V, 1, s->dx + d * G, 2 * G, rows->value, D, 1, w[0]->grad,
                 D);
        for (int b = 2; b < 4; b++)
            for (size_t i = 0; w[b]->grad && i < pieces; i++)
                add_into(4 * H, s->db + (i * 2 + d) * G, w[b]->grad);
        if (rows->grad)
            gemm(false, false, V, D, 4 * H, 1, s->dx + d * G, 2 * G, w[0]->value, D, 1, rows->grad,
                 D);
    }
    return STET_OK;
}

static void add_recurrent_gradients(const lstm *s)
{
    const size_t H = s->H, P = s->P;
    for (size_t d = 0; d < 2; d++)
        for (size_t g = 0; s->w[4 * d + 1]->grad && g < s->groups; g++)
            for (size_t j = 0; j < 4 * H; j++)
                add_into(H, s->du + ((d * s->groups + g) * 4 * H + j) * P,
                         s->w[4 * d + 1]->grad + j * H);
}

stet_status cpu_bilstm_bwd(tape *t, node *n)
{
    lstm s = lstm_of(n);
    kept *keep = n->saved;
    const arena_mark scratch = arena_save(t->mem);
    s.keep = *keep;
    s.dy = n->grad;
    if (keep->spent) { /* a second walk over the same tape: make the gates again */
        s.record = true;
        TRY(run_forward(&s, t->mem, n->in[0]->value));
    }
    TRY(pack_cells(&s, t->mem));
    s.scratch_size = 2 * GROUP * s.P;
    s.scratch = arena_new(t->mem, real, (size_t)stet_threads() * s.scratch_size);
    if (s.w[1]->grad || s.w[5]->grad) {
        s.du = arena_znew(t->mem, real, 2 * s.groups * 4 * s.H * s.P);
        if (!s.du)
            return STET_ENOMEM;
    }
    if (!s.scratch)
        return STET_ENOMEM;
    keep->spent = true;
    pool_run(2 * s.groups, backward_piece, &s);
    if (s.du)
        add_recurrent_gradients(&s);
    TRY(input_gradients(&s, t->mem, n->in[0]));
    arena_restore(t->mem, scratch);
    return STET_OK;
}
