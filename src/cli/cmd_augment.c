/* cli/cmd_augment.c - stet augment: adversarial texts of a model, with their true labels, to train on. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/source.h"
#include "stet/attack.h"
#include "stet/train.h"

typedef struct augment_cfg {
    cli_common common;
    cli_source source;
    double valid;
    const char *fold, *attack, *profile, *log, *out;
} augment_cfg;

static const stet_opt opts[] = {
    CLI_SOURCE_OPTS(augment_cfg),
    STET_OPT_REAL("valid", augment_cfg, valid, "0.1", 0, 1, "SHARE",
                  "the share of --data that `stet train` holds out with the same --seed: these texts "
                  "are not attacked, so that nothing of them is trained on; 0: none"),
    STET_OPT_STR("fold", augment_cfg, fold, NULL, "KofN",
                 "the fold that `stet train --fold` holds out instead"),
    STET_OPT_TOPIC("Attack"),
    STET_OPT_STR("attack", augment_cfg, attack, "pwws", "NAME", "the attack that makes the texts"),
    STET_OPT_STR("profile", augment_cfg, profile, "original", "NAME",
                 "whose settings: openattack, textattack, gbm-paper, original"),
    STET_OPT_TOPIC("Output"),
    STET_OPT_OUT(augment_cfg, out, NULL, "the texts: .jsonl, .tsv or .csv, plain or compressed"),
    STET_OPT_STR("log", augment_cfg, log, NULL, "FILE.jsonl",
                 "every text as a JSON line; texts already in it are not attacked again"),
    CLI_COMMON_OPTS(augment_cfg),
    STET_OPT_END,
};

/* Texts with labels, which are copied. */
typedef struct collected {
    const stet_model *model;
    stet_str *text;
    int *label;
    size_t n, cap, flipped;
} collected;

static void collect(collected *c, const char *text, size_t len, int label)
{
    if (c->n == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 256;
        c->text = realloc(c->text, c->cap * sizeof *c->text);
        c->label = realloc(c->label, c->cap * sizeof *c->label);
    }
    char *copy = malloc(len + 1);
    if (!c->text || !c->label || !copy)
        cli_no_memory();
    memcpy(copy, text, len);
    c->text[c->n] = (stet_str){copy, len};
    c->label[c->n++] = label;
}

static void collected_deinit(collected *c)
{
    for (size_t i = 0; i < c->n; i++)
        free((char *)c->text[i].data);
    free(c->text);
    free(c->label);
}

static void take_line(void *user, const char *line)
{
    collected *c = user;
    json_t *o = json_loads(line, 0, NULL);
    const char *outcome = json_string_value(json_object_get(o, "outcome")),
               *label = json_string_value(json_object_get(o, "label"));
    const json_t *text = json_object_get(o, "adversarial");
    for (size_t k = 0; outcome && label && text && k < stet_model_classes(c->model); k++)
        if (strcmp(outcome, "success") == 0 &&
            strcmp(stet_model_class_name(c->model, k), label) == 0) {
            collect(c, json_string_value(text), json_string_length(text), (int)k);
            c->flipped++;
        }
    json_decref(o);
}

static stet_status save(const augment_cfg *cfg, const collected *c)
{
    const size_t k = stet_model_classes(c->model);
    const char **names = malloc((k + 1) * sizeof *names);
    stet_dataset *d = NULL;
    if (!names)
        cli_no_memory();
    for (size_t i = 0; i < k; i++)
        names[i] = stet_model_class_name(c->model, i);
    stet_status st = stet_dataset_new(c->text, c->label, c->n, names, k, &d);
    if (st == STET_OK)
        st = stet_dataset_save(d, cfg->out);
    stet_dataset_free(d);
    free(names);
    return st;
}

static stet_status tell(const augment_cfg *cfg, const collected *c, const stet_attack_result *r)
{
    if (!cfg->common.json) {
        printf("%s: %zu texts, %zu of them adversarial; %s flipped %.1f %% of %zu correct texts in "
               "%.1f s\n",
               cfg->out, c->n, c->flipped, cfg->attack, 100 * r->success_rate, r->correct,
               r->seconds);
        return STET_OK;
    }
    json_t *o = cli_json_start(&cmd_augment, cfg);
    json_object_update_new(o, json_pack("{s:o, s:I, s:I, s:I, s:f, s:f, s:f}", "out",
                                        cli_json_string(cfg->out), "texts", (json_int_t)c->n,
                                        "adversarial", (json_int_t)c->flipped, "n",
                                        (json_int_t)r->n, "clean", r->clean, "success_rate",
                                        r->success_rate, "seconds", r->seconds));
    return cli_json_print(o);
}

/* A sample of the texts that are trained on; `train` is NULL where nothing is held out. */
static stet_status choose_texts(const augment_cfg *cfg, cli_texts *t, stet_dataset **train)
{
    const uint64_t seed = (uint64_t)cfg->common.seed;
    stet_dataset *held = NULL;
    stet_status st = STET_OK;
    if (cfg->fold)
        st = stet_train_fold(t->data, cfg->fold, train, &held);
    else if (cfg->valid > 0)
        st = stet_train_split(t->data, cfg->valid, seed, train, &held);
    stet_dataset_free(held);
    return st != STET_OK
               ? st
               : stet_sets_sample(&t->sets, *train ? *train : t->data, (size_t)cfg->source.limit,
                                  seed, t->index, &t->n_index);
}

static stet_status run(void *config, const stet_rest *rest)
{
    const augment_cfg *cfg = config;
    if (!cfg->out)
        return cli_usage("expected -o FILE");
    cli_texts t = {0};
    stet_dataset *train = NULL;
    stet_attack_result r = {0};
    cli_source all = cfg->source;
    all.limit = 0;
    stet_status st = stet_attack_settings(cfg->attack, cfg->profile, NULL, NULL, NULL);
    if (st == STET_OK)
        st = cli_can_write(cfg->out);
    if (st == STET_OK)
        st = cli_texts_load(&all, rest->v[0], (uint64_t)cfg->common.seed, &t);
    if (st == STET_OK)
        st = choose_texts(cfg, &t, &train);
    collected c = {.model = t.model};
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    a.model = t.model, a.data = train ? train : t.data, a.index = t.index, a.n_index = t.n_index;
    a.sets = &t.sets;
    a.attack = cfg->attack, a.profile = cfg->profile, a.seed = (uint64_t)cfg->common.seed;
    a.log = cfg->log, a.each = take_line, a.each_user = &c;
    a.device = cli_device(&cfg->common);
    if (st == STET_OK)
        st = stet_attack_run(&a, &r);
    if (st == STET_OK && r.n > 0 && r.candidates_mean == 0)
        cli_note_no_swaps(&cfg->source);
    if (st == STET_OK)
        st = save(cfg, &c);
    if (st == STET_OK)
        st = tell(cfg, &c, &r);
    collected_deinit(&c);
    stet_dataset_free(train);
    cli_texts_free(&t);
    return st;
}

const cli_command cmd_augment = {
    .name = "augment",
    .args = "DIR",
    .summary = "write adversarial texts of a model, with their true labels, to train on",
    .details =
        "Attacks the texts of --data and keeps those that the attack flips, as flipped. Train on "
        "them beside the data with `stet train --defense augment --augment-texts FILE`, and with "
        "the same --seed, --valid and --fold: then no text that training validates on is among them.",
    .examples =
        "  stet augment runs/plain --data train.csv --synonyms words.subst --limit 2000 -o "
        "flipped.jsonl\n"
        "  stet train --data train.csv --vectors vectors.txt --synonyms words.subst \\\n"
        "    --defense augment,mixada --augment-texts flipped.jsonl -o runs/mixada\n",
    .opts = opts,
    .cfg_size = sizeof(augment_cfg),
    .min_args = 1,
    .on_gpu = true,
    .max_args = 1,
    .run = run,
};
