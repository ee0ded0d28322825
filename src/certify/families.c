/* Every family of bounds, one a kind of model. The registry is a plain array: a static link would
 * drop a file that nobody refers to, and its family would silently vanish. */
#include <string.h>

#include "base/error.h"
#include "certify/certifier.h"

const cert_family *const cert_families[] = {&cert_cnn, &cert_bilstm, &cert_s4, NULL};

stet_status cert_family_of(const char *kind, const cert_family **out)
{
    *out = NULL;
    for (const cert_family *const *f = cert_families; *f; f++)
        if (strcmp((*f)->model->name, kind) == 0) {
            *out = *f;
            return STET_OK;
        }
    return error_set(STET_ENOTSUP, "no certificates for models of kind '%s'", kind);
}

const char *const *stet_certify_methods(const char *kind)
{
    const cert_family *f;
    return cert_family_of(kind, &f) == STET_OK ? f->methods : NULL;
}

const char *stet_certify_method_summary(const char *method)
{
    static const char *const about[][2] = {
        {"auto", "from the cheapest to the most expensive, up to the first proof"},
        {"gbm", "growth bounds times the distance to each substitute; for comparison"},
        {"gbm-window", "the same for each window by itself; for comparison"},
        {"ibp", "intervals of every layer, over the words of each set"},
        {"joint", "one linear bound of the whole network, each position at its worst word"},
        {"slope", "intervals around the clean run, with slopes in place of derivatives"},
        {"linear", "lines through every activation, errors as symbols, the margin taken backwards"},
        {"affine", "deviations as sums over positions, and a small box of what is not linear"},
        {"adjoint", "slopes carried backwards from the margin, each position at its worst word"},
    };
    for (size_t i = 0; i < sizeof about / sizeof *about; i++)
        if (strcmp(about[i][0], method) == 0)
            return about[i][1];
    return NULL;
}
