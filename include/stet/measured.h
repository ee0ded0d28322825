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
} stet_measured;
STET_API void stet_measured_init(stet_measured *m, size_t size); /* sizeof(stet_measured) */

/* `numbers` is a JSON object; its keys join settings, seed, identity and fingerprints. */
STET_API stet_status stet_measured_write(const stet_measured *m, const char *numbers);
/* What was kept of the same command about this very model, with the same settings, data and sets, as a
 * new string for stet_free(); *json is NULL if there is nothing. Paths and `texts` may be missing. */
STET_API stet_status stet_measured_read(const stet_measured *m, char **json);

/* The numbers of a run as a JSON object, with the keys of docs/formats.md; new strings for stet_free().
 */
STET_API stet_status stet_attack_json(const char *attack, const char *profile,
                                      const char *const *settings, const stet_attack_result *r,
                                      char **json);
STET_API stet_status stet_certify_json(const stet_certify_how *how, const stet_certify_result *r,
                                       char **json);

#ifdef __cplusplus
}
#endif
#endif
