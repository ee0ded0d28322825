/* tensor/optim.c - Adam (Kingma and Ba 2015) with coupled L2, AdamW (Loshchilov and Hutter 2019). */
#include "tensor/optim.h"

#include <math.h>

#include "base/mem.h"

const optim_device *const optim_devices[DEV_COUNT] = {
    [DEV_CPU] = &optim_cpu,
#ifdef STET_HAVE_CUDA
    [DEV_CUDA] = &optim_cuda,
#endif
};

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
        return step < how->hold ? 1
                                : 0.5 * (1 + cos(3.14159265358979323846 * (double)(step - how->hold) /
                                                 (double)(how->total_steps - how->hold)));
    case SCHEDULE_STEP:
        return how->step_every ? pow(how->step_factor, (double)(step / how->step_every)) : 1;
    case SCHEDULE_LINEAR: /* the first step is number 1 */
        if (step >= how->total_steps)
            return 0;
        return step < how->warmup
                   ? (double)(step + 1) / (double)how->warmup
                   : (double)(how->total_steps - step - 1) / (double)(how->total_steps - how->warmup);
    case SCHEDULE_CONSTANT:
        break;
    }
    return 1;
}

/* The numbers of a step of `o` for a group of this rate and decay. */
static adam_step step_of(const optim *o, uint64_t step, double group_rate, double group_decay)
{
    const double factor = schedule_factor(&o->how, step - 1), rate = group_rate * factor;
    const double c1 = 1 - pow(o->how.beta1, (double)step), c2 = 1 - pow(o->how.beta2, (double)step);
    const bool coupled = o->how.kind == OPTIM_ADAM;
    return (adam_step){
        .norm = o->norm,
        .clip = o->how.clip,
        .l2 = (real)(coupled ? group_decay : 0),
        .shrink = (real)(coupled ? 1 : 1 - rate * group_decay),
        .beta1 = (real)o->how.beta1,
        .beta2 = (real)o->how.beta2,
        .rate = (real)(rate / c1),
        .root_correction = (real)(1 / sqrt(c2)),
        .eps = (real)o->how.eps,
    };
}

static stet_status device_of(const store *s, const optim_device **out)
{
    *out = optim_devices[s->desc->kernels];
    return *out ? STET_OK
                : error_set(STET_ENOTSUP, "the optimiser has no kernels on %s", s->desc->name);
}

stet_status optim_step(optim *o, const param_group *groups, size_t n_groups, real *param,
                       const real *grad)
{
    const optim_device *dev;
    TRY(device_of(o->store, &dev));
    o->step++;
    store_enter(o->store);
    dev->norm(groups, n_groups, grad, o->norm);
    for (size_t k = 0; k < n_groups; k++) {
        adam_step s = step_of(o, o->step, groups[k].rate, groups[k].decay);
        s.param = param;
        s.m = o->m;
        s.v = o->v;
        s.grad = grad;
        s.first = groups[k].first;
        s.n = groups[k].n;
        dev->adam(&s);
    }
    store_leave(o->store);
    return STET_OK;
}

stet_status optim_norm(const optim *o, double *norm)
{
    return store_download(o->store, norm, o->norm, sizeof *norm);
}

/* ---- rows of a table ---------------------------------------------------------------------- */

stet_status row_optim_init(row_optim *o, store *s, size_t rows, size_t D, double rate)
{
    *o = (row_optim){.store = s, .rows = rows, .D = D, .rate = rate};
    const size_t bytes = rows * D * sizeof *o->m;
    o->m = store_alloc(s, rows * D, sizeof *o->m);
    o->v = store_alloc(s, rows * D, sizeof *o->v);
    o->slot = mem_zalloc(rows, sizeof *o->slot);
    if (!o->m || !o->v || !o->slot) {
        row_optim_deinit(o);
        return STET_ENOMEM;
    }
    store_clear(s, o->m, bytes);
    store_clear(s, o->v, bytes);
    return STET_OK;
}

void row_optim_deinit(row_optim *o)
{
    if (o->store) {
        store_release(o->store, o->m);
        store_release(o->store, o->v);
    }
    mem_free(o->slot);
    *o = (row_optim){0};
}

/* The rows of a step, each once, in order of appearance; for every part the places of its rows among
 * them, and whether it names none twice. */
typedef struct row_numbers {
    size_t n;
    const uint32_t *row; /* (n) in the store */
    const uint32_t *at;  /* of all parts, in the store; NULL: part k is the first part[k].n rows */
    bool apart[MAX_ROW_PARTS];
} row_numbers;

/* Fills row and at; last: (most) scratch, the number of the part that named a row last. */
static void number_rows(row_optim *o, const row_part *part, size_t n_parts, uint32_t *row,
                        uint32_t *at, uint32_t *last, row_numbers *to)
{
    for (size_t p = 0; p < n_parts; p++) {
        to->apart[p] = true;
        for (size_t i = 0; i < part[p].n; i++) {
            uint32_t *slot = &o->slot[part[p].row[i]];
            if (*slot == 0) {
                row[to->n] = part[p].row[i];
                *slot = (uint32_t)++to->n;
            } else if (last[*slot - 1] == p) {
                to->apart[p] = false;
            }
            last[*slot - 1] = (uint32_t)p;
            *at++ = *slot - 1;
        }
    }
    for (size_t i = 0; i < to->n; i++)
        o->slot[row[i]] = 0;
}

static stet_status number_on_host(row_optim *o, const row_part *part, size_t n_parts, arena *mem,
                                  store_arena *values, row_numbers *to)
{
    size_t most = 0;
    for (size_t p = 0; p < n_parts; p++)
        most += part[p].n;
    uint32_t *row = arena_new(mem, uint32_t, 3 * most), *at = row + most, *last = at + most,
             *in_store = store_arena_alloc(values, 2 * most, sizeof *in_store);
    if (!row || !in_store)
        return STET_ENOMEM;
    number_rows(o, part, n_parts, row, at, last, to);
    store_upload(o->store, in_store, row, 2 * most * sizeof *row);
    to->row = in_store;
    to->at = in_store + most;
    return STET_OK;
}

/* Parts of one list in the store. */
static stet_status take_list(const row_part *part, size_t n_parts, row_numbers *to)
{
    to->row = part[0].at;
    for (size_t p = 0; p < n_parts; p++) {
        if (part[p].at != to->row)
            return error_set(STET_EINTERNAL, "a step reads words of two lists");
        to->apart[p] = true;
        to->n = part[p].n > to->n ? part[p].n : to->n;
    }
    return STET_OK;
}

stet_status row_optim_step(row_optim *o, const optim *of, const row_part *part, size_t n_parts,
                           real *table, arena *mem, store_arena *values)
{
    const optim_device *dev;
    row_numbers to = {0};
    TRY(device_of(o->store, &dev));
    if (n_parts == 0)
        return STET_OK;
    TRY(part[0].at ? take_list(part, n_parts, &to)
                   : number_on_host(o, part, n_parts, mem, values, &to));
    const bool alone = n_parts == 1 && to.apart[0]; /* its gradients are the sums already */
    real *grad = alone ? NULL : store_arena_alloc(values, to.n * o->D, sizeof *grad);
    if (!alone && !grad)
        return STET_ENOMEM;
    if (grad)
        store_clear(o->store, grad, to.n * o->D * sizeof *grad);
    adam_step s = step_of(of, of->step, o->rate, 0);
    s.param = table;
    s.m = o->m;
    s.v = o->v;
    s.grad = grad ? grad : part[0].grad;
    s.n = to.n;
    s.clip = 0; /* the norm is that of the other parameters */
    store_enter(o->store);
    const uint32_t *at = to.at;
    for (size_t p = 0; grad && p < n_parts; p++) {
        dev->add_rows(part[p].grad, at, part[p].n, o->D, to.apart[p], grad);
        at = at ? at + part[p].n : NULL;
    }
    dev->adam_rows(&s, to.row, o->D);
    store_leave(o->store);
    return STET_OK;
}

/* ---- early stopping ----------------------------------------------------------------------- */

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
