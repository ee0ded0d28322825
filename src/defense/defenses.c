/* defense/defenses.c - the table made of defenses.h, and those registered beside it. */
#include <string.h>

#include "base/option_impl.h"
#include "defense/defense_impl.h"
#include "defense/defenses.h"
#include "stet/train.h"

#define DEFENSE_ROW(name) &defense_##name,
const defense_desc *const defense_descs[] = {DEFENSES(DEFENSE_ROW) NULL};
#undef DEFENSE_ROW

enum { MAX_MORE = 16 };
static const defense_desc *more[MAX_MORE + 1]; /* NULL at the end */

void defense_register(const defense_desc *d)
{
    for (size_t i = 0; i < MAX_MORE; i++)
        if (!more[i] || more[i] == d) {
            more[i] = d;
            break;
        }
    if (d->rule)
        rule_register(d->rule);
}

/* A model's loader, which is below this layer, finds rules by name. */
__attribute__((constructor)) static void register_rules(void)
{
    for (const defense_desc *const *d = defense_descs; *d; d++)
        if ((*d)->rule)
            rule_register((*d)->rule);
}

const defense_desc *defense_find(const char *name)
{
    const char *names[sizeof defense_descs / sizeof *defense_descs];
    size_t n = 0;
    for (const defense_desc *const *d = more; *d; d++)
        if (strcmp((*d)->name, name) == 0)
            return *d;
    for (const defense_desc *const *d = defense_descs; *d; d++) {
        if (strcmp((*d)->name, name) == 0)
            return *d;
        names[n++] = (*d)->name;
    }
    names[n] = NULL;
    opt_no_such("defence", name, names);
    return NULL;
}

size_t stet_defenses(void)
{
    return sizeof defense_descs / sizeof *defense_descs - 1;
}

const char *stet_defense_name(size_t i)
{
    return defense_descs[i]->name;
}

const char *stet_defense_summary(size_t i)
{
    return defense_descs[i]->summary;
}

const stet_opt *stet_defense_options(size_t i)
{
    return defense_descs[i]->opts;
}
