/* cli/prove.h - the options of a proof, for every command that asks for one. */
#ifndef CLI_PROVE_H
#define CLI_PROVE_H

#include "cli/kinds.h"
#include "cli/source.h"
#include "stet/certify.h"

typedef struct cli_prove {
    const char *method;
    int64_t budget, refine; /* budget 0: any number of words */
    bool largest, complete;
    double time_limit;
} cli_prove;

#define CLI_PROVE_OPTS(T)                                                                          \
    STET_OPT_TOPIC("Proof"),                                                                       \
        STET_OPT_STR("method", T, prove.method, "auto", "NAME", cli_method_help),                  \
        STET_OPT_INT("budget", T, prove.budget, "0", 0, 1e9, "R",                                  \
                     "at most R words are substituted; 0: any number"),                            \
        STET_OPT_FLAG("largest", T, prove.largest,                                                 \
                      "if that fails, the largest number of substitutions proved harmless"),                 \
        STET_OPT_FLAG("complete", T, prove.complete,                                               \
                      "look for a counter-example, then split sets until one is found or all "     \
                      "parts are proved"),                                                         \
        STET_OPT_REAL("time-limit", T, prove.time_limit, "10", 0, 1e9, "SECONDS",                  \
                      "time a text may take with --complete; 0: no limit"),                        \
        STET_OPT_INT("refine", T, prove.refine, "30", 0, 1e6, "N",                                 \
                     "steps that improve a joint bound")

stet_certify_how cli_prove_how(const cli_prove *p);
stet_certify_args cli_prove_args(const cli_prove *p, const cli_texts *t, const char *dir);
json_t *cli_fingerprints(const cli_texts *t); /* of model, data and sets */

#endif
