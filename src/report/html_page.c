/* report/html_page.c - the report as one HTML file: summary, charts, texts, settings. */
#include <math.h>

#include "page_css.h"
#include "page_js.h"
#include "report/html.h"

/* Nothing may be loaded from anywhere: the page says so itself, and a browser holds it to that. */
static const char policy[] =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/* A link for every section that the page has. */
static void put_links(const char *body, buf *b)
{
    static const char *const section[][2] = {
        {"summary", "Summary"},   {"texts", "Texts that turned"},
        {"proofs", "Proofs"},     {"bounds", "Growth bounds"},
        {"training", "Training"}, {"measurements", "Measurements"},
        {"settings", "Settings"}};
    for (size_t i = 0; i < sizeof section / sizeof *section; i++) {
        char mark[64]; /* quotes in texts are escaped, so this cannot be one of theirs */
        snprintf(mark, sizeof mark, "<section id=\"%s\">", section[i][0]);
        if (body && strstr(body, mark))
            buf_printf(b, "<a href=\"#%s\">%s</a> ", section[i][0], section[i][1]);
    }
}

static void put_head(const report *r, const char *body, buf *b)
{
    buf_printf(b,
               "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
               "<meta http-equiv=\"Content-Security-Policy\" content=\"%s\">\n"
               "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
               policy);
    esc(b, title_of(r));
    buf_str(b, "</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n");
    buf_bytes(b, page_css, sizeof page_css - 1);
    canvas_theme(b);
    buf_str(b, "\n</style>\n</head>\n<body>\n<header>\n<div class=\"mark\">stet</div>\n<h1>");
    esc(b, title_of(r));
    buf_str(b, "</h1>\n<p class=\"lead\">");
    buf lead = {0};
    report_lead(r, &lead);
    esc(b, lead.data ? lead.data : "");
    if (buf_status(&lead) != STET_OK)
        b->status = buf_status(&lead);
    buf_deinit(&lead);
    buf_str(b, "</p>\n<nav aria-label=\"Sections\">");
    put_links(body, b);
    buf_str(b, "</nav>\n<ul class=\"legend\">");
    for (size_t i = 0; i < r->n; i++) {
        buf_str(b, "<li>");
        put_dot(b, i);
        esc(b, r->run[i].name);
        buf_str(b, "</li>");
    }
    buf_str(b, "</ul>\n</header>\n<main>\n");
}

/* ---- summary ------------------------------------------------------------------------------ */

static bool is_best(const report *r, const summary *s, size_t run, size_t col)
{
    const double v = measured_share(s->cell[run][col]);
    size_t measured = 0;
    for (size_t i = 0; i < r->n; i++) {
        measured += s->cell[i][col] != NULL;
        if (s->cell[i][col] && measured_share(s->cell[i][col]) > v)
            return false;
    }
    return measured > 1;
}

static void put_cell(const report *r, const summary *s, size_t run, size_t col, buf *b)
{
    const json_t *o = s->cell[run][col];
    if (!o) {
        buf_str(b, "<td><small>not measured</small></td>");
        return;
    }
    const double share = 100 * measured_share(o);
    buf_printf(b,
               "<td%s title=\"%.0f texts, seed %.0f\">%.1f<span class=\"share\"><i "
               "style=\"width:%.1f%%\"></i></span></td>",
               is_best(r, s, run, col) ? " class=\"best\"" : "",
               num_of(json_object_get(o, "data"), "measured"), num_of(o, "seed"), share, share);
}

static void put_model_cell(const report *r, size_t i, buf *b)
{
    buf recipe = {0};
    run_folder_recipe(&r->run[i], &recipe);
    buf_str(b, "<th scope=\"row\">");
    put_dot(b, i);
    esc(b, r->run[i].name);
    buf_str(b, "<small>");
    esc(b, recipe.data ? recipe.data : "");
    buf_str(b, "</small></th>");
    if (buf_status(&recipe) != STET_OK)
        b->status = buf_status(&recipe);
    buf_deinit(&recipe);
}

static bool any_bounds(const report *r)
{
    bool any = false;
    for (size_t i = 0; i < r->n; i++)
        any |= r->run[i].has_gbm;
    return any;
}

static void put_caption(const report *r, const summary *s, buf *b)
{
    const json_t *attack = NULL;
    double fewest = INFINITY, most = 0;
    for (size_t i = 0; i < r->n; i++)
        for (size_t j = 0; j < s->n_cols; j++)
            if (s->cell[i][j] && s->col[j].kind != MEASURE_CLEAN) {
                const double n = num_of(json_object_get(s->cell[i][j], "data"), "measured");
                attack = s->cell[i][j];
                fewest = fmin(fewest, n);
                most = fmax(most, n);
            }
    buf_str(b, "<p class=\"note\">Shares in %, of ");
    esc(b, str_of(s->data, "name"));
    buf_printf(b, " (%.0f texts)", num_of(s->data, "texts"));
    if (attack && fewest == most)
        buf_printf(b, "; under attack and proofs: %.0f of them, the same for every model", most);
    else if (attack)
        buf_printf(b, "; under attack and proofs: %.0f to %.0f of them", fewest, most);
    if (attack) {
        buf_str(b, "; substitutes from ");
        esc(b, str_of(json_object_get(attack, "synonyms"), "name"));
        if (isfinite(num_of(attack, "candidates_mean")))
            buf_printf(b, ", %.1f for a word that has any", num_of(attack, "candidates_mean"));
    }
    buf_str(b, ". Point at a number for its sample.</p>\n");
}

static void put_summary(const report *r, const summary *s, buf *b)
{
    const bool bounds = any_bounds(r);
    buf_str(b, "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">model</th>");
    for (size_t j = 0; j < s->n_cols; j++) {
        buf_str(b, "<th scope=\"col\">");
        esc(b, s->col[j].label);
        buf_str(b, "<small>");
        esc(b, s->col[j].note);
        buf_str(b, "</small></th>");
    }
    buf_str(b, bounds
                   ? "<th scope=\"col\">ΣM<small>growth bound</small></th></tr></thead>\n<tbody>\n"
                   : "</tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < r->n; i++) {
        buf_str(b, "<tr>");
        put_model_cell(r, i, b);
        for (size_t j = 0; j < s->n_cols; j++)
            put_cell(r, s, i, j, b);
        if (r->run[i].has_gbm)
            buf_printf(b, "<td>%.4g</td>", r->run[i].gbm.sum);
        else if (bounds)
            buf_str(b, "<td></td>");
        buf_str(b, "</tr>\n");
    }
    buf_str(b, "</tbody></table></div>\n");
    put_caption(r, s, b);
}

static stet_status put_summaries(const report *r, buf *b)
{
    buf_str(b,
            "<section id=\"summary\"><h2>Summary</h2>\n<p>An attacker who may only swap words for "
            "their synonyms tries to turn each "
            "right answer. A column with an attack’s name says how many texts are still answered "
            "rightly afterwards; "
            "<em>proved</em>, for how many no combination of synonyms whatsoever can do it.</p>\n");
    for (size_t k = 0; k < r->n_data; k++) {
        if (r->n_data > 1) {
            buf_str(b, "<h3>");
            esc(b, str_of(r->data[k].data, "name"));
            buf_str(b, "</h3>\n");
        }
        put_summary(r, &r->data[k], b);
        TRY(html_comparison(r, &r->data[k], b));
    }
    if (r->stale)
        buf_printf(b,
                   "<p class=\"note warn\">%zu results were left out: they belong to earlier "
                   "weights of their model.</p>\n",
                   r->stale);
    buf_str(b, "</section>\n");
    return STET_OK;
}

/* ---- every measurement, every setting ----------------------------------------------------- */

static void put_measurement(const run_folder *run, const json_t *o, buf *b)
{
    static const char *const shown[][2] = {
        {"accuracy", "accuracy"},    {"clean", "clean"},
        {"aua", "under attack"},     {"certified", "proved"},
        {"undecided", "undecided"},  {"changed_mean", "words changed"},
        {"queries_mean", "queries"}, {"candidates_mean", "candidates"},
        {"gbm_sum", "\xce\xa3M"},    {"seconds", "seconds"}};
    const json_t *data = json_object_get(o, "data");
    buf_str(b, "<tr><td>");
    esc(b, run->name);
    buf_str(b, "</td><td class=\"mono\">");
    esc(b, str_of(o, "file"));
    buf_str(b, "</td><td>");
    esc(b, str_of(data, "name"));
    buf_str(b, "</td><td class=\"n\">");
    if (isfinite(num_of(data, "measured")))
        buf_printf(b, "%.0f", num_of(data, "measured"));
    buf_str(b, "</td><td class=\"n\">");
    if (isfinite(num_of(o, "seed")))
        buf_printf(b, "%.0f", num_of(o, "seed"));
    buf_str(b, "</td><td>");
    bool first = true;
    for (size_t k = 0; k < sizeof shown / sizeof *shown; k++) {
        const double v = num_of(o, shown[k][0]);
        if (!isfinite(v))
            continue;
        buf_printf(b, "%s%s %.4g", first ? "" : ", ", shown[k][1], v);
        first = false;
    }
    buf_str(b, run_folder_current(run, o)
                   ? "</td></tr>\n"
                   : " <span class=\"warn\">(earlier weights)</span></td></tr>\n");
}

static void put_measurements(const report *r, buf *b)
{
    buf_str(b, "<section id=\"measurements\"><h2>Measurements</h2>\n<div class=\"scroll\"><table "
               "class=\"plain\"><thead><tr><th>model</th>"
               "<th>result</th><th>data</th><th class=\"n\">texts</th><th "
               "class=\"n\">seed</th><th>numbers</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < r->n; i++) {
        size_t k;
        const json_t *o;
        json_array_foreach(r->run[i].results, k, o) put_measurement(&r->run[i], o, b);
    }
    buf_str(b, "</tbody></table></div>\n<p class=\"note\">The files are in the folder <span "
               "class=\"mono\">results</span> of each model, with all settings.</p></section>\n");
}

static int add_text(const char *text, size_t n, void *b)
{
    buf_bytes(b, text, n);
    return 0;
}

static void put_value(const json_t *v, buf *b)
{
    buf text = {0};
    if (!json_is_string(v))
        json_dump_callback(v, add_text, &text,
                           JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
    esc(b, json_is_string(v) ? json_string_value(v) : text.data ? text.data : "");
    buf_deinit(&text);
}

/* One column a model; a row for every key that any of them has. */
static void put_settings(const report *r, const char *part, buf *b)
{
    json_t *keys = json_object();
    for (size_t i = 0; i < r->n; i++)
        json_object_update_missing(keys, part ? json_object_get(r->run[i].config, part)
                                              : r->run[i].config);
    const char *key;
    json_t *any;
    json_object_foreach(keys, key, any)
    {
        if (!part && (strcmp(key, "settings") == 0 || strcmp(key, "training") == 0 ||
                      strcmp(key, "format") == 0))
            continue;
        buf_str(b, "<tr><td>");
        esc(b, key);
        buf_str(b, "</td>");
        for (size_t i = 0; i < r->n; i++) {
            const json_t *o = part ? json_object_get(r->run[i].config, part) : r->run[i].config;
            buf_str(b, "<td>");
            if (json_object_get(o, key))
                put_value(json_object_get(o, key), b);
            buf_str(b, "</td>");
        }
        buf_str(b, "</tr>\n");
    }
    json_decref(keys);
}

static void put_all_settings(const report *r, buf *b)
{
    buf_str(b, "<section id=\"settings\"><h2>Settings and seeds</h2>\n<div class=\"scroll\"><table "
               "class=\"plain\"><thead><tr><th></th>");
    for (size_t i = 0; i < r->n; i++) {
        buf_str(b, "<th scope=\"col\">");
        put_dot(b, i);
        esc(b, r->run[i].name);
        buf_str(b, "</th>");
    }
    buf_str(b, "</tr></thead><tbody>\n<tr><td>weights</td>");
    for (size_t i = 0; i < r->n; i++)
        buf_printf(b, "<td class=\"mono\">%s</td>", r->run[i].fingerprint);
    buf_str(b, "</tr>\n");
    put_settings(r, NULL, b);
    put_settings(r, "settings", b);
    put_settings(r, "training", b);
    buf_str(b, "</tbody></table></div></section>\n");
}

static stet_status put_body(const report *r, buf *b)
{
    if (r->n_data)
        TRY(put_summaries(r, b));
    html_examples(r, b);
    TRY(html_certificates(r, b));
    TRY(html_bounds(r, b));
    TRY(html_training(r, b));
    put_measurements(r, b);
    put_all_settings(r, b);
    return buf_status(b);
}

stet_status report_html(const report *r, buf *b)
{
    buf body = {0};
    const stet_status st = put_body(r, &body);
    if (st == STET_OK) {
        put_head(r, body.data, b);
        buf_bytes(b, body.data, body.n);
        buf_printf(b,
                   "</main>\n<footer>Made by stet %s from the run folders’ own files; nothing on "
                   "this page comes from "
                   "the network.</footer>\n<script>\n",
                   STET_VERSION);
        buf_bytes(b, page_js, sizeof page_js - 1);
        buf_str(b, "</script>\n</body>\n</html>\n");
    }
    buf_deinit(&body);
    return st == STET_OK ? buf_status(b) : st;
}
