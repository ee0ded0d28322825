/* report/html_page.c - the report as one HTML file: summary, charts, texts, settings. */
#include <math.h>

#include "page_css.h"
#include "page_js.h"
#include "report/html.h"

/* ---- the frame ---------------------------------------------------------------------------- */

/* Nothing may be loaded from anywhere, and nothing runs but the one script of this program: the
 * page says so itself, and a browser holds it to that. */
static void put_policy(const markup *css, markup *b)
{
    char style[CSP_HASH], script[CSP_HASH];
    csp_hash(css->out.data ? css->out.data : "", css->out.n, style);
    csp_hash(page_js, sizeof page_js - 1, script);
    put(b,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri "
        "'none'; form-action 'none'; img-src data:; style-src '%s'; script-src '%s'\">\n",
        style, script);
}

/* A link for every section that the page has. */
static void put_links(const char *body, markup *b)
{
    static const char *const section[][2] = {
        {"sheets", "Tables"},
        {"summary", "Summary"},     {"study", "Settings compared"},
        {"texts", "Flipped texts"}, {"proofs", "Proofs"},
        {"errors", "Errors"},       {"bounds", "Growth bounds"},
        {"training", "Training"},   {"measurements", "Measurements"},
        {"settings", "Settings"}};
    for (size_t i = 0; i < sizeof section / sizeof *section; i++) {
        char mark[64]; /* quotes in texts are escaped, so this cannot be one of theirs */
        snprintf(mark, sizeof mark, "<section id=\"%s\">", section[i][0]);
        if (body && strstr(body, mark))
            put(b, "<a href=\"#%s\">%s</a> ", section[i][0], section[i][1]);
    }
}

static void put_head(const report *r, const char *body, markup *b)
{
    markup css = {.escape = escape_html};
    put_trusted(&css, page_css, sizeof page_css - 1);
    canvas_theme(&css.out);
    put(b, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    put_policy(&css, b);
    put(b,
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<title>%s</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>",
        title_of(r));
    put_part(b, &css);
    markup_deinit(&css);
    put(b,
        "</style>\n</head>\n<body>\n<header>\n<div class=\"mark\">stet</div>\n<h1>%s</h1>\n"
        "<p class=\"lead\">",
        title_of(r));
    buf lead = {0};
    report_lead(r, &lead);
    put_buf(b, &lead);
    put(b, "</p>\n<nav aria-label=\"Sections\">");
    put_links(body, b);
    put(b, "</nav>\n<ul class=\"legend\">");
    for (size_t i = 0; i < r->n; i++) {
        put(b, "<li>");
        put_dot(b, i);
        put(b, "%s</li>", r->run[i].name);
    }
    put(b, "</ul>\n</header>\n<main>\n");
}

/* ---- summary ------------------------------------------------------------------------------ */

/* Certainly better than every other model: no interval of another reaches into its own. */
static bool is_best(const report *r, const summary *s, size_t run, size_t col)
{
    size_t others = 0;
    for (size_t i = 0; i < r->n; i++) {
        const share v = share_at(s, i, col);
        if (i == run || !isfinite(v.value))
            continue;
        others++;
        if (!share_above(share_at(s, run, col), v))
            return false;
    }
    return others > 0;
}

/* How many texts the column's figures are of; NAN: not the same for every model. */
static double texts_of(const report *r, const summary *s, size_t col)
{
    double n = NAN;
    for (size_t i = 0; i < r->n; i++) {
        const share v = share_at(s, i, col);
        if (!isfinite(v.value))
            continue;
        if (isfinite(n) && v.n != n)
            return NAN;
        n = v.n;
    }
    return n;
}

static void put_cell(const report *r, const summary *s, size_t run, size_t col, markup *b)
{
    const share v = share_at(s, run, col);
    if (!isfinite(v.value)) {
        put(b, "<td><small>not measured</small></td>");
        return;
    }
    put(b, "<td class=\"%s\" data-label=\"%s %s\" title=\"%.0f texts, seed %.0f\">%.1f",
        is_best(r, s, run, col) ? "best" : "", s->col[col].label,
        s->col[col].kind == MEASURE_ATTACK ? "" : s->col[col].note, v.n,
        num_of(s->cell[run][col], "seed"), 100 * v.value);
    if (isfinite(v.lo))
        put(b, "<small>%.1f–%.1f</small>", 100 * v.lo, 100 * v.hi);
    if (!isfinite(texts_of(r, s, col)))
        put(b, "<small>%.0f texts</small>", v.n);
    put_bar(b, "thin", v.value);
    put(b, "</td>");
}

static void put_model_cell(const report *r, size_t i, markup *b)
{
    buf recipe = {0};
    run_folder_recipe(&r->run[i], &recipe);
    put(b, "<th scope=\"row\">");
    put_dot(b, i);
    put(b, "%s", r->run[i].name);
    put(b, "<small>");
    put_buf(b, &recipe);
    put(b, "</small></th>");
}

static bool any_bounds(const report *r)
{
    bool any = false;
    for (size_t i = 0; i < r->n; i++)
        any |= r->run[i].has_gbm;
    return any;
}

/* Attacks on two models can be compared if both faced as many candidates. */
static void warn_candidates(const report *r, const summary *s, markup *b)
{
    for (size_t j = 0; j < s->n_cols; j++) {
        size_t least = SIZE_MAX, most = SIZE_MAX;
        for (size_t i = 0; i < r->n; i++) {
            const double c = num_of(s->cell[i][j], "candidates_mean");
            if (s->col[j].kind != MEASURE_ATTACK || !isfinite(c))
                continue;
            if (least == SIZE_MAX || c < num_of(s->cell[least][j], "candidates_mean"))
                least = i;
            if (most == SIZE_MAX || c > num_of(s->cell[most][j], "candidates_mean"))
                most = i;
        }
        if (least == SIZE_MAX)
            continue;
        const double lo = num_of(s->cell[least][j], "candidates_mean"),
                     hi = num_of(s->cell[most][j], "candidates_mean");
        if (hi <= 1.01 * lo)
            continue;
        put(b,
            "<p class=\"note warn\">%s faced %.2f candidates a word with %s and %.2f with %s: the "
            "two are not attacked equally. Train both with the same --synonyms, so that both "
            "know the same substitutes.</p>\n",
            s->col[j].label, lo, r->run[least].name, hi, r->run[most].name);
        return;
    }
}

static void put_caption(const report *r, const summary *s, markup *b)
{
    const json_t *attack = NULL;
    double fewest = INFINITY, most = 0;
    for (size_t i = 0; i < r->n; i++)
        for (size_t j = 0; j < s->n_cols; j++)
            if (s->cell[i][j] && s->col[j].kind != MEASURE_CLEAN) {
                const double n = share_at(s, i, j).n;
                attack = s->cell[i][j];
                fewest = fmin(fewest, n);
                most = fmax(most, n);
            }
    put(b,
        "<p class=\"note\">In %% of the texts, with 95 %% intervals (Wilson). A figure is bold "
        "if its interval lies above those of all other models. Data: %s, %.0f texts",
        str_of(s->data, "name"), num_of(s->data, "texts"));
    if (attack && fewest == most)
        put(b, "; attacked and certified: %.0f of them, the same for every model", most);
    else if (attack)
        put(b, "; attacked and certified: %.0f to %.0f of them", fewest, most);
    if (attack) {
        put(b, "; substitutes from %s", str_of(json_object_get(attack, "synonyms"), "name"));
        if (isfinite(num_of(attack, "candidates_mean")))
            put(b, ", %.1f for each word that has any", num_of(attack, "candidates_mean"));
    }
    put(b, ".</p>\n");
    warn_candidates(r, s, b);
}

static void put_summary(const report *r, const summary *s, markup *b)
{
    const bool bounds = any_bounds(r);
    put(b,
        "<div class=\"scroll\"><table class=\"cards\">\n<thead><tr><th scope=\"col\">model</th>");
    for (size_t j = 0; j < s->n_cols; j++) {
        put(b, "<th scope=\"col\">");
        put(b, "%s", s->col[j].label);
        put(b, "<small>");
        put(b, "%s", s->col[j].note);
        put(b, "</small>");
        if (isfinite(texts_of(r, s, j)))
            put(b, "<small>%.0f texts</small>", texts_of(r, s, j));
        put(b, "</th>");
    }
    if (bounds)
        put(b, "<th scope=\"col\">ΣM<small>growth bound</small></th>");
    put(b, "</tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < r->n; i++) {
        put(b, "<tr>");
        put_model_cell(r, i, b);
        for (size_t j = 0; j < s->n_cols; j++)
            put_cell(r, s, i, j, b);
        if (r->run[i].has_gbm)
            put(b, "<td data-label=\"ΣM\">%.4g</td>", r->run[i].gbm.sum);
        else if (bounds)
            put(b, "<td></td>");
        put(b, "</tr>\n");
    }
    put(b, "</tbody></table></div>\n");
    put_caption(r, s, b);
    for (size_t i = 0; i < r->n; i++) {
        markup part = {.escape = b->escape};
        if (put_redrawn(r, s, i, &part)) {
            put(b, "<p class=\"note\">");
            put_part(b, &part);
            put(b, "</p>\n");
        }
        markup_deinit(&part);
    }
}

static stet_status put_summaries(const report *r, markup *b)
{
    put(b, "<section id=\"summary\"><h2>Summary</h2>\n<p><em>Clean</em> is accuracy on unchanged "
           "texts. A column with an attack’s name is accuracy after that attack swapped words for "
           "substitutes. <em>Proved</em> is the share of texts whose correct answer no combination "
           "of substitutes can change: on those texts no attack can push accuracy below it.</p>\n");
    for (size_t k = 0; k < r->n_data; k++) {
        if (r->n_data > 1) {
            put(b, "<h3>");
            put(b, "%s", str_of(r->data[k].data, "name"));
            put(b, "</h3>\n");
        }
        put_summary(r, &r->data[k], b);
        TRY(html_comparison(r, &r->data[k], b));
    }
    if (r->stale)
        put(b,
            "<p class=\"note warn\">%zu results were left out: they belong to earlier "
            "weights of their model.</p>\n",
            r->stale);
    put(b, "</section>\n");
    return STET_OK;
}

/* ---- every measurement, every setting ----------------------------------------------------- */

static void put_measurement(const run_folder *run, const json_t *o, markup *b)
{
    static const char *const shown[][2] = {
        {"accuracy", "accuracy"},    {"clean", "clean"},
        {"aua", "under attack"},     {"certified", "proved"},
        {"undecided", "undecided"},  {"changed_mean", "words changed"},
        {"queries_mean", "queries"}, {"candidates_mean", "candidates"},
        {"gbm_sum", "\xce\xa3M"},    {"seconds", "seconds"}};
    const json_t *data = json_object_get(o, "data");
    put(b,
        "<tr><th scope=\"row\">%s <span class=\"mono\">%s</span></th><td data-label=\"data\">%s"
        "</td><td class=\"n\" data-label=\"texts\">",
        run->name, str_of(o, "file"), str_of(data, "name"));
    if (isfinite(num_of(data, "measured")))
        put(b, "%.0f", num_of(data, "measured"));
    put(b, "</td><td class=\"n\" data-label=\"seed\">");
    if (isfinite(num_of(o, "seed")))
        put(b, "%.0f", num_of(o, "seed"));
    put(b, "</td><td class=\"numbers\">");
    for (size_t k = 0; k < sizeof shown / sizeof *shown; k++) {
        const double v = num_of(o, shown[k][0]);
        if (isfinite(v))
            put(b, "<span>%s %.4g</span> ", shown[k][1], v);
    }
    if (!run_folder_current(run, o))
        put(b, "<span class=\"warn\">(earlier weights)</span>");
    put(b, "</td></tr>\n");
}

static void put_measurements(const report *r, markup *b)
{
    put(b, "<section id=\"measurements\"><h2>Measurements</h2>\n<div class=\"scroll\"><table "
           "class=\"plain cards\"><thead><tr><th>model and result</th><th>data</th>"
           "<th class=\"n\">texts</th><th class=\"n\">seed</th><th>figures</th></tr></thead>"
           "<tbody>\n");
    for (size_t i = 0; i < r->n; i++) {
        size_t k;
        const json_t *o;
        json_array_foreach(r->run[i].results, k, o) put_measurement(&r->run[i], o, b);
    }
    put(b, "</tbody></table></div>\n<p class=\"note\">The files lie in the folder <span "
           "class=\"mono\">results</span> of each model, with all settings.</p></section>\n");
}

static int add_text(const char *text, size_t n, void *b)
{
    buf_bytes(b, text, n);
    return 0;
}

static void put_value(const json_t *v, markup *b)
{
    buf text = {0};
    if (!json_is_string(v))
        json_dump_callback(v, add_text, &text,
                           JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
    put(b, "%s", json_is_string(v) ? json_string_value(v) : text.data ? text.data : "");
    buf_deinit(&text);
}

/* One column a model; a row for every key that any of them has. */
static void put_settings(const report *r, const char *part, markup *b)
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
        put(b, "<tr><th scope=\"row\">%s</th>", key);
        for (size_t i = 0; i < r->n; i++) {
            const json_t *o = part ? json_object_get(r->run[i].config, part) : r->run[i].config;
            put(b, "<td data-label=\"%s\">", r->run[i].name);
            if (json_object_get(o, key))
                put_value(json_object_get(o, key), b);
            put(b, "</td>");
        }
        put(b, "</tr>\n");
    }
    json_decref(keys);
}

static void put_all_settings(const report *r, markup *b)
{
    put(b, "<section id=\"settings\"><h2>Settings and seeds</h2>\n<details><summary>every setting "
           "of every model</summary><div class=\"scroll\"><table "
           "class=\"plain cards\"><thead><tr><th></th>");
    for (size_t i = 0; i < r->n; i++) {
        put(b, "<th scope=\"col\">");
        put_dot(b, i);
        put(b, "%s", r->run[i].name);
        put(b, "</th>");
    }
    put(b, "</tr></thead><tbody>\n<tr><th scope=\"row\">weights</th>");
    for (size_t i = 0; i < r->n; i++)
        put(b, "<td class=\"mono\" data-label=\"%s\">%s</td>", r->run[i].name,
            r->run[i].fingerprint);
    put(b, "</tr>\n");
    put_settings(r, NULL, b);
    put_settings(r, "settings", b);
    put_settings(r, "training", b);
    put(b, "</tbody></table></div></details></section>\n");
}

static stet_status put_body(const report *r, markup *b)
{
    html_sheets(r, b);
    if (r->n_data)
        TRY(put_summaries(r, b));
    TRY(html_study(r, b));
    html_flips(r, b);
    TRY(html_proofs(r, b));
    TRY(html_errors(r, b));
    TRY(html_bounds(r, b));
    TRY(html_training(r, b));
    put_measurements(r, b);
    put_all_settings(r, b);
    return markup_status(b);
}

stet_status report_html(const report *r, buf *out)
{
    markup body = {.escape = escape_html}, page = {.escape = escape_html};
    const stet_status st = put_body(r, &body);
    if (st == STET_OK) {
        put_head(r, body.out.data, &page);
        put_part(&page, &body);
        put(&page,
            "</main>\n<footer>Made by stet %s from the run folders’ own files. The page loads "
            "nothing from the network.</footer>\n<script>",
            STET_VERSION);
        put_trusted(&page, page_js, sizeof page_js - 1);
        put(&page, "</script>\n</body>\n</html>\n");
    }
    markup_deinit(&body);
    buf_deinit(out);
    *out = page.out;
    return st == STET_OK ? buf_status(out) : st;
}
