/* cli/kinds.h - parts of option tables that follow from the list of models: filled before main()
 * runs, so that tables may point to them. */
#ifndef CLI_KINDS_H
#define CLI_KINDS_H

extern char cli_model_choices[256]; /* "cnn|bilstm|s4" */
extern char cli_method_help[1024];  /* the methods of proof, kind by kind */

/* Help of the training options whose default is the model's. */
extern char cli_rate_help[256], cli_state_rate_help[256], cli_decay_help[256],
    cli_dropout_help[256];
extern char cli_epochs_help[256], cli_batch_help[256], cli_clip_help[256], cli_warmup_help[256];

#endif
