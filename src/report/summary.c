/* report/summary.c - puts the results of all folders beside each other, a table a data set. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/markup.h"
#include "base/mem.h"
#include "report/report_impl.h"
#include "stet/results.h"

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
        const double draws = num_of(json_object_get(o, "settings"), "draws");
        const int n = snprintf(c->note, sizeof c->note, "%.40s", str_of(o, "profile"));
        c->of_mean = draws > 0;
        if (c->of_mean)
            snprintf(c->note + n, sizeof c->note - (size_t)n, ", mean of %.0f answers", draws);
        snprintf(c->key, sizeof c->key, "%zu %.40s %s", rank, name, c->note);
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
    return isfinite(share_of(o).value);
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
    return !old || share_of(o).n > share_of(old).n;
}

static void fill_row(const report *r, size_t i, summary *s)
{
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

/* The result that says how the model does on the sample that was attacked or certified. */
static const json_t *on_sample(const summary *s, size_t run)
{
    for (size_t j = 0; j < s->n_cols; j++)
        if (s->cell[run][j] && s->col[j].kind > MEASURE_SAMPLE && !s->col[j].of_mean)
            return s->cell[run][j];
    return NULL;
}

/* A clean figure of all texts must not stand alone beside an attack on a few of them. */
static void add_sample(const report *r, summary *s)
{
    bool wanted = false;
    const json_t *sample[MAX_RUNS];
    for (size_t i = 0; i < r->n; i++) {
        const json_t *o = sample[i] = on_sample(s, i);
        const bool eval = s->n_cols && s->col[0].kind == MEASURE_CLEAN && s->cell[i][0];
        wanted |= o && isfinite(clean_of(o).value) &&
                  (!eval || share_of(s->cell[i][0]).n != share_of(o).n);
    }
    if (!wanted || s->n_cols == MAX_COLUMNS)
        return;
    size_t at = 0;
    while (at < s->n_cols && s->col[at].kind == MEASURE_CLEAN)
        at++;
    memmove(&s->col[at + 1], &s->col[at], (s->n_cols - at) * sizeof *s->col);
    s->col[at] = (column){.kind = MEASURE_SAMPLE, .label = "clean", .note = "attacked texts"};
    if (at)
        snprintf(s->col[0].note, sizeof s->col[0].note, "all texts");
    for (size_t i = 0; i < r->n; i++) {
        memmove(&s->cell[i][at + 1], &s->cell[i][at], (s->n_cols - at) * sizeof *s->cell[i]);
        s->cell[i][at] = sample[i];
    }
    s->n_cols++;
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
        for (size_t i = 0; i < r->n; i++)
            fill_row(r, i, &r->data[k]);
        add_sample(r, &r->data[k]);
    }
    return STET_OK;
}

/* ---- reading it --------------------------------------------------------------------------- */

static share make_share(double value, double n)
{
    share s = {.value = value, .n = n};
    stet_interval(value, n, &s.lo, &s.hi);
    return s;
}

static double texts_of(const json_t *result)
{
    const double n = num_of(result, "n"),
                 measured = num_of(json_object_get(result, "data"), "measured");
    return isfinite(n) ? n : measured;
}

share share_of(const json_t *result)
{
    const char *command = str_of(result, "command");
    const char *key = strcmp(command, "attack") == 0    ? "aua"
                      : strcmp(command, "certify") == 0 ? "certified"
                                                        : "accuracy";
    return make_share(num_of(result, key), texts_of(result));
}

share clean_of(const json_t *result)
{
    return strcmp(str_of(result, "command"), "eval") == 0
               ? share_of(result)
               : make_share(num_of(result, "clean"), texts_of(result));
}

share share_at(const summary *s, size_t run, size_t col)
{
    const json_t *o = s->cell[run][col];
    return !o                                   ? (share){.value = NAN}
           : s->col[col].kind == MEASURE_SAMPLE ? clean_of(o)
                                                : share_of(o);
}

bool share_above(share a, share b)
{
    return a.lo > b.hi;
}

bool is_attack(const summary *s, size_t run, size_t col)
{
    return s->cell[run][col] && s->col[col].kind == MEASURE_ATTACK && !s->col[col].of_mean;
}

size_t summary_worst(const summary *s, size_t run)
{
    size_t worst = SIZE_MAX;
    for (size_t j = 0; j < s->n_cols; j++)
        if (is_attack(s, run, j) &&
            (worst == SIZE_MAX || share_at(s, run, j).value < share_at(s, run, worst).value))
            worst = j;
    return worst;
}

size_t summary_proved(const summary *s, size_t run)
{
    size_t most = SIZE_MAX;
    for (size_t j = 0; j < s->n_cols; j++)
        if (s->cell[run][j] && s->col[j].kind == MEASURE_CERTIFIED &&
            !json_is_integer(json_object_get(s->cell[run][j], "budget")) &&
            (most == SIZE_MAX || share_at(s, run, j).value > share_at(s, run, most).value))
            most = j;
    return most;
}

bool same_sample(const json_t *a, const json_t *b)
{
    const json_t *x = json_object_get(a, "data"), *y = json_object_get(b, "data");
    return a && b && num_of(a, "seed") == num_of(b, "seed") &&
           num_of(x, "measured") == num_of(y, "measured") &&
           strcmp(str_of(x, "fingerprint"), str_of(y, "fingerprint")) == 0;
}

bool has_text(const json_t *result, const char *key, json_int_t index)
{
    size_t k;
    const json_t *v;
    json_array_foreach(json_object_get(result, key), k,
                       v) if (json_integer_value(v) == index) return true;
    return false;
}

const json_t *flipped_of(const json_t *attack)
{
    const json_t *new = json_object_get(attack, "flipped");
    return new ? new : json_object_get(attack, "turned"); /* as version 0.1 called it */
}

const char *title_of(const report *r)
{
    return r->a->title ? r->a->title : "Robustness to word substitutions";
}

/* ---- the first sentences ------------------------------------------------------------------ */

/* Of many models only the best is worth a sentence. */
static bool worth_telling(const report *r, const summary *s, size_t run,
                          size_t (*find)(const summary *, size_t))
{
    enum { FEW = 4 };
    const size_t own = find(s, run);
    for (size_t i = 0; own != SIZE_MAX && r->n > FEW && i < r->n; i++) {
        const double mine = share_at(s, run, own).value,
                     other = find(s, i) == SIZE_MAX ? -1 : share_at(s, i, find(s, i)).value;
        if (other > mine || (other == mine && i < run))
            return false;
    }
    return own != SIZE_MAX;
}

/* A space at which no line may end, for "91.2 %". */
#define NBSP "\xc2\xa0"

static void tell_attacks(const report *r, const summary *s, buf *out)
{
    bool any = false;
    double n = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (!worth_telling(r, s, i, summary_worst))
            continue;
        const size_t j = summary_worst(s, i);
        const share after = share_at(s, i, j), before = clean_of(s->cell[i][j]);
        buf_printf(out, any ? ", of %s" : "The strongest attack lowers the accuracy of %s",
                   r->run[i].name);
        if (isfinite(before.value))
            buf_printf(out, " from %.1f" NBSP "%%", 100 * before.value);
        buf_printf(out, " to %.1f" NBSP "%% (%.1f–%.1f)", 100 * after.value, 100 * after.lo,
                   100 * after.hi);
        n = fmax(n, after.n);
        any = true;
    }
    if (any)
        buf_printf(out, ", on %.0f texts, with 95" NBSP "%% intervals. ", n);
}

static void tell_proofs(const report *r, const summary *s, buf *out)
{
    bool any = false;
    for (size_t i = 0; i < r->n; i++) {
        if (!worth_telling(r, s, i, summary_proved))
            continue;
        const share p = share_at(s, i, summary_proved(s, i));
        buf_printf(out,
                   any ? ", for %.1f" NBSP "%% with %s"
                       : "It is proved that no combination of substitutes changes the correct "
                         "answer: for %.1f" NBSP "%% of the texts with %s",
                   100 * p.value, r->run[i].name);
        any = true;
    }
    buf_str(out, any ? "." : "");
}

void report_lead(const report *r, buf *out)
{
    if (r->n == 0)
        return;
    if (r->n_data == 0) {
        buf_str(out, "Nothing has been measured yet. Run stet eval, stet attack and stet certify "
                     "on these folders first.");
        return;
    }
    tell_attacks(r, &r->data[0], out);
    tell_proofs(r, &r->data[0], out);
}

bool put_redrawn(const report *r, const summary *s, size_t run, markup *b)
{
    bool any = false;
    for (size_t j = 0; j < s->n_cols; j++) {
        const json_t *o = json_object_get(s->cell[run][j], "redrawn");
        if (!o || s->col[j].kind != MEASURE_ATTACK)
            continue;
        if (!any) {
            put(b, "%s", r->run[run].name);
            put(b, " draws anew for every text, so a flip may be luck.");
        }
        put(b, " After %s (%s) it classifies %.1f %% of the texts correctly with other draws",
            s->col[j].label, s->col[j].note, 100 * num_of(o, "aua"));
        if (json_object_get(o, "flips_stay"))
            put(b, ", and %.1f %% of the flips stay; without any swap the same texts are "
                   "misclassified %.1f %% of the time",
                100 * num_of(o, "flips_stay"), 100 * num_of(o, "untouched_wrong"));
        put(b, ".");
        any = true;
    }
    return any;
}
