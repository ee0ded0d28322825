/* stet/train.h - train a classifier into a run folder.
 *
 *     stet_train_args a = STET_TRAIN_DEFAULTS;
 *     a.data = "train.tsv.xz", a.vectors = paths, a.n_vectors = 1, a.model = "cnn", a.out = "runs/cnn";
 *     stet_train_result r;
 *     if (stet_train(&a, &r) != STET_OK) ...
 *
 * The folder holds the model (stet/model.h), train.jsonl (every step's loss, every epoch's scores), README.md (the model card) and,
 * until the run is complete, checkpoint.safetensors. Killed at any moment and resumed, the run ends in the same bytes. */
#ifndef STET_TRAIN_H
#define STET_TRAIN_H

#include "stet/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum stet_schedule {
    STET_CONSTANT,
    STET_COSINE,
    STET_STEP,
    STET_WARM_LINEAR, /* rises while it warms up, then falls to 0 */
    STET_OWN_SCHEDULE /* the model's: constant, but for kinds that warm up */
} stet_schedule;

typedef struct stet_train_args {
    size_t size; /* of this struct; 0 counts as what this header says */
    const char *out;
    bool resume;
    const char *device; /* where to compute: "cpu" or NULL, "cuda", "auto": a GPU if there is one */

    const char *data;
    stet_data_options format;
    const char *valid; /* file; NULL: hold out valid_fraction of the data */
    double valid_fraction;
    /* > 0: the texts are dealt into `folds`, and fold number `fold` (from 1) takes no part in
     * training; it is the validation set unless `valid` is given. */
    size_t fold, folds;
    const char *const *vectors;
    size_t n_vectors;
    const char *synonyms; /* substitution sets: their words join the vocabulary; NULL: none */
    /* Lambda of synonym-smoothed vectors; 0: as loaded; -1: as the defence `smooth` has it, if that
     * is listed. */
    double smooth;
    /* Frequent words hold on to their vectors: weight (count / geometric mean) to this power. */
    double smooth_frequency;
    stet_tokenizer tokenizer;
    size_t max_len, max_words;
    uint64_t min_count;

    const char *model;
    const char *const *model_settings; /* "name=value", NULL at the end; or NULL */
    const char *defense; /* names between commas: each adds to the loss of those before it */
    const char *const *defense_settings;

    /* Soft labels: run folders, or folders of them, between commas; NULL: none. A teacher that was
     * trained with a fold held out teaches that fold, any other all texts. The target of a text is
     * its label with 1 - teacher_weight, and the teachers' mean probabilities with the rest. */
    const char *teacher;
    double teacher_weight;
    bool teacher_worst; /* in the worst case of the defence `certified`, too */

    size_t batch, epochs; /* 0: the model's default */
    size_t patience;
    size_t length_pool; /* batches sorted by length before they are cut; 1: plain shuffling */
    double rate, state_rate, decay, dropout; /* negative: the model's default */
    double clip;      /* largest norm of the gradient; 0: none; negative: the model's default */
    bool word_scores; /* beside the network: a number for every word and class */
    double score_rate, score_decay; /* theirs */
    double vector_rate;             /* > 0: the word vectors are trained too, at this rate */
    stet_schedule schedule;
    uint64_t seed;
    size_t save_every; /* steps between checkpoints; one is written after each epoch in any case */
    const char *init;  /* folder of weights to start from; NULL: none */
    double warmup;     /* share of the steps over which the rate rises; negative: the model's */
    const char *precision; /* of products on a GPU: "fp32" or NULL, "tf32", "bf16" */
    const char *feature_cache; /* file for what frozen layers make of texts; NULL: none */
    size_t word_layer; /* units of a layer that each word's vector goes through alone; 0: none */
    double hold;       /* share of the steps that a cosine schedule stays at the full rate */
} stet_train_args;

#ifdef __cplusplus
#define STET_TRAIN_DEFAULTS STET_DEFAULTS_CXX(stet_train_args)
#else
#define STET_TRAIN_DEFAULTS                                                                        \
    {                                                                                              \
        .size = sizeof(stet_train_args), .format = STET_DATA_DEFAULTS, .valid_fraction = 0.1,      \
        .max_len = 512, .min_count = 1, .model = "cnn", .smooth = -1, .defense = "standard",       \
        .teacher_weight = 0.7, .length_pool = 16, .patience = 3, .clip = -1, .warmup = -1,         \
        .schedule = STET_OWN_SCHEDULE, .score_rate = 1e-2, .rate = -1, .state_rate = -1,           \
        .decay = -1, .dropout = -1, .seed = 1, .save_every = 500                                   \
    }
#endif
STET_API void stet_train_args_init(stet_train_args *a, size_t size); /* sizeof(stet_train_args) */

typedef struct stet_train_result {
    size_t epochs, best_epoch, steps, n_train, n_valid, n_words;
    double valid_accuracy, valid_loss, train_loss; /* of the best epoch */
    double seconds, seconds_per_epoch;
    double smooth_residual;
} stet_train_result;

STET_API stet_status stet_train(const stet_train_args *a, stet_train_result *out);

/* The texts that a run with this valid_fraction and seed trains on, and those that it holds out to
 * validate on, both in the order of the data; NULL with an error. */
STET_API stet_status stet_train_split(const stet_dataset *all, double share, uint64_t seed,
                                      stet_dataset **train, stet_dataset **valid);
/* The same of a run with --fold KofN, such as "2of5". */
STET_API stet_status stet_train_fold(const stet_dataset *all, const char *fold,
                                     stet_dataset **train, stet_dataset **valid);

/* Time `steps` training steps (0: one epoch) of the run that `a` describes, without writing it. Where `dump` is a folder, the
 * untrained model, the batches (batches.safetensors) and the substitution sets, if any
 * (sets.safetensors), go there, so that another program can take the same steps. The first n_loss
 * losses go to `loss`. */
typedef struct stet_train_bench {
    size_t steps, steps_per_epoch, tokens; /* timed ones: not the first ten of many; theirs */
    double seconds;                        /* of the timed steps */
    double epoch_seconds;                  /* seconds / steps * steps_per_epoch */
} stet_train_bench;
STET_API stet_status stet_train_time(const stet_train_args *a, size_t steps, const char *dump,
                                     double *loss, size_t n_loss, stet_train_bench *out);

/* The options of `stet train` as data (stet/option.h), for programs that read settings as words:
 *
 *     stet_train_settings s;
 *     if (stet_opt_parse(stet_train_options(), &s, argc, argv, &rest) != STET_OK) ...
 *     stet_train_args a;
 *     void *store;
 *     if (stet_train_settings_args(&s, &a, &store) != STET_OK) ...
 *     a.seed = 7;                      // seed and device have no option here
 *     st = stet_train(&a, &result);
 *     stet_free(store);
 *
 * The table is the same for the whole life of the process. Experimental. */
typedef union stet_train_settings {
    double align;
    void *align_too;
    unsigned char room[2048];
} stet_train_settings;
STET_API const stet_opt *stet_train_options(void);
/* What the recipe among the settings stands for: words to be read before those given, NULL at the
 * end; *words is NULL where there is no recipe. STET_EUSAGE if the model has none of that name. */
STET_API stet_status stet_train_settings_recipe(const stet_train_settings *s,
                                                const char *const **words);
/* *out points into *s and *store. STET_EUSAGE for options that do not fit together; the message names
 * them as the command line does. */
STET_API stet_status stet_train_settings_args(const stet_train_settings *s, stet_train_args *out,
                                              void **store);

/* Defences by name, with their options. */
STET_API size_t stet_defenses(void);
STET_API const char *stet_defense_name(size_t i);
STET_API const char *stet_defense_summary(size_t i);
STET_API const stet_opt *stet_defense_options(size_t i);

#ifdef __cplusplus
}
#endif
#endif
