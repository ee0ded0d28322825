/* cli/cmd_eval.c - stet eval: accuracy, scores of each class, confusion, calibration. */
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/measured.h"
#include "cli/numbers.h"
#include "cli/source.h"
#include "stet/info.h"

typedef struct eval_cfg {
    cli_common common;
    const char *data, *label, *text;
    int64_t limit;
    double require;
    bool skip_bad, record;
} eval_cfg;

static const stet_opt opts[] = {
    STET_OPT_TOPIC("Data"),
    STET_OPT_STR("data", eval_cfg, data, NULL, "FILE", "labelled texts"),
    STET_OPT_STR("label", eval_cfg, label, NULL, "COLUMN", "column or field of the label"),
    STET_OPT_STR("text", eval_cfg, text, NULL, "COLUMN,...", "columns or fields of the text"),
    STET_OPT_FLAG("skip-bad", eval_cfg, skip_bad, "skip malformed lines and report how many"),
    STET_OPT_INT("limit", eval_cfg, limit, "0", 0, 1e12, "N",
                 "a seeded random sample of N texts; 0: all"),
    STET_OPT_REAL("require", eval_cfg, require, "0", 0, 1, "SHARE",
                  "exit with 4 if the accuracy is below"),
    CLI_RECORD_OPT(eval_cfg),
    CLI_COMMON_OPTS(eval_cfg),
    STET_OPT_END,
};

static stet_status sample(const stet_dataset *all, size_t limit, uint64_t seed, stet_dataset **out)
{
    const size_t n = limit && limit < stet_dataset_size(all) ? limit : stet_dataset_size(all);
    size_t *index = malloc((n + 1) * sizeof *index);
    if (!index)
        return cli_fail(STET_ENOMEM, "out of memory");
    const stet_status st =
        stet_dataset_pick(all, index, stet_dataset_sample(all, n, seed, index), out);
    free(index);
    return st;
}

/* ---- printing ----------------------------------------------------------------------------- */

static void print_text(const stet_model *m, const stet_scores *s)
{
    printf("%zu texts: accuracy %.2f %%, loss %.4f, calibration error %.4f\n\n", s->n,
           100 * s->accuracy, s->loss, s->ece);
    cli_table t = {0};
    cli_row(&t, "class", "precision", "recall", "F1", "texts", NULL);
    for (size_t c = 0; c < s->n_classes; c++) {
        size_t n = 0;
        for (size_t j = 0; j < s->n_classes; j++)
            n += s->confusion[c * s->n_classes + j];
        cli_row(&t, stet_model_class_name(m, c), cli_fmt("%.4f", s->precision[c]),
                cli_fmt("%.4f", s->recall[c]), cli_fmt("%.4f", s->f1[c]), cli_fmt("%zu", n), NULL);
    }
    cli_table_print(&t);
    if (s->n_classes > 12)
        return;
    puts("\nconfusion (row: truth, column: answer)");
    for (size_t c = 0; c < s->n_classes; c++) {
        printf("%14.14s", stet_model_class_name(m, c));
        for (size_t j = 0; j < s->n_classes; j++)
            printf(" %8zu", s->confusion[c * s->n_classes + j]);
        putchar('\n');
    }
}

static stet_status report(const eval_cfg *cfg, const char *dir, const stet_model *m,
                          const stet_dataset *all, const stet_scores *s)
{
    json_t *numbers = numbers_of_eval(m, s);
    stet_status st = STET_OK;
    if (cfg->common.json) {
        json_t *o = cli_json_start(&cmd_eval, cfg);
        json_object_update(o, numbers);
        st = cli_json_print(o);
    } else {
        print_text(m, s);
    }
    if (cfg->record)
        cli_record(&(cli_measured){.cmd = &cmd_eval,
                                   .cfg = cfg,
                                   .dir = dir,
                                   .name = "eval",
                                   .model = m,
                                   .data = all,
                                   .data_path = cfg->data,
                                   .texts = s->n},
                   json_incref(numbers));
    json_decref(numbers);
    if (s->accuracy < cfg->require)
        cli_require_failed("accuracy %.4f is below the required %.4f", s->accuracy, cfg->require);
    return st;
}

static stet_status score(const eval_cfg *cfg, const char *dir, const stet_model *m,
                         const stet_dataset *all)
{
    stet_dataset *d = NULL;
    stet_corpus c = {0};
    stet_status st = sample(all, (size_t)cfg->limit, (uint64_t)cfg->common.seed, &d);
    if (st == STET_OK)
        st = stet_model_encode(m, d, &c);
    stet_scores s = {0};
    if (st == STET_OK)
        st = stet_model_scores_on(m, cli_device(&cfg->common), &c, &s);
    if (st == STET_OK)
        st = report(cfg, dir, m, all, &s);
    stet_dataset_free(d);
    stet_scores_deinit(&s);
    stet_corpus_deinit(&c);
    return st;
}

static stet_status run(void *config, const stet_rest *rest)
{
    const eval_cfg *cfg = config;
    if (!cfg->data)
        return cli_usage("expected --data FILE");
    stet_model *m = NULL;
    stet_dataset *d = NULL;
    stet_device_start(cli_device(&cfg->common));
    stet_status st = stet_model_load(rest->v[0], &m);
    if (st == STET_OK)
        st = cli_data_load(&(cli_source){.data = cfg->data,
                                         .label = cfg->label,
                                         .text = cfg->text,
                                         .skip_bad = cfg->skip_bad},
                           m, &d);
    if (st == STET_OK)
        st = score(cfg, rest->v[0], m, d);
    stet_dataset_free(d);
    stet_model_free(m);
    return st;
}

const cli_command cmd_eval = {
    .name = "eval",
    .args = "DIR",
    .summary = "measure accuracy, per-class scores, confusion and calibration",
    .examples = "  stet eval runs/cnn --data test.tsv.xz\n  stet eval runs/cnn --data test.tsv.xz "
                "--limit 1000 --json\n",
    .opts = opts,
    .cfg_size = sizeof(eval_cfg),
    .on_gpu = true,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
