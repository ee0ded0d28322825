/* text/reader.h - the readers of corpora: each turns a stream into rows of a data_builder. */
#ifndef TEXT_READER_H
#define TEXT_READER_H

#include "base/stream.h"
#include "text/dataset.h"

/* Lines with one of look-ahead, which tells the format. A byte order mark is dropped. */
typedef struct line_source {
    stream *s;
    char *line;
    size_t len;
    bool held;
} line_source;

bool source_next(line_source *in, stet_status *st); /* false at the end or on failure */
bool source_peek(line_source *in, stet_status *st); /* the next one stays the next one */
size_t source_line_number(const line_source *in);

stet_status read_tsv(data_builder *b, line_source *in);
stet_status read_csv(data_builder *b, line_source *in);
stet_status read_jsonl(data_builder *b, line_source *in);
stet_status read_fasttext(data_builder *b, line_source *in);
stet_status read_folder(data_builder *b, const char *dir);

/* ---- columns ------------------------------------------------------------------------------ */

enum { MAX_COLUMNS = 256, NO_COLUMN = -1 };

/* Which cells of a row are what. */
typedef struct table_plan {
    int label;             /* or NO_COLUMN */
    int text[MAX_COLUMNS]; /* the columns to join, */
    size_t n_text;         /* or 0: all but the label */
    bool header;           /* the first row holds names */
    size_t width;          /* cells of the first row */
} table_plan;

/* Decide from the options and the first row. */
stet_status table_plan_make(const data_builder *b, size_t line, const stet_str *cell, size_t n,
                            table_plan *out);
/* Hand the row over, or call it bad. */
stet_status table_plan_row(const table_plan *p, data_builder *b, size_t line, const stet_str *cell,
                           size_t n);

/* The usual names of a column or field that holds the label, best first, NULL at the end. */
extern const char *const usual_label_names[];
bool is_usual_text_name(const char *s, size_t n);

/* The next name of a comma-separated list, spaces trimmed; false at the end. */
bool next_name(const char **list, stet_str *name);

#endif
