/* cli/cmd_verify.c - stet verify: derive every claim of a certificate file anew. */
#include "cli/commands.h"
#include "cli/source.h"
#include "stet/certify.h"

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

/* ---- output ------------------------------------------------------------------------------- */

/* `user`: the list for --json of what failed, or NULL. */
static void failed(void *user, size_t line, const char *why)
{
    if (user)
        json_array_append_new(user, json_pack("{s:I, s:s}", "line", (json_int_t)line, "why", why));
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
    if (r->confidence > 0) {
        json_object_set_new(o, "likely", json_integer((json_int_t)r->likely));
        json_object_set_new(o, "confidence", json_real(r->confidence));
    }
    json_object_set_new(o, "lines", json_incref(lines));
    json_object_set_new(o, "seconds", json_real(r->seconds));
    return cli_json_print(o);
}

/* A statistical file: nothing in it counts as proved. */
static void print_likely(const stet_verify_result *r)
{
    printf("likely at confidence %.10g: %zu of %zu texts, %zu undecided, %zu wrong as they are; none "
           "is proved (%.1f s)\n",
           r->confidence, r->likely, r->likely + r->undecided + r->wrong, r->undecided, r->wrong,
           r->seconds);
    puts("This follows from the counts of votes in the file. The counts, and the answers to "
         "unchanged texts, come from random draws and are taken on trust.");
    if (r->likely)
        printf("substituted words in a likely text: %s\n",
               r->budget == SIZE_MAX ? "any number" : cli_fmt("at most %zu", r->budget));
}

static void print_text(const verify_cfg *cfg, const stet_verify_result *r)
{
    if (r->confidence > 0) {
        print_likely(r);
        return;
    }
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

/* The texts and sets that the certificates should be about, as far as they are named. */
static stet_status check(const verify_cfg *cfg, const char *path, json_t *lines,
                         stet_verify_result *r)
{
    const stet_verify_options how = {.failed = failed, .user = lines, .exact = cfg->exact};
    stet_model *m = NULL;
    stet_dataset *d = NULL;
    stet_sets sets = {0};
    stet_status st = cfg->data ? stet_model_load(cfg->model, &m) : STET_OK;
    if (st == STET_OK && cfg->data)
        st = cli_data_load(&(cli_source){.data = cfg->data,
                                         .label = cfg->label,
                                         .text = cfg->text,
                                         .skip_bad = cfg->skip_bad},
                           m, &d);
    if (st == STET_OK && cfg->synonyms)
        st = stet_sets_load(cfg->synonyms, &sets);
    if (st == STET_OK)
        st = stet_verify_against(path, cfg->model, d, cfg->synonyms ? &sets : NULL, &how, r);
    stet_sets_free(&sets);
    stet_dataset_free(d);
    stet_model_free(m);
    return st;
}

static stet_status run(void *config, const stet_rest *rest)
{
    const verify_cfg *cfg = config;
    if (!cfg->model)
        return cli_usage("--model DIR is needed: the model that the certificates are about");
    json_t *lines = cfg->common.json ? json_array() : NULL;
    stet_verify_result r;
    stet_status st = check(cfg, rest->v[0], lines, &r);
    if (st == STET_OK && cfg->common.json)
        st = print_json(cfg, &r, lines);
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
    json_decref(lines);
    return st;
}

const cli_command cmd_verify = {
    .name = "verify",
    .args = "FILE",
    .summary = "check a certificate file with code that is independent of the certifier",
    .details = "Derives every bound anew from the model folder, in double precision with "
               "outward rounding, and evaluates every counter-example. It names each line "
               "that does not hold and exits with 3. With --data and --synonyms it also "
               "compares words, labels and substitutes with their source. A statistical file, "
               "of a model that answers by votes, is recomputed from its counts of votes, and "
               "no text of it counts as certified.",
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
