/* cli/cmd_synonyms.c - stet synonyms build, show, stats: which words may stand in for which. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/ready_set.h"
#include "stet/lexicon.h"

/* ---- what all three print ----------------------------------------------------------------- */

static stet_status print_stats_json(json_t *o, const stet_subst *s, const stet_subst_stats *st,
                                    bool tokens)
{
    char fingerprint[24];
    snprintf(fingerprint, sizeof fingerprint, "%016llx",
             (unsigned long long)stet_subst_fingerprint(s));
    json_object_set_new(o, "words", json_integer((json_int_t)st->words));
    json_object_set_new(o, "replaceable", json_integer((json_int_t)st->replaceable));
    json_object_set_new(o, "pairs", json_integer((json_int_t)st->pairs));
    json_object_set_new(o, "candidates_mean", json_real(st->candidates_mean));
    json_object_set_new(o, "symmetric_share", json_real(st->symmetric_share));
    json_object_set_new(o, "components", json_integer((json_int_t)st->components));
    json_object_set_new(o, "largest_component", json_integer((json_int_t)st->largest_component));
    json_object_set_new(o, "tokens_replaceable",
                        tokens ? json_real(st->tokens_replaceable) : json_null());
    json_object_set_new(o, "candidates_per_token",
                        tokens ? json_real(st->candidates_per_token) : json_null());
    json_object_set_new(o, "fingerprint", json_string(fingerprint));
    return cli_json_print(o);
}

static void print_stats_text(const stet_subst *s, const stet_subst_stats *st, bool tokens)
{
    printf("words        %zu, of which %zu can be replaced\n", st->words, st->replaceable);
    printf("pairs        %zu, %.1f %% of them in both directions\n", st->pairs,
           100 * st->symmetric_share);
    printf("candidates   %.2f per replaceable word\n", st->candidates_mean);
    printf("components   %zu, the largest with %zu words\n", st->components, st->largest_component);
    if (tokens)
        printf("tokens       %.2f %% can be replaced, with %.2f candidates each\n",
               100 * st->tokens_replaceable, st->candidates_per_token);
    printf("fingerprint  %016llx\n", (unsigned long long)stet_subst_fingerprint(s));
}

/* ---- build -------------------------------------------------------------------------------- */

typedef struct build_cfg {
    cli_common common;
    stet_strings neighbours, nearest, pairs, words, data, antonyms, stop;
    const char *threshold, *sememes, *lemmas, *wordnet_dir, *vocab, *pos, *out;
    int64_t k, top, min_length;
    int metric, wordnet, tokenizer;
    bool strict, symmetric;
} build_cfg;

static const stet_opt build_opts[] = {
    STET_OPT_TOPIC("Sources, united in this order"),
    STET_OPT_LIST("neighbours", build_cfg, neighbours, "FILE",
                  "JSON map {word: [words]}, plain or compressed, a built set, or builtin"),
    STET_OPT_LIST("nearest", build_cfg, nearest, "FILE",
                  "nearest neighbours in these word vectors (among --vocab, if given)"),
    STET_OPT_CHOICE("wordnet", build_cfg, wordnet, "none", "none|openattack|textattack",
                    "synonyms of the words of --words, --data or --vocab"),
    STET_OPT_STR("sememes", build_cfg, sememes, NULL, "FILE",
                 "words that share a sense: LEMMA, POS, OFFSET, SYNSET, SEMEMES with tabs"),
    STET_OPT_LIST("pairs", build_cfg, pairs, "FILE",
                  "lines of WORD WORD: each may replace the other"),
    STET_OPT_TOPIC("Details of sources"),
    {.name = "k",
     .letter = 'k',
     .type = STET_T_INT,
     .offset = offsetof(build_cfg, k),
     .def = "8",
     .min = 1,
     .max = 10000,
     .arg = "N",
     .help = "nearest: how many, the word itself not counted"},
    STET_OPT_CHOICE("metric", build_cfg, metric, "l2", "l2|l2sq|cos",
                    "nearest: distance or cosine"),
    STET_OPT_STR("threshold", build_cfg, threshold, NULL, "X",
                 "nearest: largest distance, or smallest cosine; none unless given"),
    STET_OPT_FLAG("strict", build_cfg, strict, "nearest: leave out words exactly at the threshold"),
    STET_OPT_LIST("words", build_cfg, words, "FILE", "wordnet: words, one per line"),
    STET_OPT_LIST("data", build_cfg, data, "FILE", "wordnet: the words of a corpus"),
    STET_OPT_CHOICE("tokenizer", build_cfg, tokenizer, "word", "word|keras",
                    "how texts are cut into words; words that it would cut or change are left out"),
    STET_OPT_STR("wordnet-dir", build_cfg, wordnet_dir, NULL, "DIR",
                 "WordNet's database; otherwise $WNSEARCHDIR or the usual places"),
    STET_OPT_STR("lemmas", build_cfg, lemmas, NULL, "FILE", "sememes: lines of LEMMA<TAB>FORM"),
    STET_OPT_TOPIC("Filters, applied in this order"),
    STET_OPT_LIST("antonyms", build_cfg, antonyms, "FILE", "drop these pairs: lines of WORD WORD"),
    STET_OPT_STR("vocab", build_cfg, vocab, NULL, "FILE", "keep only these words, one per line"),
    STET_OPT_STR("pos", build_cfg, pos, NULL, "TAGGER",
                 "keep pairs of one part of speech: builtin, or a tagger's file"),
    STET_OPT_INT("min-length", build_cfg, min_length, "0", 0, 1000, "N",
                 "keep words of at least this many characters"),
    STET_OPT_INT("top", build_cfg, top, "0", 0, 1e9, "N", "keep the first N of each word; 0: all"),
    STET_OPT_FLAG("symmetric", build_cfg, symmetric, "add the reverse of every pair"),
    STET_OPT_LIST(
        "stop", build_cfg, stop, "FILE",
        "words that cannot be replaced (they may replace others): one per line, or builtin"),
    STET_OPT_TOPIC("Result"),
    STET_OPT_OUT(build_cfg, out, NULL, "the set's file"),
    CLI_COMMON_OPTS(build_cfg),
    STET_OPT_END,
};

/* Lines of a plain or compressed file as words. */
static stet_status count_lines(stet_counter *c, const char *path)
{
    const stet_data_options how = {.format = STET_DATA_TSV, .header = 0, .unlabelled = true};
    stet_dataset *lines;
    stet_status st = stet_dataset_load(path, &how, &lines);
    if (st != STET_OK)
        return st;
    for (size_t i = 0; i < stet_dataset_size(lines) && st == STET_OK; i++)
        if (stet_dataset_text(lines, i).len > 0)
            st = stet_counter_add_word(c, stet_dataset_text(lines, i).data, 0);
    stet_dataset_free(lines);
    return st;
}

static stet_status count_texts(stet_counter *c, const char *path, stet_tokenizer kind)
{
    const stet_data_options how = STET_DATA_DEFAULTS;
    stet_dataset *d;
    stet_status st = stet_dataset_load(path, &how, &d);
    if (st == STET_OK)
        st = stet_counter_add_dataset(c, d, kind);
    stet_dataset_free(d);
    return st;
}

/* The words of all these files as a vocabulary. */
static stet_status read_words(const stet_strings *lists, const stet_strings *corpora,
                              stet_tokenizer kind, stet_vocab **out)
{
    stet_counter *c;
    stet_status st = stet_counter_new(&c);
    for (size_t i = 0; i < lists->n && st == STET_OK; i++)
        st = count_lines(c, lists->v[i]);
    for (size_t i = 0; i < corpora->n && st == STET_OK; i++)
        st = count_texts(c, corpora->v[i], kind);
    if (st == STET_OK)
        st = stet_vocab_build(c, 0, 0, out);
    stet_counter_free(c);
    return st;
}

static stet_status add_nearest(stet_subst_builder *b, const build_cfg *cfg, const stet_vocab *only)
{
    const bool cosine = cfg->metric == STET_COS;
    double threshold = cosine ? -INFINITY : INFINITY;
    if (cfg->threshold) {
        char *end;
        threshold = strtod(cfg->threshold, &end);
        if (end == cfg->threshold || *end || isnan(threshold))
            return cli_usage("--threshold %s: expected a number", cfg->threshold);
    }
    stet_vocab *all = NULL;
    stet_vectors t;
    stet_status st = only ? stet_vectors_load(cfg->nearest.v, cfg->nearest.n, only, &t)
                          : stet_vectors_load_all(cfg->nearest.v, cfg->nearest.n, &all, &t);
    if (st != STET_OK)
        return st;
    st = stet_subst_add_nearest(b, &t, only ? only : all, (size_t)cfg->k, (stet_metric)cfg->metric,
                                threshold, cfg->strict);
    stet_vectors_deinit(&t);
    stet_vocab_free(all);
    return st;
}

static stet_status add_wordnet(stet_subst_builder *b, const build_cfg *cfg, const stet_vocab *only)
{
    if (!only && cfg->words.n + cfg->data.n == 0)
        return cli_usage("--wordnet needs words: --words, --data or --vocab");
    stet_wordnet *w = NULL;
    stet_vocab *own = NULL;
    stet_status st = stet_wordnet_open(cfg->wordnet_dir, &w);
    if (st == STET_OK && cfg->words.n + cfg->data.n > 0)
        st = read_words(&cfg->words, &cfg->data, (stet_tokenizer)cfg->tokenizer, &own);
    if (st == STET_OK)
        st = stet_subst_add_wordnet(b, w, own ? own : only,
                                    cfg->wordnet == 1 ? STET_WN_OPENATTACK : STET_WN_TEXTATTACK);
    stet_vocab_free(own);
    stet_wordnet_free(w);
    return st;
}

typedef stet_status file_step(stet_subst_builder *b, const char *path);

static stet_status each_file(stet_subst_builder *b, const stet_strings *files, file_step *step)
{
    stet_status st = STET_OK;
    for (size_t i = 0; i < files->n && st == STET_OK; i++)
        st = step(b, files->v[i]);
    return st;
}

static stet_status add_sources(stet_subst_builder *b, const build_cfg *cfg, const stet_vocab *only)
{
    stet_status st = each_file(b, &cfg->neighbours, stet_subst_add_neighbours);
    if (st == STET_OK && cfg->nearest.n > 0)
        st = add_nearest(b, cfg, only);
    if (st == STET_OK && cfg->wordnet > 0)
        st = add_wordnet(b, cfg, only);
    if (st == STET_OK && cfg->sememes)
        st = stet_subst_add_sememes(b, cfg->sememes, cfg->lemmas);
    if (st == STET_OK)
        st = each_file(b, &cfg->pairs, stet_subst_add_pairs);
    return st;
}

static stet_status keep_same_pos(stet_subst_builder *b, const char *tagger)
{
    stet_tagger *t;
    stet_status st =
        strcmp(tagger, "builtin") == 0 ? stet_tagger_builtin(&t) : stet_tagger_load(tagger, &t);
    if (st != STET_OK)
        return st;
    st = stet_subst_keep_same_pos(b, t);
    stet_tagger_free(t);
    return st;
}

/* Stop words come last: the symmetric closure would give them substitutes again. */
static stet_status filter(stet_subst_builder *b, const build_cfg *cfg, const stet_vocab *only,
                          size_t *left_out)
{
    stet_status st = stet_subst_keep_typed(b, (stet_tokenizer)cfg->tokenizer, left_out);
    if (st == STET_OK)
        st = each_file(b, &cfg->antonyms, stet_subst_drop_pairs);
    if (st == STET_OK && only)
        st = stet_subst_keep_vocab(b, only);
    if (st == STET_OK && cfg->pos)
        st = keep_same_pos(b, cfg->pos);
    if (st == STET_OK && cfg->min_length > 0)
        st = stet_subst_keep_long(b, (size_t)cfg->min_length);
    if (st == STET_OK && cfg->top > 0)
        st = stet_subst_keep_top(b, (size_t)cfg->top);
    if (st == STET_OK && cfg->symmetric)
        st = stet_subst_make_symmetric(b);
    return st == STET_OK ? each_file(b, &cfg->stop, stet_subst_drop_stop_words) : st;
}

static stet_status build(const build_cfg *cfg, stet_subst **out, size_t *left_out)
{
    stet_subst_builder *b = NULL;
    stet_vocab *only = NULL;
    stet_status st = stet_subst_builder_new(&b);
    if (st == STET_OK && cfg->vocab) {
        const stet_strings one = {.v = {cfg->vocab}, .n = 1}, none = {.n = 0};
        st = read_words(&one, &none, STET_TOK_WORD, &only);
    }
    if (st == STET_OK)
        st = add_sources(b, cfg, only);
    if (st == STET_OK)
        st = filter(b, cfg, only, left_out);
    if (st == STET_OK)
        st = stet_subst_build(b, out);
    stet_vocab_free(only);
    stet_subst_builder_free(b);
    return st;
}

static bool has_filter(const build_cfg *cfg)
{
    return cfg->antonyms.n + cfg->stop.n + cfg->words.n > 0 || cfg->vocab || cfg->pos ||
           cfg->min_length || cfg->top || cfg->symmetric;
}

/* No source named: WordNet's synonyms for the words of --data. */
static stet_status build_ready(const build_cfg *cfg, stet_subst **out)
{
    const stet_data_options how = STET_DATA_DEFAULTS;
    if (cfg->data.n > 1)
        return cli_usage("the ready set takes one --data FILE");
    stet_dataset *d;
    stet_status st = stet_dataset_load(cfg->data.v[0], &how, &d);
    if (st != STET_OK)
        return st;
    cli_note("WordNet's synonyms for the words of %s: one part of speech, at most %d for each, "
             "function words stay",
             cfg->data.v[0], READY_TOP);
    st = cli_ready_set(d, (stet_tokenizer)cfg->tokenizer, out);
    stet_dataset_free(d);
    return st;
}

static stet_status run_build(void *config, const stet_rest *rest)
{
    (void)rest;
    const build_cfg *cfg = config;
    if (!cfg->out)
        return cli_usage("synonyms build needs --out FILE");
    const bool source =
        cfg->neighbours.n + cfg->nearest.n + cfg->pairs.n > 0 || cfg->wordnet || cfg->sememes;
    if (!source && cfg->data.n == 0)
        return cli_usage("expected --data FILE for a ready set, or a source: --neighbours, "
                         "--nearest, --wordnet, --sememes or --pairs");
    if (!source && has_filter(cfg))
        return cli_usage("the ready set has its own filters; name a source, such as --wordnet "
                         "textattack, to choose others");
    stet_subst *s = NULL;
    stet_subst_stats stats;
    size_t left_out = 0;
    stet_status st = cli_can_write(cfg->out);
    if (st == STET_OK)
        st = source ? build(cfg, &s, &left_out) : build_ready(cfg, &s);
    if (st == STET_OK)
        st = stet_subst_stats_of(s, NULL, STET_TOK_WORD, &stats);
    if (st == STET_OK)
        st = stet_subst_save(s, cfg->out);
    if (st == STET_OK && cfg->common.json) {
        json_t *o = cli_json_start(&cmd_synonyms_build, cfg);
        json_object_set_new(o, "left_out", json_integer((json_int_t)left_out));
        st = print_stats_json(o, s, &stats, false);
    } else if (st == STET_OK && !cfg->common.quiet)
        print_stats_text(s, &stats, false);
    if (st == STET_OK && stats.pairs == 0)
        cli_note("the set is empty: no attack can change a word");
    stet_subst_free(s);
    return st;
}

const cli_command cmd_synonyms_build = {
    .name = "synonyms build",
    .args = "",
    .summary = "build a substitution set: which words may replace which",
    .details = "With --data alone, a ready set: WordNet's synonyms for the words of your texts. "
               "Otherwise sources\nare united, then filtered. The result is one file for "
               "--synonyms of every other command.\n"
               "OpenAttack counts a word as its own neighbour: for its k, pass one less.",
    .examples = "  stet synonyms build --data train.csv -o words.subst\n"
                "  stet synonyms build --neighbours counterfitted_neighbors.json.xz --stop builtin "
                "-o jia.subst\n"
                "  stet synonyms build --nearest counter-fitted-vectors.txt -k 8 --metric l2sq \\\n"
                "    --threshold 0.5 -o near.subst\n"
                "  stet synonyms build --wordnet textattack --data train.tsv.xz --top 8 "
                "-o wordnet.subst\n",
    .opts = build_opts,
    .cfg_size = sizeof(build_cfg),
    .run = run_build,
};

/* ---- show --------------------------------------------------------------------------------- */

typedef struct show_cfg {
    cli_common common;
} show_cfg;

static const stet_opt show_opts[] = {CLI_COMMON_OPTS(show_cfg), STET_OPT_END};

static stet_status show_json(const stet_subst *s, const char *word, const uint32_t *subs, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_string(stet_subst_word(s, subs[i])));
    return cli_json_print(
        json_pack("{s:i, s:s, s:o}", "schema", 1, "word", word, "substitutes", list));
}

static bool to_lower(const char *word, char *out, size_t size)
{
    stet_tokens t = {0};
    const bool one = stet_tokenize(STET_TOK_WORD, word, strlen(word), &t) == STET_OK && t.n == 1;
    if (one)
        snprintf(out, size, "%s", stet_token_word(&t, 0));
    stet_tokens_deinit(&t);
    return one;
}

static stet_status run_show(void *config, const stet_rest *rest)
{
    const show_cfg *cfg = config;
    stet_subst *s;
    stet_status st = stet_subst_load(rest->v[0], &s);
    for (size_t i = 1; i < rest->n && st == STET_OK; i++) {
        const char *word = rest->v[i];
        size_t n;
        const uint32_t *subs = stet_subst_of(s, stet_subst_word_id(s, word, strlen(word)), &n);
        char lower[256];
        if (n == 0 && to_lower(word, lower, sizeof lower)) /* sets hold words in lower case */
            subs = stet_subst_of(s, stet_subst_word_id(s, lower, strlen(lower)), &n);
        if (cfg->common.json) {
            st = show_json(s, word, subs, n);
            continue;
        }
        printf("%s%s%s:", cli_style("bold"), word, cli_style("reset"));
        for (size_t j = 0; j < n; j++)
            printf(" %s", stet_subst_word(s, subs[j]));
        puts(n ? "" : " -");
    }
    stet_subst_free(s);
    return st;
}

const cli_command cmd_synonyms_show = {
    .name = "synonyms show",
    .args = "SET WORD...",
    .summary = "print the substitutes of words",
    .details = "SET is a built set, a JSON map {word: [words]}, plain or compressed, or builtin.\n"
               "A word that cannot be replaced shows a dash.",
    .examples = "  stet synonyms show builtin film dull\n",
    .opts = show_opts,
    .cfg_size = sizeof(show_cfg),
    .min_args = 2,
    .max_args = STET_REST_MAX,
    .run = run_show,
};

/* ---- stats -------------------------------------------------------------------------------- */

typedef struct stats_cfg {
    cli_common common;
    const char *data;
    int tokenizer;
} stats_cfg;

static const stet_opt stats_opts[] = {
    STET_OPT_STR("data", stats_cfg, data, NULL, "FILE",
                 "a corpus: report what share of its tokens can be replaced"),
    STET_OPT_CHOICE("tokenizer", stats_cfg, tokenizer, "word", "word|keras",
                    "how the corpus is cut into words"),
    CLI_COMMON_OPTS(stats_cfg),
    STET_OPT_END,
};

static stet_status run_stats(void *config, const stet_rest *rest)
{
    const stats_cfg *cfg = config;
    const stet_data_options how = STET_DATA_DEFAULTS;
    stet_dataset *d = NULL;
    stet_subst *s = NULL;
    stet_subst_stats stats;
    stet_status st = stet_subst_load(rest->v[0], &s);
    if (st == STET_OK && cfg->data)
        st = stet_dataset_load(cfg->data, &how, &d);
    if (st == STET_OK)
        st = stet_subst_stats_of(s, d, (stet_tokenizer)cfg->tokenizer, &stats);
    if (st == STET_OK && cfg->common.json)
        st = print_stats_json(cli_json_start(&cmd_synonyms_stats, cfg), s, &stats, d != NULL);
    else if (st == STET_OK)
        print_stats_text(s, &stats, d != NULL);
    stet_dataset_free(d);
    stet_subst_free(s);
    return st;
}

const cli_command cmd_synonyms_stats = {
    .name = "synonyms stats",
    .args = "SET",
    .summary = "measure how much freedom a substitution set gives an attacker",
    .details = "A nearly empty set makes any attack look weak: compare attacks only with these "
               "figures beside them.",
    .examples = "  stet synonyms stats jia.subst --data test.tsv.xz\n"
                "  stet synonyms stats counterfitted_neighbors.json.xz --json\n",
    .opts = stats_opts,
    .cfg_size = sizeof(stats_cfg),
    .min_args = 1,
    .max_args = 1,
    .run = run_stats,
};
