/* tensor/optim.h - optimisers over one flat block of parameters, wherever it lives.
 *
 *     optim o;
 *     TRY(optim_init(&o, &how, store, n_params));
 *     ...
 *     TRY(optim_step(&o, groups, n_groups, params, grads));     // grads are left as they are
 *
 * The state is two flat vectors and a counter: saved and restored exactly. A step does not wait for
 * the device: the gradient's norm stays there until it is asked for. */
#ifndef TENSOR_OPTIM_H
#define TENSOR_OPTIM_H

#include "tensor/store.h"

typedef enum optim_kind { OPTIM_ADAM, OPTIM_ADAMW } optim_kind; /* coupled L2 / decoupled decay */
typedef enum schedule_kind { SCHEDULE_CONSTANT, SCHEDULE_COSINE, SCHEDULE_STEP, SCHEDULE_LINEAR } schedule_kind;

typedef struct optim_options {
    optim_kind kind;
    double beta1, beta2, eps;
    double clip; /* largest gradient norm; 0: none */
    schedule_kind schedule;
    uint64_t total_steps; /* COSINE, LINEAR: falls to 0 here */
    uint64_t warmup;      /* LINEAR: rises for so many steps, then falls */
    uint64_t hold;        /* COSINE: stays at the full rate for so many steps, then falls */
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
    struct store *store;
    size_t n;
    real *m, *v;   /* (n) first and second moments, in the store */
    double *norm;  /* (1) of the last step's gradient before clipping, in the store */
    uint64_t step; /* steps taken */
} optim;

/* Moments of zero in memory of `s`. */
stet_status optim_init(optim *o, const optim_options *how, store *s, size_t n);
void optim_deinit(optim *o);
double schedule_factor(const optim_options *how, uint64_t step);
/* param and grad are in the store. STET_ENOTSUP: its device has no optimiser. */
stet_status optim_step(optim *o, const param_group *groups, size_t n_groups, real *param,
                       const real *grad);
stet_status optim_norm(const optim *o, double *norm); /* waits for the device */

/* ---- tables of which a step touches some rows ---------------------------------------------- */

/* Adam for a table (rows, D): only rows with a gradient move, and their moments with them; those of
 * the others stay as they are. */
typedef struct row_optim {
    struct store *store;
    size_t rows, D;
    real *m, *v; /* (rows, D) in the store */
    double rate;
    uint32_t *slot; /* (rows) scratch: place among the rows of this step + 1 */
} row_optim;

stet_status row_optim_init(row_optim *o, store *s, size_t rows, size_t D, double rate);
void row_optim_deinit(row_optim *o);

/* Gradients (n, D) in the store of the rows `row`, which are host memory. Or the host does not know
 * them: then they are at `at` in the store, none twice, and every part is the beginning of this list. */
typedef struct row_part {
    const uint32_t *row;
    size_t n;
    const real *grad;
    const uint32_t *at; /* or NULL */
} row_part;
enum { MAX_ROW_PARTS = 8 }; /* of a step */
/* One step of the table for all parts together; `of` has been stepped already and gives the betas,
 * the count of steps and the schedule. Scratch: mem of the host, `values` of the store. */
stet_status row_optim_step(row_optim *o, const optim *of, const row_part *part, size_t n_parts,
                           real *table, arena *mem, store_arena *values);

/* ---- what a device has to bring ----------------------------------------------------------- */

/* Weights and moments below this are set to 0. A weight that no gradient reaches decays for ever, and
 * products of denormal numbers take some processors many times as long as others. */
#define OPTIM_TINY 1e-30f

/* One group's step. m = beta1 m + (1 - beta1) g and so on, g = scale grad + l2 w; scale is
 * clip / norm where that is below 1 and clip is above 0. */
typedef struct adam_step {
    real *param, *m, *v; /* whole blocks */
    const real *grad;
    size_t first, n;
    const double *norm;
    double clip;
    real l2, shrink; /* coupled and decoupled decay */
    real beta1, beta2, rate, root_correction, eps;
} adam_step;

typedef struct optim_device {
    void (*norm)(const param_group *groups, size_t n, const real *grad, double *norm);
    void (*adam)(const adam_step *s);
    /* into[at[i]] += from[i], rows of D, in order; apart: no row is named twice. at NULL: into[i] */
    void (*add_rows)(const real *from, const uint32_t *at, size_t n, size_t D, bool apart,
                     real *into);
    /* The same step for rows row[i] of a table; s->grad is (n, D), one row each. */
    void (*adam_rows)(const adam_step *s, const uint32_t *row, size_t D);
} optim_device;
extern const optim_device *const optim_devices[DEV_COUNT]; /* NULL: none */
extern const optim_device optim_cpu;                       /* cpu/adam.c */
extern const optim_device optim_cuda;                      /* cuda/adam.cu, in a build with CUDA */

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
