/* lexicon/tag_features.h - what a perceptron tagger sees of a word: features made from templates.
 *
 * A template names one to three pieces (of the word, of its neighbours, of the two tags before).
 * A feature is a template filled in; its text, as in a tagger's file, is the template's name and
 * the pieces with a space before each: "i-1 tag+i word DT movie". Tagging never makes that text:
 * pieces are hashed once when a word enters the window, and a feature's hash is combined from
 * theirs. */
#ifndef LEXICON_TAG_FEATURES_H
#define LEXICON_TAG_FEATURES_H

#include "base/buf.h"

enum {
    TAG_WORD_MAX = 255, /* bytes of a word that count; the rest is cut off */
    TAG_REACH = 2,      /* neighbours seen on each side, and tags before */
    TAG_TEMPLATES = 31
};

typedef struct tag_value {
    const char *text;
    size_t len;
    uint64_t hash;
} tag_value;

tag_value tag_value_of(const char *text, size_t len);

/* Lower case of a word into TAG_WORD_MAX bytes; gives its length, writes no NUL. */
size_t tag_lower(const char *s, size_t len, char *out);

/* Pieces of one word. "Plain" is its normal form: lower case, or !HYPHEN, !YEAR, !DIGITS. */
typedef enum tag_piece {
    PIECE_PLAIN,
    PIECE_PLAIN_SUFFIX3,
    PIECE_EXACT, /* the word as written */
    PIECE_SUFFIX1,
    PIECE_SUFFIX2,
    PIECE_SUFFIX3,
    PIECE_SUFFIX4,
    PIECE_SUFFIX5,
    PIECE_PREFIX1,
    PIECE_PREFIX2,
    PIECE_PREFIX3,
    PIECE_PREFIX4,
    PIECE_SHAPE, /* Xx for Movie, d.dd for 3.14 */
    PIECE_COUNT,
    PIECE_TAG /* not of the word: the tag given to it */
} tag_piece;

typedef struct tag_word {
    tag_value piece[PIECE_COUNT];
    char plain[TAG_WORD_MAX + 1], shape[TAG_WORD_MAX + 1];
} tag_word;

/* A sentence seen through a window that moves from its first word to its last. */
typedef struct tag_window {
    const char *const *words;
    size_t n, i;
    tag_word slots[2 * TAG_REACH + 1], *at[2 * TAG_REACH + 1]; /* at[TAG_REACH] is word i */
    tag_value tag[TAG_REACH];                                  /* of words i-1 and i-2 */
} tag_window;

void tag_window_start(tag_window *w, const char *const *words, size_t n);
void tag_window_next(tag_window *w, tag_value tag); /* `tag` is the one given to word i */

/* The hash of template t filled in from the window; never 0. */
uint64_t tag_feature_hash(const tag_window *w, size_t t);
/* Append its text. */
void tag_feature_text(const tag_window *w, size_t t, buf *out);
/* Template and hash of a feature given as text; false if no template has this name and number of
 * pieces. */
bool tag_feature_parse(const char *text, size_t len, size_t *t, uint64_t *hash);

#endif
