/* cli/cmd_sandwich.c - stet sandwich: proofs from below and attacks from above, on the same texts.
 * A text that is both proved and flipped means that one of the two is wrong. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/prove.h"
#include "cli/source.h"
#include "stet/attack.h"

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

typedef struct sandwich {
    const sandwich_cfg *cfg;
    const cli_texts *texts;
    stet_certify_result proved;
    const char *name[MAX_ATTACKS]; /* (n) into `names` */
    char names[512];
    stet_attack_result attacked[MAX_ATTACKS];
    size_t n;
    const char **flipped; /* (texts) the attack that flipped it, or NULL */
    size_t survivors;    /* texts that are correct and that nothing flipped, --complete included */
    size_t at;           /* the attack in work */
} sandwich;

static stet_status split_names(const char *list, sandwich *s)
{
    if (strlen(list) >= sizeof s->names)
        return cli_usage("--attack: the list is too long");
    strcpy(s->names, list);
    for (char *save, *name = strtok_r(s->names, ",", &save); name;
         name = strtok_r(NULL, ",", &save)) {
        if (s->n == MAX_ATTACKS)
            return cli_usage("--attack: more than %d attacks", MAX_ATTACKS);
        const stet_status st = stet_attack_settings(name, "openattack", NULL, NULL, NULL);
        if (st != STET_OK)
            return st;
        s->name[s->n++] = name;
    }
    return s->n ? STET_OK : cli_usage("--attack: expected a name");
}

/* A line of an attack's log; they come in the order of the texts. */
static void note_line(void *user, const char *line)
{
    sandwich *s = user;
    json_t *o = json_loads(line, 0, NULL);
    const char *outcome = json_string_value(json_object_get(o, "outcome"));
    const size_t index = (size_t)json_integer_value(json_object_get(o, "index"));
    for (size_t i = 0; outcome && strcmp(outcome, "success") == 0 && i < s->texts->n_index; i++)
        if (s->texts->index[i] == index && !s->flipped[i])
            s->flipped[i] = s->name[s->at];
    json_decref(o);
}

static stet_status attack_all(sandwich *s)
{
    for (s->at = 0; s->at < s->n; s->at++) {
        stet_attack_args a = STET_ATTACK_DEFAULTS;
        a.model = s->texts->model, a.data = s->texts->data, a.sets = &s->texts->sets;
        a.index = s->texts->index, a.n_index = s->texts->n_index;
        a.attack = s->name[s->at], a.seed = (uint64_t)s->cfg->common.seed;
        a.each = note_line, a.each_user = s;
        const stet_status st = stet_attack_run(&a, &s->attacked[s->at]);
        if (st != STET_OK)
            return st;
    }
    for (size_t i = 0; i < s->texts->n_index; i++)
        s->survivors += !s->flipped[i] && s->proved.verdict[i] != STET_WRONG &&
                        s->proved.verdict[i] != STET_BROKEN;
    return STET_OK;
}

static stet_status compare(const sandwich *s)
{
    for (size_t i = 0; i < s->texts->n_index; i++)
        if (s->proved.verdict[i] == STET_CERTIFIED && s->flipped[i])
            return cli_fail(STET_EINTERNAL, "text %zu is certified, yet %s flipped it",
                            s->texts->index[i], s->flipped[i]);
    return STET_OK;
}

static stet_status print(const sandwich *s)
{
    const stet_certify_result *p = &s->proved;
    const double n = p->n ? (double)p->n : 1, least = (double)s->survivors / n;
    if (s->cfg->common.json) {
        json_t *o = cli_json_start(&cmd_sandwich, s->cfg), *attacks = json_object();
        for (size_t k = 0; k < s->n; k++)
            json_object_set_new(attacks, s->name[k], json_real(s->attacked[k].aua));
        json_object_update_new(o, json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:o, s:o}", "n",
                                            (json_int_t)p->n, "clean", p->clean, "certified",
                                            p->certified, "broken", p->broken, "undecided",
                                            p->undecided, "aua", least, "attacks", attacks,
                                            "fingerprints", cli_fingerprints(s->texts)));
        return cli_json_print(o);
    }
    cli_table t = {0};
    cli_row(&t, "", "share", "seconds", NULL);
    cli_row(&t, "certified", cli_fmt("%.1f %%", 100 * p->certified), cli_fmt("%.1f", p->seconds),
            NULL);
    cli_row(&t, "not flipped at all", cli_fmt("%.1f %%", 100 * least), "", NULL);
    for (size_t k = 0; k < s->n; k++)
        cli_row(&t, cli_fmt("not flipped by %s", s->name[k]),
                cli_fmt("%.1f %%", 100 * s->attacked[k].aua),
                cli_fmt("%.1f", s->attacked[k].seconds), NULL);
    cli_row(&t, "right", cli_fmt("%.1f %%", 100 * p->clean), "", NULL);
    cli_table_print(&t);
    printf("\n%zu texts: certified %.1f %% <= robust accuracy <= %.1f %% under attack\n", p->n,
           100 * p->certified, 100 * least);
    return STET_OK;
}

static stet_status squeeze(sandwich *s, const char *dir)
{
    const stet_certify_args a = cli_prove_args(&s->cfg->prove, s->texts, dir);
    stet_status st = stet_certify_run(&a, &s->proved);
    if (st == STET_OK)
        st = attack_all(s);
    if (st == STET_OK)
        st = print(s);
    return st == STET_OK ? compare(s) : st;
}

static stet_status run(void *config, const stet_rest *rest)
{
    static sandwich s;
    cli_texts t = {0};
    s = (sandwich){.cfg = config, .texts = &t};
    if (s.cfg->prove.budget)
        return cli_usage("--budget: attacks change as many words as they like, so proofs must too");
    stet_status st = split_names(s.cfg->attack, &s);
    if (st == STET_OK)
        st = cli_texts_load(&s.cfg->source, rest->v[0], (uint64_t)s.cfg->common.seed, &t);
    if (st == STET_OK && !(s.flipped = calloc(t.n_index + 1, sizeof *s.flipped)))
        st = cli_fail(STET_ENOMEM, "out of memory");
    if (st == STET_OK)
        st = squeeze(&s, rest->v[0]);
    free(s.flipped);
    stet_certify_result_deinit(&s.proved);
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
