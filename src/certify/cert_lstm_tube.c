/* certify/cert_lstm_tube.c - one walk along the text, boxes and coefficients step by step. */
#include <math.h>

#include "certify/cert_activation.h"
#include "certify/cert_lstm_rows.h"
#include "certify/cert_lstm_walk.h"

/* One gate over its pre-activations: ranges and slopes. */
static inline void gate(lstm_walk *w, size_t q, bool is_tanh)
{
    const size_t H = w->H;
    const bool derivatives = w->tube->level == TUBE_GBM;
    const ivals T = ivals_from(w->tube->T, w->step * 4 * H);
    const double *clean = w->t->T + w->step * 4 * H;
    for (size_t r = q * H; r < (q + 1) * H; r++) {
        const act_point a = act_at(is_tanh, T.lo[r]), b = act_at(is_tanh, T.hi[r]);
        ival_put(w->act, r, act_range(is_tanh, a, b));
        if (w->tube->level != TUBE_BOX)
            ival_put(w->slope, r,
                     derivatives ? act_derivatives(is_tanh, a, b)
                                 : act_slopes(is_tanh, act_at(is_tanh, clean[r]), a, b));
    }
}

static void gates(lstm_walk *w)
{
    for (size_t q = 0; q < GATES; q++)
        if (q == GG)
            gate(w, q, true);
        else
            gate(w, q, false);
}

/* ---- a step ------------------------------------------------------------------------------- */

/* What the words of the position may be, projected. */
static void input_range(lstm_walk *w)
{
    const size_t H4 = 4 * w->H, p = lstm_place(w->t, w->step), first = w->t->start[p];
    rows_hull(w->t->start[p + 1] - first, H4, w->t->x + first * H4, w->x.lo, w->x.hi);
}

/* What the states before the step bring to the pre-activations, of all walks together. */
static void states(lstm_walk *w, size_t count)
{
    const size_t H = w->H;
    for (size_t k = 0; k < count; k++) {
        const ivals h = ivals_from(w[k].tube->h, w[k].step * H);
        for (size_t i = 0; i < H; i++) {
            w[k].h_mid[i] = ival_mid(ival_at(h, i));
            w[k].h_rad[i] = ival_rad(ival_at(h, i));
        }
    }
    rows_range(count, 4 * H, H, w->t->cell->ut, w->h_mid, w->h_rad, w->mid, w->rad);
}

static void pre_activations(lstm_walk *w)
{
    const size_t H = w->H;
    const lstm_cell64 *cell = w->t->cell;
    const ivals T = ivals_from(w->tube->T, w->step * 4 * H);
    const double *clean = w->t->T + w->step * 4 * H, *e_T = w->t->e_T + w->step * 4 * H;
    input_range(w);
    for (size_t r = 0; r < 4 * H; r++) {
        const ival x = ival_at(w->x, r);
        const double by =
            w->rad[r] + e_T[r] + w->eps * (ival_mag(x) + 2 * cell->u_sum[r] + cell->b_sum[r]);
        ival_put(
            T, r,
            ival_with(
                ival_widen(ival_add(x, (ival){w->mid[r] + cell->b[r], w->mid[r] + cell->b[r]}), by),
                clean[r]));
    }
    if (w->affine)
        affine_gates(w);
}

/* Deviations from the clean text, before the step. */
static void deviations(lstm_walk *w)
{
    const size_t H = w->H, at = w->step * H;
    for (size_t i = 0; i < H; i++) {
        ival_put(w->dh, i, ival_sub(ival_at(w->tube->h, at + i), w->t->h[at + i]));
        ival_put(w->dc, i, ival_sub(ival_at(w->tube->c, at + i), w->t->c[at + i]));
    }
    for (size_t r = 0; r < 4 * H; r++)
        ival_put(w->dT, r, ival_sub(ival_at(w->tube->T, 4 * at + r), w->t->T[4 * at + r]));
}

/* Coefficients of the cell's deviation. */
static void cell_coefficients(lstm_walk *w)
{
    const size_t H = w->H, at = w->step * H;
    const bool derivatives = w->tube->level == TUBE_GBM;
    const ivals P = ivals_from(w->tube->P, 3 * at);
    const double *gate = w->t->gate + 4 * at;
    for (size_t i = 0; i < H; i++) {
        const ival clean_i = ival_out(gate[i], gate[i]),
                   clean_f = ival_out(gate[H + i], gate[H + i]);
        const ival in = derivatives ? ival_at(w->act, GI * H + i) : ival_widen(clean_i, act_error);
        ival_put(P, GI * H + i,
                 ival_mul(ival_at(w->slope, GI * H + i), ival_at(w->act, GG * H + i)));
        ival_put(P, GF * H + i,
                 ival_mul(ival_at(w->slope, GF * H + i), ival_at(w->tube->c, at + i)));
        ival_put(P, GG * H + i, ival_mul(ival_at(w->slope, GG * H + i), in));
        ival_put(w->tube->F, at + i,
                 derivatives ? ival_at(w->act, GF * H + i) : ival_widen(clean_f, act_error));
    }
}

/* Sum of P_q (x_s - x_0)_q over the gates i f g, for unit i and word k. */
static ival word_in_cell(const lstm_walk *w, size_t i, const double *x, const double *clean)
{
    const size_t H = w->H;
    const ivals P = ivals_from(w->tube->P, w->step * 3 * H);
    ival sum = {0, 0};
    for (size_t q = 0; q < GO; q++)
        sum = ival_add(sum, ival_scale(x[q * H + i] - clean[q * H + i], ival_at(P, q * H + i)));
    return sum;
}

/* The deviation of the cell in two forms, gate by gate and with words and states apart. */
static ival cell_deviation(const lstm_walk *w, size_t i)
{
    const size_t H = w->H, at = w->step * H, p = lstm_place(w->t, w->step);
    const lstm_cell64 *cell = w->t->cell;
    const ivals P = ivals_from(w->tube->P, 3 * at);
    const double e_c = w->tube->e_c[at + i], *e_T = w->t->e_T + 4 * at;
    const ival kept = ival_mul(ival_at(w->tube->F, at + i), ival_at(w->dc, i));
    ival by_gate = kept, by_word = {0, 0};
    double error = e_c, sum = 0;
    for (size_t q = 0; q < GO; q++) {
        const ival P_q = ival_at(P, q * H + i);
        by_gate = ival_add(by_gate, ival_mul(P_q, ival_at(w->dT, q * H + i)));
        error += ival_mag(P_q) * e_T[q * H + i];
        sum += ival_mag(P_q) * cell->u_sum[q * H + i];
    }
    const double *clean = w->t->x + w->t->start[p] * 4 * H;
    for (size_t k = w->t->start[p] + 1; k < w->t->start[p + 1]; k++)
        by_word = ival_hull(by_word, word_in_cell(w, i, w->t->x + k * 4 * H, clean));
    by_word = ival_add(by_word, ival_add(ival_at(w->out, i), kept));
    return ival_cap(ival_widen(by_gate, e_c), ival_widen(by_word, error + 4 * w->eps * sum));
}

static void next_cell(lstm_walk *w)
{
    const size_t H = w->H, at = w->step * H;
    const lstm_rounding *r = &w->t->rounding;
    const ivals next = ivals_from(w->tube->c, at + H);
    double *e_c = w->tube->e_c + at;
    if (w->tube->level > TUBE_IBP)
        rows_jacobian(H, w->t->cell->ut, ivals_from(w->tube->P, 3 * at), w->dh, w->bt, w->out);
    for (size_t i = 0; i < H; i++) {
        const ival c = ival_at(w->tube->c, at + i);
        e_c[i] = ((r->act + 4 * r->unit) * (1 + ival_mag(c)) + r->act) * (1 + 0x1p-10) + r->jump;
        ival box = ival_add(ival_mul(ival_at(w->act, GF * H + i), c),
                            ival_mul(ival_at(w->act, GI * H + i), ival_at(w->act, GG * H + i)));
        box = ival_widen(box, e_c[i]);
        const double clean = w->t->c[at + H + i];
        if (w->tube->level > TUBE_IBP) {
            const ival d = cell_deviation(w, i);
            box = ival_cap(box, ival_out(clean + d.lo, clean + d.hi));
        }
        ival_put(next, i, ival_with(box, clean));
    }
    if (w->affine)
        affine_cell(w);
    for (size_t i = 0; w->tube->level != TUBE_BOX && i < H; i++)
        ival_put(w->dc_next, i, ival_sub(ival_at(next, i), w->t->c[at + H + i]));
}

static void hidden_coefficients(lstm_walk *w)
{
    const size_t H = w->H, at = w->step * H;
    const bool derivatives = w->tube->level == TUBE_GBM;
    for (size_t i = 0; i < H; i++) {
        const ival c = ival_at(w->tube->c, at + H + i);
        const act_point a = act_at(true, c.lo), b = act_at(true, c.hi);
        const ival tau = act_range(true, a, b);
        ival_put(w->tau, i, tau);
        if (w->tube->level == TUBE_BOX)
            continue;
        const double clean_o = w->t->gate[4 * at + GO * H + i];
        const ival out = derivatives ? ival_at(w->act, GO * H + i)
                                     : ival_widen((ival){clean_o, clean_o}, act_error);
        const ival d = derivatives ? act_derivatives(true, a, b)
                                   : act_slopes(true, act_at(true, w->t->c[at + H + i]), a, b);
        ival_put(w->tube->E, at + i, ival_mul(ival_at(w->slope, GO * H + i), tau));
        const ival G = ival_mul(out, d);
        ival_put(w->tube->G, at + i, (ival){greater(0, G.lo), G.hi});
    }
}

/* The deviation of the hidden state, in two forms again. */
static ival hidden_deviation(const lstm_walk *w, size_t i)
{
    const size_t H = w->H, at = w->step * H, p = lstm_place(w->t, w->step);
    const lstm_cell64 *cell = w->t->cell;
    const ivals P = ivals_from(w->tube->P, 3 * at);
    const ival E = ival_at(w->tube->E, at + i), G = ival_at(w->tube->G, at + i);
    const double e_h = w->tube->e_h, *e_T = w->t->e_T + 4 * at;
    const ival by_gate =
        ival_add(ival_mul(E, ival_at(w->dT, GO * H + i)), ival_mul(G, ival_at(w->dc_next, i)));
    double error = w->tube->e_c[at + i], sum = 0;
    for (size_t q = 0; q < GO; q++) {
        error += ival_mag(ival_at(P, q * H + i)) * e_T[q * H + i];
        sum += ival_mag(ival_at(P, q * H + i)) * cell->u_sum[q * H + i];
    }
    error = e_h + ival_mag(E) * e_T[GO * H + i] + G.hi * error;
    sum = ival_mag(E) * cell->u_sum[GO * H + i] + G.hi * sum;
    ival by_word = {0, 0};
    const double *clean = w->t->x + w->t->start[p] * 4 * H;
    for (size_t k = w->t->start[p] + 1; k < w->t->start[p + 1]; k++) {
        const double *x = w->t->x + k * 4 * H;
        by_word = ival_hull(by_word, ival_add(ival_scale(x[GO * H + i] - clean[GO * H + i], E),
                                              ival_mul(G, word_in_cell(w, i, x, clean))));
    }
    const ival kept = ival_mul(ival_mul(G, ival_at(w->tube->F, at + i)), ival_at(w->dc, i));
    by_word = ival_add(by_word, ival_add(ival_at(w->out, i), kept));
    return ival_cap(ival_widen(by_gate, e_h), ival_widen(by_word, error + 4 * w->eps * sum));
}

static void next_hidden(lstm_walk *w)
{
    const size_t H = w->H, at = w->step * H;
    const ivals next = ivals_from(w->tube->h, at + H);
    const double limit = 1 + 8 * w->t->rounding.act;
    hidden_coefficients(w);
    if (w->tube->level > TUBE_IBP)
        rows_through(H, w->t->cell->ut, ivals_from(w->tube->E, at), ivals_from(w->tube->G, at),
                     w->bt, w->dh, w->out);
    for (size_t i = 0; i < H; i++) {
        ival box =
            ival_widen(ival_mul(ival_at(w->act, GO * H + i), ival_at(w->tau, i)), w->tube->e_h);
        box = ival_cap(box, (ival){-limit, limit});
        const double clean = w->t->h[at + H + i];
        if (w->tube->level > TUBE_IBP) {
            const ival d = hidden_deviation(w, i);
            box = ival_cap(box, ival_out(clean + d.lo, clean + d.hi));
        }
        ival_put(next, i, ival_with(box, clean));
    }
    if (w->affine)
        affine_hidden(w);
}

/* ---- the walk ----------------------------------------------------------------------------- */

static ivals ivals_new(arena *a, size_t n)
{
    double *block = arena_new(a, double, 2 * n);
    return (ivals){block, block ? block + n : NULL};
}

static stet_status tube_alloc(lstm_tube *tube, size_t n, size_t H, arena *a)
{
    tube->T = ivals_new(a, n * 4 * H);
    tube->h = ivals_new(a, (n + 1) * H);
    tube->c = ivals_new(a, (n + 1) * H);
    tube->e_c = arena_new(a, double, n *H);
    bool ok = tube->T.lo && tube->h.lo && tube->c.lo && tube->e_c;
    for (size_t i = 0; ok && i < H; i++) {
        ival_put(tube->h, i, (ival){0, 0});
        ival_put(tube->c, i, (ival){0, 0});
    }
    if (tube->level != TUBE_BOX) {
        tube->P = ivals_new(a, n * 3 * H);
        tube->E = ivals_new(a, n * H);
        tube->G = ivals_new(a, n * H);
        tube->F = ivals_new(a, n * H);
        ok = ok && tube->P.lo && tube->E.lo && tube->G.lo && tube->F.lo;
    }
    return ok ? STET_OK : STET_ENOMEM;
}

/* What walks side by side may share: a step is done with it when it ends. */
static stet_status step_alloc(lstm_walk *w, arena *a)
{
    const size_t H = w->H;
    ivals *const wide[] = {&w->x, &w->act, &w->slope, &w->dT}, *const narrow[] = {&w->dh, &w->dc,
                                                                                  &w->dc_next,
                                                                                  &w->out};
    bool ok = true;
    for (int k = 0; k < 4; k++) {
        *wide[k] = ivals_new(a, 4 * H);
        *narrow[k] = ivals_new(a, H);
        ok = ok && wide[k]->lo && narrow[k]->lo;
    }
    w->tau = ivals_new(a, H);
    if (w->tube->level > TUBE_IBP)
        w->bt = ivals_new(a, H * H);
    return ok && w->tau.lo && (w->bt.lo || w->tube->level <= TUBE_IBP) ? STET_OK : STET_ENOMEM;
}

/* Walk w[0] has its text and tube; the others are given theirs, and all their place in the states. */
static stet_status walks_alloc(lstm_walk *w, lstm_tube *const *tube, lstm_text *const *t,
                               size_t count, arena *a)
{
    const size_t H = w->H;
    double *state = arena_new(a, double, count * 10 * H);
    if (!state)
        return STET_ENOMEM;
    TRY(step_alloc(w, a));
    for (size_t k = count; k-- > 0;) {
        w[k] = w[0];
        w[k].t = t[k];
        w[k].tube = tube[k];
        w[k].mid = state + k * 4 * H;
        w[k].rad = state + (count + k) * 4 * H;
        w[k].h_mid = state + (8 * count + k) * H;
        w[k].h_rad = state + (9 * count + k) * H;
        if (tube[k]->level >= TUBE_AFFINE)
            TRY(affine_start(&w[k], a));
    }
    return STET_OK;
}

static void one_step(lstm_walk *w)
{
    pre_activations(w);
    gates(w);
    if (w->tube->level != TUBE_BOX) {
        cell_coefficients(w);
        deviations(w);
    }
    next_cell(w);
    next_hidden(w);
    w->step++;
}

static stet_status walk(lstm_tube *const *tube, lstm_text *const *t, size_t count, arena *a)
{
    const size_t H = t[0]->cell->H;
    lstm_walk w[LSTM_ABREAST] = {
        {.t = t[0], .tube = tube[0], .H = H, .eps = (double)(H + 32) * ival_step}};
    TRY(walks_alloc(w, tube, t, count, a));
    for (size_t step = 0; (count = lstm_reach(t, count, step)) > 0; step++) {
        states(w, count);
        for (size_t k = 0; k < count; k++)
            one_step(&w[k]);
    }
    return STET_OK;
}

stet_status lstm_tubes_build(lstm_tube *const *tube, lstm_text *const *t, size_t count,
                             tube_level level, arena *a)
{
    for (size_t k = 0; k < count; k++) {
        const lstm_rounding *r = &t[k]->rounding;
        const double e_h = (2 * r->act + 4 * r->unit) * (1 + 0x1p-10) + r->jump;
        *tube[k] = (lstm_tube){.level = level, .e_h = e_h};
        TRY(tube_alloc(tube[k], t[k]->n, t[k]->cell->H, a));
        if (level >= TUBE_AFFINE)
            TRY(affine_alloc(tube[k], t[k], a));
    }
    const arena_mark mark = arena_save(a);
    const stet_status st = walk(tube, t, count, a);
    arena_restore(a, mark);
    return st;
}
