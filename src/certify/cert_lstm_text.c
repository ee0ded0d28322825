/* certify/cert_lstm_text.c - weights in double, and the clean states of a text. */
#include <math.h>
#include <string.h>

#include "certify/cert_lstm.h"
#include "certify/cert_lstm_rows.h"

/* Activations of the program are within 2 ulp of the truth, at most 2^-23 (tensor/vmath.h); twice
 * that is room for another library's. Edits of a text whose state is within 2^-22 of the clean one
 * go on from the clean one (model/bilstm_view.c). */
const lstm_rounding lstm_float32 = {.unit = 0x1p-24, .act = 0x1p-22, .jump = 0x1p-22};
const lstm_rounding lstm_exact = {0};

/* Beyond this the program's float32 might overflow. */
static const double largest = 1e30;

static void transpose(size_t rows, size_t cols, const double *a, double *out)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            out[c * rows + r] = a[r * cols + c];
}

stet_status lstm_cell64_init(lstm_cell64 *c, size_t D, size_t H, const double *w_ih,
                             const double *w_hh, const double *b_ih, const double *b_hh, arena *a)
{
    *c = (lstm_cell64){.D = D, .H = H};
    c->wt = arena_new(a, double, D * 4 * H);
    c->u = arena_new(a, double, 4 * H * H);
    c->ut = arena_new(a, double, 4 * H * H);
    double *rows = arena_znew(a, double, 5 * 4 * H);
    if (!c->wt || !c->u || !c->ut || !rows)
        return STET_ENOMEM;
    c->b = rows;
    c->w_norm = rows + 4 * H;
    c->u_sum = rows + 8 * H;
    c->u_max = rows + 12 * H;
    c->b_sum = rows + 16 * H;
    transpose(4 * H, D, w_ih, c->wt);
    transpose(4 * H, H, w_hh, c->ut);
    double total = 0; /* not finite as soon as one weight is not */
    for (size_t r = 0; r < 4 * H; r++) {
        double squares = 0;
        for (size_t k = 0; k < D; k++)
            squares += w_ih[r * D + k] * w_ih[r * D + k];
        c->w_norm[r] = sqrt(squares) * (1 + (double)(D + 8) * ival_step);
        for (size_t k = 0; k < H; k++) {
            c->u[r * H + k] = w_hh[r * H + k];
            c->u_sum[r] += fabs(w_hh[r * H + k]);
            c->u_max[r] = fmax(c->u_max[r], fabs(w_hh[r * H + k]));
        }
        c->u_sum[r] *= 1 + (double)(H + 8) * ival_step;
        c->b[r] = b_ih[r] + b_hh[r];
        c->b_sum[r] = fabs(b_ih[r]) + fabs(b_hh[r]);
        total += c->w_norm[r] + c->u_sum[r] + c->b_sum[r];
    }
    if (!(total < largest))
        return error_set(STET_EFORMAT, "LSTM weights are not finite, or too large for float32");
    return STET_OK;
}

/* ---- a text ------------------------------------------------------------------------------- */

/* gamma_{D + H + 4} times the magnitudes that go into a pre-activation, a little more for what the
 * clean states in double lack, and a least number for results that underflow. */
static void local_errors(lstm_text *t)
{
    const lstm_cell64 *c = t->cell;
    const size_t H4 = 4 * c->H;
    const double nu = (double)(c->D + c->H + 4) * t->rounding.unit;
    const double gamma = nu / (1 - nu) * (1 + 0x1p-16);
    for (size_t step = 0; step < t->n; step++) {
        const double length = t->length[lstm_place(t, step)];
        for (size_t r = 0; r < H4; r++)
            t->e_T[step * H4 + r] =
                gamma * (c->w_norm[r] * length + c->u_sum[r] * (1 + 0x1p-10) + c->b_sum[r]) +
                (gamma > 0 ? 1e-30 : 0);
    }
}

static double sigmoid(double x)
{
    const double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

/* `state`: what the state before the step brings to the pre-activations. */
static void read_step(lstm_text *t, size_t step, const double *state)
{
    const lstm_cell64 *cell = t->cell;
    const size_t H = cell->H;
    const double *x = t->x + t->start[lstm_place(t, step)] * 4 * H, *c = t->c + step * H;
    double *T = t->T + step * 4 * H, *gate = t->gate + step * 4 * H;
    for (size_t r = 0; r < 4 * H; r++)
        T[r] = state[r] + (x[r] + cell->b[r]);
    for (size_t q = 0; q < GATES; q++)
        for (size_t r = q * H; r < (q + 1) * H; r++)
            gate[r] = q == GG ? tanh(T[r]) : sigmoid(T[r]);
    for (size_t i = 0; i < H; i++) {
        const double next = gate[GF * H + i] * c[i] + gate[GI * H + i] * gate[GG * H + i];
        t->tau[step * H + i] = tanh(next);
        t->c[(step + 1) * H + i] = next;
        t->h[(step + 1) * H + i] = gate[GO * H + i] * t->tau[step * H + i];
    }
}

stet_status lstm_text_open(lstm_text *t, const double *lengths, arena *a)
{
    const lstm_cell64 *c = t->cell;
    const size_t n = t->n, H = c->H;
    t->length = arena_znew(a, double, n);
    t->T = arena_new(a, double, n * 4 * H);
    t->gate = arena_new(a, double, n * 4 * H);
    t->h = arena_new(a, double, (n + 1) * H);
    t->c = arena_new(a, double, (n + 1) * H);
    t->tau = arena_new(a, double, n *H);
    t->e_T = arena_new(a, double, n * 4 * H);
    if (!t->length || !t->T || !t->gate || !t->h || !t->c || !t->tau || !t->e_T)
        return STET_ENOMEM;
    for (size_t p = 0; p < n; p++)
        for (size_t k = t->start[p]; k < t->start[p + 1]; k++) {
            const double length = lengths[k] * (1 + (double)(c->D + 8) * ival_step);
            if (!(length < largest))
                return error_set(STET_EFORMAT,
                                 "a word's vector is not finite, or too large for float32");
            t->length[p] = fmax(t->length[p], length);
        }
    for (size_t p = 0; p < n; p++)
        for (size_t r = 0; r < 4 * H; r++)
            if (!(c->w_norm[r] * t->length[p] + c->u_sum[r] + c->b_sum[r] < largest))
                return error_set(STET_EFORMAT, "LSTM weights are too large for float32");
    local_errors(t);
    return STET_OK;
}

stet_status lstm_texts_read(lstm_text *const *t, size_t count, arena *a)
{
    const size_t H = t[0]->cell->H;
    const arena_mark mark = arena_save(a);
    double *h = arena_znew(a, double, count *H), *state = arena_znew(a, double, count * 4 * H);
    if (!h || !state)
        return STET_ENOMEM;
    for (size_t k = 0; k < count; k++) {
        memset(t[k]->h, 0, H * sizeof *t[k]->h);
        memset(t[k]->c, 0, H * sizeof *t[k]->c);
    }
    for (size_t step = 0; (count = lstm_reach(t, count, step)) > 0; step++) {
        for (size_t k = 0; k < count; k++)
            memcpy(h + k * H, t[k]->h + step * H, H * sizeof *h);
        if (step > 0) /* the first state is 0 */
            rows_product(count, 4 * H, H, h, t[0]->cell->ut, state);
        for (size_t k = 0; k < count; k++)
            read_step(t[k], step, state + k * 4 * H);
    }
    arena_restore(a, mark);
    return STET_OK;
}
