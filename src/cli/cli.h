/* cli/cli.h - the frame of the command-line program. A command is one cmd_*.c file that defines one
 * cli_command (or a few) and one line in commands.c; it parses nothing itself, calls the library and prints.
 *
 * Results go to stdout, everything else to stderr. Commands use public headers only. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <jansson.h>
#include <stdio.h>

#include "stet/option.h"

/* Options that every command has; the first field of every command's configuration. */
typedef struct cli_common {
    bool json, quiet, verbose;
    int64_t seed, threads;
    int device, progress;
} cli_common;

#define CLI_COMMON_OPTS(T)                                                                         \
    STET_OPT_TOPIC("Common options"),                                                              \
        STET_OPT_FLAG("json", T, common.json, "print JSON instead of text, one object per line"),  \
        STET_OPT_INT("seed", T, common.seed, "1", 0, 9e15, "N", "seed of every random choice"),    \
        STET_OPT_INT("threads", T, common.threads, "0", 0, 1024, "N",                              \
                     "worker threads; 0: one per core"),                                           \
        STET_OPT_CHOICE("device", T, common.device, "cpu", "cpu|cuda|auto|cuda:tf32|cuda:bf16",    \
                        "where to compute; auto: on a GPU where there is one; tf32, bf16: there, " \
                        "with factors of matrix products rounded"),                                \
        STET_OPT_CHOICE("progress", T, common.progress, "auto", "auto|always|never",               \
                        "progress display"),                                                       \
        {.name = "quiet",                                                                          \
         .letter = 'q',                                                                            \
         .type = STET_T_FLAG,                                                                      \
         .offset = offsetof(T, common.quiet),                                                      \
         .help = "only errors on stderr"},                                                         \
    {                                                                                              \
        .name = "verbose", .letter = 'v', .type = STET_T_FLAG,                                     \
        .offset = offsetof(T, common.verbose), .help = "more on stderr"                            \
    }

/* What stands between the dashes and the name in texts about an option: flags that are on are there to be turned off. */
static inline const char *cli_option_no(const stet_opt *o)
{
    return o->type == STET_T_FLAG && o->def && o->def[0] == 't' ? "no-" : "";
}

typedef struct cli_command {
    const char *name;     /* "train" or "data info" */
    const char *args;     /* "DIR [TEXT...]": what stands after the options in the usage line */
    const char *summary;  /* one sentence, lower case, no full stop */
    const char *details;  /* NULL or a paragraph for --help */
    const char *examples; /* lines that run as pasted */
    const stet_opt *opts;
    size_t cfg_size;
    size_t min_args, max_args; /* positional arguments */
    bool on_gpu;               /* it can compute there: --device cuda */
    stet_status (*run)(void *cfg, const stet_rest *rest);
    /* Options that count as if they stood before those given, NULL at the end, or NULL; `cfg` is what
     * was given. NULL: there are none. */
    stet_status (*before)(const void *cfg, const char *const **out);
} cli_command;

/* The command's configuration from its arguments, without program and command name. */
stet_status cli_parse(const cli_command *cmd, int argc, char *const *argv, void *cfg,
                      stet_rest *rest);

extern const cli_command *const cli_commands[]; /* commands.c, NULL at the end */

enum { CLI_CPU, CLI_CUDA, CLI_AUTO, CLI_TF32, CLI_BF16 };
static inline bool cli_needs_gpu(const cli_common *c)
{
    return c->device != CLI_CPU && c->device != CLI_AUTO;
}
const char *cli_device(const cli_common *c); /* as the library names it */

/* ---- output ------------------------------------------------------------------------------- */

/* An object with "schema", "version", "command" and "config" filled in; NULL: out of memory. */
json_t *cli_json_start(const cli_command *cmd, const void *cfg);
/* Names of files and texts of users may be no UTF-8, which JSON cannot hold: then other bytes than ASCII become '?'. */
json_t *cli_json_string(const char *s);
stet_status cli_json_print(json_t *object); /* one line on stdout; takes the reference */
/* STET_EIO once standard output takes no more: what prints text after text stops there. */
stet_status cli_printed(void);

/* Aligned tables: numbers to the right, text to the left.
 *     cli_table t = {0};
 *     cli_row(&t, "attack", "clean", "AUA", NULL);   // the first row is the heading
 *     cli_row(&t, "pwws", cli_fmt(a, "%.1f %%", x), ..., NULL);
 *     cli_table_print(&t); */
typedef struct cli_table {
    char **cell;
    size_t rows, cols, n, cap;
} cli_table;
void cli_row(cli_table *t, const char *first, ...) __attribute__((sentinel));
void cli_row_of(cli_table *t, const char *const *cell, size_t n); /* where columns come and go */
void cli_table_print(cli_table *t);                               /* and empties it */
void cli_table_drop(cli_table *t);                                /* empties it unprinted */
/* printf into one of a few rotating buffers: for the arguments of one cli_row. */
const char *cli_fmt(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints a paragraph in lines of at most `width` columns; line ends in it count as spaces. */
void cli_wrap(const char *text, size_t width);
/* A rate as people write it: "8050 texts/s", "3.2 texts/s", "12 s for each" of texts; rotating too. */
const char *cli_rate(double per_second, const char *what);

/* Eight heights of blocks for n values between lo and hi, into a rotating buffer like cli_fmt's. */
const char *cli_spark(const double *v, size_t n, double lo, double hi);
/* A line of an attack's log (docs/attacks.md) for people: what the answer was and became, the text with its changed
 * words marked. */
void cli_diff_print(const json_t *example);

/* Hours of work deserve a place to go: can a file be made there? Asked before, not after. NULL and "-" are fine. */
stet_status cli_can_write(const char *path);
double cli_now(void); /* seconds of a clock that only goes forward */

/* From here on Ctrl-C does not wait for a step to finish: for commands that answer text after text and write no file. */
void cli_end_at_once(void);
void cli_caught(
    int sig); /* in a signal handler: the program will end with the exit code of this signal */
/* Says that memory has run out and ends the program. Returns nothing; the type lets it stand behind ?:. */
void *cli_no_memory(void);
/* Each line of standard input, its line end cut off. `idle` (or NULL) comes before every wait for more:
 * whoever collects lines answers those it has. */
typedef stet_status cli_line(void *user, const char *line, size_t n);
typedef stet_status cli_idle(void *user);
stet_status cli_each_line(cli_line *each, cli_idle *idle, void *user);

bool cli_colour(void);                   /* see terminal.h */
const char *cli_style(const char *name); /* "bold", "red", ...; "" when plain */
void cli_note(const char *fmt, ...)
    __attribute__((format(printf, 1, 2))); /* a line on stderr unless --quiet */
void cli_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* in any case */

/* Say that a --require threshold was not met: the program will exit with 4. */
void cli_require_failed(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A usage error with its message; returns STET_EUSAGE. */
stet_status cli_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Any other failure of the command itself. */
stet_status cli_fail(stet_status code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
