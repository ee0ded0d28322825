/* cli/reproduce_tables.c - what the runs of a reproduction came to: tables for every kind of page,
 * and the same as JSON. A figure is the median over the seeds; its interval is what so many texts
 * leave open (Wilson, 95 %). */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/reproduce.h"
#include "stet/paper.h"
#include "stet/plot.h"
#include "stet/results.h"

/* ---- sheets ------------------------------------------------------------------------------- */

static repro_sheet *sheet_new(reproduction *r, const char *title, size_t cols)
{
    repro_sheet *all = realloc(r->sheet, (r->n_sheets + 1) * sizeof *all);
    if (!all)
        cli_no_memory();
    r->sheet = all;
    repro_sheet *t = &all[r->n_sheets++];
    *t = (repro_sheet){.s.cols = cols};
    snprintf(t->title, sizeof t->title, "%s", title);
    return t;
}

__attribute__((format(printf, 2, 3))) static void put(repro_sheet *t, const char *fmt, ...)
{
    char text[4096];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 64;
        t->cell = realloc(t->cell, t->cap * sizeof *t->cell);
    }
    if (!t->cell || !(t->cell[t->n++] = strdup(text)))
        cli_no_memory();
}

static json_t *row_new(reproduction *r, const char *what, const char *model)
{
    json_t *o = json_pack("{s:s, s:s}", "what", what, "model", model);
    json_array_append_new(r->rows, o);
    return o;
}

static json_t *number_or_null(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static double number_at(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

/* ---- figures over seeds ------------------------------------------------------------------- */

typedef struct figure {
    double value[REPRO_MOST]; /* of each seed that is done */
    size_t seeds;
    double median, texts, lo, hi; /* NAN: not measured */
} figure;

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const double *v, size_t n)
{
    double sorted[REPRO_MOST * REPRO_ROUNDS];
    memcpy(sorted, v, n * sizeof *v);
    qsort(sorted, n, sizeof *sorted, ascending);
    return n == 0 ? NAN : 0.5 * (sorted[(n - 1) / 2] + sorted[n / 2]);
}

static void figure_add(figure *f, const json_t *record, const char *key)
{
    const double v = number_at(record, key), n = number_at(record, "n");
    if (isfinite(v) && f->seeds < REPRO_MOST) {
        f->value[f->seeds++] = v;
        f->texts = n;
    }
}

static void figure_end(figure *f)
{
    f->median = median_of(f->value, f->seeds);
    f->lo = f->hi = NAN;
    if (f->seeds && f->texts > 0)
        stet_interval(f->median, f->texts, &f->lo, &f->hi);
}

static void put_figure(repro_sheet *t, const figure *f)
{
    if (!isfinite(f->median))
        put(t, "-");
    else if (!isfinite(f->lo))
        put(t, "%.1f", 100 * f->median);
    else
        put(t, "%.1f ±%.1f", 100 * f->median, 100 * fmax(f->hi - f->median, f->median - f->lo));
}

/* An empty cell where there is no number. */
static void put_number(repro_sheet *t, int places, double v)
{
    if (isfinite(v))
        put(t, "%.*f", places, v);
    else
        put(t, "%s", "");
}

static json_t *figure_json(const figure *f, double printed)
{
    json_t *values = json_array();
    for (size_t i = 0; i < f->seeds; i++)
        json_array_append_new(values, json_real(f->value[i]));
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "median", number_or_null(f->median), "lo",
                     number_or_null(f->lo), "hi", number_or_null(f->hi), "values", values, "texts",
                     number_or_null(f->seeds ? f->texts : NAN), "printed",
                     number_or_null(printed / 100));
}

/* ---- measurements of a run ---------------------------------------------------------------- */

typedef struct place { /* a row of a table */
    const char *model, *row, *beta;
} place;

static const cli_cell *run_at(const reproduction *r, const place *p, size_t seed)
{
    char dir[REPRO_PATH];
    repro_run_dir(r, p->model, p->row, p->beta, r->seeds.v[seed], dir);
    return repro_find(&r->runs, dir);
}

/* `measure`: "clean", "certified", "likely" or an attack. */
static const json_t *record_of(const cli_cell *x, const repro_setting *by, const char *measure)
{
    char name[96];
    if (strcmp(measure, "clean") == 0)
        return cell_record(x, "eval", NULL);
    if (strcmp(measure, "certified") == 0 || strcmp(measure, "likely") == 0)
        return cell_record(x, "certify-auto", by->sets);
    snprintf(name, sizeof name, "attack-%s-%s", measure, by->profile);
    return cell_record(x, name, by->sets);
}

static figure measured(const reproduction *r, const place *p, const repro_setting *by,
                       const char *measure)
{
    const char *key = strcmp(measure, "clean") == 0       ? "accuracy"
                      : strcmp(measure, "certified") == 0 ? "certified"
                      : strcmp(measure, "likely") == 0    ? "likely"
                                                          : "aua";
    figure f = {.seeds = 0};
    for (size_t i = 0; i < r->seeds.n; i++) {
        const cli_cell *x = run_at(r, p, i);
        if (x)
            figure_add(&f, record_of(x, by, measure), key);
    }
    figure_end(&f);
    return f;
}

/* What is left of an attack on a model that draws, asked again with other draws. */
static figure redrawn(const reproduction *r, const place *p, const repro_setting *by,
                      const char *attack)
{
    figure f = {.seeds = 0};
    for (size_t i = 0; i < r->seeds.n; i++) {
        const cli_cell *x = run_at(r, p, i);
        const json_t *o = x ? record_of(x, by, attack) : NULL;
        const double aua = number_at(json_object_get(o, "redrawn"), "aua");
        if (isfinite(aua)) {
            f.value[f.seeds++] = aua;
            f.texts = number_at(o, "n");
        }
    }
    figure_end(&f);
    return f;
}

/* How much the sets let an attacker do: words of a text that can change, substitutes of each. */
static bool freedom(const reproduction *r, const place *p, const repro_setting *by,
                    const repro_list *attacks, double *words, double *subst)
{
    for (size_t i = 0; i < r->seeds.n; i++)
        for (size_t k = 0; k < attacks->n; k++) {
            const cli_cell *x = run_at(r, p, i);
            const json_t *o = x ? record_of(x, by, attacks->v[k]) : NULL;
            if (o) {
                *words = number_at(o, "attackable_mean");
                *subst = number_at(o, "candidates_mean");
                return true;
            }
        }
    return false;
}

/* ---- tables of accuracy ------------------------------------------------------------------- */

static void put_heading(repro_sheet *t, const char *first, const repro_list *attacks, bool certify)
{
    put(t, "%s", first);
    put(t, "seeds");
    put(t, "sets");
    put(t, "words x subst.");
    put(t, "clean");
    for (size_t i = 0; i < attacks->n; i++)
        put(t, "%s", attacks->v[i]);
    if (certify)
        put(t, "certified");
}

static void put_certified(repro_sheet *t, const figure *proved, const figure *likely)
{
    if (likely->seeds) /* votes prove nothing */
        put(t, "likely %.1f", 100 * likely->median);
    else
        put_figure(t, proved);
}

/* Of how many seeds the figures of a row are: "3", or "1-3" where some are still to come. */
static void put_seeds(repro_sheet *t, const figure *f, size_t n)
{
    size_t least = SIZE_MAX, most = 0;
    for (size_t i = 0; i < n; i++) {
        least = f[i].seeds && f[i].seeds < least ? f[i].seeds : least;
        most = f[i].seeds > most ? f[i].seeds : most;
    }
    if (most == 0)
        put(t, "-");
    else if (least == most)
        put(t, "%zu", most);
    else
        put(t, "%zu-%zu", least, most);
}

static void put_row(reproduction *r, repro_sheet *t, const char *what, const place *p,
                    const char *label, size_t setting, const repro_list *attacks, bool certify)
{
    const repro_setting *by = &r->setting[setting];
    double words = NAN, subst = NAN;
    json_t *o = row_new(r, what, p->model), *measures = json_object();
    figure f[REPRO_MOST + 2], likely = {.seeds = 0};
    size_t n = 0;
    for (size_t k = 0; k <= attacks->n; k++)
        f[n++] = measured(r, p, by, k ? attacks->v[k - 1] : "clean");
    if (certify) {
        f[n++] = measured(r, p, by, "certified");
        likely = measured(r, p, by, "likely");
    }
    put(t, "%s", setting == 0 ? label : "");
    put_seeds(t, f, n);
    put(t, "%s", by->label);
    if (freedom(r, p, by, attacks, &words, &subst))
        put(t, "%.1f x %.2f", words, subst);
    else
        put(t, "-");
    for (size_t k = 0; k <= attacks->n; k++) {
        const char *measure = k ? attacks->v[k - 1] : "clean";
        const double printed = /* of one weight only */
            p->beta ? NAN : stet_paper_accuracy(r->corpus, p->model, p->row, measure);
        put_figure(t, &f[k]);
        json_object_set_new(measures, measure, figure_json(&f[k], printed));
    }
    if (certify) {
        put_certified(t, &f[n - 1], &likely);
        json_object_set_new(measures, "certified", figure_json(&f[n - 1], NAN));
        if (likely.seeds)
            json_object_set_new(measures, "likely", figure_json(&likely, NAN));
    }
    json_object_update_new(
        o, json_pack("{s:s, s:o, s:s, s:s, s:o, s:o, s:s, s:o}", "defense", p->row, "beta",
                     p->beta ? json_real(atof(p->beta)) : json_null(), "sets", by->name, "profile",
                     by->profile, "attackable_mean", number_or_null(words), "candidates_mean",
                     number_or_null(subst), "printed_corpus", r->corpus, "measures", measures));
}

/* The same row with other draws; nothing where the model draws nothing. */
static void put_redrawn_row(reproduction *r, repro_sheet *t, const place *p, size_t setting,
                            const repro_list *attacks, bool certify)
{
    figure f[REPRO_MOST];
    json_t *all = json_object();
    bool any = false;
    for (size_t k = 0; k < attacks->n; k++) {
        f[k] = redrawn(r, p, &r->setting[setting], attacks->v[k]);
        any |= f[k].seeds > 0;
        json_object_set_new(all, attacks->v[k], figure_json(&f[k], NAN));
    }
    if (!any) {
        json_decref(all);
        return;
    }
    put(t, "%s", "");
    put_seeds(t, f, attacks->n);
    put(t, "other draws");
    put(t, "%s", "");
    put(t, "%s", "");
    for (size_t k = 0; k < attacks->n; k++)
        put_figure(t, &f[k]);
    if (certify)
        put(t, "%s", "");
    json_object_set_new(json_array_get(r->rows, json_array_size(r->rows) - 1), "redrawn", all);
}

/* The paper's own figures, where it has any. */
static void put_paper_row(reproduction *r, repro_sheet *t, const place *p,
                          const repro_list *attacks, bool certify)
{
    bool any = isfinite(stet_paper_accuracy(r->corpus, p->model, p->row, "clean"));
    for (size_t k = 0; k < attacks->n; k++)
        any |= isfinite(stet_paper_accuracy(r->corpus, p->model, p->row, attacks->v[k]));
    if (!any)
        return;
    put(t, "%s", "");
    put(t, "%s", "");
    put(t, "paper prints");
    put(t, "%s", "");
    put_number(t, 1, stet_paper_accuracy(r->corpus, p->model, p->row, "clean"));
    for (size_t k = 0; k < attacks->n; k++)
        put_number(t, 1, stet_paper_accuracy(r->corpus, p->model, p->row, attacks->v[k]));
    if (certify)
        put(t, "%s", "");
}

static void note_accuracy(const reproduction *r, bool bert, repro_sheet *t)
{
    char texts[64];
    snprintf(texts, sizeof texts, r->limit ? "%lld test texts" : "all test texts",
             (long long)r->limit);
    snprintf(
        t->note, sizeof t->note,
        "In %%: clean on all test texts, the rest on %s%s; the median of as many seeds as the row "
        "says, and the longer side of the 95 %% interval that so many texts leave. full: the given substitution "
        "sets, attacks "
        "as published. paper's: %s, attacks as the "
        "paper's code has them. words x subst.: words of a text that can change, and "
        "substitutes of each. other draws: the model is asked again about the texts as the attack "
        "left them, with draws that the attack did not see. paper prints: the paper's own figures for %s.",
        texts, bert ? " (SAFER, RanMASK, Text-CRS and DNE: everything on a quarter of them)" : "",
        r->cfg->paper_synonyms ? "the sets of --paper-synonyms"
                               : "eight neighbours at a distance below 0.2",
        strcmp(r->corpus, "imdb") == 0 ? "IMDB" : "Yahoo! Answers");
}

void show_accuracy(reproduction *r, const char *what, const char *model, const repro_list *rows)
{
    const bool certify = r->cfg->certify;
    char title[160];
    snprintf(title, sizeof title, "%s, %s: accuracy, clean and under attack", what, model);
    repro_sheet *t = sheet_new(r, title, 5 + r->attacks.n + certify);
    put_heading(t, "defence", &r->attacks, certify);
    for (size_t i = 0; i < rows->n; i++) {
        const place p = {model, rows->v[i], NULL};
        if (!repro_row_is_for(rows->v[i], model))
            continue;
        for (size_t k = 0; k < REPRO_SETTINGS; k++) {
            put_row(r, t, what, &p, repro_row_find(rows->v[i])->label, k, &r->attacks, certify);
            put_redrawn_row(r, t, &p, k, &r->attacks, certify);
        }
        put_paper_row(r, t, &p, &r->attacks, certify);
    }
    note_accuracy(r, repro_kind(model).reads_itself, t);
}

/* ---- beta --------------------------------------------------------------------------------- */

static repro_list first_of(const repro_list *l)
{
    return (repro_list){.v = {l->v[0]}, .n = l->n > 0};
}

static void plot_beta(const reproduction *r, const char *model, const char *attack)
{
    stet_plot *plot;
    char path[REPRO_PATH + 32];
    snprintf(path, sizeof path, "%s/beta.svg", r->cfg->out);
    if (stet_plot_new(&(stet_plot_options){.title = "Accuracy over beta",
                                           .x_label = "beta",
                                           .y_label = "accuracy (%)",
                                           .x_names = r->betas.v,
                                           .n_x_names = r->betas.n},
                      &plot) != STET_OK)
        return;
    for (size_t line = 0; line <= REPRO_SETTINGS; line++) {
        double x[REPRO_MOST], y[REPRO_MOST], half[REPRO_MOST];
        char name[96] = "clean";
        const repro_setting *by = &r->setting[line ? line - 1 : 0];
        if (line)
            snprintf(name, sizeof name, "%s, %s sets", attack, by->label);
        for (size_t i = 0; i < r->betas.n; i++) {
            const place p = {model, "gbm", r->betas.v[i]};
            const figure f = measured(r, &p, by, line ? attack : "clean");
            x[i] = (double)i;
            y[i] = 100 * f.median;
            half[i] = isfinite(f.lo) ? 50 * (f.hi - f.lo) : 0;
        }
        stet_plot_line(plot, name, x, y, half, r->betas.n);
    }
    if (stet_plot_save(plot, path) != STET_OK)
        cli_note("warning: %s", stet_last_error());
    stet_plot_free(plot);
}

void show_beta(reproduction *r)
{
    const char *model = r->models.v[0];
    const repro_list attacks = first_of(&r->attacks);
    char title[160];
    snprintf(title, sizeof title, "beta, %s: accuracy against the weight of the growth bound",
             model);
    repro_sheet *t = sheet_new(r, title, 5 + attacks.n);
    put_heading(t, "beta", &attacks, false);
    for (size_t i = 0; i < r->betas.n; i++) {
        const place p = {model, "gbm", r->betas.v[i]};
        for (size_t k = 0; k < REPRO_SETTINGS; k++)
            put_row(r, t, "beta", &p, r->betas.v[i], k, &attacks, false);
    }
    note_accuracy(r, false, t);
    plot_beta(r, model, attacks.v[0]);
}

/* ---- time --------------------------------------------------------------------------------- */

static double epoch_seconds(const reproduction *r, const repro_clock *of)
{
    const cli_cell *x = repro_timed(r, of);
    return x ? number_at(cell_record(x, "time.json", NULL), "epoch_seconds") : NAN;
}

/* Medians over seeds and rounds: the seconds of an epoch, as a multiple of the standard row of the same
 * round, and of standard training with the row's sizes. */
enum { SECONDS, OF_STANDARD, OF_SAME, CLOCKED };
static void clocked(const reproduction *r, const char *model, const char *row, double out[CLOCKED])
{
    double v[CLOCKED][REPRO_MOST * REPRO_ROUNDS];
    size_t n[CLOCKED] = {0};
    for (size_t i = 0; i < r->seeds.n * r->rounds; i++) {
        const char *seed = r->seeds.v[i / r->rounds];
        const size_t round = i % r->rounds;
        const double s = epoch_seconds(r, &(repro_clock){model, row, seed, round, false});
        const double x[CLOCKED] = {
            s, s / epoch_seconds(r, &(repro_clock){model, "standard", seed, round, false}),
            s / epoch_seconds(r, &(repro_clock){model, row, seed, round, true})};
        for (size_t k = 0; k < CLOCKED; k++)
            if (isfinite(x[k]))
                v[k][n[k]++] = x[k];
    }
    for (size_t k = 0; k < CLOCKED; k++)
        out[k] = median_of(v[k], n[k]);
}

static void put_seconds(repro_sheet *t, double s)
{
    put_number(t, s < 10 ? 2 : 0, s);
}

void show_time(reproduction *r)
{
    for (size_t m = 0; m < r->models.n; m++) {
        const char *model = r->models.v[m];
        char title[160];
        snprintf(title, sizeof title, "time, %s: an epoch of training", model);
        repro_sheet *t = sheet_new(r, title, 5);
        put(t, "defence");
        put(t, "seconds");
        put(t, "of standard");
        put(t, "at its sizes");
        put(t, "paper prints, A100");
        for (size_t i = 0; i < r->defenses.n; i++) {
            const char *row = r->defenses.v[i];
            if (!repro_row_is_for(row, model))
                continue;
            const double paper = stet_paper_seconds(model, row);
            double x[CLOCKED];
            clocked(r, model, row, x);
            json_object_update_new(row_new(r, "time", model),
                                   json_pack("{s:s, s:o, s:o, s:o, s:o}", "defense", row,
                                             "epoch_seconds", number_or_null(x[SECONDS]),
                                             "of_standard", number_or_null(x[OF_STANDARD]),
                                             "of_standard_at_its_sizes", number_or_null(x[OF_SAME]),
                                             "printed", number_or_null(paper)));
            put(t, "%s", repro_row_find(row)->label);
            put_seconds(t, x[SECONDS]);
            put_number(t, 2, x[OF_STANDARD]);
            put_number(t, 2, x[OF_SAME]);
            put_seconds(t, paper);
        }
        snprintf(
            t->note, sizeof t->note,
            "Seconds on the clock, from the first %lld steps of training, one run at a time; the "
            "median of %zu rounds through the rows, for each seed that is done. of standard: "
            "against the row Standard of the same round; at its sizes: against standard training "
            "with the sizes of model, batch and texts that the row has. paper prints: an epoch of "
            "IMDB on an A100.",
            (long long)r->steps, r->rounds);
    }
}

/* ---- growth bounds ------------------------------------------------------------------------ */

static const char *const bounded[] = {"standard", "gbm"};
enum { BOUNDED = 2 };

static const json_t *inspected(const reproduction *r, const char *model, size_t k)
{
    const place p = {model, bounded[k], NULL};
    const cli_cell *x = run_at(r, &p, 0);
    return x ? cell_record(x, "inspect", NULL) : NULL;
}

void show_growth(reproduction *r)
{
    repro_sheet *t = sheet_new(r, "heatmap: the growth bound matrix M", 5);
    static const char *const head[] = {"model", "defence", "sum of M", "paper prints", "picture"};
    for (size_t i = 0; i < t->s.cols; i++)
        put(t, "%s", head[i]);
    for (size_t m = 0; m < r->models.n; m++)
        for (size_t k = 0; k < BOUNDED; k++) {
            const char *model = r->models.v[m];
            const double sum = number_at(inspected(r, model, k), "gbm_sum"),
                         paper = stet_paper_growth(model, bounded[k]);
            char dir[REPRO_PATH];
            repro_figure_dir(r, model, dir);
            json_object_update_new(row_new(r, "heatmap", model),
                                   json_pack("{s:s, s:o, s:o}", "defense", bounded[k], "gbm_sum",
                                             number_or_null(sum), "printed",
                                             number_or_null(paper)));
            put(t, "%s", k ? "" : model);
            put(t, "%s", repro_row_find(bounded[k])->label);
            put_number(t, 0, sum);
            put_number(t, 0, paper);
            put(t, "%s/%s.svg", dir, k ? "heat2" : "heat");
        }
    snprintf(t->note, sizeof t->note,
             "Of the first seed. The pictures have the same colours, on a logarithmic scale.");
}

void show_entries(reproduction *r)
{
    repro_sheet *t = sheet_new(r, "distribution: entries of M that are not zero", 7);
    static const char *const head[] = {"model", "defence", "median", "p90",
                                       "p99",   "largest", "picture"};
    for (size_t i = 0; i < t->s.cols; i++)
        put(t, "%s", head[i]);
    for (size_t m = 0; m < r->models.n; m++)
        for (size_t k = 0; k < BOUNDED; k++) {
            const char *model = r->models.v[m];
            const json_t *entries = json_object_get(inspected(r, model, k), "entries");
            char dir[REPRO_PATH];
            repro_figure_dir(r, model, dir);
            json_object_update_new(
                row_new(r, "distribution", model),
                json_pack("{s:s, s:O?}", "defense", bounded[k], "entries", entries));
            put(t, "%s", k ? "" : model);
            put(t, "%s", repro_row_find(bounded[k])->label);
            for (size_t i = 2; i < 6; i++)
                put(t, "%.3g", number_at(entries, head[i]));
            put(t, "%s%s", k ? "" : dir, k ? "" : "/entries.svg");
        }
    snprintf(t->note, sizeof t->note,
             "Of the first seed; p90: nine tenths of the entries are below.");
}

/* ---- examples ----------------------------------------------------------------------------- */

enum { EXAMPLES = 2 }; /* of a model and a defence */

/* "one [old -> new] word" of a flipped text, cut down to what is near its changes. */
static void put_marked(repro_sheet *t, const json_t *flip)
{
    const json_t *text = json_object_get(flip, "text"), *c;
    const char *s = json_string_value(text);
    const size_t len = json_string_length(text);
    char out[4096];
    size_t at = 0, done = 0, k;
    json_array_foreach(json_object_get(flip, "changes"), k, c)
    {
        const size_t start = (size_t)json_integer_value(json_object_get(c, "start")),
                     end = (size_t)json_integer_value(json_object_get(c, "end"));
        const char *to = json_string_value(json_object_get(c, "to"));
        if (!s || !to || start < done || end < start || end > len || at > sizeof out / 2)
            continue;
        at += (size_t)snprintf(out + at, sizeof out - at, "%.*s[%.*s -> %s]", (int)(start - done),
                               s + done, (int)(end - start), s + start, to);
        at = at < sizeof out ? at : sizeof out - 1;
        done = end;
    }
    if (s && at < sizeof out - 1)
        snprintf(out + at, sizeof out - at, "%s", s + done);
    put(t, "%s", s ? out : "");
}

void show_examples(reproduction *r)
{
    repro_sheet *t = sheet_new(r, "examples: flipped texts", 5);
    static const char *const head[] = {"model", "defence", "attack", "answer", "text"};
    t->text = true;
    for (size_t i = 0; i < t->s.cols; i++)
        put(t, "%s", head[i]);
    for (size_t m = 0; m < r->models.n; m++)
        for (size_t k = 0; k < BOUNDED; k++) {
            const place p = {r->models.v[m], bounded[k], NULL};
            const cli_cell *x = run_at(r, &p, 0);
            const json_t *o = x ? record_of(x, &r->setting[REPRO_FULL], r->attacks.v[0]) : NULL;
            const json_t *flips = json_object_get(o, "flips"),
                         *list = json_object_get(o, "examples");
            for (size_t i = 0; i < json_array_size(list) && i < EXAMPLES; i++) {
                const json_t *e = json_array_get(list, i), *flip = e;
                for (size_t f = 0; f < json_array_size(flips); f++)
                    if (json_equal(json_object_get(json_array_get(flips, f), "index"),
                                   json_object_get(e, "index")))
                        flip = json_array_get(flips, f);
                put(t, "%s", p.model);
                put(t, "%s", repro_row_find(p.row)->label);
                put(t, "%s", r->attacks.v[0]);
                put(t, "%s %.1f %% -> %.1f %%", json_string_value(json_object_get(e, "label")),
                    100 * number_at(e, "before"), 100 * number_at(e, "after"));
                put_marked(t, flip);
                json_object_update_new(row_new(r, "examples", p.model),
                                       json_pack("{s:s, s:s, s:O}", "defense", p.row, "attack",
                                                 r->attacks.v[0], "example", e));
            }
        }
    snprintf(t->note, sizeof t->note, "Full sets; the texts with the fewest changed words.");
}
