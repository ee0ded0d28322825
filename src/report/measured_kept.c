/* report/measured_kept.c - single texts of a run, for its result: see stet/measured.h. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "stet/measured.h"

enum { KEPT_FLIPS = 2000, KEPT_PROOFS = 3 }; /* flipped texts; examples of each verdict */

struct stet_kept {
    const stet_model *model; /* NULL: of an attack */
    json_t *examples, *flips, *flipped, *wrong;
    char error[256];
    json_t *proofs[STET_VERDICTS]; /* most variants first */
    json_t *texts[STET_VERDICTS];  /* the numbers of the texts */
    bool lost;                     /* memory ran out */
};

/* ---- attacked texts ----------------------------------------------------------------------- */

/* Fewest changed words first: the shorter the way, the more telling. Then the surest before. */
static bool before(const json_t *a, const json_t *b)
{
    const json_int_t na = json_integer_value(json_object_get(a, "changed")),
                     nb = json_integer_value(json_object_get(b, "changed"));
    if (na != nb)
        return na < nb;
    return json_number_value(json_object_get(a, "before")) >
           json_number_value(json_object_get(b, "before"));
}

/* Do both begin with the same swap? One of them tells enough. */
static bool alike(const json_t *a, const json_t *b)
{
    const json_t *x = json_array_get(json_object_get(a, "changes"), 0),
                 *y = json_array_get(json_object_get(b, "changes"), 0);
    return x && y && json_equal(json_object_get(x, "from"), json_object_get(y, "from")) &&
           json_equal(json_object_get(x, "to"), json_object_get(y, "to"));
}

static void drop_keys(json_t *o, const char *const *keys)
{
    for (; *keys; keys++)
        json_object_del(o, *keys);
}

static void keep_example(stet_kept *e, json_t *o)
{
    for (size_t i = 0; i < json_array_size(e->examples); i++)
        if (alike(o, json_array_get(e->examples, i))) {
            if (!before(o, json_array_get(e->examples, i)))
                return;
            json_array_remove(e->examples, i);
            break;
        }
    size_t at = json_array_size(e->examples);
    while (at > 0 && before(o, json_array_get(e->examples, at - 1)))
        at--;
    json_array_insert(e->examples, at, o);
    if (json_array_size(e->examples) > STET_KEPT_EXAMPLES)
        json_array_remove(e->examples, STET_KEPT_EXAMPLES);
}

/* ---- every flipped text, in brief --------------------------------------------------------- */

enum { CONTEXT = 60, BRIEF = 4096 };
typedef struct brief {
    char text[BRIEF];
    size_t n;
} brief;

static void copy(brief *b, const char *s, size_t n)
{
    n = n < BRIEF - 1 - b->n ? n : BRIEF - 1 - b->n;
    memcpy(b->text + b->n, s, n);
    b->n += n;
}

/* The text from `from` to `to`; of a long stretch only its ends, cut at a space. */
static void copy_between(brief *b, const char *t, size_t from, size_t to, size_t len)
{
    size_t left = from == 0 ? 0 : from + CONTEXT, right = to < CONTEXT ? 0 : to - CONTEXT;
    right = to == len ? len : right;
    while (from > 0 && left < to && t[left] != ' ')
        left++;
    while (to < len && right > from && t[right] != ' ')
        right--;
    if (left >= right) {
        copy(b, t + from, to - from);
        return;
    }
    copy(b, t + from, left > from ? left - from : 0);
    copy(b, from == 0 ? "… " : " … ", from == 0 ? 4 : 5);
    copy(b, t + right, to - right);
}

/* The record with its text cut down; the places of its changes move along. */
static json_t *brief_of(const json_t *o)
{
    const json_t *text = json_object_get(o, "text"), *c;
    const char *t = json_string_value(text);
    const size_t len = json_string_length(text);
    json_t *changes = json_array();
    brief b = {.n = 0};
    size_t done = 0, k;
    json_array_foreach(json_object_get(o, "changes"), k, c)
    {
        const size_t start = (size_t)json_integer_value(json_object_get(c, "start")),
                     end = (size_t)json_integer_value(json_object_get(c, "end"));
        if (!t || start < done || end < start || end > len || b.n > BRIEF / 2)
            continue;
        copy_between(&b, t, done, start, len);
        const json_int_t at = (json_int_t)b.n;
        copy(&b, t + start, end - start);
        json_t *moved = json_copy((json_t *)c);
        json_object_set_new(moved, "start", json_integer(at));
        json_object_set_new(moved, "end", json_integer((json_int_t)b.n));
        json_array_append_new(changes, moved);
        done = end;
    }
    if (t)
        copy_between(&b, t, done, len, len);
    json_t *out = json_copy((json_t *)o);
    json_object_set_new(out, "changes", changes);
    json_object_set_new(out, "text", json_stringn_nocheck(b.text, b.n));
    return out;
}

void stet_kept_attacked(void *kept, const char *line)
{
    static const char *const of_no_use[] = {"attack",      "outcome",    "adversarial",
                                            "evaluations", "candidates", NULL};
    stet_kept *e = kept;
    const size_t failures = mem_failures();
    json_t *o = NULL;
    (void)!json_read_text("a line of the attack", line, strlen(line), &o);
    const char *outcome = json_string_value(json_object_get(o, "outcome"));
    json_t *index = json_object_get(o, "index");
    const char *error = json_string_value(json_object_get(o, "error"));
    if (error && !*e->error)
        snprintf(e->error, sizeof e->error, "%s", error);
    if (outcome && strcmp(outcome, "wrong") == 0)
        json_array_append(e->wrong, index);
    if (outcome && strcmp(outcome, "success") == 0) {
        json_array_append(e->flipped, index);
        drop_keys(o, of_no_use);
        if (json_array_size(e->flips) < KEPT_FLIPS)
            json_array_append_new(e->flips, brief_of(o));
        keep_example(e, o);
    }
    json_decref(o);
    e->lost |= mem_failures() != failures;
}

/* ---- certified texts ---------------------------------------------------------------------- */

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* In how many ways can the text be written? As a power of ten. */
static double variants(const stet_choices *c)
{
    double log = 0;
    for (size_t i = 0; i < c->n; i++)
        log += log10(1.0 + (double)(c->start[i + 1] - c->start[i]));
    return log;
}

/* Words as the set spells them, in the form of an attack's changes. */
static json_t *change(const stet_certified_text *x, uint32_t pos, uint32_t word)
{
    const stet_choices *c = x->choices;
    if (pos >= c->n)
        return NULL;
    const char *to = "";
    for (uint32_t k = c->start[pos]; k < c->start[pos + 1]; k++)
        if (c->word[k] == word)
            to = c->text[k];
    const stet_token *t = &x->reading->tokens.v[pos];
    return json_pack("{s:i, s:i, s:i, s:s, s:s}", "position", (int)pos, "start", (int)t->start,
                     "end", (int)t->end, "from", stet_token_word(&x->reading->tokens, pos), "to",
                     to);
}

static json_t *example_of(const stet_kept *p, size_t index, const stet_certified_text *t,
                          const stet_certificate *c)
{
    const stet_str text = t->reading->text;
    json_t *changes = json_array(), *harm = json_array();
    for (size_t k = 0; k < c->n_edits; k++)
        json_array_append_new(changes, change(t, c->edits[k].pos, c->edits[k].word));
    for (size_t k = 0; k < c->n_harm; k++) {
        json_t *one = change(t, c->harm[k].pos, c->harm[k].word);
        json_object_set_new(one, "drop", number(c->harm[k].drop));
        json_array_append_new(harm, one);
    }
    return json_pack("{s:I, s:s, s:s, s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:s%}", "index",
                     (json_int_t)index, "verdict", stet_verdict_name(c->verdict), "label",
                     stet_model_class_name(p->model, (size_t)c->label), "answer",
                     c->answer < 0 ? "none" : stet_model_class_name(p->model, (size_t)c->answer),
                     "clean", number(c->clean), "margin", number(c->margin), "method",
                     c->method ? c->method : "none", "variants_log10", number(variants(t->choices)),
                     "changes", changes, "harm", harm, "text", text.data, (int)text.len);
}

static void keep_proof(stet_kept *p, size_t index, const stet_certified_text *t,
                       const stet_certificate *c)
{
    json_t *list = p->proofs[c->verdict];
    const double log = variants(t->choices);
    size_t at = json_array_size(list);
    while (at > 0 &&
           log > json_number_value(json_object_get(json_array_get(list, at - 1), "variants_log10")))
        at--;
    if (at >= KEPT_PROOFS)
        return;
    json_array_insert_new(list, at, example_of(p, index, t, c));
    if (json_array_size(list) > KEPT_PROOFS)
        json_array_remove(list, KEPT_PROOFS);
}

void stet_kept_certified(void *kept, size_t index, const stet_certified_text *t,
                         const stet_certificate *c)
{
    stet_kept *p = kept;
    const size_t failures = mem_failures();
    json_array_append_new(p->texts[c->verdict], json_integer((json_int_t)index));
    if (c->verdict != STET_WRONG)
        keep_proof(p, index, t, c);
    p->lost |= mem_failures() != failures;
}

/* ---- all of them -------------------------------------------------------------------------- */

void stet_kept_free(stet_kept *k)
{
    if (!k)
        return;
    json_decref(k->examples);
    json_decref(k->flips);
    json_decref(k->flipped);
    json_decref(k->wrong);
    for (size_t v = 0; v < STET_VERDICTS; v++) {
        json_decref(k->proofs[v]);
        json_decref(k->texts[v]);
    }
    mem_free(k);
}

stet_status stet_kept_new(const stet_model *m, stet_kept **out)
{
    json_guard();
    const size_t failures = mem_failures();
    stet_kept *k = *out = mem_zalloc(1, sizeof *k);
    if (!k)
        return STET_ENOMEM;
    k->model = m;
    k->examples = json_array();
    k->flips = json_array();
    k->flipped = json_array();
    k->wrong = json_array();
    for (size_t v = 0; v < STET_VERDICTS; v++) {
        k->proofs[v] = json_array();
        k->texts[v] = json_array();
    }
    if (mem_failures() == failures)
        return STET_OK;
    stet_kept_free(k);
    *out = NULL;
    return error_set(STET_ENOMEM, "out of memory for a result");
}

const char *stet_kept_error(const stet_kept *k)
{
    return k->error;
}

static void join(const stet_kept *k, json_t *o)
{
    if (!k->model) {
        json_object_set(o, "examples", k->examples);
        json_object_set(o, "flips", k->flips);
        json_object_set(o, "flipped", k->flipped);
        json_object_set(o, "wrong", k->wrong);
        return;
    }
    json_t *examples = json_array();
    for (size_t v = 0; v < STET_VERDICTS; v++)
        json_array_extend(examples, k->proofs[v]);
    json_object_set_new(o, "examples", examples);
    json_object_set(o, "proved_texts", k->texts[STET_CERTIFIED]);
    json_object_set(o, "broken_texts", k->texts[STET_BROKEN]);
}

stet_status stet_kept_join(const stet_kept *k, char **numbers)
{
    json_t *o = NULL;
    char *text = NULL;
    TRY(json_read_text("numbers", *numbers, strlen(*numbers), &o));
    const size_t failures = mem_failures();
    join(k, o);
    stet_status st = k->lost || mem_failures() != failures
                         ? error_set(STET_ENOMEM, "out of memory for a result")
                         : json_text(o, JSON_COMPACT, &text);
    json_decref(o);
    if (st != STET_OK)
        return st;
    mem_free(*numbers);
    *numbers = text;
    return STET_OK;
}
