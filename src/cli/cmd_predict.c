/* cli/cmd_predict.c - stet predict: the label and probabilities of texts given as arguments, in a
 * file, or on standard input, one a line; with --certify, what is proved about them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/prove.h"

enum { MOST_HARMFUL = 5 };

typedef struct predict_cfg {
    cli_common common;
    const char *file, *synonyms;
    bool certify;
    cli_prove prove;
} predict_cfg;

static const stet_opt opts[] = {
    STET_OPT_TOPIC("Input"),
    STET_OPT_STR(
        "file", predict_cfg, file, NULL, "FILE",
        "texts, one a line, or a table with a text column; without FILE and TEXT, "
        "standard input"),
    STET_OPT_TOPIC("Certificate"),
    STET_OPT_FLAG("certify", predict_cfg, certify,
                  "prove that substitutions do not change the answer"),
    STET_OPT_STR("synonyms", predict_cfg, synonyms, NULL, "SET", CLI_SYNONYMS_HELP),
    CLI_PROVE_OPTS(predict_cfg),
    CLI_COMMON_OPTS(predict_cfg),
    STET_OPT_END,
};

typedef struct predictor {
    const predict_cfg *cfg;
    stet_model *model;
    float *prob; /* (K) */
    stet_words *words; /* of the run, and a fork for those of the text in work */
    stet_words *own;
    stet_reading reading;
    /* with --certify */
    stet_sets sets;
    stet_bound *bound;
    stet_certifier *certifier;
    stet_choices choices;
} predictor;

/* ---- certificates ------------------------------------------------------------------------- */

static stet_status certify(predictor *p, int label, stet_certificate *out)
{
    const stet_str text = p->reading.text;
    size_t which = 0;
    stet_status st = STET_OK;
    if (p->sets.texts)
        st = stet_subst_texts_find(p->sets.texts, text.data, text.len, &which);
    if (st == STET_OK && which == SIZE_MAX)
        return cli_usage("--synonyms %s says nothing about the text '%.40s%s'", p->cfg->synonyms,
                         text.data, text.len > 40 ? "..." : "");
    if (st == STET_OK)
        st = stet_bound_choices(p->bound, p->own, &p->reading, &p->choices);
    return st == STET_OK
               ? stet_certify_text(p->certifier, p->reading.ids, &p->choices, label, out)
               : st;
}

static const char *word_at(const predictor *p, uint32_t pos)
{
    return stet_token_word(&p->reading.tokens, pos);
}

static json_t *swap_json(const predictor *p, uint32_t pos, uint32_t word)
{
    return json_pack("{s:i, s:s, s:s}", "position", (int)pos, "word",
                     word_at(p, pos), "substitute", stet_words_word(p->own, word));
}

static void add_certificate(const predictor *p, const stet_certificate *c, json_t *o)
{
    json_t *harm = json_array(), *edits = json_array();
    for (size_t k = 0; k < c->n_harm && k < MOST_HARMFUL; k++) {
        json_t *one = swap_json(p, c->harm[k].pos, c->harm[k].word);
        json_object_set_new(one, "drop", json_real(c->harm[k].drop));
        json_array_append_new(harm, one);
    }
    for (size_t k = 0; k < c->n_edits; k++)
        json_array_append_new(edits, swap_json(p, c->edits[k].pos, c->edits[k].word));
    json_t *margin = json_real(c->margin); /* NULL if nothing was proved */
    json_object_update_new(
        o, json_pack("{s:b, s:s, s:o, s:f, s:o, s:s, s:I, s:f, s:o, s:o}", "certified",
                     c->verdict == STET_CERTIFIED, "verdict", stet_verdict_name(c->verdict),
                     "largest_budget",
                     c->budget == STET_ANY ? json_null() : json_integer((json_int_t)c->budget),
                     "clean_margin", c->clean, "margin", margin ? margin : json_null(), "method",
                     c->method, "branches", (json_int_t)c->branches, "seconds", c->seconds, "harm",
                     harm, "counter_example", edits));
    if (c->verdict == STET_LIKELY)
        json_object_set_new(o, "confidence", json_real(c->confidence));
}

static void print_swaps(const predictor *p, const stet_certificate *c)
{
    if (c->n_edits) {
        fputs("    flipped by:", stdout);
        for (size_t k = 0; k < c->n_edits; k++)
            printf("%s %s -> %s", k ? "," : "", word_at(p, c->edits[k].pos),
                   stet_words_word(p->own, c->edits[k].word));
        putchar('\n');
    }
    if (c->n_harm) {
        fputs("    most harmful:", stdout);
        for (size_t k = 0; k < c->n_harm && k < MOST_HARMFUL; k++)
            printf("%s %s -> %s (%.3f)", k ? "," : "", word_at(p, c->harm[k].pos),
                   stet_words_word(p->own, c->harm[k].word), c->harm[k].drop);
        putchar('\n');
    }
}

static void print_certificate(const predictor *p, const stet_certificate *c)
{
    const char *reset = cli_style("reset");
    size_t words = 0;
    for (size_t i = 0; i < p->choices.n; i++)
        words += p->choices.start[i + 1] > p->choices.start[i];
    printf("    margin %.3f; words that can change: %zu, substitutes: %u\n", c->clean, words,
           p->choices.n ? p->choices.start[p->choices.n] : 0);
    if (c->verdict == STET_CERTIFIED) {
        const char *how_many = words == 0 ? "nothing"
                               : c->budget == STET_ANY
                                   ? "no combination of them"
                                   : cli_fmt("no %zu of them or fewer", c->budget);
        printf("    %scertified%s: %s changes the answer (margin >= %.3f, %s)\n",
               cli_style("green"), reset, how_many, c->margin, c->method);
    } else if (c->verdict == STET_LIKELY) {
        printf("    %slikely%s, no proof: the answer holds with a confidence of %g (%s)\n",
               cli_style("yellow"), reset, c->confidence, c->method);
    } else if (c->budget > 0) {
        printf("    %s%s%s; proved: no %zu of them or fewer change the answer\n",
               cli_style("yellow"), stet_verdict_name(c->verdict), reset, c->budget);
    } else {
        printf("    %s%s%s; not even one substitution is proved to leave the answer\n",
               cli_style("yellow"), stet_verdict_name(c->verdict), reset);
    }
    print_swaps(p, c);
}

/* ---- predictions -------------------------------------------------------------------------- */

static stet_status print_json(const predictor *p, const char *text, int label,
                              const stet_certificate *c)
{
    const stet_model *m = p->model;
    json_t *prob = json_object();
    for (size_t k = 0; k < stet_model_classes(m); k++)
        json_object_set_new(prob, stet_model_class_name(m, k), json_real(p->prob[k]));
    json_t *line = cli_json_string(text);
    json_t *o =
        json_pack("{s:s, s:i, s:f, s:o, s:o}", "label", stet_model_class_name(m, (size_t)label),
                  "class", label, "probability", (double)p->prob[label], "probabilities", prob,
                  "text", line ? line : json_null());
    if (p->certifier)
        add_certificate(p, c, o);
    return cli_json_print(o);
}

static stet_status print_text(const predictor *p, const char *text, size_t len, int label,
                              const stet_certificate *c)
{
    int shown = len > 70 ? 67 : (int)len;
    while (shown < (int)len && shown > 0 && ((unsigned char)text[shown] & 0xc0) == 0x80)
        shown--; /* not in the middle of a character */
    printf("%s%-12s%s %.4f  %.*s%s\n", cli_style("bold"),
           stet_model_class_name(p->model, (size_t)label), cli_style("reset"),
           (double)p->prob[label], shown, text, len > 70 ? "..." : "");
    if (p->certifier)
        print_certificate(p, c);
    return cli_printed();
}

static stet_status predict(void *user, const char *text, size_t len)
{
    predictor *p = user;
    int label = 0;
    stet_certificate c = {0};
    stet_words_forget(p->own);
    stet_status st = stet_words_read(p->own, text, len, &p->reading);
    if (st == STET_OK)
        st = stet_model_answer(p->model, p->own, p->reading.ids, p->reading.n, p->prob, &label);
    if (st == STET_OK && p->certifier)
        st = certify(p, label, &c);
    if (st == STET_OK && p->cfg->common.json)
        st = print_json(p, text, label, &c);
    else if (st == STET_OK)
        st = print_text(p, text, len, label, &c);
    stet_certificate_deinit(&c);
    return st;
}

/* A file may be compressed, or a table with a column of texts (docs/formats.md). */
static stet_status predict_file(predictor *p)
{
    const char *path = p->cfg->file;
    if (!path || strcmp(path, "-") == 0)
        return cli_each_line(predict, p);
    stet_dataset *d = NULL;
    stet_data_options how = STET_DATA_DEFAULTS;
    how.unlabelled = true;
    stet_status st = stet_dataset_load(path, &how, &d);
    for (size_t i = 0; st == STET_OK && i < stet_dataset_size(d); i++) {
        const stet_str text = stet_dataset_text(d, i);
        st = predict(p, text.data, text.len);
    }
    stet_dataset_free(d);
    return st;
}

static stet_status open_predictor(predictor *p, const char *dir)
{
    const predict_cfg *cfg = p->cfg;
    if (cfg->certify != (cfg->synonyms != NULL))
        return cli_usage("--certify and --synonyms SET belong together");
    if (!cfg->certify && (cfg->prove.budget || cfg->prove.largest || cfg->prove.complete ||
                          strcmp(cfg->prove.method, "auto") != 0))
        return cli_usage("--method, --budget, --largest and --complete go with --certify");
    stet_status st = stet_model_load(dir, &p->model);
    if (st == STET_OK && !(p->prob = malloc(stet_model_classes(p->model) * sizeof *p->prob)))
        st = cli_fail(STET_ENOMEM, "out of memory");
    if (st == STET_OK)
        st = stet_model_words(p->model, &p->words);
    if (st == STET_OK && cfg->certify)
        st = stet_sets_load(cfg->synonyms, &p->sets);
    if (st == STET_OK && cfg->certify)
        st = stet_sets_bind(&p->sets, p->words, &p->bound);
    if (st == STET_OK)
        st = stet_words_fork(p->words, &p->own);
    if (st != STET_OK || !cfg->certify)
        return st;
    stet_certify_how how = cli_prove_how(&cfg->prove);
    how.largest = true;
    return stet_certifier_new(p->model, &how, &p->certifier);
}

static void close_predictor(predictor *p)
{
    stet_certifier_free(p->certifier);
    stet_reading_deinit(&p->reading);
    stet_choices_deinit(&p->choices);
    stet_bound_free(p->bound);
    stet_words_free(p->own);
    stet_words_free(p->words);
    stet_sets_free(&p->sets);
    stet_model_free(p->model);
    free(p->prob);
}

static stet_status run(void *config, const stet_rest *rest)
{
    predictor p = {.cfg = config};
    cli_end_at_once();
    stet_status st = open_predictor(&p, rest->v[0]);
    for (size_t i = 1; st == STET_OK && i < rest->n; i++)
        st = predict(&p, rest->v[i], strlen(rest->v[i]));
    if (st == STET_OK && (rest->n == 1 || p.cfg->file))
        st = predict_file(&p);
    close_predictor(&p);
    return st;
}

const cli_command cmd_predict = {
    .name = "predict",
    .args = "DIR [TEXT...]",
    .summary = "classify texts, with a certificate on request",
    .examples =
        "  stet predict runs/cnn \"a fine film\"\n  stet predict runs/cnn --json < reviews.txt\n"
        "  stet predict runs/cnn --certify --synonyms jia.subst \"a fine film\"\n",
    .opts = opts,
    .cfg_size = sizeof(predict_cfg),
    .min_args = 1,
    .max_args = STET_REST_MAX,
    .run = run,
};

/* ---- try ---------------------------------------------------------------------------------- */

/* Type a sentence, see what the model makes of it and whether synonyms can change that. */
typedef struct try_cfg {
    cli_common common;
    const char *synonyms;
    double time_limit;
} try_cfg;

static const stet_opt try_opts[] = {
    STET_OPT_TOPIC("Substitutes"),
    STET_OPT_STR("synonyms", try_cfg, synonyms, NULL, "SET",
                 CLI_SYNONYMS_HELP "; without it, synonyms.subst beside DIR"),
    STET_OPT_REAL("time-limit", try_cfg, time_limit, "3", 0, 1e9, "SECONDS",
                  "time for the proof of a sentence"),
    CLI_COMMON_OPTS(try_cfg),
    STET_OPT_END,
};

/* The text with the swaps of the counter-example made, and what the model says to that. */
static stet_status print_flipped(predictor *p, const char *text, size_t len,
                                 const stet_certificate *c)
{
    size_t *at = malloc((c->n_edits + 1) * sizeof *at);
    const char **with = malloc((c->n_edits + 1) * sizeof *with);
    char *changed = NULL;
    int label = 0;
    stet_status st = at && with ? STET_OK : cli_fail(STET_ENOMEM, "out of memory");
    for (size_t k = 0; st == STET_OK && k < c->n_edits; k++) {
        at[k] = c->edits[k].pos;
        with[k] = stet_words_word(p->own, c->edits[k].word);
    }
    if (st == STET_OK)
        st = stet_text_rebuild(text, len, &p->reading.tokens, at, with, c->n_edits, &changed);
    if (st == STET_OK)
        st = stet_model_predict(p->model, changed, strlen(changed), p->prob, &label);
    if (st == STET_OK)
        printf("  %sflipped%s by %zu swap%s: \"%s\" is %s%s%s (%.1f %%)\n", cli_style("red"),
               cli_style("reset"), c->n_edits, c->n_edits == 1 ? "" : "s", changed,
               cli_style("bold"), stet_model_class_name(p->model, (size_t)label),
               cli_style("reset"), 100 * (double)p->prob[label]);
    stet_free(changed);
    free(with);
    free(at);
    return st;
}

static void print_verdict(const predictor *p, const stet_certificate *c)
{
    size_t words = 0;
    for (size_t i = 0; i < p->choices.n; i++)
        words += p->choices.start[i + 1] > p->choices.start[i];
    if (words == 0)
        puts("  no word of it has a substitute in the set");
    else if (c->verdict == STET_CERTIFIED)
        printf("  %sproved%s: no combination of its %u substitutes changes the answer\n",
               cli_style("green"), cli_style("reset"), p->choices.start[p->choices.n]);
    else if (c->verdict != STET_BROKEN)
        printf("  %sopen%s: no flip found, no proof either; proved for up to %zu swaps\n",
               cli_style("yellow"), cli_style("reset"), c->budget);
}

static stet_status try_line(void *user, const char *text, size_t len)
{
    predictor *p = user;
    int label = 0;
    stet_certificate c = {0};
    if (len == 0)
        return STET_OK;
    stet_words_forget(p->own);
    stet_status st = stet_words_read(p->own, text, len, &p->reading);
    if (st == STET_OK)
        st = stet_model_answer(p->model, p->own, p->reading.ids, p->reading.n, p->prob, &label);
    if (st == STET_OK)
        st = certify(p, label, &c);
    if (st == STET_OK && p->cfg->common.json) {
        st = print_json(p, text, label, &c);
    } else if (st == STET_OK) {
        printf("%s%s%s, %.1f %% sure\n", cli_style("bold"),
               stet_model_class_name(p->model, (size_t)label), cli_style("reset"),
               100 * (double)p->prob[label]);
        print_verdict(p, &c);
        if (c.n_edits)
            st = print_flipped(p, text, len, &c);
        size_t shown = 0;
        for (size_t k = 0; k < c.n_harm && k < MOST_HARMFUL && c.harm[k].drop >= 0.005; k++, shown++)
            printf("%s %s -> %s %.2f",
                   k ? "," : cli_fmt("  most harmful, of a margin of %.2f:", c.clean),
                   word_at(p, c.harm[k].pos),
                   stet_words_word(p->own, c.harm[k].word), c.harm[k].drop);
        if (shown)
            putchar('\n');
        if (st == STET_OK)
            st = cli_printed();
    }
    stet_certificate_deinit(&c);
    return st;
}

static stet_status run_try(void *config, const stet_rest *rest)
{
    const try_cfg *cfg = config;
    const char *dir = rest->n ? rest->v[0] : "demo/robust";
    char beside[4096];
    predict_cfg as = {.common = cfg->common, .certify = true, .synonyms = cfg->synonyms};
    as.prove = (cli_prove){.method = "auto",
                           .largest = true,
                           .complete = true,
                           .refine = 30,
                           .time_limit = cfg->time_limit};
    predictor p = {.cfg = &as};
    stet_status st = STET_OK;
    if (rest->n == 0 && access(dir, F_OK) != 0)
        return cli_usage("there is no demo/robust here: name a run folder, or run 'stet demo' first");
    if (!as.synonyms) {
        st = cli_sets_beside(dir, beside, sizeof beside);
        as.synonyms = beside;
    }
    cli_end_at_once();
    if (st == STET_OK)
        st = open_predictor(&p, dir);
    if (st == STET_OK && isatty(STDIN_FILENO))
        cli_note("%s with %s: type a sentence", dir, as.synonyms);
    if (st == STET_OK)
        st = cli_each_line(try_line, &p);
    close_predictor(&p);
    return st;
}

const cli_command cmd_try = {
    .name = "try",
    .args = "[DIR]",
    .summary = "type sentences and see the answer, what would flip it, or the proof",
    .details = "Reads a sentence a line. For each it prints the label, then either a proof that no "
               "combination of\nsubstitutes changes it, or the swaps that do, and which words "
               "matter most. DIR is a run folder;\nwithout it, demo/robust.",
    .examples = "  stet try demo/robust\n"
                "  echo \"I loved it\" | stet try demo/robust --synonyms demo/synonyms.subst\n",
    .opts = try_opts,
    .cfg_size = sizeof(try_cfg),
    .min_args = 0,
    .max_args = 1,
    .run = run_try,
};
