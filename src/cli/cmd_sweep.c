/* cli/cmd_sweep.c - stet sweep: a grid over options of training, with several seeds. With --blocks it
 * chooses settings on held-out blocks. */
#include <stdlib.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/sweep_frontier.h"
#include "cli/sweep_show.h"
#include "stet/attack.h"
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

/* ---- the frontier ------------------------------------------------------------------------- */

static sweep_page page_of(const sweep_cfg *cfg)
{
    return (sweep_page){.cfg = cfg, .out = cfg->out, .json = cfg->common.json};
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
    const sweep_page page = page_of(cfg);
    stet_status st = sweep_show_cells(&page, s, g, chosen, n);
    if (st == STET_OK)
        st = sweep_final_points(g, cfg->out, chosen, n, &final.point);
    if (st == STET_OK) {
        sweep_plan(&final);
        st = sweep_frontier_script(g, &final, cfg->out, blocks, chosen, n);
    }
    if (st == STET_OK && cfg->source.data) {
        st = sweep_run(&final);
        if (st == STET_OK)
            st = sweep_show_final(&page, &final, g, n);
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
    const sweep_page page = page_of(cfg);
    sweep_plan(s);
    stet_status st = sweep_run(s);
    const size_t failed = st == STET_OK ? sweep_failed(s) : 0;
    if (st == STET_OK && !(failed && blocks)) /* a choice needs all of them */
        st = blocks ? choose(cfg, s, g, blocks) : sweep_show(&page, s, g);
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
               .done = sweep_tell};
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
