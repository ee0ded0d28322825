/* model/feature_cache.h - what frozen layers make of texts, kept in a file between epochs and runs.
 *
 * The file belongs to one encoder, whose digest it begins with; a text is found by the SHA-256 of its
 * pieces. Records are only ever appended, each with a hash of its numbers: a cut-off one at the end is
 * dropped, a damaged one is an error. One process at a time. */
#ifndef MODEL_FEATURE_CACHE_H
#define MODEL_FEATURE_CACHE_H

#include "model/model_impl.h"

typedef struct feature_cache feature_cache;

/* `encoder`: the digest of all that the rows depend on; `dim`: numbers in a row. */
stet_status feature_cache_open(const char *path, const char encoder[SHA256_HEX], size_t dim,
                               feature_cache **out);
void feature_cache_close(feature_cache *c); /* NULL: fine */
/* The rows (n, dim) of a text of n pieces. */
stet_status feature_cache_get(feature_cache *c, const uint32_t *ids, size_t n, real *rows,
                              bool *found);
stet_status feature_cache_put(feature_cache *c, const uint32_t *ids, size_t n, const real *rows);

#endif
