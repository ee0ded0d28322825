/* sweep/sweep_words.c - see sweep_impl.h: what a point is trained with, as words and as settings. */
#include <pthread.h>
#include <string.h>

#include "sweep/sweep_impl.h"

/* ---- a point's words ---------------------------------------------------------------------- */

static void put(sweep_words *w, const char *word)
{
    w->v[w->n++] = word; /* sweep_train_words has looked at the room */
}

static void put_option(sweep_words *w, const char *name, const char *value)
{
    put(w, name);
    put(w, value);
}

/* Options that the user gives come after the defences of the axes, so that --defense may name more,
 * and before the point's own values. A block is the validation set, too. */
stet_status sweep_train_words(const sweep *s, const sweep_point *p, sweep_words *w)
{
    enum { OWN = 2 + 2 * SWEEP_AXES + 8 + 3 };
    w->n = 0;
    *w->defense = '\0';
    if (s->a.n_train > SWEEP_MOST_WORDS - OWN)
        return error_set(STET_EUSAGE, "more than %d options of training", SWEEP_MOST_WORDS - OWN);
    for (size_t x = 0; x < SWEEP_AXES; x++)
        if (p->value[x] && s->g->def[x].defense) {
            const size_t n = strlen(w->defense);
            snprintf(w->defense + n, sizeof w->defense - n, "%s%s", n ? "," : "",
                     s->g->def[x].defense);
        }
    if (*w->defense)
        put_option(w, "--defense", w->defense);
    for (size_t i = 0; i < s->a.n_train; i++)
        put(w, s->a.train[i]);
    for (size_t x = 0; x < SWEEP_BLOCK; x++)
        if (p->value[x])
            put_option(w, s->g->flag[x], p->value[x]);
    if (p->held_out) {
        put_option(w, "--data", p->rest);
        put_option(w, "--valid", p->held_out);
        put_option(w, "--label", "label");
        put_option(w, "--text", "text");
    }
    put_option(w, "-o", p->dir);
    put(w, "--resume");
    return STET_OK;
}

/* ---- their settings ----------------------------------------------------------------------- */

static const stet_opt running[] = {
    STET_OPT_INT("seed", sweep_line, seed, "1", 0, 9e15, "N", ""),
    STET_OPT_INT("threads", sweep_line, threads, "0", 0, 1024, "N", ""),
    STET_OPT_CHOICE("device", sweep_line, device, "cpu", "cpu|cuda|auto", ""),
    STET_OPT_END,
};
static stet_opt table[256 + sizeof running / sizeof *running];

static void build_table(void)
{
    size_t n = 0;
    for (const stet_opt *o = stet_train_options(); o->type != STET_T_END && n < 256; o++) {
        table[n] = *o;
        table[n++].offset += offsetof(sweep_line, settings);
    }
    memcpy(table + n, running, sizeof running);
}

static const stet_opt *line_options(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, build_table);
    return table;
}

static stet_status read_words(const char *const *words, size_t n, sweep_line *out)
{
    stet_rest rest;
    TRY(stet_opt_parse(line_options(), out, (int)n, (char *const *)words, &rest));
    return rest.n ? error_set(STET_EUSAGE, "unexpected argument '%s'", rest.v[0]) : STET_OK;
}

static stet_status read_line(const char *const *words, size_t n, sweep_line *out)
{
    const char *const *recipe, *all[SWEEP_MOST_WORDS];
    size_t k = 0;
    TRY(read_words(words, n, out));
    TRY(stet_train_settings_recipe(&out->settings, &recipe));
    if (!recipe)
        return STET_OK;
    for (; recipe[k] && k + n < SWEEP_MOST_WORDS; k++)
        all[k] = recipe[k];
    if (recipe[k])
        return error_set(STET_EUSAGE, "too many options");
    memcpy(all + k, words, n * sizeof *all);
    return read_words(all, k + n, out);
}

stet_status sweep_line_read(const char *const *words, size_t n, sweep_line *out)
{
    const stet_status st = read_line(words, n, out);
    return st == STET_EUSAGE ? error_prefix(st, "stet train") : st;
}

stet_status sweep_line_json(const sweep_line *l, json_t **out)
{
    char *text;
    TRY(stet_opt_json(line_options(), l, &text));
    const stet_status st = json_read_text("settings", text, strlen(text), out);
    stet_free(text);
    return st;
}
