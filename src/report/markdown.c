/* report/markdown.c - the report as Markdown: tables and examples that read well as plain text. */
#include <math.h>
#include <string.h>

#include "report/report_impl.h"

/* Inside a table cell or a sentence: what Markdown or HTML would take for its own. */
static void put(buf *b, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strchr("\\`*_[]|~#", s[i]))
            buf_char(b, '\\');
        if (s[i] == '<')
            buf_str(b, "&lt;");
        else if (s[i] == '&')
            buf_str(b, "&amp;");
        else
            buf_char(b, s[i] == '\n' || s[i] == '\r' ? ' ' : s[i]);
    }
}

static void put_str(buf *b, const char *s)
{
    put(b, s, strlen(s));
}

static void put_share(buf *b, double share)
{
    if (isfinite(share))
        buf_printf(b, " %.1f |", 100 * share);
    else
        buf_str(b, " |");
}

/* ---- tables ------------------------------------------------------------------------------- */

static void put_notes(buf *b, const report *r, const summary *s)
{
    buf_str(b, "\nIn %; ");
    for (size_t j = 0; j < s->n_cols; j++) {
        const json_t *o = NULL;
        for (size_t i = 0; i < r->n && !o; i++)
            o = s->cell[i][j];
        buf_str(b, j ? "; " : "");
        put_str(b, s->col[j].label);
        buf_printf(b, ": %.0f texts", num_of(json_object_get(o, "data"), "measured"));
        if (*s->col[j].note)
            buf_printf(b, ", %s", s->col[j].note);
        buf_printf(b, ", seed %.0f", num_of(o, "seed"));
    }
    buf_str(b, ".\n");
}

static void put_table(buf *b, const report *r, const summary *s)
{
    buf_str(b, "\n## ");
    put_str(b, str_of(s->data, "name"));
    buf_str(b, "\n\n| model |");
    for (size_t j = 0; j < s->n_cols; j++) {
        buf_char(b, ' ');
        put_str(b, s->col[j].label);
        buf_str(b, " |");
    }
    buf_str(b, "\n| --- |");
    for (size_t j = 0; j < s->n_cols; j++)
        buf_str(b, " ---: |");
    buf_char(b, '\n');
    for (size_t i = 0; i < r->n; i++) {
        buf_str(b, "| ");
        put_str(b, r->run[i].name);
        buf_str(b, " |");
        for (size_t j = 0; j < s->n_cols; j++)
            put_share(b, s->cell[i][j] ? measured_share(s->cell[i][j]) : NAN);
        buf_char(b, '\n');
    }
    put_notes(b, r, s);
}

static void put_models(buf *b, const report *r)
{
    buf_str(b, "\n## Models\n\n| model | recipe | training texts | epoch | rate | batch | seed |\n"
               "| --- | --- | ---: | ---: | ---: | ---: | ---: |\n");
    for (size_t i = 0; i < r->n; i++) {
        const json_t *t = json_object_get(r->run[i].config, "training");
        buf recipe = {0};
        run_folder_recipe(&r->run[i], &recipe);
        buf_str(b, "| ");
        put_str(b, r->run[i].name);
        buf_str(b, " | ");
        put_str(b, recipe.data ? recipe.data : "");
        buf_printf(b, " | %.0f | %.0f | %g | %.0f | %.0f |\n", num_of(t, "train_texts"),
                   num_of(t, "best_epoch"), num_of(t, "rate"), num_of(t, "batch"),
                   num_of(t, "seed"));
        if (buf_status(&recipe) != STET_OK)
            b->status = buf_status(&recipe);
        buf_deinit(&recipe);
    }
}

/* ---- examples ----------------------------------------------------------------------------- */

/* The text with ~~old~~ **new** at each change. */
static void put_marked(buf *b, const json_t *example)
{
    const json_t *text = json_object_get(example, "text"), *c;
    const char *t = json_string_value(text);
    const size_t len = json_string_length(text);
    size_t done = 0, k;
    json_array_foreach(json_object_get(example, "changes"), k, c)
    {
        const size_t start = (size_t)json_integer_value(json_object_get(c, "start")),
                     end = (size_t)json_integer_value(json_object_get(c, "end"));
        if (start < done || end < start || end > len)
            continue;
        put(b, t + done, start - done);
        buf_str(b, "~~");
        put(b, t + start, end - start);
        buf_str(b, "~~ **");
        put_str(b, str_of(c, "to"));
        buf_str(b, "**");
        done = end;
    }
    if (t)
        put(b, t + done, len - done);
}

static void put_examples(buf *b, const report *r, const summary *s)
{
    enum { EACH = 2 };
    for (size_t i = 0; i < r->n; i++)
        for (size_t j = 0; j < s->n_cols; j++) {
            const json_t *list = json_object_get(s->cell[i][j], "examples");
            for (size_t k = 0;
                 s->col[j].kind == MEASURE_ATTACK && k < json_array_size(list) && k < EACH; k++) {
                const json_t *e = json_array_get(list, k);
                buf_str(b, "\n**");
                put_str(b, r->run[i].name);
                buf_str(b, "**, ");
                put_str(b, s->col[j].label);
                buf_str(b, ": ");
                put_str(b, str_of(e, "label"));
                buf_printf(b, " %.1f %% → %.1f %%\n\n> ", 100 * num_of(e, "before"),
                           100 * num_of(e, "after"));
                put_marked(b, e);
                buf_char(b, '\n');
            }
        }
}

stet_status report_markdown(const report *r, buf *b)
{
    buf_str(b, "# ");
    put_str(b, title_of(r));
    buf_str(b, "\n\n");
    report_lead(r, b);
    buf_char(b, '\n');
    for (size_t k = 0; k < r->n_data; k++)
        put_table(b, r, &r->data[k]);
    put_models(b, r);
    if (r->n_data)
        buf_str(b, "\n## Texts that turned\n");
    for (size_t k = 0; k < r->n_data; k++)
        put_examples(b, r, &r->data[k]);
    return buf_status(b);
}
