/* cli/prove.c - see cli/prove.h. */
#include "cli/prove.h"

#include <inttypes.h>

stet_certify_how cli_prove_how(const cli_prove *p)
{
    return (stet_certify_how){.method = p->method,
                              .budget = p->budget > 0 ? (size_t)p->budget : STET_ANY,
                              .largest = p->largest,
                              .complete = p->complete,
                              .time_limit = p->time_limit,
                              .refine = (size_t)p->refine};
}

stet_certify_args cli_prove_args(const cli_prove *p, const cli_texts *t, const char *dir)
{
    return (stet_certify_args){.model = t->model,
                               .data = t->data,
                               .index = t->index,
                               .n_index = t->n_index,
                               .sets = &t->sets,
                               .how = cli_prove_how(p),
                               .model_name = dir};
}

static json_t *hex(uint64_t fingerprint)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, fingerprint);
    return json_string(text);
}

json_t *cli_fingerprints(const cli_texts *t)
{
    return json_pack("{s:o, s:o, s:o}", "model", hex(stet_model_fingerprint(t->model)), "data",
                     hex(stet_dataset_fingerprint(t->data)), "synonyms",
                     hex(stet_sets_fingerprint(&t->sets)));
}
