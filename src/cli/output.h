/* cli/output.h - between main.c and output.c. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "cli/cli.h"

void output_init(const cli_common *common);
/* Ends what is printed; a command that went well still fails if it did not arrive. */
stet_status output_end(stet_status st);
bool output_require_failed(void);
int output_signal(void); /* the one that cli_caught was told of, or SIGINT */
/* Did the reader of standard output go away, as head(1) does? Then there is nobody to tell. */
bool output_unheard(void);
const char *output_message(void); /* of the failure being reported */

#endif
