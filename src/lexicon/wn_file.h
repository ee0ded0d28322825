/* lexicon/wn_file.h - the text files of a WordNet database (wndb(5WN)): lines that start with a
 * key, and the fields of a line. The files are memory-mapped and never copied. */
#ifndef LEXICON_WN_FILE_H
#define LEXICON_WN_FILE_H

#include "base/file.h"
#include "stet/text.h"

/* A file whose lines can be found by their first field. Lines that start with a space (the licence)
 * are not part of it. */
typedef struct wn_file {
    char *path;
    file_map map;
    uint32_t *line; /* (n) where lines start, in ascending order of their keys */
    size_t n;
} wn_file;

stet_status wn_file_open(wn_file *f, const char *dir, const char *name);
stet_status wn_file_map(wn_file *f, const char *dir,
                        const char *name); /* n 0: lines by offset only */
void wn_file_close(wn_file *f);            /* fine on {0} */
/* The number of lines whose text is less than `key`. */
size_t wn_file_lower_bound(const wn_file *f, const char *key, size_t len);
stet_str wn_file_line(const wn_file *f, size_t i); /* not NUL-terminated */
/* The line whose first field is `key` (of several the last); false if there is none. */
bool wn_file_find(const wn_file *f, const char *key, size_t len, stet_str *line);

/* A walk over the space-separated fields of a line. A field that is missing or wrong gives
 * STET_EFORMAT with the file, the byte offset, the field's name and what was expected. */
typedef struct wn_fields {
    const wn_file *file;
    const char *p, *end;
} wn_fields;

stet_status wn_fields_at(const wn_file *f, size_t offset, wn_fields *out); /* a line by its place */
stet_status wn_fields_word(wn_fields *f, const char *what, stet_str *out);
stet_status wn_fields_number(wn_fields *f, const char *what, unsigned base, uint32_t max,
                             uint32_t *out);
/* The next field, if the line has one more. */
bool wn_fields_next(wn_fields *f, stet_str *out);

#endif
