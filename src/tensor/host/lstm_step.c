/* tensor/host/lstm_step.c - see lstm_step.h. */
#include "tensor/host/lstm_step.h"

#include <string.h>

#include "tensor/host/panel.h"
#include "tensor/vmath.h"

size_t lstm_padded(size_t n)
{
    return panel_padded(n);
}

void lstm_pack(size_t H, const real *w_hh, real *u, real *u_back)
{
    memset(u, 0, H * panel_padded(4 * H) * sizeof *u);
    memset(u_back, 0, 4 * H * panel_padded(H) * sizeof *u_back);
    panel_pack(H, 4 * H, w_hh, 1, H, 0, u);
    panel_pack(4 * H, H, w_hh, H, 1, 0, u_back);
}

/* forward ------------------------------------------------------------------------------------ */

/* c_next may be c. */
SIMD_CLONES static void activate(size_t H, const real *RESTRICT z, const real *c,
                                 real *RESTRICT gates, real *RESTRICT h_next, real *c_next)
{
    INDEPENDENT
    for (size_t j = 0; j < H; j++) {
        const real i = v_sigmoid(z[j]), f = v_sigmoid(z[H + j]);
        const real g = v_tanh(z[2 * H + j]), o = v_sigmoid(z[3 * H + j]);
        const real cn = f * c[j] + i * g;
        gates[j] = i;
        gates[H + j] = f;
        gates[2 * H + j] = g;
        gates[3 * H + j] = o;
        c_next[j] = cn;
        h_next[j] = o * v_tanh(cn);
    }
}

/* z (n, G): what goes into the gates. */
static void gate_inputs(const lstm_cell *cell, size_t n, bool first, const real *const *x,
                        const real *h, real *z)
{
    panel_fn *const multiply = panel_kernel();
    for (size_t j = 0; j < cell->G; j += PANEL)
        multiply(n, first ? 0 : cell->H, (panel_left){h, cell->P, 1},
                 (panel_right){cell->u + j * cell->H, PANEL},
                 (panel_start){x, cell->bias, j, false}, z + j, cell->G);
}

void lstm_step_forward(const lstm_cell *cell, size_t n, bool first, const real *const *x,
                       const real *h, const real *c, real *z, real *gates, real *const *h_next,
                       real *const *c_next)
{
    const size_t H = cell->H, G = cell->G, P = cell->P;
    gate_inputs(cell, n, first, x, h, z);
    for (size_t r = 0; r < n; r++)
        activate(H, z + r * G, c + r * P, gates + r * G, h_next[r], c_next[r]);
}

/* With a = exp(-z_i), b = exp(-z_f), e = exp(-2 z_g), o = exp(-z_o) the new c is
 * c / (1 + b) + (1 - e) / ((1 + a) (1 + e)), here over one denominator, and the new h is
 * (1 - u) / ((1 + o) (1 + u)) with u = exp(-2 c): two divisions in place of five. No denominator
 * overflows, because v_exp_mid ends at exp(28). */
SIMD_CLONES static void read_on(size_t H, const real *RESTRICT z, real *RESTRICT h,
                                real *RESTRICT c)
{
    for (size_t j = 0; j < H; j++) {
        const real e = v_exp_mid(-2 * z[2 * H + j]);
        const real ig = (1 + v_exp_mid(-z[j])) * (1 + e), f = 1 + v_exp_mid(-z[H + j]);
        c[j] = (c[j] * ig + (1 - e) * f) / (ig * f);
        const real u = v_exp_mid(-2 * c[j]);
        h[j] = (1 - u) / ((1 + v_exp_mid(-z[3 * H + j])) * (1 + u));
    }
}

void lstm_step_read(const lstm_cell *cell, size_t n, const real *const *x, real *h, real *c,
                    real *z)
{
    gate_inputs(cell, n, false, x, h, z);
    for (size_t r = 0; r < n; r++)
        read_on(cell->H, z + r * cell->G, h + r * cell->P, c + r * cell->P);
}

/* backward ----------------------------------------------------------------------------------- */

/* The old c and the gates give the new c again, so it was not kept. */
SIMD_CLONES static void activate_back(size_t H, const real *RESTRICT gates, const real *RESTRICT c,
                                      const real *RESTRICT dh, real *RESTRICT dc, real *RESTRICT dz)
{
    for (size_t j = 0; j < H; j++) {
        const real i = gates[j], f = gates[H + j], g = gates[2 * H + j], o = gates[3 * H + j];
        const real tc = v_tanh(f * c[j] + i * g);
        const real e = v_settle(dh[j]), d = v_settle(dc[j] + e * o * (1 - tc * tc));
        dz[j] = d * g * i * (1 - i);
        dz[H + j] = d * c[j] * f * (1 - f);
        dz[2 * H + j] = d * i * (1 - g * g);
        dz[3 * H + j] = e * tc * o * (1 - o);
        dc[j] = d * f;
    }
}

void lstm_step_backward(const lstm_cell *cell, size_t n, bool first, const real *gates,
                        const real *c, real *dh, real *dc, real *dz)
{
    const size_t H = cell->H, G = cell->G, P = cell->P;
    for (size_t r = 0; r < n; r++)
        activate_back(H, gates + r * G, c + r * P, dh + r * P, dc + r * P, dz + r * G);
    if (first)
        return;
    /* one gate at a time: its part of the weights stays in the first cache for all rows */
    panel_fn *const multiply = panel_kernel();
    for (size_t k = 0; k < P; k += PANEL)
        for (size_t j = 0; j < 4 * H; j += H)
            multiply(n, H, (panel_left){dz + j, G, 1},
                     (panel_right){cell->u_back + k * 4 * H + j * PANEL, PANEL},
                     (panel_start){.zero = j == 0}, dh + k, P);
}

void lstm_recurrent_gradient(size_t H, size_t n, const real *dz, size_t dz_step, const real *h,
                             size_t h_step, real *du)
{
    const size_t P = panel_padded(H);
    for (size_t k = 0; k < P; k += PANEL)
        panel_kernel()(4 * H, n, (panel_left){dz, 1, dz_step}, (panel_right){h + k, h_step},
                       (panel_start){0}, du + k, P);
}
