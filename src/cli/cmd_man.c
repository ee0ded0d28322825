/* cli/cmd_man.c - stet man and stet completion: man page and shell completion from the option tables. */
#include <string.h>

#include "cli/commands.h"

typedef struct man_cfg {
    cli_common common;
} man_cfg;

static const stet_opt opts[] = { CLI_COMMON_OPTS(man_cfg), STET_OPT_END };

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
    roff(o->name);
    if (o->arg && o->type != STET_T_FLAG) {
        putchar(' ');
        roff(o->arg);
    }
    putchar('\n');
    roff(o->help);
    if (o->def) {
        fputs(" (default ", stdout);
        roff(o->def);
        putchar(')');
    }
    putchar('\n');
}

static stet_status man(void *config, const stet_rest *rest)
{
    (void)config, (void)rest;
    printf(".TH STET 1 \"\" \"stet %s\" \"User Commands\"\n.SH NAME\nstet \\- text classifiers that stand firm when words are swapped "
           "for their synonyms\n.SH SYNOPSIS\n.B stet\n.I COMMAND\n[OPTIONS] ...\n.SH COMMANDS\n",
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
            if (o->type == STET_T_TOPIC && strcmp(o->help, "Common options") == 0)
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
    for (const stet_opt *o = opts + 1; o->type != STET_T_END; o++)
        man_option(o);
    fputs(".SH EXIT STATUS\n0 done, 1 failed, 2 usage, 3 bad input file, 4 a required threshold was not met, 130 interrupted.\n", stdout);
    return STET_OK;
}

const cli_command cmd_man = {
    .name = "man",
    .args = "",
    .summary = "print the man page (roff), made from the option tables",
    .examples = "  stet man | man -l -\n",
    .opts = opts,
    .cfg_size = sizeof(man_cfg),
    .run = man,
};

/* ---- completion --------------------------------------------------------------------------- */

static void option_words(const cli_command *c, const char *before)
{
    for (const stet_opt *o = c->opts; o->type != STET_T_END; o++)
        if (o->type != STET_T_TOPIC)
            printf("%s--%s", before, o->name);
}

static void bash_completion(void)
{
    puts("_stet() {\n    local cur=${COMP_WORDS[COMP_CWORD]} cmd=\"${COMP_WORDS[1]}\" two=\"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" words=");
    fputs("    if [ \"$COMP_CWORD\" = 1 ]; then words=\"help", stdout);
    for (const cli_command *const *c = cli_commands; *c; c++)
        printf(" %.*s", (int)strcspn((*c)->name, " "), (*c)->name);
    puts("\"\n    else case \"$two\" in");
    for (int pass = 0; pass < 2; pass++) { /* two-word commands first */
        for (const cli_command *const *c = cli_commands; *c; c++)
            if ((strchr((*c)->name, ' ') != NULL) == (pass == 0)) {
                printf("        \"%s%s) words=\"", (*c)->name, pass == 0 ? "\"" : " \"*");
                option_words(*c, " ");
                puts("\" ;;");
            }
    }
    puts("        esac\n        [ \"$COMP_CWORD\" = 2 ] && case \"$cmd\" in");
    for (const cli_command *const *c = cli_commands; *c; c++)
        if (strchr((*c)->name, ' '))
            printf("            %.*s) words=\"$words %s\" ;;&\n", (int)strcspn((*c)->name, " "), (*c)->name, strchr((*c)->name, ' ') + 1);
    puts("        esac\n    fi\n    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "    [ \"${#COMPREPLY[@]}\" = 0 ] && COMPREPLY=($(compgen -f -- \"$cur\"))\n}\ncomplete -o filenames -F _stet stet");
}

static void fish_completion(void)
{
    for (const cli_command *const *c = cli_commands; *c; c++) {
        const int first = (int)strcspn((*c)->name, " ");
        const char *second = strchr((*c)->name, ' ');
        printf("complete -c stet -n __fish_use_subcommand -f -a %.*s\n", first, (*c)->name);
        if (second)
            printf("complete -c stet -n '__fish_seen_subcommand_from %.*s' -f -a %s -d '%s'\n", first, (*c)->name, second + 1, (*c)->summary);
        for (const stet_opt *o = (*c)->opts; o->type != STET_T_END; o++)
            if (o->type != STET_T_TOPIC)
                printf("complete -c stet -n '__fish_seen_subcommand_from %.*s' -l %s\n", first, (*c)->name, o->name);
    }
}

typedef struct completion_cfg {
    cli_common common;
} completion_cfg;

static stet_status completion(void *config, const stet_rest *rest)
{
    (void)config;
    const char *shell = rest->v[0];
    if (strcmp(shell, "bash") == 0)
        bash_completion();
    else if (strcmp(shell, "zsh") == 0) {
        puts("autoload -U +X bashcompinit && bashcompinit");
        bash_completion();
    } else if (strcmp(shell, "fish") == 0)
        fish_completion();
    else
        return cli_usage("no completion for shell '%s': expected bash, zsh or fish", shell);
    return STET_OK;
}

const cli_command cmd_completion = {
    .name = "completion",
    .args = "bash|zsh|fish",
    .summary = "print shell completion, made from the option tables",
    .examples = "  stet completion bash > ~/.local/share/bash-completion/completions/stet\n",
    .opts = opts,
    .cfg_size = sizeof(completion_cfg),
    .min_args = 1,
    .max_args = 1,
    .run = completion,
};
