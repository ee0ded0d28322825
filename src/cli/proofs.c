/* cli/proofs.c - see cli/proofs.h. */
#include "cli/proofs.h"

#include <math.h>

#include "stet/measured.h"

void cli_proofs_init(cli_proofs *p, const stet_model *m)
{
    *p = (cli_proofs){.model = m};
    for (size_t v = 0; v < STET_VERDICTS; v++) {
        p->kept[v] = json_array();
        p->texts[v] = json_array();
    }
}

void cli_proofs_deinit(cli_proofs *p)
{
    for (size_t v = 0; v < STET_VERDICTS; v++) {
        json_decref(p->kept[v]);
        json_decref(p->texts[v]);
    }
}

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* ---- examples ----------------------------------------------------------------------------- */

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

static json_t *example_of(const cli_proofs *p, size_t index, const stet_certified_text *t,
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
                     "clean", number(c->clean),
                     "margin", number(c->margin), "method", c->method ? c->method : "none",
                     "variants_log10", number(variants(t->choices)), "changes", changes, "harm",
                     harm, "text", text.data, (int)text.len);
}

void cli_proofs_add(void *user, size_t index, const stet_certified_text *t,
                    const stet_certificate *c)
{
    cli_proofs *p = user;
    json_array_append_new(p->texts[c->verdict], json_integer((json_int_t)index));
    if (c->verdict == STET_WRONG)
        return;
    json_t *list = p->kept[c->verdict];
    const double log = variants(t->choices);
    size_t at = json_array_size(list);
    while (at > 0 &&
           log > json_number_value(json_object_get(json_array_get(list, at - 1), "variants_log10")))
        at--;
    if (at >= CLI_PROOFS_EACH)
        return;
    json_array_insert_new(list, at, example_of(p, index, t, c));
    if (json_array_size(list) > CLI_PROOFS_EACH)
        json_array_remove(list, CLI_PROOFS_EACH);
}

/* ---- numbers ------------------------------------------------------------------------------ */

json_t *numbers_of_certify(const stet_certify_how *how, const stet_certify_result *r,
                           const cli_proofs *p)
{
    char *text;
    if (stet_certify_json(how, r, &text) != STET_OK)
        return NULL;
    json_t *o = json_loads(text, 0, NULL), *examples = json_array();
    stet_free(text);
    for (size_t v = 0; p && v < STET_VERDICTS; v++)
        json_array_extend(examples, p->kept[v]);
    json_object_set_new(o, "examples", examples);
    if (p)
        json_object_update_new(o, json_pack("{s:O, s:O}", "proved_texts", p->texts[STET_CERTIFIED],
                                            "broken_texts", p->texts[STET_BROKEN]));
    return o;
}
