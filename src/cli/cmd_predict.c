/* cli/cmd_predict.c - stet predict: the label and probabilities of texts given as arguments, in a
 * file, or on standard input, one per line; with --certify, what is proved about them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/prove.h"
#include "cli/source.h"
#include "stet/info.h"
#include "stet/simple.h"

enum { MOST_HARMFUL = 5 };

typedef struct predict_cfg {
    cli_common common;
    const char *file, *synonyms;
    bool certify;
    cli_prove prove;
} predict_cfg;

static const stet_opt opts[] = {
    STET_OPT_TOPIC("Input"),
    STET_OPT_STR("file", predict_cfg, file, NULL, "FILE",
                 "texts, one per line, or a table with a text column; without FILE and TEXT, "
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
    stet_sets sets; /* with --certify */
    stet_certify_how how;
    cli_cut cut;
} predictor;

/* What the calls of the library say of one text; `c` with --certify. */
typedef struct answer {
    const char *text;
    stet_predicted *p;
    stet_certified *c;
} answer;

static stet_status has_nul(const char *text)
{
    return cli_fail(STET_EFORMAT, "'%.40s...': a text with a NUL byte in it", text);
}

static stet_status ask(predictor *p, const char *text, size_t len, answer *out)
{
    *out = (answer){.text = text};
    if (memchr(text, '\0', len))
        return has_nul(text);
    const stet_status st = cli_cut_add(&p->cut, p->model, text, len);
    if (st != STET_OK)
        return st;
    return p->cfg->certify ? stet_text_certify(p->model, &p->sets, text, -1, &p->how, &out->c)
                           : stet_text_predict(p->model, text, &out->p);
}

static void drop(answer *a)
{
    stet_result_free(a->p);
    stet_result_free(a->c);
}

static void print_json(const answer *a)
{
    puts(a->c ? a->c->json : a->p->json);
}

/* ---- for people --------------------------------------------------------------------------- */

static void print_swaps(const stet_certified *c)
{
    if (c->n_swaps) {
        fputs("    flipped by:", stdout);
        for (size_t k = 0; k < c->n_swaps; k++)
            printf("%s %s -> %s", k ? "," : "", c->swaps[k].from, c->swaps[k].to);
        putchar('\n');
    }
    if (c->n_harm) {
        fputs("    most harmful:", stdout);
        for (size_t k = 0; k < c->n_harm && k < MOST_HARMFUL; k++)
            printf("%s %s -> %s (%.3f)", k ? "," : "", c->harm[k].from, c->harm[k].to,
                   c->harm[k].drop);
        putchar('\n');
    }
}

/* What the verdict says changes nothing. */
static const char *harmless(const stet_certified *c)
{
    return c->changeable == 0       ? "nothing"
           : c->budget == STET_ANY ? "no combination of them"
                                    : cli_fmt("no %zu of them or fewer", c->budget);
}

/* Of a model that votes: no proof, whatever the verdict. */
static void print_likely(const stet_certified *c)
{
    printf("    %s%s%s, no proof: ", cli_style("yellow"), c->verdict_name, cli_style("reset"));
    if (c->budget == 0)
        puts("the votes do not show that even one word may change");
    else
        printf("%s changes the majority of all copies, at confidence %.10g (%s)\n", harmless(c),
               c->confidence, c->method);
}

static void print_certificate(const stet_certified *c)
{
    const char *reset = cli_style("reset");
    printf("    margin %.3f; words that can change: %zu, substitutes: %zu\n", c->clean,
           c->changeable, c->substitutes);
    if (c->verdict == STET_CERTIFIED) {
        printf("    %scertified%s: %s changes the answer (margin >= %.3f, %s)\n",
               cli_style("green"), reset, harmless(c), c->margin, c->method);
    } else if (c->confidence > 0 && !c->reason) {
        print_likely(c);
    } else if (c->reason) {
        printf("    %sundecided%s: %s\n", cli_style("yellow"), reset, c->reason);
    } else if (c->budget > 0) {
        printf("    %s%s%s; proved: no %zu of them or fewer change the answer\n",
               cli_style("yellow"), c->verdict_name, reset, c->budget);
    } else {
        printf("    %s%s%s; not even one substitution is proved to leave the answer\n",
               cli_style("yellow"), c->verdict_name, reset);
    }
    print_swaps(c);
}

static void print_text(const answer *a, size_t len)
{
    int shown = len > 70 ? 67 : (int)len;
    while (shown < (int)len && shown > 0 && ((unsigned char)a->text[shown] & 0xc0) == 0x80)
        shown--; /* not in the middle of a character */
    printf("%s%-12s%s %.4f  %.*s%s\n", cli_style("bold"), a->c ? a->c->name : a->p->name,
           cli_style("reset"), a->c ? a->c->probability : a->p->probability, shown, a->text,
           len > 70 ? "..." : "");
    if (a->c)
        print_certificate(a->c);
}

static void print_answer(const predictor *p, const answer *a)
{
    if (p->cfg->common.json)
        print_json(a);
    else
        print_text(a, strlen(a->text));
}

/* Proofs take their time: each is told as soon as it is there. */
static stet_status prove(void *user, const char *text, size_t len)
{
    predictor *p = user;
    answer a;
    stet_status st = ask(p, text, len, &a);
    if (st == STET_OK) {
        print_answer(p, &a);
        st = cli_printed();
    }
    drop(&a);
    return st;
}

/* ---- many texts at once ------------------------------------------------------------------- */

/* Texts that are answered together. On the CPU these are few at first and twice as many each time, and
 * what has come from a pipe is answered before a wait for more. A device waits until they are most,
 * or the end: every batch sends it the weights. */
enum { FEW = 16, MOST = 4096, MOST_BYTES = 16 << 20 };
typedef struct many {
    predictor *p;
    char *text[MOST];
    size_t n, bytes, wanted;
} many;

static stet_status answer_many(void *user)
{
    static stet_predicted *out[MOST];
    many *m = user;
    const predictor *p = m->p;
    stet_status st = stet_texts_predict_on(p->model, cli_device(&p->cfg->common),
                                           (const char *const *)m->text, m->n, out);
    for (size_t i = 0; i < m->n; i++) {
        if (st == STET_OK)
            print_answer(p, &(answer){.text = m->text[i], .p = out[i]});
        stet_result_free(out[i]);
        out[i] = NULL;
        free(m->text[i]);
    }
    m->n = m->bytes = 0;
    m->wanted = 2 * m->wanted < MOST ? 2 * m->wanted : MOST;
    return st == STET_OK ? cli_printed() : st;
}

static stet_status add_text(void *user, const char *text, size_t len)
{
    many *m = user;
    if (memchr(text, '\0', len)) {
        const stet_status before = answer_many(m);
        return before != STET_OK ? before : has_nul(text);
    }
    char *copy = malloc(len + 1);
    if (!copy)
        cli_no_memory();
    memcpy(copy, text, len);
    copy[len] = '\0';
    m->text[m->n++] = copy;
    m->bytes += len;
    const stet_status st = cli_cut_add(&m->p->cut, m->p->model, copy, len);
    if (st != STET_OK)
        return st;
    return m->n < m->wanted && m->bytes < MOST_BYTES ? STET_OK : answer_many(m);
}

/* A file may be compressed, or a table with a column of texts (docs/formats.md). */
static stet_status each_text(const char *path, cli_line *one, cli_idle *idle, void *user)
{
    if (!path || strcmp(path, "-") == 0)
        return cli_each_line(one, idle, user);
    stet_dataset *d = NULL;
    stet_data_options how = STET_DATA_DEFAULTS;
    how.unlabelled = true;
    stet_status st = stet_dataset_load(path, &how, &d);
    for (size_t i = 0; st == STET_OK && i < stet_dataset_size(d); i++) {
        const stet_str text = stet_dataset_text(d, i);
        st = one(user, text.data, text.len);
    }
    stet_dataset_free(d);
    return st;
}

/* The texts of the command line, then those of a file or a pipe. */
static stet_status all_texts(const predictor *p, const stet_rest *rest, cli_line *one,
                             cli_idle *idle, void *user)
{
    stet_status st = STET_OK;
    for (size_t i = 1; st == STET_OK && i < rest->n; i++)
        st = one(user, rest->v[i], strlen(rest->v[i]));
    if (st == STET_OK && (rest->n == 1 || p->cfg->file))
        st = each_text(p->cfg->file, one, idle, user);
    return st;
}

static stet_status predict_many(predictor *p, const stet_rest *rest)
{
    static many m;
    const bool on_cpu = p->cfg->common.device == CLI_CPU;
    m.p = p;
    m.wanted = on_cpu ? FEW : MOST;
    stet_status st = all_texts(p, rest, add_text, on_cpu ? answer_many : NULL, &m);
    if (st == STET_OK)
        st = answer_many(&m);
    while (m.n > 0)
        free(m.text[--m.n]);
    return st;
}

/* Words of the sets that the model cannot read are told once, not for every text. */
static stet_status tell_left_out(const predictor *p)
{
    stet_words *words = NULL;
    stet_bound *bound = NULL;
    stet_status st = stet_model_words(p->model, &words);
    if (st == STET_OK)
        st = stet_sets_bind(&p->sets, words, &bound);
    stet_bound_free(bound);
    stet_words_free(words);
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
    p->how = cli_prove_how(&cfg->prove);
    p->how.largest = true;
    stet_status st = stet_model_load(dir, &p->model);
    if (st == STET_OK && cfg->certify)
        st = stet_sets_load(cfg->synonyms, &p->sets);
    return st == STET_OK && cfg->certify ? tell_left_out(p) : st;
}

static void close_predictor(predictor *p)
{
    stet_sets_free(&p->sets);
    stet_model_free(p->model);
}

static stet_status run(void *config, const stet_rest *rest)
{
    predictor p = {.cfg = config};
    if (p.cfg->certify && cli_needs_gpu(&p.cfg->common))
        return cli_fail(STET_ENOTSUP, "--device cuda: predict --certify computes on the CPU alone; "
                                      "'stet certify' can use a GPU");
    cli_end_at_once();
    if (!p.cfg->certify)
        stet_device_start(cli_device(&p.cfg->common));
    stet_status st = open_predictor(&p, rest->v[0]);
    if (st == STET_OK)
        st = p.cfg->certify ? all_texts(&p, rest, prove, NULL, &p) : predict_many(&p, rest);
    cli_cut_note(&p.cut);
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
    .on_gpu = true,
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

/* The flipped text, and what the model says to that. */
static stet_status print_flipped(const predictor *p, const stet_certified *c)
{
    stet_predicted *now;
    const stet_status st = stet_text_predict(p->model, c->text, &now);
    if (st == STET_OK)
        printf("  %sflipped%s by %zu swap%s: \"%s\" is %s%s%s (%.1f %%)\n", cli_style("red"),
               cli_style("reset"), c->n_swaps, c->n_swaps == 1 ? "" : "s", c->text,
               cli_style("bold"), now->name, cli_style("reset"), 100 * now->probability);
    stet_result_free(now);
    return st;
}

static void print_verdict(const stet_certified *c)
{
    if (c->changeable == 0)
        puts("  no word of it has a substitute in the set");
    else if (c->verdict == STET_CERTIFIED)
        printf("  %sproved%s: no combination of its %zu substitutes changes the answer\n",
               cli_style("green"), cli_style("reset"), c->substitutes);
    else if (c->verdict != STET_BROKEN)
        printf("  %sopen%s: no flip found, no proof either; proved for up to %zu swaps\n",
               cli_style("yellow"), cli_style("reset"), c->budget);
}

static stet_status print_tried(const predictor *p, const stet_certified *c)
{
    printf("%s%s%s, %.1f %% sure\n", cli_style("bold"), c->name, cli_style("reset"),
           100 * c->probability);
    print_verdict(c);
    const stet_status st = c->text ? print_flipped(p, c) : STET_OK;
    size_t shown = 0;
    for (size_t k = 0; k < c->n_harm && k < MOST_HARMFUL && c->harm[k].drop >= 0.005; k++, shown++)
        printf("%s %s -> %s %.2f",
               k ? "," : cli_fmt("  most harmful, of a margin of %.2f:", c->clean), c->harm[k].from,
               c->harm[k].to, c->harm[k].drop);
    if (shown)
        putchar('\n');
    return st;
}

static stet_status try_line(void *user, const char *text, size_t len)
{
    predictor *p = user;
    answer a;
    if (len == 0)
        return STET_OK;
    stet_status st = ask(p, text, len, &a);
    if (st == STET_OK && p->cfg->common.json)
        print_json(&a);
    else if (st == STET_OK)
        st = print_tried(p, a.c);
    drop(&a);
    return st == STET_OK ? cli_printed() : st;
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
        return cli_usage(
            "there is no demo/robust here: name a run folder, or run 'stet demo' first");
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
        st = cli_each_line(try_line, NULL, &p);
    close_predictor(&p);
    return st;
}

const cli_command cmd_try = {
    .name = "try",
    .args = "[DIR]",
    .summary = "type sentences and see the answer, what would flip it, or the proof",
    .details =
        "Reads one sentence per line. For each it prints the label, then either a proof that no "
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
