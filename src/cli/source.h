/* cli/source.h - what commands that try substitutions work on: a model, labelled texts,
 * substitution sets, and the sample that --limit takes, the same for every command.
 *
 *     typedef struct cfg { cli_common common; cli_source source; ... } cfg;
 *     static const stet_opt opts[] = { CLI_SOURCE_OPTS(cfg), ... };
 *     cli_texts t = {0};
 *     stet_status st = cli_texts_load(&cfg->source, dir, seed, &t);
 *     ...
 *     cli_texts_free(&t); */
#ifndef CLI_SOURCE_H
#define CLI_SOURCE_H

#include "cli/cli.h"
#include "stet/choices.h"
#include "stet/model.h"

typedef struct cli_source {
    const char *data, *label, *text, *synonyms, *shard;
    int64_t limit;
    bool skip_bad;
} cli_source;

#define CLI_SYNONYMS_HELP                                                                          \
    "substitution sets: a file of `stet synonyms build`, a JSON map of words or of texts, or "     \
    "builtin"
#define CLI_SOURCE_OPTS(T)                                                                         \
    STET_OPT_TOPIC("Data"), STET_OPT_STR("data", T, source.data, NULL, "FILE", "labelled texts"),  \
        STET_OPT_STR("label", T, source.label, NULL, "COLUMN", "column or field of the label"),    \
        STET_OPT_STR("text", T, source.text, NULL, "COLUMN,...", "columns or fields of the text"), \
        STET_OPT_FLAG("skip-bad", T, source.skip_bad, "skip malformed lines and report how many"),       \
        STET_OPT_INT("limit", T, source.limit, "0", 0, 1e12, "N",                                  \
                     "a seeded random sample of N texts; 0: all"),                                 \
        STET_OPT_STR("synonyms", T, source.synonyms, NULL, "SET", CLI_SYNONYMS_HELP)

/* For commands that may share the texts with other processes. */
#define CLI_SHARD_OPT(T)                                                                           \
    STET_OPT_STR("shard", T, source.shard, NULL, "I/N",                                            \
                 "only part I of N of these texts, so that N processes can share them")

typedef struct cli_texts {
    stet_model *model; /* NULL without a folder */
    stet_dataset *data;
    stet_sets sets;
    size_t *index, n_index; /* the sample, ascending */
} cli_texts;

/* The texts alone, with the model's classes; `m` NULL: classes as the data has them. */
stet_status cli_data_load(const cli_source *s, const stet_model *m, stet_dataset **out);
/* `dir` may be NULL: no model, and classes as the data has them. */
stet_status cli_texts_load(const cli_source *s, const char *dir, uint64_t seed, cli_texts *out);
void cli_texts_free(cli_texts *t);
/* The sets that a run folder was made with, where they lie beside it as the demonstration puts them:
 * DIR/../synonyms.subst, in `out`. A usage error that says what to do if there is no such file. */
stet_status cli_sets_beside(const char *dir, char *out, size_t size);
/* Texts that a BERT does not read to their end, as `stet train` and `stet eval` tell of them. */
typedef struct cli_cut {
    size_t texts, cut, pieces; /* counted; of these; it reads so many */
} cli_cut;
stet_status cli_cut_add(cli_cut *c, const stet_model *m, const char *text, size_t len);
void cli_cut_note(const cli_cut *c);
/* Numbers that look perfect because no word had a substitute deserve a warning. */
void cli_note_no_swaps(const cli_source *s);

#endif
