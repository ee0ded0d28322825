/* cli/cmd_man.c - stet man: man page and pages of docs/commands from the option tables. */
#include <string.h>

#include "cli/commands.h"

typedef struct man_cfg {
    cli_common common;
    bool markdown, names;
} man_cfg;

static const stet_opt opts[] = {
    STET_OPT_TOPIC("Output"),
    STET_OPT_FLAG("markdown", man_cfg, markdown,
                  "a page of docs/commands instead: of COMMAND, or without it the index"),
    STET_OPT_FLAG("names", man_cfg, names, "only the names of the commands"),
    CLI_COMMON_OPTS(man_cfg),
    STET_OPT_END,
};
static const stet_opt common_opts[] = {CLI_COMMON_OPTS(man_cfg), STET_OPT_END};

static bool is_common_topic(const stet_opt *o)
{
    return o->type == STET_T_TOPIC && strcmp(o->help, common_opts[0].help) == 0;
}

static const char exit_codes[] = "0 done, 1 failed, 2 usage, 3 bad input file, 4 a required "
                                 "threshold was not met, 128 and the number of the signal "
                                 "that interrupted it (130: Ctrl-C).";

/* ---- man page ----------------------------------------------------------------------------- */

/* roff takes a leading dot or quote, and every backslash and dash, for its own. */
static void roff(const char *s)
{
    for (bool start = true; *s; start = *s == '\n', s++) {
        if (start && (*s == '.' || *s == '\''))
            fputs("\\&", stdout);
        if (*s == '\\')
            fputs("\\e", stdout);
        else if (*s == '-')
            fputs("\\-", stdout);
        else
            putchar(*s);
    }
}

static void man_option(const stet_opt *o)
{
    if (o->type == STET_T_TOPIC) {
        fputs(".PP\n.I ", stdout);
        roff(o->help);
        putchar('\n');
        return;
    }
    fputs(".TP\n.B ", stdout);
    if (o->letter)
        printf("\\-%c, ", o->letter);
    fputs("\\-\\-", stdout);
    roff(cli_option_no(o));
    roff(o->name);
    if (o->arg && o->type != STET_T_FLAG) {
        putchar(' ');
        roff(o->arg);
    }
    putchar('\n');
    roff(o->help);
    if (o->def && o->type != STET_T_FLAG) {
        fputs(" (default ", stdout);
        roff(o->def);
        putchar(')');
    }
    putchar('\n');
}

static void man_page(void)
{
    printf(".TH STET 1 \"\" \"stet %s\" \"User Commands\"\n.SH NAME\nstet \\- text classifiers "
           "that keep their answer when words are swapped "
           "for synonyms\n.SH SYNOPSIS\n.B stet\n.I COMMAND\n[OPTIONS] ...\n.SH COMMANDS\n",
           stet_version());
    for (const cli_command *const *c = cli_commands; *c; c++) {
        printf(".SS stet %s %s\n", (*c)->name, (*c)->args);
        roff((*c)->summary);
        fputs(".\n", stdout);
        if ((*c)->details) {
            fputs(".PP\n", stdout);
            roff((*c)->details);
            putchar('\n');
        }
        for (const stet_opt *o = (*c)->opts; o->type != STET_T_END; o++) {
            if (is_common_topic(o))
                break;
            man_option(o);
        }
        if ((*c)->examples) {
            fputs(".PP\n.nf\n", stdout);
            roff((*c)->examples);
            fputs(".fi\n", stdout);
        }
    }
    fputs(".SH COMMON OPTIONS\n", stdout);
    for (const stet_opt *o = common_opts + 1; o->type != STET_T_END; o++)
        man_option(o);
    printf(".SH EXIT STATUS\n%s\n", exit_codes);
}

/* ---- Markdown ----------------------------------------------------------------------------- */

/* Inside a table; the tables' texts are our own, so this is all that can go wrong. */
static void cell(const char *s)
{
    for (; *s; s++) {
        if (*s == '|')
            putchar('\\');
        putchar(*s == '\n' ? ' ' : *s);
    }
}

static void markdown_option(const stet_opt *o)
{
    fputs("| `", stdout);
    if (o->letter)
        printf("-%c, ", o->letter);
    printf("--%s%s", cli_option_no(o), o->name);
    if (o->arg && o->type != STET_T_FLAG) {
        putchar(' ');
        cell(o->arg);
    }
    fputs("` | ", stdout);
    cell(o->help);
    fputs(" | ", stdout);
    if (o->def && o->type != STET_T_FLAG)
        printf("`%s`", o->def);
    puts(" |");
}

static void markdown_options(const stet_opt *o)
{
    for (; o->type != STET_T_END && !is_common_topic(o); o++)
        if (o->type == STET_T_TOPIC)
            printf("\n## %s\n\n| option | | default |\n| --- | --- | --- |\n", o->help);
        else
            markdown_option(o);
}

static void markdown_page(const cli_command *c)
{
    printf("# stet %s\n\nUsage: `stet %s [OPTIONS]%s%s`\n\n%c%s.\n", c->name, c->name,
           *c->args ? " " : "", c->args,
           c->summary[0] >= 'a' && c->summary[0] <= 'z' ? c->summary[0] - 'a' + 'A' : c->summary[0],
           c->summary + 1);
    if (c->details) {
        putchar('\n');
        cli_wrap(c->details, 98);
    }
    if (c->examples)
        printf("\n```sh\n%s```\n", c->examples);
    markdown_options(c->opts);
    puts("\n[Options of every command, exit codes](README.md)");
}

static void markdown_index(void)
{
    puts("# Commands\n\nMade from the program's own option tables by `./run docs`.\n\n| command | "
         "|\n| --- | --- |");
    for (const cli_command *const *c = cli_commands; *c; c++) {
        printf("| [stet %s](", (*c)->name);
        for (const char *s = (*c)->name; *s; s++)
            putchar(*s == ' ' ? '-' : *s);
        fputs(".md) | ", stdout);
        cell((*c)->summary);
        puts(" |");
    }
    puts("\n## Options of every command\n\n| option | | default |\n| --- | --- | --- |");
    for (const stet_opt *o = common_opts + 1; o->type != STET_T_END; o++)
        markdown_option(o);
    puts("\n## Exit codes\n");
    cli_wrap(exit_codes, 98);
}

/* ---- running ------------------------------------------------------------------------------ */

static stet_status man(void *config, const stet_rest *rest)
{
    const man_cfg *cfg = config;
    if (rest->n && !cfg->markdown)
        return cli_usage("COMMAND belongs to --markdown");
    if (cfg->names)
        for (const cli_command *const *c = cli_commands; *c; c++)
            puts((*c)->name);
    else if (!cfg->markdown)
        man_page();
    else if (rest->n == 0)
        markdown_index();
    else {
        const cli_command *const *c = cli_commands;
        while (*c && strcmp((*c)->name, rest->v[0]) != 0)
            c++;
        if (!*c)
            return cli_usage("no command '%s'", rest->v[0]);
        markdown_page(*c);
    }
    return STET_OK;
}

const cli_command cmd_man = {
    .name = "man",
    .args = "[COMMAND]",
    .summary = "print the man page (roff), made from the option tables",
    .examples = "  stet man | man -l -\n  stet man --markdown attack\n",
    .opts = opts,
    .cfg_size = sizeof(man_cfg),
    .max_args = 1,
    .run = man,
};
