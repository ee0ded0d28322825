/* cli/cmd_attack.c - stet attack: accuracy under attack. Settings of the attacks join the option
 * table by name. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/numbers.h"
#include "cli/measured.h"
#include "cli/source.h"
#include "stet/certify.h"
#include "stet/info.h"
#include "stet/results.h"

enum { MAX_SETTINGS = 64, MAX_ATTACKS = 16, SETTING_LEN = 128 };

typedef struct attack_cfg {
    cli_common common;
    cli_source source;
    const char *attack, *profile, *stop, *tagger, *command, *victim_dir, *log, *html;
    int64_t show;
    int tokenizer;
    bool record;
    double timeout, time_limit, require;
    const char *setting[MAX_SETTINGS]; /* as given; NULL: the profile decides */
} attack_cfg;

static const stet_opt own_opts[] = {
    CLI_SOURCE_OPTS(attack_cfg),
    CLI_SHARD_OPT(attack_cfg),
    STET_OPT_TOPIC("Attack"),
    STET_OPT_STR("attack", attack_cfg, attack, "pwws,ga,pso,textfooler,greedy", "NAME,...",
                 "the attacks to run"),
    STET_OPT_STR("profile", attack_cfg, profile, "openattack", "NAME",
                 "whose settings: openattack, textattack, gbm-paper, original"),
    STET_OPT_STR("stop", attack_cfg, stop, NULL, "FILE",
                 "words that stay, one per line; builtin: a list of function words"),
    STET_OPT_REAL(
        "time-limit", attack_cfg, time_limit, "0", 0, 1e9, "SECONDS",
        "time a text may take, after which it is left out and counted apart; 0: no limit"),
    STET_OPT_STR("tagger", attack_cfg, tagger, "none", "none|builtin|FILE",
                 "parts of speech for textfooler: no check, or by this tagger"),
    STET_OPT_TOPIC("Victim, in place of DIR"),
    STET_OPT_STR("victim-cmd", attack_cfg, command, NULL, "COMMAND",
                 "a program that reads texts and writes probabilities as JSON lines"),
    STET_OPT_STR("victim-dir", attack_cfg, victim_dir, NULL, "DIR",
                 "folder for its results, so that `stet report` can show it beside other models"),
    STET_OPT_REAL("victim-timeout", attack_cfg, timeout, "30", 0.001, 1e6, "SECONDS",
                  "time for one answer"),
    STET_OPT_CHOICE("tokenizer", attack_cfg, tokenizer, "word", "word|keras",
                    "how its texts are cut into words"),
    STET_OPT_TOPIC("Output"),
    STET_OPT_STR("log", attack_cfg, log, NULL, "FILE.jsonl",
                 "every text as a JSON line; texts already in it are not attacked again"),
    STET_OPT_STR("html", attack_cfg, html, NULL, "FILE.html",
                 "a page with the changed words marked (several attacks: FILE-NAME.html)"),
    STET_OPT_REAL("require", attack_cfg, require, "0", 0, 1, "SHARE",
                  "exit with 4 if an accuracy under attack is below"),
    STET_OPT_INT("show", attack_cfg, show, "2", 0, STET_KEPT_EXAMPLES, "N",
                 "flipped texts to print after the table"),
    CLI_RECORD_OPT(attack_cfg),
    STET_OPT_TOPIC("Settings, on top of the profile"),
};
enum { N_OWN = sizeof own_opts / sizeof *own_opts };
static const stet_opt common_opts[] = {CLI_COMMON_OPTS(attack_cfg), STET_OPT_END};
enum { N_COMMON = sizeof common_opts / sizeof *common_opts };

static stet_opt table[N_OWN + MAX_SETTINGS + N_COMMON];
static char attack_help[768];
static struct {
    const char *name;
    size_t owner; /* which attack has it; SIZE_MAX: all */
} settings[MAX_SETTINGS];
static size_t n_settings;

static size_t add_settings(const stet_opt *opts, size_t owner, size_t at)
{
    for (; opts->type != STET_T_END && n_settings < MAX_SETTINGS; opts++) {
        settings[n_settings].name = opts->name;
        settings[n_settings].owner = owner;
        table[at++] =
            (stet_opt){.name = opts->name,
                       .type = STET_T_STR,
                       .offset = offsetof(attack_cfg, setting) + n_settings * sizeof(char *),
                       .arg = opts->arg ? opts->arg : "yes|no",
                       .help = opts->help};
        n_settings++;
    }
    return at;
}

__attribute__((constructor)) static void build_table(void)
{
    memcpy(table, own_opts, sizeof own_opts);
    for (size_t i = 0; i < N_OWN; i++)
        if (table[i].name && strcmp(table[i].name, "attack") == 0) {
            size_t n = (size_t)snprintf(attack_help, sizeof attack_help, "%s", table[i].help);
            for (size_t k = 0; k < stet_attacks() && n < sizeof attack_help; k++)
                n += (size_t)snprintf(attack_help + n, sizeof attack_help - n, "; %s: %s",
                                      stet_attack_name(k), stet_attack_summary(k));
            table[i].help = attack_help;
        }
    size_t at = add_settings(stet_attack_common_options(), SIZE_MAX, N_OWN);
    for (size_t k = 0; k < stet_attacks(); k++)
        at = add_settings(stet_attack_options(k), k, at);
    memcpy(table + at, common_opts, sizeof common_opts);
}

/* ---- what to do --------------------------------------------------------------------------- */

/* The attacks asked for, and the settings of each. */
typedef struct plan {
    const char *name[MAX_ATTACKS];
    size_t n;
    char names[512], store[MAX_SETTINGS][SETTING_LEN];
    const char *settings[MAX_ATTACKS][MAX_SETTINGS + 1];
} plan;

static size_t attack_number(const char *name)
{
    size_t k = 0;
    while (k < stet_attacks() && strcmp(stet_attack_name(k), name) != 0)
        k++;
    return k;
}

static stet_status split_names(const char *list, plan *p)
{
    if (strlen(list) >= sizeof p->names)
        return cli_usage("--attack: the list is too long");
    strcpy(p->names, list);
    for (char *save, *name = strtok_r(p->names, ",", &save); name;
         name = strtok_r(NULL, ",", &save)) {
        if (p->n == MAX_ATTACKS)
            return cli_usage("--attack: more than %d attacks", MAX_ATTACKS);
        p->name[p->n++] = name;
    }
    return p->n ? STET_OK : cli_usage("--attack: expected a name");
}

static stet_status make_plan(const attack_cfg *cfg, plan *p)
{
    const stet_status st = split_names(cfg->attack, p);
    if (st != STET_OK)
        return st;
    size_t count[MAX_ATTACKS] = {0};
    for (size_t i = 0; i < n_settings; i++) {
        if (!cfg->setting[i])
            continue;
        if ((size_t)snprintf(p->store[i], SETTING_LEN, "%s=%s", settings[i].name,
                             cfg->setting[i]) >= SETTING_LEN)
            return cli_usage("--%s: the value is too long", settings[i].name);
        bool used = false;
        for (size_t k = 0; k < p->n; k++)
            if (settings[i].owner == SIZE_MAX || settings[i].owner == attack_number(p->name[k])) {
                p->settings[k][count[k]++] = p->store[i];
                used = true;
            }
        if (!used)
            return cli_usage("--%s is an option of attack '%s'", settings[i].name,
                             stet_attack_name(settings[i].owner));
    }
    for (size_t k = 0; k < p->n; k++) { /* every mistake is told before the first attack starts */
        const stet_status bad =
            stet_attack_settings(p->name[k], cfg->profile, p->settings[k], NULL, NULL);
        if (bad != STET_OK)
            return bad;
    }
    return STET_OK;
}

/* ---- loading ------------------------------------------------------------------------------ */

typedef struct inputs {
    cli_texts texts;
    stet_tagger *tagger;
} inputs;

/* One text of --text, with the label that the model gives it. */
static stet_status load_text(const attack_cfg *cfg, const char *dir, inputs *in)
{
    char beside[4096];
    const char *sets = cfg->source.synonyms, **names = NULL;
    const stet_str text = {cfg->source.text, strlen(cfg->source.text)};
    float *prob = NULL;
    int label = 0;
    cli_cut cut = {0};
    stet_status st = sets ? STET_OK : cli_sets_beside(dir, beside, sizeof beside);
    if (st == STET_OK)
        st = stet_sets_load(sets ? sets : beside, &in->texts.sets);
    if (st == STET_OK)
        st = stet_model_load(dir, &in->texts.model);
    const size_t k = st == STET_OK ? stet_model_classes(in->texts.model) : 0;
    if (st == STET_OK &&
        !((names = malloc(k * sizeof *names)) && (prob = malloc(k * sizeof *prob)) &&
          (in->texts.index = calloc(1, sizeof *in->texts.index))))
        st = cli_fail(STET_ENOMEM, "out of memory");
    for (size_t c = 0; st == STET_OK && c < k; c++)
        names[c] = stet_model_class_name(in->texts.model, c);
    if (st == STET_OK)
        st = stet_model_predict(in->texts.model, text.data, text.len, prob, &label);
    if (st == STET_OK)
        st = cli_cut_add(&cut, in->texts.model, text.data, text.len);
    if (st == STET_OK)
        st = stet_dataset_new(&text, &label, 1, names, k, &in->texts.data);
    in->texts.n_index = st == STET_OK;
    cli_cut_note(&cut);
    free(names);
    free(prob);
    return st;
}

static stet_status load(const attack_cfg *cfg, const stet_rest *rest, inputs *in)
{
    stet_status st = cfg->source.data ? cli_texts_load(&cfg->source, rest->n ? rest->v[0] : NULL,
                                                       (uint64_t)cfg->common.seed, &in->texts)
                                      : load_text(cfg, rest->v[0], in);
    if (st == STET_OK && strcmp(cfg->tagger, "none") != 0)
        st = strcmp(cfg->tagger, "builtin") == 0 ? stet_tagger_builtin(&in->tagger)
                                                 : stet_tagger_load(cfg->tagger, &in->tagger);
    return st;
}

static void unload(inputs *in)
{
    stet_tagger_free(in->tagger);
    cli_texts_free(&in->texts);
}

/* ---- printing ----------------------------------------------------------------------------- */

static stet_status print_json(const attack_cfg *cfg, json_t *numbers)
{
    json_t *o = cli_json_start(&cmd_attack, cfg);
    json_object_update(o, numbers);
    numbers_drop_lists(o);
    return cli_json_print(o);
}

static void keep(const attack_cfg *cfg, const inputs *in, const char *dir, const plan *p, size_t k,
                 json_t *numbers)
{
    char name[256];
    snprintf(name, sizeof name, "attack-%s-%s", p->name[k], cfg->profile);
    cli_record(&(cli_measured){.cmd = &cmd_attack,
                               .cfg = cfg,
                               .dir = dir,
                               .name = name,
                               .model = in->texts.model,
                               .data = in->texts.data,
                               .data_path = cfg->source.data,
                               .texts = in->texts.n_index,
                               .sets = &in->texts.sets,
                               .sets_path = cfg->source.synonyms},
               json_incref(numbers));
}

static void print_row(cli_table *t, const char *name, const stet_attack_result *r)
{
    double lo, hi;
    stet_interval(r->aua, (double)r->n, &lo, &hi);
    cli_row(t, name, cli_fmt("%.1f", 100 * r->clean), cli_fmt("%.1f", 100 * r->aua),
            r->n ? cli_fmt("%.1f-%.1f", 100 * lo, 100 * hi) : "-",
            cli_fmt("%.1f", 100 * r->success_rate), cli_fmt("%.1f", 100 * r->changed_mean),
            cli_fmt("%.1f", r->queries_mean), cli_fmt("%.1f", r->evaluations_mean),
            cli_fmt("%.2f", r->candidates_mean), NULL);
}

/* What other draws make of the texts as the attack left them, and of the flipped ones untouched. */
static void redrawn_row(cli_table *t, const char *name, const stet_attack_result *r)
{
    cli_row(t, name, cli_fmt("%.1f", 100 * r->aua_redrawn),
            isfinite(r->flips_stay) ? cli_fmt("%.1f", 100 * r->flips_stay) : "-",
            isfinite(r->flips_stay) ? cli_fmt("%.1f", 100 * r->untouched_wrong) : "-", NULL);
}

static double texts_per_second(const stet_attack_result *r)
{
    const size_t done = r->n + r->errors + r->timeouts - r->resumed;
    return r->seconds > 0 ? (double)done / r->seconds : 0;
}

/* Settings and what is not there, before the numbers that depend on them. */
static stet_status print_settings(const attack_cfg *cfg, const plan *p)
{
    for (size_t k = 0; k < p->n; k++) {
        char *text = NULL, *missing = NULL;
        const stet_status st =
            stet_attack_settings(p->name[k], cfg->profile, p->settings[k], &text, &missing);
        if (st != STET_OK)
            return st;
        if (cfg->common.verbose)
            cli_note("%s (%s): %s", p->name[k], cfg->profile, text);
        if (*missing)
            cli_note("%s (%s): not part of this program: %s", p->name[k], cfg->profile, missing);
        stet_free(text);
        stet_free(missing);
    }
    return STET_OK;
}

/* page.html, or page-pwws.html where there are several attacks. */
static const char *page_name(const attack_cfg *cfg, const plan *p, size_t k, char *out, size_t size)
{
    if (!cfg->html || p->n == 1)
        return cfg->html;
    const char *dot = strrchr(cfg->html, '.'), *slash = strrchr(cfg->html, '/');
    const size_t stem =
        dot && (!slash || dot > slash) ? (size_t)(dot - cfg->html) : strlen(cfg->html);
    snprintf(out, size, "%.*s-%s%s", (int)stem, cfg->html, p->name[k], cfg->html + stem);
    return out;
}

static stet_attack_args arguments(const attack_cfg *cfg, const inputs *in, const plan *p, size_t k)
{
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    a.model = in->texts.model, a.command = cfg->command, a.timeout = cfg->timeout,
    a.tokenizer = (stet_tokenizer)cfg->tokenizer;
    a.data = in->texts.data, a.index = in->texts.index, a.n_index = in->texts.n_index,
    a.sets = &in->texts.sets, a.stop = cfg->stop, a.tagger = in->tagger;
    a.attack = p->name[k], a.profile = cfg->profile, a.settings = p->settings[k],
    a.seed = (uint64_t)cfg->common.seed, a.time_limit = cfg->time_limit;
    a.log = cfg->log;
    a.prover = stet_certify_prover;
    a.device = cli_device(&cfg->common);
    return a;
}

/* `shown`: the examples of the attack with the most of them. */
static stet_status run_one(const attack_cfg *cfg, const inputs *in, const char *dir, const plan *p,
                           size_t k, stet_attack_result *r, json_t **shown, char *reason,
                           size_t size)
{
    char page[4096];
    stet_kept *kept;
    if (stet_kept_new(NULL, &kept) != STET_OK)
        return STET_ENOMEM;
    stet_attack_args a = arguments(cfg, in, p, k);
    a.html = page_name(cfg, p, k, page, sizeof page);
    a.each = stet_kept_attacked, a.each_user = kept;
    json_t *numbers = NULL;
    stet_status st = stet_attack_run(&a, r);
    if (st == STET_OK &&
        !(numbers = numbers_of_attack(p->name[k], cfg->profile, p->settings[k], r, kept)))
        st = cli_fail(STET_ENOMEM, "out of memory");
    if (st == STET_OK && cfg->common.json)
        st = print_json(cfg, numbers);
    if (st == STET_OK && dir && cfg->record)
        keep(cfg, in, dir, p, k, numbers);
    json_t *examples = json_object_get(numbers, "examples");
    if (json_array_size(examples) > json_array_size(*shown)) {
        json_decref(*shown);
        *shown = json_incref(examples);
    }
    if (!*reason)
        snprintf(reason, size, "%s", stet_kept_error(kept));
    json_decref(numbers);
    stet_kept_free(kept);
    return st;
}

static void print_examples(const attack_cfg *cfg, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list) && (int64_t)i < cfg->show; i++) {
        putchar('\n');
        cli_diff_print(json_array_get(list, i));
    }
}

static stet_status run_all(const attack_cfg *cfg, const inputs *in, const char *dir, const plan *p)
{
    cli_table t = {0}, again = {0};
    cli_row(&t, "attack", "clean", "AUA", "95 % int.", "success", "changed", "queries", "computed",
            "subst.", NULL);
    cli_row(&again, "with other draws", "correct", "flips that stay", "wrong before swaps", NULL);
    stet_status st = print_settings(cfg, p);
    size_t errors = 0;
    char reason[256] = "";
    bool swaps = false;
    json_t *shown = NULL;
    for (size_t k = 0; st == STET_OK && k < p->n; k++) {
        stet_attack_result r;
        st = run_one(cfg, in, dir, p, k, &r, &shown, reason, sizeof reason);
        if (st != STET_OK)
            break;
        errors += r.errors;
        swaps |= r.n == 0 || r.candidates_mean > 0;
        if (strcmp(p->name[k], "exhaustive") == 0 && r.decided < r.correct)
            cli_note("exhaustive: %zu texts have too many combinations (--exhaustive-cap): not "
                     "tried, and counted as not flipped",
                     r.correct - r.decided);
        if (r.proved)
            cli_note("%s: %zu texts are certified, nothing flips them: the search stopped there "
                     "%s",
                     p->name[k], r.proved,
                     strcmp(p->name[k], "greedy") == 0 ? "(--greedy-proofs no: search on)" : "");
        if (r.timeouts)
            cli_note("%s: %zu texts took longer than %g s and are not counted", p->name[k],
                     r.timeouts, cfg->time_limit);
        cli_note("%s: %zu texts in %.1f s, %s", p->name[k], r.n, r.seconds,
                 cli_rate(texts_per_second(&r), "texts"));
        if (!cfg->common.json)
            print_row(&t, p->name[k], &r);
        if (r.redraws)
            redrawn_row(&again, p->name[k], &r);
        if (r.aua < cfg->require)
            cli_require_failed("accuracy under %s is %.4f, below the required %.4f", p->name[k],
                               r.aua, cfg->require);
    }
    if (!cfg->common.json && t.rows > 1) {
        puts("in % of the texts:");
        cli_table_print(&t);
        if (again.rows > 1)
            cli_table_print(&again);
        print_examples(cfg, shown);
    }
    json_decref(shown);
    cli_table_drop(&t);
    cli_table_drop(&again);
    if (st == STET_OK && !swaps)
        cli_note_no_swaps(&cfg->source);
    if (st == STET_OK && errors)
        st = cli_fail(STET_EIO,
                      "%zu texts got no answer from the victim and are not counted; the first: %s",
                      errors, reason);
    return st;
}

/* ---- one text ----------------------------------------------------------------------------- */

typedef struct told {
    const attack_cfg *cfg;
    const char *attack;
} told;

static void tell(void *user, const char *line)
{
    const told *t = user;
    json_t *o = json_loads(line, 0, NULL);
    const char *outcome = json_string_value(json_object_get(o, "outcome")),
               *label = json_string_value(json_object_get(o, "label"));
    const long long queries = (long long)json_integer_value(json_object_get(o, "queries"));
    if (t->cfg->common.json) {
        puts(line);
    } else if (outcome && strcmp(outcome, "success") == 0) {
        printf("%s%s%s, %lld queries\n", cli_style("bold"), t->attack, cli_style("reset"), queries);
        cli_diff_print(o);
    } else {
        const char *answer = json_string_value(json_object_get(o, "answer"));
        const bool wrong = outcome && strcmp(outcome, "wrong") == 0;
        printf("%s%s%s, %lld queries\n  %s: %s%s\n", cli_style("bold"), t->attack,
               cli_style("reset"), queries, label ? label : "",
               wrong ? cli_fmt("before any swap the answer is %s", answer ? answer : "another")
                     : "not flipped",
               json_object_get(o, "stopped") ? "; certified, so nothing can flip it" : "");
    }
    json_decref(o);
}

static stet_status run_text(const attack_cfg *cfg, const inputs *in, const plan *p)
{
    stet_status st = STET_OK;
    for (size_t k = 0; st == STET_OK && k < p->n; k++) {
        told t = {cfg, p->name[k]};
        stet_attack_result r;
        stet_attack_args a = arguments(cfg, in, p, k);
        a.each = tell, a.each_user = &t;
        st = stet_attack_run(&a, &r);
        if (st == STET_OK && r.redraws && isfinite(r.flips_stay) && !cfg->common.json)
            printf("  asked again %zu times with other draws: flipped %.0f times\n", r.redraws,
                   (double)r.redraws * r.flips_stay);
    }
    return st == STET_OK ? cli_printed() : st;
}

static stet_status run(void *config, const stet_rest *rest)
{
    const attack_cfg *cfg = config;
    if ((rest->n == 1) == (cfg->command != NULL))
        return cli_usage("expected either a model folder DIR or --victim-cmd");
    if (cfg->victim_dir && !cfg->command)
        return cli_usage("--victim-dir needs --victim-cmd");
    if (!cfg->source.data && !(cfg->source.text && rest->n == 1))
        return cli_usage("expected --data FILE, or a run folder and --text \"a sentence\"");
    static plan p;
    inputs in = {0};
    if (!cfg->command)
        stet_device_start(cli_device(&cfg->common));
    stet_status st = make_plan(cfg, &p);
    if (st == STET_OK)
        st = cli_can_write(cfg->html);
    if (st == STET_OK)
        st = load(cfg, rest, &in);
    if (st == STET_OK)
        st = cfg->source.data ? run_all(cfg, &in, rest->n ? rest->v[0] : cfg->victim_dir, &p)
                              : run_text(cfg, &in, &p);
    unload(&in);
    return st;
}

const cli_command cmd_attack = {
    .name = "attack",
    .args = "[DIR]",
    .summary = "attack a model with word substitutions and measure what is left",
    .details =
        "AUA, accuracy under attack, is the share of texts that are classified correctly and not "
        "flipped;\n\"success\" is the share of correct texts that are flipped, \"changed\" the "
        "share of words changed in\nthem. \"queries\" counts as the frameworks of the profile do, "
        "\"computed\" what was really evaluated;\n\"subst.\" is the mean number of substitutes of "
        "a word that has any.\n"
        "Without --data, --text is a sentence: it is classified, and attacked to change that "
        "answer.\n"
        "docs/attacks.md describes attacks, profiles, the log and the protocol of --victim-cmd.",
    .examples = "  stet attack runs/cnn --data test.tsv.xz --synonyms jia.subst --attack "
                "pwws,greedy --limit 1000\n"
                "  stet attack runs/cnn --synonyms jia.subst --text \"a fine film\"\n"
                "  stet attack runs/cnn --data test.tsv.xz --synonyms jia.subst --log cnn.jsonl "
                "--html cnn.html\n"
                "  stet attack --victim-cmd 'python3 victim.py' --victim-dir runs/theirs "
                "--data test.tsv \\\n    --synonyms jia.subst --limit 100\n",
    .opts = table,
    .cfg_size = sizeof(attack_cfg),
    .on_gpu = true,
    .min_args = 0,
    .max_args = 1,
    .run = run,
};
