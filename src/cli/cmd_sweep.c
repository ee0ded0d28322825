/* cli/cmd_sweep.c - stet sweep: a grid over options of training, with several seeds; what was
 * measured as a table, JSON and plots. With --blocks it chooses settings on held-out blocks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/sweep_frontier.h"
#include "stet/attack.h"
#include "stet/plot.h"
#include "stet/results.h"

typedef struct sweep_cfg {
    cli_common common;
    cli_source source;
    const char *out, *attack, *values[SWEEP_AXES];
    stet_strings over;
    int64_t jobs, blocks;
    double block_share;
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
    STET_OPT_LIST("over", sweep_cfg, over, "NAME=V,V,...",
                  "values of any other option of `stet train`; repeat for several options"),
    STET_OPT_STR("seeds", sweep_cfg, values[SWEEP_SEED], "1", "N,N,...", "a run for each"),
    STET_OPT_TOPIC("Choosing settings"),
    STET_OPT_INT("blocks", sweep_cfg, blocks, "0", 0, SWEEP_MOST, "N",
                 "hold out N blocks of consecutive texts of --data in turn, train on the rest, "
                 "certify the block, and choose the settings that no other beats in both clean and "
                 "certified accuracy"),
    STET_OPT_REAL("block-share", sweep_cfg, block_share, "0.1", 0.01, 0.5, "SHARE",
                  "share of --data in a block"),
    STET_OPT_TOPIC("Measuring"),
    STET_OPT_STR("test", sweep_cfg, source.data, NULL, "FILE",
                 "texts to measure accuracy on that took no part in training; with --blocks only "
                 "the chosen settings are, trained on all of --data"),
    STET_OPT_STR("attack", sweep_cfg, attack, NULL, "NAME",
                 "accuracy under this attack, with its usual settings (greedy, pwws, ...)"),
    STET_OPT_FLAG("certify", sweep_cfg, certify, "the certified share; implied by --blocks"),
    STET_OPT_STR("synonyms", sweep_cfg, source.synonyms, NULL, "SET",
                 "for --attack and --certify: " CLI_SYNONYMS_HELP
                 "; with --blocks by default those of training"),
    STET_OPT_INT("limit", sweep_cfg, source.limit, "0", 0, 1e12, "N",
                 "for --attack and --certify: a random sample of N texts, drawn by --seed and the "
                 "same for every run; 0: all"),
    STET_OPT_TOPIC("Running"),
    STET_OPT_OUT(sweep_cfg, out, NULL, "folder: a run folder for each point, plots"),
    STET_OPT_INT("jobs", sweep_cfg, jobs, "1", 1, 1024, "N",
                 "runs side by side; they share the threads"),
    CLI_COMMON_OPTS(sweep_cfg),
    STET_OPT_END,
};

/* ---- output ------------------------------------------------------------------------------- */

static void on_done(const sweep *s, const sweep_point *p)
{
    size_t done = 0;
    for (size_t i = 0; i < s->n; i++)
        done += s->point[i].stage == SWEEP_DONE;
    char said[240] = "";
    for (sweep_measure m = 0; m < SWEEP_MEASURES; m++)
        if (sweep_measures[m].share && !isnan(sweep_value(p, m)))
            snprintf(said + strlen(said), sizeof said - strlen(said), "%s%s %.2f %%",
                     *said ? ", " : "", sweep_measures[m].line, 100 * sweep_value(p, m));
    if (!isnan(sweep_value(p, SWEEP_GBM)))
        snprintf(said + strlen(said), sizeof said - strlen(said), ", sum of M %.4g",
                 sweep_value(p, SWEEP_GBM));
    cli_note("%s: %s (%zu of %zu)", p->dir, said, done, s->n);
}

/* Is there a column for it? Validation texts and the block are the same. */
static bool shown(const sweep *s, sweep_measure m)
{
    return (sweep_wants(s, sweep_measures[m].stage) && !(s->frontier && m == SWEEP_VALID)) ||
           (m == SWEEP_SAMPLE && s->certify);
}

static const char *heading(const sweep *s, sweep_measure m)
{
    return s->frontier && m == SWEEP_SAMPLE ? "clean %" : sweep_measures[m].heading;
}

/* One row of settings and what was measured; without `p`, the heading. */
static void add_row(cli_table *t, const sweep *s, const sweep_grid *g, const sweep_point *p,
                    const sweep_cell *c, const char *mark)
{
    const char *column[SWEEP_AXES + SWEEP_MEASURES + 1];
    size_t n = 0;
    for (size_t x = 0; x < SWEEP_SEED; x++)
        if (g->axis[x].v[0])
            column[n++] = p ? p->value[x] : g->def[x].name;
    column[n++] = p ? cli_fmt("%zu", c->seeds) : "seeds";
    for (sweep_measure m = 0; m < SWEEP_MEASURES; m++)
        if (shown(s, m))
            column[n++] = p ? sweep_number(c, m) : heading(s, m);
    if (mark)
        column[n++] = mark;
    cli_row_of(t, column, n);
}

static bool is_among(size_t cell, const size_t *chosen, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (chosen[k] == cell)
            return true;
    return false;
}

/* `chosen` NULL: nothing is chosen. */
static void print_table(const sweep *s, const sweep_grid *g, const size_t *chosen, size_t n_chosen)
{
    cli_table t = {0};
    add_row(&t, s, g, NULL, NULL, chosen ? "frontier" : NULL);
    for (size_t i = 0; i < g->cells; i++) {
        const sweep_cell c = sweep_cell_at(g, i);
        add_row(&t, s, g, sweep_point_of(g, i), &c,
                !chosen                         ? NULL
                : is_among(i, chosen, n_chosen) ? "*"
                                                : "");
    }
    cli_table_print(&t);
}

static json_t *real_or_null(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

/* A number where it is one. */
static json_t *value_json(const char *text)
{
    char *end;
    const double v = text ? strtod(text, &end) : 0;
    return !text ? json_null() : *end || !isfinite(v) ? cli_json_string(text) : json_real(v);
}

static json_t *cell_json(const sweep_cfg *cfg, const sweep_grid *g, const sweep_point *p,
                         const sweep_cell *c)
{
    json_t *o = cli_json_start(&cmd_sweep, cfg);
    for (size_t x = 0; x < SWEEP_SEED; x++)
        if (*g->def[x].key)
            json_object_set_new(o, g->def[x].key, value_json(p->value[x]));
    json_object_set_new(o, "seeds", json_integer((json_int_t)c->seeds));
    for (sweep_measure m = 0; m < SWEEP_MEASURES; m++) {
        char key[48];
        snprintf(key, sizeof key, "%s_spread", sweep_measures[m].key);
        json_object_set_new(o, sweep_measures[m].key, real_or_null(c->mean[m]));
        json_object_set_new(o, key, real_or_null(c->spread[m]));
    }
    return o;
}

static stet_status print_json(const sweep_cfg *cfg, const sweep_grid *g, const size_t *chosen,
                              size_t n_chosen)
{
    stet_status st = STET_OK;
    for (size_t i = 0; st == STET_OK && i < g->cells; i++) {
        const sweep_cell c = sweep_cell_at(g, i);
        json_t *o = cell_json(cfg, g, sweep_point_of(g, i), &c);
        if (chosen) {
            json_object_set_new(o, "measured_on", json_string("blocks"));
            json_object_set_new(o, "frontier", json_boolean(is_among(i, chosen, n_chosen)));
        }
        st = cli_json_print(o);
    }
    return st;
}

/* "test, lambda 2": the measure, and the values of the axes before the one that is drawn over. */
static void name_line(const sweep_grid *g, size_t cell, size_t over, sweep_measure m, char *out,
                      size_t size)
{
    char settings[256];
    sweep_cell_name(g, cell, over, settings, sizeof settings);
    snprintf(out, size, "%s%s%s", sweep_measures[m].line, *settings ? ", " : "", settings);
}

/* Measures `from` to `to` over the last axis swept over, a line for each combination of the others:
 * as this axis is the fastest, a line is a stretch of cells. */
static void add_lines(stet_plot *p, const sweep_grid *g, size_t over, sweep_measure from,
                      sweep_measure to)
{
    const size_t n = g->axis[over].n;
    for (sweep_measure m = from; m <= to; m++)
        for (size_t first = 0; first < g->cells; first += n) {
            const double unit = sweep_measures[m].share ? 100 : 1;
            double at[SWEEP_MOST], y[SWEEP_MOST], spread[SWEEP_MOST];
            bool any = false;
            for (size_t i = 0; i < n; i++) {
                const sweep_cell c = sweep_cell_at(g, first + i);
                at[i] = (double)i;
                y[i] = unit * c.mean[m];
                spread[i] = unit * c.spread[m];
                any |= isfinite(y[i]);
            }
            char name[320];
            name_line(g, first, over, m, name, sizeof name);
            if (any)
                stet_plot_line(p, name, at, y, spread, n);
        }
}

static stet_status plot(const sweep_cfg *cfg, const sweep_grid *g, const char *name,
                        const char *title, sweep_measure from, sweep_measure to)
{
    size_t over = SWEEP_SEED - 1;
    while (!g->axis[over].v[0])
        over--;
    const bool shares = sweep_measures[from].share;
    stet_plot *p;
    stet_status st =
        stet_plot_new(&(stet_plot_options){.title = title,
                                           .x_label = g->def[over].name,
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

static stet_status show(const sweep_cfg *cfg, const sweep *s, const sweep_grid *g)
{
    stet_status st = cfg->common.json ? print_json(cfg, g, NULL, 0) : STET_OK;
    if (!cfg->common.json)
        print_table(s, g, NULL, 0);
    if (st == STET_OK)
        st = s->attack || s->certify
                 ? plot(cfg, g, "accuracy", "Accuracy", SWEEP_SAMPLE, SWEEP_CERTIFIED)
                 : plot(cfg, g, "accuracy", "Clean accuracy", SWEEP_VALID, SWEEP_TEST);
    if (st == STET_OK)
        st = plot(cfg, g, "gbm", "Growth bounds", SWEEP_GBM, SWEEP_LOGITS);
    return st;
}

/* ---- the frontier ------------------------------------------------------------------------- */

/* The chosen settings on the test texts. */
static stet_status show_final(const sweep_cfg *cfg, const sweep *final, const sweep_grid *g,
                              size_t n)
{
    const size_t seeds = g->axis[SWEEP_SEED].n;
    cli_table t = {0};
    stet_status st = STET_OK;
    add_row(&t, final, g, NULL, NULL, NULL);
    for (size_t k = 0; st == STET_OK && k < n; k++) {
        const sweep_point *p = &final->point[k * seeds];
        const sweep_cell c = sweep_cell_of(p, seeds, 1);
        add_row(&t, final, g, p, &c, NULL);
        if (cfg->common.json) {
            json_t *o = cell_json(cfg, g, p, &c);
            json_object_set_new(o, "measured_on", json_string("test"));
            st = cli_json_print(o);
        }
    }
    if (!cfg->common.json) {
        printf("\nthe frontier, trained on all texts and measured on %s:\n", final->source.data);
        cli_table_print(&t);
    }
    cli_table_drop(&t);
    return st;
}

/* The choice in words, as a script and as a plot; then, with --test, what it is worth. `s` has run. */
static stet_status choose(const sweep_cfg *cfg, const sweep *s, const sweep_grid *g,
                          const sweep_block *blocks)
{
    size_t *chosen = malloc(g->cells * sizeof *chosen);
    if (!chosen)
        cli_no_memory();
    const size_t n = sweep_frontier(g, chosen);
    sweep final = *s;
    final.cells = (cli_cells){0};
    final.n = n * g->axis[SWEEP_SEED].n;
    stet_status st = cfg->common.json ? print_json(cfg, g, chosen, n) : STET_OK;
    if (!cfg->common.json)
        print_table(s, g, chosen, n);
    if (st == STET_OK)
        st = sweep_final_points(g, cfg->out, chosen, n, &final.point);
    if (st == STET_OK) {
        sweep_plan(&final);
        st = sweep_frontier_script(g, &final, cfg->out, blocks, chosen, n);
    }
    if (st == STET_OK && cfg->source.data) {
        st = sweep_run(&final);
        if (st == STET_OK)
            st = show_final(cfg, &final, g, n);
        if (st == STET_OK && sweep_failed(&final))
            st = cli_fail(STET_EIO,
                          "%zu of %zu points failed; run the same command again to retry them",
                          sweep_failed(&final), final.n);
    }
    if (st == STET_OK)
        st = sweep_frontier_plot(g, &final, cfg->out, chosen, n);
    sweep_deinit(&final);
    free(final.point);
    free(chosen);
    return st;
}

/* ---- running ------------------------------------------------------------------------------ */

/* Every mistake is told before the first run starts. */
static stet_status check(const sweep_cfg *cfg)
{
    const cli_source *from = &cfg->source;
    bool any = cfg->over.n > 0;
    for (size_t x = 0; x < SWEEP_SEED; x++)
        any |= cfg->values[x] != NULL;
    if (!cfg->out)
        return cli_usage("expected -o DIR");
    if (!any)
        return cli_usage(
            "expected --betas, --kappas, --smooths or --over: something to sweep over");
    if (!cfg->blocks && (cfg->attack || cfg->certify) && !(from->data && from->synonyms))
        return cli_usage("--attack and --certify need --test FILE and --synonyms SET");
    if (!cfg->blocks && !cfg->attack && !cfg->certify && (from->limit || from->synonyms))
        return cli_usage(
            "--limit and --synonyms go with --attack or --certify; what training needs "
            "comes after --");
    return cfg->attack ? stet_attack_settings(cfg->attack, SWEEP_PROFILE, NULL, NULL, NULL)
                       : STET_OK;
}

/* The options of training, as it understands them: "data", "synonyms", ... */
static stet_status training(const stet_rest *rest, json_t **out)
{
    void *cfg = calloc(1, cmd_train.cfg_size);
    stet_rest none;
    if (!cfg)
        cli_no_memory();
    stet_status st =
        stet_opt_parse(cmd_train.opts, cfg, (int)rest->n, (char *const *)rest->v, &none);
    json_t *o = st == STET_OK ? cli_json_start(&cmd_train, cfg) : NULL;
    *out = json_incref(json_object_get(o, "config"));
    json_decref(o);
    free(cfg);
    return st == STET_OK ? STET_OK : cli_usage("stet train: %s", stet_last_error());
}

/* Every point gets its block; sets are those of training unless --synonyms names others. */
static stet_status hold_out(const sweep_cfg *cfg, const json_t *train, sweep_grid *g, sweep *s,
                            sweep_block *blocks)
{
    if (!s->source.synonyms)
        s->source.synonyms = json_string_value(json_object_get(train, "synonyms"));
    if (!s->source.synonyms)
        return cli_usage("--blocks needs --synonyms SET, here or among the options of training");
    const stet_status st =
        sweep_blocks_cut(train, cfg->out, (size_t)cfg->blocks, cfg->block_share, blocks);
    for (size_t i = 0; i < g->n; i++) {
        const sweep_block *b = &blocks[i % (size_t)cfg->blocks];
        g->point[i].held_out = b->held_out;
        g->point[i].rest = b->rest;
    }
    s->certify = s->frontier = true;
    return st;
}

static stet_status run_grid(const sweep_cfg *cfg, sweep_grid *g, sweep *s,
                            const sweep_block *blocks)
{
    sweep_plan(s);
    stet_status st = sweep_run(s);
    const size_t failed = st == STET_OK ? sweep_failed(s) : 0;
    if (st == STET_OK && !(failed && blocks)) /* a choice needs all of them */
        st = blocks ? choose(cfg, s, g, blocks) : show(cfg, s, g);
    return st == STET_OK && failed
               ? cli_fail(STET_EIO,
                          "%zu of %zu points failed; run the same command again to retry them",
                          failed, g->n)
               : st;
}

static stet_status run(void *config, const stet_rest *rest)
{
    const sweep_cfg *cfg = config;
    static sweep_block blocks[SWEEP_MOST];
    sweep_grid g = {0};
    json_t *train = NULL;
    stet_status st = check(cfg);
    if (st == STET_OK)
        st = sweep_grid_make(cfg->out, cfg->values, &cfg->over, (size_t)cfg->blocks, &g);
    if (st == STET_OK && cfg->blocks)
        st = training(rest, &train);
    if (st == STET_OK)
        st = stet_folder_make(cfg->out);
    const long cores =
        cfg->common.threads ? (long)cfg->common.threads : sysconf(_SC_NPROCESSORS_ONLN);
    sweep s = {.axes = g.def,
               .point = g.point,
               .n = g.point ? g.n : 0,
               .jobs = (size_t)cfg->jobs,
               .threads = cores / cfg->jobs > 1 ? cores / cfg->jobs : 1,
               .source = cfg->source,
               .seed = cfg->common.seed,
               .attack = cfg->attack,
               .certify = cfg->certify,
               .train_args = rest->v,
               .n_train_args = rest->n,
               .done = on_done};
    if (st == STET_OK && cfg->blocks)
        st = hold_out(cfg, train, &g, &s, blocks);
    if (st == STET_OK)
        st = run_grid(cfg, &g, &s, cfg->blocks ? blocks : NULL);
    sweep_deinit(&s);
    sweep_grid_free(&g);
    json_decref(train);
    return st;
}

const cli_command cmd_sweep = {
    .name = "sweep",
    .args = "-- TRAIN OPTIONS",
    .summary = "train over a grid of settings and seeds, and compare",
    .details = "Every point of the grid is a run folder inside the output folder. Finished "
               "points are not computed again: the same command continues a sweep that was "
               "stopped, and you can add values or measurements later. Results are in "
               "DIR/results of each point, where `stet report` finds them. Options after `--` "
               "go to `stet train`; betas and kappas set its --defense unless you give one "
               "there. A run folder that exists with different training options is an error.\n"
               "With --blocks, the choice never sees the test texts: the settings that do best on "
               "held-out blocks are the frontier. frontier.svg shows them, frontier.sh has the "
               "commands that train each of them on all texts, and --test runs these commands.",
    .examples =
        "  stet sweep -o sweeps/cnn --betas 0,1e-4,1e-3 --seeds 1,2,3 --test test.tsv.xz "
        "--jobs 2 -- \\\n"
        "    --data train.tsv.xz --vectors glove.6B.300d.txt --model cnn --gbm-of logits\n"
        "  stet sweep -o sweeps/proved --betas 0,1e-4,1e-3 --test test.tsv.xz --attack greedy "
        "--certify \\\n"
        "    --synonyms jia.subst --limit 500 -- --data train.tsv.xz --vectors "
        "glove.6B.300d.txt\n"
        "  stet sweep -o sweeps/frontier --blocks 2 --kappas 0.45,0.7,0.85 --smooths 1,2,4 "
        "\\\n    --over tune-vectors=1e-4,2e-4 --seeds 1,2,3 --jobs 2 --test test.tsv.xz -- "
        "\\\n    --data train.tsv.xz --vectors glove.6B.300d.txt --synonyms jia.subst "
        "--word-scores\n",
    .opts = opts,
    .cfg_size = sizeof(sweep_cfg),
    .max_args = SWEEP_TRAIN_ARGS,
    .run = run,
};
