/* bound/gbm_cnn.c - see gbm_cnn.h. */
#include "bound/gbm_cnn.h"

#include <math.h>

#include "base/pool.h"
#include "base/simd.h"

static ALWAYS_INLINE real modulus(real x)
{
    return x < 0 ? -x : x;
}

/* max |w[l]| over first <= l < end. x - x is 0 unless x is NaN or infinite; then it is NaN, and
 * what cannot be bounded is infinite. */
static ALWAYS_INLINE real greatest(const real *w, size_t first, size_t end)
{
    real best = 0, fault = 0;
    for (size_t l = first; l < end; l++) {
        const real a = modulus(w[l]);
        best = a > best ? a : best;
        fault += a - a;
    }
    return fault == 0 ? best : (real)INFINITY;
}

/* ---- the compact form --------------------------------------------------------------------- */

static ALWAYS_INLINE void row_forward(const real *RESTRICT w, size_t D, const size_t k,
                                      real *RESTRICT m)
{
    for (size_t c = 0; c < D; c++)
        m[c] = greatest(w + c * k, 0, k);
}

/* The usual kernel sizes are compiled with the size known: only so does the loop become vectors. */
#define SIZES(X) X(2) X(3) X(4) X(5)
#define DEFINE(K)                                                                                  \
    SIMD_CLONES static void conv_forward_##K(const real *RESTRICT w, size_t D, real *RESTRICT m)   \
    {                                                                                              \
        row_forward(w, D, K, m);                                                                   \
    }
SIZES(DEFINE)
#undef DEFINE

static void forward(const real *w, size_t D, size_t k, real *m)
{
    switch (k) {
#define CASE(K)                                                                                    \
    case K:                                                                                        \
        conv_forward_##K(w, D, m);                                                                 \
        break;
        SIZES(CASE)
#undef CASE
    default:
        row_forward(w, D, k, m);
    }
}

/* n channels one by one: the first tap that is as great as m gets all of m_. */
static void backward_exact(const real *w, size_t n, size_t k, const real *m, const real *m_,
                           real *dw)
{
    for (size_t c = 0; c < n; c++)
        for (size_t l = 0; l < k && m[c] > 0; l++)
            if (modulus(w[c * k + l]) == m[c]) {
                dw[c * k + l] += w[c * k + l] < 0 ? -m_[c] : m_[c];
                break;
            }
}

enum { CHUNK = 512 };

/* n channels, n k <= CHUNK. Where no channel has two equal taps, and that is nearly everywhere,
 * every tap can be looked at by itself. */
SIMD_CLONES
static void conv_backward(const real *RESTRICT w, size_t n, size_t k, const real *RESTRICT m,
                          const real *RESTRICT m_, real *RESTRICT dw)
{
    real peak[CHUNK], share[CHUNK];
    for (size_t c = 0; c < n; c++)
        for (size_t l = 0; l < k; l++) {
            peak[c * k + l] = m[c];
            share[c * k + l] = m_[c];
        }
    unsigned hits = 0;
    for (size_t i = 0; i < n * k; i++)
        hits += modulus(w[i]) == peak[i];
    if (hits != n) {
        backward_exact(w, n, k, m, m_, dw);
        return;
    }
    for (size_t i = 0; i < n * k; i++) {
        const real by = modulus(w[i]) == peak[i] ? share[i] : 0;
        dw[i] += w[i] < 0 ? -by : by;
    }
}

typedef struct job {
    const conv_weights *w;
    real *m;
    const real *m_;
    real *dw; /* NULL: forward */
} job;

enum { FILTERS = 16 }; /* of a piece */

static void piece(void *ctx, size_t i, int worker)
{
    (void)worker;
    const job *j = ctx;
    const size_t D = j->w->D, k = j->w->k, first = i * FILTERS;
    const size_t last = first + FILTERS < j->w->F ? first + FILTERS : j->w->F;
    for (size_t f = first; !j->dw && f < last; f++)
        forward(j->w->w + f * D * k, D, k, j->m + f * D);
    const size_t step = k <= CHUNK ? CHUNK / k : 1;
    for (size_t c = first * D; j->dw && c < last * D; c += step) {
        const size_t n = last * D - c < step ? last * D - c : step;
        (k <= CHUNK ? conv_backward : backward_exact)(j->w->w + c * k, n, k, j->m + c, j->m_ + c,
                                                      j->dw + c * k);
    }
}

void gbm_conv(const conv_weights *w, real *m)
{
    pool_run((w->F + FILTERS - 1) / FILTERS, piece, &(job){.w = w, .m = m});
}

void gbm_conv_back(const conv_weights *w, const real *m, const real *m_, real *dw)
{
    pool_run((w->F + FILTERS - 1) / FILTERS, piece,
             &(job){.w = w, .m = (real *)m, .m_ = m_, .dw = dw});
}

/* ---- every position ----------------------------------------------------------------------- */

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
                m[(f * N + p) * w->D + c] = greatest(w->w + (f * w->D + c) * w->k, first, end);
        }
    return STET_OK;
}
