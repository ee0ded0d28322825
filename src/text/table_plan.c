/* text/table_plan.c - which columns of a table hold the label and the text.
 *
 * Asked for by name or number, or guessed: with a header by the usual names, without one the first
 * column is the label and all the others are text, which is how AG News, Yahoo! Answers and most
 * others in this form look. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "text/reader.h"

const char *const usual_label_names[] = {"label",       "class",  "sentiment", "category",
                                         "polarity",    "target", "topic",     "labels",
                                         "class index", "stars",  NULL};
static const char *const text_names[] = {
    "text",     "review",  "sentence",       "content",          "title",       "description",
    "question", "answer",  "body",           "comment",          "tweet",       "document",
    "headline", "message", "question_title", "question_content", "best_answer", NULL};

static bool same_name(const char *s, size_t n, const char *name)
{
    return strlen(name) == n && strncasecmp(s, name, n) == 0;
}

static bool is_among(const char *s, size_t n, const char *const *names)
{
    for (; *names; names++)
        if (same_name(s, n, *names))
            return true;
    return false;
}

bool is_usual_text_name(const char *s, size_t n)
{
    return is_among(s, n, text_names);
}

bool next_name(const char **list, stet_str *name)
{
    const char *s = *list;
    if (!s || !*s)
        return false;
    const size_t n = strcspn(s, ",");
    *list = s + n + (s[n] == ',');
    while (*s == ' ')
        s++;
    size_t len = strcspn(s, ",");
    while (len > 0 && s[len - 1] == ' ')
        len--;
    *name = (stet_str){s, len};
    return true;
}

static bool is_number(stet_str s)
{
    return s.len > 0 && s.len <= 4 && strspn(s.data, "0123456789") >= s.len;
}

static bool any_by_name(const char *list)
{
    stet_str name;
    while (next_name(&list, &name))
        if (!is_number(name))
            return true;
    return false;
}

static bool has_header(const data_builder *b, const stet_str *cell, size_t n)
{
    if (b->how->header >= 0)
        return b->how->header > 0;
    if (any_by_name(b->how->label) || any_by_name(b->how->text))
        return true;
    for (size_t i = 0; i < n; i++)
        if (is_among(cell[i].data, cell[i].len, usual_label_names) ||
            is_usual_text_name(cell[i].data, cell[i].len))
            return true;
    return false;
}

/* The columns for a message: "id, text, stars", or their number. */
static stet_status no_such_column(const data_builder *b, size_t line, const char *problem,
                                  const stet_str *cell, size_t n, bool header)
{
    buf list = {0};
    buf_printf(&list, "found %zu column%s", n, n == 1 ? "" : "s");
    for (size_t i = 0; header && i < n && i < 12; i++)
        buf_printf(&list, "%s%.*s", i ? ", " : ": ", cell[i].len < 40 ? (int)cell[i].len : 40,
                   cell[i].data);
    const stet_status st = buf_status(&list);
    if (st == STET_OK)
        error_set(STET_EFORMAT, "%s:%zu: %s; %s", b->path, line, problem, list.data);
    buf_deinit(&list);
    return st == STET_OK ? STET_EFORMAT : st;
}

static stet_status find_column(const data_builder *b, size_t line, stet_str name,
                               const stet_str *cell, size_t n, bool header, int *out)
{
    for (size_t i = 0; header && i < n; i++)
        if (cell[i].len == name.len && strncasecmp(cell[i].data, name.data, name.len) == 0) {
            *out = (int)i;
            return STET_OK;
        }
    const long number = is_number(name) ? strtol(name.data, NULL, 10) : 0;
    if (number >= 1 && (size_t)number <= n) {
        *out = (int)number - 1;
        return STET_OK;
    }
    char problem[128];
    snprintf(problem, sizeof problem, "no column '%.*s'", name.len < 64 ? (int)name.len : 64,
             name.data);
    return no_such_column(b, line, problem, cell, n, header);
}

static bool is_text(const table_plan *p, int column)
{
    for (size_t k = 0; k < p->n_text; k++)
        if (p->text[k] == column)
            return true;
    return false;
}

static stet_status plan_text(const data_builder *b, size_t line, const stet_str *cell, size_t n,
                             table_plan *p)
{
    const char *list = b->how->text;
    stet_str name;
    while (next_name(&list, &name)) {
        if (p->n_text == MAX_COLUMNS)
            return error_set(STET_EUSAGE, "more than %d text columns", MAX_COLUMNS);
        TRY(find_column(b, line, name, cell, n, p->header, &p->text[p->n_text]));
        p->n_text++;
    }
    for (size_t i = 0; p->header && !b->how->text && i < n; i++)
        if (is_usual_text_name(cell[i].data, cell[i].len))
            p->text[p->n_text++] = (int)i;
    return STET_OK;
}

static stet_status plan_label(const data_builder *b, size_t line, const stet_str *cell, size_t n,
                              table_plan *p)
{
    if (b->how->unlabelled)
        return STET_OK;
    if (b->how->label)
        return find_column(b, line, (stet_str){b->how->label, strlen(b->how->label)}, cell, n,
                           p->header, &p->label);
    for (const char *const *name = usual_label_names; p->header && *name; name++)
        for (size_t i = 0; i < n; i++)
            if (same_name(cell[i].data, cell[i].len, *name)) {
                p->label = (int)i;
                return STET_OK;
            }
    for (int i = 0; !p->header && i < (int)n; i++)
        if (!is_text(p, i)) {
            p->label = i;
            return STET_OK;
        }
    return no_such_column(b, line, "expected a label column; name it with --label", cell, n, p->header);
}

stet_status table_plan_make(const data_builder *b, size_t line, const stet_str *cell, size_t n,
                            table_plan *out)
{
    *out = (table_plan){.label = NO_COLUMN, .width = n, .header = has_header(b, cell, n)};
    TRY(plan_text(b, line, cell, n, out));
    TRY(plan_label(b, line, cell, n, out));
    const size_t others = n - (out->label != NO_COLUMN);
    if (out->n_text == 0 && (others == 0 || (out->header && others > 1)))
        return no_such_column(b, line, "expected a text column beside the label; name it with --text", cell, n, out->header);
    return STET_OK;
}

stet_status table_plan_row(const table_plan *p, data_builder *b, size_t line, const stet_str *cell,
                           size_t n)
{
    size_t need = p->label == NO_COLUMN ? 1 : (size_t)p->label + 1;
    for (size_t k = 0; k < p->n_text; k++)
        if ((size_t)p->text[k] >= need)
            need = (size_t)p->text[k] + 1;
    if (p->n_text == 0 && p->label == 0)
        need = 2; /* some text after the label */
    if (n < need)
        return builder_bad(b, line, "expected at least %zu columns, found %zu", need, n);
    const size_t parts = p->n_text ? p->n_text : n;
    for (size_t k = 0; k < parts; k++) {
        const int column = p->n_text ? p->text[k] : (int)k;
        if (column != p->label || p->n_text)
            TRY(builder_text(b, cell[column].data, cell[column].len));
    }
    const stet_str label = p->label == NO_COLUMN ? (stet_str){"", 0} : cell[p->label];
    return builder_row(b, line, label.data, label.len);
}
