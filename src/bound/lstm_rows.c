/* bound/lstm_rows.c - see lstm_rows.h.
 *
 * Sums are kept in LANES parts, entry j in part j mod LANES, so that they have one order whatever
 * the machine's vectors; a loop over whole lanes comes first, so that the compiler knows their
 * number.
 *
 * Which end of an interval meets a weight depends on the weight's sign. Compilers make branches of
 * several choices by one condition and then no vectors, so backward each sign is taken once, as a
 * factor: s >= 0 ? hi : lo is mid + s rad, with s = 1 or -1 (s = 1 at 0, as everywhere). */
#include "bound/lstm_rows.h"

#include "base/simd.h"

enum { LANES = 16 };

typedef struct lanes {
    real v[LANES];
} lanes;

static ALWAYS_INLINE real total(const lanes *l)
{
    real s = 0;
    for (int i = 0; i < LANES; i++)
        s += l->v[i];
    return s;
}

/* PART(from, count) for whole lanes, then for the rest. */
#define FOR_LANES(n, PART)                                                                         \
    do {                                                                                           \
        size_t from_ = 0;                                                                          \
        for (; from_ + LANES <= (n); from_ += LANES)                                               \
            PART(from_, LANES);                                                                    \
        PART(from_, (n)-from_);                                                                    \
    } while (0)

static ALWAYS_INLINE real modulus(real x)
{
    return x < 0 ? -x : x;
}

/* The larger modulus of the ends of [lo, hi]. */
static ALWAYS_INLINE real larger(real lo, real hi)
{
    return hi >= -lo ? hi : -lo;
}

static ALWAYS_INLINE real sign(real x)
{
    return x >= 0 ? 1 : -1;
}

static ALWAYS_INLINE real positive(real x)
{
    return x > 0 ? x : 0;
}

/* ---- forward ------------------------------------------------------------------------------ */

SIMD_CLONES
static void lstm_range(const real *RESTRICT w, const segment *s, real out[2])
{
    const real *RESTRICT centre = s->centre, *RESTRICT radius = s->radius;
    lanes m = {{0}}, r = {{0}};
#define PART(from, count)                                                                          \
    for (size_t l = 0; l < (count); l++) {                                                         \
        m.v[l] += w[(from) + l] * centre[(from) + l];                                              \
        r.v[l] += modulus(w[(from) + l]) * radius[(from) + l];                                     \
    }
    FOR_LANES(s->n, PART);
#undef PART
    out[0] = total(&m);
    out[1] = total(&r);
}

SIMD_CLONES
static real lstm_jacobian(const segment *s, const iv P[GO])
{
    const real *RESTRICT wi = s->w[GI], *RESTRICT wf = s->w[GF], *RESTRICT wg = s->w[GG],
                         *RESTRICT radius = s->radius;
    real *RESTRICT lo = s->j_lo, *RESTRICT hi = s->j_hi;
    const iv pi = P[GI], pf = P[GF], pg = P[GG];
    lanes sum = {{0}};
#define PART(from, count)                                                                          \
    for (size_t l = 0; l < (count); l++) {                                                         \
        const size_t j = (from) + l;                                                               \
        const bool i = wi[j] >= 0, f = wf[j] >= 0, g = wg[j] >= 0;                                 \
        hi[j] = wi[j] * (i ? pi.hi : pi.lo) + wf[j] * (f ? pf.hi : pf.lo) +                        \
                wg[j] * (g ? pg.hi : pg.lo);                                                       \
        lo[j] = wi[j] * (i ? pi.lo : pi.hi) + wf[j] * (f ? pf.lo : pf.hi) +                        \
                wg[j] * (g ? pg.lo : pg.hi);                                                       \
        sum.v[l] += larger(lo[j], hi[j]) * radius[j];                                              \
    }
    FOR_LANES(s->n, PART);
#undef PART
    return total(&sum);
}

/* The two ends of w_o [E] + [G] [J]. */
static ALWAYS_INLINE iv entry(real w, real j_lo, real j_hi, iv E, iv G)
{
    return (iv){w * (w >= 0 ? E.lo : E.hi) + j_lo * (j_lo >= 0 ? G.lo : G.hi),
                w * (w >= 0 ? E.hi : E.lo) + j_hi * (j_hi >= 0 ? G.hi : G.lo)};
}

SIMD_CLONES
static void lstm_entries(const segment *s, iv E, iv G, real *RESTRICT m, real *RESTRICT jhat)
{
    const real *RESTRICT w = s->w[GO], *RESTRICT lo = s->j_lo, *RESTRICT hi = s->j_hi;
    for (size_t j = 0; m && j < s->n; j++) {
        const iv e = entry(w[j], lo[j], hi[j], E, G);
        m[j] = larger(e.lo, e.hi);
    }
    for (size_t j = 0; jhat && j < s->n; j++)
        jhat[j] = larger(lo[j], hi[j]);
}

SIMD_CLONES
static double lstm_sum_of(const real *RESTRICT x, const real *RESTRICT weight, size_t n)
{
    double part[LANES] = {0}, sum = 0;
#define PART(from, count)                                                                          \
    for (size_t l = 0; l < (count); l++)                                                           \
        part[l] +=                                                                                 \
            weight ? (double)x[(from) + l] * (double)weight[(from) + l] : (double)x[(from) + l];
    FOR_LANES(n, PART);
#undef PART
    for (int l = 0; l < LANES; l++)
        sum += part[l];
    return sum;
}

real row_value(const segment *s, iv E, iv G, const row_weights *k, real *m, double *plain)
{
    lstm_entries(s, E, G, m, NULL);
    *plain = lstm_sum_of(m, NULL, s->n);
    double value = (double)k->k * *plain;
    if (k->K)
        value += lstm_sum_of(m, k->K, s->n);
    if (k->Khat) {
        lstm_entries(s, E, G, NULL, m);
        value += lstm_sum_of(m, k->Khat, s->n);
    }
    return (real)value;
}

/* ---- backward ----------------------------------------------------------------------------- */

/* `matrices`: whether K or Khat is given; known to the compiler. */
static ALWAYS_INLINE row_sums weighted_entries_back(const segment *s, iv E, iv G,
                                                    const row_weights *k, const bool matrices,
                                                    real mv_, real *RESTRICT dw_o,
                                                    real *RESTRICT j_lo_, real *RESTRICT j_hi_)
{
    const real *RESTRICT w_o = s->w[GO], *RESTRICT jl = s->j_lo, *RESTRICT jh = s->j_hi,
                         *RESTRICT radius = s->radius;
    const real *RESTRICT K = k->K, *RESTRICT Khat = k->Khat;
    const real scalar = k->k, e_mid = iv_mid(E), e_rad = iv_rad(E), g_mid = iv_mid(G),
               g_rad = iv_rad(G);
    lanes e_both = {{0}}, e_diff = {{0}}, g_lo = {{0}}, g_hi = {{0}};
#define PART(from, count)                                                                          \
    for (size_t l = 0; l < (count); l++) {                                                         \
        const size_t j = (from) + l;                                                               \
        const real w = w_o[j], lo = jl[j], hi = jh[j],                                             \
                   weight = matrices && K ? scalar + K[j] : scalar;                                \
        const real w_rad = sign(w) * e_rad, up = g_mid + sign(hi) * g_rad,                         \
                   down = g_mid - sign(lo) * g_rad;                                                \
        const real top = w * (e_mid + w_rad) + hi * up, bottom = w * (e_mid - w_rad) + lo * down;  \
        const real hi_ = top >= -bottom ? weight : 0, lo_ = hi_ - weight; /* one of them is 0 */   \
        dw_o[j] = hi_ * (e_mid + w_rad) + lo_ * (e_mid - w_rad);                                   \
        e_both.v[l] += w * (hi_ + lo_);                                                            \
        e_diff.v[l] += modulus(w) * weight; /* |w| (hi_ - lo_) */                                  \
        g_hi.v[l] += hi_ * positive(hi) - lo_ * positive(-lo);                                     \
        g_lo.v[l] += lo_ * positive(lo) - hi_ * positive(-hi);                                     \
        const real hat_ = mv_ * radius[j] + (matrices && Khat ? Khat[j] : 0);                      \
        const real upper = hi >= -lo ? hat_ : 0;                                                   \
        j_hi_[j] = hi_ * up + upper;                                                               \
        j_lo_[j] = lo_ * down + (upper - hat_);                                                    \
    }
    FOR_LANES(s->n, PART);
#undef PART
    const real both = total(&e_both), diff = total(&e_diff);
    return (row_sums){{(both - diff) / 2, (both + diff) / 2}, {total(&g_lo), total(&g_hi)}};
}

SIMD_CLONES
static row_sums lstm_entries_back(const segment *s, iv E, iv G, const row_weights *k, real mv_,
                                  real *dw_o, real *j_lo_, real *j_hi_)
{
    return k->K || k->Khat ? weighted_entries_back(s, E, G, k, true, mv_, dw_o, j_lo_, j_hi_)
                           : weighted_entries_back(s, E, G, k, false, mv_, dw_o, j_lo_, j_hi_);
}

SIMD_CLONES
static iv lstm_jacobian_back(const real *RESTRICT w, size_t n, iv P, const real *RESTRICT j_lo_,
                             const real *RESTRICT j_hi_, real *RESTRICT dw)
{
    const real p_mid = iv_mid(P), p_rad = iv_rad(P);
    lanes both = {{0}}, diff = {{0}};
#define PART(from, count)                                                                          \
    for (size_t l = 0; l < (count); l++) {                                                         \
        const size_t j = (from) + l;                                                               \
        const real sum = j_hi_[j] + j_lo_[j], gap = j_hi_[j] - j_lo_[j];                           \
        dw[j] = sum * p_mid + sign(w[j]) * gap * p_rad;                                            \
        both.v[l] += w[j] * sum;                                                                   \
        diff.v[l] += modulus(w[j]) * gap;                                                          \
    }
    FOR_LANES(n, PART);
#undef PART
    const real b = total(&both), d = total(&diff);
    return (iv){(b - d) / 2, (b + d) / 2};
}

SIMD_CLONES
static void lstm_range_back(const real *RESTRICT w, const segment *s, real dm, real dr,
                            const real *RESTRICT dw, real scale, real *RESTRICT out)
{
    const real *RESTRICT centre = s->centre, *RESTRICT radius = s->radius;
    for (size_t j = 0; j < s->n; j++) {
        const real signed_dr = w[j] > 0 ? dr : w[j] < 0 ? -dr : 0;
        out[j] += scale * (dw[j] + dm * centre[j] + signed_dr * radius[j]);
    }
}

/* ---- what others call --------------------------------------------------------------------- */

/* Functions compiled for several machines stay within a file: not all compilers name them alike. */
void row_range(const real *w, const segment *s, real out[2])
{
    lstm_range(w, s, out);
}

real row_jacobian(const segment *s, const iv P[GO])
{
    return lstm_jacobian(s, P);
}

void row_entries(const segment *s, iv E, iv G, real *m, real *jhat)
{
    lstm_entries(s, E, G, m, jhat);
}

row_sums row_entries_back(const segment *s, iv E, iv G, const row_weights *k, real mv_, real *dw_o,
                          real *j_lo_, real *j_hi_)
{
    return lstm_entries_back(s, E, G, k, mv_, dw_o, j_lo_, j_hi_);
}

iv row_jacobian_back(const real *w, size_t n, iv P, const real *j_lo_, const real *j_hi_, real *dw)
{
    return lstm_jacobian_back(w, n, P, j_lo_, j_hi_, dw);
}

void row_range_back(const real *w, const segment *s, real dm, real dr, const real *dw, real scale,
                    real *out)
{
    lstm_range_back(w, s, dm, dr, dw, scale, out);
}
