/* certify/cert_lstm_margin.c - both directions of a text and the linear head on top.
 *
 * Largest states, y = max over s of h_s. Where y should be large, y >= h_s for the state that is
 * the largest in the clean text. Where it should be small, let s be the state with the highest box
 * [l, u] and m the highest end of the others: y <= max(h_s, m), which is convex in h_s, so that its
 * chord over [l, u] is above it. Either way the margin feels one state of each unit.
 *
 * Mean states: the margin feels each state, in equal shares. */
#include <math.h>
#include <string.h>

#include "certify/cert_activation.h"
#include "certify/cert_lstm.h"

/* Piece k of the text, from its first word on. */
static stet_status open_piece(lstm_pair *x, size_t k, const lstm_cell64 cell[2],
                              lstm_rounding rounding, const cert_encoded words[2])
{
    lstm_piece *piece = &x->piece[k];
    const size_t first = k * x->span, left = x->n - first, n = left < x->span ? left : x->span;
    uint32_t *start = arena_new(x->mem, uint32_t, n + 1);
    if (!start)
        return STET_ENOMEM;
    piece->first_word = x->start[first];
    for (size_t p = 0; p <= n; p++)
        start[p] = x->start[first + p] - x->start[first];
    for (int d = 0; d < 2; d++) {
        piece->text[d] = (lstm_text){.cell = &cell[d],
                                     .rounding = rounding,
                                     .reverse = d == 1,
                                     .n = n,
                                     .start = start,
                                     .x = words[d].x + piece->first_word * 4 * x->H};
        TRY(lstm_text_open(&piece->text[d], words[d].length + piece->first_word, x->mem));
    }
    return STET_OK;
}

/* One direction of the pieces from `first` on that are walked side by side. */
typedef struct abreast {
    size_t count;
    lstm_text *text[LSTM_ABREAST];
    lstm_tube *tube[LSTM_ABREAST];
} abreast;

static abreast pieces_from(const lstm_pair *x, size_t first, int d, tube_level level)
{
    abreast out = {0};
    for (size_t k = first; k < x->pieces && out.count < LSTM_ABREAST; k++) {
        out.text[out.count] = &x->piece[k].text[d];
        out.tube[out.count++] = &x->piece[k].tube[level][d];
    }
    return out;
}

stet_status lstm_pair_open(lstm_pair *x, const lstm_cell64 cell[2], lstm_rounding rounding,
                           size_t n, size_t span, const uint32_t *start,
                           const cert_encoded words[2], arena *a)
{
    const size_t H = cell[0].H;
    *x = (lstm_pair){.H = H, .n = n, .start = start, .mem = a};
    x->span = span && span < n ? span : n;
    x->pieces = (n + x->span - 1) / x->span;
    x->piece = arena_znew(a, lstm_piece, x->pieces);
    x->contribution = arena_new(a, double, start[n]);
    x->lam.lo = arena_new(a, double, 2 * H);
    x->lam.hi = arena_new(a, double, 2 * H);
    x->scratch = arena_new(a, double, 12 * H + start[n]);
    x->at = arena_new(a, uint32_t, 3 * H);
    x->here = x->at ? x->at + 2 * H : NULL;
    x->below = arena_new(a, double, n + 1);
    if (!x->piece || !x->contribution || !x->lam.lo || !x->lam.hi || !x->scratch || !x->at ||
        !x->below)
        return STET_ENOMEM;
    for (size_t k = 0; k < x->pieces; k++)
        TRY(open_piece(x, k, cell, rounding, words));
    for (size_t k = 0; k < x->pieces; k += LSTM_ABREAST)
        for (int d = 0; d < 2; d++) {
            const abreast some = pieces_from(x, k, d, TUBE_BOX);
            TRY(lstm_texts_read(some.text, some.count, a));
        }
    return STET_OK;
}

stet_status lstm_pair_build(lstm_pair *x, tube_level level)
{
    for (size_t k = 0; k < x->pieces && !x->built[level]; k += LSTM_ABREAST)
        for (int d = 0; d < 2; d++) {
            const abreast some = pieces_from(x, k, d, level);
            TRY(lstm_tubes_build(some.tube, some.text, some.count, level, x->mem));
        }
    x->built[level] = true;
    return STET_OK;
}

/* ---- head --------------------------------------------------------------------------------- */

/* State s of unit k of both directions: clean, and its box. */
static double clean_state(const lstm_pair *x, size_t k, size_t s)
{
    const lstm_piece *piece = &x->piece[(s - 1) / x->span];
    return piece->text[k / x->H].h[((s - 1) % x->span + 1) * x->H + k % x->H];
}

static ival box_state(const lstm_pair *x, tube_level level, size_t k, size_t s)
{
    const lstm_piece *piece = &x->piece[(s - 1) / x->span];
    return ival_at(piece->tube[level][k / x->H].h, ((s - 1) % x->span + 1) * x->H + k % x->H);
}

/* What the classifier sees of unit k. */
static ival feature_box(const lstm_pair *x, tube_level level, const lstm_head *head, size_t k)
{
    ival y = box_state(x, level, k, x->n);
    if (head->relu)
        return (ival){greater(y.lo, 0), greater(y.hi, 0)};
    if (head->pool == POOL_MAX)
        for (size_t s = 1; s < x->n; s++) {
            const ival h = box_state(x, level, k, s);
            y = (ival){greater(y.lo, h.lo), greater(y.hi, h.hi)};
        }
    if (head->pool == POOL_MEAN) {
        for (size_t s = 1; s < x->n; s++)
            y = ival_add(y, box_state(x, level, k, s));
        y = ival_out(y.lo / (double)x->n, y.hi / (double)x->n);
    }
    return y;
}

/* No sum over the states of unit k has larger terms, on average. */
static double feature_size(const lstm_pair *x, tube_level level, const lstm_head *head, size_t k)
{
    if (head->pool == POOL_LAST)
        return ival_mag(box_state(x, level, k, x->n));
    double most = 0;
    for (size_t s = 1; s <= x->n; s++)
        most = greater(most, ival_mag(box_state(x, level, k, s)));
    return most;
}

/* Two float32 dot products and their biases; our own sums in double are far more accurate. */
static double head_slack(const lstm_pair *x, tube_level level, const lstm_head *head)
{
    if (!head->size)
        return 0;
    double sum = head->bias_size;
    for (size_t k = 0; k < 2 * x->H; k++)
        sum += head->size[k] * feature_size(x, level, head, k);
    const size_t terms = 2 * x->H + 4 + (head->pool == POOL_MEAN ? x->n + 4 : 0);
    const double nu = (double)terms * lstm_float32.unit;
    return nu / (1 - nu) * (1 + 0x1p-16) * sum + 1e-30;
}

lstm_margin lstm_box_margin(const lstm_pair *x, tube_level level, const lstm_head *head)
{
    double least = head->bias, size = fabs(head->bias);
    for (size_t k = 0; k < 2 * x->H; k++) {
        const ival y = feature_box(x, level, head, k);
        least += ival_scale(head->om[k], y).lo;
        size += fabs(head->om[k]) * ival_mag(y);
    }
    const double slack = head_slack(x, level, head);
    return (lstm_margin){least - slack - (double)(2 * x->H + 8) * ival_step * size, slack};
}

/* A unit in the margin: om y >= value + lam Dh, for the deviation of state `at`. */
typedef struct felt {
    double value;
    ival lam;
    size_t at;
} felt;

static felt feel_last(const lstm_pair *x, tube_level level, const lstm_head *head, size_t k)
{
    const double om = head->om[k], h = clean_state(x, k, x->n);
    if (!head->relu)
        return (felt){om * h, {om, om}, x->n};
    return (felt){om * greater(h, 0), ival_scale(om, relu_slopes(h, box_state(x, level, k, x->n))),
                  x->n};
}

static felt feel_largest(const lstm_pair *x, tube_level level, const lstm_head *head, size_t k)
{
    static const double tie = 1e-9; /* a checker's states differ by less: it takes the same one */
    const double om = head->om[k];
    size_t best = 1, top = 1;
    for (size_t s = 2; s <= x->n; s++) {
        best = clean_state(x, k, s) > clean_state(x, k, best) + tie ? s : best;
        top = box_state(x, level, k, s).hi > box_state(x, level, k, top).hi ? s : top;
    }
    if (om >= 0)
        return (felt){om * clean_state(x, k, best), {om, om}, best};
    const ival box = box_state(x, level, k, top);
    double others = -INFINITY;
    for (size_t s = 1; s <= x->n; s++)
        others = s == top ? others : greater(others, box_state(x, level, k, s).hi);
    const double clean = clean_state(x, k, top);
    if (others <= box.lo) /* no other state ever is the largest */
        return (felt){om * clean, {om, om}, top};
    /* rounded upward: a steeper chord is still above */
    const double slope = (box.hi - others) / (box.hi - box.lo) * (1 + 16 * ival_step);
    return (felt){om * (others + slope * (clean - box.lo)), {om * slope, om * slope}, top};
}

static felt feel_mean(const lstm_pair *x, const lstm_head *head, size_t k)
{
    double sum = 0;
    for (size_t s = 1; s <= x->n; s++)
        sum += clean_state(x, k, s);
    const double om = head->om[k] / (double)x->n;
    return (felt){om * sum, ival_out(om, om), 0};
}

/* What is felt of earlier states, should the way back end at state s: by their boxes. */
static void felt_below(const lstm_tube *tube, const lstm_text *t, const lstm_aim *aim)
{
    const size_t H = t->cell->H;
    double sum = 0;
    aim->below[0] = 0;
    for (size_t s = 1; s <= t->n; s++) {
        aim->below[s] = sum;
        for (size_t i = 0; i < H; i++) {
            const ival dev = ival_sub(ival_at(tube->h, s * H + i), t->h[s * H + i]);
            sum -= ival_mul(aim_at(aim, s, i), dev).lo;
        }
        sum *= 1 + (double)(H + 2) * ival_step;
    }
}

/* Which states of piece k are felt in direction d; false: none. */
static bool feel_piece(const lstm_pair *x, size_t k, int d)
{
    bool any = false;
    for (size_t i = 0; i < x->H; i++) {
        const size_t s = x->at[(size_t)d * x->H + i] - 1;
        const bool here = s / x->span == k;
        x->here[i] = here ? (uint32_t)(s % x->span + 1) : UINT32_MAX;
        any = any || here;
    }
    return any;
}

/* What the words of a piece contribute in direction d is added to x->contribution. */
static bool piece_back(lstm_pair *x, size_t k, int d, tube_level level, lstm_form form,
                       const lstm_head *head, double *box, double *rounding)
{
    const lstm_piece *piece = &x->piece[k];
    const lstm_tube *tube = &piece->tube[level][d];
    const lstm_text *t = &piece->text[d];
    double *contribution = x->contribution + piece->first_word;
    const lstm_aim aim = {ivals_from(x->lam, (size_t)d * x->H),
                          head->pool == POOL_MEAN ? NULL : x->here, x->below};
    *box = *rounding = 0;
    if (aim.at && !feel_piece(x, k, d))
        return true;
    switch (form) {
    case FORM_AFFINE:
        lstm_affine(tube, t, aim.lam, contribution, box, rounding);
        return true;
    case FORM_LINES:
    case FORM_WORDS:
        felt_below(tube, t, &aim);
        return lstm_back_lines(tube, t, &aim, form == FORM_WORDS, contribution, box, rounding,
                               x->scratch);
    default: {
        const bool fine = lstm_adjoint(tube, t, &aim, contribution, rounding, x->scratch);
        *box = *rounding;
        return fine;
    }
    }
}

lstm_margin lstm_sum_margin(lstm_pair *x, tube_level level, lstm_form form, const lstm_head *head)
{
    const size_t H = x->H;
    double clean = head->bias, size = fabs(head->bias), taken = 0, slack = 0;
    for (size_t k = 0; k < 2 * H; k++) {
        const felt y = head->pool == POOL_LAST  ? feel_last(x, level, head, k)
                       : head->pool == POOL_MAX ? feel_largest(x, level, head, k)
                                                : feel_mean(x, head, k);
        clean += y.value;
        size += head->pool == POOL_LAST ? fabs(y.value) : 4 * fabs(head->om[k]); /* |h| < 1.1 */
        ival_put(x->lam, k, y.lam);
        x->at[k] = (uint32_t)y.at;
    }
    memset(x->contribution, 0, x->start[x->n] * sizeof *x->contribution);
    for (size_t k = 0; k < 2 * x->pieces; k++) {
        double rounding, box;
        if (!piece_back(x, k % x->pieces, k >= x->pieces, level, form, head, &box, &rounding))
            return (lstm_margin){-INFINITY, 0};
        taken += box;
        slack += rounding;
    }
    const double top = head_slack(x, level, head);
    const size_t terms = 2 * H + 16 + 2 * (x->pieces - 1) + (head->pool == POOL_MEAN ? x->n : 0);
    const double ours = (double)terms * ival_step * (size + taken + top);
    return (lstm_margin){clean - taken - top - ours, slack + top};
}
