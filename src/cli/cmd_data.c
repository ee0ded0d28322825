/* cli/cmd_data.c - stet data info, get, convert: look at a corpus, fetch one, convert one. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "stet/text.h"

typedef struct data_cfg {
    cli_common common;
    int format, header, tokenizer;
    const char *label, *text, *out, *sha256;
    bool skip_bad, unlabelled;
    stet_strings vectors;
    int64_t limit;
} data_cfg;

#define READING_OPTS                                                                               \
    STET_OPT_TOPIC("Reading"),                                                                     \
        STET_OPT_CHOICE("format", data_cfg, format, "auto", "auto|tsv|csv|jsonl|fasttext|aclimdb", \
                        "form of the corpus; auto: by its name and content"),                      \
        STET_OPT_STR("label", data_cfg, label, NULL, "COLUMN",                                     \
                     "column (name, or number from 1) or field of the label"),                     \
        STET_OPT_STR("text", data_cfg, text, NULL, "COLUMN,...",                                   \
                     "columns or fields of the text, joined by a space"),                          \
        STET_OPT_CHOICE("header", data_cfg, header, "auto", "auto|no|yes",                         \
                        "TSV, CSV: does the first line hold names?"),                              \
        STET_OPT_FLAG("skip-bad", data_cfg, skip_bad, "skip malformed lines and report how many"), \
        STET_OPT_FLAG("unlabelled", data_cfg, unlabelled, "texts without labels")

static stet_status load(const data_cfg *cfg, const char *path, stet_dataset **out)
{
    const stet_data_options how = {
        .format = (stet_data_format)cfg->format,
        .label = cfg->label,
        .text = cfg->text,
        .header = cfg->header - 1, /* auto, no, yes */
        .skip_bad = cfg->skip_bad,
        .unlabelled = cfg->unlabelled,
    };
    return stet_dataset_load(path, &how, out);
}

/* ---- data info ---------------------------------------------------------------------------- */

typedef struct facts {
    stet_dataset *data;
    size_t *class_texts;
    uint64_t tokens, known, fingerprint;
    size_t words, known_words;
    double mean;
    size_t median, p90, longest; /* tokens of a text */
} facts;

static int by_size(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* The smallest length that at least this share of the texts does not exceed. */
static size_t quantile(const size_t *sorted, size_t n, double share)
{
    size_t rank = (size_t)(share * (double)n);
    rank += (double)rank < share * (double)n;
    return sorted[rank ? rank - 1 : 0];
}

static stet_status measure_lengths(const stet_corpus *c, facts *f)
{
    size_t *length = malloc(c->n_texts * sizeof *length);
    if (!length)
        return cli_fail(STET_ENOMEM, "out of memory");
    for (size_t i = 0; i < c->n_texts; i++)
        length[i] = (size_t)(c->start[i + 1] - c->start[i]);
    qsort(length, c->n_texts, sizeof *length, by_size);
    f->mean = (double)c->n_tokens / (double)c->n_texts;
    f->median = quantile(length, c->n_texts, 0.5);
    f->p90 = quantile(length, c->n_texts, 0.9);
    f->longest = length[c->n_texts - 1];
    free(length);
    return STET_OK;
}

static stet_status count_known(const stet_strings *paths, const stet_counter *counter,
                               const stet_vocab *v, facts *f)
{
    stet_vectors vectors;
    const stet_status st = stet_vectors_load(paths->v, paths->n, v, &vectors);
    if (st != STET_OK)
        return st;
    for (size_t i = 0; i < stet_counter_size(counter); i++) {
        const char *word = stet_counter_word(counter, i);
        if (vectors.known[stet_vocab_id(v, word, strlen(word))]) {
            f->known += stet_counter_count(counter, i);
            f->known_words++;
        }
    }
    stet_vectors_deinit(&vectors);
    return STET_OK;
}

static stet_status measure_words(const data_cfg *cfg, facts *f)
{
    const stet_tokenizer kind = (stet_tokenizer)cfg->tokenizer;
    stet_counter *counter = NULL;
    stet_vocab *v = NULL;
    stet_corpus corpus = {0};
    stet_status st = stet_counter_new(&counter);
    if (st == STET_OK)
        st = stet_counter_add_dataset(counter, f->data, kind);
    if (st == STET_OK)
        st = stet_vocab_build(counter, 1, 0, &v);
    if (st == STET_OK)
        st = stet_corpus_encode(f->data, v, kind, 0, &corpus);
    if (st == STET_OK)
        st = measure_lengths(&corpus, f);
    if (st == STET_OK) {
        f->tokens = stet_counter_tokens(counter);
        f->words = stet_counter_size(counter);
        if (cfg->vectors.n)
            st = count_known(&cfg->vectors, counter, v, f);
    }
    stet_corpus_deinit(&corpus);
    stet_vocab_free(v);
    stet_counter_free(counter);
    return st;
}

static stet_status count_classes(facts *f)
{
    f->class_texts = calloc(stet_dataset_classes(f->data) + 1, sizeof *f->class_texts);
    if (!f->class_texts)
        return cli_fail(STET_ENOMEM, "out of memory");
    for (size_t i = 0; i < stet_dataset_size(f->data); i++)
        if (stet_dataset_label(f->data, i) >= 0)
            f->class_texts[stet_dataset_label(f->data, i)]++;
    return STET_OK;
}

static double share(uint64_t part, uint64_t all)
{
    return all ? (double)part / (double)all : 0;
}

static stet_status print_info_json(const data_cfg *cfg, const char *path, const facts *f)
{
    json_t *o = cli_json_start(&cmd_data_info, cfg);
    json_t *classes = json_object();
    for (size_t c = 0; c < stet_dataset_classes(f->data); c++)
        json_object_set_new(classes, stet_dataset_class_name(f->data, c),
                            json_integer((json_int_t)f->class_texts[c]));
    char fingerprint[24];
    snprintf(fingerprint, sizeof fingerprint, "%016llx", (unsigned long long)f->fingerprint);
    json_object_set_new(o, "file", cli_json_string(path));
    json_object_set_new(o, "texts", json_integer((json_int_t)stet_dataset_size(f->data)));
    json_object_set_new(o, "skipped", json_integer((json_int_t)stet_dataset_skipped(f->data)));
    json_object_set_new(o, "classes", classes);
    json_object_set_new(o, "tokens", json_integer((json_int_t)f->tokens));
    json_object_set_new(o, "words", json_integer((json_int_t)f->words));
    json_object_set_new(o, "length_mean", json_real(f->mean));
    json_object_set_new(o, "length_median", json_integer((json_int_t)f->median));
    json_object_set_new(o, "length_p90", json_integer((json_int_t)f->p90));
    json_object_set_new(o, "length_max", json_integer((json_int_t)f->longest));
    json_object_set_new(o, "known_tokens",
                        cfg->vectors.n ? json_real(share(f->known, f->tokens)) : json_null());
    json_object_set_new(o, "known_words",
                        cfg->vectors.n ? json_real(share(f->known_words, f->words)) : json_null());
    json_object_set_new(o, "fingerprint", json_string(fingerprint));
    return cli_json_print(o);
}

static void print_info_text(const data_cfg *cfg, const facts *f)
{
    const size_t n = stet_dataset_size(f->data), n_classes = stet_dataset_classes(f->data);
    printf("texts    %zu", n);
    if (stet_dataset_skipped(f->data))
        printf(" (%zu bad lines left out)", stet_dataset_skipped(f->data));
    printf("\ntokens   %llu (%s)\nlength   mean %.1f, median %zu, 90 %% up to %zu, longest %zu "
           "tokens\n"
           "words    %zu distinct\n",
           (unsigned long long)f->tokens, stet_tokenizer_name((stet_tokenizer)cfg->tokenizer),
           f->mean, f->median, f->p90, f->longest, f->words);
    if (cfg->vectors.n)
        printf("known    %.2f %% of the tokens and %.1f %% of the words have a vector\n",
               100 * share(f->known, f->tokens), 100 * share(f->known_words, f->words));
    if (n_classes == 0)
        return;
    cli_table t = {0};
    cli_row(&t, "class", "texts", "share", NULL);
    for (size_t c = 0; c < n_classes; c++)
        cli_row(&t, stet_dataset_class_name(f->data, c), cli_fmt("%zu", f->class_texts[c]),
                cli_fmt("%.1f %%", 100 * share(f->class_texts[c], n)), NULL);
    putchar('\n');
    cli_table_print(&t);
}

static stet_status run_info(void *config, const stet_rest *rest)
{
    const data_cfg *cfg = config;
    facts f = {0};
    stet_status st = load(cfg, rest->v[0], &f.data);
    if (st == STET_OK)
        st = count_classes(&f);
    if (st == STET_OK)
        st = measure_words(cfg, &f);
    if (st == STET_OK) {
        f.fingerprint = stet_dataset_fingerprint(f.data);
        if (cfg->common.json)
            st = print_info_json(cfg, rest->v[0], &f);
        else
            print_info_text(cfg, &f);
    }
    free(f.class_texts);
    stet_dataset_free(f.data);
    return st;
}

static const stet_opt info_opts[] = {
    READING_OPTS,
    STET_OPT_TOPIC("Words"),
    STET_OPT_CHOICE("tokenizer", data_cfg, tokenizer, "word", "word|keras",
                    "how texts are cut into words"),
    STET_OPT_LIST("vectors", data_cfg, vectors, "FILE",
                  "word vectors: report how many tokens have one; may be repeated"),
    CLI_COMMON_OPTS(data_cfg),
    STET_OPT_END,
};

const cli_command cmd_data_info = {
    .name = "data info",
    .args = "FILE",
    .summary = "count the texts, classes and words of a corpus",
    .details = "FILE is TSV (LABEL<TAB>TEXT), CSV, JSON lines, fastText, or a folder with one "
               "folder per class (aclImdb's train or test). It may be compressed (.gz, .xz, "
               ".zst); - is standard input.",
    .examples = "  stet data info train.tsv.xz --vectors glove.6B.300d.txt\n"
                "  stet data info yahoo/train.csv --label 1 --text 2,3,4\n",
    .opts = info_opts,
    .cfg_size = sizeof(data_cfg),
    .min_args = 1,
    .max_args = 1,
    .run = run_info,
};

/* ---- data get ----------------------------------------------------------------------------- */

static stet_status list_known(const data_cfg *cfg)
{
    cli_table t = {0};
    json_t *names = json_object();
    const char *name, *what;
    if (!cfg->common.json)
        cli_row(&t, "name", "what it is", NULL);
    for (size_t i = 0; (name = stet_data_known(i, &what)) != NULL; i++) {
        if (cfg->common.json)
            json_object_set_new(names, name, json_string(what));
        else
            cli_row(&t, name, what, NULL);
    }
    if (!cfg->common.json) {
        cli_table_print(&t);
        json_decref(names);
        return STET_OK;
    }
    json_t *o = cli_json_start(&cmd_data_get, cfg);
    json_object_set_new(o, "known", names);
    return cli_json_print(o);
}

static stet_status run_get(void *config, const stet_rest *rest)
{
    const data_cfg *cfg = config;
    if (rest->n == 0)
        return list_known(cfg);
    if (cfg->sha256 && rest->n > 1)
        return cli_usage("--sha256 checks one file; %zu were given", rest->n);
    for (size_t i = 0; i < rest->n; i++) {
        const stet_status st = stet_data_get_checked(rest->v[i], cfg->sha256, cfg->out);
        if (st != STET_OK)
            return st;
    }
    return STET_OK;
}

static const stet_opt get_opts[] = {
    STET_OPT_OUT(data_cfg, out, "data", "folder to put them in"),
    STET_OPT_STR("sha256", data_cfg, sha256, NULL, "HEX",
                 "what the file's SHA-256 must be; without it, the recorded one of a known name"),
    CLI_COMMON_OPTS(data_cfg),
    STET_OPT_END,
};

const cli_command cmd_data_get = {
    .name = "data get",
    .args = "[NAME|URL...]",
    .summary = "download corpora and word vectors, check them and unpack them",
    .details = "Without arguments it lists what it can download. An interrupted download "
               "continues where it stopped, and files that are already there are not fetched "
               "again. Archives (tar, zip) are unpacked beside themselves.",
    .examples = "  stet data get\n"
                "  stet data get imdb glove.6B -o data\n",
    .opts = get_opts,
    .cfg_size = sizeof(data_cfg),
    .max_args = STET_REST_MAX,
    .run = run_get,
};

/* ---- data convert ------------------------------------------------------------------------- */

static stet_status save_sample(const stet_dataset *d, const data_cfg *cfg, const char *path)
{
    const size_t limit = (size_t)cfg->limit;
    size_t *index = malloc(limit * sizeof *index);
    if (!index)
        return cli_fail(STET_ENOMEM, "out of memory");
    const size_t n = stet_dataset_sample(d, limit, (uint64_t)cfg->common.seed, index);
    stet_dataset *part = NULL;
    stet_status st = stet_dataset_pick(d, index, n, &part);
    if (st == STET_OK)
        st = stet_dataset_save(part, path);
    stet_dataset_free(part);
    free(index);
    return st;
}

static stet_status run_convert(void *config, const stet_rest *rest)
{
    const data_cfg *cfg = config;
    stet_dataset *d;
    stet_status st = load(cfg, rest->v[0], &d);
    if (st != STET_OK)
        return st;
    const bool all = cfg->limit == 0 || (uint64_t)cfg->limit >= stet_dataset_size(d);
    const size_t n = all ? stet_dataset_size(d) : (size_t)cfg->limit;
    st = all ? stet_dataset_save(d, rest->v[1]) : save_sample(d, cfg, rest->v[1]);
    if (st == STET_OK && cfg->common.json && strcmp(rest->v[1], "-") != 0) {
        json_t *o = cli_json_start(&cmd_data_convert, cfg);
        json_object_set_new(o, "texts", json_integer((json_int_t)n));
        json_object_set_new(o, "skipped", json_integer((json_int_t)stet_dataset_skipped(d)));
        json_object_set_new(o, "out", cli_json_string(rest->v[1]));
        st = cli_json_print(o);
    } else if (st == STET_OK) {
        cli_note("%zu texts written to %s", n, rest->v[1]);
    }
    stet_dataset_free(d);
    return st;
}

static const stet_opt convert_opts[] = {
    READING_OPTS,
    STET_OPT_INT("limit", data_cfg, limit, "0", 0, 1e12, "N",
                 "a seeded random sample of N texts; 0: all"),
    CLI_COMMON_OPTS(data_cfg),
    STET_OPT_END,
};

const cli_command cmd_data_convert = {
    .name = "data convert",
    .args = "FILE OUT",
    .summary = "write a corpus as TSV, CSV or JSON lines",
    .details = "The name of OUT decides the format: .tsv, .csv or .jsonl, followed by .gz, "
               ".xz or .zst to compress; - is TSV on standard output. CSV and JSON lines keep "
               "every byte of the texts; in TSV, tabs and line ends inside a text become "
               "spaces.",
    .examples = "  stet data convert aclImdb/train train.tsv.xz\n"
                "  stet data convert train.csv sample.jsonl --limit 1000\n",
    .opts = convert_opts,
    .cfg_size = sizeof(data_cfg),
    .min_args = 2,
    .max_args = 2,
    .run = run_convert,
};
