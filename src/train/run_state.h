/* train/run_state.h - everything a training run carries from step to step. */
#ifndef TRAIN_RUN_STATE_H
#define TRAIN_RUN_STATE_H

#include <dirent.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/json.h"
#include "tensor/optim.h"
#include "train/ahead.h"
#include "train/prepare.h"

/* Where the run is: what a checkpoint holds beside the weights. */
typedef struct position {
    uint64_t epoch;                /* finished epochs */
    uint64_t step_in_epoch;        /* finished steps of the current epoch */
    uint64_t step;                 /* finished steps in all */
    double loss_sum;               /* over the finished steps of the current epoch */
    double train_loss, valid_loss; /* of the best epoch */
    uint64_t log_size;             /* bytes of train.jsonl that belong to the finished steps */
} position;

/* A step's numbers, on their way from the device. */
typedef struct step_numbers {
    uint64_t step; /* finished steps with it */
    store_letter loss, norm;
    step_metrics metrics;
} step_numbers;

/* The same when they have arrived. */
typedef struct step_record {
    uint64_t step;
    double loss, norm;
    const step_metrics *metrics;
} step_record;

typedef struct run_state {
    const stet_train_args *a;
    prepared p;
    defense_list defenses;

    store *store;       /* where the steps compute */
    model_weights w;    /* the model's numbers there */
    real *grad;         /* (n_values) there */
    store_arena values; /* of one step, there */
    optim opt;
    row_optim vectors;    /* where these learn */
    learned_rows learned; /* of this step */
    param_group *groups; /* (n_groups) */
    size_t n_groups;
    double dropout;
    early_stop stop;

    step_numbers numbers[2]; /* of the last steps, step k in k % 2 */
    size_t n_sent;           /* of them, sent and not taken yet */

    batcher batches;
    batch_ahead *ahead; /* NULL: batches are made when their step begins */
    arena step_mem;
    uint32_t *order; /* (n_train) texts in the order of this epoch */
    uint64_t steps_per_epoch;

    position at;
    DIR *folder; /* locked while the run writes there */
    FILE *log;   /* train.jsonl */
    char *log_path, *checkpoint_path;
    double started, epoch_started;
    double saved_at, save_seconds; /* the last checkpoint: when, and how long it took */
} run_state;

/* train.c */
void run_args(stet_train_args *a); /* the model's own numbers where none are given */
stet_status run_set_up(run_state *r);
stet_status run_order(run_state *r); /* draws the order of the current epoch */
/* The texts of step i of the epoch; how many. */
size_t run_batch(const run_state *r, size_t i, const uint32_t **pick);
step_view run_view(run_state *r); /* of the step to come, without its batch */
/* Step i of the epoch. Its numbers are sent; at most those of one step before may be on their way. */
stet_status run_step(run_state *r, size_t i);
/* The oldest numbers on their way, once they are here; there are some. */
stet_status run_take(run_state *r, step_record *out);
/* How many steps may be on their way after a step: a device that can go on working does. */
size_t run_late(const run_state *r);
void run_tear_down(run_state *r);

/* validate.c: accuracy on the validation texts, and in the worst case; NAN: no defence has bounds. */
stet_status run_validate(run_state *r, stet_scores *out, double *worst_case);

/* folder.c */
/* STET_EUSAGE when it holds files that no run wrote, STET_EIO when another run is writing there. */
stet_status folder_open(run_state *r);
stet_status folder_check(const run_state *r); /* is it still there? STET_EIO */
/* Is there a complete run? Then its numbers are taken over; one of other settings is STET_EUSAGE. */
stet_status folder_take_complete(run_state *r, bool *complete);

/* checkpoint.c */
stet_status checkpoint_save(run_state *r);
/* One that takes long is written for a twentieth of the time at most: moments of learned vectors are
 * hundreds of megabytes, and an epoch may be seconds. */
bool checkpoint_due(const run_state *r);
stet_status checkpoint_load(run_state *r); /* STET_EIO when there is none */

/* journal.c: train.jsonl */
stet_status journal_open(run_state *r); /* cut back to at.log_size; 0 begins a new file */
stet_status journal_step(run_state *r, const step_record *s);
/* worst_case: accuracy on the validation texts in the worst case; NAN: no defence has bounds. */
stet_status journal_epoch(run_state *r, double train_loss, const stet_scores *valid,
                          double worst_case, double seconds);
stet_status journal_end(run_state *r);
stet_status journal_flush(run_state *r); /* to disk, and note its size in at.log_size */

/* card.c */
json_t *training_json(const run_state *r,
                      bool complete); /* the "training" object of config.json; NULL: no memory */
stet_status card_write(const run_state *r); /* README.md */

#endif
