/* base/option.c - reading options by table; the texts made from the table are in option_help.c. */
#include "stet/option.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "base/option_impl.h"

static void *field_of(const stet_opt *o, void *cfg)
{
    return (char *)cfg + o->offset;
}

/* "expected an integer from 1 to 100", for a value given as --name or in a file. */
static stet_status out_of_range(const stet_opt *o, const char *value, const char *kind)
{
    char range[OPT_RANGE_TEXT];
    opt_range_text(o, range);
    return error_set(STET_EUSAGE, "--%s %s: expected %s%s%s", o->name, value, kind,
                     *range ? " " : "", range);
}

static stet_status set_int(const stet_opt *o, const char *value, int64_t *out)
{
    char *end;
    errno = 0;
    const long long x = strtoll(value, &end, 10);
    if (end == value || *end || isspace((unsigned char)*value) || errno == ERANGE ||
        (double)x < o->min || (double)x > o->max)
        return out_of_range(o, value, "an integer");
    *out = x;
    return STET_OK;
}

static stet_status set_real(const stet_opt *o, const char *value, double *out)
{
    char *end;
    const double x = number_parse(value, &end);
    if (end == value || *end || isspace((unsigned char)*value) || !(x >= o->min && x <= o->max))
        return out_of_range(o, value, "a number");
    *out = x;
    return STET_OK;
}

static stet_status set_flag(const stet_opt *o, const char *value, bool *out)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        if (strcmp(value, yes[i]) == 0 || strcmp(value, no[i]) == 0) {
            *out = strcmp(value, yes[i]) == 0;
            return STET_OK;
        }
    }
    return error_set(STET_EUSAGE, "--%s %s: expected true or false", o->name, value);
}

static stet_status set_choice(const stet_opt *o, const char *value, int *out)
{
    const size_t n = strlen(value);
    int index = 0;
    for (const char *p = o->arg; *p; index++) {
        const size_t len = strcspn(p, "|");
        if (len == n && memcmp(p, value, n) == 0) {
            *out = index;
            return STET_OK;
        }
        p += len + (p[len] == '|');
    }
    return error_set(STET_EUSAGE, "--%s %s: expected %s", o->name, value, o->arg);
}

static stet_status add_to_list(const stet_opt *o, const char *value, stet_strings *list)
{
    if (list->n == STET_LIST_MAX)
        return error_set(STET_EUSAGE, "--%s %s: given more than %d times", o->name, value,
                         STET_LIST_MAX);
    list->v[list->n++] = value;
    return STET_OK;
}

static stet_status set_value(const stet_opt *o, void *cfg, const char *value)
{
    void *const field = field_of(o, cfg);
    switch (o->type) {
    case STET_T_FLAG:
        return set_flag(o, value, field);
    case STET_T_INT:
        return set_int(o, value, field);
    case STET_T_REAL:
        return set_real(o, value, field);
    case STET_T_STR:
        *(const char **)field = value;
        return STET_OK;
    case STET_T_CHOICE:
        return set_choice(o, value, field);
    case STET_T_LIST:
        return add_to_list(o, value, field);
    case STET_T_END:
    case STET_T_TOPIC:
        break;
    }
    return error_set(STET_EINTERNAL, "--%s: no such type of option", o->name);
}

static void clear_value(const stet_opt *o, void *cfg)
{
    void *const field = field_of(o, cfg);
    switch (o->type) {
    case STET_T_FLAG:
        *(bool *)field = false;
        break;
    case STET_T_INT:
        *(int64_t *)field = 0;
        break;
    case STET_T_REAL:
        *(double *)field = 0;
        break;
    case STET_T_STR:
        *(const char **)field = NULL;
        break;
    case STET_T_CHOICE:
        *(int *)field = 0;
        break;
    case STET_T_LIST:
        *(stet_strings *)field = (stet_strings){.n = 0};
        break;
    case STET_T_END:
    case STET_T_TOPIC:
        break;
    }
}

stet_status stet_opt_defaults(const stet_opt *opts, void *cfg)
{
    for (const stet_opt *o = opts; o->type != STET_T_END; o++) {
        clear_value(o, cfg);
        if (o->def)
            TRY(set_value(o, cfg, o->def));
    }
    return STET_OK;
}

static const stet_opt *find_name(const stet_opt *opts, const char *name, size_t len)
{
    for (const stet_opt *o = opts; o->type != STET_T_END; o++)
        if (o->name && strlen(o->name) == len && memcmp(o->name, name, len) == 0)
            return o;
    return NULL;
}

static const stet_opt *find_letter(const stet_opt *opts, char letter)
{
    for (const stet_opt *o = opts; o->type != STET_T_END; o++)
        if (o->name && o->letter == letter)
            return o;
    return NULL;
}

static stet_status unknown(const stet_opt *opts, const char *name, size_t len)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word - 1), name);
    opt_nearest best = opt_nearest_start(word);
    for (const stet_opt *o = opts; o->type != STET_T_END; o++)
        if (o->name)
            opt_nearest_offer(&best, o->name);
    return best.name
               ? error_set(STET_EUSAGE, "unknown option --%s; did you mean --%s?", word, best.name)
               : error_set(STET_EUSAGE, "unknown option --%s", word);
}

/* argv while it is being read. */
typedef struct reader {
    const stet_opt *opts;
    void *cfg;
    int argc, next;
    char *const *argv;
} reader;

/* The argument after an option. One that looks like a long option is not taken for a value:
 * somebody forgot it (--name=--value says so if not). */
static stet_status next_value(reader *r, const stet_opt *o, const char **value)
{
    const char *arg = r->next < r->argc ? r->argv[r->next] : NULL;
    if (!arg || (arg[0] == '-' && arg[1] == '-' && arg[2]))
        return error_set(STET_EUSAGE, "--%s: expected a value (%s)", o->name,
                         o->arg ? o->arg : "TEXT");
    *value = arg;
    r->next++;
    return STET_OK;
}

static stet_status read_long(reader *r, const char *name)
{
    const size_t len = strcspn(name, "=");
    const char *value = name[len] ? name + len + 1 : NULL;
    const stet_opt *o = find_name(r->opts, name, len);
    if (!o && strncmp(name, "no-", 3) == 0) {
        o = find_name(r->opts, name + 3, len - 3);
        if (!o || o->type != STET_T_FLAG)
            return unknown(r->opts, name, len);
        if (value)
            return error_set(STET_EUSAGE, "--no-%s takes no value", o->name);
        return set_value(o, r->cfg, "false");
    }
    if (!o)
        return unknown(r->opts, name, len);
    if (o->type == STET_T_FLAG) {
        if (value)
            return error_set(STET_EUSAGE, "--%s takes no value", o->name);
        return set_value(o, r->cfg, "true");
    }
    if (!value)
        TRY(next_value(r, o, &value));
    return set_value(o, r->cfg, value);
}

/* "-o PATH", "-oPATH", "-q", and flags in a row "-qv". */
static stet_status read_letters(reader *r, const char *letters)
{
    for (; *letters; letters++) {
        const stet_opt *o = find_letter(r->opts, *letters);
        if (!o)
            return error_set(STET_EUSAGE, "unknown option -%c", *letters);
        if (o->type == STET_T_FLAG) {
            TRY(set_value(o, r->cfg, "true"));
            continue;
        }
        const char *value = letters + 1;
        if (!*value)
            TRY(next_value(r, o, &value));
        return set_value(o, r->cfg, value);
    }
    return STET_OK;
}

static stet_status add_rest(stet_rest *rest, const char *arg)
{
    if (!rest)
        return error_set(STET_EUSAGE, "unexpected argument '%s'", arg);
    if (rest->n == STET_REST_MAX)
        return error_set(STET_EUSAGE, "'%s': more than %d arguments", arg, STET_REST_MAX);
    rest->v[rest->n++] = arg;
    return STET_OK;
}

stet_status stet_opt_parse(const stet_opt *opts, void *cfg, int argc, char *const *argv,
                           stet_rest *rest)
{
    if (rest)
        rest->n = 0;
    TRY(stet_opt_defaults(opts, cfg));
    reader r = {opts, cfg, argc, 0, argv};
    bool options_ended = false;
    while (r.next < argc) {
        const char *arg = argv[r.next++];
        if (options_ended || arg[0] != '-' || arg[1] == '\0')
            TRY(add_rest(rest, arg));
        else if (arg[1] != '-')
            TRY(read_letters(&r, arg + 1));
        else if (arg[2] == '\0')
            options_ended = true;
        else
            TRY(read_long(&r, arg + 2));
    }
    return STET_OK;
}

static stet_status no_setting(const opt_table *t, size_t n, const char *owner, const char *name,
                              size_t len)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word - 1), name);
    opt_nearest best = opt_nearest_start(word);
    for (size_t i = 0; i < n; i++)
        for (const stet_opt *o = t[i].opts; o->type != STET_T_END; o++)
            if (o->name)
                opt_nearest_offer(&best, o->name);
    return best.name ? error_set(STET_EUSAGE, "%s has no setting '%s'; did you mean '%s'?", owner,
                                 word, best.name)
                     : error_set(STET_EUSAGE, "%s has no setting '%s'", owner, word);
}

stet_status opt_settings(const opt_table *t, size_t n, const char *const *settings,
                         const char *owner)
{
    for (; settings && *settings; settings++) {
        const size_t len = strcspn(*settings, "=");
        if ((*settings)[len] == '\0')
            return error_set(STET_EUSAGE, "%s: setting '%s': expected name=value", owner,
                             *settings);
        const stet_opt *o = NULL;
        size_t i = 0;
        while (i < n && !(o = find_name(t[i].opts, *settings, len)))
            i++;
        if (!o)
            return no_setting(t, n, owner, *settings, len);
        TRY(set_value(o, t[i].cfg, *settings + len + 1));
    }
    return STET_OK;
}
