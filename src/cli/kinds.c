/* cli/kinds.c - see cli/kinds.h. */
#include "cli/kinds.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "stet/certify.h"
#include "stet/model.h"

char cli_model_choices[256], cli_method_help[1024];
char cli_rate_help[256], cli_state_rate_help[256], cli_decay_help[256], cli_dropout_help[256];
char cli_epochs_help[256], cli_batch_help[256], cli_clip_help[256], cli_warmup_help[256];

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
    ADD(cli_method_help, "; any model: enumerate (try every combination)");
}

/* "; -1: the model's (cnn 1e-4, bilstm 1e-3)": the field at `offset` of every kind that has it. */
static void fill_default(char *text, size_t size, const char *what, size_t offset)
{
    add(text, size, "%s-1: the model's (", what);
    const char *between = "";
    for (size_t i = 0; i < stet_model_kinds(); i++) {
        const stet_model_training t = stet_model_kind_training(i);
        double x = *(const double *)((const char *)&t + offset);
        int places = 0;
        if (x < 0 || (x == 0 && offset >= offsetof(stet_model_training, clip)))
            continue; /* it has none */
        for (; x > 0 && x < 0.0999; x *= 10)
            places++;
        add(text, size, "%s%s %g", between, stet_model_kind_name(i), places ? 10 * x : x);
        if (places)
            add(text, size, "e-%d", places + 1);
        if (offset == offsetof(stet_model_training, decay) && t.decoupled)
            add(text, size, " decoupled");
        between = ", ";
    }
    add(text, size, ")");
}
/* "; 0: the model's (20; bert 3)": that of most, then those that differ. */
static void fill_count(char *text, size_t size, const char *what, size_t offset)
{
    size_t usual = 0;
    add(text, size, "%s0: the model's (", what);
    for (size_t i = 0; i < stet_model_kinds(); i++) {
        const stet_model_training t = stet_model_kind_training(i);
        const size_t n = *(const size_t *)((const char *)&t + offset);
        if (i == 0)
            add(text, size, "%zu", usual = n);
        else if (n != usual)
            add(text, size, "; %s %zu", stet_model_kind_name(i), n);
    }
    add(text, size, ")");
}

#define FILL_DEFAULT(text, what, field)                                                            \
    fill_default(text, sizeof text, what, offsetof(stet_model_training, field))

__attribute__((constructor)) static void fill(void)
{
    fill_choices();
    fill_methods();
    FILL_DEFAULT(cli_rate_help, "learning rate; ", rate);
    FILL_DEFAULT(cli_state_rate_help, "rate of a state space's A, B, C and step; ", state_rate);
    FILL_DEFAULT(cli_decay_help, "", decay);
    FILL_DEFAULT(cli_dropout_help, "before the last layer; ", dropout);
    FILL_DEFAULT(cli_clip_help, "largest gradient norm; 0: none; ", clip);
    FILL_DEFAULT(cli_warmup_help, "share of the steps over which a linear schedule warms up; ",
                 warmup);
    fill_count(cli_epochs_help, sizeof cli_epochs_help, "passes over the data, at most; ",
               offsetof(stet_model_training, epochs));
    fill_count(cli_batch_help, sizeof cli_batch_help, "texts per step; ",
               offsetof(stet_model_training, batch));
}
