/* report/summary.c - puts the results of all folders beside each other, a table a data set. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "report/report_impl.h"

/* ---- columns ------------------------------------------------------------------------------ */

/* As their authors write them, in the order in which people expect them. */
static const char *const attack_names[][2] = {{"pwws", "PWWS"},     {"ga", "GA"},
                                              {"pso", "PSO"},       {"textfooler", "TextFooler"},
                                              {"greedy", "greedy"}, {"exhaustive", "all"}};
enum { ATTACK_NAMES = sizeof attack_names / sizeof *attack_names };

static size_t attack_rank(const char *name)
{
    size_t k = 0;
    while (k < ATTACK_NAMES && strcmp(attack_names[k][0], name) != 0)
        k++;
    return k;
}

/* False for a result that has no place in the table. */
static bool column_of(const json_t *o, column *c)
{
    const char *command = str_of(o, "command");
    *c = (column){0};
    if (strcmp(command, "eval") == 0) {
        c->kind = MEASURE_CLEAN;
        snprintf(c->label, sizeof c->label, "clean");
    } else if (strcmp(command, "attack") == 0) {
        const char *name = str_of(o, "attack");
        const size_t rank = attack_rank(name);
        c->kind = MEASURE_ATTACK;
        snprintf(c->label, sizeof c->label, "%s",
                 rank < ATTACK_NAMES ? attack_names[rank][1] : name);
        snprintf(c->note, sizeof c->note, "%s", str_of(o, "profile"));
        snprintf(c->key, sizeof c->key, "%zu %s %s", rank, name, str_of(o, "profile"));
    } else if (strcmp(command, "certify") == 0) {
        const json_t *budget = json_object_get(o, "budget");
        c->kind = MEASURE_CERTIFIED;
        snprintf(c->label, sizeof c->label, "proved");
        const bool automatic = strcmp(str_of(o, "method"), "auto") == 0;
        const int n = snprintf(c->note, sizeof c->note, "%.40s%s",
                               automatic ? "" : str_of(o, "method"), automatic ? "" : ", ");
        if (json_is_integer(budget))
            snprintf(c->note + n, sizeof c->note - (size_t)n, "up to %lld words",
                     (long long)json_integer_value(budget));
        else
            snprintf(c->note + n, sizeof c->note - (size_t)n, "any words");
        snprintf(c->key, sizeof c->key, "%s", c->note);
    } else {
        return false;
    }
    return isfinite(measured_share(o));
}

static int by_place(const void *a, const void *b)
{
    const column *x = a, *y = b;
    return x->kind != y->kind ? (x->kind > y->kind) - (x->kind < y->kind) : strcmp(x->key, y->key);
}

static bool same_column(const column *a, const column *b)
{
    return a->kind == b->kind && strcmp(a->key, b->key) == 0;
}

static void add_column(summary *s, const column *c)
{
    for (size_t k = 0; k < s->n_cols; k++)
        if (same_column(&s->col[k], c))
            return;
    if (s->n_cols < MAX_COLUMNS)
        s->col[s->n_cols++] = *c;
}

/* ---- filling ------------------------------------------------------------------------------ */

static summary *find_data(report *r, const json_t *o)
{
    const json_t *data = json_object_get(o, "data");
    const char *print = str_of(data, "fingerprint");
    for (size_t k = 0; k < r->n_data; k++)
        if (strcmp(str_of(r->data[k].data, "fingerprint"), print) == 0)
            return &r->data[k];
    summary *more = mem_resize(r->data, r->n_data + 1, sizeof *more);
    if (!more)
        return NULL;
    r->data = more;
    more[r->n_data] = (summary){.data = data};
    return &more[r->n_data++];
}

/* Of two results of one column, the one on more texts. */
static bool better(const json_t *o, const json_t *old)
{
    return !old || num_of(json_object_get(o, "data"), "measured") >
                       num_of(json_object_get(old, "data"), "measured");
}

static void fill(const report *r, summary *s)
{
    for (size_t i = 0; i < r->n; i++) {
        size_t k;
        const json_t *o;
        json_array_foreach(r->run[i].results, k, o)
        {
            column c;
            if (!run_folder_current(&r->run[i], o) || !column_of(o, &c) ||
                strcmp(str_of(json_object_get(o, "data"), "fingerprint"),
                       str_of(s->data, "fingerprint")) != 0)
                continue;
            for (size_t j = 0; j < s->n_cols; j++)
                if (same_column(&s->col[j], &c) && better(o, s->cell[i][j]))
                    s->cell[i][j] = o;
        }
    }
}

stet_status report_summarise(report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        size_t k;
        const json_t *o;
        json_array_foreach(r->run[i].results, k, o)
        {
            column c;
            if (!column_of(o, &c))
                continue;
            if (!run_folder_current(&r->run[i], o)) {
                r->stale++;
                continue;
            }
            summary *s = find_data(r, o);
            if (!s)
                return STET_ENOMEM;
            add_column(s, &c);
        }
    }
    for (size_t k = 0; k < r->n_data; k++) {
        qsort(r->data[k].col, r->data[k].n_cols, sizeof(column), by_place);
        fill(r, &r->data[k]);
    }
    return STET_OK;
}

/* ---- reading it --------------------------------------------------------------------------- */

double measured_share(const json_t *result)
{
    const char *command = str_of(result, "command");
    return num_of(result, strcmp(command, "attack") == 0    ? "aua"
                          : strcmp(command, "certify") == 0 ? "certified"
                                                            : "accuracy");
}

double summary_clean(const summary *s, size_t run)
{
    for (size_t j = 0; j < s->n_cols; j++)
        if (s->cell[run][j] && s->col[j].kind == MEASURE_CLEAN)
            return measured_share(s->cell[run][j]);
    for (size_t j = 0; j < s->n_cols; j++) /* what else says how it does on untouched texts */
        if (s->cell[run][j])
            return num_of(s->cell[run][j], "clean");
    return NAN;
}

double summary_worst(const summary *s, size_t run)
{
    double worst = NAN;
    for (size_t j = 0; j < s->n_cols; j++)
        if (s->cell[run][j] && s->col[j].kind == MEASURE_ATTACK)
            worst = fmin(worst, measured_share(s->cell[run][j]));
    return worst;
}

double summary_certified(const summary *s, size_t run)
{
    double most = NAN;
    for (size_t j = 0; j < s->n_cols; j++)
        if (s->cell[run][j] && s->col[j].kind == MEASURE_CERTIFIED &&
            !json_is_integer(json_object_get(s->cell[run][j], "budget")))
            most = fmax(most, measured_share(s->cell[run][j]));
    return most;
}

const char *title_of(const report *r)
{
    return r->a->title ? r->a->title : "When words are swapped for synonyms";
}

/* Of many models only the first among them is worth a sentence. */
static bool worth_telling(const report *r, const summary *s, size_t run,
                          double (*share)(const summary *, size_t))
{
    enum { FEW = 3 };
    for (size_t i = 0; r->n > FEW && i < r->n; i++)
        if (share(s, i) > share(s, run) || (share(s, i) == share(s, run) && i < run))
            return false;
    return isfinite(share(s, run));
}

void report_lead(const report *r, buf *out)
{
    if (r->n_data == 0) {
        buf_str(out, "Nothing has been measured yet: run stet eval, stet attack and stet certify "
                     "on these folders.");
        return;
    }
    const summary *s = &r->data[0];
    bool any = false;
    for (size_t i = 0; i < r->n; i++) {
        if (!worth_telling(r, s, i, summary_worst))
            continue;
        buf_printf(out,
                   any ? "; %s %.1f %%"
                       : "Under the strongest attack that was tried, %s is right about %.1f %% of "
                         "the texts",
                   r->run[i].name, 100 * summary_worst(s, i));
        if (isfinite(summary_clean(s, i)))
            buf_printf(out, " (untouched: %.1f %%)", 100 * summary_clean(s, i));
        any = true;
    }
    buf_str(out, any ? ". " : "");
    any = false;
    for (size_t i = 0; i < r->n; i++) {
        if (!worth_telling(r, s, i, summary_certified))
            continue;
        buf_printf(out,
                   any ? ", for %.1f %% with %s"
                       : "For %.1f %% of the texts it is proved that no combination of synonyms "
                         "can turn the right answer of %s",
                   100 * summary_certified(s, i), r->run[i].name);
        any = true;
    }
    buf_str(out, any ? "." : "");
}
