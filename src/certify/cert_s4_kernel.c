/* certify/cert_s4_kernel.c - how far the kernel of an S4 channel may be from the real one.
 *
 * K_l = 2 Re(C . z_l) at the end of a recurrence in double (tensor/cpu/s4_kernel.c)
 *
 *     z_0 = 2 dh B - 2 gain Re(g . B) q,   z_{l+1} = e z_l - f Re(g . z_l),
 *
 * dh = 1 / (delta - Lambda), q = dh P, f = 2 delta gain q, g = conj(P) dh. Real parts of Lambda are not
 * positive and the matrix is Lambda - P P*, so that A + A* <= 0 and its Cayley transform, which is the
 * step, lengthens no vector: an error of z_l stays as long as it is, and each step adds at most
 * `local` |z|. Where B and C are large and cancel, K has few digits or none, and this says so. Lemma 5
 * of docs/numerics.md counts the roundings. */
#include <math.h>

#include "certify/cert_s4.h"

static const double unit = 0x1p-53;

/* Sums of squares over the states of a channel, of numbers that are given as pairs or not. */
typedef struct lengths {
    double b, c, dh_b, q; /* |g| is |q| */
    double rho;
} lengths;

static lengths measure(const s4_space *s, size_t h, double delta)
{
    lengths n = {0};
    for (size_t i = 0; i < s->states; i++) {
        const size_t at = h * s->states + i;
        const double decay = delta + exp((double)s->log_a[at]), w = s->w[at];
        const double p = hypot(s->p[2 * at], s->p[2 * at + 1]);
        const double b = hypot(s->b[2 * at], s->b[2 * at + 1]);
        const double c = hypot(s->c[2 * at], s->c[2 * at + 1]);
        const double dh = decay > 1e-100 && decay < 1e100 ? 1 / hypot(decay, w) : NAN;
        n.b += b * b;
        n.c += c * c;
        n.dh_b += dh * b * dh * b;
        n.q += dh * p * dh * p;
        n.rho += 2 * p * p * dh * dh * decay;
    }
    return n;
}

void s4_kernel_error(const s4_space *s, size_t h, size_t len, double *at, double *step)
{
    const double delta = 2 * exp(-(double)s->log_dt[h]), count = (double)(4 * s->states + 128);
    const lengths n = measure(s, h, delta);
    const double gain = 2 / (1 + n.rho) * (1 + S4_OUTWARD);
    const double z = (2 * sqrt(n.dh_b) + 2 * gain * n.q * sqrt(n.b)) * (1 + S4_OUTWARD) + S4_TINY;
    const double local = unit * (128 + count * 2 * delta * gain * n.q);
    const double felt = 2.02 * sqrt(n.c) * z; /* 2 |C| |z_l|, which rounding lets grow a little */
    *at = felt * 2 * unit * count + S4_TINY;
    *step = felt * local;
    if (!(local * (double)len < 0x1p-10) || !(*at < INFINITY))
        *at = INFINITY, *step = 0;
}
