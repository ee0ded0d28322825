/* cli/cmd_sweep.c - stet sweep: a grid over options of training, with several seeds. With --blocks it
 * chooses settings on held-out blocks. The work is the library's (stet/sweep.h). */
#include "cli/sweep_show.h"

#include "cli/source.h"

static const stet_opt opts[] = {
    STET_OPT_TOPIC("Grid"),
    STET_OPT_STR("betas", sweep_cfg, betas, NULL, "B,B,...",
                 "weights of the growth bound; 0 is standard training"),
    STET_OPT_STR("kappas", sweep_cfg, kappas, NULL, "K,K,...",
                 "weights of the worst case in --defense certified"),
    STET_OPT_STR("smooths", sweep_cfg, smooths, NULL, "L,L,...",
                 "lambdas of synonym-smoothed vectors; 0: as loaded"),
    STET_OPT_LIST("over", sweep_cfg, over, "NAME=V,V,...",
                  "values of any other option of `stet train`; repeat for several options"),
    STET_OPT_STR("seeds", sweep_cfg, seeds, "1", "N,N,...", "a run for each"),
    STET_OPT_TOPIC("Choosing settings"),
    STET_OPT_INT("blocks", sweep_cfg, blocks, "0", 0, 32, "N",
                 "hold out N blocks of consecutive texts of --data in turn, train on the rest, "
                 "certify the block, and choose the settings that no other beats in both clean and "
                 "certified accuracy"),
    STET_OPT_REAL("block-share", sweep_cfg, block_share, "0.1", 0.01, 0.5, "SHARE",
                  "share of --data in a block"),
    STET_OPT_TOPIC("Measuring"),
    STET_OPT_STR("test", sweep_cfg, test, NULL, "FILE",
                 "texts to measure accuracy on that took no part in training; with --blocks only "
                 "the chosen settings are, trained on all of --data"),
    STET_OPT_STR("attack", sweep_cfg, attack, NULL, "NAME",
                 "accuracy under this attack, with its usual settings (greedy, pwws, ...)"),
    STET_OPT_FLAG("certify", sweep_cfg, certify, "the certified share; implied by --blocks"),
    STET_OPT_STR("synonyms", sweep_cfg, synonyms, NULL, "SET",
                 "for --attack and --certify: " CLI_SYNONYMS_HELP
                 "; with --blocks by default those of training"),
    STET_OPT_INT("limit", sweep_cfg, limit, "0", 0, 1e12, "N",
                 "for --attack and --certify: a random sample of N texts, drawn by --seed and the "
                 "same for every run; 0: all"),
    STET_OPT_TOPIC("Running"),
    STET_OPT_OUT(sweep_cfg, out, NULL, "folder: a run folder for each point, plots"),
    STET_OPT_INT("jobs", sweep_cfg, jobs, "1", 1, 1024, "N",
                 "runs side by side; they share the threads"),
    CLI_COMMON_OPTS(sweep_cfg),
    STET_OPT_END,
};

/* The result is told also where some points failed; a choice needs all of them. */
static stet_status show(const sweep_cfg *cfg, const stet_sweep_result *r)
{
    stet_status st = STET_OK;
    if (!(r->failed && cfg->blocks && !r->n_final))
        st = sweep_show_cells(cfg, r);
    if (st == STET_OK && r->n_final)
        st = sweep_show_final(cfg, r);
    return st == STET_OK && r->failed
               ? cli_fail(STET_EIO,
                          "%zu of %zu points failed; run the same command again to retry them",
                          r->failed, r->points)
               : st;
}

static stet_status run(void *config, const stet_rest *rest)
{
    const sweep_cfg *cfg = config;
    stet_sweep_result r;
    const stet_sweep_args a = {.size = sizeof a,
                               .out = cfg->out,
                               .betas = cfg->betas,
                               .kappas = cfg->kappas,
                               .smooths = cfg->smooths,
                               .over = cfg->over.v,
                               .n_over = cfg->over.n,
                               .seeds = cfg->seeds,
                               .train = rest->v,
                               .n_train = rest->n,
                               .blocks = (size_t)cfg->blocks,
                               .block_share = cfg->block_share,
                               .test = cfg->test,
                               .attack = cfg->attack,
                               .certify = cfg->certify,
                               .synonyms = cfg->synonyms,
                               .limit = (size_t)cfg->limit,
                               .seed = (uint64_t)cfg->common.seed,
                               .jobs = (size_t)cfg->jobs,
                               .each = sweep_tell};
    stet_status st = stet_sweep(&a, &r);
    if (st == STET_OK)
        st = show(cfg, &r);
    stet_sweep_result_deinit(&r);
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
    .max_args = 64,
    .run = run,
};
