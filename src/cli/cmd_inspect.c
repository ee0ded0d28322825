/* cli/cmd_inspect.c - stet inspect: the growth bounds of one model, or of two beside each other. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/measured.h"
#include "cli/numbers.h"
#include "stet/bound.h"
#include "stet/plot.h"
#include "stet/results.h"

enum { MOST = 2 }; /* models beside each other */

typedef struct inspect_cfg {
    cli_common common;
    const char *data, *label, *text, *synonyms, *out;
    int64_t limit, words, top;
    bool record;
} inspect_cfg;

static const stet_opt opts[] = {
    STET_OPT_TOPIC("What the bounds of a recurrent model hold over"),
    STET_OPT_STR("data", inspect_cfg, data, NULL, "FILE",
                 "states that these texts have; without it, states that no text leaves"),
    STET_OPT_INT("limit", inspect_cfg, limit, "200", 1, 1e9, "N",
                 "a seeded random sample of N of the texts"),
    STET_OPT_STR("label", inspect_cfg, label, NULL, "COLUMN", "column or field of the label"),
    STET_OPT_STR("text", inspect_cfg, text, NULL, "COLUMN,...", "columns or fields of the text"),
    STET_OPT_STR("synonyms", inspect_cfg, synonyms, NULL, "SET",
                 "words between their substitutes; without it, anywhere in the table"),
    STET_OPT_INT("words", inspect_cfg, words, "32", 1, 1e6, "N", "words drawn for --synonyms"),
    STET_OPT_TOPIC("Output"),
    STET_OPT_OUT(inspect_cfg, out, NULL,
                 "folder for plots: heat map of M, distribution of its entries"),
    STET_OPT_INT("top", inspect_cfg, top, "5", 0, 1000, "N",
                 "most sensitive units and inputs to list"),
    CLI_RECORD_OPT(inspect_cfg),
    CLI_COMMON_OPTS(inspect_cfg),
    STET_OPT_END,
};

/* ---- loading ------------------------------------------------------------------------------ */

/* What both models are looked at with; the texts are read by each model's own vocabulary. */
typedef struct setting {
    stet_dataset *data, *all; /* the sample, and what it was drawn from */
    stet_subst *synonyms;
    stet_model *model[MOST];
} setting;

static stet_status load_texts(const inspect_cfg *cfg, setting *s)
{
    stet_data_options how = STET_DATA_DEFAULTS;
    how.label = cfg->label;
    how.text = cfg->text;
    stet_status st = stet_dataset_load(cfg->data, &how, &s->all);
    const size_t limit = (size_t)cfg->limit;
    size_t *index = st == STET_OK ? malloc(limit * sizeof *index) : NULL;
    if (st == STET_OK && !index)
        st = cli_fail(STET_ENOMEM, "out of memory");
    if (st == STET_OK)
        st = stet_dataset_pick(
            s->all, index, stet_dataset_sample(s->all, limit, (uint64_t)cfg->common.seed, index),
            &s->data);
    free(index);
    return st;
}

static stet_status bounds_of(const inspect_cfg *cfg, const setting *s, const stet_model *m,
                             stet_gbm *out)
{
    stet_corpus c = {0};
    stet_gbm_options how = STET_GBM_DEFAULTS;
    how.words = (size_t)cfg->words;
    how.seed = (uint64_t)cfg->common.seed;
    how.synonyms = s->synonyms;
    stet_status st = STET_OK;
    if (s->data) {
        st = stet_model_encode(m, s->data, &c);
        how.texts = &c;
    }
    if (st == STET_OK)
        st = stet_gbm_of(m, &how, out);
    stet_corpus_deinit(&c);
    return st;
}

/* ---- printing ----------------------------------------------------------------------------- */

/* The list `key` of the numbers: units or inputs, most sensitive first. */
static void print_top(const json_t *numbers, const char *key, const char *what)
{
    const json_t *one;
    size_t k;
    json_array_foreach(json_object_get(numbers, key), k, one)
    {
        const json_t *sum = json_object_get(one, "sum");
        printf("%s%s %.4g", k ? "; " : what, json_string_value(json_object_get(one, "name")),
               json_is_number(sum) ? json_number_value(sum) : INFINITY);
    }
    putchar('\n');
}

static void row(cli_table *t, const char *what, const stet_gbm *g, size_t n, size_t offset)
{
    double v[MOST] = {0};
    for (size_t i = 0; i < n; i++)
        memcpy(&v[i], (const char *)&g[i] + offset, sizeof v[i]);
    if (n == 1)
        cli_row(t, what, cli_fmt("%.5g", v[0]), NULL);
    else
        cli_row(t, what, cli_fmt("%.5g", v[0]), cli_fmt("%.5g", v[1]),
                v[0] > 0 ? cli_fmt("%.3f", v[1] / v[0]) : "-", NULL);
}

static void print_text(const inspect_cfg *cfg, const stet_gbm *g, const char *const *dir, size_t n)
{
    static const char *const part[STET_GBM_PARTS] = {"  by input", "  by state", "  by cell"};
    for (size_t i = 0; i < n; i++)
        printf("%s: %s, %zu units x %zu inputs; %s\n", dir[i], g[i].kind, g[i].rows, g[i].cols,
               g[i].boxes);
    putchar('\n');
    cli_table t = {0};
    if (n == 1)
        cli_row(&t, "growth bounds", dir[0], NULL);
    else
        cli_row(&t, "growth bounds", dir[0], dir[1], "ratio", NULL);
    row(&t, "sum of M", g, n, offsetof(stet_gbm, sum));
    for (size_t p = 0; p < STET_GBM_PARTS; p++)
        if (g[0].by_part[p] > 0 && g[0].part_end[0] < g[0].cols)
            row(&t, part[p], g, n, offsetof(stet_gbm, by_part) + p * sizeof(double));
    row(&t, "sum for the logits", g, n, offsetof(stet_gbm, logit_sum));
    row(&t, "Lipschitz inf->inf, largest row sum", g, n, offsetof(stet_gbm, lipschitz.inf_inf));
    row(&t, "Lipschitz 1->inf, largest entry", g, n, offsetof(stet_gbm, lipschitz.one_inf));
    row(&t, "Lipschitz 1->1, largest column sum", g, n, offsetof(stet_gbm, lipschitz.one_one));
    row(&t, "Lipschitz 2->2", g, n, offsetof(stet_gbm, lipschitz.two_two));
    for (size_t d = 0; d < g[0].n_contraction; d++)
        row(&t, d ? "contraction, reverse" : "contraction, forward", g, n,
            offsetof(stet_gbm, contraction) + d * sizeof(double));
    cli_table_print(&t);
    for (size_t i = 0; i < n && cfg->top; i++) {
        printf("\n%s\n", dir[i]);
        json_t *numbers = numbers_of_gbm(&g[i], dir[i], (size_t)cfg->top);
        print_top(numbers, "units", "  units   ");
        print_top(numbers, "inputs", "  inputs  ");
        json_decref(numbers);
    }
}

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static stet_status print_json(const inspect_cfg *cfg, const stet_gbm *g, const char *const *dir,
                              size_t n)
{
    stet_status st = STET_OK;
    for (size_t i = 0; st == STET_OK && i < n; i++) {
        json_t *o = cli_json_start(&cmd_inspect, cfg);
        json_object_update_new(o, numbers_of_gbm(&g[i], dir[i], (size_t)cfg->top));
        if (i)
            json_object_set_new(o, "ratio", number(g[i].sum / g[0].sum));
        st = cli_json_print(o);
    }
    return st;
}

static void keep(const inspect_cfg *cfg, const setting *s, const stet_gbm *g,
                 const char *const *dir, size_t n)
{
    const stet_sets sets = {.words = s->synonyms};
    for (size_t i = 0; i < n; i++)
        cli_record(&(cli_measured){.cmd = &cmd_inspect,
                                   .cfg = cfg,
                                   .dir = dir[i],
                                   .name = "inspect",
                                   .model = s->model[i],
                                   .data = s->all,
                                   .data_path = cfg->data,
                                   .texts = s->data ? stet_dataset_size(s->data) : 0,
                                   .sets = s->synonyms ? &sets : NULL,
                                   .sets_path = cfg->synonyms},
                   numbers_of_gbm(&g[i], cli_last_part(dir[i]), (size_t)cfg->top));
}

/* ---- plots -------------------------------------------------------------------------------- */

static stet_status save_plot(stet_plot *p, const char *dir, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.svg", dir, name);
    const stet_status st = stet_plot_save(p, path);
    stet_plot_free(p);
    return st;
}

/* Smallest and largest entry of all models: two maps of one command share their colours. Zeros that
 * the structure forces are left out, and what is far below the largest is as good as zero. */
static void range_of(const stet_gbm *g, size_t n, double *lo, double *hi)
{
    *lo = INFINITY, *hi = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < g[i].rows * g[i].cols; k++) {
            const double v = (double)g[i].m[k];
            if (v > 0 && isfinite(v)) {
                *lo = v < *lo ? v : *lo;
                *hi = v > *hi ? v : *hi;
            }
        }
    *lo = *lo < *hi * 1e-6 ? *hi * 1e-6 : *lo;
    if (!(*lo < *hi)) {
        *hi = *hi > 0 ? *hi : 1;
        *lo = *hi / 10;
    }
}

static stet_status plot_heat(const inspect_cfg *cfg, const stet_gbm *g, const char *dir, size_t i,
                             double lo, double hi)
{
    static const char *const names[MOST] = {"heat", "heat2"};
    char title[256];
    snprintf(title, sizeof title, "Growth bounds of %s: sum %.4g", cli_last_part(dir), g->sum);
    stet_plot *p;
    stet_status st = stet_plot_new(
        &(stet_plot_options){.title = title, .x_label = "input", .y_label = "unit"}, &p);
    if (st != STET_OK)
        return st;
    stet_plot_heat(p, g->m, g->rows, g->cols, STET_LOG, lo, hi);
    if (g->part_end[STET_GBM_INPUT] < g->cols) {
        stet_plot_mark(p, 0, "word");
        stet_plot_mark(p, (double)g->part_end[STET_GBM_INPUT], "state");
    }
    if (g->part_end[STET_GBM_STATE] < g->cols)
        stet_plot_mark(p, (double)g->part_end[STET_GBM_STATE], "cell");
    return save_plot(p, cfg->out, names[i]);
}

enum { BINS = 60 };

/* What share of the entries that are not zero falls into each of BINS equal parts of log [lo, hi].
 */
static void distribution(const stet_gbm *g, double lo, double hi, double share[BINS])
{
    double total = 0;
    memset(share, 0, BINS * sizeof *share);
    for (size_t k = 0; k < g->rows * g->cols; k++) {
        const double v = (double)g->m[k];
        if (!(v > 0) || !isfinite(v))
            continue;
        const double at = log(v / lo) / log(hi / lo) * BINS;
        share[at < 0 ? 0 : at >= BINS ? BINS - 1 : (int)at]++;
        total++;
    }
    for (int b = 0; b < BINS; b++)
        share[b] *= total > 0 ? 100 / total : 0;
}

static stet_status plot_entries(const inspect_cfg *cfg, const stet_gbm *g, const char *const *dir,
                                size_t n, double lo, double hi)
{
    double edge[BINS + 1], share[BINS];
    for (int b = 0; b <= BINS; b++)
        edge[b] = lo * pow(hi / lo, (double)b / BINS);
    stet_plot *p;
    stet_status st =
        stet_plot_new(&(stet_plot_options){.title = "Entries of the growth bound matrix",
                                           .x_label = "entry",
                                           .y_label = "share of entries (%)",
                                           .x_scale = STET_LOG},
                      &p);
    if (st != STET_OK)
        return st;
    for (size_t i = 0; i < n; i++) {
        distribution(&g[i], lo, hi, share);
        stet_plot_histogram(p, cli_last_part(dir[i]), edge, share, BINS);
    }
    return save_plot(p, cfg->out, "entries");
}

static stet_status plot_all(const inspect_cfg *cfg, const stet_gbm *g, const char *const *dir,
                            size_t n)
{
    double lo, hi;
    range_of(g, n, &lo, &hi);
    stet_status st = stet_folder_make(cfg->out);
    if (st == STET_OK)
        st = plot_entries(cfg, g, dir, n, lo, hi);
    for (size_t i = 0; st == STET_OK && i < n; i++)
        st = plot_heat(cfg, &g[i], dir[i], i, lo, hi);
    return st;
}

/* ---- running ------------------------------------------------------------------------------ */

static stet_status run(void *config, const stet_rest *rest)
{
    const inspect_cfg *cfg = config;
    setting s = {0};
    stet_gbm g[MOST] = {0};
    stet_status st = cfg->data ? load_texts(cfg, &s) : STET_OK;
    if (st == STET_OK && cfg->synonyms)
        st = stet_subst_load(cfg->synonyms, &s.synonyms);
    for (size_t i = 0; st == STET_OK && i < rest->n; i++) {
        st = stet_model_load(rest->v[i], &s.model[i]);
        if (st == STET_OK)
            st = bounds_of(cfg, &s, s.model[i], &g[i]);
    }
    if (st == STET_OK && cfg->out)
        st = plot_all(cfg, g, rest->v, rest->n);
    if (st == STET_OK && cfg->common.json)
        st = print_json(cfg, g, rest->v, rest->n);
    else if (st == STET_OK)
        print_text(cfg, g, rest->v, rest->n);
    if (st == STET_OK && cfg->record)
        keep(cfg, &s, g, rest->v, rest->n);
    for (size_t i = 0; i < MOST; i++) {
        stet_gbm_deinit(&g[i]);
        stet_model_free(s.model[i]);
    }
    stet_subst_free(s.synonyms);
    stet_dataset_free(s.all);
    stet_dataset_free(s.data);
    return st;
}

const cli_command cmd_inspect = {
    .name = "inspect",
    .args = "DIR [DIR2]",
    .summary = "show the growth bounds and Lipschitz constants of one or two models",
    .details = "Entry (i, j) of the growth bound matrix M bounds how far unit i moves when input j moves "
               "by one. Lipschitz constants follow from it; for example, the largest row sum bounds "
               "the largest change of a unit by the largest change of an input. docs/gbm.md says "
               "what this proves and what it does not.",
    .examples = "  stet inspect runs/cnn\n  stet inspect runs/standard runs/gbm --data test.tsv.xz "
                "-o plots\n",
    .opts = opts,
    .cfg_size = sizeof(inspect_cfg),
    .min_args = 1,
    .max_args = MOST,
    .run = run,
};
