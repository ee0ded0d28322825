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
STET_API stet_pos stet_pos_of_penn(const char *tag); /* NN.. VB.. JJ.. RB.., else other */

/* Penn tags for the words of a sentence. A tagger never changes once made; threads may share it.
 * On failure *out is NULL. */
typedef struct stet_tagger stet_tagger;
/* A file of weights (docs/lexicon.md), plain or compressed: ours, or NLTK's in the same text form.
 * STET_EFORMAT names the line. */
STET_API stet_status stet_tagger_load(const char *path, stet_tagger **out);
/* Needs no file: function words, WordNet's counts of senses, endings. Where WordNet is missing it
 * says so in the log and makes do without. */
STET_API stet_status stet_tagger_builtin(stet_tagger **out);
/* An averaged perceptron from a CoNLL-U treebank with tags in its column XPOS. */
STET_API stet_status stet_tagger_train(const char *conllu, size_t epochs, uint64_t seed,
                                       stet_tagger **out);
/* Written atomically, compressed as the name asks (.gz .xz .zst); what is loaded from it tags
 * alike. STET_ENOTSUP for the built-in tagger. */
STET_API stet_status stet_tagger_save(const stet_tagger *t, const char *path);
/* How many of a treebank's tags it gets right. */
STET_API stet_status stet_tagger_eval(const stet_tagger *t, const char *conllu, size_t *right,
                                      size_t *total);
/* `tags[i]` points into the tagger. Words should have their capitals; contractions are two words.
 */
STET_API stet_status stet_tagger_tag(const stet_tagger *t, const char *const *words, size_t n,
                                     const char **tags);
STET_API void stet_tagger_free(stet_tagger *t); /* NULL is fine */

/* ---- WordNet ------------------------------------------------------------------------------ */

/* The database files of WordNet 3.0 or 3.1, memory-mapped. Threads may share it. */
typedef struct stet_wordnet stet_wordnet;
/* `dir` NULL: $WNSEARCHDIR, $WNHOME/dict or the usual places. STET_EIO if it is not there. */
STET_API stet_status stet_wordnet_open(const char *dir, stet_wordnet **out);
STET_API void stet_wordnet_free(stet_wordnet *w); /* NULL is fine */
typedef enum stet_wn_variant {
    STET_WN_OPENATTACK, /* synsets of `pos`; the first word of each lemma, in lower case */
    STET_WN_TEXTATTACK  /* synsets of all parts of speech; lemmas of one word, as they are */
} stet_wn_variant;
/* Synonyms of `word` or of its base forms in the order of synsets and lemmas, without repeats: a
 * NULL-terminated array that the caller releases as one block with stet_free(). A word that WordNet
 * does not have has none. STET_EFORMAT (file, offset, field) where the database is damaged. */
STET_API stet_status stet_wordnet_synonyms(const stet_wordnet *w, const char *word, stet_pos pos,
                                           stet_wn_variant variant, char ***out, size_t *n);

/* ---- substitution sets -------------------------------------------------------------------- */

/* For every word of its own word list, the words that may replace it (never the word itself, none
 * twice), nearest first where the source has an order. Only words that take part in a pair are in
 * the list, in byte order, so that the same pairs have the same fingerprint whatever they were made
 * from. Read-only; a file is memory-mapped. */
typedef struct stet_subst stet_subst;
/* Our format (docs/formats.md), a JSON map {"word": ["word", ...]}, plain or compressed, or the
 * name "builtin": stet_builtin_subst. */
STET_API stet_status stet_subst_load(const char *path, stet_subst **out);
STET_API stet_status stet_subst_save(const stet_subst *s, const char *path);
STET_API void stet_subst_free(stet_subst *s);
STET_API size_t stet_subst_words(const stet_subst *s);
STET_API const char *stet_subst_word(const stet_subst *s, uint32_t id); /* NULL: no such word */
/* UINT32_MAX: the word has no substitutes and is nobody's substitute. */
STET_API uint32_t stet_subst_word_id(const stet_subst *s, const char *word, size_t len);
STET_API const uint32_t *stet_subst_of(const stet_subst *s, uint32_t id, size_t *n);
STET_API size_t stet_subst_pairs(const stet_subst *s);
STET_API uint64_t stet_subst_fingerprint(const stet_subst *s);

/* How a set is made: add sources, which are united in order, and filter. A filter acts at once on
 * all that was added before it. Files may be compressed; a failed call may leave part of its file
 * added. */
typedef struct stet_subst_builder stet_subst_builder;
STET_API stet_status stet_subst_builder_new(stet_subst_builder **out);
STET_API void stet_subst_builder_free(stet_subst_builder *b);

/* Any file or name that stet_subst_load takes. */
STET_API stet_status stet_subst_add_neighbours(stet_subst_builder *b, const char *path);
/* WORD WORD a line, white space between them: each may replace the other. */
STET_API stet_status stet_subst_add_pairs(stet_subst_builder *b, const char *path);
/* Words with a sense of the same part of speech and exactly the same sememes: LEMMA, POS (n v a r),
 * OFFSET, SYNSET, SEMEMES with tabs between. With a list of LEMMA<TAB>FORM lines, forms with the
 * same ending replace each other too; lemma_path may be NULL. */
STET_API stet_status stet_subst_add_sememes(stet_subst_builder *b, const char *tsv_path,
                                            const char *lemma_path);
/* Synonyms of the words of a vocabulary; of all parts of speech, nouns first. Here and below words
 * with spaces or control characters, which no set holds, are passed over. */
STET_API stet_status stet_subst_add_wordnet(stet_subst_builder *b, const stet_wordnet *w,
                                            const stet_vocab *words, stet_wn_variant variant);
typedef enum stet_metric { STET_L2, STET_L2SQ, STET_COS } stet_metric;
/* The k nearest of the words that have vectors: exactly those that double precision gives, ties by
 * id. Distances of at most `threshold` (INFINITY: any), cosines of at least it (-INFINITY: any);
 * `strict` leaves out the threshold itself. A word is not its own neighbour: where others count it
 * (OpenAttack), pass their k less one. */
STET_API stet_status stet_subst_add_nearest(stet_subst_builder *b, const stet_vectors *t,
                                            const stet_vocab *v, size_t k, stet_metric metric,
                                            double threshold, bool strict);
STET_API stet_status stet_subst_add_list(stet_subst_builder *b, const char *word,
                                         const char *const *subs, size_t n);

/* Words of the file, one per line, or of the list "builtin" cannot be replaced; they may still replace others (as in Jia et
 * al. 2019). */
STET_API stet_status stet_subst_drop_stop_words(stet_subst_builder *b, const char *path);
/* Antonyms: WORD WORD a line, dropped in both directions. */
STET_API stet_status stet_subst_drop_pairs(stet_subst_builder *b, const char *path);
/* Both words are in the vocabulary. */
STET_API stet_status stet_subst_keep_vocab(stet_subst_builder *b, const stet_vocab *v);
/* Both words are read as they are: one word of a text, with this tokeniser. Tells in the log, and in
 * *left_out, how many words are not. */
STET_API stet_status stet_subst_keep_typed(stet_subst_builder *b, stet_tokenizer kind,
                                           size_t *left_out);
/* Both words have the same coarse part of speech, each tagged alone. */
STET_API stet_status stet_subst_keep_same_pos(stet_subst_builder *b, const stet_tagger *t);
/* Both words have at least so many characters. */
STET_API stet_status stet_subst_keep_long(stet_subst_builder *b, size_t least);
/* The first k substitutes of each word. */
STET_API stet_status stet_subst_keep_top(stet_subst_builder *b, size_t k);
/* Add the reverse of every pair, after the word's own. */
STET_API stet_status stet_subst_make_symmetric(stet_subst_builder *b);
STET_API stet_status stet_subst_build(stet_subst_builder *b, stet_subst **out);

typedef struct stet_subst_stats {
    size_t words, replaceable, pairs, components, largest_component;
    double candidates_mean;      /* per replaceable word */
    double symmetric_share;      /* of the pairs, whose reverse is there too */
    double tokens_replaceable;   /* share of a corpus' tokens, 0 without one */
    double candidates_per_token; /* mean over replaceable tokens of the corpus */
} stet_subst_stats;
/* `d` may be NULL. */
STET_API stet_status stet_subst_stats_of(const stet_subst *s, const stet_dataset *d,
                                         stet_tokenizer kind, stet_subst_stats *out);

/* Per-position sets of given texts (language-model-filtered files), plain or compressed:
 * {"tokens joined by spaces": {"3": ["word", ...], ...}, ...}. */
typedef struct stet_subst_texts stet_subst_texts;
STET_API stet_status stet_subst_texts_load(const char *path, stet_subst_texts **out);
STET_API size_t stet_subst_texts_count(const stet_subst_texts *s);
STET_API stet_str stet_subst_texts_text(const stet_subst_texts *s, size_t i); /* its tokens */
STET_API size_t stet_subst_texts_positions(const stet_subst_texts *s, size_t i);
/* Substitutes at token position `p` of text i: pointers into the object. */
STET_API const char *const *stet_subst_texts_at(const stet_subst_texts *s, size_t i, size_t p,
                                                size_t *n);
STET_API uint64_t stet_subst_texts_fingerprint(const stet_subst_texts *s);
/* The text that has the same letters and digits as `text`, which may be the untokenised original;
 * *out is SIZE_MAX if there is none. */
STET_API stet_status stet_subst_texts_find(const stet_subst_texts *s, const char *text, size_t len,
                                           size_t *out);
/* For each token of the original of text i, its position in text i, or SIZE_MAX where the two
 * tokenisations differ. `position` holds tokens->n entries. */
STET_API void stet_subst_texts_align(const stet_subst_texts *s, size_t i, const char *text,
                                     size_t len, const stet_tokens *tokens, size_t *position);
STET_API void stet_subst_texts_free(stet_subst_texts *s);

/* Synonym-smoothed vectors: (W + lambda L) E' = W E, the minimum of the sum of w_u |e'_u - e_u|^2 +
 * lambda times the sum of |e'_u - e'_v|^2 over the pairs of S between words of `v` that have vectors
 * (a pair in both directions counts twice); all other words keep theirs. `weight` (t->n) says how
 * firmly each word holds on to its own vector; NULL: all alike, 1. In place, by conjugate gradients;
 * *residual is the largest relative residual of a column, aimed at 1e-6. */
STET_API stet_status stet_vectors_smooth(stet_vectors *t, const stet_vocab *v, const stet_subst *s,
                                         double lambda, const double *weight, double *residual);

/* ---- the built-in corpus ------------------------------------------------------------------ */

/* Film reviews from a grammar, two classes ("negative", "positive"), half of the texts each. The
 * i-th text depends on the seed and i alone. */
STET_API stet_status stet_builtin_corpus(size_t n, uint64_t seed, stet_dataset **out);
STET_API stet_status stet_builtin_subst(stet_subst **out); /* its synonym families, symmetric */

#ifdef __cplusplus
}
#endif
#endif
