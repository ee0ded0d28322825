/* report/markdown.c - the report as Markdown: tables and examples that read well as plain text. */
#include <math.h>
#include <string.h>

#include "base/markup.h"
#include "report/report_impl.h"

static void put_share(markup *b, share s)
{
    if (isfinite(s.value))
        put(b, " %.1f (%.1f to %.1f) |", 100 * s.value, 100 * s.lo, 100 * s.hi);
    else
        put(b, " |");
}

static void put_number(markup *b, double v)
{
    if (isfinite(v))
        put(b, " %g |", v);
    else
        put(b, " |");
}

/* ---- tables ------------------------------------------------------------------------------- */

static void put_notes(markup *b, const report *r, const summary *s)
{
    put(b, "\nShares in %%, with 95 %% intervals. ");
    for (size_t j = 0; j < s->n_cols; j++) {
        const json_t *o = NULL;
        for (size_t i = 0; i < r->n && !o; i++)
            o = s->cell[i][j];
        put(b, "%s", j ? "; " : "");
        put(b, "%s", s->col[j].label);
        put(b, ": %.0f texts", num_of(json_object_get(o, "data"), "measured"));
        if (*s->col[j].note)
            put(b, ", %s", s->col[j].note);
        put(b, ", seed %.0f", num_of(o, "seed"));
    }
    put(b, ".\n");
}

static void put_table(markup *b, const report *r, const summary *s)
{
    put(b, "\n## ");
    put(b, "%s", str_of(s->data, "name"));
    put(b, "\n\n| model |");
    for (size_t j = 0; j < s->n_cols; j++) {
        put(b, " ");
        put(b, "%s%s |", s->col[j].label,
            s->col[j].kind == MEASURE_SAMPLE ? ", attacked texts" : "");
    }
    put(b, "\n| --- |");
    for (size_t j = 0; j < s->n_cols; j++)
        put(b, " ---: |");
    put(b, "\n");
    for (size_t i = 0; i < r->n; i++) {
        put(b, "| ");
        put(b, "%s", r->run[i].name);
        put(b, " |");
        for (size_t j = 0; j < s->n_cols; j++)
            put_share(b, share_at(s, i, j));
        put(b, "\n");
    }
    put_notes(b, r, s);
    for (size_t i = 0; i < r->n; i++) {
        markup part = {.escape = b->escape};
        if (put_redrawn(r, s, i, &part)) {
            put(b, "\n");
            put_part(b, &part);
            put(b, "\n");
        }
        markup_deinit(&part);
    }
}

static void put_models(markup *b, const report *r)
{
    put(b, "\n## Models\n\n| model | recipe | training texts | epoch | rate | batch | seed |\n"
           "| --- | --- | ---: | ---: | ---: | ---: | ---: |\n");
    for (size_t i = 0; i < r->n; i++) {
        const json_t *t = json_object_get(r->run[i].config, "training");
        buf recipe = {0};
        run_folder_recipe(&r->run[i], &recipe);
        put(b, "| ");
        put(b, "%s", r->run[i].name);
        put(b, " | ");
        put_buf(b, &recipe);
        static const char *const shown[] = {"train_texts", "best_epoch", "rate", "batch", "seed"};
        put(b, " |");
        for (size_t k = 0; k < sizeof shown / sizeof *shown; k++)
            put_number(b, num_of(t, shown[k]));
        put(b, "\n");
    }
}

/* ---- examples ----------------------------------------------------------------------------- */

/* The text with ~~old~~ **new** at each change. */
static void put_marked(markup *b, const json_t *example)
{
    const json_t *text = json_object_get(example, "text"), *c;
    const char *t = json_string_value(text);
    const size_t len = json_string_length(text);
    size_t done = 0, k;
    if (!t)
        return;
    json_array_foreach(json_object_get(example, "changes"), k, c)
    {
        const size_t start = (size_t)json_integer_value(json_object_get(c, "start")),
                     end = (size_t)json_integer_value(json_object_get(c, "end"));
        if (start < done || end < start || end > len)
            continue;
        put_text(b, t + done, start - done);
        put(b, "~~");
        put_text(b, t + start, end - start);
        put(b, "~~ **");
        put(b, "%s", str_of(c, "to"));
        put(b, "**");
        done = end;
    }
    put_text(b, t + done, len - done);
}

static void put_examples(markup *b, const report *r, const summary *s)
{
    enum { EACH = 2 };
    for (size_t i = 0; i < r->n; i++)
        for (size_t j = 0; j < s->n_cols; j++) {
            const json_t *list = json_object_get(s->cell[i][j], "examples");
            for (size_t k = 0;
                 s->col[j].kind == MEASURE_ATTACK && k < json_array_size(list) && k < EACH; k++) {
                const json_t *e = json_array_get(list, k);
                put(b, "\n**");
                put(b, "%s", r->run[i].name);
                put(b, "**, ");
                put(b, "%s", s->col[j].label);
                put(b, ": ");
                put(b, "%s", str_of(e, "label"));
                put(b, " %.1f %% → %.1f %%\n\n> ", 100 * num_of(e, "before"),
                    100 * num_of(e, "after"));
                put_marked(b, e);
                put(b, "\n");
            }
        }
}

stet_status report_markdown(const report *r, buf *out)
{
    markup page = {.escape = escape_markdown}, *b = &page;
    buf lead = {0};
    report_lead(r, &lead);
    put(b, "# %s\n\n", title_of(r));
    put_buf(b, &lead);
    put(b, "\n");
    markdown_sheets(r, b);
    for (size_t k = 0; k < r->n_data; k++)
        put_table(b, r, &r->data[k]);
    if (r->n)
        put_models(b, r);
    if (r->n_data)
        put(b, "\n## Flipped texts\n");
    for (size_t k = 0; k < r->n_data; k++)
        put_examples(b, r, &r->data[k]);
    buf_deinit(out);
    *out = page.out;
    return buf_status(out);
}
