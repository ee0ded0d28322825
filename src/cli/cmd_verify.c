/* cli/cmd_verify.c - stet verify: derive every claim of a certificate file anew. */
#include <string.h>

#include "cli/commands.h"
#include "cli/source.h"
#include "stet/verify.h"

typedef struct verify_cfg {
    cli_common common;
    const char *model, *data, *label, *text, *synonyms;
    int64_t require;
    bool skip_bad, expect_certified, exact;
} verify_cfg;

static const stet_opt opts[] = {
    STET_OPT_TOPIC("What the certificates are about"),
    STET_OPT_STR("model", verify_cfg, model, NULL, "DIR", "the model folder"),
    STET_OPT_STR("data", verify_cfg, data, NULL, "FILE", "the texts: words and labels must match"),
    STET_OPT_STR("synonyms", verify_cfg, synonyms, NULL, "SET",
                 "the sets: substitutes must be theirs (with --data; alone, only their SHA-256 is "
                 "compared)"),
    STET_OPT_STR("label", verify_cfg, label, NULL, "COLUMN", "column or field of the label"),
    STET_OPT_STR("text", verify_cfg, text, NULL, "COLUMN,...", "columns or fields of the text"),
    STET_OPT_FLAG("skip-bad", verify_cfg, skip_bad,
                  "leave out bad lines of the data, as the certifier did"),
    STET_OPT_FLAG(
        "exact", verify_cfg, exact,
        "derive claims about CNNs and sums of word scores in exact arithmetic, without any "
        "rounding of our own: slow"),
    STET_OPT_TOPIC("What is expected"),
    STET_OPT_INT("require", verify_cfg, require, "0", 0, 9e15, "N",
                 "exit with 4 if fewer than N texts are certified"),
    STET_OPT_FLAG("expect-certified", verify_cfg, expect_certified,
                  "exit with 4 unless there are texts and all of them are certified"),
    CLI_COMMON_OPTS(verify_cfg),
    STET_OPT_END,
};

/* ---- where texts and sets come from ------------------------------------------------------- */

/* Read by the ordinary readers: the checker itself knows neither tokenisers nor lexicons. */
typedef struct source {
    const verify_cfg *cfg;
    stet_model *model;
    stet_dataset *data;
    stet_sets sets;
    stet_words *words; /* of the run, and a fork for those of the text in work */
    stet_words *own;
    stet_bound *bound;
    stet_reading reading;
    stet_choices choices;
    char problem[160];
    char data_sha256[65], sets_sha256[65];
} source;

static stet_status source_open(source *s)
{
    stet_status st = STET_OK;
    if (s->cfg->data)
        st = stet_model_load(s->cfg->model, &s->model);
    if (st == STET_OK && s->cfg->data)
        st = cli_data_load(&(cli_source){.data = s->cfg->data,
                                         .label = s->cfg->label,
                                         .text = s->cfg->text,
                                         .skip_bad = s->cfg->skip_bad},
                           s->model, &s->data);
    if (st == STET_OK && s->cfg->synonyms)
        st = stet_sets_load(s->cfg->synonyms, &s->sets);
    if (st == STET_OK && s->cfg->data)
        stet_dataset_sha256(s->data, s->data_sha256);
    if (st == STET_OK && s->model)
        st = stet_model_words(s->model, &s->words);
    if (st == STET_OK && s->model && s->cfg->synonyms)
        st = stet_sets_bind(&s->sets, s->words, &s->bound);
    if (st == STET_OK && s->model)
        st = stet_words_fork(s->words, &s->own);
    if (st == STET_OK && s->cfg->synonyms)
        stet_sets_sha256(&s->sets, s->sets_sha256);
    return st;
}

static void source_close(source *s)
{
    stet_reading_deinit(&s->reading);
    stet_choices_deinit(&s->choices);
    stet_bound_free(s->bound);
    stet_words_free(s->own);
    stet_words_free(s->words);
    stet_sets_free(&s->sets);
    stet_dataset_free(s->data);
    stet_model_free(s->model);
}

static const char *differ(source *s, const char *fmt, size_t position)
{
    snprintf(s->problem, sizeof s->problem, fmt, position);
    return s->problem;
}

/* Want of memory is no fault of the line that is looked at. */
static stet_status in_memory(stet_status st)
{
    if (st == STET_ENOMEM)
        cli_no_memory();
    return st;
}

static const char *match_sets(source *s, const stet_verify_text *t)
{
    if (in_memory(stet_bound_choices(s->bound, s->own, &s->reading, &s->choices)) != STET_OK)
        return stet_last_error();
    for (size_t p = 0; p < t->n; p++) {
        const size_t n = s->choices.start[p + 1] - s->choices.start[p];
        bool same = n == t->start[p + 1] - t->start[p];
        for (size_t k = 0; same && k < n; k++)
            same = strcmp(s->choices.text[s->choices.start[p] + k],
                          t->substitute[t->start[p] + k]) == 0;
        if (!same)
            return differ(s, "position %zu: not the substitutes that --synonyms has", p);
    }
    return NULL;
}

static const char *match(void *user, const stet_verify_text *t)
{
    source *s = user;
    if (t->index >= stet_dataset_size(s->data))
        return differ(s, "--data has %zu texts only", stet_dataset_size(s->data));
    if (stet_dataset_label(s->data, t->index) != t->label)
        return "not the label that --data has";
    const stet_str text = stet_dataset_text(s->data, t->index);
    stet_words_forget(s->own);
    if (in_memory(stet_words_read(s->own, text.data, text.len, &s->reading)) != STET_OK)
        return stet_last_error();
    const size_t n = s->reading.n;
    for (size_t p = 0; p < t->n && p < n; p++)
        if (strcmp(stet_token_word(&s->reading.tokens, p), t->word[p]) != 0)
            return differ(s, "position %zu: not the word that --data has", p);
    if (n != t->n)
        return differ(s, "the text of --data has %zu words", n);
    return s->cfg->synonyms ? match_sets(s, t) : NULL;
}

/* ---- output ------------------------------------------------------------------------------- */

typedef struct job {
    source from;
    json_t *lines; /* with --json: what failed */
} job;

static const char *match_job(void *user, const stet_verify_text *t)
{
    return match(&((job *)user)->from, t);
}

static void failed(void *user, size_t line, const char *why)
{
    job *j = user;
    if (j->lines)
        json_array_append_new(j->lines,
                              json_pack("{s:I, s:s}", "line", (json_int_t)line, "why", why));
    else
        printf("line %zu: %s\n", line, why);
}

static stet_status print_json(const verify_cfg *cfg, const stet_verify_result *r, json_t *lines)
{
    json_t *o = cli_json_start(&cmd_verify, cfg);
    if (!o)
        return STET_ENOMEM;
    json_object_set_new(o, "budget",
                        r->budget == SIZE_MAX ? json_null() : json_integer((json_int_t)r->budget));
    json_object_set_new(o, "n", json_integer((json_int_t)r->texts));
    json_object_set_new(o, "failed", json_integer((json_int_t)r->failed));
    json_object_set_new(o, "claims", json_integer((json_int_t)r->claims));
    json_object_set_new(o, "exact", json_integer((json_int_t)r->exact));
    json_object_set_new(o, "certified", json_integer((json_int_t)r->certified));
    json_object_set_new(o, "broken", json_integer((json_int_t)r->broken));
    json_object_set_new(o, "wrong", json_integer((json_int_t)r->wrong));
    json_object_set_new(o, "undecided", json_integer((json_int_t)r->undecided));
    json_object_set_new(o, "lines", json_incref(lines));
    json_object_set_new(o, "seconds", json_real(r->seconds));
    return cli_json_print(o);
}

static void print_text(const verify_cfg *cfg, const stet_verify_result *r)
{
    printf("%zu claims of %zu texts stand: %zu certified, %zu broken, %zu wrong as they are, %zu "
           "undecided (%.1f s)\n",
           r->claims, r->certified + r->broken + r->wrong + r->undecided, r->certified, r->broken,
           r->wrong, r->undecided, r->seconds);
    if (r->certified)
        printf("substituted words in a certified text: %s\n",
               r->budget == SIZE_MAX ? "any number" : cli_fmt("at most %zu", r->budget));
    if (cfg->exact)
        printf("claims derived in exact arithmetic: %zu of %zu\n", r->exact, r->claims);
    if (r->claims)
        printf("smallest bound derived: %.6g\n", r->least);
}

static stet_status run(void *config, const stet_rest *rest)
{
    const verify_cfg *cfg = config;
    if (!cfg->model)
        return cli_usage("--model DIR is needed: the model that the certificates are about");
    job j = {.from = {.cfg = cfg}, .lines = cfg->common.json ? json_array() : NULL};
    stet_status st = source_open(&j.from);
    stet_verify_result r;
    if (st == STET_OK) {
        const stet_verify_options how = {
            .match = cfg->data ? match_job : NULL,
            .failed = failed,
            .user = &j,
            .exact = cfg->exact,
            .data_sha256 = cfg->data ? j.from.data_sha256 : NULL,
            .sets_sha256 = cfg->synonyms ? j.from.sets_sha256 : NULL,
        };
        st = stet_verify_file(rest->v[0], cfg->model, &how, &r);
    }
    if (st == STET_OK && cfg->common.json)
        st = print_json(cfg, &r, j.lines);
    else if (st == STET_OK)
        print_text(cfg, &r);
    if (st == STET_OK && r.texts == 0 && r.failed == 0 && !cfg->expect_certified)
        cli_note("warning: %s is about no text at all", rest->v[0]);
    if (st == STET_OK && (int64_t)r.certified < cfg->require)
        cli_require_failed("%zu texts are certified, fewer than the required %lld", r.certified,
                           (long long)cfg->require);
    else if (st == STET_OK && cfg->expect_certified && (r.texts == 0 || r.certified < r.texts))
        cli_require_failed("%zu of %zu texts are certified, not all", r.certified, r.texts);
    if (st == STET_OK && r.failed)
        st = cli_fail(STET_EFORMAT, "%s: %zu line%s not hold", rest->v[0], r.failed,
                      r.failed == 1 ? " does" : "s do");
    json_decref(j.lines);
    source_close(&j.from);
    return st;
}

const cli_command cmd_verify = {
    .name = "verify",
    .args = "FILE",
    .summary = "check a certificate file with code that is independent of the certifier",
    .details = "Derives every bound anew from the model folder, in double precision with "
               "outward rounding, and evaluates every counter-example. It names each line "
               "that does not hold and exits with 3. With --data and --synonyms it also "
               "compares words, labels and substitutes with their source.",
    .examples =
        "  stet verify cert.jsonl --model runs/cnn\n"
        "  stet verify cert.jsonl --model runs/cnn --data test.tsv.xz --synonyms jia.subst\n"
        "  stet verify cert.jsonl --model runs/cnn --require 700\n",
    .opts = opts,
    .cfg_size = sizeof(verify_cfg),
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
