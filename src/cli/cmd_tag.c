/* cli/cmd_tag.c - stet tag train, eval, run: part-of-speech tags. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "stet/lexicon.h"

/* NULL and "builtin" mean the built-in tagger. */
static stet_status load_tagger(const char *path, stet_tagger **out)
{
    return !path || strcmp(path, "builtin") == 0 ? stet_tagger_builtin(out)
                                                 : stet_tagger_load(path, out);
}

/* ---- train --------------------------------------------------------------------------------- */

typedef struct train_cfg {
    cli_common common;
    const char *data, *out;
    int64_t epochs;
} train_cfg;

static const stet_opt train_opts[] = {
    STET_OPT_TOPIC("Training"),
    STET_OPT_STR("data", train_cfg, data, NULL, "FILE",
                 "treebank in CoNLL-U with tags in column 5"),
    STET_OPT_OUT(train_cfg, out, NULL, "the tagger's file; .gz, .xz and .zst compress it"),
    STET_OPT_INT("epochs", train_cfg, epochs, "10", 1, 1000, "N", "passes over the treebank"),
    CLI_COMMON_OPTS(train_cfg),
    STET_OPT_END,
};

static stet_status run_train(void *config, const stet_rest *rest)
{
    (void)rest;
    const train_cfg *cfg = config;
    if (!cfg->data || !cfg->out)
        return cli_usage("tag train needs --data FILE and --out FILE");
    stet_tagger *t = NULL;
    stet_status st = cli_can_write(cfg->out);
    if (st == STET_OK)
        st = stet_tagger_train(cfg->data, (size_t)cfg->epochs, (uint64_t)cfg->common.seed, &t);
    if (st == STET_OK)
        st = stet_tagger_save(t, cfg->out);
    stet_tagger_free(t);
    if (st != STET_OK)
        return st;
    if (cfg->common.json)
        return cli_json_print(cli_json_start(&cmd_tag_train, cfg));
    cli_note("wrote %s", cfg->out);
    return STET_OK;
}

const cli_command cmd_tag_train = {
    .name = "tag train",
    .args = "",
    .summary = "train a part-of-speech tagger on a treebank",
    .examples = "  stet tag train --data en_ewt-ud-train.conllu.xz -o tagger.tsv.xz\n",
    .opts = train_opts,
    .cfg_size = sizeof(train_cfg),
    .run = run_train,
};

/* ---- eval ---------------------------------------------------------------------------------- */

typedef struct eval_cfg {
    cli_common common;
    double require;
} eval_cfg;

static const stet_opt eval_opts[] = {
    STET_OPT_TOPIC("Checking"),
    STET_OPT_REAL("require", eval_cfg, require, "0", 0, 1, "SHARE",
                  "exit with 4 if the accuracy is below"),
    CLI_COMMON_OPTS(eval_cfg),
    STET_OPT_END,
};

static stet_status run_eval(void *config, const stet_rest *rest)
{
    const eval_cfg *cfg = config;
    stet_tagger *t;
    size_t right = 0, total = 0;
    stet_status st = load_tagger(rest->v[0], &t);
    if (st == STET_OK)
        st = stet_tagger_eval(t, rest->v[1], &right, &total);
    stet_tagger_free(t);
    if (st != STET_OK)
        return st;
    const double accuracy = total ? (double)right / (double)total : 0;
    if (cfg->common.json) {
        json_t *o = cli_json_start(&cmd_tag_eval, cfg);
        json_object_set_new(o, "accuracy", json_real(accuracy));
        json_object_set_new(o, "n", json_integer((json_int_t)total));
        st = cli_json_print(o);
    } else {
        printf("%zu words: accuracy %.2f %%\n", total, 100 * accuracy);
    }
    if (accuracy < cfg->require)
        cli_require_failed("accuracy %.4f is below %.4f", accuracy, cfg->require);
    return st;
}

const cli_command cmd_tag_eval = {
    .name = "tag eval",
    .args = "TAGGER FILE",
    .summary = "measure a tagger on a treebank",
    .details =
        "TAGGER is a file written by `stet tag train` (or NLTK's weights in the same text form),\n"
        "or the word builtin.",
    .examples = "  stet tag eval tagger.tsv.xz en_ewt-ud-test.conllu.xz\n"
                "  stet tag eval builtin en_ewt-ud-test.conllu.xz --json\n",
    .opts = eval_opts,
    .cfg_size = sizeof(eval_cfg),
    .min_args = 2,
    .max_args = 2,
    .run = run_eval,
};

/* ---- run ----------------------------------------------------------------------------------- */

typedef struct run_cfg {
    cli_common common;
    const char *tagger;
} run_cfg;

static const stet_opt run_opts[] = {
    STET_OPT_TOPIC("Tagging"),
    STET_OPT_STR("tagger", run_cfg, tagger, NULL, "FILE", "a tagger's file; default: built-in"),
    CLI_COMMON_OPTS(run_cfg),
    STET_OPT_END,
};

static stet_status print_tags(const run_cfg *cfg, const char *const *words, const char *const *tags,
                              size_t n)
{
    if (!cfg->common.json) {
        for (size_t i = 0; i < n; i++)
            printf("%s\t%s\n", words[i], tags[i]);
        putchar('\n');
        return cli_printed();
    }
    json_t *o = cli_json_start(&cmd_tag_run, cfg), *w = json_array(), *t = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(w, cli_json_string(words[i]));
        json_array_append_new(t, json_string(tags[i]));
    }
    json_object_set_new(o, "words", w);
    json_object_set_new(o, "tags", t);
    return cli_json_print(o);
}

/* Words as they are written: a tagger needs their capitals. */
static stet_status tag_words(const run_cfg *cfg, const stet_tagger *t, const char *text, size_t len,
                             const stet_tokens *tokens)
{
    const char **words = malloc((tokens->n + 1) * sizeof *words);
    const char **tags = malloc((tokens->n + 1) * sizeof *tags);
    char *copy = malloc(len + tokens->n + 1);
    stet_status st = words && tags && copy ? STET_OK : cli_fail(STET_ENOMEM, "out of memory");
    char *end = copy;
    for (size_t i = 0; st == STET_OK && i < tokens->n; i++) {
        const size_t n = tokens->v[i].end - tokens->v[i].start;
        words[i] = memcpy(end, text + tokens->v[i].start, n);
        end[n] = '\0';
        end += n + 1;
    }
    if (st == STET_OK)
        st = stet_tagger_tag(t, words, tokens->n, tags);
    if (st == STET_OK)
        st = print_tags(cfg, words, tags, tokens->n);
    free(words);
    free(tags);
    free(copy);
    return st;
}

typedef struct tagging {
    const run_cfg *cfg;
    stet_tagger *t;
} tagging;

static stet_status tag_text(void *user, const char *text, size_t len)
{
    const tagging *g = user;
    stet_tokens tokens = {0};
    stet_status st = stet_tokenize(STET_TOK_WORD, text, len, &tokens);
    if (st == STET_OK)
        st = tag_words(g->cfg, g->t, text, len, &tokens);
    stet_tokens_deinit(&tokens);
    return st;
}

static stet_status run_run(void *config, const stet_rest *rest)
{
    tagging g = {.cfg = config};
    cli_end_at_once();
    stet_status st = load_tagger(g.cfg->tagger, &g.t);
    for (size_t i = 0; st == STET_OK && i < rest->n; i++)
        st = tag_text(&g, rest->v[i], strlen(rest->v[i]));
    if (st == STET_OK && rest->n == 0)
        st = cli_each_line(tag_text, NULL, &g);
    stet_tagger_free(g.t);
    return st;
}

const cli_command cmd_tag_run = {
    .name = "tag run",
    .args = "[TEXT...]",
    .summary = "print the Penn tags of texts, one word per line",
    .details = "Without TEXT, each line of standard input is a text.",
    .examples = "  stet tag run \"This movie was terribly boring.\"\n"
                "  stet tag run --tagger tagger.tsv.xz --json < reviews.txt\n",
    .opts = run_opts,
    .cfg_size = sizeof(run_cfg),
    .max_args = STET_REST_MAX,
    .run = run_run,
};
