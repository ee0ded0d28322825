/* verify/ver_lstm.c - reading a text, and boxes and coefficients step by step. */
#include "verify/ver_lstm.h"

#include <string.h>

/* An activation of the program is within 2 units in the last place of the true value: less than
 * ACT; ours, in double, within LIBM. UNIT is the rounding of float32. */
static const double ACT = 0x1p-22, UNIT = 0x1p-24, LIBM = 0x1p-50;

/* ---- the clean text ----------------------------------------------------------------------- */

size_t ver_place(const ver_read *r, size_t step)
{
    return r->reverse ? r->n - 1 - step : step;
}

/* Products of all words with the input weights; size (words, 4H) takes the sums of their terms. */
static void project(ver_read *r, const ver_model *m, double *size)
{
    for (size_t k = 0; k < r->t->start[r->n]; k++)
        for (size_t q = 0; q < GATES * r->H; q++) {
            const float *w = r->p->w_ih + q * r->D, *e = m->table + r->t->word[k] * r->D;
            double x = 0, abs = VER_TINY;
            for (size_t d = 0; d < r->D; d++) {
                x += (double)w[d] * e[d];
                abs += fabs((double)w[d] * e[d]);
            }
            r->x[k * GATES * r->H + q] = x;
            size[k * GATES * r->H + q] = abs;
        }
}

/* What a step may get wrong about a pre-activation: a dot product of length D, one of length H with
 * states of at most 1, two biases, and our own sums. */
static void local_errors(ver_read *r, const double *size)
{
    const size_t H4 = GATES * r->H;
    const double g = ver_gamma32(r->D + r->H + 4) + 4 * ver_gamma64(r->D + r->H + 8);
    for (size_t step = 0; step < r->n; step++) {
        const size_t p = ver_place(r, step);
        for (size_t q = 0; q < H4; q++) {
            double most = 0, u = fabs((double)r->p->b_ih[q]) + fabs((double)r->p->b_hh[q]);
            for (size_t k = r->t->start[p]; k < r->t->start[p + 1]; k++)
                most = fmax(most, size[k * H4 + q]);
            for (size_t j = 0; j < r->H; j++)
                u += fabs((double)r->p->w_hh[q * r->H + j]);
            r->e_T[step * H4 + q] = g * (most + u) * (1 + 0x1p-16);
            r->overflows = r->overflows || !(most + u < VER_OVERFLOWS);
        }
    }
}

static void clean_step(ver_read *r, size_t step)
{
    const size_t H = r->H;
    const double *x = r->x + r->t->start[ver_place(r, step)] * GATES * H, *h = r->h + step * H;
    double *T = r->T + step * GATES * H, *gate = r->gate + step * GATES * H;
    for (size_t q = 0; q < GATES * H; q++) {
        T[q] = x[q] + r->p->b_ih[q] + r->p->b_hh[q];
        for (size_t j = 0; j < H; j++)
            T[q] += r->p->w_hh[q * H + j] * h[j];
        gate[q] = ver_activation(q / H == GATE_G, T[q]);
    }
    for (size_t i = 0; i < H; i++) {
        double *c = &r->c[(step + 1) * H + i];
        *c =
            gate[GATE_F * H + i] * r->c[step * H + i] + gate[GATE_I * H + i] * gate[GATE_G * H + i];
        r->h[(step + 1) * H + i] = gate[GATE_O * H + i] * tanh(*c);
    }
}

stet_status ver_read_text(ver_read *r, const ver_model *m, const ver_task *t, bool reverse,
                          arena *a)
{
    const size_t H = m->hidden, words = t->start[t->n];
    *r = (ver_read){
        .p = &m->lstm[reverse], .t = t, .n = t->n, .H = H, .D = m->dim, .reverse = reverse};
    r->x = arena_new(a, double, words *GATES *H);
    r->T = arena_new(a, double, r->n *GATES *H);
    r->gate = arena_new(a, double, r->n *GATES *H);
    r->e_T = arena_new(a, double, r->n *GATES *H);
    r->h = arena_znew(a, double, (r->n + 1) * H);
    r->c = arena_znew(a, double, (r->n + 1) * H);
    const arena_mark mark = arena_save(a);
    double *size = arena_new(a, double, words *GATES *H);
    if (!r->x || !r->T || !r->gate || !r->e_T || !r->h || !r->c || !size)
        return STET_ENOMEM;
    project(r, m, size);
    local_errors(r, size);
    arena_restore(a, mark);
    for (size_t step = 0; step < r->n; step++)
        clean_step(r, step);
    return STET_OK;
}

/* ---- a step ------------------------------------------------------------------------------- */

static iv coefficient(const ver_tube *t, bool is_tanh, double clean, iv x)
{
    return t->level == VER_DERIVATIVE ? ver_derivatives(is_tanh, x) : ver_slopes(is_tanh, clean, x);
}

/* Pre-activations: the words' range, the states' box, the biases, the error. */
static void gates(const ver_read *r, ver_tube *t, size_t step)
{
    const size_t H = r->H, H4 = GATES * H, p = ver_place(r, step);
    const double *clean = r->T + step * H4, *e_T = r->e_T + step * H4;
    for (size_t q = 0; q < H4; q++) {
        iv x = {INFINITY, -INFINITY};
        for (size_t k = r->t->start[p]; k < r->t->start[p + 1]; k++)
            x = iv_with(x, r->x[k * H4 + q]);
        for (size_t j = 0; j < H; j++)
            x = iv_add(x, iv_scale(r->p->w_hh[q * H + j], t->h[j]));
        x = iv_less(iv_less(x, -(double)r->p->b_ih[q]), -(double)r->p->b_hh[q]);
        t->T[q] = iv_with(iv_widen(x, e_T[q]), clean[q]);
    }
    if (t->level >= VER_AFFINE)
        ver_affine_gates(r, t, step);
    for (size_t q = 0; q < H4; q++) {
        const bool is_tanh = q / H == GATE_G;
        t->act[q] = ver_range_of(is_tanh, t->T[q]);
        t->slope[q] = coefficient(t, is_tanh, clean[q], t->T[q]);
        t->dT[q] = iv_less(t->T[q], clean[q]);
        t->far_T[step * H4 + q] = iv_mag(t->dT[q]);
    }
}

/* A coefficient that is a clean gate, or, with derivatives, the gate's range. */
static iv gate_or_range(const ver_read *r, const ver_tube *t, size_t step, size_t q)
{
    const double clean = r->gate[step * GATES * r->H + q];
    return t->level == VER_DERIVATIVE ? t->act[q] : (iv){clean - LIBM, clean + LIBM};
}

/* Sum over i, f, g of P_q (x_s - x_0)_q of unit i. */
static iv word_in_cell(const ver_read *r, const iv *P, size_t i, const double *x, const double *x0)
{
    iv sum = {0, 0};
    for (size_t q = 0; q < GATE_O; q++)
        sum = iv_add(sum, iv_scale(x[q * r->H + i] - x0[q * r->H + i], P[q * r->H + i]));
    return sum;
}

/* The cell's deviation in two forms: by pre-activations, and with words and states apart. */
static iv cell_deviation(const ver_read *r, const ver_tube *t, size_t step, size_t i)
{
    const size_t H = r->H, p = ver_place(r, step);
    const iv *P = t->P + step * GATE_O * H;
    const double *e_T = r->e_T + step * GATES * H, *x = r->x, *x0 = x + r->t->start[p] * GATES * H;
    const iv kept = iv_mul(t->F[step * H + i], iv_less(t->c[i], r->c[step * H + i]));
    iv gate = kept, word = {0, 0}, state = kept;
    double error = t->e_c[step * H + i];
    for (size_t q = 0; q < GATE_O; q++) {
        gate = iv_add(gate, iv_mul(P[q * H + i], t->dT[q * H + i]));
        error += iv_mag(P[q * H + i]) * e_T[q * H + i];
    }
    for (size_t k = r->t->start[p] + 1; k < r->t->start[p + 1]; k++)
        word = iv_hull(word, word_in_cell(r, P, i, x + k * GATES * H, x0));
    for (size_t j = 0; j < H; j++) {
        iv B = {0, 0};
        for (size_t q = 0; q < GATE_O; q++)
            B = iv_add(B, iv_scale(r->p->w_hh[(q * H + i) * H + j], P[q * H + i]));
        state = iv_add(state, iv_mul(B, iv_less(t->h[j], r->h[step * H + j])));
    }
    return iv_cap(iv_widen(gate, t->e_c[step * H + i]),
                  iv_widen(iv_add(word, state), error * (1 + 0x1p-40)));
}

static void next_cell(const ver_read *r, ver_tube *t, size_t step)
{
    const size_t H = r->H, at = step * H;
    iv *P = t->P + step * GATE_O * H;
    for (size_t i = 0; i < H; i++) {
        P[GATE_I * H + i] = iv_mul(t->slope[GATE_I * H + i], t->act[GATE_G * H + i]);
        P[GATE_F * H + i] = iv_mul(t->slope[GATE_F * H + i], t->c[i]);
        P[GATE_G * H + i] =
            iv_mul(t->slope[GATE_G * H + i], gate_or_range(r, t, step, GATE_I * H + i));
        t->F[at + i] = gate_or_range(r, t, step, GATE_F * H + i);
        t->e_c[at + i] = ((ACT + 4 * UNIT) * (1 + iv_mag(t->c[i])) + ACT) * (1 + 0x1p-10);
        iv box = iv_add(iv_mul(t->act[GATE_F * H + i], t->c[i]),
                        iv_mul(t->act[GATE_I * H + i], t->act[GATE_G * H + i]));
        box = iv_widen(box, t->e_c[at + i]);
        const double clean = r->c[at + H + i];
        if (t->level != VER_BOX)
            box = iv_cap(box, iv_less(cell_deviation(r, t, step, i), -clean));
        t->c_next[i] = iv_with(box, clean);
    }
    if (t->level >= VER_AFFINE)
        ver_affine_cell(r, t, step);
}

static iv hidden_deviation(const ver_read *r, const ver_tube *t, size_t step, size_t i)
{
    const size_t H = r->H, p = ver_place(r, step);
    const iv *P = t->P + step * GATE_O * H, E = t->E[step * H + i], G = t->G[step * H + i];
    const double *e_T = r->e_T + step * GATES * H, *x = r->x, *x0 = x + r->t->start[p] * GATES * H;
    const iv gate = iv_add(iv_mul(E, t->dT[GATE_O * H + i]),
                           iv_mul(G, iv_less(t->c_next[i], r->c[(step + 1) * H + i])));
    iv word = {0, 0};
    iv state = iv_mul(iv_mul(G, t->F[step * H + i]), iv_less(t->c[i], r->c[step * H + i]));
    double error = t->e_c[step * H + i];
    for (size_t q = 0; q < GATE_O; q++)
        error += iv_mag(P[q * H + i]) * e_T[q * H + i];
    error = t->e_h + iv_mag(E) * e_T[GATE_O * H + i] + iv_mag(G) * error;
    for (size_t k = r->t->start[p] + 1; k < r->t->start[p + 1]; k++) {
        const double *xs = x + k * GATES * H, d = xs[GATE_O * H + i] - x0[GATE_O * H + i];
        word = iv_hull(word, iv_add(iv_scale(d, E), iv_mul(G, word_in_cell(r, P, i, xs, x0))));
    }
    for (size_t j = 0; j < H; j++) {
        iv B = {0, 0};
        for (size_t q = 0; q < GATE_O; q++)
            B = iv_add(B, iv_scale(r->p->w_hh[(q * H + i) * H + j], P[q * H + i]));
        const iv M = iv_add(iv_scale(r->p->w_hh[(GATE_O * H + i) * H + j], E), iv_mul(G, B));
        state = iv_add(state, iv_mul(M, iv_less(t->h[j], r->h[step * H + j])));
    }
    return iv_cap(iv_widen(gate, t->e_h), iv_widen(iv_add(word, state), error * (1 + 0x1p-40)));
}

/* From t->h before the step to t->h after it, by way of `next` (H). */
static void next_hidden(const ver_read *r, ver_tube *t, size_t step, iv *next)
{
    const size_t H = r->H, at = step * H;
    for (size_t i = 0; i < H; i++) {
        const iv tau = ver_range_of(true, t->c_next[i]);
        const iv d = coefficient(t, true, r->c[at + H + i], t->c_next[i]);
        t->E[at + i] = iv_mul(t->slope[GATE_O * H + i], tau);
        t->G[at + i] = iv_mul(gate_or_range(r, t, step, GATE_O * H + i), d);
        iv box = iv_widen(iv_mul(t->act[GATE_O * H + i], tau), t->e_h);
        const double clean = r->h[at + H + i];
        if (t->level != VER_BOX)
            box = iv_cap(box, iv_less(hidden_deviation(r, t, step, i), -clean));
        next[i] = iv_with(box, clean);
    }
    memcpy(t->h, next, H * sizeof *next);
    if (t->level >= VER_AFFINE)
        ver_affine_hidden(r, t, step);
    memcpy(t->c, t->c_next, H * sizeof *t->c);
}

stet_status ver_tube_build(const ver_read *r, ver_level level, arena *a, ver_tube *t)
{
    const size_t H = r->H, n = r->n;
    *t = (ver_tube){.level = level, .e_h = (2 * ACT + 4 * UNIT) * (1 + 0x1p-10)};
    t->P = arena_new(a, iv, n * GATE_O * H);
    t->E = arena_new(a, iv, n * H);
    t->G = arena_new(a, iv, n * H);
    t->F = arena_new(a, iv, n * H);
    t->e_c = arena_new(a, double, n *H);
    t->T = arena_new(a, iv, 4 * GATES * H);
    t->h = arena_znew(a, iv, 4 * H);
    t->h_at = arena_znew(a, iv, (n + 1) * H);
    t->c_at = arena_znew(a, iv, (n + 1) * H);
    t->far_T = arena_new(a, double, n *GATES *H);
    if (!t->P || !t->E || !t->G || !t->F || !t->e_c || !t->T || !t->h || !t->h_at || !t->c_at ||
        !t->far_T)
        return STET_ENOMEM;
    t->slope = t->T + GATES * H;
    t->act = t->slope + GATES * H;
    t->dT = t->act + GATES * H;
    t->c = t->h + H;
    t->c_next = t->c + H;
    if (level >= VER_AFFINE) {
        TRY(ver_affine_new(r, a, &t->a));
        TRY(ver_lines_new(r, a, &t->lines));
    }
    for (size_t step = 0; step < n; step++) {
        gates(r, t, step);
        next_cell(r, t, step);
        next_hidden(r, t, step, t->c_next + H);
        memcpy(t->h_at + (step + 1) * H, t->h, H * sizeof *t->h);
        memcpy(t->c_at + (step + 1) * H, t->c, H * sizeof *t->c);
    }
    return STET_OK;
}
