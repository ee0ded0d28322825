/* model/bert_file.c - BERT in folders as Hugging Face's transformers writes them: config.json,
 * model.safetensors, vocab.txt, tokenizer_config.json. Nothing in such a folder is executed, and what is
 * not understood is refused by its name. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/bert.h"
#include "tensor/safetensors.h"

/* ---- configuration ------------------------------------------------------------------------ */

static bool is_bert(const json_t *config)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    return type && strcmp(type, "bert") == 0;
}

/* What changes the function and is not there. */
static stet_status check_config(const json_t *o, const char *path)
{
    static const struct {
        const char *key, *only;
    } words[] = {{"hidden_act", "gelu"}, {"position_embedding_type", "absolute"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *v = json_string_value(json_object_get(o, words[i].key));
        if (v && strcmp(v, words[i].only) != 0)
            return error_set(STET_ENOTSUP, "%s: %s '%s': only '%s' is there", path, words[i].key, v,
                             words[i].only);
    }
    static const char *const flags[] = {"is_decoder", "add_cross_attention"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (json_is_true(json_object_get(o, flags[i])))
            return error_set(STET_ENOTSUP, "%s: %s: only encoders are there", path, flags[i]);
    return STET_OK;
}

/* tokenizer_config.json says whether case is kept; where it does not, it is not. */
static stet_status keeps_case(const char *folder, bool *out)
{
    char *path = path_join(folder, "tokenizer_config.json");
    json_t *o = NULL;
    *out = false;
    if (!path)
        return STET_ENOMEM;
    stet_status st = file_exists(path) ? json_read_own(path, &o) : STET_OK;
    if (st == STET_OK && o) {
        const json_t *accents = json_object_get(o, "strip_accents");
        *out = json_is_false(json_object_get(o, "do_lower_case"));
        if (json_is_boolean(accents) && json_is_true(accents) == *out)
            st = error_set(
                STET_ENOTSUP,
                "%s: strip_accents other than do_lower_case: case and accents go together", path);
    }
    json_decref(o);
    mem_free(path);
    return st;
}

static stet_status add_setting(arena *mem, const char **list, size_t *n, const char *name,
                               const char *value)
{
    char text[128];
    snprintf(text, sizeof text, "%s=%s", name, value);
    list[*n] = arena_strndup(mem, text, strlen(text));
    return list[(*n)++] ? STET_OK : STET_ENOMEM;
}

static stet_status settings(const json_t *o, const char *path, const char *folder, arena *mem,
                            const char ***out)
{
    static const struct {
        const char *key, *setting;
    } sizes[] = {{"num_hidden_layers", "bert-layers"},
                 {"hidden_size", "bert-hidden"},
                 {"num_attention_heads", "bert-heads"},
                 {"intermediate_size", "bert-inner"},
                 {"max_position_embeddings", "bert-positions"},
                 {"type_vocab_size", "bert-types"},
                 {"vocab_size", "bert-pieces"}};
    enum { N = sizeof sizes / sizeof *sizes };
    const char **list = *out = arena_znew(mem, const char *, N + 3);
    char text[64];
    size_t n = 0;
    bool cased;
    if (!list)
        return STET_ENOMEM;
    TRY(check_config(o, path));
    TRY(keeps_case(folder, &cased));
    for (size_t i = 0; i < N; i++) {
        int64_t v;
        TRY(json_get_int(o, path, sizes[i].key, 1, 1 << 24, &v));
        snprintf(text, sizeof text, "%" PRId64, v);
        TRY(add_setting(mem, list, &n, sizes[i].setting, text));
    }
    double eps = 1e-12;
    if (json_object_get(o, "layer_norm_eps"))
        TRY(json_get_real(o, path, "layer_norm_eps", &eps));
    snprintf(text, sizeof text, "%.17g", eps);
    TRY(add_setting(mem, list, &n, "bert-eps", text));
    return add_setting(mem, list, &n, "bert-case", cased ? "keep" : "lower");
}

/* id2label, whose keys are numbers from 0; two classes without names where it is absent. */
static stet_status classes(const json_t *o, const char *path, arena *mem, const char ***names,
                           size_t *n)
{
    const json_t *labels = json_object_get(o, "id2label");
    *n = labels ? json_object_size(labels) : 2;
    if (*n < 2)
        return error_set(STET_EFORMAT, "%s: id2label has fewer than two classes", path);
    *names = arena_znew(mem, const char *, *n);
    if (!*names)
        return STET_ENOMEM;
    for (size_t i = 0; i < *n; i++) {
        char key[24], name[40];
        snprintf(key, sizeof key, "%zu", i);
        snprintf(name, sizeof name, "LABEL_%zu", i);
        const char *v = labels ? json_string_value(json_object_get(labels, key)) : name;
        if (!v)
            return error_set(STET_EFORMAT, "%s: id2label has no name for class %zu", path, i);
        (*names)[i] = arena_strndup(mem, v, strlen(v));
        if (!(*names)[i])
            return STET_ENOMEM;
    }
    return STET_OK;
}

/* ---- weights ------------------------------------------------------------------------------ */

static bool ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* Our name of a tensor: with bert. in front, weight and bias for gamma and beta. */
static void our_name(const char *name, char out[256])
{
    if (strncmp(name, "module.", 7) == 0)
        name += 7;
    const bool whole = strncmp(name, "bert.", 5) == 0 || strncmp(name, "classifier.", 11) == 0;
    snprintf(out, 256, "%s%s", whole ? "" : "bert.", name);
    const size_t n = strlen(out);
    if (ends_with(out, "LayerNorm.gamma"))
        snprintf(out + n - 5, 256 - (n - 5), "weight");
    else if (ends_with(out, "LayerNorm.beta"))
        snprintf(out + n - 4, 256 - (n - 4), "bias");
}

/* Heads of pre-training, and numbers that are no weights. */
static bool is_ignored(const char *name)
{
    if (strncmp(name, "module.", 7) == 0)
        name += 7;
    return strncmp(name, "cls.", 4) == 0 || ends_with(name, "position_ids");
}

static bool is_last_layer(const char *name)
{
    return strncmp(name, "classifier.", 11) == 0;
}

static stet_status check_finite(const char *path, const char *name, const real *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return error_set(STET_EFORMAT,
                             "%s: tensor '%s' holds a number that is not finite (element %zu)",
                             path, name, i);
    return STET_OK;
}

static stet_status take_tensor(model *m, const st_file *f, const st_tensor *t, bool fresh_head,
                               bool *seen)
{
    char name[256];
    our_name(t->name, name);
    const int id = model_param_id(m, name);
    if (id < 0)
        return error_set(STET_EFORMAT,
                         "%s: tensor '%s' does not belong to a BERT of %" PRId64 " layers", f->path,
                         t->name, bert_of(m)->layers);
    if (seen[id])
        return error_set(STET_EFORMAT, "%s: tensor '%s' is there twice, under two names", f->path,
                         name);
    if (fresh_head && is_last_layer(name) &&
        (m->head || !shape_equal(t->shape, m->params[id].shape)))
        return STET_OK; /* one of other classes, or of another layer */
    seen[id] = true;
    TRY(st_read(f, t->name, m->params[id].shape, model_value(m, id)));
    return check_finite(f->path, t->name, model_value(m, id), shape_count(t->shape));
}

/* What the folder lacks: the classifier, where that may be; the pooler; nothing else. */
static stet_status fill_missing(model *m, const char *path, const bool *seen, rng *r)
{
    bool told = m->head != NULL;
    for (size_t i = 0; i < m->n_params; i++) {
        const char *name = m->params[i].name;
        const bool pooler = strncmp(name, "bert.pooler.", 12) == 0;
        if (seen[i] || (r && m->head && i >= m->head_first && i + 2 < m->n_params))
            continue;
        if (!r && is_last_layer(name))
            return error_set(STET_EFORMAT,
                             "%s: has no classifier of %zu classes: train one with 'stet train "
                             "--model bert --init'",
                             path, m->n_classes);
        if (!r || !(pooler || is_last_layer(name)))
            return error_set(STET_EFORMAT, "%s: has no tensor '%s'", path, name);
        bert_init_param(m, (int)i, r);
        if (!told || pooler)
            log_info("%s: has no %s for these classes: a new one", path,
                     pooler ? "pooler" : "classifier");
        told = true;
    }
    return r && m->head ? m->head->desc->init(m->head, r) : STET_OK;
}

/* Formats that cannot be read, and what to do. */
static stet_status no_weights(const char *folder)
{
    static const char *const others[] = {"pytorch_model.bin", "model.safetensors.index.json",
                                         "tf_model.h5", "flax_model.msgpack"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *path = path_join(folder, others[i]);
        if (!path)
            return STET_ENOMEM;
        const bool there = file_exists(path);
        mem_free(path);
        if (there)
            return error_set(STET_ENOTSUP,
                             "%s: has %s; save it again with transformers as one file, "
                             "model.safetensors",
                             folder, others[i]);
    }
    return error_set(STET_EIO, "%s/model.safetensors: No such file or directory", folder);
}

static stet_status load_tensors(model *m, const st_file *f, const char *path, rng *r)
{
    bool *seen = mem_zalloc(m->n_params + m->n_added, sizeof *seen);
    stet_status st = seen ? STET_OK : STET_ENOMEM;
    for (size_t i = 0; st == STET_OK && i < f->n; i++)
        if (!is_ignored(f->tensors[i].name))
            st = take_tensor(m, f, &f->tensors[i], r != NULL, seen);
    if (st == STET_OK)
        st = fill_missing(m, path, seen, r);
    mem_free(seen);
    return st;
}

static stet_status load(model *m, const char *folder, rng *r)
{
    char *path = path_join(folder, "model.safetensors");
    if (!path)
        return STET_ENOMEM;
    st_file f;
    stet_status st = file_exists(path) ? st_open(&f, path) : no_weights(folder);
    if (st == STET_OK) {
        st = load_tensors(m, &f, path, r);
        st_close(&f);
    }
    mem_free(path);
    return st;
}

/* ---- saving ------------------------------------------------------------------------------- */

static stet_status describe(const model *m, json_t *o)
{
    const bert_cfg *c = bert_of(m);
    json_t *id2label = json_object(), *label2id = json_object();
    bool whole = true;
    for (size_t k = 0; k < m->n_classes; k++) {
        char key[24];
        snprintf(key, sizeof key, "%zu", k);
        whole = json_object_set_new(id2label, key, json_string(m->class_names[k])) == 0 && whole;
        whole =
            json_object_set_new(label2id, m->class_names[k], json_integer((json_int_t)k)) == 0 &&
            whole;
    }
    json_t *theirs = json_pack(
        "{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:s, s:s, s:o, s:o}",
        "architectures", m->head ? "BertModel" : "BertForSequenceClassification", "model_type", "bert", "vocab_size",
        (json_int_t)c->pieces, "hidden_size", (json_int_t)c->hidden, "num_hidden_layers",
        (json_int_t)c->layers, "num_attention_heads", (json_int_t)c->heads, "intermediate_size",
        (json_int_t)c->inner, "max_position_embeddings", (json_int_t)c->positions,
        "type_vocab_size", (json_int_t)c->types, "layer_norm_eps", c->eps, "initializer_range",
        0.02, "hidden_dropout_prob", 0.1, "attention_probs_dropout_prob", 0.1, "hidden_act", "gelu",
        "problem_type", "single_label_classification", "id2label", id2label, "label2id", label2id);
    whole = whole && theirs && json_object_update(o, theirs) == 0;
    json_decref(theirs);
    return whole ? STET_OK : error_set(STET_ENOMEM, "out of memory for the configuration");
}

static stet_status save(const model *m, const char *folder)
{
    char *path = path_join(folder, "tokenizer_config.json");
    json_t *o = json_pack("{s:s, s:b, s:I}", "tokenizer_class", "BertTokenizer", "do_lower_case",
                          !bert_of(m)->keeps_case, "model_max_length", (json_int_t)m->max_len);
    const stet_status st = path && o ? json_write_file(path, o)
                                     : error_set(STET_ENOMEM, "out of memory for the tokeniser");
    json_decref(o);
    mem_free(path);
    return st;
}

const model_foreign bert_foreign = {.is = is_bert,
                                    .settings = settings,
                                    .load = load,
                                    .classes = classes,
                                    .describe = describe,
                                    .save = save};
