/* bound/conv_joint.c - see conv_joint.h. For a rival class with head omega = w_true - w_rival, the
 * margin is the sum of omega_f y_f. Each term is bounded below by omega_f (slope a_t + offset), a_t
 * the response of one window t of the filter:
 *
 *     omega_f >= 0   y_f >= a_t for every t: the window with the largest lower end; 0 if that is
 *                    negative, since y_f >= 0
 *     omega_f < 0    y_f <= max(a_t, U2), U2 the largest upper end of the other windows or 0:
 * convex in a_t, so below its chord over [L, U]
 *
 * A response is a sum over the window's words, so the sum of all bounds is one over positions. */
#include "bound/conv_joint.h"

#include "base/pool.h"
#include "bound/bound_ops.h"

/* One kernel size. */
typedef struct kernel {
    conv_filters filters;
    const real *b;
    const real *ends; /* (B, RANGE_SIDES, F) */
    const conv_windows *w;
    size_t first; /* of its features among all */
} kernel;

/* The linear bound of one feature. */
typedef struct plan {
    uint32_t at; /* the window */
    double omega, slope, offset;
    double lower, upper, next; /* L, U, U2 */
} plan;

/* What backward needs of it: derivatives of the margin's bound. */
typedef struct choice {
    uint32_t at, next_at;
    real response; /* of the window with the worst words */
    real lower, upper, next;
    real omega;
} choice;

typedef struct joint {
    const joint_args *a;
    const seq_index *seq;
    size_t n, F, K; /* kernel sizes, features of all, classes */
    kernel kernel[CNN_MAX_KERNELS];
    const real *fc_w, *fc_b, *mask;
    real *z;         /* (B, K) */
    choice *choices; /* (B, K, F) */
    uint32_t *word;  /* (K, T): rows of the worst words */
    /* scratch of workers */
    plan *plans;     /* (workers, F) */
    uint32_t *place; /* (workers, max_len + 1): first sum of each position */
    double *sum;     /* (workers, room): what each word of each position adds to the bound */
    size_t room;
    /* backward */
    const real *dz;
    const kernel *now;
    tap_terms terms;
    real *db;
} joint;

typedef struct kept {
    choice *choices;
    uint32_t *word;
} kept;

static joint joint_of(const node *n)
{
    const joint_args *a = n->args;
    joint j = {.a = a, .seq = a->s->at, .n = a->n, .z = n->value, .K = shape_cols(n->shape)};
    for (size_t i = 0; i < j.n; i++) {
        const node *w = n->in[2 * i];
        j.kernel[i] = (kernel){{w->shape.dim[0], w->shape.dim[1], w->shape.dim[2], w->value},
                               n->in[2 * i + 1]->value,
                               a->ranges[i]->value,
                               conv_ranges_windows(a->ranges[i]),
                               j.F};
        j.F += w->shape.dim[0];
    }
    j.fc_w = n->in[2 * j.n]->value;
    j.fc_b = n->in[2 * j.n + 1]->value;
    j.mask = a->mask ? a->mask->value : NULL;
    return j;
}

static size_t text_len(const joint *j, size_t text)
{
    return j->seq->start[text + 1] - j->seq->start[text];
}

/* Taps of a kernel that are inside the text. */
static size_t taps_in(const kernel *c, size_t len)
{
    return len < c->filters.k ? len : c->filters.k;
}

/* ---- forward ------------------------------------------------------------------------------ */

/* A window's response when its tokens read these rows of the table. */
static double response(const kernel *c, const uint32_t *row, size_t taps, size_t f)
{
    double sum = (double)c->b[f];
    for (size_t l = 0; l < taps; l++)
        sum += (double)c->w->table[row[l] * c->w->cols + l * c->filters.F + f];
    return sum;
}

static plan make_plan(const joint *j, const kernel *c, size_t text, size_t f, double omega)
{
    const size_t F = c->filters.F, i = text * RANGE_SIDES * F + f;
    const size_t side = omega >= 0 ? RANGE_LOWER : RANGE_UPPER;
    plan p = {.at = c->w->won[i + side * F], .omega = omega};
    if (!(c->ends[i + side * F] > 0))
        return p;
    p.slope = 1;
    if (omega >= 0)
        return p;
    const double next = (double)(c->w->next[text * F + f] + c->b[f]);
    p.upper = (double)c->ends[i + side * F];
    p.lower =
        response(c, j->a->s->lo_row + j->seq->start[text] + p.at, taps_in(c, text_len(j, text)), f);
    p.next = next > 0 ? next : 0;
    if (p.lower >= p.next) /* the window always wins */
        return p;
    p.slope = p.upper > p.next ? (p.upper - p.next) / (p.upper - p.lower) : 0;
    p.offset = p.next - p.slope * p.lower;
    return p;
}

/* Add the feature's bound to the sums of the words in its window. */
static void spread(const joint *j, const kernel *c, const plan *p, size_t text, size_t f,
                   const uint32_t *place, double *sum)
{
    const batch_sets *s = j->a->s;
    const uint32_t *row = j->seq->row + j->seq->start[text];
    const double by = p->omega * p->slope;
    const size_t taps = taps_in(c, text_len(j, text));
    for (size_t l = 0; l < taps; l++) {
        const uint32_t v = row[p->at + l];
        const real *column = c->w->table + l * c->filters.F + f;
        double *at = sum + place[p->at + l];
        *at++ += by * (double)column[v * c->w->cols];
        for (uint32_t k = s->start[v]; k < s->start[v + 1]; k++)
            *at++ += by * (double)column[s->alt[k] * c->w->cols];
    }
}

/* Every position takes its worst word; what they add up to. */
static double take_worst(const joint *j, size_t text, const uint32_t *place, const double *sum,
                         uint32_t *word)
{
    const batch_sets *s = j->a->s;
    const uint32_t *row = j->seq->row + j->seq->start[text];
    double total = 0;
    for (size_t p = 0; p < text_len(j, text); p++) {
        const double own = sum[place[p]];
        double least = own;
        word[p] = row[p];
        for (uint32_t i = 1; i < place[p + 1] - place[p]; i++) {
            if (sum[place[p] + i] < least) {
                least = sum[place[p] + i];
                word[p] = s->alt[s->start[row[p]] + i - 1];
            }
        }
        total += own + j->a->eps * (least - own);
    }
    return total;
}

/* Derivatives of omega (slope a + offset), a the response to the worst words. */
static choice settle(const joint *j, const kernel *c, const plan *p, size_t text, size_t f,
                     const uint32_t *word)
{
    const size_t taps = taps_in(c, text_len(j, text));
    const double own = response(c, j->seq->row + j->seq->start[text] + p->at, taps, f),
                 a = own + j->a->eps * (response(c, word + p->at, taps, f) - own),
                 width = p->upper - p->lower;
    choice out = {.at = p->at,
                  .response = (real)(p->omega * p->slope),
                  .omega = (real)(p->slope * a + p->offset)};
    if (p->omega >= 0 || p->next <= p->lower || width <= 0)
        return out;
    /* a chord: slope (U - U2) / (U - L), offset U2 - slope L */
    out.next_at = c->w->next_at[text * c->filters.F + f];
    out.lower = (real)(-p->omega * p->slope * (p->upper - a) / width);
    if (p->slope > 0)
        out.upper = (real)(p->omega * (a - p->lower) * (p->next - p->lower) / (width * width));
    if (p->next > 0)
        out.next = (real)(p->slope > 0 ? p->omega * (p->upper - a) / width : p->omega);
    return out;
}

/* One rival of one text: how far it can lead. */
static double lead(const joint *j, size_t text, size_t k, plan *plans, const uint32_t *place,
                   double *sum)
{
    const size_t y = (size_t)j->a->label[text], i = text * j->K + k;
    uint32_t *word = j->word + k * j->seq->n_tokens + j->seq->start[text];
    double margin = (double)(j->fc_b[y] - j->fc_b[k]);
    for (size_t p = 0; p < place[text_len(j, text)]; p++)
        sum[p] = 0;
    for (const kernel *c = j->kernel; c < j->kernel + j->n; c++)
        for (size_t f = 0; f < c->filters.F; f++) {
            const size_t g = c->first + f;
            const double keep = j->mask ? (double)j->mask[text * j->F + g] : 1;
            const double omega = keep * (double)(j->fc_w[y * j->F + g] - j->fc_w[k * j->F + g]);
            plan *p = &plans[g];
            *p = make_plan(j, c, text, f, omega);
            margin += omega * (p->offset + p->slope * (double)c->b[f]);
            if (p->slope > 0 && omega != 0)
                spread(j, c, p, text, f, place, sum);
        }
    margin += take_worst(j, text, place, sum, word);
    for (const kernel *c = j->kernel; c < j->kernel + j->n; c++)
        for (size_t f = 0; f < c->filters.F; f++)
            j->choices[i * j->F + c->first + f] = settle(j, c, &plans[c->first + f], text, f, word);
    return -margin;
}

static void text_piece(void *ctx, size_t text, int worker)
{
    const joint *j = ctx;
    const size_t slot = (size_t)worker;
    const batch_sets *s = j->a->s;
    uint32_t *place = j->place + slot * (j->seq->max_len + 1);
    const uint32_t *row = j->seq->row + j->seq->start[text];
    place[0] = 0;
    for (size_t p = 0; p < text_len(j, text); p++)
        place[p + 1] = place[p] + 1 + s->start[row[p] + 1] - s->start[row[p]];
    for (size_t k = 0; k < j->K; k++)
        j->z[text * j->K + k] =
            k == (size_t)j->a->label[text]
                ? 0
                : (real)lead(j, text, k, j->plans + slot * j->F, place, j->sum + slot * j->room);
}

/* The most words, with all substitutes, that a text has. */
static size_t most_words(const joint *j)
{
    const batch_sets *s = j->a->s;
    size_t most = 0;
    for (size_t text = 0; text < j->seq->n_texts; text++) {
        size_t n = 0;
        for (size_t t = j->seq->start[text]; t < j->seq->start[text + 1]; t++)
            n += 1 + s->start[j->seq->row[t] + 1] - s->start[j->seq->row[t]];
        most = n > most ? n : most;
    }
    return most;
}

static stet_status joint_fwd(tape *t, node *n)
{
    joint j = joint_of(n);
    const size_t B = j.seq->n_texts, workers = (size_t)stet_threads();
    kept *keep = n->saved = arena_new(t->mem, kept, 1);
    j.choices = arena_new(t->mem, choice, B * j.K * j.F);
    j.word = arena_new(t->mem, uint32_t, j.K * j.seq->n_tokens);
    if (!keep || !j.choices || !j.word)
        return STET_ENOMEM;
    *keep = (kept){j.choices, j.word};
    const arena_mark scratch = arena_save(t->mem);
    j.room = most_words(&j);
    j.plans = arena_new(t->mem, plan, workers * j.F);
    j.place = arena_new(t->mem, uint32_t, workers * (j.seq->max_len + 1));
    j.sum = arena_new(t->mem, double, workers *j.room);
    if (!j.plans || !j.place || !j.sum)
        return STET_ENOMEM;
    pool_run(B, text_piece, &j);
    arena_restore(t->mem, scratch);
    return STET_OK;
}

/* ---- backward ----------------------------------------------------------------------------- */

/* Gradient g of the response of the window at `at` with these words; NULL: with the smallest or
 * largest value of each. */
static void add_window(const joint *j, size_t text, size_t f, size_t at, const uint32_t *word,
                       bool upper, real g)
{
    const kernel *c = j->now;
    const uint32_t *row = j->seq->row + j->seq->start[text] + at;
    const size_t k = c->filters.k, taps = taps_in(c, text_len(j, text)), cols = c->w->cols;
    if (g == 0)
        return;
    for (size_t l = 0; l < taps; l++) {
        const size_t col = l * c->filters.F + f;
        const uint32_t at_l = word    ? word[at + l]
                              : upper ? batch_sets_argmax(j->a->s, c->w->table, cols, row[l], col)
                                      : batch_sets_argmin(j->a->s, c->w->table, cols, row[l], col);
        tap_terms_add_word(&j->terms, f * k + l, g, (real)j->a->eps, at_l, row[l]);
    }
    if (j->db)
        j->db[f] += g;
}

/* The windows of one filter, in the order of texts. */
static void filter_piece(void *ctx, size_t f, int worker)
{
    (void)worker;
    const joint *j = ctx;
    for (size_t text = 0; text < j->seq->n_texts; text++)
        for (size_t k = 0; k < j->K; k++) {
            if (k == (size_t)j->a->label[text])
                continue;
            const real g = -j->dz[text * j->K + k]; /* of the margin's bound */
            const choice *c = &j->choices[(text * j->K + k) * j->F + j->now->first + f];
            const uint32_t *word = j->word + k * j->seq->n_tokens + j->seq->start[text];
            add_window(j, text, f, c->at, word, false, g * c->response);
            add_window(j, text, f, c->at, NULL, false, g * c->lower);
            add_window(j, text, f, c->at, NULL, true, g * c->upper);
            add_window(j, text, f, c->next_at, NULL, true, g * c->next);
        }
}

static void head_gradient(const joint *j, real *dw, real *db)
{
    for (size_t text = 0; text < j->seq->n_texts; text++) {
        const size_t y = (size_t)j->a->label[text];
        for (size_t k = 0; k < j->K; k++) {
            const real g = k == y ? 0 : -j->dz[text * j->K + k];
            const choice *c = j->choices + (text * j->K + k) * j->F;
            for (size_t f = 0; dw && k != y && f < j->F; f++) {
                const real keep = j->mask ? j->mask[text * j->F + f] : 1;
                dw[y * j->F + f] += g * keep * c[f].omega;
                dw[k * j->F + f] -= g * keep * c[f].omega;
            }
            if (db) {
                db[y] += g;
                db[k] -= g;
            }
        }
    }
}

static stet_status joint_bwd(tape *t, node *n)
{
    joint j = joint_of(n);
    const kept *keep = n->saved;
    j.choices = keep->choices;
    j.word = keep->word;
    j.dz = n->grad;
    const node *rows = n->in[2 * j.n + 2];
    head_gradient(&j, n->in[2 * j.n]->grad, n->in[2 * j.n + 1]->grad);
    enum { WINDOWS = 4 };
    const size_t cap = j.seq->n_texts * (j.K - 1) * WINDOWS * (j.a->eps < 1 ? 2 : 1);
    for (size_t i = 0; i < j.n; i++) {
        const arena_mark scratch = arena_save(t->mem);
        j.now = &j.kernel[i];
        j.db = n->in[2 * i + 1]->grad;
        TRY(tap_terms_make(&j.now->filters, cap, t->mem, &j.terms));
        pool_run(j.now->filters.F, filter_piece, &j);
        if (n->in[2 * i]->grad)
            conv_weight_gradient(&j.now->filters, &j.terms, rows->value, n->in[2 * i]->grad);
        if (rows->grad)
            TRY(conv_rows_gradient(&j.now->filters, &j.terms, t->mem, rows->grad));
        arena_restore(t->mem, scratch);
    }
    return STET_OK;
}

static stet_status joint_infer(const node *n, shape *out)
{
    const joint_args *a = n->args;
    *out = shape2(a->s->seq->n_texts, shape_rows(n->in[2 * a->n]->shape));
    return op_expect_count(n, 2 * (int)a->n + 1, out->dim[1], "the last bias");
}

const op_desc conv_joint_op = {
    .name = "conv_joint",
    .n_in = -1,
    .infer = joint_infer,
    .forward = {[DEV_CPU] = joint_fwd, CUDA_KERNEL(cuda_conv_joint_fwd)},
    .backward = {[DEV_CPU] = joint_bwd, CUDA_KERNEL(cuda_conv_joint_bwd)},
};

node *op_conv_joint(tape *t, const joint_args *a, node *const *conv, node *fc_w, node *fc_b)
{
    node *in[2 * CNN_MAX_KERNELS + 3];
    for (size_t i = 0; i < 2 * a->n; i++)
        in[i] = conv[i];
    in[2 * a->n] = fc_w;
    in[2 * a->n + 1] = fc_b;
    in[2 * a->n + 2] = a->s->rows;
    joint_args own = *a;
    own.label = tape_twin(t, a->label, a->s->seq->n_texts * sizeof *a->label);
    return tape_push(t, &conv_joint_op, in, 2 * (int)a->n + 3, &own, sizeof own);
}
