/* cli/cmd_sweep.c - stet sweep: a grid over the weight of the growth bound and the smoothing of the
 * vectors, with several seeds. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/sweep_jobs.h"
#include "stet/plot.h"

enum { MOST = 32 }; /* values of one list */

typedef struct sweep_cfg {
    cli_common common;
    const char *out, *betas, *smooths, *seeds, *test;
    int64_t jobs;
} sweep_cfg;

static const stet_opt opts[] = {
    STET_OPT_TOPIC("Grid"),
    STET_OPT_STR("betas", sweep_cfg, betas, NULL, "B,B,...",
                 "weights of the growth bound; 0 is standard training"),
    STET_OPT_STR("smooths", sweep_cfg, smooths, NULL, "L,L,...",
                 "lambdas of synonym-smoothed vectors; 0: as loaded"),
    STET_OPT_STR("seeds", sweep_cfg, seeds, "1", "N,N,...", "a run for each"),
    STET_OPT_STR("test", sweep_cfg, test, NULL, "FILE",
                 "texts to measure accuracy on that took no part in training"),
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

typedef struct grid {
    list beta, smooth, seed;
    sweep_point *point; /* (smooths, betas, seeds) */
    size_t n;
} grid;

static stet_status make_points(const sweep_cfg *cfg, grid *g)
{
    g->n = g->smooth.n * g->beta.n * g->seed.n;
    g->point = calloc(g->n, sizeof *g->point);
    if (!g->point)
        return cli_fail(STET_ENOMEM, "out of memory");
    for (size_t i = 0; i < g->n; i++) {
        sweep_point *p = &g->point[i];
        p->seed = g->seed.v[i % g->seed.n];
        p->beta = g->beta.v[i / g->seed.n % g->beta.n];
        p->smooth = g->smooth.v[i / g->seed.n / g->beta.n];
        snprintf(p->dir, sizeof p->dir, "%s/%s%s%s%s%s%sseed-%s", cfg->out,
                 p->smooth ? "smooth-" : "", p->smooth ? p->smooth : "", p->smooth ? "_" : "",
                 p->beta ? "beta-" : "", p->beta ? p->beta : "", p->beta ? "_" : "", p->seed);
    }
    return STET_OK;
}

/* ---- results ------------------------------------------------------------------------------ */

typedef enum measure { VALID, TEST, GBM, LOGITS, LIPSCHITZ, MEASURES } measure;
static const char *const measure_key[MEASURES] = {"valid_accuracy", "accuracy", "gbm_sum",
                                                  "gbm_logits", "lipschitz"};

typedef struct result {
    double v[MEASURES]; /* NAN: not known */
} result;

static json_t *read_json(const sweep_point *p, const char *name)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/%s", p->dir, name);
    return json_load_file(path, 0, NULL);
}

static double number_at(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static result read_result(const sweep_point *p)
{
    json_t *config = read_json(p, "config.json"), *eval = read_json(p, "eval.json"),
           *inspect = read_json(p, "inspect.json");
    const result r = {{number_at(json_object_get(config, "training"), "valid_accuracy"),
                       number_at(eval, "accuracy"), number_at(inspect, "gbm_sum"),
                       number_at(inspect, "gbm_logits"),
                       number_at(json_object_get(inspect, "lipschitz"), "inf_inf")}};
    json_decref(config);
    json_decref(eval);
    json_decref(inspect);
    return r;
}

/* Mean and sample deviation over the seeds of one cell. */
typedef struct cell {
    size_t seeds;
    double mean[MEASURES], spread[MEASURES];
} cell;

static cell cell_of(const grid *g, size_t smooth, size_t beta)
{
    cell c = {0};
    result r[MOST];
    for (size_t s = 0; s < g->seed.n; s++) {
        const sweep_point *p = &g->point[(smooth * g->beta.n + beta) * g->seed.n + s];
        if (p->stage == SWEEP_DONE)
            r[c.seeds++] = read_result(p);
    }
    for (int m = 0; m < MEASURES; m++) {
        double sum = 0, squares = 0;
        for (size_t s = 0; s < c.seeds; s++)
            sum += r[s].v[m];
        c.mean[m] = c.seeds ? sum / (double)c.seeds : NAN;
        for (size_t s = 0; s < c.seeds; s++)
            squares += (r[s].v[m] - c.mean[m]) * (r[s].v[m] - c.mean[m]);
        c.spread[m] = c.seeds > 1 ? sqrt(squares / (double)(c.seeds - 1)) : 0;
    }
    return c;
}

static void on_done(const sweep *s, const sweep_point *p)
{
    const result r = read_result(p);
    size_t done = 0;
    for (size_t i = 0; i < s->n; i++)
        done += s->point[i].stage == SWEEP_DONE;
    char test[48] = "";
    if (s->test)
        snprintf(test, sizeof test, ", test %.2f %%", 100 * r.v[TEST]);
    cli_note("%s: validation %.2f %%%s, sum of M %.4g (%zu of %zu)", p->dir, 100 * r.v[VALID], test,
             r.v[GBM], done, s->n);
}

/* ---- output ------------------------------------------------------------------------------- */

static const char *percent(double mean, double spread, size_t seeds)
{
    return isnan(mean) ? "-"
           : seeds > 1 ? cli_fmt("%.2f ± %.2f", 100 * mean, 100 * spread)
                       : cli_fmt("%.2f", 100 * mean);
}

static const char *plain(double mean)
{
    return isnan(mean) ? "-" : cli_fmt("%.5g", mean);
}

static void print_table(const grid *g)
{
    cli_table t = {0};
    cli_row(&t, "lambda", "beta", "seeds", "validation %", "test %", "sum of M", "logits",
            "Lipschitz", NULL);
    for (size_t l = 0; l < g->smooth.n; l++)
        for (size_t b = 0; b < g->beta.n; b++) {
            const cell c = cell_of(g, l, b);
            cli_row(&t, g->smooth.v[l] ? g->smooth.v[l] : "-", g->beta.v[b] ? g->beta.v[b] : "-",
                    cli_fmt("%zu", c.seeds), percent(c.mean[VALID], c.spread[VALID], c.seeds),
                    percent(c.mean[TEST], c.spread[TEST], c.seeds), plain(c.mean[GBM]),
                    plain(c.mean[LOGITS]), plain(c.mean[LIPSCHITZ]), NULL);
        }
    cli_table_print(&t);
}

static stet_status print_json(const sweep_cfg *cfg, const grid *g)
{
    stet_status st = STET_OK;
    for (size_t l = 0; l < g->smooth.n; l++)
        for (size_t b = 0; st == STET_OK && b < g->beta.n; b++) {
            const cell c = cell_of(g, l, b);
            json_t *o = cli_json_start(&cmd_sweep, cfg);
            json_object_set_new(o, "smooth",
                                g->smooth.v[l] ? json_real(atof(g->smooth.v[l])) : json_null());
            json_object_set_new(o, "beta",
                                g->beta.v[b] ? json_real(atof(g->beta.v[b])) : json_null());
            json_object_set_new(o, "seeds", json_integer((json_int_t)c.seeds));
            for (int m = 0; m < MEASURES; m++) {
                char key[48];
                snprintf(key, sizeof key, "%s_spread", measure_key[m]);
                json_object_set_new(o, measure_key[m],
                                    isfinite(c.mean[m]) ? json_real(c.mean[m]) : json_null());
                json_object_set_new(o, key,
                                    isfinite(c.spread[m]) ? json_real(c.spread[m]) : json_null());
            }
            st = cli_json_print(o);
        }
    return st;
}

/* One line a lambda over the betas; where only lambdas were swept over, over these. */
static stet_status plot(const sweep_cfg *cfg, const grid *g, const char *name, const char *label,
                        const measure *which, size_t n_which, bool percents)
{
    static const char *const measure_name[MEASURES] = {"validation", "test", "layer", "logits",
                                                       "Lipschitz"};
    const bool over_beta = g->beta.v[0] != NULL;
    const list *x = over_beta ? &g->beta : &g->smooth;
    const size_t lines = over_beta ? g->smooth.n : 1;
    stet_plot *p;
    stet_status st =
        stet_plot_new(&(stet_plot_options){.title = label,
                                           .x_label = over_beta ? "beta" : "lambda",
                                           .y_label = percents ? "accuracy (%)" : "sum of M",
                                           .y_scale = percents ? STET_LINEAR : STET_LOG,
                                           .x_names = x->v,
                                           .n_x_names = x->n},
                      &p);
    if (st != STET_OK)
        return st;
    for (size_t w = 0; w < n_which; w++)
        for (size_t l = 0; l < lines; l++) {
            double at[MOST], y[MOST], spread[MOST];
            bool any = false;
            for (size_t i = 0; i < x->n; i++) {
                const cell c = over_beta ? cell_of(g, l, i) : cell_of(g, i, 0);
                at[i] = (double)i;
                y[i] = c.mean[which[w]] * (percents ? 100 : 1);
                spread[i] = c.spread[which[w]] * (percents ? 100 : 1);
                any |= isfinite(y[i]);
            }
            char text[96];
            snprintf(text, sizeof text, "%s%s%s", measure_name[which[w]],
                     over_beta && g->smooth.v[l] ? ", lambda " : "",
                     over_beta && g->smooth.v[l] ? g->smooth.v[l] : "");
            if (any)
                stet_plot_line(p, text, at, y, spread, x->n);
        }
    static const char *const ending[] = {"svg", "png"};
    for (int k = 0; st == STET_OK && k < 2; k++) {
        char path[1100];
        snprintf(path, sizeof path, "%s/%s.%s", cfg->out, name, ending[k]);
        st = stet_plot_save(p, path);
    }
    stet_plot_free(p);
    return st;
}

static stet_status show(const sweep_cfg *cfg, const grid *g)
{
    stet_status st = cfg->common.json ? print_json(cfg, g) : STET_OK;
    if (!cfg->common.json)
        print_table(g);
    if (st == STET_OK)
        st = plot(cfg, g, "accuracy", "Clean accuracy", (const measure[]){VALID, TEST}, 2, true);
    if (st == STET_OK)
        st = plot(cfg, g, "gbm", "Growth bounds", (const measure[]){GBM, LOGITS}, 2, false);
    return st;
}

/* ---- running ------------------------------------------------------------------------------ */

static stet_status run(void *config, const stet_rest *rest)
{
    const sweep_cfg *cfg = config;
    grid g = {0};
    if (!cfg->out)
        return cli_usage("expected -o DIR");
    if (!cfg->betas && !cfg->smooths)
        return cli_usage("expected --betas or --smooths: something to sweep over");
    stet_status st = parse("betas", cfg->betas, &g.beta);
    if (st == STET_OK)
        st = parse("smooths", cfg->smooths, &g.smooth);
    if (st == STET_OK)
        st = parse("seeds", cfg->seeds, &g.seed);
    if (st == STET_OK && mkdir(cfg->out, 0777) != 0 && errno != EEXIST)
        st = cli_fail(STET_EIO, "%s: %s", cfg->out, strerror(errno));
    if (st == STET_OK)
        st = make_points(cfg, &g);
    if (st != STET_OK)
        return st;
    const long cores =
        cfg->common.threads ? (long)cfg->common.threads : sysconf(_SC_NPROCESSORS_ONLN);
    sweep s = {.point = g.point,
               .n = g.n,
               .jobs = (size_t)cfg->jobs,
               .threads = cores / cfg->jobs > 1 ? cores / cfg->jobs : 1,
               .test = cfg->test,
               .train_args = rest->v,
               .n_train_args = rest->n,
               .done = on_done};
    st = sweep_run(&s);
    size_t failed = 0;
    for (size_t i = 0; i < g.n; i++)
        failed += g.point[i].failed;
    if (st == STET_OK)
        st = show(cfg, &g);
    if (st == STET_OK && failed)
        st = cli_fail(STET_EIO, "%zu of %zu points failed; the same command tries them again",
                      failed, g.n);
    free(g.point);
    return st;
}

const cli_command cmd_sweep = {
    .name = "sweep",
    .args = "-- TRAIN OPTIONS",
    .summary = "train over a grid of betas and lambdas, and compare",
    .details = "Every point is a run folder inside the output folder; what is complete is not "
               "computed again, so a sweep that was\n"
               "stopped goes on with the same command, and more values can be added later. What "
               "follows `--` goes to `stet train`.",
    .examples = "  stet sweep -o sweeps/cnn --betas 0,1e-4,1e-3 --seeds 1,2,3 --test test.tsv.xz "
                "--jobs 2 -- \\\n"
                "    --data train.tsv.xz --vectors glove.6B.300d.txt --model cnn --gbm-of logits\n",
    .opts = opts,
    .cfg_size = sizeof(sweep_cfg),
    .max_args = STET_LIST_MAX,
    .run = run,
};
