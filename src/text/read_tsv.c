/* text/read_tsv.c - label<TAB>text lines, and fastText's "__label__x text". */
#include "text/reader.h"

#include <string.h>

static size_t split_tabs(char *line, size_t len, stet_str *cell)
{
    size_t n = 0;
    for (char *s = line, *const end = line + len;; n++) {
        char *tab = n + 1 < MAX_COLUMNS ? memchr(s, '\t', (size_t)(end - s)) : NULL;
        char *stop = tab ? tab : end;
        cell[n] = (stet_str){s, (size_t)(stop - s)};
        if (!tab)
            return n + 1;
        s = tab + 1;
    }
}

/* Without labels and columns asked for, each line is a text, empty ones too. */
static stet_status read_plain_lines(data_builder *b, line_source *in)
{
    stet_status st = STET_OK;
    while (st == STET_OK && source_next(in, &st)) {
        st = builder_text(b, in->line, in->len);
        if (st == STET_OK)
            st = builder_row(b, source_line_number(in), "", 0);
    }
    return st;
}

stet_status read_tsv(data_builder *b, line_source *in)
{
    if (b->how->unlabelled && !b->how->text && b->how->header <= 0)
        return read_plain_lines(b, in);
    stet_status st = STET_OK;
    table_plan plan = {0};
    while (st == STET_OK && source_next(in, &st)) {
        if (in->len == 0)
            continue;
        stet_str cell[MAX_COLUMNS];
        const size_t n = split_tabs(in->line, in->len, cell), line = source_line_number(in);
        const bool first = plan.width == 0;
        if (first && n == 1 && !b->how->unlabelled && b->how->header != 1)
            st = builder_bad(b, line, "expected LABEL<TAB>TEXT, found no tab");
        else if (first)
            st = table_plan_make(b, line, cell, n, &plan);
        if (st == STET_OK && plan.width > 0 && !(first && plan.header))
            st = table_plan_row(&plan, b, line, cell, n);
    }
    return st;
}

stet_status read_fasttext(data_builder *b, line_source *in)
{
    static const char prefix[] = "__label__";
    const size_t prefix_n = sizeof prefix - 1;
    stet_status st = STET_OK;
    while (st == STET_OK && source_next(in, &st)) {
        const size_t line = source_line_number(in);
        const char *s = in->line, *const end = in->line + in->len;
        if (in->len == 0)
            continue;
        if (in->len < prefix_n || memcmp(s, prefix, prefix_n) != 0) {
            st = builder_bad(b, line, "expected the line to begin with __label__");
            continue;
        }
        const char *label = s + prefix_n;
        for (s = label; s < end && *s != ' ' && *s != '\t'; s++) {
        }
        const size_t label_n = (size_t)(s - label);
        while (s < end && (*s == ' ' || *s == '\t'))
            s++;
        if ((size_t)(end - s) >= prefix_n && memcmp(s, prefix, prefix_n) == 0) {
            st = builder_bad(b, line, "more than one label");
            continue;
        }
        st = builder_text(b, s, (size_t)(end - s));
        if (st == STET_OK)
            st = builder_row(b, line, label, label_n);
    }
    return st;
}
