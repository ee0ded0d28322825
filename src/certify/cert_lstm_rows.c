/* certify/cert_lstm_rows.c - see cert_lstm_rows.h. */
#include "certify/cert_lstm_rows.h"

#include <string.h>

#include "base/simd.h"
#include "bound/lstm_rows.h"

/* Ends of a product of intervals in place: x.lo, x.hi times [lo, hi]. */
static ALWAYS_INLINE ival product(double a_lo, double a_hi, double b_lo, double b_hi)
{
    const double p = a_lo * b_lo, q = a_lo * b_hi, r = a_hi * b_lo, s = a_hi * b_hi;
    return (ival){lesser(lesser(p, q), lesser(r, s)), greater(greater(p, q), greater(r, s))};
}

/* ---- products ----------------------------------------------------------------------------- */

enum { ROWS = 4, COLS = 32 };

/* ROWS x COLS of the result stay in registers over the inner dimension. */
static ALWAYS_INLINE void tile(size_t rows, size_t cols, size_t n, size_t k,
                               const double *RESTRICT a, const double *RESTRICT b,
                               double *RESTRICT c)
{
    double sum[ROWS][COLS] = {{0}};
    for (size_t l = 0; l < k; l++)
        for (size_t r = 0; r < rows; r++)
            for (size_t j = 0; j < cols; j++)
                sum[r][j] += a[r * k + l] * b[l * n + j];
    for (size_t r = 0; r < rows; r++)
        memcpy(c + r * n, sum[r], cols * sizeof *c);
}

SIMD_CLONES
void rows_product(size_t m, size_t n, size_t k, const double *a, const double *b, double *c)
{
    for (size_t i = 0; i < m; i += ROWS)
        for (size_t j = 0; j < n; j += COLS) {
            const size_t rows = m - i < ROWS ? m - i : ROWS, cols = n - j < COLS ? n - j : COLS;
            if (rows == ROWS && cols == COLS)
                tile(ROWS, COLS, n, k, a + i * k, b + j, c + i * n + j);
            else
                tile(rows, cols, n, k, a + i * k, b + j, c + i * n + j);
        }
}

/* The same for middles and radii: of four rows, or of one, as many columns as there are registers. */
enum { RANGE_TILE = 64, RANGE_COLS = RANGE_TILE / ROWS };

static ALWAYS_INLINE void range_tile(size_t rows, size_t cols, size_t n, size_t k,
                                     const double *RESTRICT b, const double *RESTRICT x,
                                     const double *RESTRICT r, double *RESTRICT mid,
                                     double *RESTRICT rad)
{
    double m[RANGE_TILE] = {0}, s[RANGE_TILE] = {0};
    for (size_t l = 0; l < k; l++)
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < cols; j++) {
                m[i * cols + j] += b[l * n + j] * x[i * k + l];
                s[i * cols + j] += fabs(b[l * n + j]) * r[i * k + l];
            }
    for (size_t i = 0; i < rows; i++) {
        memcpy(mid + i * n, m + i * cols, cols * sizeof *mid);
        memcpy(rad + i * n, s + i * cols, cols * sizeof *rad);
    }
}

SIMD_CLONES
void rows_range(size_t m, size_t n, size_t k, const double *b, const double *x, const double *r,
                double *mid, double *rad)
{
    size_t i = 0;
    for (; i + ROWS <= m; i += ROWS) {
        size_t j = 0;
        for (; j + RANGE_COLS <= n; j += RANGE_COLS)
            range_tile(ROWS, RANGE_COLS, n, k, b + j, x + i * k, r + i * k, mid + i * n + j,
                       rad + i * n + j);
        if (j < n)
            range_tile(ROWS, n - j, n, k, b + j, x + i * k, r + i * k, mid + i * n + j,
                       rad + i * n + j);
    }
    for (; i < m; i++) {
        size_t j = 0;
        for (; j + RANGE_TILE <= n; j += RANGE_TILE)
            range_tile(1, RANGE_TILE, n, k, b + j, x + i * k, r + i * k, mid + i * n + j,
                       rad + i * n + j);
        if (j < n)
            range_tile(1, n - j, n, k, b + j, x + i * k, r + i * k, mid + i * n + j,
                       rad + i * n + j);
    }
}

/* ---- forward ------------------------------------------------------------------------------ */

SIMD_CLONES
void rows_jacobian(size_t H, const double *ut, ivals P, ivals d, ivals bt, ivals out)
{
    const double *RESTRICT p_lo = P.lo, *RESTRICT p_hi = P.hi;
    double *RESTRICT out_lo = out.lo, *RESTRICT out_hi = out.hi;
    memset(out_lo, 0, H * sizeof *out_lo);
    memset(out_hi, 0, H * sizeof *out_hi);
    for (size_t j = 0; j < H; j++) {
        const double *RESTRICT ui = ut + j * 4 * H, *RESTRICT uf = ui + H, *RESTRICT ug = uf + H;
        double *RESTRICT b_lo = bt.lo + j * H, *RESTRICT b_hi = bt.hi + j * H;
        const double d_lo = d.lo[j], d_hi = d.hi[j];
        for (size_t i = 0; i < H; i++) {
            const double i0 = ui[i] * p_lo[i], i1 = ui[i] * p_hi[i];
            const double f0 = uf[i] * p_lo[H + i], f1 = uf[i] * p_hi[H + i];
            const double g0 = ug[i] * p_lo[2 * H + i], g1 = ug[i] * p_hi[2 * H + i];
            b_lo[i] = lesser(i0, i1) + lesser(f0, f1) + lesser(g0, g1);
            b_hi[i] = greater(i0, i1) + greater(f0, f1) + greater(g0, g1);
            const ival x = product(b_lo[i], b_hi[i], d_lo, d_hi);
            out_lo[i] += x.lo;
            out_hi[i] += x.hi;
        }
    }
}

SIMD_CLONES
void rows_through(size_t H, const double *ut, ivals E, ivals G, ivals bt, ivals d, ivals out)
{
    const double *RESTRICT e_lo = E.lo, *RESTRICT e_hi = E.hi;
    const double *RESTRICT g_lo = G.lo, *RESTRICT g_hi = G.hi;
    double *RESTRICT out_lo = out.lo, *RESTRICT out_hi = out.hi;
    memset(out_lo, 0, H * sizeof *out_lo);
    memset(out_hi, 0, H * sizeof *out_hi);
    for (size_t j = 0; j < H; j++) {
        const double *RESTRICT uo = ut + j * 4 * H + GO * H;
        const double *RESTRICT b_lo = bt.lo + j * H, *RESTRICT b_hi = bt.hi + j * H;
        const double d_lo = d.lo[j], d_hi = d.hi[j];
        for (size_t i = 0; i < H; i++) {
            const double e0 = uo[i] * e_lo[i], e1 = uo[i] * e_hi[i];
            const double m_lo = lesser(e0, e1) + lesser(g_lo[i] * b_lo[i], g_hi[i] * b_lo[i]);
            const double m_hi = greater(e0, e1) + greater(g_lo[i] * b_hi[i], g_hi[i] * b_hi[i]);
            const ival x = product(m_lo, m_hi, d_lo, d_hi);
            out_lo[i] += x.lo;
            out_hi[i] += x.hi;
        }
    }
}

/* ---- backward ----------------------------------------------------------------------------- */

SIMD_CLONES
void rows_adjoint(size_t H, const double *u, const rows_back *x, ivals one, ivals two)
{
    double *RESTRICT one_lo = one.lo, *RESTRICT one_hi = one.hi;
    double *RESTRICT two_lo = two.lo, *RESTRICT two_hi = two.hi;
    memset(one_lo, 0, H * sizeof *one_lo);
    memset(one_hi, 0, H * sizeof *one_hi);
    memset(two_lo, 0, H * sizeof *two_lo);
    memset(two_hi, 0, H * sizeof *two_hi);
    for (size_t i = 0; i < H; i++) {
        const double *RESTRICT ui = u + i * H, *RESTRICT uf = ui + H * H, *RESTRICT ug = uf + H * H,
                               *RESTRICT uo = ug + H * H;
        const ival Pi = ival_at(x->P, i), Pf = ival_at(x->P, H + i), Pg = ival_at(x->P, 2 * H + i);
        const ival E = ival_at(x->E, i), G = ival_at(x->G, i);
        const ival lh = ival_at(x->lam_h, i), lc = ival_at(x->lam_c, i);
        const ival lE = ival_at(x->lam_E, i), kap = ival_at(x->kap, i);
        for (size_t j = 0; j < H; j++) {
            const double b_lo = lesser(ui[j] * Pi.lo, ui[j] * Pi.hi) +
                                lesser(uf[j] * Pf.lo, uf[j] * Pf.hi) +
                                lesser(ug[j] * Pg.lo, ug[j] * Pg.hi);
            const double b_hi = greater(ui[j] * Pi.lo, ui[j] * Pi.hi) +
                                greater(uf[j] * Pf.lo, uf[j] * Pf.hi) +
                                greater(ug[j] * Pg.lo, ug[j] * Pg.hi);
            const double m_lo =
                lesser(uo[j] * E.lo, uo[j] * E.hi) + lesser(G.lo * b_lo, G.hi * b_lo);
            const double m_hi =
                greater(uo[j] * E.lo, uo[j] * E.hi) + greater(G.lo * b_hi, G.hi * b_hi);
            const ival through = product(m_lo, m_hi, lh.lo, lh.hi);
            const ival cell = product(b_lo, b_hi, lc.lo, lc.hi);
            const ival both = product(b_lo, b_hi, kap.lo, kap.hi);
            one_lo[j] += through.lo + cell.lo;
            one_hi[j] += through.hi + cell.hi;
            two_lo[j] += lesser(uo[j] * lE.lo, uo[j] * lE.hi) + both.lo;
            two_hi[j] += greater(uo[j] * lE.lo, uo[j] * lE.hi) + both.hi;
        }
    }
}

/* ---- affine forms ------------------------------------------------------------------------- */

SIMD_CLONES
void rows_error(size_t H, const double *ut, const double *P, const double *E, const double *G,
                const double *e, double *RESTRICT out)
{
    const double *RESTRICT pi = P, *RESTRICT pf = pi + H, *RESTRICT pg = pf + H;
    memset(out, 0, H * sizeof *out);
    for (size_t j = 0; j < H; j++) {
        const double *RESTRICT ui = ut + j * 4 * H, *RESTRICT uf = ui + H, *RESTRICT ug = uf + H,
                               *RESTRICT uo = ug + H;
        const double ej = e[j];
        for (size_t i = 0; i < H; i++) {
            const double b = pi[i] * ui[i] + pf[i] * uf[i] + pg[i] * ug[i];
            out[i] += fabs(E[i] * uo[i] + G[i] * b) * ej;
        }
    }
}

SIMD_CLONES
void rows_cell(size_t H, const double *P, const double *F, const double *GT, double *RESTRICT g)
{
    const double *RESTRICT gi = GT, *RESTRICT gf = gi + H, *RESTRICT gg = gf + H;
    const double *RESTRICT pi = P, *RESTRICT pf = pi + H, *RESTRICT pg = pf + H;
    for (size_t i = 0; i < H; i++)
        g[i] = pi[i] * gi[i] + pf[i] * gf[i] + pg[i] * gg[i] + F[i] * g[i];
}

SIMD_CLONES
void rows_hidden(size_t H, const double *E, const double *G, const double *GT,
                 const double *RESTRICT c, double *RESTRICT g)
{
    for (size_t i = 0; i < H; i++)
        g[i] = E[i] * GT[GO * H + i] + G[i] * c[i];
}

SIMD_CLONES
void rows_hull(size_t n, size_t width, const double *a, double *RESTRICT lo, double *RESTRICT hi)
{
    memcpy(lo, a, width * sizeof *lo);
    memcpy(hi, a, width * sizeof *hi);
    for (size_t k = 1; k < n; k++)
        for (size_t i = 0; i < width; i++) {
            lo[i] = lesser(lo[i], a[k * width + i]);
            hi[i] = greater(hi[i], a[k * width + i]);
        }
}

SIMD_CLONES
void rows_choice(size_t n, size_t width, size_t step, const double *a, double *RESTRICT lo,
                 double *RESTRICT hi)
{
    for (size_t i = 0; i < width; i++) {
        double least = 0, most = 0;
        for (size_t k = 0; k < n; k++) {
            least = lesser(least, a[k * step + i]);
            most = greater(most, a[k * step + i]);
        }
        lo[i] += least;
        hi[i] += most;
    }
}

SIMD_CLONES
void rows_sizes(size_t n, size_t width, const double *a, double *RESTRICT out)
{
    memset(out, 0, width * sizeof *out);
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < width; i++)
            out[i] += fabs(a[k * width + i]);
}
