/* model/hippo.c - HiPPO-LegS, diagonalised.
 *
 *     A[i][j] = -sqrt((2i + 1)(2j + 1)) (i > j), -(i + 1) (i = j), 0 (i < j)
 *     B[i] = sqrt(2i + 1), P[i] = sqrt(i + 1/2)
 *
 * S = A + P P^T + I/2 is real and skew, so -iS is Hermitian. Householder reflections make S
 * tridiagonal, S = Q T Q^T with T[k][k+1] = t_k; then -iT = D J D^* with D = diag(1, i, -1, -i,
 * ...) and the real symmetric J that has t_k beside a zero diagonal. With J = U diag(w) U^T the
 * eigenvectors are V = Q D U.
 *
 * Neither Q nor U is ever formed: P is reflected along with S, and the three rows of interest are
 * rotated along with J. Q leaves the first coordinate alone, so that row 0 of V is row 0 of U. */
#include "model/hippo.h"

#include <float.h>
#include <math.h>

#include "base/mem.h"

enum { MAX_ROUNDS = 60 }; /* for one eigenvalue; two are usual */
enum { FIRST, RE, IM, ROWS };

typedef struct reduced {
    size_t n;
    double *d,
        *t; /* (n) diagonal and the entries beside it, t[n - 1] = 0; d becomes the eigenvalues */
    double *row[ROWS]; /* (n) row 0 of V, real and imaginary part of P^T conj(V) */
} reduced;

static double low_rank(size_t i) /* P; B is sqrt(2) P */
{
    return sqrt((double)i + 0.5);
}

/* Reflect coordinates k+1 .. n-1 so that column k of the skew s (n, n) keeps only the first of
 * them: H = I - beta v v^T gives H s H = s + v p^T - p v^T with p = beta s v, since v^T s v = 0. */
static void reflect(double *s, size_t n, size_t k, double *y, double *v, double *p)
{
    double size = 0, vv = 0, vy = 0;
    for (size_t i = k + 1; i < n; i++)
        size = hypot(size, s[i * n + k]);
    if (size == 0)
        return;
    for (size_t i = 0; i < n; i++)
        v[i] = i > k ? s[i * n + k] : 0;
    v[k + 1] += copysign(size, v[k + 1]);
    for (size_t i = k + 1; i < n; i++) {
        vv += v[i] * v[i];
        vy += v[i] * y[i];
    }
    for (size_t i = k; i < n; i++) {
        p[i] = 0;
        for (size_t j = k + 1; j < n; j++)
            p[i] += 2 / vv * s[i * n + j] * v[j];
    }
    for (size_t i = k; i < n; i++) {
        for (size_t j = k; j < n; j++)
            s[i * n + j] += v[i] * p[j] - p[i] * v[j];
        y[i] -= 2 / vv * vy * v[i];
    }
}

static void reduce(reduced *r, double *s, double *y, double *v, double *p)
{
    const size_t n = r->n;
    for (size_t i = 0; i < n; i++) {
        y[i] = low_rank(i);
        for (size_t j = 0; j < n; j++)
            s[i * n + j] = i == j ? 0 : (i > j ? -1 : 1) * low_rank(i) * low_rank(j);
    }
    for (size_t k = 0; k + 2 < n; k++)
        reflect(s, n, k, y, v, p);
    for (size_t k = 0; k < n; k++) {
        static const double re[4] = {1, 0, -1, 0}, im[4] = {0, -1, 0, 1}; /* conj(i^k) */
        r->d[k] = 0;
        r->t[k] = k + 1 < n ? s[k * n + k + 1] : 0;
        r->row[FIRST][k] = k == 0;
        r->row[RE][k] = re[k % 4] * y[k];
        r->row[IM][k] = im[k % 4] * y[k];
    }
}

/* Columns i and i + 1 of the rows: (x, y) -> (c x - s y, s x + c y). */
static void rotate(reduced *r, size_t i, double c, double s)
{
    for (int k = 0; k < ROWS; k++) {
        double *row = r->row[k];
        const double x = row[i], y = row[i + 1];
        row[i] = c * x - s * y;
        row[i + 1] = s * x + c * y;
    }
}

/* One implicit QL sweep over first .. last with a shift near the eigenvalue at `first`: a rotation
 * at the lower end makes a bulge, which the following ones push up and out. */
static void sweep(reduced *r, size_t first, size_t last)
{
    double *d = r->d, *t = r->t;
    const double half = (d[first + 1] - d[first]) / (2 * t[first]);
    const double shift = d[first] - t[first] / (half + copysign(hypot(half, 1), half));
    double x = d[last] - shift, bulge = 0, c = 1, s = 1, moved = 0;
    for (size_t i = last; i-- > first;) {
        bulge = s * t[i];
        const double beside = c * t[i], size = hypot(bulge, x);
        t[i + 1] = size;
        if (size == 0) { /* the matrix falls apart here */
            d[i + 1] -= moved;
            t[last] = 0;
            return;
        }
        s = bulge / size;
        c = x / size;
        const double below = d[i + 1] - moved;
        const double turn = (d[i] - below) * s + 2 * c * beside;
        moved = s * turn;
        d[i + 1] = below + moved;
        x = c * turn - beside;
        rotate(r, i, c, s);
    }
    d[first] -= moved;
    t[first] = x;
    t[last] = 0;
}

static bool diagonalise(reduced *r)
{
    for (size_t first = 0; first < r->n; first++)
        for (int round = 0;; round++) {
            size_t last = first;
            while (last + 1 < r->n &&
                   fabs(r->t[last]) > DBL_EPSILON * (fabs(r->d[last]) + fabs(r->d[last + 1])))
                last++;
            if (last == first)
                break;
            if (round == MAX_ROUNDS)
                return false;
            sweep(r, first, last);
        }
    return true;
}

/* The modes below zero in rising order; each taken column is marked by an eigenvalue that is not.
 */
static void take_modes(reduced *r, double *lambda_im, double *p, double *b)
{
    for (size_t k = 0; k < r->n / 2; k++) {
        size_t best = 0;
        for (size_t i = 1; i < r->n; i++)
            if (r->d[i] < r->d[best])
                best = i;
        const double sign = r->row[FIRST][best] < 0 ? -1 : 1;
        lambda_im[k] = r->d[best];
        p[2 * k] = sign * r->row[RE][best];
        p[2 * k + 1] = sign * r->row[IM][best];
        b[2 * k] = sqrt(2) * p[2 * k];
        b[2 * k + 1] = sqrt(2) * p[2 * k + 1];
        r->d[best] = INFINITY;
    }
}

stet_status hippo_legs(size_t n_state, double *lambda_im, double *p, double *b)
{
    const size_t n = n_state;
    size_t rows_and_matrix;
    if (n == 0 || n % 2)
        return error_set(STET_EUSAGE, "state size %zu: expected a positive even number", n);
    if (n > SIZE_MAX - ROWS - 5 || !size_mul(n, n + ROWS + 5, &rows_and_matrix))
        return error_set(STET_ENOMEM, "state size %zu is too large", n);
    double *m = mem_alloc(rows_and_matrix, sizeof *m);
    if (!m)
        return STET_ENOMEM;
    reduced r = {n, m, m + n, {m + 2 * n, m + 3 * n, m + 4 * n}};
    reduce(&r, m + 8 * n, m + 5 * n, m + 6 * n, m + 7 * n);
    stet_status st = STET_OK;
    if (diagonalise(&r))
        take_modes(&r, lambda_im, p, b);
    else
        st = error_set(STET_EINTERNAL, "HiPPO matrix of size %zu: no convergence", n);
    mem_free(m);
    return st;
}
