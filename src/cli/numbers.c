/* cli/numbers.c - see cli/numbers.h. */
#include "cli/numbers.h"

#include "cli/cli.h"

/* Takes the text. */
static json_t *parsed(stet_status st, char *text, const stet_kept *kept)
{
    if (st == STET_OK && kept)
        st = stet_kept_join(kept, &text);
    if (st == STET_ENOMEM)
        cli_no_memory();
    json_t *o = st == STET_OK ? json_loads(text, 0, NULL) : NULL;
    stet_free(text);
    return o;
}

json_t *numbers_of_eval(const stet_model *m, const stet_scores *s)
{
    char *text;
    const stet_status st = stet_eval_json(m, s, &text);
    return parsed(st, text, NULL);
}

json_t *numbers_of_gbm(const stet_gbm *g, const char *dir, size_t top)
{
    char *text;
    const stet_status st = stet_gbm_json(g, dir, top, &text);
    return parsed(st, text, NULL);
}

json_t *numbers_of_attack(const char *attack, const char *profile, const char *const *settings,
                          const stet_attack_result *r, const stet_kept *kept)
{
    char *text;
    const stet_status st = stet_attack_json(attack, profile, settings, r, &text);
    return parsed(st, text, kept);
}

json_t *numbers_of_certify(const stet_certify_how *how, const stet_certify_result *r,
                           const stet_kept *kept)
{
    char *text;
    const stet_status st = stet_certify_json(how, r, &text);
    return parsed(st, text, kept);
}

void numbers_drop_lists(json_t *numbers)
{
    static const char *const lists[] = {"examples", "flips",        "flipped",
                                        "wrong",    "proved_texts", "broken_texts"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        json_object_del(numbers, lists[i]);
}
