/* verify/ver_bilstm.c - margins of the bidirectional LSTM from tubes around its states: from the
 * boxes at the ends, from the transposed recurrence of deviations, from generators. The best of
 * them counts. The last layer sees the last states, or the largest or mean of each unit. */
#include <string.h>

#include "verify/ver_lstm.h"
#include "verify/ver_scores.h"

static const double RUNAWAY = 1e100; /* beyond, a bound says nothing and doubles might overflow */

/* Words that are read together, as a text of their own. */
typedef struct piece {
    ver_task t;
    size_t word; /* its first, among those of the text */
    ver_read read[2];
    ver_tube tube[VER_LEVELS][2];
} piece;

/* States 1 .. n are those after 1, 2, ... words of the first piece, then of the second, and so on. */
typedef struct state {
    piece *piece;
    size_t pieces, span;
    bool built[VER_LEVELS];
    double *take; /* (words) least that a word contributes, over both directions */
    double *drop; /* (positions) */
    double *size; /* (2H) largest features */
    double *value, *om; /* (2H) what a feature adds: value + om Dh of the state after at words */
    size_t *at, *here;  /* (2H), and (H) in a piece */
    iv *lam, *lam_c, *lam_E, *kap, *next; /* (H) */
} state;

static stet_status open_piece(ver_work *w, size_t k)
{
    const ver_task *t = w->t;
    const state *s = w->state;
    piece *x = &s->piece[k];
    const size_t first = k * s->span, n = t->n - first < s->span ? t->n - first : s->span;
    uint32_t *start = arena_new(&w->mem, uint32_t, n + 1);
    if (!start)
        return STET_ENOMEM;
    for (size_t p = 0; p <= n; p++)
        start[p] = t->start[first + p] - t->start[first];
    x->word = t->start[first];
    x->t = (ver_task){.n = n, .start = start, .word = t->word + x->word};
    for (int d = 0; d < 2; d++)
        TRY(ver_read_text(&x->read[d], w->m, &x->t, d == 1, &w->mem));
    return STET_OK;
}

static stet_status open(ver_work *w)
{
    const ver_task *t = w->t;
    const size_t H = w->m->hidden;
    state *s = arena_znew(&w->mem, state, 1);
    if (!s)
        return STET_ENOMEM;
    w->state = s;
    TRY(ver_scores_open(w));
    s->span = w->m->span < t->n ? w->m->span : t->n;
    s->pieces = (t->n + s->span - 1) / s->span;
    s->piece = arena_znew(&w->mem, piece, s->pieces);
    if (!s->piece)
        return STET_ENOMEM;
    for (size_t k = 0; k < s->pieces; k++)
        TRY(open_piece(w, k));
    s->take = arena_new(&w->mem, double, t->start[t->n]);
    s->drop = arena_new(&w->mem, double, t->n);
    s->size = arena_new(&w->mem, double, 2 * H);
    s->value = arena_new(&w->mem, double, 2 * H);
    s->om = arena_new(&w->mem, double, 2 * H);
    s->at = arena_new(&w->mem, size_t, 3 * H);
    s->lam = arena_new(&w->mem, iv, 5 * H);
    if (!s->take || !s->drop || !s->size || !s->value || !s->om || !s->at || !s->lam)
        return STET_ENOMEM;
    s->here = s->at + 2 * H;
    s->lam_c = s->lam + H;
    s->lam_E = s->lam_c + H;
    s->kap = s->lam_E + H;
    s->next = s->kap + H;
    return STET_OK;
}

static bool bounded(iv x)
{
    return x.lo > -RUNAWAY && x.hi < RUNAWAY; /* false for NaN */
}

static double weight_of(const ver_model *m, int label, int other, size_t f)
{
    return (double)m->fc_w[(size_t)label * m->features + f] -
           m->fc_w[(size_t)other * m->features + f];
}

/* State of feature f, from 1 on: clean, and its box. */
static double clean_at(const ver_work *w, size_t f, size_t words)
{
    const state *s = w->state;
    const size_t H = w->m->hidden, k = (words - 1) / s->span, at = (words - 1) % s->span + 1;
    return s->piece[k].read[f / H].h[at * H + f % H];
}

static iv box_at(const ver_work *w, ver_level level, size_t f, size_t words)
{
    const state *s = w->state;
    const size_t H = w->m->hidden, k = (words - 1) / s->span, at = (words - 1) % s->span + 1;
    return s->piece[k].tube[level][f / H].h_at[at * H + f % H];
}

/* The feature's own box; *size: no state of it is larger. */
static iv feature(const ver_work *w, ver_level level, size_t f, double *size)
{
    const size_t n = w->t->n;
    iv y = box_at(w, level, f, n);
    *size = iv_mag(y);
    for (size_t p = 1; w->m->pool != VER_LAST && p < n; p++) {
        const iv h = box_at(w, level, f, p);
        y = w->m->pool == VER_MEAN ? iv_add(y, h) : (iv){iv_max(y.lo, h.lo), iv_max(y.hi, h.hi)};
        *size = iv_max(*size, iv_mag(h));
    }
    return w->m->pool == VER_MEAN ? iv_out(y.lo / (double)n, y.hi / (double)n) : y;
}

/* Biases of both classes and the rounding of the last layer, and of the mean before it. */
static ver_sum head(const ver_work *w, int label, int other, ver_level level)
{
    const ver_model *m = w->m;
    const state *s = w->state;
    double weights = 0;
    for (size_t f = 0; f < m->features; f++) {
        feature(w, level, f, &s->size[f]);
        weights += (fabs((double)m->fc_w[(size_t)label * m->features + f]) +
                    fabs((double)m->fc_w[(size_t)other * m->features + f])) *
                   s->size[f];
    }
    const double mean = m->pool == VER_MEAN ? ver_gamma32(w->t->n + 4) * weights + VER_TINY : 0;
    ver_sum sum = {0};
    ver_add(&sum, m->fc_b[label], ver_head_error(m, label, other, s->size) + mean);
    ver_add(&sum, -(double)m->fc_b[other], 0);
    return sum;
}

static double box_bound(const ver_work *w, int label, int other, ver_level level)
{
    const ver_model *m = w->m;
    const state *s = w->state;
    ver_sum sum = head(w, label, other, level);
    for (size_t f = 0; f < m->features; f++) {
        double size;
        ver_add(&sum, iv_scale(weight_of(m, label, other, f), feature(w, level, f, &size)).lo, 0);
    }
    ver_add(&sum, ver_scores_worst(w, label, other, s->drop), 0);
    return ver_lower(&sum);
}

static double margin(const ver_work *w, int label, int other)
{
    const ver_model *m = w->m;
    double sum = (double)m->fc_b[label] - m->fc_b[other];
    for (size_t f = 0; f < m->features; f++) {
        double y = clean_at(w, f, w->t->n);
        for (size_t p = 1; m->pool != VER_LAST && p < w->t->n; p++)
            y = m->pool == VER_MEAN ? y + clean_at(w, f, p) : iv_max(y, clean_at(w, f, p));
        sum += weight_of(m, label, other, f) * (m->pool == VER_MEAN ? y / (double)w->t->n : y);
    }
    return sum + ver_scores_margin(w, label, other);
}

/* ---- what is felt of each feature --------------------------------------------------------- */

/* om y for the largest state y. om > 0: y >= any one state, so that of the clean text's largest. om < 0:
 * y <= max(h, rest) for the state h with the highest box [lo, hi] and the highest end `rest` of all
 * others; that is convex in h, and below its chord over the box. */
static void feel_largest(const ver_work *w, ver_level level, size_t f, double om)
{
    const double tie = 1e-9; /* the first of equals, whoever computes them */
    state *s = w->state;
    size_t best = 1, top = 1;
    double rest = -INFINITY;
    for (size_t p = 2; p <= w->t->n; p++) {
        best = clean_at(w, f, p) > clean_at(w, f, best) + tie ? p : best;
        top = box_at(w, level, f, p).hi > box_at(w, level, f, top).hi ? p : top;
    }
    for (size_t p = 1; p <= w->t->n; p++)
        rest = p == top ? rest : iv_max(rest, box_at(w, level, f, p).hi);
    const iv box = box_at(w, level, f, top);
    const bool chord = om < 0 && rest > box.lo;
    s->at[f] = om < 0 ? top : best;
    /* rounded upward: a steeper chord is above, too */
    const double slope = chord ? (box.hi - rest) / (box.hi - box.lo) * (1 + 0x1p-48) : 1,
                 h = clean_at(w, f, s->at[f]);
    s->value[f] = om * (chord ? rest + slope * (h - box.lo) : h);
    s->om[f] = om * slope;
}

static void feel_features(const ver_work *w, int label, int other, ver_level level)
{
    state *s = w->state;
    const size_t n = w->t->n;
    for (size_t f = 0; f < w->m->features; f++) {
        const double om = weight_of(w->m, label, other, f);
        if (w->m->pool == VER_LARGEST) {
            feel_largest(w, level, f, om);
            continue;
        }
        double sum = clean_at(w, f, n);
        for (size_t p = 1; w->m->pool == VER_MEAN && p < n; p++)
            sum += clean_at(w, f, p);
        s->om[f] = w->m->pool == VER_MEAN ? om / (double)n : om;
        s->value[f] = s->om[f] * sum;
        s->at[f] = n;
    }
}

/* What is felt of direction d of piece k. */
static ver_aim aim_of(const ver_work *w, size_t k, int d)
{
    const state *s = w->state;
    const size_t first = (size_t)d * w->m->hidden;
    for (size_t i = 0; i < w->m->hidden; i++) {
        const size_t at = s->at[first + i] - 1;
        s->here[i] = at / s->span == k ? at % s->span + 1 : SIZE_MAX;
    }
    return (ver_aim){s->om + first, w->m->pool == VER_MEAN ? NULL : s->here};
}

/* The clean margin, what positions take within the budget, and `loss`. */
static double sum_bound(const ver_work *w, int label, int other, ver_level level, double loss)
{
    const ver_model *m = w->m;
    const state *s = w->state;
    const ver_task *t = w->t;
    ver_sum sum = head(w, label, other, level);
    for (size_t f = 0; f < m->features; f++) /* deviations and states are below 4 */
        ver_add(&sum, s->value[f],
                m->pool == VER_LAST
                    ? 0
                    : 8 * ver_gamma64(t->n + 16) * fabs(weight_of(m, label, other, f)));
    for (size_t p = 0; p < t->n; p++) {
        const double own = ver_score_least(w, t->start[p], label, other);
        s->drop[p] = 0;
        for (size_t k = t->start[p] + 1; k < t->start[p + 1]; k++)
            s->drop[p] = fmin(s->drop[p], ver_down(s->take[k] + ver_down(ver_score_least(w, k, label, other) - own)));
        ver_add(&sum, own, 0);
    }
    ver_add(&sum, ver_within_budget(t, 0, s->drop, t->n), 0);
    ver_add(&sum, -loss, 0); /* lines may also gain */
    return ver_lower(&sum);
}

/* ---- the transposed recurrence ------------------------------------------------------------ */

/* What each word of the step's position contributes at least. */
static void words_back(const state *s, const ver_read *r, const iv *P, size_t step, double *take)
{
    const size_t H = r->H, p = ver_place(r, step);
    const double *x0 = r->x + r->t->start[p] * GATES * H;
    for (size_t k = r->t->start[p] + 1; k < r->t->start[p + 1]; k++) {
        const double *x = r->x + k * GATES * H;
        ver_sum sum = {0};
        for (size_t i = 0; i < H; i++) {
            iv cell = {0, 0};
            for (size_t q = 0; q < GATE_O; q++)
                cell = iv_add(cell, iv_scale(x[q * H + i] - x0[q * H + i], P[q * H + i]));
            ver_add(&sum, iv_scale(x[GATE_O * H + i] - x0[GATE_O * H + i], s->lam_E[i]).lo, 0);
            ver_add(&sum, iv_mul(s->kap[i], cell).lo, 0);
        }
        take[k] += ver_lower(&sum);
    }
}

/* What the rounding of the step takes. */
static double rounding_back(const state *s, const ver_read *r, const ver_tube *t, size_t step)
{
    const size_t H = r->H;
    const iv *P = t->P + step * GATE_O * H;
    const double *e_T = r->e_T + step * GATES * H;
    double loss = 0;
    for (size_t i = 0; i < H; i++) {
        double cell = t->e_c[step * H + i];
        for (size_t q = 0; q < GATE_O; q++)
            cell += iv_mag(P[q * H + i]) * e_T[q * H + i];
        loss += iv_mag(s->kap[i]) * cell + iv_mag(s->lam_E[i]) * e_T[GATE_O * H + i] +
                iv_mag(s->lam[i]) * t->e_h;
    }
    return loss * (1 + ver_gamma64(6 * H + 8));
}

/* lam before the step, in two forms that enclose the same; false: too large to go on. */
static bool states_back(state *s, const ver_read *r, const ver_tube *t, size_t step)
{
    const size_t H = r->H;
    const iv *P = t->P + step * GATE_O * H, *E = t->E + step * H, *G = t->G + step * H;
    bool fine = true;
    for (size_t j = 0; j < H; j++) {
        iv one = {0, 0}, two = {0, 0};
        for (size_t i = 0; i < H; i++) {
            const double u_o = r->p->w_hh[(GATE_O * H + i) * H + j];
            iv B = {0, 0};
            for (size_t q = 0; q < GATE_O; q++)
                B = iv_add(B, iv_scale(r->p->w_hh[(q * H + i) * H + j], P[q * H + i]));
            const iv M = iv_add(iv_scale(u_o, E[i]), iv_mul(G[i], B));
            one = iv_add(one, iv_add(iv_mul(s->lam[i], M), iv_mul(s->lam_c[i], B)));
            two = iv_add(two, iv_add(iv_scale(u_o, s->lam_E[i]), iv_mul(s->kap[i], B)));
        }
        s->next[j] = iv_cap(one, two);
        fine = fine && bounded(one) && bounded(two);
    }
    memcpy(s->lam, s->next, H * sizeof *s->lam);
    for (size_t i = 0; i < H; i++) {
        s->lam_c[i] = iv_mul(s->kap[i], t->F[step * H + i]);
        fine = fine && bounded(s->lam_c[i]);
    }
    return fine;
}

/* Back through direction d of a piece; what is lost beside the words. INFINITY: no bound. */
static double piece_back(const ver_work *w, size_t k, int d, ver_level level)
{
    state *s = w->state;
    const size_t H = w->m->hidden;
    const ver_read *r = &s->piece[k].read[d];
    const ver_tube *t = &s->piece[k].tube[level][d];
    const ver_aim aim = aim_of(w, k, d);
    double loss = 0;
    for (size_t i = 0; i < H; i++) {
        const double om = ver_feels(&aim, r->n, i);
        s->lam[i] = iv_out(om, om);
        s->lam_c[i] = (iv){0, 0};
    }
    for (size_t step = r->n; step-- > 0;) {
        for (size_t i = 0; i < H; i++) {
            s->lam_E[i] = iv_mul(s->lam[i], t->E[step * H + i]);
            s->kap[i] = iv_add(iv_mul(s->lam[i], t->G[step * H + i]), s->lam_c[i]);
        }
        words_back(s, r, t->P + step * GATE_O * H, step, s->take + s->piece[k].word);
        loss = ver_up(loss + rounding_back(s, r, t, step));
        if (!states_back(s, r, t, step))
            return INFINITY;
        for (size_t i = 0; i < H; i++) {
            const double om = ver_feels(&aim, step, i);
            s->lam[i] = iv_add(s->lam[i], iv_out(om, om));
        }
    }
    return loss;
}

static double adjoint_bound(const ver_work *w, int label, int other, ver_level level)
{
    state *s = w->state;
    double loss = 0;
    memset(s->take, 0, w->t->start[w->t->n] * sizeof *s->take);
    for (int d = 0; d < 2; d++)
        for (size_t k = 0; k < s->pieces; k++)
            loss = ver_up(loss + piece_back(w, k, d, level));
    return loss < INFINITY ? sum_bound(w, label, other, level, loss) : -INFINITY;
}

/* ---- generators --------------------------------------------------------------------------- */

/* Of last states, which a text in pieces does not have. */
static double affine_bound(const ver_work *w, int label, int other)
{
    const ver_model *m = w->m;
    const state *s = w->state;
    const ver_tube *tube = s->piece[0].tube[VER_AFFINE];
    const size_t H = m->hidden, words = w->t->start[w->t->n];
    ver_sum loss = {0};
    for (size_t k = 0; k < words; k++) {
        ver_sum sum = {0};
        for (size_t f = 0; f < 2 * H; f++)
            ver_add(&sum, weight_of(m, label, other, f) * tube[f / H].a.h[k * H + f % H], 0);
        s->take[k] = ver_lower(&sum);
    }
    for (size_t f = 0; f < 2 * H; f++) {
        const double om = weight_of(m, label, other, f);
        const ver_affine *a = &tube[f / H].a;
        ver_add(&loss, fabs(om) * a->e_h[f % H] - om * a->m_h[f % H], 0);
    }
    return sum_bound(w, label, other, VER_AFFINE, loss.value + ver_error(&loss));
}

/* ---- lines -------------------------------------------------------------------------------- */

/* With a budget it may pay to tell all words apart. */
static stet_status lines_bound(ver_work *w, int label, int other, bool all, double *out)
{
    state *s = w->state;
    double loss = 0;
    memset(s->take, 0, w->t->start[w->t->n] * sizeof *s->take);
    for (int d = 0; d < 2; d++)
        for (size_t k = 0; k < s->pieces; k++) {
            const piece *x = &s->piece[k];
            const ver_aim aim = aim_of(w, k, d);
            double more;
            TRY(ver_lines_back(&x->read[d], &x->tube[VER_LINEAR][d], &aim, all, &w->mem,
                               s->take + x->word, &more));
            loss = d + k ? ver_up(loss + more) : more;
        }
    *out = sum_bound(w, label, other, VER_LINEAR, loss);
    return STET_OK;
}

/* ---- methods ------------------------------------------------------------------------------ */

static const char *const methods[] = {"ibp", "gbm", "slope", "adjoint", "affine", "linear", NULL};

static stet_status bound(ver_work *w, int label, int other, const char *method,
                         const json_t *witness, double *out)
{
    static const ver_level levels[] = {VER_BOX,   VER_DERIVATIVE, VER_SLOPE,
                                       VER_SLOPE, VER_AFFINE,     VER_LINEAR};
    state *s = w->state;
    size_t k = 0;
    while (strcmp(methods[k], method) != 0)
        k++;
    const ver_level level = levels[k];
    if (witness)
        return error_set(STET_EFORMAT, "a witness, which \"%s\" does not have", method);
    bool overflows = false;
    for (size_t i = 0; i < 2 * s->pieces; i++) {
        piece *x = &s->piece[i / 2];
        overflows = overflows || x->read[i % 2].overflows;
        if (!s->built[level])
            TRY(ver_tube_build(&x->read[i % 2], level, &w->mem, &x->tube[level][i % 2]));
    }
    s->built[level] = true;
    *out = -INFINITY;
    if (overflows)
        return STET_OK;
    *out = box_bound(w, label, other, level);
    feel_features(w, label, other, level);
    if (strcmp(method, "ibp") != 0 && strcmp(method, "slope") != 0)
        *out = fmax(*out, adjoint_bound(w, label, other, level));
    double more = -INFINITY;
    if (level == VER_AFFINE && w->m->pool == VER_LAST) /* generators end with the text */
        more = affine_bound(w, label, other);
    for (int all = 0; level == VER_LINEAR && all < 2; all++) {
        *out = fmax(*out, more);
        TRY(lines_bound(w, label, other, all, &more));
    }
    *out = fmax(*out, more);
    return STET_OK;
}

const ver_kind ver_bilstm = {"bilstm", methods, "adjoint", open, bound, margin};
