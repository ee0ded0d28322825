/* certify/families.c - the family of bounds of every kind of model, in the order of model_descs. */
#include <string.h>

#include "base/error.h"
#include "certify/certifier.h"
#include "model/ensemble.h"

#define ROW(kind) &cert_##kind,
const cert_family *const cert_families[] = {MODEL_KINDS(ROW) NULL};

stet_status cert_family_of(const char *kind, const cert_family **out)
{
    *out = NULL;
    for (size_t i = 0; cert_families[i]; i++)
        if (strcmp(model_descs[i]->name, kind) == 0) {
            if (!cert_families[i]->methods)
                return error_set(STET_ENOTSUP,
                                 "no certificates for models of kind '%s', which has no bounds: "
                                 "trained with --defense encode it has exact ones, with safer or "
                                 "ranmask statistical ones; 'stet attack --attack exhaustive' "
                                 "tries every combination of short texts",
                                 kind);
            *out = cert_families[i];
            return STET_OK;
        }
    return error_set(STET_ENOTSUP, "no certificates for models of kind '%s'", kind);
}

stet_status cert_family_of_model(const model *m, const cert_family **out)
{
    TRY(cert_family_of(stet_model_kind(m), out));
    const cert_family *own = (*out)->of_model ? (*out)->of_model(m) : NULL;
    *out = own ? own : *out;
    return STET_OK;
}

stet_status cert_family_for(const model *m, const cert_family **out)
{
    *out = &cert_ensemble;
    if (ensemble_of(m))
        return STET_OK;
    for (size_t i = 0; m->rule && cert_families[i]; i++)
        if (model_descs[i] == m->desc) {
            *out = cert_families[i]; /* perhaps empty: the rule has a method of its own */
            return STET_OK;
        }
    return cert_family_of_model(m, out);
}

bool cert_by_rule(const model *m)
{
    return m->rule && !ensemble_of(m);
}

double cert_confidence(const model *m)
{
    const rule_desc *d = cert_by_rule(m) ? m->rule->desc : NULL;
    return d && d->confidence ? d->confidence(m->rule->cfg, m->n_classes) : 0;
}

bool cert_by_draws(const model *m)
{
    return cert_confidence(m) > 0;
}

const char *const *stet_certify_methods(const char *kind)
{
    const cert_family *f;
    return cert_family_of(kind, &f) == STET_OK ? f->methods : NULL;
}
