/* stet/lexicon.h - which words may stand in for which: WordNet, part-of-speech tags, and
 * substitution sets S(w).
 *
 *     stet_subst *s;
 *     if (stet_subst_load("jia.subst", &s) != STET_OK) ...
 *     size_t n;
 *     const uint32_t *alt = stet_subst_of(s, stet_subst_word_id(s, "movie", 5), &n);
 *
 * Loaded objects never change, so threads may share them freely. */
#ifndef STET_LEXICON_H
#define STET_LEXICON_H

#include "stet/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- parts of speech ---------------------------------------------------------------------- */

typedef enum stet_pos { STET_NOUN, STET_VERB, STET_ADJ, STET_ADV, STET_OTHER } stet_pos;
STET_API stet_pos stet_pos_of_penn(const char *tag); /* by its first two letters: NN VB JJ RB, else other */

typedef struct stet_tagger stet_tagger;
STET_API stet_status stet_tagger_load(const char *path, stet_tagger **out);   /* text form, plain or compressed */
STET_API stet_status stet_tagger_builtin(stet_tagger **out);                  /* WordNet's most frequent sense and suffix rules */
STET_API stet_status stet_tagger_train(const char *conllu, size_t epochs, uint64_t seed, stet_tagger **out);
STET_API stet_status stet_tagger_save(const stet_tagger *t, const char *path);
STET_API stet_status stet_tagger_eval(const stet_tagger *t, const char *conllu, size_t *right, size_t *total);
/* Penn tags of a sentence; `tags[i]` points into the tagger. Thread-safe. */
STET_API stet_status stet_tagger_tag(const stet_tagger *t, const char *const *words, size_t n, const char **tags);
STET_API void stet_tagger_free(stet_tagger *t);

/* ---- WordNet ------------------------------------------------------------------------------ */

typedef struct stet_wordnet stet_wordnet;
/* `dir` NULL: $WNSEARCHDIR or the usual places. */
STET_API stet_status stet_wordnet_open(const char *dir, stet_wordnet **out);
STET_API void stet_wordnet_free(stet_wordnet *w);
typedef enum stet_wn_variant {
    STET_WN_OPENATTACK, /* synsets of one part of speech, first word of each lemma */
    STET_WN_TEXTATTACK  /* synsets of all parts of speech, one-word lemmas only */
} stet_wn_variant;
/* Synonyms of `word` in the order of synsets and lemmas, without repeats: a NULL-terminated array that
 * the caller releases as one block with stet_free(). */
STET_API stet_status stet_wordnet_synonyms(const stet_wordnet *w, const char *word, stet_pos pos,
                                           stet_wn_variant variant, char ***out, size_t *n);

/* ---- substitution sets -------------------------------------------------------------------- */

/* For every word of its own word list, the words that may replace it (never the word itself), nearest
 * first where the source has an order. Read-only; a file is memory-mapped. */
typedef struct stet_subst stet_subst;
STET_API stet_status stet_subst_load(const char *path, stet_subst **out); /* our format, or a JSON map {word: [words]} */
STET_API stet_status stet_subst_save(const stet_subst *s, const char *path);
STET_API void stet_subst_free(stet_subst *s);
STET_API size_t stet_subst_words(const stet_subst *s);
STET_API const char *stet_subst_word(const stet_subst *s, uint32_t id);
STET_API uint32_t stet_subst_word_id(const stet_subst *s, const char *word, size_t len); /* UINT32_MAX if absent */
STET_API const uint32_t *stet_subst_of(const stet_subst *s, uint32_t id, size_t *n);
STET_API size_t stet_subst_pairs(const stet_subst *s);
STET_API uint64_t stet_subst_fingerprint(const stet_subst *s);

/* How a set is made: start from sources, then filter. Sources are united in order. */
typedef struct stet_subst_builder stet_subst_builder;
STET_API stet_status stet_subst_builder_new(stet_subst_builder **out);
STET_API void stet_subst_builder_free(stet_subst_builder *b);
STET_API stet_status stet_subst_add_neighbours(stet_subst_builder *b, const char *json_path);
STET_API stet_status stet_subst_add_pairs(stet_subst_builder *b, const char *path); /* WORD WORD a line */
STET_API stet_status stet_subst_add_sememes(stet_subst_builder *b, const char *tsv_path, const char *lemma_path);
STET_API stet_status stet_subst_add_wordnet(stet_subst_builder *b, const stet_wordnet *w, const stet_vocab *words,
                                            stet_wn_variant variant);
typedef enum stet_metric { STET_L2, STET_L2SQ, STET_COS } stet_metric;
STET_API stet_status stet_subst_add_nearest(stet_subst_builder *b, const stet_vectors *t, const stet_vocab *v, size_t k,
                                            stet_metric metric, double threshold, bool strict);
STET_API stet_status stet_subst_add_list(stet_subst_builder *b, const char *word, const char *const *subs, size_t n);
STET_API stet_status stet_subst_drop_stop_words(stet_subst_builder *b, const char *path); /* they keep no set and enter none? see docs */
STET_API stet_status stet_subst_drop_pairs(stet_subst_builder *b, const char *path);     /* antonym lists */
STET_API stet_status stet_subst_keep_vocab(stet_subst_builder *b, const stet_vocab *v);
STET_API stet_status stet_subst_make_symmetric(stet_subst_builder *b);
STET_API stet_status stet_subst_keep_top(stet_subst_builder *b, size_t k);
STET_API stet_status stet_subst_build(stet_subst_builder *b, stet_subst **out);

typedef struct stet_subst_stats {
    size_t words, replaceable, pairs, components, largest_component;
    double candidates_mean;   /* per replaceable word */
    double symmetric_share;
    double tokens_replaceable; /* share of a corpus' tokens, 0 without one */
    double candidates_per_token; /* mean over replaceable tokens of the corpus */
} stet_subst_stats;
STET_API stet_status stet_subst_stats_of(const stet_subst *s, const stet_dataset *d, stet_tokenizer kind, stet_subst_stats *out);

/* Per-position sets of given texts (language-model-filtered files): {"text": {"3": ["w", ...]}}. */
typedef struct stet_subst_texts stet_subst_texts;
STET_API stet_status stet_subst_texts_load(const char *path, stet_subst_texts **out);
STET_API size_t stet_subst_texts_count(const stet_subst_texts *s);
STET_API stet_str stet_subst_texts_text(const stet_subst_texts *s, size_t i); /* tokens joined by spaces */
/* Substitutes at token position `p` of text i: pointers into the object. */
STET_API const char *const *stet_subst_texts_at(const stet_subst_texts *s, size_t i, size_t p, size_t *n);
STET_API void stet_subst_texts_free(stet_subst_texts *s);

/* Synonym-smoothed vectors: (I + lambda L) E' = E over the graph of S restricted to `v`. In place;
 * reports the relative residual. */
STET_API stet_status stet_vectors_smooth(stet_vectors *t, const stet_vocab *v, const stet_subst *s, double lambda,
                                         double *residual);

/* ---- the built-in corpus ------------------------------------------------------------------ */

/* Film reviews from a grammar, deterministic from the seed; two classes. */
STET_API stet_status stet_builtin_corpus(size_t n, uint64_t seed, stet_dataset **out);
STET_API stet_status stet_builtin_subst(stet_subst **out);

#ifdef __cplusplus
}
#endif
#endif
