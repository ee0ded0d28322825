/* cli/cmd_ensemble.c - stet ensemble: several run folders as one model whose logits are their sum. */
#include "cli/commands.h"
#include "stet/model.h"

typedef struct ensemble_cfg {
    cli_common common;
    const char *out;
} ensemble_cfg;

static const stet_opt opts[] = {
    STET_OPT_TOPIC("Ensemble"),
    STET_OPT_OUT(ensemble_cfg, out, NULL, "folder for the ensemble"),
    CLI_COMMON_OPTS(ensemble_cfg),
    STET_OPT_END,
};

static stet_status run(void *config, const stet_rest *rest)
{
    const ensemble_cfg *cfg = config;
    if (!cfg->out)
        return cli_usage("expected -o DIR");
    stet_model *m;
    stet_status st = stet_model_ensemble(rest->v, rest->n, &m);
    if (st != STET_OK)
        return st;
    st = stet_model_save(m, cfg->out);
    stet_model_free(m);
    if (st == STET_OK && cfg->common.json) {
        json_t *o = cli_json_start(&cmd_ensemble, cfg);
        json_object_set_new(o, "members", json_integer((json_int_t)rest->n));
        st = cli_json_print(o);
    } else if (st == STET_OK) {
        printf("%s: %zu models that answer as one\n", cfg->out, rest->n);
    }
    return st;
}

const cli_command cmd_ensemble = {
    .name = "ensemble",
    .args = "RUN RUN...",
    .summary = "make one model of several: their logits are added",
    .details = "The ensemble is a run folder of its own, with copies of its members: predict, eval, "
               "attack, certify and verify take it like any other. Its certificates are sums of the "
               "members' bounds. Members must have the same classes, tokeniser and --max-len; kinds "
               "and settings may differ. Words that the first one does not know are unknown to all. "
               "`stet train --teacher` distils an ensemble into one model.",
    .examples = "  stet ensemble runs/cnn-1 runs/cnn-2 runs/sum -o runs/three\n"
                "  stet certify runs/three --data test.tsv.xz --synonyms jia.subst --limit 1000\n",
    .opts = opts,
    .cfg_size = sizeof(ensemble_cfg),
    .min_args = 2,
    .max_args = STET_REST_MAX,
    .run = run,
};
