/* cli/cmd_embed.c - stet embed: word vectors from your own texts. */
#include <string.h>

#include "cli/commands.h"
#include "stet/text.h"

typedef struct embed_cfg {
    cli_common common;
    const char *data, *out;
    int tokenizer;
    bool unlabelled;
    int64_t dim, window, epochs, min_count;
    double rate, x_max;
} embed_cfg;

static const stet_opt opts[] = {
    STET_OPT_TOPIC("Files"),
    STET_OPT_STR("data", embed_cfg, data, NULL, "FILE", "the corpus; labels are ignored"),
    STET_OPT_FLAG("unlabelled", embed_cfg, unlabelled, "every line of the corpus is a text"),
    STET_OPT_OUT(embed_cfg, out, NULL,
                 "GloVe text, or word2vec binary if it ends in .bin; .gz, .xz, .zst compress"),
    STET_OPT_TOPIC("Words"),
    STET_OPT_CHOICE("tokenizer", embed_cfg, tokenizer, "word", "word|keras",
                    "how texts are cut into words"),
    STET_OPT_INT("min-count", embed_cfg, min_count, "2", 1, 1e9, "N",
                 "leave out words that occur fewer times"),
    STET_OPT_INT("window", embed_cfg, window, "10", 1, 1000, "N",
                 "words at most this far apart count as a pair"),
    STET_OPT_TOPIC("Training"),
    STET_OPT_INT("dim", embed_cfg, dim, "100", 1, 65536, "N", "numbers of a vector"),
    STET_OPT_INT("epochs", embed_cfg, epochs, "15", 1, 1e6, "N", "passes over the pairs"),
    STET_OPT_REAL("rate", embed_cfg, rate, "0.05", 1e-9, 10, "X", "learning rate of AdaGrad"),
    STET_OPT_REAL("x-max", embed_cfg, x_max, "10", 1e-9, 1e9, "X",
                  "pairs seen less often than this weigh less"),
    CLI_COMMON_OPTS(embed_cfg),
    STET_OPT_END,
};

static bool ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

static stet_status report(const embed_cfg *cfg, const stet_vectors *t, double seconds)
{
    if (!cfg->common.json) {
        cli_note("%zu words, %zu numbers each, in %.1f s: %s", t->n_known, t->dim, seconds,
                 cfg->out);
        return STET_OK;
    }
    json_t *o = cli_json_start(&cmd_embed, cfg);
    json_object_set_new(o, "words", json_integer((json_int_t)t->n_known));
    json_object_set_new(o, "dim", json_integer((json_int_t)t->dim));
    json_object_set_new(o, "seconds", json_real(seconds));
    return cli_json_print(o);
}

static stet_status run(void *config, const stet_rest *rest)
{
    (void)rest;
    const embed_cfg *cfg = config;
    if (!cfg->data || !cfg->out)
        return cli_usage("--data FILE and -o FILE are needed");
    stet_status st = cli_can_write(cfg->out);
    if (st != STET_OK)
        return st;
    const stet_data_options reading = {.header = -1, .unlabelled = cfg->unlabelled};
    stet_embed_options how = STET_EMBED_DEFAULTS;
    how.dim = (size_t)cfg->dim;
    how.window = (size_t)cfg->window;
    how.epochs = (size_t)cfg->epochs;
    how.min_count = (uint64_t)cfg->min_count;
    how.seed = (uint64_t)cfg->common.seed;
    how.rate = cfg->rate;
    how.x_max = cfg->x_max;
    const double start = cli_now();
    stet_dataset *data = NULL;
    stet_vocab *v = NULL;
    stet_vectors t = {0};
    st = stet_dataset_load(cfg->data, &reading, &data);
    if (st == STET_OK)
        st = stet_embed_train(data, (stet_tokenizer)cfg->tokenizer, &how, &v, &t);
    if (st == STET_OK)
        st = (ends_with(cfg->out, ".bin") ? stet_vectors_save_binary
                                          : stet_vectors_save_text)(&t, v, cfg->out);
    if (st == STET_OK)
        st = report(cfg, &t, cli_now() - start);
    stet_vectors_deinit(&t);
    stet_vocab_free(v);
    stet_dataset_free(data);
    return st;
}

const cli_command cmd_embed = {
    .name = "embed",
    .args = "--data FILE -o FILE",
    .summary = "train word vectors on your own texts",
    .details = "Uses GloVe (Pennington et al. 2014). The same seed gives the same file with "
               "any number of threads.",
    .examples =
        "  stet embed --data train.tsv.xz -o vectors.txt.xz\n"
        "  stet embed --data reviews.txt --unlabelled --dim 50 --min-count 5 -o vectors.bin\n",
    .opts = opts,
    .cfg_size = sizeof(embed_cfg),
    .run = run,
};
