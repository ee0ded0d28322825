/* tensor/optim.c - Adam (Kingma and Ba 2015) with coupled L2, AdamW (Loshchilov and Hutter 2019). */
#include "tensor/optim.h"

#include <math.h>

const optim_device *const optim_devices[DEV_COUNT] = {[DEV_CPU] = &optim_cpu};

stet_status optim_init(optim *o, const optim_options *how, store *s, size_t n)
{
    *o = (optim){.how = *how, .store = s, .n = n};
    o->m = store_alloc(s, n, sizeof *o->m);
    o->v = store_alloc(s, n, sizeof *o->v);
    o->norm = store_alloc(s, 1, sizeof *o->norm);
    if (!o->m || !o->v || !o->norm) {
        optim_deinit(o);
        return STET_ENOMEM;
    }
    store_clear(s, o->m, n * sizeof *o->m);
    store_clear(s, o->v, n * sizeof *o->v);
    store_clear(s, o->norm, sizeof *o->norm);
    return STET_OK;
}

void optim_deinit(optim *o)
{
    if (!o->store)
        return;
    store_release(o->store, o->m);
    store_release(o->store, o->v);
    store_release(o->store, o->norm);
    o->m = o->v = NULL;
    o->norm = NULL;
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

stet_status optim_step(optim *o, const param_group *groups, size_t n_groups, real *param,
                       const real *grad)
{
    const optim_device *dev = optim_devices[o->store->desc->kernels];
    if (!dev)
        return error_set(STET_ENOTSUP, "the optimiser has no kernels on %s", o->store->desc->name);
    const double factor = schedule_factor(&o->how, o->step);
    o->step++;
    const double c1 = 1 - pow(o->how.beta1, (double)o->step),
                 c2 = 1 - pow(o->how.beta2, (double)o->step);
    const bool coupled = o->how.kind == OPTIM_ADAM;
    store_enter(o->store);
    dev->norm(groups, n_groups, grad, o->norm);
    for (size_t k = 0; k < n_groups; k++) {
        const double rate = groups[k].rate * factor;
        dev->adam(&(adam_step){
            .param = param,
            .m = o->m,
            .v = o->v,
            .grad = grad,
            .first = groups[k].first,
            .n = groups[k].n,
            .norm = o->norm,
            .clip = o->how.clip,
            .l2 = (real)(coupled ? groups[k].decay : 0),
            .shrink = (real)(coupled ? 1 : 1 - rate * groups[k].decay),
            .beta1 = (real)o->how.beta1,
            .beta2 = (real)o->how.beta2,
            .rate = (real)(rate / c1),
            .root_correction = (real)(1 / sqrt(c2)),
            .eps = (real)o->how.eps,
        });
    }
    store_leave(o->store);
    return STET_OK;
}

stet_status optim_norm(const optim *o, double *norm)
{
    return store_download(o->store, norm, o->norm, sizeof *norm);
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
