/* cli/kinds.c - see cli/kinds.h. */
#include "cli/kinds.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "stet/certify.h"
#include "stet/model.h"

char cli_model_choices[256], cli_method_help[1024];

__attribute__((format(printf, 3, 4))) static void add(char *text, size_t size, const char *fmt, ...)
{
    const size_t n = strlen(text);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text + n, size - n, fmt, args);
    va_end(args);
}
#define ADD(text, ...) add(text, sizeof text, __VA_ARGS__)

static void fill_choices(void)
{
    for (size_t i = 0; i < stet_model_kinds(); i++)
        ADD(cli_model_choices, "%s%s", i ? "|" : "", stet_model_kind_name(i));
}

static void fill_methods(void)
{
    ADD(cli_method_help, "auto: from cheap to expensive; or one of");
    const char *between = " ";
    for (size_t i = 0; i < stet_model_kinds(); i++) {
        const char *kind = stet_model_kind_name(i);
        const char *const *method = stet_certify_methods(kind);
        for (size_t k = 0; method && method[k]; k++)
            ADD(cli_method_help, "%s%s%s%s", k ? ", " : between, k ? "" : kind, k ? "" : " ",
                method[k]);
        between = method ? "; " : between;
    }
    ADD(cli_method_help, "; all of these: enumerate (try every combination)");
}

__attribute__((constructor)) static void fill(void)
{
    fill_choices();
    fill_methods();
}
