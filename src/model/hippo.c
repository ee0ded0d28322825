/* model/hippo.c - HiPPO-LegS, diagonalised.
 *
 *     A[i][j] = -sqrt((2i + 1)(2j + 1)) (i > j), -(i + 1) (i = j), 0 (i < j);  P[i] = sqrt(i + 1/2)
 *
 * S = A + P P^T + I/2 is real and skew, so -iS is Hermitian. It is diagonalised as the real
 * symmetric matrix [[0, S], [-S, 0]] of twice the size, whose eigenvector [x; y] is x + iy; each
 * eigenvalue appears twice there, with two vectors that differ by a phase. Jacobi's method is slow
 * and takes the digits to the last: this runs once per model. */
#include "model/hippo.h"

#include <float.h>
#include <math.h>

#include "base/mem.h"

enum { MAX_SWEEPS = 64 };

static double low_rank(size_t i) /* P; B is sqrt(2) P */
{
    return sqrt((double)i + 0.5);
}

static double skew(size_t i, size_t j)
{
    return i > j ? -low_rank(i) * low_rank(j) : i < j ? low_rank(i) * low_rank(j) : 0;
}

/* Rows i and j of the matrix m (n, n): c row_i - s row_j, s row_i + c row_j. */
static void rotate_rows(double *m, size_t n, size_t i, size_t j, double c, double s)
{
    double *x = m + i * n, *y = m + j * n;
    for (size_t k = 0; k < n; k++) {
        const double a = x[k], b = y[k];
        x[k] = c * a - s * b;
        y[k] = s * a + c * b;
    }
}

static void rotate_columns(double *m, size_t n, size_t i, size_t j, double c, double s)
{
    for (size_t k = 0; k < n; k++) {
        const double a = m[k * n + i], b = m[k * n + j];
        m[k * n + i] = c * a - s * b;
        m[k * n + j] = s * a + c * b;
    }
}

/* Cyclic Jacobi: the symmetric m (n, n) becomes diagonal, v (n, n) gets the eigenvectors as rows.
 * An entry is done when it no longer changes the diagonal entries that it couples. */
static bool jacobi(double *m, double *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            v[i * n + j] = i == j;
    double scale = 0;
    for (size_t i = 0; i < n * n; i++)
        scale = fmax(scale, fabs(m[i]));
    for (int sweep = 0; sweep < MAX_SWEEPS; sweep++) {
        bool done = true;
        for (size_t i = 0; i < n; i++)
            for (size_t j = i + 1; j < n; j++) {
                const double off = m[i * n + j];
                if (fabs(off) <= scale * DBL_EPSILON * DBL_EPSILON)
                    continue;
                done = false;
                const double theta = (m[j * n + j] - m[i * n + i]) / (2 * off);
                const double t = copysign(1, theta) / (fabs(theta) + hypot(theta, 1));
                const double c = 1 / hypot(t, 1), s = t * c;
                rotate_columns(m, n, i, j, c, s);
                rotate_rows(m, n, i, j, c, s);
                rotate_rows(v, n, i, j, c, s);
            }
        if (done)
            return true;
    }
    return false;
}

/* The row of the smallest diagonal entry not yet taken. */
static size_t next_smallest(const double *m, size_t n, const bool *taken)
{
    size_t best = n;
    for (size_t i = 0; i < n; i++)
        if (!taken[i] && (best == n || m[i * n + i] < m[best * n + best]))
            best = i;
    return best;
}

/* p = conj(column).P with the column x + iy turned so that its first entry is real and positive. */
static void project(const double *column, size_t n_state, double *p, double *b)
{
    const double *x = column, *y = column + n_state;
    const double size = hypot(x[0], y[0]), turn_re = x[0] / size, turn_im = -y[0] / size;
    double re = 0, im = 0;
    for (size_t i = 0; i < n_state; i++) {
        re += (turn_re * x[i] - turn_im * y[i]) * low_rank(i);
        im -= (turn_re * y[i] + turn_im * x[i]) * low_rank(i);
    }
    p[0] = re;
    p[1] = im;
    b[0] = sqrt(2) * re;
    b[1] = sqrt(2) * im;
}

stet_status hippo_legs(size_t n_state, double *lambda_im, double *p, double *b)
{
    if (n_state == 0 || n_state % 2)
        return error_set(STET_EUSAGE, "state size %zu: expected a positive even number", n_state);
    const size_t n = 2 * n_state;
    double *m = mem_zalloc(n * n, sizeof *m), *v = mem_alloc(n * n, sizeof *v);
    bool *taken = mem_zalloc(n, sizeof *taken);
    stet_status st = m && v && taken ? STET_OK : STET_ENOMEM;
    if (st == STET_OK) {
        for (size_t i = 0; i < n_state; i++)
            for (size_t j = 0; j < n_state; j++) {
                m[i * n + n_state + j] = skew(i, j);
                m[(n_state + i) * n + j] = -skew(i, j);
            }
        if (!jacobi(m, v, n))
            st = error_set(STET_EINTERNAL, "HiPPO matrix of size %zu: no convergence", n_state);
    }
    for (size_t k = 0; st == STET_OK && k < n_state / 2; k++) {
        const size_t i = next_smallest(m, n, taken);
        taken[i] = true;
        taken[next_smallest(m, n, taken)] = true; /* the same mode again, with another phase */
        lambda_im[k] = m[i * n + i];
        project(v + i * n, n_state, p + 2 * k, b + 2 * k);
    }
    mem_free(m);
    mem_free(v);
    mem_free(taken);
    return st;
}
