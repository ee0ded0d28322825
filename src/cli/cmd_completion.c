/* cli/cmd_completion.c - stet completion: what a shell needs to complete commands and options, from the option tables. */
#include <string.h>

#include "cli/commands.h"

typedef struct completion_cfg {
    cli_common common;
} completion_cfg;

static const stet_opt opts[] = { CLI_COMMON_OPTS(completion_cfg), STET_OPT_END };

static void option_words(const cli_command *c, const char *before)
{
    for (const stet_opt *o = c->opts; o->type != STET_T_END; o++)
        if (o->type != STET_T_TOPIC)
            printf("%s--%s%s", before, cli_option_no(o), o->name);
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
                printf("complete -c stet -n '__fish_seen_subcommand_from %.*s' -l %s%s\n", first, (*c)->name, cli_option_no(o), o->name);
    }
}

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
