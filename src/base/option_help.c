/* base/option_help.c - what the option table says to people and programs: --help, the JSON echo,
 * and the suggestion for a misspelt name. */
#include "base/option_impl.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"

enum { LINE_WIDTH = 100, LEFT_MAX = 30, WORD_MAX = 64 };

/* Ends beyond this mean "no limit": nobody types such a number. */
static const double unlimited = 1e15;

void opt_range_text(const stet_opt *o, char text[OPT_RANGE_TEXT])
{
    const bool low = o->min > -unlimited, high = o->max < unlimited;
    if (low && high)
        snprintf(text, OPT_RANGE_TEXT, "from %.10g to %.10g", o->min, o->max);
    else if (low)
        snprintf(text, OPT_RANGE_TEXT, "of at least %.10g", o->min);
    else if (high)
        snprintf(text, OPT_RANGE_TEXT, "of at most %.10g", o->max);
    else
        text[0] = '\0';
}

/* "  -o, --out PATH" */
static void left_side(buf *b, const stet_opt *o)
{
    if (o->letter)
        buf_printf(b, "  -%c, ", o->letter);
    else
        buf_str(b, "  ");
    const bool on = o->type == STET_T_FLAG && o->def && strcmp(o->def, "true") == 0;
    buf_printf(b, "--%s%s", on ? "no-" : "", o->name);
    if (o->type != STET_T_FLAG)
        buf_printf(b, " %s%s", o->arg ? o->arg : "TEXT", o->type == STET_T_LIST ? " ..." : "");
}

/* The help text, then in brackets the default and the range. */
static void right_side(buf *b, const stet_opt *o)
{
    buf_str(b, o->help ? o->help : "");
    char range[OPT_RANGE_TEXT] = "";
    if (o->type == STET_T_INT || o->type == STET_T_REAL)
        opt_range_text(o, range);
    const char *def = o->type == STET_T_FLAG ? NULL : o->def;
    if (def && *range)
        buf_printf(b, " (default %s, %s)", def, range);
    else if (def)
        buf_printf(b, " (default %s)", def);
    else if (*range)
        buf_printf(b, " (%s)", range);
}

static void spaces(buf *b, size_t n)
{
    buf_printf(b, "%*s", (int)n, "");
}

/* Words of `text` on lines from `column` on; the line has `at` characters already. */
static void wrap(buf *b, const char *text, size_t at, size_t column)
{
    bool first = true;
    while (*text) {
        const size_t len = strcspn(text, " ");
        if (!first && at + 1 + len > LINE_WIDTH) {
            buf_char(b, '\n');
            at = 0;
            first = true;
        }
        if (at < column) {
            spaces(b, column - at);
            at = column;
        }
        if (!first) {
            buf_char(b, ' ');
            at++;
        }
        buf_bytes(b, text, len);
        at += len;
        first = false;
        text += len;
        text += strspn(text, " ");
    }
    buf_char(b, '\n');
}

/* Where the right side starts: after the longest left side that is not over-long. */
static size_t help_column(const stet_opt *opts, buf *scratch)
{
    size_t column = 0;
    for (const stet_opt *o = opts; o->type != STET_T_END; o++) {
        if (o->type == STET_T_TOPIC)
            continue;
        buf_clear(scratch);
        left_side(scratch, o);
        if (scratch->n <= LEFT_MAX && scratch->n > column)
            column = scratch->n;
    }
    return (column ? column : LEFT_MAX) + 2;
}

stet_status stet_opt_help(const stet_opt *opts, char **out)
{
    buf b = {0}, part = {0};
    const size_t column = help_column(opts, &part);
    stet_status st = buf_status(&part);
    for (const stet_opt *o = opts; o->type != STET_T_END && st == STET_OK; o++) {
        if (o->type == STET_T_TOPIC) {
            buf_printf(&b, "%s%s:\n", b.n ? "\n" : "", o->help);
            continue;
        }
        const size_t start = b.n;
        left_side(&b, o);
        size_t at = b.n - start;
        if (at + 2 > column) {
            buf_char(&b, '\n');
            at = 0;
        }
        buf_clear(&part);
        right_side(&part, o);
        if ((st = buf_status(&part)) == STET_OK)
            wrap(&b, part.data, at, column);
    }
    buf_deinit(&part);
    if (st == STET_OK)
        st = buf_status(&b);
    *out = st == STET_OK ? buf_take(&b) : NULL;
    if (st == STET_OK && !*out)
        st = STET_ENOMEM;
    buf_deinit(&b);
    return st;
}

static void json_text(buf *b, const char *s)
{
    if (s)
        buf_json_string(b, s, strlen(s));
    else
        buf_str(b, "null");
}

static void json_choice(buf *b, const stet_opt *o, int index)
{
    const char *p = o->arg;
    for (; index > 0 && *p; index--)
        p += strcspn(p, "|") + (p[strcspn(p, "|")] == '|');
    buf_json_string(b, p, strcspn(p, "|"));
}

static void json_value(buf *b, const stet_opt *o, const void *cfg)
{
    const void *const field = (const char *)cfg + o->offset;
    const stet_strings *list = field;
    switch (o->type) {
    case STET_T_FLAG:
        buf_str(b, *(const bool *)field ? "true" : "false");
        break;
    case STET_T_INT:
        buf_printf(b, "%" PRId64, *(const int64_t *)field);
        break;
    case STET_T_REAL:
        buf_real(b, *(const double *)field);
        break;
    case STET_T_STR:
        json_text(b, *(const char *const *)field);
        break;
    case STET_T_CHOICE:
        json_choice(b, o, *(const int *)field);
        break;
    case STET_T_LIST:
        buf_char(b, '[');
        for (size_t i = 0; i < list->n; i++) {
            if (i)
                buf_char(b, ',');
            json_text(b, list->v[i]);
        }
        buf_char(b, ']');
        break;
    case STET_T_END:
    case STET_T_TOPIC:
        break;
    }
}

stet_status stet_opt_json(const stet_opt *opts, const void *cfg, char **out)
{
    buf b = {0};
    buf_char(&b, '{');
    for (const stet_opt *o = opts; o->type != STET_T_END; o++) {
        if (o->type == STET_T_TOPIC)
            continue;
        if (b.n > 1)
            buf_char(&b, ',');
        json_text(&b, o->name);
        buf_char(&b, ':');
        json_value(&b, o, cfg);
    }
    buf_char(&b, '}');
    const stet_status st = buf_status(&b);
    *out = buf_take(&b);
    return st;
}

/* Edits (insert, delete, replace, swap neighbours) that turn one word into the other, letters
 * without case. Words longer than WORD_MAX are never near. */
static size_t edit_distance(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b);
    if (n > WORD_MAX || m > WORD_MAX)
        return SIZE_MAX;
    size_t rows[3][WORD_MAX + 1]; /* this row, the one before, the one before that */
    for (size_t i = 0; i <= n; i++) {
        size_t *row = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            if (i == 0) {
                row[j] = j;
                continue;
            }
            const int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            size_t best = up[j - 1] + (x != y);
            if (up[j] + 1 < best)
                best = up[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
                y == tolower((unsigned char)a[i - 2]) && up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[n % 3][m];
}

opt_nearest opt_nearest_start(const char *word)
{
    return (opt_nearest){word, NULL, SIZE_MAX};
}

/* Near: at most a third of the letters wrong, or cut short after three or more. */
void opt_nearest_offer(opt_nearest *best, const char *name)
{
    const size_t n = strlen(best->word);
    size_t d = edit_distance(best->word, name);
    if (d > 1 && n >= 3 && strncmp(best->word, name, n) == 0)
        d = 1;
    if (d <= (n < 3 ? 1 : n / 3) && d < best->distance) {
        best->distance = d;
        best->name = name;
    }
}

const char *stet_did_you_mean(const char *word, const char *const *names)
{
    opt_nearest best = opt_nearest_start(word);
    for (; *names; names++)
        opt_nearest_offer(&best, *names);
    return best.name;
}

stet_status opt_no_such(const char *what, const char *name, const char *const *names)
{
    const char *near = stet_did_you_mean(name, names);
    return error_set(STET_EUSAGE, "no %s '%s'%s%s%s", what, name, near ? ", did you mean '" : "",
                     near ? near : "", near ? "'?" : "");
}
