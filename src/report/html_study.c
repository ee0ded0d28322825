/* report/html_study.c - the same recipe with several seeds as mean and deviation, and what a weight
 * does: accuracy over beta, kappa or the smoothing, with the spread over seeds. */
#include <math.h>
#include <stdlib.h>

#include "report/html.h"

typedef enum axis { AXIS_BETA, AXIS_KAPPA, AXIS_SMOOTH, AXES } axis;
static const struct {
    const char *setting, *name;
} axes[AXES] = {[AXIS_BETA] = {"beta=", "β"},
                [AXIS_KAPPA] = {"kappa=", "κ"},
                [AXIS_SMOOTH] = {NULL, "smoothing λ"}};

/* Where the run lies on the axis; standard training has weight 0. NAN: it does not. */
static double place_of(const run_folder *run, axis a)
{
    const json_t *t = json_object_get(run->config, "training"),
                 *set = json_object_get(t, "defense_settings");
    if (run->foreign || !t)
        return NAN;
    if (a == AXIS_SMOOTH)
        return num_of(t, "smooth");
    const size_t n = strlen(axes[a].setting);
    for (size_t i = 0; i < json_array_size(set); i++) {
        const char *s = json_string_value(json_array_get(set, i));
        if (s && strncmp(s, axes[a].setting, n) == 0)
            return strtod(s + n, NULL);
    }
    return strcmp(str_of(t, "defense"), "standard") == 0 ? 0 : NAN;
}

/* ---- which runs can be compared ----------------------------------------------------------- */

/* The settings of a run without its seed, its results and the place on the axis (AXES: with all
 * settings). A run of no defence stands at 0 of the axis of any: `defence` false leaves it out. */
static json_t *settings_of(const run_folder *run, axis a, bool defence)
{
    static const char *const kept[] = {"model",     "settings", "dim",        "max_len",
                                       "tokenizer", "classes",  "word_scores"};
    static const char *const results[] = {
        "run", "seed", "best_epoch", "valid_accuracy", "valid_loss", "epochs_run", "parameters"};
    const json_t *training = json_object_get(run->config, "training");
    json_t *o = json_object(), *t = training ? json_copy((json_t *)training) : json_object();
    json_t *set = json_array();
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        json_object_set(o, kept[i], json_object_get(run->config, kept[i]));
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        json_object_del(t, results[i]);
    if (a == AXIS_SMOOTH) {
        json_object_del(t, "smooth");
        json_object_del(t, "smooth_frequency");
    }
    for (size_t i = 0; i < json_array_size(json_object_get(t, "defense_settings")); i++) {
        json_t *s = json_array_get(json_object_get(t, "defense_settings"), i);
        const char *text = json_string_value(s);
        if (a >= AXIS_SMOOTH || !text ||
            strncmp(text, axes[a].setting, strlen(axes[a].setting)) != 0)
            json_array_append(set, s);
    }
    json_object_set_new(t, "defense_settings", set);
    if (!defence) {
        json_object_del(t, "defense");
        json_object_del(t, "defense_settings");
    }
    json_object_set_new(o, "training", t);
    return o;
}

/* Do the two differ in nothing but their seed and their place on the axis? */
static bool comparable(const run_folder *x, const run_folder *y, axis a)
{
    const json_t *tx = json_object_get(x->config, "training"),
                 *ty = json_object_get(y->config, "training");
    if (x->foreign || y->foreign)
        return x == y;
    const bool defence = a >= AXIS_SMOOTH || (strcmp(str_of(tx, "defense"), "standard") != 0 &&
                                              strcmp(str_of(ty, "defense"), "standard") != 0);
    json_t *sx = settings_of(x, a, defence), *sy = settings_of(y, a, defence);
    const bool same = json_equal(sx, sy);
    json_decref(sx);
    json_decref(sy);
    return same;
}

/* ---- means over seeds --------------------------------------------------------------------- */

typedef struct spread {
    size_t n;
    double sum, squares;
} spread;

static void spread_add(spread *s, double v)
{
    if (!isfinite(v))
        return;
    s->n++;
    s->sum += v;
    s->squares += v * v;
}
static double spread_mean(const spread *s)
{
    return s->n ? s->sum / (double)s->n : NAN;
}
static double spread_deviation(const spread *s)
{
    const double m = spread_mean(s);
    return s->n > 1 ? sqrt(fmax(0, (s->squares - (double)s->n * m * m) / (double)(s->n - 1))) : 0;
}

enum { FIGURES = 3 };
static const char *const figure_names[FIGURES] = {"clean", "under attack", "proved"};

/* Clean, under the strongest attack, proved: in % of the same texts where there are such. */
static void figures_of(const summary *s, size_t run, double out[FIGURES])
{
    const size_t worst = summary_worst(s, run), proved = summary_proved(s, run),
                 any = worst != SIZE_MAX ? worst : proved;
    out[0] = any != SIZE_MAX ? 100 * clean_of(s->cell[run][any]).value
             : s->n_cols     ? 100 * share_at(s, run, 0).value
                             : NAN;
    out[1] = worst != SIZE_MAX ? 100 * share_at(s, run, worst).value : NAN;
    out[2] = proved != SIZE_MAX ? 100 * share_at(s, run, proved).value : NAN;
}

typedef struct group {
    size_t first; /* a run of it */
    size_t runs;
    spread figure[FIGURES];
} group;

static size_t group_by_recipe(const report *r, const summary *s, group *g)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        double v[FIGURES];
        size_t k = 0;
        while (k < n && !comparable(&r->run[g[k].first], &r->run[i], AXES))
            k++;
        if (k == n)
            g[n++] = (group){.first = i};
        figures_of(s, i, v);
        g[k].runs++;
        for (size_t f = 0; f < FIGURES; f++)
            spread_add(&g[k].figure[f], v[f]);
    }
    return n;
}

static void put_table(const report *r, const group *g, size_t n, markup *b)
{
    put(b, "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">recipe</th>"
           "<th scope=\"col\">runs</th>");
    for (size_t f = 0; f < FIGURES; f++)
        put(b, "<th scope=\"col\">%s</th>", figure_names[f]);
    put(b, "</tr></thead><tbody>\n");
    for (size_t k = 0; k < n; k++) {
        buf recipe = {0};
        run_folder_recipe(&r->run[g[k].first], &recipe);
        put(b, "<tr><th scope=\"row\" class=\"wrap\">");
        put_buf(b, &recipe);
        put(b, "</th><td>%zu</td>", g[k].runs);
        for (size_t f = 0; f < FIGURES; f++) {
            const spread *s = &g[k].figure[f];
            if (s->n > 1)
                put(b, "<td>%.1f <small>± %.1f</small></td>", spread_mean(s), spread_deviation(s));
            else if (s->n)
                put(b, "<td>%.1f</td>", spread_mean(s));
            else
                put(b, "<td></td>");
        }
        put(b, "</tr>\n");
    }
    put(b, "</tbody></table></div>\n<p class=\"note\">Mean and standard deviation over runs that "
           "differ only in their seed, in %%.</p>\n");
}

/* ---- a weight and what it does ------------------------------------------------------------ */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The different values on an axis of the runs that can be compared with run `like`, ascending. */
static size_t places(const report *r, axis a, size_t like, double *out)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (!comparable(&r->run[like], &r->run[i], a))
            continue;
        const double v = place_of(&r->run[i], a);
        bool known = !isfinite(v);
        for (size_t k = 0; k < n; k++)
            known |= out[k] == v;
        if (!known)
            out[n++] = v;
    }
    qsort(out, n, sizeof *out, by_value);
    return n;
}

static stet_status put_over(const report *r, const summary *s, axis a, size_t like, markup *b)
{
    double value[MAX_RUNS];
    const size_t n = places(r, a, like, value);
    char text[MAX_RUNS][24];
    const char *names[MAX_RUNS];
    double x[MAX_RUNS], y[MAX_RUNS], half[MAX_RUNS];
    for (size_t k = 0; k < n; k++) {
        snprintf(text[k], sizeof text[k], "%g", value[k]);
        names[k] = text[k];
        x[k] = (double)k;
    }
    stet_plot *p;
    char heading[64];
    snprintf(heading, sizeof heading, "Accuracy over %s", axes[a].name);
    TRY(stet_plot_new(&(stet_plot_options){.title = heading,
                                           .x_label = axes[a].name,
                                           .y_label = "share of texts (%)",
                                           .x_names = names,
                                           .n_x_names = n,
                                           .width = CHART_WIDTH,
                                           .height = CHART_HEIGHT},
                      &p));
    put(b, "<ul class=\"legend\">");
    for (size_t f = 0; f < FIGURES; f++) {
        bool any = false;
        for (size_t k = 0; k < n; k++) {
            spread at = {0};
            for (size_t i = 0; i < r->n; i++) {
                double v[FIGURES];
                figures_of(s, i, v);
                if (place_of(&r->run[i], a) == value[k] && comparable(&r->run[like], &r->run[i], a))
                    spread_add(&at, v[f]);
            }
            y[k] = spread_mean(&at);
            half[k] = spread_deviation(&at);
            any |= at.n > 0;
        }
        stet_plot_line(p, figure_names[f], x, y, half, n);
        if (any) {
            put(b, "<li>");
            put_dot(b, f);
            put(b, "%s</li>", figure_names[f]);
        }
    }
    put(b, "</ul><div class=\"charts\">\n");
    TRY(html_figure(p, heading,
                    "Means over runs that differ only in this value and their seed; bars are "
                    "standard deviations over them. "
                    "Clean accuracy is that of the attacked texts.",
                    b));
    put(b, "</div>\n");
    return STET_OK;
}

stet_status html_study(const report *r, markup *b)
{
    bool begun = false;
    for (size_t k = 0; k < r->n_data; k++) {
        const summary *s = &r->data[k];
        static group g[MAX_RUNS];
        memset(g, 0, sizeof g);
        const size_t groups = group_by_recipe(r, s, g);
        double value[MAX_RUNS];
        size_t most = 0, like = 0;
        axis over = AXES;
        for (axis a = 0; a < AXES; a++)
            for (size_t i = 0; i < r->n; i++) {
                const size_t n = places(r, a, i, value);
                if (n > most)
                    most = n, over = a, like = i;
            }
        const bool seeds = groups<r->n, study = most> 2;
        if (!seeds && !study)
            continue;
        if (!begun)
            put(b, "<section id=\"study\"><h2>Settings and seeds compared</h2>\n");
        begun = true;
        if (r->n_data > 1)
            put(b, "<h3>%s</h3>\n", str_of(s->data, "name"));
        if (seeds)
            put_table(r, g, groups, b);
        if (study)
            TRY(put_over(r, s, over, like, b));
    }
    if (begun)
        put(b, "</section>\n");
    return STET_OK;
}
