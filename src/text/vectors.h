/* text/vectors.h - how a table of word vectors is filled: rows are claimed word by word while files
 * are read in order, so the first vector of a word wins.
 *
 *     vec_table tab = { .t = out, .vocab = v };
 *     for (...) TRY(vectors_read(paths[i], &tab));
 *     vectors_fill_unknown(out); */
#ifndef TEXT_VECTORS_H
#define TEXT_VECTORS_H

#include "base/strmap.h"
#include "stet/text.h"

typedef struct vec_table {
    stet_vectors *t;
    const stet_vocab *vocab; /* rows are the ids of its words; or NULL, and */
    strmap *words;           /* every word met gets the next row, from STET_FIRST_WORD on */
    size_t n_wanted;         /* words of `vocab` */
    bool spaced;             /* a word that is wanted may hold a space */
    size_t rows;             /* allocated */
    const char *first_path;  /* the file that gave t->dim */
} vec_table;

/* A zeroed table, nothing known; t->dim must be set. */
stet_status vectors_init(stet_vectors *t, size_t n, size_t dim);
/* The row of <unk> becomes the mean of the known rows. */
void vectors_fill_unknown(stet_vectors *t);

/* Would vec_table_claim give this word a row? */
bool vec_table_wants(const vec_table *tab, const char *word, size_t len);
/* A row for the word's vector, now marked known, or VEC_NO_ROW if the word is not wanted or has
 * one. */
#define VEC_NO_ROW SIZE_MAX
stet_status vec_table_claim(vec_table *tab, const char *word, size_t len, size_t *row);
const char *vec_table_word(const vec_table *tab, size_t row);
bool vec_table_full(const vec_table *tab); /* no word is wanted any more */
/* The dimension that a file has: the first sets it and makes the table, the others must agree. */
stet_status vec_table_set_dim(vec_table *tab, const char *path, size_t dim);

/* Read one file of any known format into the table (vectors_read.c). */
stet_status vectors_read(const char *path, vec_table *tab);

#endif
