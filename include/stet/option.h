/* stet/option.h - options as data: one table gives parsing, ranges, --help, the JSON echo,
 * shell completion and "did you mean".
 *
 *     typedef struct { int64_t epochs; double beta; const char *out; bool json; } cfg_t;
 *     static const stet_opt opts[] = {
 *         STET_OPT_INT("epochs", cfg_t, epochs, "10", 1, 1e6, "N", "passes over the data"),
 *         STET_OPT_STR("out", cfg_t, out, NULL, "DIR", "output folder"), ...
 *         STET_OPT_END };
 *     cfg_t cfg;
 *     TRY(stet_opt_parse(opts, &cfg, argc, argv, &rest));
 *
 * A value is given as `--name VALUE` or `--name=VALUE` (the only way for one that begins with two
 * dashes), flags as `--name`, and `--no-name` clears them. An option with a letter may also be given
 * as `-o VALUE`, `-oVALUE` or, for flags, `-qv`. `--` ends the options; a lone `-` is an argument.
 * Strings are borrowed from argv. */
#ifndef STET_OPTION_H
#define STET_OPTION_H

#include "stet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum stet_opt_type {
    STET_T_END,
    STET_T_TOPIC,  /* a heading in --help; `help` is its text */
    STET_T_FLAG,   /* bool */
    STET_T_INT,    /* int64_t */
    STET_T_REAL,   /* double */
    STET_T_STR,    /* const char *, NULL when not given and no default */
    STET_T_CHOICE, /* int: index into the '|'-separated `arg` */
    STET_T_LIST    /* stet_strings: may be given several times */
} stet_opt_type;

#define STET_LIST_MAX 32
typedef struct stet_strings {
    const char *v[STET_LIST_MAX];
    size_t n;
} stet_strings;

typedef struct stet_opt {
    const char *name; /* without the dashes */
    char letter;      /* one-letter form, or 0 */
    stet_opt_type type;
    size_t offset;   /* of the field in the configuration struct */
    const char *def; /* default as text; NULL: none (0, false, NULL, empty) */
    double min, max; /* INT and REAL: allowed range, both ends included */
    const char *arg; /* "FILE", "N"; CHOICE: "cnn|bilstm|s4" */
    const char *help;
} stet_opt;

/* clang-format off */
#define STET_OPT_FIELD(n, t, T, f) .name = n, .type = t, .offset = offsetof(T, f)
#define STET_OPT_TOPIC(text) { .type = STET_T_TOPIC, .help = text }
#define STET_OPT_FLAG(n, T, f, h) { STET_OPT_FIELD(n, STET_T_FLAG, T, f), .help = h }
#define STET_OPT_INT(n, T, f, d, lo, hi, a, h)                                                     \
    { STET_OPT_FIELD(n, STET_T_INT, T, f), .def = d, .min = lo, .max = hi, .arg = a, .help = h }
#define STET_OPT_REAL(n, T, f, d, lo, hi, a, h)                                                    \
    { STET_OPT_FIELD(n, STET_T_REAL, T, f), .def = d, .min = lo, .max = hi, .arg = a, .help = h }
#define STET_OPT_STR(n, T, f, d, a, h)                                                             \
    { STET_OPT_FIELD(n, STET_T_STR, T, f), .def = d, .arg = a, .help = h }
#define STET_OPT_OUT(T, f, d, h)                                                                   \
    { STET_OPT_FIELD("out", STET_T_STR, T, f), .letter = 'o', .def = d, .arg = "PATH", .help = h }
#define STET_OPT_CHOICE(n, T, f, d, a, h)                                                          \
    { STET_OPT_FIELD(n, STET_T_CHOICE, T, f), .def = d, .arg = a, .help = h }
#define STET_OPT_LIST(n, T, f, a, h)                                                               \
    { STET_OPT_FIELD(n, STET_T_LIST, T, f), .arg = a, .help = h }
#define STET_OPT_END { .type = STET_T_END }
/* clang-format on */

/* Positional arguments left after parsing; pointers into argv. */
#define STET_REST_MAX 256
typedef struct stet_rest {
    const char *v[STET_REST_MAX];
    size_t n;
} stet_rest;

/* Fill every field of `cfg` named by the table with its default. */
STET_API stet_status stet_opt_defaults(const stet_opt *opts, void *cfg);
/* Defaults, then argv[0..argc) (without program and command name). STET_EUSAGE with one line that
 * names the option, what is wrong with it, and the nearest known name. */
STET_API stet_status stet_opt_parse(const stet_opt *opts, void *cfg, int argc, char *const *argv,
                                    stet_rest *rest);
/* The options part of --help, aligned and grouped by topic, as a new string for stet_free(). */
STET_API stet_status stet_opt_help(const stet_opt *opts, char **out);
/* {"epochs":10,...} of the values in `cfg`, as a new string for stet_free(). */
STET_API stet_status stet_opt_json(const stet_opt *opts, const void *cfg, char **out);
/* The name in a NULL-terminated list that is nearest to `word`, or NULL if none is near. */
STET_API const char *stet_did_you_mean(const char *word, const char *const *names);

STET_API void stet_free(void *p); /* releases what the library handed out as a plain pointer */

#ifdef __cplusplus
}
#endif
#endif
