/* cli/cmd_train.c - stet train. The options are the library's, with those of every command. */
#include <string.h>

#include "cli/commands.h"
#include "stet/train.h"

typedef struct train_cfg {
    cli_common common;
    stet_train_settings settings;
    int64_t steps; /* stet bench train */
    const char *dump;
} train_cfg;

static const stet_opt common_opts[] = {CLI_COMMON_OPTS(train_cfg), STET_OPT_END};
enum { N_COMMON = sizeof common_opts / sizeof *common_opts };
static const stet_opt bench_opts[] = {
    STET_OPT_TOPIC("Timing"),
    STET_OPT_INT("steps", train_cfg, steps, "100", 0, 1e9, "N", "steps to time; 0: one epoch"),
    STET_OPT_STR("dump", train_cfg, dump, NULL, "DIR",
                 "write the untrained model and the batches there, for a rival"),
};
enum { N_BENCH = sizeof bench_opts / sizeof *bench_opts, MOST_OPTS = 256 };
static stet_opt table[MOST_OPTS], bench_table[N_BENCH + MOST_OPTS];

__attribute__((constructor)) static void build_table(void)
{
    const stet_opt *o = stet_train_options();
    size_t n = 0;
    for (; o->type != STET_T_END && n + N_COMMON < MOST_OPTS; o++) {
        table[n] = *o;
        table[n++].offset += offsetof(train_cfg, settings);
    }
    memcpy(table + n, common_opts, sizeof common_opts);
    memcpy(bench_table, bench_opts, sizeof bench_opts);
    memcpy(bench_table + N_BENCH, table, sizeof table);
}

/* ---- running ------------------------------------------------------------------------------ */

static stet_status print_result(const train_cfg *cfg, const char *out, const stet_train_result *r)
{
    if (!cfg->common.json) {
        printf("%s: validation accuracy %.2f %% (epoch %zu of %zu), %.1f s, %.1f s per epoch\n",
               out, 100 * r->valid_accuracy, r->best_epoch, r->epochs, r->seconds,
               r->seconds_per_epoch);
        return STET_OK;
    }
    json_t *o = cli_json_start(&cmd_train, cfg);
    json_object_update_new(
        o, json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "out",
                     cli_json_string(out), "epochs", (json_int_t)r->epochs, "best_epoch",
                     (json_int_t)r->best_epoch, "steps", (json_int_t)r->steps, "train_texts",
                     (json_int_t)r->n_train, "valid_texts", (json_int_t)r->n_valid, "words",
                     (json_int_t)r->n_words, "valid_accuracy", r->valid_accuracy, "valid_loss",
                     r->valid_loss, "seconds", r->seconds, "seconds_per_epoch",
                     r->seconds_per_epoch, "smooth_residual", r->smooth_residual));
    return cli_json_print(o);
}

static stet_status before(const void *config, const char *const **out)
{
    const train_cfg *cfg = config;
    return stet_train_settings_recipe(&cfg->settings, out);
}

/* What the command line says, as the library wants it; *store is for stet_free(). */
static stet_status fill_args(const train_cfg *cfg, bool folder, stet_train_args *a, void **store)
{
    const stet_status st = stet_train_settings_args(&cfg->settings, a, store);
    if (st != STET_OK)
        return st;
    a->seed = (uint64_t)cfg->common.seed;
    a->device = cli_device(&cfg->common);
    size_t kind = 0;
    while (strcmp(stet_model_kind_name(kind), a->model) != 0)
        kind++;
    const bool vectors = a->n_vectors || stet_model_kind_training(kind).reads_itself,
               out = a->out || !folder;
    return a->data && vectors && out
               ? STET_OK
               : cli_usage("expected --data FILE%s --vectors FILE%s; missing:%s%s%s",
                           folder ? "," : " and", folder ? " and -o DIR" : "",
                           a->data ? "" : " --data", vectors ? "" : " --vectors", out ? "" : " -o");
}

static stet_status run(void *config, const stet_rest *rest)
{
    (void)rest;
    const train_cfg *cfg = config;
    stet_train_args a;
    void *store;
    stet_train_result result;
    stet_status st = fill_args(cfg, true, &a, &store);
    if (st == STET_OK)
        st = stet_train(&a, &result);
    if (st == STET_OK)
        st = print_result(cfg, a.out, &result);
    stet_free(store);
    return st;
}

const cli_command cmd_train = {
    .name = "train",
    .args = "",
    .summary = "train a classifier into a run folder",
    .details = "The folder holds config.json, model.safetensors, vocab.txt, train.jsonl and a "
               "model card. Ctrl-C leaves a checkpoint; --resume continues from it and ends "
               "in the same bytes as an undisturbed run. Without --resume an older run in the "
               "folder is replaced, but files that no run wrote are kept.",
    .examples = "  stet train --data train.tsv.xz --vectors glove.6B.300d.txt -o runs/cnn\n"
                "  stet train --data train.csv --model bilstm --vectors glove.txt --seed 7 -o "
                "runs/bilstm --resume\n"
                "  stet train --data train.tsv.xz --vectors glove.txt --synonyms jia.subst \\\n"
                "    --recipe robust -o runs/robust\n",
    .opts = table,
    .cfg_size = sizeof(train_cfg),
    .on_gpu = true,
    .run = run,
    .before = before,
};

/* ---- stet bench train --------------------------------------------------------------------- */

static stet_status bench(void *config, const stet_rest *rest)
{
    (void)rest;
    const train_cfg *cfg = config;
    enum { N_LOSS = 20 };
    stet_train_args a;
    void *store;
    double loss[N_LOSS] = {0};
    stet_train_bench b;
    stet_status st = fill_args(cfg, false, &a, &store);
    if (st == STET_OK)
        st = stet_train_time(&a, (size_t)cfg->steps, cfg->dump, loss, N_LOSS, &b);
    stet_free(store);
    if (st != STET_OK)
        return st;
    if (!cfg->common.json) {
        printf("%s: %zu steps in %.2f s: %.1f ms a step, %.0f words/s, one epoch of %zu steps "
               "takes %.1f s\n",
               a.model, b.steps, b.seconds, 1e3 * b.seconds / (double)b.steps,
               (double)b.tokens / b.seconds, b.steps_per_epoch, b.epoch_seconds);
        return STET_OK;
    }
    json_t *losses = json_array();
    for (size_t i = 0; i < N_LOSS && i < b.steps; i++)
        json_array_append_new(losses, json_real(loss[i]));
    json_t *o = cli_json_start(&cmd_bench_train, cfg);
    json_object_update_new(o,
                           json_pack("{s:I, s:I, s:I, s:f, s:f, s:o}", "steps", (json_int_t)b.steps,
                                     "steps_per_epoch", (json_int_t)b.steps_per_epoch, "tokens",
                                     (json_int_t)b.tokens, "seconds", b.seconds, "epoch_seconds",
                                     b.epoch_seconds, "losses", losses));
    return cli_json_print(o);
}

const cli_command cmd_bench_train = {
    .name = "bench train",
    .args = "",
    .summary = "time training steps, without writing a model",
    .details = "With --dump the same batches and the same initial weights are written for another "
               "program;\n"
               "bench/train_vs_torch.py runs PyTorch on them and compares losses, then times.",
    .examples =
        "  stet bench train --data train.tsv.xz --vectors glove.txt --model bilstm --steps 100\n",
    .opts = bench_table,
    .cfg_size = sizeof(train_cfg),
    .on_gpu = true,
    .run = bench,
    .before = before,
};
