/* text/read_csv.c - RFC 4180: cells between commas, quoted ones may hold commas, line ends and
 * doubled quotes; every record has as many cells as the first. Semicolons stand for commas where
 * the first line has some and no comma, as spreadsheets of many countries write it.
 *
 * Files without a header follow the habit of Zhang et al. (AG News, Yahoo! Answers, Yelp, DBpedia):
 * a backslash and an n in a cell stand for a line end. */
#include "text/reader.h"

#include <string.h>

#include "base/buf.h"

enum { RECORD_CAP = 64 << 20 }; /* bytes; an unclosed quote would swallow the file */

typedef struct csv_record {
    buf text; /* cells one after the other, unquoted */
    size_t end[MAX_COLUMNS];
    size_t n;
    char between;        /* two cells: ',' or ';' */
    size_t line;         /* where it began */
    const char *problem; /* NULL: well formed */
} csv_record;

/* The rest of a quoted cell; *s points after the opening quote and is left after the closing one.
 * Takes further lines as needed; false where the file ends or fails before the quote closes. */
static bool quoted_cell(csv_record *r, line_source *in, const char **s, stet_status *st)
{
    for (;;) {
        const char *const end = in->line + in->len;
        const char *quote = memchr(*s, '"', (size_t)(end - *s));
        buf_bytes(&r->text, *s, (size_t)((quote ? quote : end) - *s));
        if (quote && quote + 1 < end && quote[1] == '"') {
            buf_char(&r->text, '"');
            *s = quote + 2;
            continue;
        }
        if (quote) {
            *s = quote + 1;
            return true;
        }
        buf_char(&r->text, '\n');
        if (r->text.n > RECORD_CAP || !source_next(in, st)) {
            r->problem = "a quote opened here is not closed";
            return false;
        }
        *s = in->line;
    }
}

/* The record that begins with the current line. */
static void parse_record(csv_record *r, line_source *in, stet_status *st)
{
    buf_clear(&r->text);
    r->n = 0;
    r->problem = NULL;
    r->line = source_line_number(in);
    const char *s = in->line;
    for (;;) {
        if (r->n == MAX_COLUMNS) {
            r->problem = "too many columns";
            return;
        }
        if (s < in->line + in->len && *s == '"') {
            s++;
            if (!quoted_cell(r, in, &s, st))
                return;
        } else {
            const char *comma = memchr(s, r->between, (size_t)(in->line + in->len - s));
            const char *stop = comma ? comma : in->line + in->len;
            buf_bytes(&r->text, s, (size_t)(stop - s));
            s = stop;
        }
        r->end[r->n++] = r->text.n;
        if (s == in->line + in->len)
            return;
        if (*s != r->between) {
            r->problem = "text after a closing quote; quotes inside a cell are doubled";
            return;
        }
        s++;
    }
}

/* What stands between the cells of this first line, outside quotes. */
static char separator_of(const char *s, size_t n)
{
    bool quoted = false, semicolon = false;
    for (size_t i = 0; i < n; i++) {
        quoted ^= s[i] == '"';
        if (s[i] == ',' && !quoted)
            return ',';
        semicolon |= s[i] == ';' && !quoted;
    }
    return semicolon ? ';' : ',';
}

/* In place: backslash-n to a line end. Gives the new length. */
static size_t unescape(char *s, size_t n)
{
    size_t to = 0;
    for (size_t i = 0; i < n; i++) {
        const bool escape = s[i] == '\\' && i + 1 < n && s[i + 1] == 'n';
        s[to++] = escape ? '\n' : s[i];
        i += escape;
    }
    return to;
}

static stet_status take_record(csv_record *r, data_builder *b, table_plan *plan)
{
    if (r->problem)
        return builder_bad(b, r->line, "%s", r->problem);
    stet_str cell[MAX_COLUMNS];
    for (size_t i = 0, from = 0; i < r->n; from = r->end[i++])
        cell[i] = (stet_str){r->text.data + from, r->end[i] - from};
    if (plan->width == 0) {
        TRY(table_plan_make(b, r->line, cell, r->n, plan));
        if (plan->header)
            return STET_OK;
    }
    if (r->n != plan->width)
        return builder_bad(b, r->line, "expected %zu columns as in the first record, found %zu",
                           plan->width, r->n);
    for (size_t i = 0; !plan->header && i < r->n; i++)
        if (memchr(cell[i].data, '\\', cell[i].len))
            cell[i].len = unescape(r->text.data + (cell[i].data - r->text.data), cell[i].len);
    return table_plan_row(plan, b, r->line, cell, r->n);
}

stet_status read_csv(data_builder *b, line_source *in)
{
    stet_status st = STET_OK;
    table_plan plan = {0};
    csv_record record = {0};
    while (st == STET_OK && source_next(in, &st)) {
        if (in->len == 0)
            continue;
        if (!record.between)
            record.between = separator_of(in->line, in->len);
        parse_record(&record, in, &st);
        if (st == STET_OK)
            st = buf_status(&record.text);
        if (st == STET_OK)
            st = take_record(&record, b, &plan);
    }
    buf_deinit(&record.text);
    return st;
}
