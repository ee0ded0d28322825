/* cli/cmd_sweep.c - stet sweep: a grid over the weights of the defences and the smoothing of the
 * vectors, with several seeds; what was measured as a table, JSON and plots. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/sweep_jobs.h"
#include "stet/attack.h"
#include "stet/plot.h"
#include "stet/results.h"

enum { MOST = 32 }; /* values of one list */

typedef struct sweep_cfg {
    cli_common common;
    cli_source source;
    const char *out, *attack, *values[SWEEP_AXES];
    int64_t jobs;
    bool certify;
} sweep_cfg;

static const stet_opt opts[] = {
    STET_OPT_TOPIC("Grid"),
    STET_OPT_STR("betas", sweep_cfg, values[SWEEP_BETA], NULL, "B,B,...",
                 "weights of the growth bound; 0 is standard training"),
    STET_OPT_STR("kappas", sweep_cfg, values[SWEEP_KAPPA], NULL, "K,K,...",
                 "weights of the worst case in --defense certified"),
    STET_OPT_STR("smooths", sweep_cfg, values[SWEEP_SMOOTH], NULL, "L,L,...",
                 "lambdas of synonym-smoothed vectors; 0: as loaded"),
    STET_OPT_STR("seeds", sweep_cfg, values[SWEEP_SEED], "1", "N,N,...", "a run for each"),
    STET_OPT_TOPIC("Measuring"),
    STET_OPT_STR("test", sweep_cfg, source.data, NULL, "FILE",
                 "texts to measure accuracy on that took no part in training"),
    STET_OPT_STR("attack", sweep_cfg, attack, NULL, "NAME",
                 "accuracy under this attack, with its usual settings (greedy, pwws, ...)"),
    STET_OPT_FLAG("certify", sweep_cfg, certify, "the share that is proved"),
    STET_OPT_STR("synonyms", sweep_cfg, source.synonyms, NULL, "SET",
                 "for --attack and --certify: " CLI_SYNONYMS_HELP),
    STET_OPT_INT("limit", sweep_cfg, source.limit, "0", 0, 1e12, "N",
                 "for --attack and --certify: a random sample of N texts, drawn by --seed and the "
                 "same for every run; 0: all"),
    STET_OPT_TOPIC("Running"),
    STET_OPT_OUT(sweep_cfg, out, NULL, "folder: a run folder for each point, plots"),
    STET_OPT_INT("jobs", sweep_cfg, jobs, "1", 1, 1024, "N",
                 "runs side by side; the threads are shared out"),
    CLI_COMMON_OPTS(sweep_cfg),
    STET_OPT_END,
};

/* ---- the grid ----------------------------------------------------------------------------- */

typedef struct list {
    char text[1024];
    const char *v[MOST];
    size_t n;
} list;

/* "0,1e-4" as texts, each a number >= 0. Without a list there is one value, NULL. */
static stet_status parse(const char *name, const char *text, list *out)
{
    *out = (list){.n = 1};
    if (!text)
        return STET_OK;
    if (strlen(text) >= sizeof out->text)
        return cli_usage("--%s: the list is too long", name);
    snprintf(out->text, sizeof out->text, "%s", text);
    out->n = 0;
    char *rest = out->text;
    for (char *item; (item = strsep(&rest, ","));) {
        char *end;
        const double v = strtod(item, &end);
        if (end == item || *end || !(v >= 0) || !isfinite(v))
            return cli_usage("--%s %s: expected numbers of at least 0 with commas between", name,
                             text);
        if (out->n == MOST)
            return cli_usage("--%s: at most %d values", name, MOST);
        out->v[out->n++] = item;
    }
    return STET_OK;
}

/* Points in the order of the axes, the last one fastest; those of one cell differ in their seed. */
typedef struct grid {
    list axis[SWEEP_AXES];
    sweep_point *point;
    size_t n, cells;
} grid;

/* "smooth-2_beta-1e-3_seed-1" in the output folder. */
static stet_status name_point(const char *out, sweep_point *p)
{
    size_t at = (size_t)snprintf(p->dir, sizeof p->dir, "%s", out);
    const char *before = "/";
    for (size_t x = 0; x < SWEEP_AXES && at < sizeof p->dir; x++)
        if (p->value[x]) {
            at += (size_t)snprintf(p->dir + at, sizeof p->dir - at, "%s%s-%s", before,
                                   sweep_axes[x].key, p->value[x]);
            before = "_";
        }
    return at < sizeof p->dir ? STET_OK : cli_usage("-o %s: the name is too long", out);
}

static stet_status make_grid(const sweep_cfg *cfg, grid *g)
{
    stet_status st = STET_OK;
    size_t n = 1;
    for (size_t x = 0; x < SWEEP_AXES; x++) {
        st = parse(sweep_axes[x].option, cfg->values[x], &g->axis[x]);
        if (st != STET_OK)
            return st;
        n *= g->axis[x].n;
    }
    g->point = calloc(n, sizeof *g->point);
    if (!g->point)
        return cli_fail(STET_ENOMEM, "out of memory");
    g->n = n;
    g->cells = n / g->axis[SWEEP_SEED].n;
    for (size_t i = 0; st == STET_OK && i < g->n; i++) {
        size_t rest = i;
        for (size_t x = SWEEP_AXES; x-- > 0; rest /= g->axis[x].n)
            g->point[i].value[x] = g->axis[x].v[rest % g->axis[x].n];
        st = name_point(cfg->out, &g->point[i]);
    }
    return st;
}

/* A point of the cell, for the values that all of them share. */
static const sweep_point *point_of(const grid *g, size_t cell)
{
    return &g->point[cell * g->axis[SWEEP_SEED].n];
}

/* ---- results ------------------------------------------------------------------------------ */

typedef enum measure { VALID, TEST, SAMPLE, AUA, CERTIFIED, GBM, LOGITS, LIPSCHITZ, MEASURES } measure;

/* Where a number is found among a point's records, and what it is called. */
static const struct {
    sweep_stage stage;
    const char *part, *field; /* of the record; part NULL: the record itself */
    const char *key;          /* in JSON */
    const char *heading, *line;
    bool share;
} measures[MEASURES] = {
    [VALID] = {SWEEP_TRAIN, "training", "valid_accuracy", "valid_accuracy", "validation %",
               "validation", true},
    [TEST] = {SWEEP_EVAL, NULL, "accuracy", "accuracy", "test %", "test", true},
    /* clean accuracy on the very texts that are attacked or certified */
    [SAMPLE] = {SWEEP_ATTACK, NULL, "clean", "sample_accuracy", "sample %", "clean", true},
    [AUA] = {SWEEP_ATTACK, NULL, "aua", "aua", "AUA %", "under attack", true},
    [CERTIFIED] = {SWEEP_CERTIFY, NULL, "certified", "certified", "certified %", "certified", true},
    [GBM] = {SWEEP_INSPECT, NULL, "gbm_sum", "gbm_sum", "sum of M", "layer", false},
    [LOGITS] = {SWEEP_INSPECT, NULL, "gbm_logits", "gbm_logits", "logits", "logits", false},
    [LIPSCHITZ] = {SWEEP_INSPECT, "lipschitz", "inf_inf", "lipschitz", "Lipschitz", "Lipschitz",
                   false},
};

/* NAN: not known. */
static double value_of(const sweep_point *p, measure m)
{
    const json_t *o = p->record[measures[m].stage];
    if (m == SAMPLE && !o) /* not attacked, but certified */
        o = p->record[SWEEP_CERTIFY];
    const json_t *v = json_object_get(measures[m].part ? json_object_get(o, measures[m].part) : o,
                                      measures[m].field);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

/* Mean and sample deviation over the seeds of one cell. */
typedef struct cell {
    size_t seeds;
    double mean[MEASURES], spread[MEASURES];
} cell;

static cell cell_of(const grid *g, size_t index)
{
    cell c = {0};
    const sweep_point *done[MOST], *p = point_of(g, index);
    for (size_t k = 0; k < g->axis[SWEEP_SEED].n; k++)
        if (p[k].stage == SWEEP_DONE)
            done[c.seeds++] = &p[k];
    for (measure m = 0; m < MEASURES; m++) {
        double sum = 0, squares = 0;
        for (size_t k = 0; k < c.seeds; k++)
            sum += value_of(done[k], m);
        c.mean[m] = c.seeds ? sum / (double)c.seeds : NAN;
        for (size_t k = 0; k < c.seeds; k++)
            squares += pow(value_of(done[k], m) - c.mean[m], 2);
        c.spread[m] = c.seeds > 1 ? sqrt(squares / (double)(c.seeds - 1)) : 0;
    }
    return c;
}

static void on_done(const sweep *s, const sweep_point *p)
{
    size_t done = 0;
    for (size_t i = 0; i < s->n; i++)
        done += s->point[i].stage == SWEEP_DONE;
    char shares[160] = "";
    for (measure m = 0; m < MEASURES; m++)
        if (measures[m].share && !isnan(value_of(p, m)))
            snprintf(shares + strlen(shares), sizeof shares - strlen(shares), "%s %.2f %%, ",
                     measures[m].line, 100 * value_of(p, m));
    cli_note("%s: %ssum of M %.4g (%zu of %zu)", p->dir, shares, value_of(p, GBM), done, s->n);
}

/* ---- output ------------------------------------------------------------------------------- */

static const char *number(const cell *c, measure m)
{
    return isnan(c->mean[m])    ? "-"
           : !measures[m].share ? cli_fmt("%.5g", c->mean[m])
           : c->seeds > 1       ? cli_fmt("%.2f ± %.2f", 100 * c->mean[m], 100 * c->spread[m])
                                : cli_fmt("%.2f", 100 * c->mean[m]);
}

/* A column for everything that was swept over and everything that was to be measured. */
static void print_table(const sweep *s, const grid *g)
{
    cli_table t = {0};
    for (size_t row = 0; row <= g->cells; row++) { /* the first is the heading */
        const char *column[SWEEP_AXES + MEASURES];
        size_t n = 0;
        const cell c = row ? cell_of(g, row - 1) : (cell){0};
        for (size_t x = 0; x < SWEEP_SEED; x++)
            if (g->axis[x].v[0])
                column[n++] = row ? point_of(g, row - 1)->value[x] : sweep_axes[x].name;
        column[n++] = row ? cli_fmt("%zu", c.seeds) : "seeds";
        for (measure m = 0; m < MEASURES; m++)
            if (sweep_wants(s, measures[m].stage) || (m == SAMPLE && s->certify))
                column[n++] = row ? number(&c, m) : measures[m].heading;
        cli_row_of(&t, column, n);
    }
    cli_table_print(&t);
}

static json_t *real_or_null(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static stet_status print_json(const sweep_cfg *cfg, const grid *g)
{
    stet_status st = STET_OK;
    for (size_t i = 0; st == STET_OK && i < g->cells; i++) {
        const cell c = cell_of(g, i);
        const sweep_point *p = point_of(g, i);
        json_t *o = cli_json_start(&cmd_sweep, cfg);
        for (size_t x = 0; x < SWEEP_SEED; x++)
            json_object_set_new(o, sweep_axes[x].key,
                                p->value[x] ? json_real(atof(p->value[x])) : json_null());
        json_object_set_new(o, "seeds", json_integer((json_int_t)c.seeds));
        for (measure m = 0; m < MEASURES; m++) {
            char key[48];
            snprintf(key, sizeof key, "%s_spread", measures[m].key);
            json_object_set_new(o, measures[m].key, real_or_null(c.mean[m]));
            json_object_set_new(o, key, real_or_null(c.spread[m]));
        }
        st = cli_json_print(o);
    }
    return st;
}

/* "test, lambda 2": the measure, and the values of the axes before the one that is drawn over. */
static void name_line(const sweep_point *p, size_t over, measure m, char *out, size_t size)
{
    size_t at = (size_t)snprintf(out, size, "%s", measures[m].line);
    for (size_t x = 0; x < over && at < size; x++)
        if (p->value[x])
            at += (size_t)snprintf(out + at, size - at, ", %s %s", sweep_axes[x].name, p->value[x]);
}

/* Measures `from` to `to` over the last axis swept over, a line for each combination of the others:
 * as this axis is the fastest, a line is a stretch of cells. */
static void add_lines(stet_plot *p, const grid *g, size_t over, measure from, measure to)
{
    const size_t n = g->axis[over].n;
    for (measure m = from; m <= to; m++)
        for (size_t first = 0; first < g->cells; first += n) {
            const double unit = measures[m].share ? 100 : 1;
            double at[MOST], y[MOST], spread[MOST];
            bool any = false;
            for (size_t i = 0; i < n; i++) {
                const cell c = cell_of(g, first + i);
                at[i] = (double)i;
                y[i] = unit * c.mean[m];
                spread[i] = unit * c.spread[m];
                any |= isfinite(y[i]);
            }
            char name[128];
            name_line(point_of(g, first), over, m, name, sizeof name);
            if (any)
                stet_plot_line(p, name, at, y, spread, n);
        }
}

static stet_status plot(const sweep_cfg *cfg, const grid *g, const char *name, const char *title,
                        measure from, measure to)
{
    size_t over = SWEEP_SEED - 1;
    while (!g->axis[over].v[0])
        over--;
    const bool shares = measures[from].share;
    stet_plot *p;
    stet_status st =
        stet_plot_new(&(stet_plot_options){.title = title,
                                           .x_label = sweep_axes[over].name,
                                           .y_label = shares ? "accuracy (%)" : "sum of M",
                                           .y_scale = shares ? STET_LINEAR : STET_LOG,
                                           .x_names = g->axis[over].v,
                                           .n_x_names = g->axis[over].n},
                      &p);
    if (st != STET_OK)
        return st;
    add_lines(p, g, over, from, to);
    char path[1100];
    snprintf(path, sizeof path, "%s/%s.svg", cfg->out, name);
    st = stet_plot_save(p, path);
    stet_plot_free(p);
    return st;
}

static stet_status show(const sweep_cfg *cfg, const sweep *s, const grid *g)
{
    stet_status st = cfg->common.json ? print_json(cfg, g) : STET_OK;
    if (!cfg->common.json)
        print_table(s, g);
    if (st == STET_OK)
        st = s->attack || s->certify ? plot(cfg, g, "accuracy", "Accuracy", SAMPLE, CERTIFIED)
                                     : plot(cfg, g, "accuracy", "Clean accuracy", VALID, TEST);
    if (st == STET_OK)
        st = plot(cfg, g, "gbm", "Growth bounds", GBM, LOGITS);
    return st;
}

/* ---- running ------------------------------------------------------------------------------ */

/* Every mistake is told before the first run starts. */
static stet_status check(const sweep_cfg *cfg)
{
    const cli_source *from = &cfg->source;
    bool any = false;
    for (size_t x = 0; x < SWEEP_SEED; x++)
        any |= cfg->values[x] != NULL;
    if (!cfg->out)
        return cli_usage("expected -o DIR");
    if (!any)
        return cli_usage("expected --betas, --kappas or --smooths: something to sweep over");
    if ((cfg->attack || cfg->certify) && !(from->data && from->synonyms))
        return cli_usage("--attack and --certify need --test FILE and --synonyms SET");
    if (!cfg->attack && !cfg->certify && (from->limit || from->synonyms))
        return cli_usage(
            "--limit and --synonyms go with --attack or --certify; what training needs "
            "comes after --");
    return cfg->attack ? stet_attack_settings(cfg->attack, SWEEP_PROFILE, NULL, NULL, NULL)
                       : STET_OK;
}

static stet_status run(void *config, const stet_rest *rest)
{
    const sweep_cfg *cfg = config;
    grid g = {0};
    stet_status st = check(cfg);
    if (st == STET_OK)
        st = make_grid(cfg, &g);
    if (st == STET_OK)
        st = stet_folder_make(cfg->out);
    const long cores =
        cfg->common.threads ? (long)cfg->common.threads : sysconf(_SC_NPROCESSORS_ONLN);
    sweep s = {.point = g.point,
               .n = g.n,
               .jobs = (size_t)cfg->jobs,
               .threads = cores / cfg->jobs > 1 ? cores / cfg->jobs : 1,
               .source = cfg->source,
               .seed = cfg->common.seed,
               .attack = cfg->attack,
               .certify = cfg->certify,
               .train_args = rest->v,
               .n_train_args = rest->n,
               .done = on_done};
    if (st == STET_OK)
        st = sweep_run(&s);
    if (st == STET_OK)
        st = show(cfg, &s, &g);
    size_t failed = 0;
    for (size_t i = 0; st == STET_OK && i < g.n; i++)
        failed += g.point[i].failed;
    if (failed)
        st = cli_fail(STET_EIO, "%zu of %zu points failed; the same command tries them again",
                      failed, g.n);
    sweep_deinit(&s);
    free(g.point);
    return st;
}

const cli_command cmd_sweep = {
    .name = "sweep",
    .args = "-- TRAIN OPTIONS",
    .summary = "train over a grid of settings and seeds, and compare",
    .details =
        "Every point of the grid is a run folder inside the output folder. Finished "
               "points are not computed again: the same command continues a sweep that was "
               "stopped, and you can add values or measurements later. Results are in "
               "DIR/results of each point, where `stet report` finds them. Options after `--` "
               "go to `stet train`; betas and kappas set its --defense unless you give one "
               "there. A run folder that exists with different training options is an error.",
    .examples = "  stet sweep -o sweeps/cnn --betas 0,1e-4,1e-3 --seeds 1,2,3 --test test.tsv.xz "
                "--jobs 2 -- \\\n"
                "    --data train.tsv.xz --vectors glove.6B.300d.txt --model cnn --gbm-of logits\n"
                "  stet sweep -o sweeps/proved --betas 0,1e-4,1e-3 --test test.tsv.xz --attack greedy "
                "--certify \\\n"
                "    --synonyms jia.subst --limit 500 -- --data train.tsv.xz --vectors "
                "glove.6B.300d.txt\n",
    .opts = opts,
    .cfg_size = sizeof(sweep_cfg),
    .max_args = SWEEP_TRAIN_ARGS,
    .run = run,
};
