/* model/model_identity.c - what a model is, as three digests. Training settings and other notes of
 * config.json are no part of it: they change no answer. */
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "model/ensemble.h"
#include "model/spans.h"
#include "model/word_scores.h"

stet_status settings_json(const stet_opt *opts, const void *cfg, json_t **out)
{
    char *text;
    TRY(stet_opt_json(opts, cfg, &text));
    const stet_status st = json_read_text("settings", text, strlen(text), out);
    stet_free(text);
    return st;
}

stet_status model_settings(const model *m, json_t **out)
{
    TRY(settings_json(m->desc->opts, m->cfg, out));
    for (const stet_opt *o = m->desc->opts; o->type != STET_T_END; o++)
        if (o->type == STET_T_CHOICE && *(const int *)((const char *)m->cfg + o->offset) == 0)
            json_object_del(*out, o->name);
        else if (o->type == STET_T_STR && *json_string_value(json_object_get(*out, o->name)) == 0)
            json_object_del(*out, o->name);
    if (model_span(m) == 0)
        json_object_del(*out, "span");
    if (json_integer_value(json_object_get(*out, "dense")) == 0)
        json_object_del(*out, "dense");
    if (model_score_hidden(m) == 0 && m->desc->n_features(m) > 0)
        json_object_del(*out, "score-hidden");
    return STET_OK;
}

/* `r` NULL: as if there were no rule. */
static stet_status config_text(const model *m, const rule *r, char **out)
{
    json_t *settings, *rule_settings = NULL;
    TRY(model_settings(m, &settings));
    const stet_status st = r ? settings_json(r->desc->opts, r->cfg, &rule_settings) : STET_OK;
    if (st != STET_OK) {
        json_decref(settings);
        return st;
    }
    json_t *classes = json_array();
    bool whole = true;
    for (size_t c = 0; c < m->n_classes; c++)
        whole = json_array_append_new(classes, json_string(m->class_names[c])) == 0 && whole;
    json_t *o = json_pack(
        "{s:s, s:o, s:o, s:I, s:I, s:s, s:I}", "model", m->desc->name, "settings", settings,
        "classes", classes, "dim", (json_int_t)m->dim, "max_len", (json_int_t)m->max_len,
        "tokenizer", stet_tokenizer_name(m->reader.tokenizer), "words", (json_int_t)m->n_words);
    if (m->scores >= 0) /* only then: others have the digest that they always had */
        whole = json_object_set_new(o, "word_scores", json_true()) == 0 && whole;
    if (r)
        whole = json_object_set_new(o, "rule",
                                    json_pack("{s:s, s:o}", "name", r->desc->name, "settings",
                                              rule_settings)) == 0 &&
                whole;
    const stet_status made =
        whole ? json_text(o, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17), out)
              : error_set(STET_ENOMEM, "out of memory for the configuration");
    json_decref(o);
    return made;
}

static stet_status identity_of(const model *m, const rule *r, stet_identity *out)
{
    char *text;
    sha256 h;
    TRY(config_text(m, r, &text));
    sha256_init(&h);
    sha256_add(&h, text, strlen(text));
    sha256_hex(&h, out->config);
    stet_free(text);
    sha256_init(&h);
    for (size_t i = 0; i < m->n_params + m->n_added; i++)
        if (!m->params[i].aside)
            sha256_add(&h, model_value(m, (int)i),
                       shape_count(m->params[i].shape) * sizeof *model_value(m, (int)i));
    sha256_add(&h, m->table, m->n_words * m->dim * sizeof *m->table);
    sha256_hex(&h, out->weights);
    sha256_init(&h);
    if (m->desc->reader_words)
        m->desc->reader_words(m, &h);
    for (uint32_t i = 0; i < stet_vocab_size(m->vocab); i++) {
        const char *word = stet_vocab_word(m->vocab, i);
        sha256_add(&h, word, strlen(word));
        sha256_add(&h, "\n", 1);
    }
    sha256_hex(&h, out->vocabulary);
    return STET_OK;
}

/* Of an ensemble: each digest is that of its members' digests, a line each. */
stet_status stet_model_identity(const stet_model *m, stet_identity *out)
{
    const ensemble *e = ensemble_of(m);
    if (!e)
        return identity_of(m, m->rule, out);
    sha256 h[3];
    for (size_t k = 0; k < 3; k++)
        sha256_init(&h[k]);
    for (size_t i = 0; i < e->n; i++) {
        stet_identity one;
        TRY(identity_of(i ? e->other[i - 1] : m, NULL, &one));
        const char *const part[3] = {one.config, one.weights, one.vocabulary};
        for (size_t k = 0; k < 3; k++) {
            sha256_add(&h[k], part[k], strlen(part[k]));
            sha256_add(&h[k], "\n", 1);
        }
    }
    sha256_hex(&h[0], out->config);
    sha256_hex(&h[1], out->weights);
    sha256_hex(&h[2], out->vocabulary);
    return STET_OK;
}
