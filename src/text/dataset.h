/* text/dataset.h - what a data set is inside, and how readers fill one.
 *
 * All texts lie in one block, each with a NUL after it, so that loading costs no allocation per
 * text and pieces of equal size for the threads are found by bisection. */
#ifndef TEXT_DATASET_H
#define TEXT_DATASET_H

#include "base/strmap.h"
#include "stet/text.h"

struct stet_dataset {
    char *text;
    uint64_t *start; /* (n + 1): text i is text[start[i] .. start[i+1] - 1) */
    int32_t *label;  /* (n): class, or -1 */
    size_t n, skipped;
    strmap classes; /* number = class */
};

/* stet_dataset_new(); with `any_bytes` texts need not be UTF-8: what is not reads as U+FFFD. */
stet_status dataset_of(const stet_str *texts, const int *labels, size_t n,
                       const char *const *class_names, size_t n_classes, bool any_bytes,
                       stet_dataset **out);

/* Texts in pieces of about 1 MiB that do not depend on the number of threads; for pool_run. */
size_t dataset_pieces(const stet_dataset *d);
void dataset_piece(const stet_dataset *d, size_t piece, size_t *first, size_t *end);

/* A data set in the making. Rows come one after the other: builder_text for each part of the text,
 * then builder_row; or builder_bad, which forgets the parts. */
typedef struct data_builder {
    stet_dataset *d;
    size_t text_n, text_cap, start_cap, label_cap;
    const stet_data_options *how;
    const char *path; /* for messages */
} data_builder;

stet_status builder_init(data_builder *b, const char *path, const stet_data_options *how);
stet_status builder_text(data_builder *b, const char *s,
                         size_t n); /* parts are joined by a space */
/* End the row that stands at `line` (0: the file is the row) and has this label. */
stet_status builder_row(data_builder *b, size_t line, const char *label, size_t label_n);
/* The row is bad: STET_EFORMAT with the place and this message, or STET_OK if bad rows are skipped.
 */
stet_status builder_bad(data_builder *b, size_t line, const char *fmt, ...) PRINTF_LIKE(3, 4);
stet_status builder_finish(data_builder *b, stet_dataset **out); /* classes in order, sizes exact */
void builder_deinit(data_builder *b);

#endif
