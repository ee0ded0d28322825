/* lexicon/subst.h - inside of substitution sets: the image that is both the file and the object in
 * memory, and the builder that makes one. */
#ifndef LEXICON_SUBST_H
#define LEXICON_SUBST_H

#include "base/file.h"
#include "base/json.h"
#include "base/strmap.h"
#include "stet/lexicon.h"

/* ---- the image ---------------------------------------------------------------------------- */

struct stet_subst {
    const uint32_t *text_at; /* (n_words + 1) where each word begins in `text` */
    const uint32_t *start;   /* (n_words + 1) where each word's substitutes begin in `subs` */
    const uint32_t *subs;    /* (n_pairs) */
    const char *text;        /* words in ascending byte order, each with a NUL after it */
    size_t n_words, n_pairs;
    uint64_t fingerprint;
    const void *image; /* what the pointers above point into */
    size_t image_size;
    void *owned;  /* the image, if it was built in memory */
    file_map map; /* the image, if it was mapped from a file */
};

/* Where a new image is written before it is sealed. */
typedef struct subst_parts {
    uint32_t *text_at, *start, *subs;
    char *text;
} subst_parts;

/* An empty image of these sizes; fill `parts`, then seal it to set its fingerprint. */
stet_status subst_new(size_t words, size_t pairs, size_t text_bytes, subst_parts *parts,
                      stet_subst **out);
void subst_seal(stet_subst *s);

/* What keeps these bytes from being a word ("invalid UTF-8", ...), or NULL: words are not empty,
 * valid UTF-8, without spaces and control characters. */
const char *subst_word_fault(const char *word, size_t len);

/* Does an image begin here? A reader that sees no magic tries JSON instead. */
bool subst_is_image(const void *data, size_t size);
/* Check every length, offset and order of an image and point `s` into it; `name` is for messages.
 */
stet_status subst_view(stet_subst *s, const void *image, size_t size, const char *name);

/* ---- the builder -------------------------------------------------------------------------- */

typedef struct subst_edge {
    uint32_t from, to; /* numbers in `words`: `to` may replace `from` */
} subst_edge;

/* All pairs in the order they were added. Sources append; filters bring them into order and thin
 * them out (see group() in subst_build.c). */
struct stet_subst_builder {
    strmap words;
    subst_edge *edges;
    size_t n_edges, cap;
};

/* The number of a word; STET_EFORMAT if it is none (subst_word_fault). */
stet_status subst_intern(stet_subst_builder *b, const char *word, size_t len, uint32_t *id);
stet_status subst_add_edge(stet_subst_builder *b, uint32_t from, uint32_t to); /* self: ignored */
stet_status subst_add_set(stet_subst_builder *b, const stet_subst *s);
/* The map that a file which is no built set must be. */
stet_status subst_read_json(const char *path, json_t **out);
/* Every pair of a parsed neighbour map; `name` is for messages. */
stet_status subst_add_json(stet_subst_builder *b, json_t *map, const char *name);
stet_status subst_from_json(json_t *map, const char *name, stet_subst **out);
/* Is there a set at `path` (or the built-in one), not a map? Standard input never is: it cannot be
 * mapped. */
stet_status subst_is_built(const char *path, bool *yes);

typedef bool subst_keep_fn(const stet_subst_builder *b, const void *ctx, subst_edge e);
void subst_keep_if(stet_subst_builder *b, subst_keep_fn *keep, const void *ctx);

/* The per-position sets of a parsed file. */
stet_status subst_texts_from_json(json_t *root, const char *name, stet_subst_texts **out);

/* Every substitute of such a file, once. */
const strmap *subst_texts_words(const stet_subst_texts *s);

/* Call fn for every line of a list of pairs; blank lines are skipped. */
typedef stet_status subst_pair_fn(void *ctx, const char *a, size_t a_len, const char *b,
                                  size_t b_len);
stet_status subst_read_pairs(const char *path, subst_pair_fn *fn, void *ctx);

#endif
