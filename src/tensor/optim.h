/* tensor/optim.h - optimisers over one flat block of parameters.
 *
 *     optim o;
 *     TRY(optim_init(&o, &how, n_params));
 *     ...
 *     optim_step(&o, groups, n_groups, params, grads);     // grads are left as they are
 *
 * The state is two flat vectors and a counter: saved and restored exactly. */
#ifndef TENSOR_OPTIM_H
#define TENSOR_OPTIM_H

#include "tensor/tensor.h"

typedef enum optim_kind { OPTIM_ADAM, OPTIM_ADAMW } optim_kind; /* coupled L2 / decoupled decay */
typedef enum schedule_kind { SCHEDULE_CONSTANT, SCHEDULE_COSINE, SCHEDULE_STEP } schedule_kind;

typedef struct optim_options {
    optim_kind kind;
    double beta1, beta2, eps;
    double clip; /* largest gradient norm; 0: none */
    schedule_kind schedule;
    uint64_t total_steps; /* COSINE: falls to 0 here */
    uint64_t step_every;  /* STEP: rate times step_factor every so many steps */
    double step_factor;
} optim_options;
#define OPTIM_DEFAULTS                                                                             \
    {                                                                                              \
        .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .step_factor = 0.1                              \
    }

/* A range of the flat block with its own rate and decay. */
typedef struct param_group {
    size_t first, n;
    double rate, decay;
} param_group;

typedef struct optim {
    optim_options how;
    size_t n;
    real *m, *v;   /* (n) first and second moments */
    uint64_t step; /* steps taken */
} optim;

stet_status optim_init(optim *o, const optim_options *how, size_t n);
void optim_deinit(optim *o);
double schedule_factor(const optim_options *how, uint64_t step);
/* One step; returns the norm of the gradient before clipping. */
double optim_step(optim *o, const param_group *groups, size_t n_groups, real *param,
                  const real *grad);

/* Early stopping: larger scores are better, ties keep the earlier. */
typedef struct early_stop {
    uint64_t patience; /* epochs without a new best before stopping; 0: never */
    bool last;         /* scores do not decide: every epoch counts as the best so far */
    uint64_t epoch, best_epoch;
    double best;
} early_stop;
bool early_stop_update(early_stop *e, double score); /* true: this is the best so far */
bool early_stop_done(const early_stop *e);

#endif
