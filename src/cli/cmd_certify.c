/* cli/cmd_certify.c - stet certify: for how many texts no combination of substitutions changes the
 * answer, proved. */
#include "cli/commands.h"
#include "cli/measured.h"
#include "cli/numbers.h"
#include "cli/prove.h"
#include "cli/source.h"
#include "stet/info.h"

typedef struct certify_cfg {
    cli_common common;
    cli_source source;
    cli_prove prove;
    const char *out, *export_dir;
    double require;
    bool record;
} certify_cfg;

static const stet_opt opts[] = {
    CLI_SOURCE_OPTS(certify_cfg),
    CLI_SHARD_OPT(certify_cfg),
    CLI_PROVE_OPTS(certify_cfg),
    STET_OPT_TOPIC("Output"),
    STET_OPT_OUT(certify_cfg, out, NULL,
                 "certificates for `stet verify`, one JSON line per text (docs/formats.md); an "
                 "unfinished run leaves PATH.part, and the same command continues it"),
    STET_OPT_STR(
        "export", certify_cfg, export_dir, NULL, "DIR",
        "write the question of each text for other verifiers, as ONNX and VNN-LIB (cnn, sum)"),
    STET_OPT_REAL("require", certify_cfg, require, "0", 0, 1, "SHARE",
                  "exit with 4 if the certified share is below"),
    CLI_RECORD_OPT(certify_cfg),
    CLI_COMMON_OPTS(certify_cfg),
    STET_OPT_END,
};

static void print_text(const certify_cfg *cfg, const stet_certify_result *r)
{
    const bool budget = cfg->prove.budget > 0;
    printf("%zu texts, %.1f words of a text can change, %.2f substitutes each; %s\n\n", r->n,
           r->attackable_mean, r->candidates_mean,
           budget ? cli_fmt("at most %lld of them at once", (long long)cfg->prove.budget)
                  : "all of them at once");
    static const struct {
        stet_verdict v;
        const char *what;
    } rows[] = {{STET_CERTIFIED, "proved: no combination changes the answer"},
                {STET_BROKEN, "flipped: a combination that changes it is known"},
                {STET_UNDECIDED, "open: neither proved nor flipped"},
                {STET_WRONG, "wrong before any change"},
                {STET_LIKELY, NULL}};
    cli_table t = {0};
    cli_row(&t, "verdict", "texts", "share", "", NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t n = r->verdicts[rows[i].v];
        if (rows[i].v == STET_LIKELY && r->confidence == 0)
            continue; /* of a model that votes only */
        cli_row(&t, stet_verdict_name(rows[i].v), cli_fmt("%zu", n),
                cli_fmt("%.1f %%", r->n ? 100.0 * (double)n / (double)r->n : 0.0),
                rows[i].v == STET_LIKELY
                    ? cli_fmt("holds at confidence %.10g: no proof", r->confidence)
                    : rows[i].what,
                NULL);
    }
    cli_table_print(&t);
    double bins[STET_MARGIN_BINS], most = 0;
    for (size_t k = 0; k < STET_MARGIN_BINS; k++) {
        bins[k] = (double)r->margin_bins[k];
        most = bins[k] > most ? bins[k] : most;
    }
    printf("\naccuracy %.1f %%, certified %.1f %%\n", 100 * r->clean, 100 * r->certified);
    if (r->confidence == 0) /* votes have no margin that is proved */
        printf("proved margins %.3g %s %.3g, of which rounding takes %.1g\n", r->margin_lo,
               cli_spark(bins, STET_MARGIN_BINS, 0, most), r->margin_hi, r->slack_mean);
    if (*r->method)
        printf("proved by %s\n", r->method);
    if (cfg->prove.largest && r->confidence == 0) {
        fputs("texts proved robust to N substitutions:", stdout);
        for (size_t k = 1; k < r->n_budget && k <= 10; k++)
            printf(" %zu: %zu", k, r->budget_at_least[k]);
        printf("%s any: %zu\n", r->n_budget > 11 ? " ..." : "", r->verdicts[STET_CERTIFIED]);
    }
    printf("%.1f s, %s\n", r->seconds,
           cli_rate(r->seconds > 0 ? (double)r->n / r->seconds : 0.0, "texts"));
}

static stet_status report(const certify_cfg *cfg, const char *dir, const cli_texts *t,
                          const stet_certify_args *a, const stet_certify_result *r,
                          const stet_kept *kept)
{
    json_t *numbers = numbers_of_certify(&a->how, r, kept);
    if (!numbers)
        return cli_fail(STET_ENOMEM, "out of memory");
    stet_status st = STET_OK;
    if (cfg->common.json) {
        json_t *o = cli_json_start(&cmd_certify, cfg);
        json_object_set_new(o, "seed", json_integer(cfg->common.seed));
        json_object_set_new(o, "fingerprints", cli_fingerprints(t));
        json_object_update(o, numbers);
        numbers_drop_lists(o);
        st = cli_json_print(o);
    } else {
        print_text(cfg, r);
    }
    if (cfg->record)
        cli_record(&(cli_measured){.cmd = &cmd_certify,
                                   .cfg = cfg,
                                   .dir = dir,
                                   .name = cli_fmt("certify-%s", cfg->prove.method),
                                   .model = t->model,
                                   .data = t->data,
                                   .data_path = cfg->source.data,
                                   .texts = t->n_index,
                                   .sets = &t->sets,
                                   .sets_path = cfg->source.synonyms},
                   json_incref(numbers));
    json_decref(numbers);
    if (r->n > 0 && r->candidates_mean == 0)
        cli_note_no_swaps(&cfg->source);
    if (r->unbounded)
        cli_note("warning: %zu texts could not be bounded and count as undecided; the first: %s",
                 r->unbounded, r->reason);
    if (r->certified < cfg->require)
        cli_require_failed("the certified share is %.4f, below the required %.4f", r->certified,
                           cfg->require);
    return st;
}

static stet_status certify(const certify_cfg *cfg, const char *dir, const cli_texts *t)
{
    stet_kept *kept;
    if (stet_kept_new(t->model, &kept) != STET_OK)
        return STET_ENOMEM;
    stet_certify_args a = cli_prove_args(&cfg->prove, t, dir);
    a.file = cfg->out;
    a.export_dir = cfg->export_dir;
    a.device = cli_device(&cfg->common);
    a.each = stet_kept_certified, a.each_user = kept;
    stet_certify_result r;
    stet_status st = stet_certify_run(&a, &r);
    if (st == STET_OK) {
        st = report(cfg, dir, t, &a, &r, kept);
        stet_certify_result_deinit(&r);
    }
    stet_kept_free(kept);
    return st;
}

static stet_status run(void *config, const stet_rest *rest)
{
    const certify_cfg *cfg = config;
    cli_texts t = {0};
    stet_device_start(cli_device(&cfg->common));
    stet_status st = cli_texts_load(&cfg->source, rest->v[0], (uint64_t)cfg->common.seed, &t);
    if (st == STET_OK)
        st = certify(cfg, rest->v[0], &t);
    cli_texts_free(&t);
    return st;
}

const cli_command cmd_certify = {
    .name = "certify",
    .args = "DIR",
    .summary = "prove that no combination of synonyms changes a model's answer",
    .details = "\"certified\" is the share of all texts that are classified correctly and for "
               "which every combination of substitutes is proved to get the same answer from "
               "the float32 program, rounding included. docs/certificates.md says what is "
               "proved and what is not, and describes the methods. Nothing is proved for a "
               "model that answers by votes: its texts can be \"likely\", with a confidence, and "
               "do not count as certified.",
    .examples =
        "  stet certify runs/cnn --data test.tsv.xz --synonyms jia.subst --limit 1000\n"
        "  stet certify runs/cnn --data test.tsv.xz --synonyms jia.subst --complete -o cnn.cert\n"
        "  stet certify runs/cnn --data test.tsv.xz --synonyms jia.subst --budget 3 --json\n",
    .opts = opts,
    .cfg_size = sizeof(certify_cfg),
    .on_gpu = true,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
