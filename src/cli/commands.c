/* cli/commands.c - the commands, in the order of `stet help`. */
#include "cli/commands.h"

const cli_command *const cli_commands[] = {
#define CMD(id) &cmd_##id,
#include "cli/command_list.h"
#undef CMD
    NULL,
};
