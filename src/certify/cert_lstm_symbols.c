/* certify/cert_lstm_symbols.c - see cert_lstm_symbols.h. */
#include "certify/cert_lstm_symbols.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "certify/cert_lstm_rows.h"

lstm_symbols *symbols_new(size_t H, size_t most, arena *a)
{
    const size_t cap = most ? most + 2 * H : 0;
    lstm_symbols *s = arena_znew(a, lstm_symbols, 1);
    if (!s)
        return NULL;
    s->H = H;
    s->most = most;
    s->unit = arena_new(a, uint32_t, 2 * H);
    s->h = arena_new(a, double, cap *H);
    s->c = arena_new(a, double, cap *H);
    s->T = arena_new(a, double, cap * 4 * H);
    s->hull_T = arena_znew(a, double, 4 * H);
    s->hull_c = arena_znew(a, double, H);
    s->hull_h = arena_znew(a, double, H);
    s->score = arena_new(a, double, cap);
    s->order = arena_new(a, double, cap);
    const bool ok =
        s->h && s->c && s->T && s->hull_T && s->hull_c && s->hull_h && s->score && s->order;
    return ok ? s : NULL;
}

void symbols_gates(lstm_symbols *s, const double *ut)
{
    const size_t H4 = 4 * s->H;
    rows_product(s->old, H4, s->H, s->h, ut, s->T);
    for (size_t k = s->old; k < s->n; k++) {
        const size_t i = s->unit[k - s->old];
        const double size = s->h[k * s->H + i]; /* 0 if it is the cell's */
        for (size_t r = 0; r < H4; r++)
            s->T[k * H4 + r] = size * ut[i * H4 + r];
    }
    rows_sizes(s->n, H4, s->T, s->hull_T);
}

void symbols_cell(lstm_symbols *s, const double *P, const double *F)
{
    for (size_t k = 0; k < s->n; k++)
        rows_cell(s->H, P, F, s->T + k * 4 * s->H, s->c + k * s->H);
    rows_sizes(s->n, s->H, s->c, s->hull_c);
}

void symbols_hidden(lstm_symbols *s, const double *E, const double *G)
{
    for (size_t k = 0; k < s->n; k++)
        rows_hidden(s->H, E, G, s->T + k * 4 * s->H, s->c + k * s->H, s->h + k * s->H);
    rows_sizes(s->n, s->H, s->h, s->hull_h);
}

/* ---- back into a box ---------------------------------------------------------------------- */

/* What turning a symbol into a box would add: its size less its largest entry. */
static double spread(const lstm_symbols *s, size_t k)
{
    double sum = 0, largest = 0;
    for (size_t i = k * s->H; i < (k + 1) * s->H; i++) {
        const double h = fabs(s->h[i]), c = fabs(s->c[i]);
        sum += h + c;
        largest = greater(largest, greater(h, c));
    }
    return sum - largest;
}

static int rising(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Scores up to this one go. */
static double threshold(lstm_symbols *s)
{
    for (size_t k = 0; k < s->n; k++)
        s->score[k] = s->order[k] = spread(s, k);
    if (s->n <= s->most)
        return 0;
    qsort(s->order, s->n, sizeof *s->order, rising);
    return s->order[s->n - s->most - 1];
}

static void add_symbol(lstm_symbols *s, double *part, size_t i, double size)
{
    memset(s->h + s->n * s->H, 0, s->H * sizeof *s->h);
    memset(s->c + s->n * s->H, 0, s->H * sizeof *s->c);
    part[s->n * s->H + i] = size;
    s->unit[s->n - s->old] = (uint32_t)i;
    s->n++;
}

void symbols_renew(lstm_symbols *s, double *e_h, double *e_c)
{
    const size_t H = s->H;
    if (!s->most)
        return;
    const double out = 1 + (double)(s->most + 2 * H) * ival_step, least = threshold(s);
    size_t n = 0;
    for (size_t k = 0; k < s->n; k++) {
        if (s->score[k] > least) {
            memmove(s->h + n * H, s->h + k * H, H * sizeof *s->h);
            memmove(s->c + n * H, s->c + k * H, H * sizeof *s->c);
            n++;
            continue;
        }
        for (size_t i = 0; i < H; i++) {
            e_h[i] += fabs(s->h[k * H + i]);
            e_c[i] += fabs(s->c[k * H + i]);
        }
    }
    s->n = s->old = n;
    for (size_t i = 0; i < H; i++) {
        if (e_h[i] > 0)
            add_symbol(s, s->h, i, e_h[i] * out);
        if (e_c[i] > 0)
            add_symbol(s, s->c, i, e_c[i] * out);
        e_h[i] = e_c[i] = 0;
    }
}
