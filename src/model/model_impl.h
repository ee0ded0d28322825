/* model/model_impl.h - what a model kind is. Adding one: a file that defines a model_desc, a line in
 * kind_list.h, a test, a page section.
 *
 * A kind lists its parameters (layout), initialises them, and writes its forward pass once, on the tape, from a
 * batch: a table of input rows (V, D) and an index. Plain training has one row per distinct word; with
 * one row per position the same pass gives gradients for every position. For fixed weights it may offer
 * views: open a text, evaluate edits. Without, edited texts go through the forward pass in batches. */
#ifndef MODEL_MODEL_IMPL_H
#define MODEL_MODEL_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "model/device_args.h"
#include "stet/model.h"
#include "tensor/ops.h"
#include "tensor/optim.h"
#include "text/words.h"

/* Parameter groups with their own rate and decay. */
typedef enum param_kind {
    PARAM_PLAIN,  /* the model's rate and decay */
    PARAM_STATE,  /* S4's A, B, C and step: own rate, no decay */
    PARAM_SCORES, /* word scores: own rate, no decay */
    PARAM_BARE,   /* the model's rate, no decay */
    PARAM_KINDS
} param_kind;

typedef struct param {
    char name[64]; /* PyTorch's */
    shape shape;
    param_kind kind;
    size_t first; /* offset in the flat block */
    bool frozen;  /* keeps its values: no gradient, no step */
    bool aside;   /* of the training alone: not saved with the model */
} param;

typedef struct model_desc model_desc;
typedef struct answer_desc answer_desc; /* answers.h */
struct mixed_texts;                     /* answers.h */
typedef struct stet_model model;
struct stet_model {
    const model_desc *desc;
    void *cfg;        /* desc->cfg_size bytes, filled from desc->opts */
    arena strings;    /* what string options point to */
    size_t dim;       /* D */
    size_t n_classes; /* K */
    size_t max_len;
    word_reader reader; /* text to words to rows of the table */
    char **class_names;
    char *folder;      /* where it was loaded from, for messages; or NULL */
    stet_vocab *vocab; /* words that it knows; a model with its own reader may know none */
    real *table;       /* (n_words, D): the frozen vectors, in host memory */
    size_t n_words;    /* rows of table: for a word model those of its vocabulary */
    int table_param;   /* the parameter that `table` points to; -1: frozen, memory of its own */
    /* With a word layer, in training (word_layer.h): the vectors that it reads, (n_words, raw_dim),
     * and the id of its weights, the bias behind them; NULL and -1: none. */
    real *raw;
    size_t raw_dim;
    int word_layer;
    void *own;         /* the reader's: see model_desc.reader */
    param *params;
    size_t n_params, n_added; /* the network's, then those of model_add_param */
    size_t cap_params, n_values;
    real *value;       /* (n_values): all parameters, in host memory */
    struct rule *rule; /* how a defence answers (rule.h); NULL: the network's logits stand */
    const struct model_place *place; /* of a copy that a rule is given: where its network answers;
                                        NULL: here */
    /* A model of another kind that reads the rows which frozen layers of this one make of a text: its
     * parameters are those from head_first on, last layer included. NULL: none. */
    struct stet_model *head;
    size_t head_first;
    const struct stet_model *whole; /* of a head: the model that it belongs to */
    struct feature_cache *cache;    /* where those rows are kept; NULL: they are not */
    int scores;                     /* id of the word scores (word_scores.h); -1: none */
    int score_net;                  /* id of the first weights of their small network; -1: none */
    real *score_table; /* (n_words, K): all that words add, once the model is compiled */
    atomic_bool is_compiled;
    void *compiled; /* desc->compile's, or NULL */
    struct model_kept {
        pthread_mutex_t lock;
        struct prepared *list;
    } * kept; /* see prepared.c */
    struct json_t
        *extra; /* config.json keys that are not ours: training settings, defence; kept on save */
};

/* Vectors that learn: what a step read of the table, and where the gradients of those rows are. */
typedef struct learned_rows {
    row_part part[MAX_ROW_PARTS]; /* a word may be in several */
    size_t n;
} learned_rows;

/* Inputs of one forward pass. */
typedef struct pass {
    tape *t;
    node **param;         /* (n_params + n_added) */
    node *table;          /* (vocabulary, D): what rows are taken from, before a word layer */
    node *const *word_layer; /* its weights and bias (word_layer.h); NULL: none */
    bool scores_alone;    /* no network reads rows: they are made when the scores ask for them */
    node *rows;           /* (V, D); NULL: see pass_text_rows */
    node *made;           /* what model_desc.make makes of them, where it is known; or NULL */
    node *scores;         /* (V or more, K) the words' scores, where they are known; or NULL */
    node *all_scores;     /* (vocabulary, K) the same of all words; or NULL */
    const uint32_t *word; /* (V) the words of the rows, in host memory */
    learned_rows *learn;  /* filled by pass_rows; NULL: vectors stay as they are */
    const seq_index *seq;
    double dropout; /* 0 outside training */
    rng *stream;
    node *head_rows; /* after model_forward of a model with a head: what that read, and its index */
    const seq_index *head_seq;
    node *features; /* after model_forward: what the last layer saw, before dropout; NULL: none */
} pass;

/* Settings of `stet train` under one name, as its arguments, NULL at the end: "robust" is what was
 * found to prove most texts on IMDB (docs/results.md); others are rivals with published settings. */
typedef struct model_recipe {
    const char *name;
    const char *const *args;
} model_recipe;
#define RECIPE_ROBUST                                                                              \
    "--defense", "certified", "--smooth-frequency", "0.5", "--schedule", "cosine", "--max-len",    \
        "1000"

/* Where a reader takes its vocabulary from: the folder of a model, or the texts of a training. */
typedef struct reader_source {
    const char *folder;        /* or NULL */
    const stet_dataset *texts; /* or NULL */
} reader_source;

/* Models as others save them, in folders with a config.json. */
typedef struct model_foreign {
    bool (*is)(const struct json_t *config);
    /* "name=value" settings from a folder's configuration, which is named `path`. */
    stet_status (*settings)(const struct json_t *config, const char *path, const char *folder,
                            arena *mem, const char ***out);
    /* The weights into m->value. Where `r` is given, a last layer that is not there, or is one of
     * other classes, is initialised from it and that is told. */
    stet_status (*load)(model *m, const char *folder, rng *r);
    /* How many classes the configuration has, and their names in memory of `mem`. */
    stet_status (*classes)(const struct json_t *config, const char *path, arena *mem,
                           const char ***names, size_t *n);
    /* What others want to find in config.json and beside it. */
    stet_status (*describe)(const model *m, struct json_t *config);
    stet_status (*save)(const model *m, const char *folder);
} model_foreign;

/* A network of layers in which every row of a text reads all of its rows, so that texts can be mixed
 * between two of them (defense/tmix.c). */
typedef struct model_layers {
    size_t (*n)(const model *m); /* 0: not with these settings */
    uint32_t (*filler)(const model *m); /* the row of the table that stands for no word */
    node *(*first)(const model *m, const pass *p); /* (T, H) below the first layer */
    /* What layer l makes of the rows `to`, which read x, the rows (T, H) of p's texts. They are x
     * itself or one row a text, with asks NULL; or rows of the same texts as `asks` has them. */
    node *(*layer)(const model *m, const pass *p, node *x, node *to, const seq_index *asks,
                   size_t l);
    /* (B, features) from the first row of each text above the last layer */
    node *(*features)(const model *m, const pass *p, node *first);
} model_layers;

struct model_desc {
    const char *name, *summary;
    const stet_opt *opts;
    size_t cfg_size;
    /* The optimiser's defaults, from the paper's appendix. */
    struct {
        bool decoupled; /* AdamW */
        double rate[PARAM_KINDS], decay[PARAM_KINDS], dropout;
        /* 0: as for all. A share of steps to warm up means a rate that rises, then falls to 0. */
        double warmup, clip;
        size_t epochs, batch;
    } train;
    const model_recipe *recipes; /* name NULL at the end; NULL: none */
    /* A model that does not read one row of a vocabulary a word says here how it does, and needs neither
     * vocabulary nor vectors: fills m->reader (rows, most_rows, perhaps cut), m->dim and m->n_words from
     * its settings. What it keeps goes to m->own, which `reader_free` releases, also after a failure;
     * `reader_save` writes it as vocab.txt, where `reader` finds it again. */
    stet_status (*reader)(model *m, const reader_source *from);
    void (*reader_free)(void *own);
    stet_status (*reader_save)(const model *m, const char *path);
    void (*reader_words)(const model *m, sha256 *h); /* all of it, for the model's identity */
    /* Its table is its first parameter, and learns with the others; or else `table` fills the vectors
     * (n_words, D) of a new one. */
    bool learns_table;
    void (*table)(const model *m, rng *r);
    const model_foreign *foreign; /* folders of others that it starts from; NULL: none */
    /* Of kinds that have heads. lo, hi (D): where a head's rows are, whatever the text. Keep those
     * rows in a file (feature_cache.h). */
    void (*row_box)(const model *m, real *lo, real *hi);
    stet_status (*keep_rows)(model *m, const char *path);
    const char *last_layer; /* its name; `init` covers it then. NULL: "fc", by the frame */
    size_t eval_rows;       /* of a batch that is only evaluated; 0: batches go by texts */

    bool
        slow_edits; /* an edit costs a walk over much of the text: demonstrations try fewer texts */

    stet_status (*layout)(model *m); /* model_param() for each parameter */
    stet_status (*init)(const model *m, rng *r);
    /* Parameters that others make, on the tape: replaces their nodes. They are frozen, and
     * hold what weights_derive() put there; NULL: there are none. */
    void (*derive)(const model *m, tape *t, node **nodes);
    node *(*features)(const model *m,
                      pass *p); /* (B, features): what the last linear layer sees, before dropout */
    const model_layers *layers; /* what `features` is made of, where it has such layers; or NULL */
    /* What it makes of rows (n, D) first, where that is linear: (n, C), a constant on p's tape, so
     * that mixtures of rows need not pass through it each. NULL, or NULL from it: nothing. */
    node *(*make)(const model *m, const pass *p, node *rows);
    size_t (*n_features)(const model *m); /* 0: no network, word scores and a bias alone */
    size_t (*span)(const model *m); /* words after which it starts anew (spans.h); NULL: never */
    size_t (*score_hidden)(const model *m); /* units of word_scores.h's small network; NULL: none */

    /* fixed weights; all of these, or none: then views evaluate whole texts (full_view.c) */
    bool (*whole)(const model *m); /* a model of these settings has no views after all; or NULL */
    stet_status (*compile)(const model *m, void **out);
    stet_status (*compile_words)(const model *m); /* what `compile` leaves for later; or NULL */
    void (*compiled_free)(void *compiled);
    stet_view *(*view_new)(void);           /* a zeroed view of the kind's own; NULL: no memory */
    stet_status (*view_open)(stet_view *v); /* fills v->logits */
    stet_status (*view_edits)(stet_view *v, const stet_edit *edits, const size_t *start, size_t n,
                              float *logits);
    /* Logits (n_texts, K) of whole texts by what `compile` made (model_compiled_here); NULL: forward
     * passes are no slower. */
    stet_status (*texts)(const model *m, const stet_corpus *c, float *logits);
    /* Logits (n, copies, K) of texts of mixtures, weight (copies, slots); NULL: as above. */
    stet_status (*mixtures)(const model *m, const struct mixed_texts *t, const real *weight,
                            float *logits);
    const answer_desc *answers; /* the same on a device; NULL: whole texts there too */
};

/* What the views of all kinds begin with: views.c makes them, keeps their words and releases them.
 * Where a word is one row, `ids` and the words of edits are rows of the table by the time a kind's
 * hooks see them; else they are words of the run. */
struct stet_view {
    const model *m;
    struct answers *on; /* who answers; NULL: the view itself */
    const stet_words *words;
    stet_words *own_words; /* where none were given */
    arena mem;             /* of the opened text; emptied when another is opened */
    uint32_t *ids;         /* (n) its words */
    size_t n;
    float *logits;     /* (K) its logits */
    double *scores;    /* (K) sums of its words' scores, where the model has them */
    stet_edit *mapped; /* edits as rows */
    size_t cap_mapped;
};

/* full_view.c: views of models that have none of their own, or answer by a rule. */
stet_view *full_view_new(void);
stet_status full_view_open(stet_view *v);
stet_status full_view_edits(stet_view *v, const stet_edit *edits, const size_t *start, size_t n,
                            float *logits);

/* prepared.c: what is computed from a model once and kept until it is freed. `key` says what it is;
 * `fn` makes it where it is not there yet, `release` frees it. It may be used, not changed, from any
 * thread. */
typedef stet_status prepare_fn(const model *m, void **out);
stet_status model_prepared(const model *m, const void *key, prepare_fn *fn,
                           void (*release)(void *value), void **out);
/* stet_model_compile() without what may wait until a view or a certificate needs it. */
stet_status model_ready(const model *m);
void model_forget(model *m); /* all of it and what is compiled: the weights have changed */
stet_status model_kept_init(model *m);
void model_kept_deinit(model *m);

extern const model_desc *const model_descs[];   /* model_list.c, NULL at the end */
const model_desc *model_find(const char *name); /* NULL: unknown, message set */

/* Options as JSON. */
stet_status settings_json(const stet_opt *opts, const void *cfg, struct json_t **out);
/* The model's own: what config.json and the digest have. A choice that is the first of its list, an
 * empty text and a layer of 0 units are left out, so that models from before there was a choice keep
 * their files and digests. */
stet_status model_settings(const model *m, struct json_t **out);

/* layout: add a parameter; ids are handed out 0, 1, 2, ... */
stet_status model_param(model *m, const char *name, shape s, param_kind kind);
/* A parameter beside the network's, behind its last layer; zeros where there are values already. Its
 * id is n_params + n_added - 1. */
stet_status model_add_param(model *m, const char *name, shape s, param_kind kind);
int model_param_id(const model *m, const char *name); /* -1: none */
real *model_value(const model *m, int id);
void init_uniform(const model *m, int id, double bound, rng *r); /* U(-bound, bound) */
void init_constant(const model *m, int id, double v);

/* A model without values: options from `settings` ("name=value" strings with a NULL at the end, or NULL), parameters
 * laid out. Values, vocabulary, vectors and class names are still to be given. */
stet_status model_alloc(const model_desc *desc, const char *const *settings,
                        const reader_source *from, size_t dim, size_t n_classes, model **out);
/* The same for a folder of somebody else's, with the settings that it has; others may be given. */
stet_status model_alloc_foreign(const model_desc *desc, const char *folder,
                                const char *const *settings, size_t n_classes, model **out);
/* The kind that can read a folder with this config.json; NULL: none. And the model in it. */
const model_desc *model_foreign_kind(const struct json_t *config);
stet_status model_load_foreign(const model_desc *desc, const char *dir, const char *path,
                               const struct json_t *config, model **out);
stet_status model_zeros(model *m); /* zeros for all parameters */
stet_status model_table(model *m); /* memory for a frozen table of n_words rows */
stet_status model_check_logits(const model *m, const float *logits); /* STET_EFORMAT: not finite */
/* How texts are cut and which words are known; takes the vocabulary over. */
void model_read_by(model *m, stet_vocab *vocab, stet_tokenizer tokenizer, size_t max_len);
stet_status model_class_names(model *m, const char *const *names); /* NULL: numbers */

/* A model's numbers in a store: what a pass reads. */
typedef struct model_weights {
    store *store;
    real *value; /* (n_values) */
    /* model_vectors() of it; NULL: they are a parameter, and this is not the host's store */
    real *table;
    /* Where passes with gradients note the rows they read; NULL: vectors stay as they are. */
    learned_rows *learn;
    /* (n_words, K) the scores that words have by these weights, read by passes without gradients;
     * NULL: not known, each pass makes those of its words (word_scores_know). */
    real *scores;
} model_weights;
/* The model's own memory in the host's store, a copy in any other. */
stet_status weights_init(model_weights *w, const model *m, store *s);
void weights_deinit(model_weights *w);
/* What is trained, back into the model; with a word layer also its table. */
stet_status weights_fetch(const model_weights *w, model *m);

/* Parameters that others make, anew (model_desc.derive), in memory of `mem` and `values`: whenever
 * the others have changed. w and `values` NULL: the model's own. */
stet_status weights_derive(const model_weights *w, const model *m, arena *mem, store_arena *values);

/* Where the network of a model answers instead of on the host, for whoever asks from any thread. */
typedef struct model_place {
    const model_weights *w;
    store_arena *values;
    pthread_mutex_t *lock; /* of both */
    struct answers *on;    /* who answers for the compiled model (answers.h); NULL: forward passes */
} model_place;

/* Parameter nodes (n_params) of the model's own weights, in memory of a tape of the host's store;
 * gradients are added to grad (n_values) unless NULL. */
stet_status model_nodes(const model *m, tape *t, real *grad, node ***out);
/* Logits (B, K): dropout and the last linear layer ("fc.weight", "fc.bias") on the features. */
node *model_forward(const model *m, pass *p);
/* What the last layer, with dropout before it, makes of features; no word scores. */
node *model_last_layer(const model *m, const pass *p, node *features);
/* What of a model reads vectors, and learns: its head, or all of it; and that part's pass. */
static inline const model *model_reading(const model *m)
{
    return m->head ? m->head : m;
}
pass pass_of_head(const model *m, const pass *p);
/* The network's logits (NULL: it has none) and, where the model has them, the word scores. */
node *model_add_scores(const model *m, const pass *p, node *logits);

/* Logits (n_texts, K) of a corpus, as stet_model_logits; in the store of `w` with memory of `values`
 * (both NULL: the model's own, on the host). */
stet_status model_eval(const model *m, const model_weights *w, store_arena *values,
                       const stet_corpus *c, float *logits);

/* The model as it is, but for where its network answers when its rule asks. It shares everything and is
 * not to be freed. */
model model_at(const model *m, const model_place *place);

/* The scores of these logits, a piece of the corpus at a time: a million texts of a thousand classes would be 4 GB. */
stet_status model_scores(const model *m, const model_weights *w, store_arena *values,
                         const stet_corpus *c, stet_scores *out);
stet_status scores_begin(stet_scores *s, size_t n_classes);
stet_status scores_add(stet_scores *s, const float *logits, const int32_t *label, size_t n);
stet_status scores_end(stet_scores *s, stet_status st); /* passes a failure on */

/* The table times a matrix: out (n_words, n; ld) = table w, w (D, n), or (n, D) if transposed. */
stet_status model_project_words(const model *m, const real *w, bool transposed, size_t n, real *out,
                                size_t ld);

/* Logits (K) of one text, given as rows, by a full evaluation: what stet_model_predict() computes.
 * `n` > 0. */
stet_status model_logits_of(const model *m, const uint32_t *rows, size_t n, float *logits);

/* ---- batches ------------------------------------------------------------------------------ */

typedef struct batch {
    seq_index seq;
    const uint32_t
        *order; /* (B) which of the given texts is in place b (sorted by falling length) */
    const uint32_t *word; /* (V) vocabulary id of each row */
    const int32_t *label; /* (B) in batch order */
    const void *block;    /* all of these arrays, in one piece: uploaded once */
    size_t block_bytes;
    /* Where the block is in the store already, as in tape_twin_is; NULL: nowhere yet. Then the host
     * has `known` bytes of it: `word` and `seq.row` are names that ops and pass_rows take. */
    const void *twin;
    size_t known;
    /* What may stand in it, by these sets, where it was made with the batch: names as well. */
    const word_sets *sets; /* NULL: it was not */
    set_rows set_rows;
    set_counts n_set;
} batch;

/* Builds batches from texts of a corpus; owns the scratch that finds distinct words. */
typedef struct batcher {
    uint32_t *slot; /* (n_words) zeros but while a batch is made */
} batcher;
stet_status batcher_init(batcher *b, const model *m);
void batcher_deinit(batcher *b);
static inline size_t model_max_rows(const model *m) /* of one text, but for those around it */
{
    return m->reader.max_rows ? m->reader.max_rows : m->max_len * m->reader.most_rows;
}
/* Texts pick[0..n) of `c`, in memory of `a`, which is the host's. */
stet_status batch_make(batcher *b, const model *m, const stet_corpus *c, const uint32_t *pick,
                       size_t n, arena *a, batch *out);
/* At most n texts of a corpus, from one on; its memory. */
static inline stet_corpus corpus_piece(const stet_corpus *c, size_t first, size_t n)
{
    stet_corpus piece = *c;
    piece.n_texts = n < c->n_texts - first ? n : c->n_texts - first;
    piece.n_tokens = (size_t)(c->start[first + piece.n_texts] - c->start[first]);
    piece.start += first;
    piece.label += first;
    return piece;
}
/* The same in parts. Rows of a text: an empty one is read as one unknown word, or as what stands
 * around every text. STET_EUSAGE where it has a word that is none of the model's. */
size_t text_rows(const model *m, const stet_corpus *c, uint32_t i);
uint32_t text_word(const model *m, const stet_corpus *c, uint32_t i, size_t p); /* of row p */
stet_status text_check(const model *m, const stet_corpus *c, uint32_t i);
size_t batch_tokens(const model *m, const stet_corpus *c, const uint32_t *pick, size_t n);
/* What can be said without looking at a word, batch_head(n) numbers: start (n + 1); which texts of
 * the corpus, order and label (n each). And the batch of such a head, where `row` is followed by
 * `word`; its block is still to be given. */
static inline size_t batch_head(size_t n)
{
    return 4 * n + 1;
}
stet_status batch_plan(const model *m, const stet_corpus *c, const uint32_t *pick, size_t n,
                       arena *a, uint32_t *head);
batch batch_over(const uint32_t *head, size_t n, const uint32_t *row, size_t n_rows);
/* First the words of the texts as row (T); then these numbered in order of first use, with `slot` as
 * in batcher. Returns how many there are. */
text_source corpus_source(const model *m, const stet_corpus *c);
void batch_ids(const text_source *from, const uint32_t *head, size_t n, uint32_t *row);
size_t batch_number(uint32_t *slot, uint32_t *row, size_t n_tokens, uint32_t *word);
/* What may stand in place of the batch's words, which are the first of to->word already. Others are
 * numbered behind them in the order of first use. */
set_counts batch_number_sets(uint32_t *slot, const word_sets *s, const seq_index *q,
                             const set_rows *to);

/* Rows (n, D) for n words in host memory, which stay until the step ends: what the network reads of
 * them. Where vectors learn, they have a gradient. */
node *pass_rows(const pass *p, const uint32_t *word, size_t n);
/* Those of the words of the pass's texts, made now if pass_init left them out. */
node *pass_text_rows(const pass *p);
/* The same before a word layer. */
node *pass_vectors(const pass *p, const uint32_t *word, size_t n);
/* The parameters alone, on p->t. */
stet_status pass_params(pass *p, const model *m, const model_weights *w, real *grad);
/* A pass over a batch: parameters and rows of `w`, which are in the tape's store (NULL: the model's
 * own, in the host's). Gradients are added to grad (n_values) unless NULL. Dropout is left at 0. */
stet_status pass_init(pass *p, const model *m, tape *t, const model_weights *w, real *grad,
                      const batch *x);

#endif
