/* tensor/optim.c - Adam (Kingma and Ba 2015) with coupled L2, AdamW (Loshchilov and Hutter 2019). */
#include "tensor/optim.h"

#include <math.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/simd.h"
#include "tensor/kernels.h"

enum { PIECE = 1 << 16 }; /* elements a pool piece: fixed, so that bits do not depend on threads */

stet_status optim_init(optim *o, const optim_options *how, size_t n)
{
    *o = (optim){.how = *how, .n = n};
    o->m = mem_aligned(n, sizeof *o->m);
    o->v = mem_aligned(n, sizeof *o->v);
    if (!o->m || !o->v) {
        optim_deinit(o);
        return STET_ENOMEM;
    }
    for (size_t i = 0; i < n; i++)
        o->m[i] = o->v[i] = 0;
    return STET_OK;
}

void optim_deinit(optim *o)
{
    mem_free_aligned(o->m);
    mem_free_aligned(o->v);
    o->m = o->v = NULL;
}

double schedule_factor(const optim_options *how, uint64_t step)
{
    switch (how->schedule) {
    case SCHEDULE_COSINE:
        if (step >= how->total_steps)
            return 0;
        return 0.5 * (1 + cos(3.14159265358979323846 * (double)step / (double)how->total_steps));
    case SCHEDULE_STEP:
        return how->step_every ? pow(how->step_factor, (double)(step / how->step_every)) : 1;
    case SCHEDULE_CONSTANT:
        break;
    }
    return 1;
}

typedef struct step_job {
    const param_group *g;
    real *param, *m, *v;
    const real *grad;
    real scale;      /* of the gradient, from clipping */
    real l2, shrink; /* coupled and decoupled decay */
    real beta1, beta2, rate, root_correction, eps;
} step_job;

SIMD_CLONES
static void adam_range(const step_job *j, size_t from, size_t to)
{
    real *RESTRICT w = j->param, *RESTRICT m = j->m, *RESTRICT v = j->v;
    const real *RESTRICT grad = j->grad;
    const step_job s = *j;
    for (size_t i = from; i < to; i++) {
        const real g = grad[i] * s.scale + s.l2 * w[i];
        m[i] = s.beta1 * m[i] + (1 - s.beta1) * g;
        v[i] = s.beta2 * v[i] + (1 - s.beta2) * g * g;
#ifdef STET_DOUBLE
        const real root = sqrt(v[i]);
#else
        const real root = sqrtf(v[i]);
#endif
        w[i] = w[i] * s.shrink - s.rate * m[i] / (root * s.root_correction + s.eps);
    }
}

static void adam_piece(void *ctx, size_t i, int worker)
{
    (void)worker;
    const step_job *j = ctx;
    const size_t end = j->g->first + j->g->n, from = j->g->first + i * PIECE;
    adam_range(j, from, from + PIECE < end ? from + PIECE : end);
}

double optim_step(optim *o, const param_group *groups, size_t n_groups, real *param,
                  const real *grad)
{
    double sumsq = 0;
    for (size_t k = 0; k < n_groups; k++)
        sumsq += vec_sumsq(grad + groups[k].first, groups[k].n);
    const double norm = sqrt(sumsq);
    const double factor = schedule_factor(&o->how, o->step);
    o->step++;
    const double c1 = 1 - pow(o->how.beta1, (double)o->step),
                 c2 = 1 - pow(o->how.beta2, (double)o->step);
    const bool coupled = o->how.kind == OPTIM_ADAM;
    for (size_t k = 0; k < n_groups; k++) {
        const double rate = groups[k].rate * factor;
        step_job j = {
            .g = &groups[k],
            .param = param,
            .m = o->m,
            .v = o->v,
            .grad = grad,
            .scale = (real)(o->how.clip > 0 && norm > o->how.clip ? o->how.clip / norm : 1),
            .l2 = (real)(coupled ? groups[k].decay : 0),
            .shrink = (real)(coupled ? 1 : 1 - rate * groups[k].decay),
            .beta1 = (real)o->how.beta1,
            .beta2 = (real)o->how.beta2,
            .rate = (real)(rate / c1),
            .root_correction = (real)(1 / sqrt(c2)),
            .eps = (real)o->how.eps,
        };
        pool_run((groups[k].n + PIECE - 1) / PIECE, adam_piece, &j);
    }
    return norm;
}

bool early_stop_update(early_stop *e, double score)
{
    e->epoch++;
    const bool better = e->last || e->epoch == 1 || score > e->best;
    if (better) {
        e->best = score;
        e->best_epoch = e->epoch;
    }
    return better;
}

bool early_stop_done(const early_stop *e)
{
    return e->patience && e->epoch - e->best_epoch >= e->patience;
}
