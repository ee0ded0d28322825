/* report/sheets.c - tables that the caller made, as each kind of page shows them. */
#include "base/markup.h"
#include "report/report_impl.h"

static const char *cell_at(const stet_sheet *s, size_t row, size_t col)
{
    return s->cell[row * s->cols + col];
}

static void put_html_row(const stet_sheet *s, size_t row, markup *b)
{
    put(b, "<tr>");
    for (size_t j = 0; j < s->cols; j++)
        if (row == 0)
            put(b, "<th scope=\"col\">%s</th>", cell_at(s, 0, j));
        else if (j == 0)
            put(b, "<th scope=\"row\">%s</th>", cell_at(s, row, 0));
        else
            put(b, "<td data-label=\"%s\">%s</td>", cell_at(s, 0, j), cell_at(s, row, j));
    put(b, "</tr>\n");
}

void html_sheets(const report *r, markup *b)
{
    if (r->a->n_sheets == 0)
        return;
    put(b, "<section id=\"sheets\"><h2>Tables</h2>\n");
    for (size_t k = 0; k < r->a->n_sheets; k++) {
        const stet_sheet *s = &r->a->sheets[k];
        put(b, "<h3>%s</h3>\n", s->title);
        if (s->lead)
            put(b, "<p>%s</p>\n", s->lead);
        put(b, "<div class=\"scroll\"><table class=\"cards\"><thead>");
        for (size_t i = 0; i < s->rows; i++) {
            put_html_row(s, i, b);
            if (i == 0)
                put(b, "</thead><tbody>\n");
        }
        put(b, "</tbody></table></div>\n");
        if (s->note)
            put(b, "<p class=\"note\">%s</p>\n", s->note);
    }
    put(b, "</section>\n");
}

void markdown_sheets(const report *r, markup *b)
{
    for (size_t k = 0; k < r->a->n_sheets; k++) {
        const stet_sheet *s = &r->a->sheets[k];
        put(b, "\n## %s\n", s->title);
        if (s->lead)
            put(b, "\n%s\n", s->lead);
        put(b, "\n");
        for (size_t i = 0; i < s->rows; i++) {
            put(b, "|");
            for (size_t j = 0; j < s->cols; j++)
                put(b, " %s |", cell_at(s, i, j));
            put(b, "\n");
            if (i > 0)
                continue;
            put(b, "|");
            for (size_t j = 0; j < s->cols; j++)
                put(b, " --- |");
            put(b, "\n");
        }
        if (s->note)
            put(b, "\n%s\n", s->note);
    }
}

json_t *json_sheets(const report *r)
{
    json_t *all = json_array();
    for (size_t k = 0; k < r->a->n_sheets; k++) {
        const stet_sheet *s = &r->a->sheets[k];
        json_t *rows = json_array();
        for (size_t i = 0; i < s->rows; i++) {
            json_t *row = json_array();
            for (size_t j = 0; j < s->cols; j++)
                json_array_append_new(row, json_string(cell_at(s, i, j)));
            json_array_append_new(rows, row);
        }
        json_array_append_new(all, json_pack("{s:s, s:o}", "title", s->title, "rows", rows));
    }
    return all;
}
