/* cli/kinds.h - parts of option tables that follow from the list of models: filled before main()
 * runs, so that tables may point to them. */
#ifndef CLI_KINDS_H
#define CLI_KINDS_H

extern char cli_model_choices[256]; /* "cnn|bilstm|s4" */
extern char cli_method_help[1024];  /* the methods of proof, kind by kind */

#endif
