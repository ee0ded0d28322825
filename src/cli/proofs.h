/* cli/proofs.h - what is kept of a run of stet_certify_run: its numbers, and texts that show what a
 * proof covers.
 *
 *     cli_proofs p;
 *     cli_proofs_init(&p, model);
 *     args.each = cli_proofs_add, args.each_user = &p;
 *     if (stet_certify_run(&args, &result) == STET_OK)
 *         numbers = numbers_of_certify(&args.how, &result, &p);
 *     cli_proofs_deinit(&p); */
#ifndef CLI_PROOFS_H
#define CLI_PROOFS_H

#include <jansson.h>

#include "stet/certify.h"

enum { CLI_PROOFS_EACH = 3 }; /* examples of each verdict */

typedef struct cli_proofs {
    const stet_model *model;
    json_t *kept[STET_VERDICTS];  /* most variants first */
    json_t *texts[STET_VERDICTS]; /* the numbers of the texts */
} cli_proofs;

void cli_proofs_init(cli_proofs *p, const stet_model *m);
void cli_proofs_add(void *user, size_t index, const stet_certified_text *t,
                    const stet_certificate *c);
void cli_proofs_deinit(cli_proofs *p);

/* For --json and for the run folder; `p` may be NULL. NULL: out of memory. */
json_t *numbers_of_certify(const stet_certify_how *how, const stet_certify_result *r,
                           const cli_proofs *p);

#endif
