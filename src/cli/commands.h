/* cli/commands.h - declares every command of command_list.h. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/cli.h"

#define CMD(id) extern const cli_command cmd_##id;
#include "cli/command_list.h"
#undef CMD

#endif
