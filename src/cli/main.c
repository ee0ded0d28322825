/* cli/main.c - finds the command, parses its options, runs it, turns the status into an exit code. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "stet/info.h"

enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_INPUT = 3,
    EXIT_REQUIRE = 4,
    EXIT_SIGNAL = 128 /* and the number of the signal */
};

/* OpenBLAS asks this function for the number of its threads when it is loaded, before main. Our pool is the only pool. */
int openblas_num_threads_env(void);
__attribute__((visibility("default"))) int openblas_num_threads_env(void)
{
    return 1;
}

static int exit_code(stet_status st)
{
    switch (st) {
    case STET_OK:
        return output_require_failed() ? EXIT_REQUIRE : EXIT_DONE;
    case STET_EUSAGE:
        return EXIT_USAGE;
    case STET_EFORMAT:
        return EXIT_INPUT;
    case STET_EINTR:
        return EXIT_SIGNAL + output_signal();
    default:
        return EXIT_FAILED;
    }
}

/* The first Ctrl-C lets the current step finish; the second ends the program at once. */
static void on_signal(int sig)
{
    cli_caught(sig);
    stet_interrupt();
    signal(sig, SIG_DFL);
}

static void catch_signals(void)
{
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    if (signal(SIGHUP, on_signal) == SIG_IGN) /* nohup */
        signal(SIGHUP, SIG_IGN);
}

/* jansson hides some failures. Here they end the program; files that are not whole yet have not got their name. */
static void *json_alloc(size_t size)
{
    void *p = malloc(size);
    return p ? p : cli_no_memory();
}

/* "data info" takes two words, "train" one; *used says how many. */
static const cli_command *find_command(int argc, char **argv, int *used)
{
    for (const cli_command *const *c = cli_commands; *c; c++) {
        const char *space = strchr((*c)->name, ' ');
        if (!space && argc > 0 && strcmp((*c)->name, argv[0]) == 0) {
            *used = 1;
            return *c;
        }
        const size_t n = space ? (size_t)(space - (*c)->name) : 0;
        if (space && argc > 1 && strncmp((*c)->name, argv[0], n) == 0 && argv[0][n] == '\0' &&
            strcmp(space + 1, argv[1]) == 0) {
            *used = 2;
            return *c;
        }
    }
    return NULL;
}

/* Is it one of the group's commands? "data info" is one of "data". */
static bool in_group(const cli_command *c, const char *group)
{
    const size_t n = strlen(group);
    return strncmp(c->name, group, n) == 0 && c->name[n] == ' ';
}

static bool is_group(const char *name)
{
    for (const cli_command *const *c = cli_commands; *c; c++)
        if (in_group(*c, name))
            return true;
    return false;
}

static void list_commands(const char *group)
{
    if (!group)
        puts(
            "stet - text classifiers that keep their answer when words are swapped for synonyms\n\n"
            "usage: stet COMMAND [OPTIONS] ...\n");
    for (const cli_command *const *c = cli_commands; *c; c++)
        if (!group || in_group(*c, group))
            printf("  %-18s %s\n", (*c)->name, (*c)->summary);
    if (!group)
        puts("\n`stet help COMMAND` explains a command. Start with `stet demo`, then `stet try`.");
}

static int unknown_command(int argc, char **argv)
{
    const char *names[128];
    size_t n = 0;
    for (const cli_command *const *c = cli_commands; *c && n < 127; c++)
        names[n++] = (*c)->name;
    names[n] = NULL;
    char word[128];
    snprintf(word, sizeof word, argc > 1 ? "%s %s" : "%s", argv[0], argc > 1 ? argv[1] : "");
    const char *near = stet_did_you_mean(word, names);
    if (!near)
        near = stet_did_you_mean(argv[0], names);
    fprintf(stderr, "stet: no command '%s'%s%s%s; see 'stet help'\n",
            is_group(argv[0]) ? word : argv[0], near ? ", did you mean '" : "", near ? near : "",
            near ? "'?" : "");
    return EXIT_USAGE;
}

static int help(const cli_command *cmd)
{
    char *options = NULL;
    if (stet_opt_help(cmd->opts, &options) != STET_OK) {
        fprintf(stderr, "stet: %s\n", stet_last_error());
        return EXIT_FAILED;
    }
    printf("stet %s - %s\n\nusage: stet %s [OPTIONS]%s%s\n", cmd->name, cmd->summary, cmd->name,
           *cmd->args ? " " : "", cmd->args);
    if (cmd->details) {
        putchar('\n');
        cli_wrap(cmd->details, 80);
    }
    printf("\n%s", options);
    if (cmd->examples)
        printf("\nExamples\n%s", cmd->examples);
    stet_free(options);
    return EXIT_DONE;
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

const char *cli_device(const cli_common *c)
{
    static const char *const names[] = {"cpu", "cuda", "auto", "cuda:tf32", "cuda:bf16"};
    return names[c->device];
}

stet_status cli_parse(const cli_command *cmd, int argc, char *const *argv, void *cfg,
                      stet_rest *rest)
{
    stet_status st = stet_opt_parse(cmd->opts, cfg, argc, argv, rest);
    const char *const *first = NULL;
    if (st == STET_OK && cmd->before)
        st = cmd->before(cfg, &first);
    if (st != STET_OK || !first)
        return st;
    int n = 0;
    while (first[n])
        n++;
    const char **all = calloc((size_t)(n + argc) + 1, sizeof *all);
    if (!all)
        cli_no_memory();
    memcpy(all, first, (size_t)n * sizeof *all);
    for (int i = 0; i < argc; i++)
        all[n + i] = argv[i];
    st = stet_opt_parse(cmd->opts, cfg, n + argc, (char *const *)all, rest);
    free(all); /* values point to the arguments themselves */
    return st;
}

static stet_status run(const cli_command *cmd, int argc, char **argv)
{
    void *cfg = calloc(1, cmd->cfg_size);
    if (!cfg)
        cli_no_memory();
    stet_rest rest;
    stet_status st = cli_parse(cmd, argc, argv, cfg, &rest);
    if (st == STET_OK && (rest.n < cmd->min_args || rest.n > cmd->max_args))
        st = rest.n < cmd->min_args ? cli_usage("expected %s after 'stet %s'", cmd->args, cmd->name)
                                    : cli_usage("unexpected argument '%s'", rest.v[cmd->max_args]);
    const cli_common *common = cfg;
    if (st == STET_OK && cli_needs_gpu(common) && !cmd->on_gpu)
        st = cli_fail(STET_ENOTSUP, "--device cuda: stet %s runs on the CPU only", cmd->name);
    if (st == STET_OK) {
        output_init(common);
        stet_set_threads((int)common->threads);
        catch_signals();
        st = cmd->run(cfg, &rest);
        stet_device_wait();
    }
    st = output_end(st);
    if (st == STET_EIO && output_unheard())
        st = STET_OK;
    if (st == STET_EUSAGE)
        fprintf(stderr, "stet %s: %s; see 'stet %s --help'\n", cmd->name, output_message(),
                cmd->name);
    else if (st != STET_OK)
        fprintf(stderr, "stet: %s\n", output_message());
    free(cfg);
    return st;
}

/* A standard file that is closed would be the next file opened, and messages would end up in it. Nothing can be
 * written to this standard output, so that its loss is noticed. */
static void hold_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY) < 0)
            _exit(EXIT_FAILED);
}

/* Help that did not arrive is a failure too. */
static int printed(int code)
{
    if (output_end(STET_OK) == STET_OK || output_unheard() || code != EXIT_DONE)
        return code;
    fprintf(stderr, "stet: %s\n", output_message());
    return EXIT_FAILED;
}

int main(int argc, char **argv)
{
    hold_standard_files();
    json_set_alloc_funcs(json_alloc, free);
    terminal_guard();
    signal(SIGPIPE, SIG_IGN); /* writing fails instead, and says why */
    signal(SIGXFSZ, SIG_IGN);
    argc--, argv++;
    if (argc == 0)
        return list_commands(NULL), EXIT_USAGE;
    if (strcmp(argv[0], "--version") == 0) {
        printf("stet %s\n", stet_version());
        return printed(EXIT_DONE);
    }
    const bool asked = strcmp(argv[0], "help") == 0 || strcmp(argv[0], "--help") == 0 ||
                       strcmp(argv[0], "-h") == 0;
    if (asked && argc == 1)
        return list_commands(NULL), printed(EXIT_DONE);
    if (asked)
        argc--, argv++;

    int used = 0;
    const cli_command *cmd = find_command(argc, argv, &used);
    if (!cmd && is_group(argv[0]) && (argc == 1 || wants_help(argc, argv)))
        return list_commands(argv[0]), printed(asked || argc > 1 ? EXIT_DONE : EXIT_USAGE);
    if (!cmd)
        return unknown_command(argc, argv);
    if (asked || wants_help(argc - used, argv + used))
        return printed(help(cmd));
    return exit_code(run(cmd, argc - used, argv + used));
}
