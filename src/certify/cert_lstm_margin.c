/* certify/cert_lstm_margin.c - both directions of a text and the linear head on top. */
#include <math.h>
#include <string.h>

#include "certify/cert_lstm.h"

stet_status lstm_pair_open(lstm_pair *x, const lstm_cell64 cell[2], lstm_rounding rounding,
                           size_t n, const uint32_t *start, const double *vectors, arena *a)
{
    const size_t H = cell[0].H;
    *x = (lstm_pair){.H = H, .n = n, .start = start, .mem = a};
    x->contribution = arena_new(a, double, start[n]);
    x->lam.lo = arena_new(a, double, 2 * H);
    x->lam.hi = arena_new(a, double, 2 * H);
    x->scratch = arena_new(a, double, 12 * H + start[n]);
    if (!x->contribution || !x->lam.lo || !x->lam.hi || !x->scratch)
        return STET_ENOMEM;
    for (int d = 0; d < 2; d++) {
        x->text[d] = (lstm_text){
            .cell = &cell[d], .rounding = rounding, .reverse = d == 1, .n = n, .start = start};
        TRY(lstm_text_read(&x->text[d], vectors, a));
    }
    return STET_OK;
}

stet_status lstm_pair_build(lstm_pair *x, tube_level level)
{
    for (int d = 0; d < 2 && !x->built[level]; d++)
        TRY(lstm_tube_build(&x->tube[level][d], &x->text[d], level, x->mem));
    x->built[level] = true;
    return STET_OK;
}

/* ---- head --------------------------------------------------------------------------------- */

/* The last hidden state of unit k of both directions: clean, and its box. */
static double clean_end(const lstm_pair *x, size_t k)
{
    return x->text[k / x->H].h[x->n * x->H + k % x->H];
}

static ival box_end(const lstm_pair *x, tube_level level, size_t k)
{
    return ival_at(x->tube[level][k / x->H].h, x->n * x->H + k % x->H);
}

static double feature(const lstm_head *head, double h)
{
    return head->relu ? greater(h, 0) : h;
}

/* Two float32 dot products and their biases; our own sums in double are far more accurate. */
static double head_slack(const lstm_pair *x, tube_level level, const lstm_head *head)
{
    if (!head->size)
        return 0;
    double sum = head->bias_size;
    for (size_t k = 0; k < 2 * x->H; k++)
        sum += head->size[k] * ival_mag(box_end(x, level, k));
    const double nu = (double)(2 * x->H + 4) * lstm_float32.unit;
    return nu / (1 - nu) * (1 + 0x1p-16) * sum + 1e-30;
}

lstm_margin lstm_box_margin(const lstm_pair *x, tube_level level, const lstm_head *head)
{
    double least = head->bias, size = fabs(head->bias);
    for (size_t k = 0; k < 2 * x->H; k++) {
        const ival h = box_end(x, level, k);
        const ival y = {feature(head, h.lo), feature(head, h.hi)};
        least += ival_scale(head->om[k], y).lo;
        size += fabs(head->om[k]) * ival_mag(y);
    }
    const double slack = head_slack(x, level, head);
    return (lstm_margin){least - slack - (double)(2 * x->H + 8) * ival_step * size, slack};
}

/* Slope of the ReLU between the clean state and any state of the box. */
static ival relu_slope(double clean, ival h)
{
    if (h.lo >= 0)
        return (ival){1, 1};
    if (h.hi <= 0)
        return (ival){0, 0};
    ival s = {1, 0};
    const double ends[2] = {h.lo, h.hi};
    for (int k = 0; k < 2; k++) {
        const double gap = ends[k] - clean;
        if (fabs(gap) < 1e-9)
            return (ival){0, 1};
        const double secant = (greater(ends[k], 0) - greater(clean, 0)) / gap,
                     error = 8 * ival_step / fabs(gap);
        s = ival_hull(s, (ival){secant - error, secant + error});
    }
    return ival_cap(s, (ival){0, 1});
}

lstm_margin lstm_sum_margin(lstm_pair *x, tube_level level, lstm_form form, const lstm_head *head)
{
    const size_t H = x->H;
    double clean = head->bias, size = fabs(head->bias), taken = 0, slack = 0;
    for (size_t k = 0; k < 2 * H; k++) {
        const double h = clean_end(x, k), y = head->om[k] * feature(head, h);
        clean += y;
        size += fabs(y);
        ival_put(x->lam, k,
                 head->relu ? ival_scale(head->om[k], relu_slope(h, box_end(x, level, k)))
                            : (ival){head->om[k], head->om[k]});
    }
    memset(x->contribution, 0, x->start[x->n] * sizeof *x->contribution);
    for (int d = 0; d < 2; d++) {
        const ivals lam = ivals_from(x->lam, (size_t)d * H);
        const lstm_tube *tube = &x->tube[level][d];
        double rounding, box;
        bool fine = true;
        switch (form) {
        case FORM_AFFINE:
            lstm_affine(tube, &x->text[d], lam, x->contribution, &box, &rounding);
            break;
        case FORM_LINES:
        case FORM_WORDS:
            fine = lstm_back_lines(tube, &x->text[d], lam, form == FORM_WORDS, x->contribution,
                                   &box, &rounding, x->scratch);
            break;
        default:
            fine = lstm_adjoint(tube, &x->text[d], lam, x->contribution, &rounding, x->scratch);
            box = rounding;
        }
        if (!fine)
            return (lstm_margin){-INFINITY, 0};
        taken += box;
        slack += rounding;
    }
    const double top = head_slack(x, level, head);
    const double ours = (double)(2 * H + 16) * ival_step * (size + taken + top);
    return (lstm_margin){clean - taken - top - ours, slack + top};
}
