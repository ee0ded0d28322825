/* lexicon/tagger.h - the inside of a tagger: how a model is put together. */
#ifndef LEXICON_TAGGER_H
#define LEXICON_TAGGER_H

#include "base/strmap.h"
#include "lexicon/tag_features.h"
#include "stet/lexicon.h"

enum { TAGGER_MAX_TAGS = 1024 };

/* Weights have at most three decimals and are kept as thousandths, so sums are exact, ties are
 * real, and a file is written back digit for digit. */
typedef struct tag_weight {
    int32_t thousandths;
    uint32_t tag;
} tag_weight;

typedef struct tag_feature {
    uint32_t text;         /* where its text starts in `feature_text` */
    uint32_t first, count; /* its weights */
    uint64_t hash;
} tag_feature;

typedef struct tag_slot {
    uint64_t hash; /* 0: free */
    uint32_t first, count;
} tag_slot;

typedef struct builtin_tagger builtin_tagger;

struct stet_tagger {
    builtin_tagger *builtin; /* everything below is empty when this is set */
    strmap tags;
    tag_value *tag_values; /* (tags.n) */
    size_t tag_values_cap;
    strmap words;        /* words of one tag, taken before the model */
    uint32_t *word_tags; /* (words.n) */
    size_t word_tags_cap;
    buf feature_text; /* NUL after each */
    tag_feature *features;
    size_t n_features, features_cap;
    tag_weight *weights;
    size_t n_weights, weights_cap;
    tag_slot *slots;
    size_t n_slots;                   /* a power of two */
    uint8_t templates[TAG_TEMPLATES]; /* those in use */
    size_t n_templates;
};

/* Fill an empty (zeroed) tagger: tags first, then words and features, each feature followed by its
 * weights; then finish. STET_EFORMAT where something does not fit, without a place. */
stet_status tagger_add_tag(stet_tagger *t, const char *name, size_t len);
stet_status tagger_add_word(stet_tagger *t, const char *word, size_t len, uint32_t tag);
stet_status tagger_add_feature(stet_tagger *t, const char *text, size_t len);
stet_status tagger_add_weight(stet_tagger *t, uint32_t tag, int32_t thousandths);
stet_status tagger_finish(stet_tagger *t);

/* The built-in tagger (tagger_builtin.c). */
stet_status builtin_tagger_tag(const builtin_tagger *b, const char *const *words, size_t n,
                               const char **tags);
void builtin_tagger_free(builtin_tagger *b);

#endif
