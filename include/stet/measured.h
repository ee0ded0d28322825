/* stet/measured.h - keeping what was measured about a model in its folder, as the commands do, so that
 * `stet report` shows it.
 *
 *     char *numbers;
 *     if (stet_attack_json(a.attack, a.profile, a.settings, &result, &numbers) != STET_OK) ...
 *     stet_measured m;
 *     stet_measured_init(&m, sizeof m);
 *     m.command = "attack", m.dir = "runs/cnn", m.name = "attack-pwws-openattack";
 *     m.model = a.model, m.data = a.data, m.data_path = "test.tsv", m.sets = a.sets;
 *     stet_status st = stet_measured_write(&m, numbers);
 *     stet_free(numbers);
 *
 * A result has an identity: eight digits made of its settings, data and sets. A result of the same name
 * with another identity is left alone. Paths are kept as their last part: folders of one machine mean
 * nothing on another. Experimental. */
#ifndef STET_MEASURED_H
#define STET_MEASURED_H

#include "stet/attack.h"
#include "stet/bound.h"
#include "stet/certify.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stet_measured {
    size_t size;            /* of this struct; 0 counts as what this header says */
    const char *command;    /* "attack", "certify", "eval", ... */
    const char *dir, *name; /* DIR/results/NAME.json */
    const char *config;     /* the settings, as a JSON object; NULL: none */
    int64_t seed;
    const stet_model *model;  /* or NULL */
    const stet_dataset *data; /* the whole set, or NULL */
    const char *data_path;
    size_t texts;          /* measured, of data */
    const stet_sets *sets; /* or NULL */
    const char *sets_path;
    /* Of model and data where they are known, as 16 digits; NULL: computed, which reads all of both. */
    const char *model_fingerprint, *data_fingerprint;
} stet_measured;
STET_API void stet_measured_init(stet_measured *m, size_t size); /* sizeof(stet_measured) */

/* `numbers` is a JSON object; its keys join settings, seed, identity and fingerprints. */
STET_API stet_status stet_measured_write(const stet_measured *m, const char *numbers);
/* What was kept of the same command about this very model, with the same settings, data and sets, as a
 * new string for stet_free(); *json is NULL if there is nothing. Paths and `texts` may be missing. */
STET_API stet_status stet_measured_read(const stet_measured *m, char **json);

/* The numbers of a run as a JSON object, with the keys of docs/formats.md; new strings for stet_free().
 */
STET_API stet_status stet_eval_json(const stet_model *m, const stet_scores *s, char **json);
/* `dir` is what the object calls the model; `top`: units and inputs that are listed. */
STET_API stet_status stet_gbm_json(const stet_gbm *g, const char *dir, size_t top, char **json);
STET_API stet_status stet_attack_json(const char *attack, const char *profile,
                                      const char *const *settings, const stet_attack_result *r,
                                      char **json);
STET_API stet_status stet_certify_json(const stet_certify_how *how, const stet_certify_result *r,
                                       char **json);

/* Single texts of an attack or a certification, collected while it runs: the most telling ones as
 * examples, and which were flipped, wrong, proved or broken. `stet report` shows them.
 *
 *     stet_kept *kept;
 *     if (stet_kept_new(NULL, &kept) != STET_OK) ...
 *     args.each = stet_kept_attacked, args.each_user = kept;
 *     ... stet_attack_run(&args, &result), stet_attack_json(..., &numbers)
 *     st = stet_kept_join(kept, &numbers);
 *     stet_kept_free(kept); */
typedef struct stet_kept stet_kept;
enum { STET_KEPT_EXAMPLES = 8 }; /* of an attack, at most */
/* `m`: the model that is certified, which is borrowed; NULL: for an attack. */
STET_API stet_status stet_kept_new(const stet_model *m, stet_kept **out);
STET_API void stet_kept_free(stet_kept *k); /* NULL is fine */
STET_API void stet_kept_attacked(void *kept, const char *line); /* stet_attack_args.each */
STET_API void stet_kept_certified(void *kept, size_t index, const stet_certified_text *t,
                                  const stet_certificate *c); /* stet_certify_args.each */
/* Why the first text without an answer has none; "": there is no such text. */
STET_API const char *stet_kept_error(const stet_kept *k);
/* The lists join the JSON object *numbers, which is replaced; on failure it is as it was. */
STET_API stet_status stet_kept_join(const stet_kept *k, char **numbers);

#ifdef __cplusplus
}
#endif
#endif
