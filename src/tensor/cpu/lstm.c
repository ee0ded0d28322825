/* tensor/cpu/lstm.c - both directions of one LSTM layer over texts of different lengths.
 *
 * Words repeat, so every distinct row of the input is projected on the gates of both directions
 * once, by one product, and the steps gather from it; backward the gates' gradients are added up by
 * row before they meet the input again. Texts are sorted by falling length, so those still running
 * at a step are the first few: nothing is computed on padding. The reverse direction starts at each
 * text's own end.
 *
 * A piece of work is one direction of one group of texts; the cut depends on the batch alone. What
 * backward needs is kept step by step within a piece: for each token (a row of the three arrays)
 * the gates, and the state before it. The result is the last states, or those after every token. */
#include <string.h>

#include "base/pool.h"
#include "base/simd.h"
#include "tensor/host/lstm_step.h"
#include "tensor/host/lstm_walk.h"
#include "tensor/host/panel.h"
#include "tensor/joined.h"
#include "tensor/kernels.h"
#include "tensor/op_args.h"
#include "tensor/tape.h"

/* Texts of a piece; tokens in one update of a recurrent gradient; input rows of a piece. */
enum { GROUP = LSTM_GROUP, CHUNK = 32, ROWS = 64 };

typedef struct kept {
    lstm_cell cell[2];
    real *gates[2]; /* (T, G) */
    real *h[2];     /* (T, P): state before the token */
    real *c[2];
} kept;

/* The distinct input rows of each group, numbered through: a group's pieces add up their gradients
 * here, and what the groups have is added up afterwards. */
typedef struct entries {
    size_t n;
    uint32_t *of_token; /* (T) */
    uint32_t *row;      /* (n) */
    uint32_t *first;    /* (V + 1): by_row[first[v] ..] are the entries of row v, in their order */
    uint32_t *by_row;   /* (n) */
    real *dx[2];        /* (n, G) */
    bool *begun[2];     /* (n): dx holds something */
} entries;

typedef struct lstm {
    const seq_index *seq;
    size_t D, H, G, P;
    size_t groups;
    node *rows, **w; /* w_ih, w_hh, b_ih, b_hh of both directions */
    real *packed[2]; /* (G + H G + 4H P): what keep.cell points to */
    const real *x;   /* (V, 2 G): projected rows */
    bool every;      /* token's state is wanted, not the last ones alone */
    real *y;         /* (B, 2 H); every: (T, 2 H) */
    bool record;
    kept keep;
    real *scratch; /* (workers, scratch_size) */
    size_t scratch_size;
    /* backward */
    const real *dy; /* as y */
    real *du;       /* (2, groups, 4H, P) */
    entries entry;
    real *dx; /* (V, 2 G) */
    real *db; /* (pieces of ROWS, 2 G) */
} lstm;

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static lstm lstm_of(const node *n, bool every)
{
    lstm s = {
        .seq = ((const made_args *)n->args)->seq.at, .rows = n->in[0], .w = n->in + 1, .every = every};
    s.D = shape_cols(s.rows->shape);
    s.H = shape_cols(s.w[1]->shape);
    s.G = lstm_padded(4 * s.H);
    s.P = lstm_padded(s.H);
    s.groups = lstm_groups(s.seq);
    s.y = n->value;
    return s;
}

/* weights ------------------------------------------------------------------------------------ */

static void pack_direction(void *ctx, size_t d, int worker)
{
    (void)worker;
    lstm *s = ctx;
    const size_t H = s->H, G = s->G;
    node *const *w = s->w + 4 * d;
    real *bias = s->packed[d], *u = bias + G, *u_back = u + H * G;
    for (size_t j = 0; j < G; j++)
        bias[j] = j < 4 * H ? w[2]->value[j] + w[3]->value[j] : 0;
    lstm_pack(H, w[1]->value, u, u_back);
    s->keep.cell[d] = (lstm_cell){H, G, s->P, bias, u, u_back};
}

/* forward ------------------------------------------------------------------------------------ */

/* Where a step finds the old state and leaves its gates. Recording, each step has rows of its own;
 * otherwise two sets of rows take turns in the worker's scratch. */
typedef struct place {
    real *gates, *h, *c;
} place;

static place first_place(const lstm *s, const lstm_walk *w, real *ring)
{
    const size_t P = s->P, d = w->dir;
    if (s->record)
        return (place){s->keep.gates[d] + w->row * s->G, s->keep.h[d] + w->row * P,
                       s->keep.c[d] + w->row * P};
    return (place){ring, ring + GROUP * s->G, ring + GROUP * (s->G + 2 * P)};
}

static place next_place(const lstm *s, const lstm_walk *w, place p)
{
    if (s->record)
        return (place){p.gates + w->n * s->G, p.h + w->n * s->P, p.c + w->n * s->P};
    const ptrdiff_t turn = (ptrdiff_t)(GROUP * s->P) * (w->t % 2 ? -1 : 1);
    return (place){p.gates, p.h + turn, p.c + turn};
}

/* Where the result has the state, or its gradient, of text r of a walk at its step. */
static size_t result_at(const lstm *s, const lstm_walk *w, size_t r)
{
    const size_t row = s->every ? walk_token(s->seq, w, r) : w->b + r;
    return (row * 2 + w->dir) * s->H;
}

static void forward_piece(void *ctx, size_t piece, int worker)
{
    lstm *s = ctx;
    const size_t P = s->P;
    real *lost = s->scratch + (size_t)worker * s->scratch_size; /* (P): last c of a text */
    real *z = lost + P;                                         /* (GROUP, G) */
    lstm_walk w = walk_start(s->seq, piece);
    place p = first_place(s, &w, z + GROUP * s->G);
    memset(p.c, 0, w.n * P * sizeof *p.c);
    while (w.n) {
        const size_t next = walk_going_on(s->seq, &w);
        const place q = next_place(s, &w, p);
        const real *x[GROUP];
        real *h[GROUP], *c[GROUP];
        for (size_t r = 0; r < w.n; r++) {
            x[r] = s->x + (s->seq->row[walk_token(s->seq, &w, r)] * 2 + w.dir) * s->G;
            h[r] = r < next ? q.h + r * P : s->y + result_at(s, &w, r);
            c[r] = r < next ? q.c + r * P : lost;
        }
        lstm_step_forward(&s->keep.cell[w.dir], w.n, w.t == 0, x, p.h, p.c, z, p.gates, h, c);
        for (size_t r = 0; s->every && r < next; r++)
            memcpy(s->y + result_at(s, &w, r), h[r], s->H * sizeof *h[r]);
        p = q;
        w.n = next;
        w.t++;
    }
}

static stet_status keep_for_backward(lstm *s, arena *mem)
{
    const size_t T = s->seq->n_tokens;
    for (int d = 0; d < 2; d++) {
        s->keep.gates[d] = arena_new(mem, real, T * s->G);
        s->keep.h[d] = arena_new(mem, real, T * s->P);
        s->keep.c[d] = arena_new(mem, real, T * s->P);
        if (!s->keep.gates[d] || !s->keep.h[d] || !s->keep.c[d])
            return STET_ENOMEM;
    }
    return STET_OK;
}

/* x (n, 2 G): rows on the gates of both directions, whose weights lie `step` apart. */
static stet_status project(const node *rows, node *const *w_ih, size_t step, arena *mem, real *x)
{
    const size_t D = shape_cols(rows->shape), gates = shape_rows(w_ih[0]->shape),
                 G = lstm_padded(gates);
    const arena_mark scratch = arena_save(mem);
    real *w_in = arena_znew(mem, real, 2 * G * D);
    if (!w_in)
        return STET_ENOMEM;
    for (size_t d = 0; d < 2; d++)
        panel_pack(D, gates, w_ih[d * step]->value, 1, D, d * G, w_in);
    panel_product(shape_rows(rows->shape), 2 * G, D, rows->value, D, w_in, x, 2 * G);
    arena_restore(mem, scratch);
    return STET_OK;
}

stet_status bilstm_made_infer(const node *n, shape *out)
{
    *out = shape2(shape_rows(n->in[0]->shape), 2 * lstm_padded(shape_rows(n->in[1]->shape)));
    return STET_OK;
}

stet_status cpu_bilstm_made_fwd(tape *t, node *n)
{
    return project(n->in[0], n->in + 1, 1, t->mem, n->value);
}

static stet_status lstm_fwd(tape *t, node *n, bool every)
{
    lstm s = lstm_of(n, every);
    const size_t V = s.seq->n_rows, G = s.G;
    kept *keep = n->saved = arena_new(t->mem, kept, 1);
    s.record = t->record && n->needs_grad;
    for (int d = 0; d < 2; d++)
        s.packed[d] = arena_new(t->mem, real, G + s.H * G + 4 * s.H * s.P);
    if (!keep || !s.packed[0] || !s.packed[1])
        return STET_ENOMEM;
    if (s.record)
        TRY(keep_for_backward(&s, t->mem));

    const arena_mark scratch = arena_save(t->mem);
    s.scratch_size = s.P + GROUP * G + (s.record ? 0 : GROUP * (G + 4 * s.P));
    s.scratch = arena_new(t->mem, real, (size_t)stet_threads() * s.scratch_size);
    s.x = ((const made_args *)n->args)->made;
    real *own = s.x ? NULL : arena_new(t->mem, real, V * 2 * G);
    if (!s.scratch || !(s.x || own))
        return STET_ENOMEM;
    pool_run(2, pack_direction, &s);
    if (own)
        TRY(project(s.rows, s.w, 4, t->mem, own));
    s.x = own ? own : s.x;
    pool_run(2 * s.groups, forward_piece, &s);
    arena_restore(t->mem, scratch);
    *keep = s.keep;
    return STET_OK;
}

stet_status cpu_bilstm_fwd(tape *t, node *n)
{
    return lstm_fwd(t, n, false);
}

stet_status cpu_bilstm_states_fwd(tape *t, node *n)
{
    return lstm_fwd(t, n, true);
}

/* backward: gradients by input row ----------------------------------------------------------- */

SIMD_CLONES static void add_into(size_t n, const real *RESTRICT x, real *RESTRICT sum)
{
    for (size_t j = 0; j < n; j++)
        sum[j] += x[j];
}

/* Number the distinct rows of each group. `latest` (V) comes zeroed. */
static void number_entries(const lstm *s, entries *e, uint32_t *latest)
{
    const seq_index *q = s->seq;
    for (size_t b = 0; b < q->n_texts; b += GROUP) {
        const size_t before = e->n; /* of earlier groups */
        for (size_t i = q->start[b]; i < q->start[smaller(b + GROUP, q->n_texts)]; i++) {
            const uint32_t v = q->row[i];
            if (latest[v] <= before) {
                e->row[e->n] = v;
                latest[v] = (uint32_t)++e->n; /* entry + 1 */
            }
            e->of_token[i] = latest[v] - 1;
        }
    }
}

static stet_status make_entries(lstm *s, arena *mem)
{
    const size_t T = s->seq->n_tokens, V = s->seq->n_rows;
    entries *e = &s->entry;
    uint32_t *latest = arena_znew(mem, uint32_t, V);
    e->of_token = arena_new(mem, uint32_t, T);
    e->row = arena_new(mem, uint32_t, T);
    e->by_row = arena_new(mem, uint32_t, T);
    e->first = arena_znew(mem, uint32_t, V + 2);
    if (!latest || !e->of_token || !e->row || !e->by_row || !e->first)
        return STET_ENOMEM;
    number_entries(s, e, latest);
    /* counting sort: first[v + 1] runs through the entries of row v and ends at those of v + 1 */
    for (size_t i = 0; i < e->n; i++)
        e->first[e->row[i] + 2]++;
    for (size_t v = 2; v < V + 2; v++)
        e->first[v] += e->first[v - 1];
    for (size_t i = 0; i < e->n; i++)
        e->by_row[e->first[e->row[i] + 1]++] = (uint32_t)i;
    for (int d = 0; d < 2; d++) {
        e->dx[d] = arena_new(mem, real, e->n * s->G);
        e->begun[d] = arena_znew(mem, bool, e->n);
        if (!e->dx[d] || !e->begun[d])
            return STET_ENOMEM;
    }
    return STET_OK;
}

/* The gradients of a step's tokens go to their entries. */
static void add_to_entries(const lstm *s, const lstm_walk *w, const real *dz)
{
    const entries *e = &s->entry;
    for (size_t r = 0; r < w->n; r++) {
        const size_t i = e->of_token[walk_token(s->seq, w, r)];
        real *dx = e->dx[w->dir] + i * s->G;
        if (e->begun[w->dir][i])
            add_into(4 * s->H, dz + r * s->G, dx);
        else
            memcpy(dx, dz + r * s->G, 4 * s->H * sizeof *dx);
        e->begun[w->dir][i] = true;
    }
}

/* The entries of some rows into dx, and these into the biases' share. */
static void rows_piece(void *ctx, size_t piece, int worker)
{
    (void)worker;
    const lstm *s = ctx;
    const entries *e = &s->entry;
    const size_t G = s->G, end = smaller((piece + 1) * ROWS, s->seq->n_rows);
    real *db = s->db + piece * 2 * G;
    memset(db, 0, 2 * G * sizeof *db);
    for (size_t v = piece * ROWS; v < end; v++) {
        real *dx = s->dx + v * 2 * G;
        memset(dx, 0, 2 * G * sizeof *dx);
        for (size_t i = e->first[v]; i < e->first[v + 1]; i++)
            for (size_t d = 0; d < 2; d++)
                add_into(4 * s->H, e->dx[d] + e->by_row[i] * G, dx + d * G);
        add_into(2 * G, dx, db);
    }
}

/* w_ih, b_ih, b_hh and the input. */
static stet_status input_gradients(lstm *s, arena *mem)
{
    const size_t V = s->seq->n_rows, pieces = (V + ROWS - 1) / ROWS, G = s->G, H = s->H, D = s->D;
    s->dx = arena_new(mem, real, V * 2 * G);
    s->db = arena_new(mem, real, pieces * 2 * G);
    if (!s->dx || !s->db)
        return STET_ENOMEM;
    pool_run(pieces, rows_piece, s);
    for (size_t d = 0; d < 2; d++) {
        node *const *w = s->w + 4 * d;
        const real *dx = s->dx + d * G;
        if (w[0]->grad)
            TRY(gemm_long(mem, true, false, 4 * H, D, V, 1, dx, 2 * G, s->rows->value, D, 1,
                          w[0]->grad, D));
        for (int b = 2; b < 4; b++)
            for (size_t i = 0; w[b]->grad && i < pieces; i++)
                add_into(4 * H, s->db + (i * 2 + d) * G, w[b]->grad);
        if (s->rows->grad)
            TRY(gemm(false, false, V, D, 4 * H, 1, dx, 2 * G, w[0]->value, D, 1, s->rows->grad, D));
    }
    return STET_OK;
}

/* backward: the steps ------------------------------------------------------------------------ */

/* The gradients of the gates are used where they arise and not kept: by the step before, by the
 * entries, and, after some CHUNK tokens, by the recurrent weights. `dz` is filled from its end, so
 * that its rows lie as those of keep. */
static void backward_piece(void *ctx, size_t piece, int worker)
{
    lstm *s = ctx;
    const size_t H = s->H, P = s->P, G = s->G;
    lstm_walk w = walk_start(s->seq, piece);
    const size_t d = w.dir, texts = w.n;
    real *dh = s->scratch + (size_t)worker * s->scratch_size; /* (GROUP, P) */
    real *dc = dh + GROUP * P;                                /* (GROUP, P) */
    real *dz = dc + GROUP * P;                                /* (CHUNK + GROUP, G) */
    real *du = s->du ? s->du + (d * s->groups + piece / 2) * 4 * H * P : NULL;

    size_t held = 0; /* tokens in dz */
    w.row = s->seq->start[w.b + texts];
    w.n = 0;
    for (w.t = text_len(s->seq, w.b); w.t-- > 0;) {
        while (w.n < texts && text_len(s->seq, w.b + w.n) > w.t) {
            if (s->every)
                memset(dh + w.n * P, 0, P * sizeof *dh);
            else
                memcpy(dh + w.n * P, s->dy + result_at(s, &w, w.n), H * sizeof *dh);
            memset(dc + w.n * P, 0, P * sizeof *dc);
            w.n++;
        }
        for (size_t r = 0; s->every && r < w.n; r++)
            add_into(H, s->dy + result_at(s, &w, r), dh + r * P);
        w.row -= w.n;
        held += w.n;
        real *dz_step = dz + (CHUNK + GROUP - held) * G;
        lstm_step_backward(&s->keep.cell[d], w.n, w.t == 0, s->keep.gates[d] + w.row * G,
                           s->keep.c[d] + w.row * P, dh, dc, dz_step);
        add_to_entries(s, &w, dz_step);
        if (held > CHUNK || w.t == 1) {
            if (du)
                lstm_recurrent_gradient(H, held, dz_step, G, s->keep.h[d] + w.row * P, P, du);
            held = 0;
        }
    }
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

static stet_status lstm_bwd(tape *t, node *n, bool every)
{
    lstm s = lstm_of(n, every);
    s.keep = *(const kept *)n->saved;
    s.dy = n->grad;
    const arena_mark scratch = arena_save(t->mem);
    TRY(make_entries(&s, t->mem));
    s.scratch_size = 2 * GROUP * s.P + (CHUNK + GROUP) * s.G;
    s.scratch = arena_new(t->mem, real, (size_t)stet_threads() * s.scratch_size);
    if (!s.scratch)
        return STET_ENOMEM;
    if (s.w[1]->grad || s.w[5]->grad) {
        s.du = arena_znew(t->mem, real, 2 * s.groups * 4 * s.H * s.P);
        if (!s.du)
            return STET_ENOMEM;
    }
    pool_run(2 * s.groups, backward_piece, &s);
    if (s.du)
        add_recurrent_gradients(&s);
    TRY(input_gradients(&s, t->mem));
    arena_restore(t->mem, scratch);
    return STET_OK;
}

stet_status cpu_bilstm_bwd(tape *t, node *n)
{
    return lstm_bwd(t, n, false);
}

stet_status cpu_bilstm_states_bwd(tape *t, node *n)
{
    return lstm_bwd(t, n, true);
}
