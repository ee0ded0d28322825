/* api/sandwich.c - see stet/sandwich.h. */
#include <string.h>

#include "base/args.h"
#include "base/json.h"
#include "base/mem.h"
#include "stet/sandwich.h"

typedef struct sandwiched {
    stet_sandwich *s;
    const char **flipped; /* (texts) the attack that flipped it, or NULL */
    const char *attack;   /* in work */
    size_t next;          /* lines come in the order of the texts */
    stet_status status;
} sandwiched;

static void note_line(void *user, const char *line)
{
    sandwiched *w = user;
    const stet_certify_result *p = &w->s->proved;
    json_t *o = NULL;
    if (w->status == STET_OK)
        w->status = json_read_text("record", line, strlen(line), &o);
    const char *outcome = json_string_value(json_object_get(o, "outcome"));
    const size_t index = (size_t)json_integer_value(json_object_get(o, "index"));
    while (w->next < p->n && p->index[w->next] < index)
        w->next++;
    if (outcome && strcmp(outcome, "success") == 0 && w->next < p->n &&
        p->index[w->next] == index && !w->flipped[w->next])
        w->flipped[w->next] = w->attack;
    json_decref(o);
}

static stet_status attack_all(sandwiched *w, const stet_certify_args *proofs,
                              const char *const *attacks, uint64_t seed)
{
    for (size_t k = 0; k < w->s->n_attacks; k++) {
        stet_attack_args a = STET_ATTACK_DEFAULTS;
        a.model = proofs->model, a.data = proofs->data, a.sets = proofs->sets;
        a.index = proofs->index, a.n_index = proofs->n_index;
        a.shard = proofs->shard, a.shards = proofs->shards;
        a.attack = w->attack = attacks[k], a.seed = seed;
        a.each = note_line, a.each_user = w;
        w->next = 0;
        TRY(stet_attack_run(&a, &w->s->attacked[k]));
        TRY(w->status);
    }
    return STET_OK;
}

/* What is left, and whether the two agree. */
static stet_status compare(const sandwiched *w)
{
    stet_sandwich *s = w->s;
    const stet_certify_result *p = &s->proved;
    for (size_t i = 0; i < p->n; i++) {
        s->survivors +=
            !w->flipped[i] && p->verdict[i] != STET_WRONG && p->verdict[i] != STET_BROKEN;
        if (p->verdict[i] != STET_CERTIFIED || !w->flipped[i] || s->dispute)
            continue;
        buf b = {0};
        buf_printf(&b, "text %zu is certified, yet %s flipped it", p->index[i], w->flipped[i]);
        if (!(s->dispute = buf_take(&b)))
            return STET_ENOMEM;
    }
    s->upper = (double)s->survivors / (double)(p->n ? p->n : 1);
    return STET_OK;
}

static stet_status squeeze(const stet_certify_args *proofs, const char *const *attacks,
                           uint64_t seed, stet_sandwich *out)
{
    while (attacks[out->n_attacks])
        TRY(stet_attack_settings(attacks[out->n_attacks++], "openattack", NULL, NULL, NULL));
    TRY(stet_certify_run(proofs, &out->proved));
    sandwiched w = {.s = out, .flipped = mem_zalloc(out->proved.n + 1, sizeof *w.flipped)};
    out->attacked = mem_zalloc(out->n_attacks + 1, sizeof *out->attacked);
    stet_status st = w.flipped && out->attacked ? STET_OK : STET_ENOMEM;
    if (st == STET_OK)
        st = attack_all(&w, proofs, attacks, seed);
    if (st == STET_OK)
        st = compare(&w);
    mem_free(w.flipped);
    return st;
}

stet_status stet_sandwich_run(const stet_certify_args *given, const char *const *attacks,
                              uint64_t seed, stet_sandwich *out)
{
    stet_certify_args proofs = STET_CERTIFY_DEFAULTS;
    *out = (stet_sandwich){0};
    TRY(ARGS_TAKE(&proofs, given));
    if (proofs.how.budget != STET_ANY)
        return error_set(
            STET_EUSAGE,
            "a budget: attacks may change any number of words, so proofs must allow the same");
    const stet_status st = squeeze(&proofs, attacks, seed, out);
    if (st != STET_OK)
        stet_sandwich_deinit(out);
    return st;
}

void stet_sandwich_deinit(stet_sandwich *s)
{
    stet_certify_result_deinit(&s->proved);
    mem_free(s->attacked);
    mem_free(s->dispute);
    *s = (stet_sandwich){0};
}
