/* cli/cmd_sandwich.c - stet sandwich: proofs from below and attacks from above, on the same texts.
 * A text that is both proved and flipped means that one of the two is wrong. */
#include <string.h>

#include "cli/commands.h"
#include "cli/prove.h"
#include "cli/source.h"
#include "stet/sandwich.h"

enum { MAX_ATTACKS = 16 };

typedef struct sandwich_cfg {
    cli_common common;
    cli_source source;
    cli_prove prove;
    const char *attack;
} sandwich_cfg;

static const stet_opt opts[] = {
    CLI_SOURCE_OPTS(sandwich_cfg),
    STET_OPT_TOPIC("Attacks"),
    STET_OPT_STR("attack", sandwich_cfg, attack, "greedy,pwws", "NAME,...",
                 "attacks, with the settings of their profile openattack"),
    CLI_PROVE_OPTS(sandwich_cfg),
    CLI_COMMON_OPTS(sandwich_cfg),
    STET_OPT_END,
};

/* The names of a list between commas, NULL at the end. */
typedef struct names {
    char store[512];
    const char *v[MAX_ATTACKS + 1];
    size_t n;
} names;

static stet_status split_names(const char *list, names *out)
{
    if (strlen(list) >= sizeof out->store)
        return cli_usage("--attack: the list is too long");
    strcpy(out->store, list);
    for (char *save, *name = strtok_r(out->store, ",", &save); name;
         name = strtok_r(NULL, ",", &save)) {
        if (out->n == MAX_ATTACKS)
            return cli_usage("--attack: more than %d attacks", MAX_ATTACKS);
        const stet_status st = stet_attack_settings(name, "openattack", NULL, NULL, NULL);
        if (st != STET_OK)
            return st;
        out->v[out->n++] = name;
    }
    return out->n ? STET_OK : cli_usage("--attack: expected a name");
}

static stet_status print_json(const sandwich_cfg *cfg, const cli_texts *t, const names *attacks,
                              const stet_sandwich *s)
{
    const stet_certify_result *p = &s->proved;
    json_t *o = cli_json_start(&cmd_sandwich, cfg), *by_attack = json_object();
    for (size_t k = 0; k < s->n_attacks; k++)
        json_object_set_new(by_attack, attacks->v[k], json_real(s->attacked[k].aua));
    json_object_update_new(o, json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:o, s:o}", "n",
                                        (json_int_t)p->n, "clean", p->clean, "certified",
                                        p->certified, "broken", p->broken, "undecided",
                                        p->undecided, "aua", s->upper, "attacks", by_attack,
                                        "fingerprints", cli_fingerprints(t)));
    return cli_json_print(o);
}

static stet_status print(const names *attacks, const stet_sandwich *s)
{
    const stet_certify_result *p = &s->proved;
    cli_table t = {0};
    cli_row(&t, "", "share", "seconds", NULL);
    cli_row(&t, "certified", cli_fmt("%.1f %%", 100 * p->certified), cli_fmt("%.1f", p->seconds),
            NULL);
    cli_row(&t, "not flipped at all", cli_fmt("%.1f %%", 100 * s->upper), "", NULL);
    for (size_t k = 0; k < s->n_attacks; k++)
        cli_row(&t, cli_fmt("not flipped by %s", attacks->v[k]),
                cli_fmt("%.1f %%", 100 * s->attacked[k].aua),
                cli_fmt("%.1f", s->attacked[k].seconds), NULL);
    cli_row(&t, "right", cli_fmt("%.1f %%", 100 * p->clean), "", NULL);
    cli_table_print(&t);
    printf("\n%zu texts: certified %.1f %% <= robust accuracy <= %.1f %% under attack\n", p->n,
           100 * p->certified, 100 * s->upper);
    return STET_OK;
}

static stet_status squeeze(const sandwich_cfg *cfg, const char *dir, const cli_texts *t,
                           const names *attacks)
{
    const stet_certify_args a = cli_prove_args(&cfg->prove, t, dir);
    stet_sandwich s;
    stet_status st = stet_sandwich_run(&a, attacks->v, (uint64_t)cfg->common.seed, &s);
    if (st != STET_OK)
        return st;
    st = cfg->common.json ? print_json(cfg, t, attacks, &s) : print(attacks, &s);
    if (st == STET_OK && s.dispute)
        st = cli_fail(STET_EINTERNAL, "%s", s.dispute);
    stet_sandwich_deinit(&s);
    return st;
}

static stet_status run(void *config, const stet_rest *rest)
{
    const sandwich_cfg *cfg = config;
    cli_texts t = {0};
    names attacks = {.n = 0};
    if (cfg->prove.budget)
        return cli_usage(
            "--budget: attacks may change any number of words, so proofs must allow the same");
    stet_status st = split_names(cfg->attack, &attacks);
    if (st == STET_OK)
        st = cli_texts_load(&cfg->source, rest->v[0], (uint64_t)cfg->common.seed, &t);
    if (st == STET_OK)
        st = squeeze(cfg, rest->v[0], &t, &attacks);
    cli_texts_free(&t);
    return st;
}

const cli_command cmd_sandwich = {
    .name = "sandwich",
    .args = "DIR",
    .summary = "bound robust accuracy from both sides: proofs below, attacks above",
    .details = "Robust accuracy, the share of texts classified correctly whatever substitutes "
               "are chosen, lies between the two. If a text is both certified and flipped, "
               "the program names it and fails.",
    .examples = "  stet sandwich runs/cnn --data test.tsv.xz --synonyms jia.subst --limit 200\n"
                "  stet sandwich runs/cnn --data test.tsv.xz --synonyms jia.subst --complete "
                "--attack greedy --json\n",
    .opts = opts,
    .cfg_size = sizeof(sandwich_cfg),
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
