/* attack/attacks.c - the attacks, and how profile and settings make up one configuration. */
#include "attack/attacks.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/option_impl.h"

#define ATTACK_ROW(name) &attack_##name,
const attack_desc *const attack_descs[] = {ATTACKS(ATTACK_ROW) NULL};
#undef ATTACK_ROW
static const char *const profile_names[] = {"openattack", "textattack", "gbm-paper", "original",
                                            NULL};

static const stet_opt common_opts[] = {
    STET_OPT_INT("max-candidates", attack_common, max_candidates, "0", 0, MAX_CANDIDATES, "K",
                 "first K substitutes of a word; 0: all"),
    STET_OPT_REAL("max-change", attack_common, max_change, "0", 0, 1, "SHARE",
                  "share of words that may change; 0: all"),
    STET_OPT_REAL("max-result-change", attack_common, max_result, "0", 0, 1, "SHARE",
                  "do not count successes that changed more; 0: count all"),
    STET_OPT_INT("budget", attack_common, budget, "0", 0, 1e15, "N",
                 "queries per text; 0: no limit"),
    STET_OPT_CHOICE("similarity", attack_common, similarity, "none", "none|mean",
                    "sentence similarity: none, or the cosine of mean word vectors"),
    STET_OPT_CHOICE("similarity-scale", attack_common, scale, "cosine", "cosine|angle|angle-pi",
                    "cosine, 1 - angle, or 1 - angle/pi"),
    STET_OPT_REAL("least-similarity", attack_common, least_similarity, "0.5", -4, 1, "X",
                  "reject changes that leave less"),
    STET_OPT_INT("window", attack_common, window, "15", 0, 1e6, "N",
                 "words around a change that are compared; 0: all"),
    {STET_OPT_FIELD("proofs", STET_T_FLAG, attack_common, proofs), .def = "no",
     .help = "ask for a cheap certificate first, and leave the texts that nothing flips"},
    STET_OPT_INT("draws", attack_common, draws, "0", 0, 1000, "N",
                 "for models that draw: attack the mean of N answers, each with fresh draws; 0: "
                 "attack the model's own answer"),
    STET_OPT_END,
};

const attack_desc *attack_find(const char *name)
{
    const char *names[sizeof attack_descs / sizeof *attack_descs];
    size_t n = 0;
    for (const attack_desc *const *d = attack_descs; *d; d++) {
        if (strcmp((*d)->name, name) == 0)
            return *d;
        names[n++] = (*d)->name;
    }
    names[n] = NULL;
    opt_no_such("attack", name, names);
    return NULL;
}

/* ---- settings ----------------------------------------------------------------------------- */

static stet_status set_all(const attack_desc *d, attack_settings *s, const char *const *settings)
{
    const opt_table tables[] = {{common_opts, &s->common}, {d->opts, s->cfg}};
    char owner[64];
    snprintf(owner, sizeof owner, "attack '%s'", d->name);
    return opt_settings(tables, 2, settings, owner);
}

static stet_status fill(const attack_desc *d, const char *profile, const char *const *settings,
                        attack_settings *s)
{
    bool known = false;
    for (const char *const *p = profile_names; *p; p++)
        known = known || strcmp(*p, profile) == 0;
    if (!known)
        return opt_no_such("profile", profile, profile_names);
    TRY(stet_opt_defaults(common_opts, &s->common));
    TRY(stet_opt_defaults(d->opts, s->cfg));
    for (const attack_profile *p = d->profiles; p && p->name; p++)
        if (strcmp(p->name, profile) == 0) {
            TRY(set_all(d, s, p->settings));
            s->missing = p->missing ? p->missing : "";
        }
    return set_all(d, s, settings);
}

stet_status attack_settings_make(const attack_desc *d, const char *profile,
                                 const char *const *settings, attack_settings *out)
{
    *out = (attack_settings){.cfg = mem_zalloc(1, d->cfg_size), .missing = ""};
    const stet_status st = out->cfg ? fill(d, profile, settings, out) : STET_ENOMEM;
    if (st != STET_OK)
        attack_settings_free(out);
    return st;
}

void attack_settings_free(attack_settings *s)
{
    mem_free(s->cfg);
    s->cfg = NULL;
}

/* {...} of one table and {...} of the other as one object. */
static stet_status joined_json(const attack_desc *d, const attack_settings *s, char **out)
{
    char *a = NULL, *b = NULL;
    stet_status st = stet_opt_json(d->opts, s->cfg, &a);
    if (st == STET_OK)
        st = stet_opt_json(common_opts, &s->common, &b);
    buf json = {0};
    if (st == STET_OK) {
        const size_t n = strlen(a);
        buf_bytes(&json, a, n - 1); /* without the brace */
        if (n > 2)
            buf_char(&json, ',');
        buf_str(&json, b + 1);
        st = buf_status(&json);
    }
    if (st == STET_OK)
        *out = buf_take(&json);
    buf_deinit(&json);
    stet_free(a);
    stet_free(b);
    return st;
}

stet_status stet_attack_settings(const char *attack, const char *profile,
                                 const char *const *settings, char **json, char **missing)
{
    const attack_desc *d = attack_find(attack);
    if (!d)
        return STET_EUSAGE;
    attack_settings s;
    TRY(attack_settings_make(d, profile, settings, &s));
    char *text = NULL, *lacks = NULL;
    stet_status st = json ? joined_json(d, &s, &text) : STET_OK;
    if (st == STET_OK && missing && !(lacks = mem_strdup(s.missing)))
        st = STET_ENOMEM;
    attack_settings_free(&s);
    if (st != STET_OK) {
        stet_free(text);
        return st;
    }
    if (json)
        *json = text;
    if (missing)
        *missing = lacks;
    return STET_OK;
}

/* ---- the list ----------------------------------------------------------------------------- */

size_t stet_attacks(void)
{
    return sizeof attack_descs / sizeof *attack_descs - 1;
}

const char *stet_attack_name(size_t i)
{
    return attack_descs[i]->name;
}

const char *stet_attack_summary(size_t i)
{
    return attack_descs[i]->summary;
}

const stet_opt *stet_attack_options(size_t i)
{
    return attack_descs[i]->opts;
}

const stet_opt *stet_attack_common_options(void)
{
    return common_opts;
}

const char *const *stet_attack_profiles(void)
{
    return profile_names;
}
