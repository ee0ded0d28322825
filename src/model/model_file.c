/* model/model_file.c - the model folder: config.json, model.safetensors, vocab.txt.
 *
 * Each file is written atomically, config.json last. It holds the SHA-256 of the other two, so that files of two models are
 * never taken for one. Until it is there, the files that the old config.json speaks of stay beside the new ones as NAME.tmp-old:
 * whenever the machine stops, the folder holds the old model or the new one. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/strmap.h"
#include "model/ensemble.h"
#include "model/word_layer.h"
#include "model/word_scores.h"
#include "tensor/safetensors.h"

enum { FORMAT = 1, FORMAT_WITH_RULE = 2 }; /* who does not know rules must not load one */
enum { VOCAB_MAX = 1 << 30 };
static const char embedding[] = "embedding.weight";

/* ---- saving ------------------------------------------------------------------------------- */

static stet_status save_weights(const model *m, const char *path)
{
    st_tensor *t = mem_alloc(m->n_params + m->n_added + 1, sizeof *t);
    if (!t)
        return STET_ENOMEM;
    size_t n = 0;
    for (size_t i = 0; i < m->n_params + m->n_added; i++)
        if (!m->params[i].aside)
            t[n++] = (st_tensor){m->params[i].name, ST_REAL, m->params[i].shape,
                                 m->value + m->params[i].first};
    if (m->table_param < 0)
        t[n++] = (st_tensor){embedding, ST_REAL, shape2(m->n_words, m->dim), m->table};
    const char *const metadata[] = {"format", "pt", "model", m->desc->name, NULL};
    const stet_status st = st_write(path, t, n, metadata);
    mem_free(t);
    return st;
}

/* {"name": "vote", "settings": {...}} */
static stet_status add_rule(const rule *r, json_t *config)
{
    json_t *settings;
    TRY(settings_json(r->desc->opts, r->cfg, &settings));
    json_t *o = json_pack("{s:s, s:o}", "name", r->desc->name, "settings", settings);
    return json_object_set_new(config, "rule", o) == 0
               ? STET_OK
               : error_set(STET_ENOMEM, "out of memory for the configuration");
}

static stet_status config_json(const model *m, json_t **out)
{
    json_t *settings;
    TRY(model_settings(m, &settings));
    json_t *classes = json_array();
    bool whole = true;
    for (size_t c = 0; c < m->n_classes; c++)
        whole &= json_array_append_new(classes, json_string(m->class_names[c])) == 0;
    json_t *o =
        json_pack("{s:i, s:s, s:s, s:o, s:o, s:I, s:I, s:s, s:I}", "format",
                  m->rule ? FORMAT_WITH_RULE : FORMAT, "stet", STET_VERSION, "model", m->desc->name,
                  "settings", settings, "classes", classes, "dim", (json_int_t)m->dim, "max_len",
                  (json_int_t)m->max_len, "tokenizer", stet_tokenizer_name(m->reader.tokenizer),
                  "words", (json_int_t)m->n_words);
    stet_status st = o && whole && (!m->extra || json_object_update(o, m->extra) == 0)
                         ? STET_OK
                         : error_set(STET_ENOMEM, "out of memory for the configuration");
    if (st == STET_OK && m->rule)
        st = add_rule(m->rule, o);
    if (st == STET_OK && has_word_scores(m) &&
        json_object_set_new(o, "word_scores", json_true()) != 0)
        st = error_set(STET_ENOMEM, "out of memory for the configuration");
    if (st == STET_OK && m->desc->foreign)
        st = m->desc->foreign->describe(m, o);
    if (st == STET_OK)
        *out = o;
    else
        json_decref(o);
    return st;
}

static stet_status in_dir(const char *dir, const char *name, char **out)
{
    *out = path_join(dir, name);
    return *out ? STET_OK : STET_ENOMEM;
}

/* The two files that config.json vouches for. */
typedef struct member {
    const char *name;
    char *path, *old; /* DIR/NAME, DIR/NAME.tmp-old */
} member;
typedef struct members {
    member weights, vocab;
    char *config;
} members;

static stet_status member_init(member *f, const char *dir, const char *name)
{
    buf old = {0};
    f->name = name;
    TRY(in_dir(dir, name, &f->path));
    buf_printf(&old, "%s.tmp-old", f->path);
    f->old = buf_take(&old);
    return f->old ? STET_OK : STET_ENOMEM;
}

static stet_status members_init(members *f, const char *dir)
{
    *f = (members){0};
    TRY(in_dir(dir, "config.json", &f->config));
    TRY(member_init(&f->weights, dir, "model.safetensors"));
    return member_init(&f->vocab, dir, "vocab.txt");
}

static void members_deinit(members *f)
{
    mem_free(f->weights.path);
    mem_free(f->weights.old);
    mem_free(f->vocab.path);
    mem_free(f->vocab.old);
    mem_free(f->config);
}

/* What config.json says about a file; NULL: nothing, as before version 0.2. */
static const char *sha256_of(const json_t *config, const char *name)
{
    return json_string_value(json_object_get(json_object_get(config, "sha256"), name));
}

/* Of NAME and NAME.tmp-old, the one that belongs to config.json. */
static const char *member_path(const member *f, const json_t *config)
{
    const char *want = sha256_of(config, f->name);
    char now[SHA256_HEX] = "", old[SHA256_HEX] = "";
    if (!file_exists(f->old))
        return f->path;
    if (!want)
        return f->old; /* a save was interrupted before there was a config.json with sums */
    if (file_sha256(f->path, now, NULL) == STET_OK && strcmp(now, want) == 0)
        return f->path;
    return file_sha256(f->old, old, NULL) == STET_OK && strcmp(old, want) == 0 ? f->old : f->path;
}

/* After an interrupted save: first back to the model that config.json speaks of. Then that file gets its second name. */
static stet_status keep_old(const member *f, const json_t *config)
{
    if (config && member_path(f, config) == f->old && rename(f->old, f->path) != 0)
        return error_set(STET_EIO, "%s: %s", f->path, strerror(errno));
    TRY(file_remove(f->old));
    if (config && link(f->path, f->old) != 0 && errno != ENOENT && rename(f->path, f->old) != 0)
        return error_set(STET_EIO, "%s: %s", f->old, strerror(errno));
    return STET_OK;
}

static stet_status save_members(const model *m, const members *f, const char *dir, json_t *config)
{
    json_t *before = NULL;
    if (file_exists(f->config) && json_read_own(f->config, &before) == STET_ENOMEM)
        return STET_ENOMEM;
    stet_status st = keep_old(&f->weights, before);
    if (st == STET_OK)
        st = keep_old(&f->vocab, before);
    json_decref(before);
    TRY(st);
    TRY(save_weights(m, f->weights.path));
    TRY(m->desc->reader_save ? m->desc->reader_save(m, f->vocab.path)
                             : stet_vocab_save(m->vocab, f->vocab.path));
    if (m->desc->foreign)
        TRY(m->desc->foreign->save(m, dir));
    if (m->rule && m->rule->desc->save)
        TRY(m->rule->desc->save(m->rule->state, dir));
    char weights[SHA256_HEX], vocab[SHA256_HEX];
    TRY(file_sha256(f->weights.path, weights, NULL));
    TRY(file_sha256(f->vocab.path, vocab, NULL));
    json_t *sums = json_pack("{s:s, s:s}", f->weights.name, weights, f->vocab.name, vocab);
    if (json_object_set_new(config, "sha256", sums) != 0)
        return error_set(STET_ENOMEM, "out of memory for the configuration");
    TRY(json_write_file(f->config, config));
    TRY(file_remove(f->weights.old));
    return file_remove(f->vocab.old);
}

stet_status stet_model_save(const stet_model *m, const char *dir)
{
    TRY(dir_make(dir));
    members f;
    json_t *o = NULL;
    stet_status st = members_init(&f, dir);
    if (st == STET_OK)
        st = config_json(m, &o);
    if (st == STET_OK)
        st = save_members(m, &f, dir, o);
    json_decref(o);
    members_deinit(&f);
    return st;
}

/* ---- loading ------------------------------------------------------------------------------ */

/* {"filters": 128} -> "filters=128", NULL */
static stet_status settings_list(const json_t *settings, const char *path, arena *a,
                                 const char ***out)
{
    if (!json_is_object(settings))
        return error_set(STET_EFORMAT, "%s: expected an object 'settings'", path);
    const char **list = arena_znew(a, const char *, json_object_size(settings) + 1);
    if (!list)
        return STET_ENOMEM;
    *out = list;
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)settings, key, v)
    {
        buf b = {0};
        if (json_is_string(v))
            buf_printf(&b, "%s=%s", key, json_string_value(v));
        else if (json_is_integer(v))
            buf_printf(&b, "%s=%lld", key, (long long)json_integer_value(v));
        else
            buf_printf(&b, "%s=%.17g", key, json_number_value(v));
        if (buf_status(&b) == STET_OK)
            *list++ = arena_strndup(a, b.data, b.n);
        const stet_status st = buf_status(&b);
        buf_deinit(&b);
        TRY(st);
        if (!list[-1])
            return STET_ENOMEM;
    }
    return STET_OK;
}

static stet_status classes_of(const json_t *o, const char *path, size_t *n)
{
    const json_t *classes = json_object_get(o, "classes");
    *n = json_array_size(classes);
    for (size_t c = 0; c < *n; c++)
        if (!json_is_string(json_array_get(classes, c)))
            return error_set(STET_EFORMAT, "%s: class %zu is not a string", path, c);
    if (*n < 2)
        return error_set(STET_EFORMAT, "%s: expected a list of at least two 'classes'", path);
    return STET_OK;
}

/* Keys of config.json that belong to others (training, defence) travel with the model. */
static stet_status keep_extra(model *m, const json_t *o)
{
    static const char *const ours[] = {"format",  "stet", "model",   "settings",
                                       "classes", "dim",  "max_len", "tokenizer",
                                       "words",   "rule", "sha256",  "word_scores"};
    m->extra = json_copy((json_t *)o); /* leaves out what it has no memory for */
    if (json_object_size(m->extra) != json_object_size(o))
        return error_set(STET_ENOMEM, "out of memory for the configuration");
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        json_object_del(m->extra, ours[i]);
    return STET_OK;
}

static stet_status attach_rule(model *m, const json_t *o, const char *path)
{
    const char *name;
    TRY(json_get_str(o, path, "name", &name));
    const rule_desc *d = rule_find(name);
    arena scratch = {0};
    const char **settings = NULL;
    stet_status st =
        d ? settings_list(json_object_get(o, "settings"), path, &scratch, &settings) : STET_EUSAGE;
    if (st == STET_OK)
        st = rule_attach(m, d, NULL, settings, NULL);
    arena_deinit(&scratch);
    return st == STET_EUSAGE ? error_prefix(STET_EFORMAT, "%s", path) : st;
}

static stet_status from_config(const char *path, const char *dir, const json_t *o, model **out)
{
    int64_t format, dim, max_len, words;
    const char *kind, *tokenizer;
    size_t n_classes;
    TRY(json_get_int(o, path, "format", FORMAT, FORMAT_WITH_RULE, &format));
    TRY(json_get_str(o, path, "model", &kind));
    TRY(json_get_int(o, path, "dim", 1, 1 << 20, &dim));
    TRY(json_get_int(o, path, "max_len", 1, 1 << 24, &max_len));
    TRY(json_get_int(o, path, "words", STET_FIRST_WORD, UINT32_MAX, &words));
    TRY(json_get_str(o, path, "tokenizer", &tokenizer));
    TRY(classes_of(o, path, &n_classes));
    stet_tokenizer tok;
    if (stet_tokenizer_parse(tokenizer, &tok) != STET_OK)
        return error_prefix(STET_EFORMAT, "%s", path);
    const model_desc *desc = model_find(kind);
    if (!desc)
        return error_prefix(STET_EFORMAT, "%s", path);

    arena scratch = {0};
    const char **settings = NULL;
    stet_status st = settings_list(json_object_get(o, "settings"), path, &scratch, &settings);
    if (st == STET_OK) {
        const reader_source from = {.folder = dir};
        st = model_alloc(desc, settings, &from, (size_t)dim, n_classes, out);
        if (st == STET_EUSAGE)
            st = error_prefix(STET_EFORMAT, "%s", path);
    }
    arena_deinit(&scratch);
    TRY(st);
    if (desc->reader && ((*out)->n_words != (size_t)words || (*out)->dim != (size_t)dim))
        return error_set(STET_EFORMAT,
                         "%s: 'words' and 'dim' do not fit a '%s' with these settings", path, kind);
    model_read_by(*out, NULL, tok, (size_t)max_len);
    (*out)->n_words = (size_t)words;

    const char **names = mem_alloc(n_classes, sizeof *names);
    if (!names)
        return STET_ENOMEM;
    for (size_t c = 0; c < n_classes; c++)
        names[c] = json_string_value(json_array_get(json_object_get(o, "classes"), c));
    st = model_class_names(*out, names);
    mem_free(names);
    TRY(st);
    const json_t *scores = json_object_get(o, "word_scores");
    if (scores && !json_is_boolean(scores))
        return error_set(STET_EFORMAT, "%s: expected true or false as 'word_scores'", path);
    if (json_is_true(scores))
        TRY(word_scores_add(*out));
    else if (desc->n_features(*out) == 0 || model_score_hidden(*out))
        return error_set(STET_EFORMAT, "%s: a model %s '%s' has 'word_scores'", path,
                         desc->n_features(*out) ? "with" : "of kind",
                         desc->n_features(*out) ? "score-hidden" : kind);
    if (format == FORMAT_WITH_RULE)
        TRY(attach_rule(*out, json_object_get(o, "rule"), path));
    return keep_extra(*out, o);
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

/* Files that fit each other and yet are not those that were saved together. */
static stet_status check_sum(const char *path, const char *name, const json_t *config, sha256 *h)
{
    const char *want = sha256_of(config, name);
    char got[SHA256_HEX];
    sha256_hex(h, got);
    return !want || strcmp(want, got) == 0
               ? STET_OK
               : error_set(STET_EFORMAT,
                           "%s: SHA-256 %s, but config.json says %s: damaged, or of another model; "
                           "if it was replaced on purpose, remove \"sha256\" from config.json",
                           path, got, want);
}

static stet_status load_weights(model *m, const char *path, const char *name, const json_t *config)
{
    st_file f;
    TRY(st_open(&f, path));
    stet_status st = m->n_values <= f.map.size
                         ? model_zeros(m)
                         : error_set(STET_EFORMAT,
                                     "%s: %zu bytes cannot hold the %zu parameters that "
                                     "config.json announces",
                                     path, f.map.size, m->n_values);
    for (size_t i = 0; st == STET_OK && i < m->n_params + m->n_added; i++) {
        real *v = m->value + m->params[i].first;
        st = st_read(&f, m->params[i].name, m->params[i].shape, v);
        if (st == STET_OK)
            st = check_finite(path, m->params[i].name, v, shape_count(m->params[i].shape));
    }
    const st_tensor *t = st_find(&f, embedding);
    const bool frozen = m->table_param < 0;
    if (st == STET_OK && frozen &&
        (!t || t->type != ST_REAL || !shape_equal(t->shape, shape2(m->n_words, m->dim))))
        st = error_set(STET_EFORMAT, "%s: expected '%s' as F32 (%zu, %zu), as config.json says",
                       path, embedding, m->n_words, m->dim);
    if (st == STET_OK && frozen) {
        st = model_table(m);
        if (st == STET_OK)
            memcpy(m->table, t->data, m->n_words * m->dim * sizeof *m->table);
    }
    for (size_t i = 0; st == STET_OK && frozen && i < m->n_words * m->dim; i++)
        if (!isfinite(m->table[i]))
            st = error_set(STET_EFORMAT,
                           "%s: tensor '%s' holds a number that is not finite (row %zu)", path,
                           embedding, i / m->dim);
    if (st == STET_OK) {
        sha256 h;
        sha256_init(&h);
        sha256_add(&h, f.map.data, f.map.size);
        st = check_sum(path, name, config, &h);
    }
    st_close(&f);
    return st;
}

static stet_status load_vocab(model *m, const char *path, const char *name, const json_t *config)
{
    TRY(file_plain(path, VOCAB_MAX));
    if (m->desc->reader_save) /* the reader has read it */
        TRY(stet_vocab_from_words(NULL, 0, &m->vocab));
    else
        TRY(stet_vocab_load(path, &m->vocab));
    m->reader.vocab = m->vocab;
    if (!m->desc->reader && stet_vocab_size(m->vocab) != m->n_words)
        return error_set(STET_EFORMAT, "%s: %zu words, but config.json says %zu", path,
                         stet_vocab_size(m->vocab), m->n_words);
    file_map map;
    TRY(file_map_open(&map, path));
    sha256 h;
    sha256_init(&h);
    sha256_add(&h, map.data, map.size);
    file_map_close(&map);
    return check_sum(path, name, config, &h);
}

/* A folder without its configuration: training has not come to its first save, or it is another. */
static stet_status no_config(const char *dir)
{
    char *checkpoint = path_join(dir, "checkpoint.safetensors");
    if (!checkpoint)
        return STET_ENOMEM;
    const bool begun = file_exists(checkpoint);
    mem_free(checkpoint);
    return begun ? error_set(STET_EIO,
                             "%s: training has not finished its first epoch; continue it with "
                             "'stet train ... -o %s --resume'",
                             dir, dir)
                 : error_set(STET_EIO, "%s/config.json: No such file or directory", dir);
}

stet_status stet_model_load(const char *dir, stet_model **out)
{
    *out = NULL;
    if (!dir_exists(dir))
        return error_set(STET_EIO, "%s: no such model folder", dir);
    members f;
    json_t *o = NULL;
    model *m = NULL;
    stet_status st = members_init(&f, dir);
    if (st == STET_OK && !file_exists(f.config))
        st = no_config(dir);
    if (st == STET_OK)
        st = json_read_own(f.config, &o);
    if (st == STET_OK && !json_object_get(o, "stet")) {
        const model_desc *desc = model_foreign_kind(o);
        if (desc) {
            st = model_load_foreign(desc, dir, f.config, o, out);
            json_decref(o);
            members_deinit(&f);
            return st;
        }
        const char *type = json_string_value(json_object_get(o, "model_type"));
        if (type)
            st =
                error_set(STET_ENOTSUP,
                          "%s: a model of type '%s' was made by another program and cannot be read",
                          f.config, type);
    }
    if (st == STET_OK)
        st = from_config(f.config, dir, o, &m);
    if (st == STET_OK)
        st = (m->folder = mem_strdup(dir)) ? STET_OK : STET_ENOMEM;
    if (st == STET_OK)
        st = load_weights(m, member_path(&f.weights, o), f.weights.name, o);
    if (st == STET_OK)
        st = load_vocab(m, member_path(&f.vocab, o), f.vocab.name, o);
    if (st == STET_OK && m->rule && m->rule->desc->load)
        st = m->rule->desc->load(m->rule->cfg, m, dir, &m->rule->state);
    json_decref(o);
    members_deinit(&f);
    if (st == STET_OK)
        *out = m;
    else
        stet_model_free(m);
    return st;
}

uint64_t stet_model_fingerprint(const stet_model *m)
{
    uint64_t h = hash_bytes(m->value, m->n_values * sizeof *m->value, 0);
    h = hash_bytes(model_vectors(m), m->n_words * model_vector_dim(m) * sizeof *m->table, h);
    if (m->rule)
        h = hash_bytes(m->rule->cfg, m->rule->desc->cfg_size,
                       hash_bytes(m->rule->desc->name, strlen(m->rule->desc->name), h));
    const ensemble *e = ensemble_of(m);
    for (size_t i = 0; e && i + 1 < e->n; i++) {
        const uint64_t other = stet_model_fingerprint(e->other[i]);
        h = hash_bytes(&other, sizeof other, h);
    }
    return h ^ stet_vocab_fingerprint(m->vocab);
}
