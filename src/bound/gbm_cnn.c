/* bound/gbm_cnn.c - see gbm_cnn.h. */
#include "bound/gbm_cnn.h"

#include <math.h>

#include "base/pool.h"
#include "base/simd.h"

static ALWAYS_INLINE real modulus(real x)
{
    return x < 0 ? -x : x;
}

/* max |w[l]| over first <= l < end. x - x is 0 unless x is NaN or infinite, and then NaN. */
static ALWAYS_INLINE real greatest(const real *w, size_t first, size_t end)
{
    real best = 0, fault = 0;
    for (size_t l = first; l < end; l++) {
        const real a = modulus(w[l]);
        best = a > best ? a : best;
        fault += a - a;
    }
    return best + fault;
}

static real widened(real m)
{
    return isnan(m) ? (real)INFINITY : m;
}

void gbm_conv(const conv_weights *w, real *m)
{
    for (size_t i = 0; i < w->F * w->D; i++)
        m[i] = widened(greatest(w->w + i * w->k, 0, w->k));
}

stet_status gbm_conv_full(const conv_weights *w, size_t N, real *m)
{
    if (N < w->k)
        return error_set(STET_EUSAGE, "a text of %zu words is shorter than the kernel of %zu", N,
                         w->k);
    for (size_t f = 0; f < w->F; f++)
        for (size_t p = 0; p < N; p++) {
            /* tap l of window t = p - l, which begins at 0 .. N - k */
            const size_t first = p > N - w->k ? p - (N - w->k) : 0, end = p < w->k ? p + 1 : w->k;
            for (size_t c = 0; c < w->D; c++)
                m[(f * N + p) * w->D + c] =
                    widened(greatest(w->w + (f * w->D + c) * w->k, first, end));
        }
    return STET_OK;
}

/* ---- the regulariser ---------------------------------------------------------------------- */

/* Common kernel sizes are compiled with the size known, so that the taps need no loop. */
#define FOR_TAPS(k, call)                                                                          \
    switch (k) {                                                                                   \
    case 2:                                                                                        \
        call(2);                                                                                   \
        break;                                                                                     \
    case 3:                                                                                        \
        call(3);                                                                                   \
        break;                                                                                     \
    case 4:                                                                                        \
        call(4);                                                                                   \
        break;                                                                                     \
    case 5:                                                                                        \
        call(5);                                                                                   \
        break;                                                                                     \
    default:                                                                                       \
        call(k);                                                                                   \
    }

static ALWAYS_INLINE double row_sum(const real *w, size_t D, const size_t k)
{
    enum { PARTS = 8 };
    double part[PARTS] = {0}, sum = 0;
    for (size_t c = 0; c < D; c++)
        part[c % PARTS] += (double)greatest(w + c * k, 0, k);
    for (int i = 0; i < PARTS; i++)
        sum += part[i];
    return sum;
}

static ALWAYS_INLINE void row_back(const real *RESTRICT w, size_t D, const size_t k, real by,
                                   real *RESTRICT dw)
{
    for (size_t c = 0; c < D; c++) {
        size_t at = 0;
        for (size_t l = 1; l < k; l++)
            at = modulus(w[c * k + l]) > modulus(w[c * k + at]) ? l : at;
        const real v = w[c * k + at];
        dw[c * k + at] += v > 0 ? by : v < 0 ? -by : 0;
    }
}

typedef struct job {
    const conv_weights *w;
    real *row;
    const real *row_;
    real *dw;
} job;

SIMD_CLONES
static void sum_piece(const job *j, size_t f)
{
    const conv_weights *w = j->w;
#define CALL(size) j->row[f] = (real)row_sum(w->w + f * w->D * w->k, w->D, (size))
    FOR_TAPS(w->k, CALL)
#undef CALL
}

SIMD_CLONES
static void back_piece(const job *j, size_t f)
{
    const conv_weights *w = j->w;
    const size_t at = f * w->D * w->k;
#define CALL(size) row_back(w->w + at, w->D, (size), j->row_[f], j->dw + at)
    FOR_TAPS(w->k, CALL)
#undef CALL
}

enum { FILTERS = 16 }; /* of a piece */

static void piece(void *ctx, size_t i, int worker)
{
    (void)worker;
    const job *j = ctx;
    for (size_t f = i * FILTERS; f < j->w->F && f < (i + 1) * FILTERS; f++)
        if (j->dw)
            back_piece(j, f);
        else
            sum_piece(j, f);
}

void gbm_conv_rows(const conv_weights *w, real *row)
{
    pool_run((w->F + FILTERS - 1) / FILTERS, piece, &(job){.w = w, .row = row});
}

void gbm_conv_rows_back(const conv_weights *w, const real *row_, real *dw)
{
    pool_run((w->F + FILTERS - 1) / FILTERS, piece, &(job){.w = w, .row_ = row_, .dw = dw});
}
