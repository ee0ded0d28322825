/* stet/model.h - text classifiers on frozen word vectors: load one, ask it, edit a text.
 *
 *     stet_model *m;
 *     if (stet_model_load("runs/cnn", &m) != STET_OK) ...
 *     float p[16];
 *     int label;
 *     stet_model_predict(m, "a fine film", 11, p, &label);
 *     stet_model_free(m);
 *
 * A model is a folder: config.json, model.safetensors (PyTorch's names and layouts, the word vectors
 * as embedding.weight), vocab.txt, train.jsonl, README.md. A loaded model never changes, so threads may share one freely.
 *
 * How a text is read: the model's tokeniser cuts it into words, the first max_len count; the model turns
 * each into one row of its table, or several. The kinds there are take words outside the vocabulary as
 * <unk>; a text without words is read as one unknown word. */
#ifndef STET_MODEL_H
#define STET_MODEL_H

#include "stet/option.h"
#include "stet/words.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stet_model stet_model;

STET_API stet_status stet_model_load(const char *dir, stet_model **out);
/* Configuration, weights and vocabulary; each file is whole or as it was. */
STET_API stet_status stet_model_save(const stet_model *m, const char *dir);
STET_API void stet_model_free(stet_model *m);
/* Several models (their folders, 2 to 64) as one that adds their logits: a new model, to be saved or
 * asked like any other. It reads as the first does. STET_EUSAGE: classes, tokenisers or lengths differ. */
STET_API stet_status stet_model_ensemble(const char *const *dirs, size_t n, stet_model **out);

/* A new, randomly initialised model of the kind `name` (stet_model_kind_name) with its options at default or as set by
 * `settings`, NULL or "name=value" strings with a NULL at the end. Takes copies of vocabulary and vectors;
 * a kind that reads in its own way needs neither. */
typedef struct stet_model_new_args {
    size_t size; /* of this struct; 0 counts as what this header says */
    const char *name;
    const char *const *settings;
    const stet_vocab *vocab;
    const stet_vectors *vectors;
    stet_tokenizer tokenizer;
    size_t max_len, n_classes;
    const char *const *class_names; /* NULL: numbers */
    uint64_t seed;
    bool word_scores; /* beside the network: a number for every word and class, zero at first */
    const char *init; /* folder to start from, for kinds that can; NULL: random numbers */
    const stet_dataset *texts; /* what a kind with its own reader makes a vocabulary of; or NULL */
    /* Units of a layer that each word's vector goes through alone, for training; saved models have
     * what comes out as their vectors. 0: none. */
    size_t word_layer;
} stet_model_new_args;
STET_API void stet_model_new_args_init(stet_model_new_args *a, size_t size); /* sizeof(stet_model_new_args) */
STET_API stet_status stet_model_new(const stet_model_new_args *a, stet_model **out);

STET_API const char *stet_model_kind(const stet_model *m);
STET_API size_t stet_model_kinds(void); /* how many kinds there are */
STET_API const char *stet_model_kind_name(size_t i);
STET_API const stet_opt *stet_model_kind_options(size_t i);
/* Arguments of `stet train` under one name ("robust"), NULL at the end; NULL: no such recipe. */
STET_API const char *const *stet_model_kind_recipe(size_t i, const char *name);
/* What training takes for a kind where nothing is set. */
typedef struct stet_model_training {
    double rate, state_rate; /* state_rate: of a state space's parameters; -1: it has none */
    double decay, dropout;
    double clip, warmup; /* 0: none */
    size_t epochs, batch;
    bool decoupled; /* the decay: AdamW instead of Adam */
    bool reads_itself; /* has its own vocabulary and vectors: needs none */
    bool slow_edits; /* trying many variants of a text takes long */
} stet_model_training;
STET_API stet_model_training stet_model_kind_training(size_t i);
STET_API size_t stet_model_classes(const stet_model *m);
STET_API const char *stet_model_class_name(const stet_model *m, size_t c);
STET_API const stet_vocab *stet_model_vocab(const stet_model *m);
STET_API stet_tokenizer stet_model_tokenizer(const stet_model *m);
STET_API size_t stet_model_max_len(const stet_model *m);
/* A hash of weights, vectors, vocabulary and rule. */
STET_API uint64_t stet_model_fingerprint(const stet_model *m);

/* All that the answers depend on, each part as a SHA-256 in hexadecimal (docs/formats.md says of
 * what): kind, settings, classes, sizes and tokeniser; parameters and vectors; the words. */
typedef struct stet_identity {
    char config[65], weights[65], vocabulary[65];
} stet_identity;
STET_API stet_status stet_model_identity(const stet_model *m, stet_identity *out);

/* New words of a run, read as the model reads (stet/words.h); the model is borrowed. */
STET_API stet_status stet_model_words(const stet_model *m, stet_words **out);
/* Labelled texts with the model's classes: a file may lack one, or have them in another order. `how`
 * as of stet_dataset_load, NULL: its defaults; `like` of it is not looked at. */
STET_API stet_status stet_model_data(const stet_model *m, const char *path,
                                     const stet_data_options *how, stet_dataset **out);
/* A data set as the model reads it: rows of its table, for stet_model_logits. */
STET_API stet_status stet_model_encode(const stet_model *m, const stet_dataset *d,
                                       stet_corpus *out);

/* Class probabilities (K) and the most probable class (the first of equals). Either may be NULL.
 * STET_EFORMAT where the model's numbers overflow. */
STET_API stet_status stet_model_predict(const stet_model *m, const char *text, size_t len,
                                        float *prob, int *label);
/* The same for words of a run, which have been read already. */
STET_API stet_status stet_model_answer(const stet_model *m, const stet_words *w,
                                       const uint32_t *ids, size_t n, float *prob, int *label);
/* Logits (n_texts, K) of a whole corpus, batched and on all threads. */
STET_API stet_status stet_model_logits(const stet_model *m, const stet_corpus *c, float *logits);
/* The same on a device: see stet_model_scores_on. */
STET_API stet_status stet_model_logits_on(const stet_model *m, const char *device,
                                          const stet_corpus *c, float *logits);
STET_API void stet_softmax(const float *logits, size_t k, float *prob);
STET_API int stet_argmax(const float *v, size_t k);

/* ---- many variants of one text ------------------------------------------------------------ */

/* Prepare a model for edits: the first linear map of the whole vocabulary is computed once. Not needed:
 * views, attacks and certificates prepare what they read. Calling it before only chooses the moment.
 * Threads may. */
STET_API stet_status stet_model_compile(const stet_model *m);

/* An opened text: caches what an edit needs. One thread at a time per view; several views per model. */
typedef struct stet_view stet_view;
typedef struct stet_edit {
    uint32_t pos, word; /* position in the text, word of the run */
} stet_edit;

/* `w` is borrowed; NULL: all words are of the model's vocabulary. */
STET_API stet_status stet_view_open(const stet_model *m, const stet_words *w, const uint32_t *ids,
                                    size_t n, stet_view **out);
STET_API void stet_view_free(stet_view *v);
STET_API stet_status stet_view_reopen(stet_view *v, const uint32_t *ids,
                                      size_t n);            /* another base, memory reused */
STET_API const float *stet_view_logits(const stet_view *v); /* (K) of the text as opened */
/* Logits (n, K) of n variants: variant i applies edits[start[i] .. start[i+1]), ascending positions, each at most once.
 * Equal to a full evaluation of the edited text up to rounding. */
STET_API stet_status stet_view_edits(stet_view *v, const stet_edit *edits, const size_t *start,
                                     size_t n, float *logits);

/* ---- scores ------------------------------------------------------------------------------- */

typedef struct stet_scores {
    size_t n, n_classes;
    double accuracy, loss;           /* mean cross-entropy */
    double ece;                      /* expected calibration error, 15 equal bins of confidence */
    double *precision, *recall, *f1; /* (n_classes) */
    size_t *confusion;               /* (n_classes, n_classes): row truth, column answer */
    double bin_confidence[15], bin_accuracy[15];
    size_t bin_count[15];
} stet_scores;
/* STET_EUSAGE for a text without a label, STET_EFORMAT for logits that are not finite. */
STET_API stet_status stet_model_scores(const stet_model *m, const stet_corpus *c, stet_scores *out);
/* The same on a device: "cpu", "cuda", or "auto", a GPU where there is one. Sums have other orders there,
 * so the last digits differ. Models with a rule of their own answer on the CPU. STET_ENOTSUP: no such
 * device in this build or on this machine. */
STET_API stet_status stet_model_scores_on(const stet_model *m, const char *device,
                                          const stet_corpus *c, stet_scores *out);
/* The same of logits (n, n_classes) that are there already. */
STET_API stet_status stet_scores_of(const float *logits, const int32_t *label, size_t n,
                                    size_t n_classes, stet_scores *out);
STET_API void stet_scores_deinit(stet_scores *s);

#ifdef __cplusplus
}
#endif
#endif
