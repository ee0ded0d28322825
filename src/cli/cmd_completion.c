/* cli/cmd_completion.c - stet completion: what a shell needs to complete commands and options, from
 * the option tables. */
#include <string.h>

#include "cli/commands.h"
#include "stet/attack.h"

typedef struct completion_cfg {
    cli_common common;
} completion_cfg;

static const stet_opt opts[] = {CLI_COMMON_OPTS(completion_cfg), STET_OPT_END};

static int first_word(const cli_command *c)
{
    return (int)strcspn(c->name, " ");
}

static bool is_option(const stet_opt *o)
{
    return o->type != STET_T_TOPIC && o->type != STET_T_END;
}

/* What may follow the option, separated by spaces: its choices, or names that the program knows. */
static const char *values_of(const stet_opt *o)
{
    static char text[512];
    size_t n = 0;
    text[0] = '\0';
    if (o->type == STET_T_CHOICE) {
        for (; o->arg[n] && n < sizeof text - 1; n++)
            text[n] = o->arg[n] == '|' ? ' ' : o->arg[n];
        text[n] = '\0';
    } else if (strcmp(o->name, "attack") == 0) {
        for (size_t k = 0; k < stet_attacks(); k++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", k ? " " : "",
                                  stet_attack_name(k));
    } else if (strcmp(o->name, "profile") == 0) {
        for (const char *const *p = stet_attack_profiles(); *p; p++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? " " : "", *p);
    } else if (strcmp(o->name, "stop") == 0) {
        return "builtin";
    } else if (strcmp(o->name, "tagger") == 0) {
        return "none builtin";
    }
    return text;
}

/* ---- bash and zsh ------------------------------------------------------------------------- */

/* Options of each command; where the word before is an option with choices, those. */
static void bash_options(const cli_command *c)
{
    fputs("words=\"", stdout);
    for (const stet_opt *o = c->opts; o->type != STET_T_END; o++)
        if (is_option(o))
            printf(" --%s%s", cli_option_no(o), o->name);
    fputs("\"\n            case \"$prev\" in", stdout);
    for (const stet_opt *o = c->opts; o->type != STET_T_END; o++)
        if (is_option(o) && *values_of(o))
            printf(" --%s) words=\"%s\" ;;", o->name, values_of(o));
    puts(" esac ;;");
}

/* What may follow the first word of a command of two. */
static void bash_second_words(void)
{
    for (const cli_command *const *c = cli_commands; *c; c++) {
        const int n = first_word(*c);
        const bool again = c > cli_commands && strncmp(c[-1]->name, (*c)->name, (size_t)n + 1) == 0;
        if ((*c)->name[n] == '\0' || again)
            continue;
        printf("        %.*s) words=\"$words", n, (*c)->name);
        for (const cli_command *const *d = c;
             *d && strncmp((*d)->name, (*c)->name, (size_t)n + 1) == 0; d++)
            printf(" %s", (*d)->name + n + 1);
        puts("\" ;;");
    }
}

static void bash_completion(void)
{
    puts("_stet() {\n    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
         "cmd=\"${COMP_WORDS[1]}\" "
         "two=\"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" words=");
    fputs("    if [ \"$COMP_CWORD\" = 1 ]; then words=\"help", stdout);
    for (const cli_command *const *c = cli_commands; *c; c++)
        printf(" %.*s", first_word(*c), (*c)->name);
    puts("\"\n    else case \"$two\" in");
    for (int pass = 0; pass < 2; pass++) /* two-word commands first */
        for (const cli_command *const *c = cli_commands; *c; c++)
            if ((strchr((*c)->name, ' ') != NULL) == (pass == 0)) {
                printf("        \"%s%s) ", (*c)->name, pass == 0 ? "\"" : " \"*");
                bash_options(*c);
            }
    puts("        esac\n    fi\n    if [ \"$COMP_CWORD\" = 2 ]; then case \"$cmd\" in");
    bash_second_words();
    puts("    esac; fi\n    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "    [ \"${#COMPREPLY[@]}\" = 0 ] && COMPREPLY=($(compgen -f -- \"$cur\"))\n}\ncomplete "
         "-o filenames -F _stet stet");
}

/* ---- fish --------------------------------------------------------------------------------- */

/* In single quotes, where a quote and a backslash need one before them. */
static void fish_quoted(const char *s)
{
    putchar('\'');
    for (; *s; s++) {
        if (*s == '\'' || *s == '\\')
            putchar('\\');
        putchar(*s);
    }
    putchar('\'');
}

static void fish_completion(void)
{
    for (const cli_command *const *c = cli_commands; *c; c++) {
        const int n = first_word(*c);
        printf("complete -c stet -n __fish_use_subcommand -f -a %.*s\n", n, (*c)->name);
        if ((*c)->name[n]) {
            printf("complete -c stet -n '__fish_seen_subcommand_from %.*s' -f -a %s -d ", n,
                   (*c)->name, (*c)->name + n + 1);
            fish_quoted((*c)->summary);
            putchar('\n');
        }
        for (const stet_opt *o = (*c)->opts; o->type != STET_T_END; o++) {
            if (!is_option(o))
                continue;
            printf("complete -c stet -n '__fish_seen_subcommand_from %.*s' -l %s%s -d ", n,
                   (*c)->name, cli_option_no(o), o->name);
            fish_quoted(o->help);
            if (*values_of(o))
                printf(o->type == STET_T_CHOICE ? " -xa '%s'" : " -ra '%s'", values_of(o));
            putchar('\n');
        }
    }
}

/* ---- running ------------------------------------------------------------------------------ */

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
