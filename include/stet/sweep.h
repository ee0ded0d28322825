/* stet/sweep.h - training over a grid of settings and seeds, and choosing among them without looking
 * at the test texts: what `stet sweep` does.
 *
 *     const char *train[] = {"--data", "train.tsv", "--vectors", "glove.txt", "--synonyms", "jia.subst"};
 *     stet_sweep_args a = STET_SWEEP_DEFAULTS;
 *     a.out = "sweeps/cnn", a.kappas = "0,0.5,0.9", a.seeds = "1,2,3", a.blocks = 2;
 *     a.train = train, a.n_train = 6, a.each = tell;
 *     stet_sweep_result r;
 *     if (stet_sweep(&a, &r) != STET_OK) ...
 *     for (size_t i = 0; i < r.n_cells; i++)
 *         printf("kappa %s: certified %g%s\n", r.cell[i].value[0],
 *                r.cell[i].mean[STET_SWEEP_CERTIFIED], r.cell[i].chosen ? ", chosen" : "");
 *     stet_sweep_result_deinit(&r);
 *
 * A point of the grid is a run folder in `out`, trained and then measured. What is there already is
 * not computed again, also what was measured by hand with the same settings: the same call goes on
 * after a sweep that was stopped, and values or measurements may be added. Points run inside this
 * process, `jobs` at a time, each as a job of its own (stet/job.h) with its share of the caller's
 * threads. Interrupting the caller's job stops all of them, training with its checkpoint written.
 *
 * Experimental. */
#ifndef STET_SWEEP_H
#define STET_SWEEP_H

#include "stet/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the sweep ---------------------------------------------------------------------------- */

typedef enum stet_sweep_measure {
    STET_SWEEP_VALID,     /* accuracy on the validation texts */
    STET_SWEEP_TEST,      /* accuracy on `test` */
    STET_SWEEP_SAMPLE,    /* accuracy on the texts that are attacked or certified */
    STET_SWEEP_AUA,       /* accuracy under attack */
    STET_SWEEP_CERTIFIED, /* certified share */
    STET_SWEEP_GBM,       /* sums of growth bounds: of the layer, of the logits */
    STET_SWEEP_LOGITS,
    STET_SWEEP_LIPSCHITZ,
    STET_SWEEP_MEASURES
} stet_sweep_measure;
typedef struct stet_sweep_number {
    const char *key;     /* "valid_accuracy" */
    const char *heading; /* "validation %" */
    const char *name;    /* "validation" */
    bool share;          /* from 0 to 1 */
} stet_sweep_number;
STET_API const stet_sweep_number *stet_sweep_numbers(void); /* (STET_SWEEP_MEASURES) */

/* A point that came to its end; valid during the call. */
typedef struct stet_sweep_point {
    const char *dir;
    double value[STET_SWEEP_MEASURES]; /* not a number: not measured */
    const char *error;                 /* why it failed; NULL: it did not */
    bool found;                        /* it was complete before */
    size_t done, n;                    /* points that are complete, of all in this part */
} stet_sweep_point;

typedef struct stet_sweep_args {
    size_t size; /* of this struct; 0 counts as what this header says */
    const char *out;
    /* The grid: values with commas between, as text, because they name folders. NULL: not swept over. */
    const char *betas;       /* weights of the growth bound (defence `gbm`) */
    const char *kappas;      /* weights of the worst case (defence `certified`) */
    const char *smooths;     /* lambdas of synonym-smoothed vectors */
    const char *const *over; /* (n_over) "name=value,value" of any other option of training */
    size_t n_over;
    const char *seeds;
    /* Options of training, as the words that `stet train` takes (stet_train_options()). `betas` and
     * `kappas` name the defence unless "--defense" is among them. */
    const char *const *train;
    size_t n_train;

    /* > 0: hold out so many blocks of the training data in turn (stet_block_cut), certify them, and
     * choose the settings that no other beats in both clean and certified accuracy. The chosen ones
     * are trained on all texts and measured on `test`, if that is given. */
    size_t blocks;
    double block_share;
    const char *test;     /* labelled texts to measure on; NULL: none */
    const char *attack;   /* accuracy under this attack; NULL: none */
    bool certify;         /* the certified share; implied by `blocks` */
    const char *synonyms; /* for both; with `blocks` by default those of training */
    size_t limit;         /* a random sample of so many texts, for both; 0: all */
    uint64_t seed;        /* draws it: the same texts for every point */

    size_t jobs; /* points at a time */
    /* Called once for every point, as soon as it is complete or has failed, on the calling thread.
     * NULL: nobody listens. */
    void (*each)(void *user, const stet_sweep_point *p);
    void *each_user;
} stet_sweep_args;
#ifdef __cplusplus
#define STET_SWEEP_DEFAULTS STET_DEFAULTS_CXX(stet_sweep_args)
#else
#define STET_SWEEP_DEFAULTS                                                                        \
    {                                                                                              \
        .size = sizeof(stet_sweep_args), .seeds = "1", .block_share = 0.1, .seed = 1, .jobs = 1    \
    }
#endif
STET_API void stet_sweep_args_init(stet_sweep_args *a, size_t size); /* sizeof(stet_sweep_args) */

/* One combination of settings: means over its seeds (that of a seed is over its blocks) and sample
 * deviations; not a number: not measured. */
typedef struct stet_sweep_cell {
    const char *const *value; /* (n_axes) */
    size_t seeds;             /* that are complete */
    double mean[STET_SWEEP_MEASURES], spread[STET_SWEEP_MEASURES];
    bool chosen; /* it is on the frontier */
} stet_sweep_cell;

typedef struct stet_sweep_result {
    const char *const *axis;      /* (n_axes) options of training that were swept over: "kappa" */
    const char *const *axis_name; /* what tables call them: "lambda" for "smooth" */
    size_t n_axes;
    stet_sweep_cell *cell; /* (n_cells) in the order of the grid, the last axis fastest */
    size_t n_cells;
    stet_sweep_cell *final; /* (n_final) the chosen ones, trained on all texts, on `test` */
    size_t n_final;
    bool measured[STET_SWEEP_MEASURES];       /* of the cells, and */
    bool measured_final[STET_SWEEP_MEASURES]; /* of the final ones */
    size_t points, failed; /* of the part that ran last; where some failed nothing is chosen */
    struct stet_sweep_store *store;
} stet_sweep_result;

/* Writes OUT/POINT/... with results that `stet report` shows, and accuracy.svg and gbm.svg, or with
 * blocks frontier.svg and frontier.sh (the commands that train the chosen settings on all texts).
 * Every mistake in the arguments is told before the first run starts: STET_EUSAGE, in the words of the
 * command line. So is a folder that was trained with other settings. Points that fail do not end the
 * sweep: look at `failed`. STET_EINTR: call again to go on. On failure *out holds nothing. */
STET_API stet_status stet_sweep(const stet_sweep_args *a, stet_sweep_result *out);
STET_API void stet_sweep_result_deinit(stet_sweep_result *r); /* {0} is fine */

/* ---- its parts ---------------------------------------------------------------------------- */

/* Of every class, in the order of the data, a stretch of the given share (0 to 0.5): block 0 is the
 * last one, 1 the one before, ... Neighbours, who are often about the same thing, are together on one
 * side. Either of the two may be NULL: not wanted. STET_EUSAGE where there is no such block, or where one
 * side would have no text. On failure both are NULL. */
STET_API stet_status stet_block_cut(const stet_dataset *d, size_t block, double share,
                                    stet_dataset **held_out, stet_dataset **rest);

/* Settings that no other equals or beats in both numbers, by rising `clean`, into `chosen` (n); how
 * many. Of equals the first. Settings with a number that is not finite are left out. */
STET_API size_t stet_frontier(const double *clean, const double *certified, size_t n,
                              size_t *chosen);

/* Mean and sample deviation (0 of less than two) of n numbers; not a number without any. */
STET_API void stet_mean_spread(const double *x, size_t n, double *mean, double *spread);

#ifdef __cplusplus
}
#endif
#endif
