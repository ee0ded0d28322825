/* verify/ver_model.c - the checker's reader of a model folder: config.json, model.safetensors (F32
 * only) and vocab.txt. The order of the tensors below is part of the model's identity. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "verify/ver_votes.h"

enum { MOST = 1 << 20 }; /* of any size in config.json but the number of words */

typedef struct reader {
    ver_model *m;
    char *path;
    file_map map;
    json_t *header;
    const unsigned char *data;
    size_t size;
    float *block; /* all parameters, in order */
    size_t used, cap;
    stet_status status;
} reader;

/* ---- safetensors: u64 length, JSON header, data ------------------------------------------- */

static stet_status open_tensors(reader *r)
{
    TRY(file_map_open(&r->map, r->path));
    uint64_t n = 0;
    for (int i = 7; i >= 0 && r->map.size >= 8; i--)
        n = n << 8 | r->map.data[i];
    if (r->map.size < 8 || n > r->map.size - 8)
        return error_set(STET_EFORMAT, "%s: the header does not fit the file", r->path);
    TRY(json_read_text(r->path, (const char *)r->map.data + 8, (size_t)n, &r->header));
    r->data = r->map.data + 8 + n;
    r->size = r->map.size - 8 - (size_t)n;
    r->cap = r->size / sizeof(float);
    r->block = arena_new(&r->m->mem, float, r->cap + 1);
    return r->block ? STET_OK : STET_ENOMEM;
}

typedef struct span {
    json_int_t from, to;
} span;

static int by_place(const void *a, const void *b)
{
    const span *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

/* Tensors lie one after the other and fill the file: no byte is read twice, none is hidden. */
static stet_status check_places(reader *r)
{
    span *s = arena_new(&r->m->mem, span, json_object_size(r->header) + 1);
    size_t n = 0;
    const char *name;
    json_t *t;
    if (!s)
        return STET_ENOMEM;
    json_object_foreach(r->header, name, t)
    {
        const json_t *at = json_object_get(t, "data_offsets");
        if (strcmp(name, "__metadata__") != 0)
            s[n++] = (span){json_integer_value(json_array_get(at, 0)),
                            json_integer_value(json_array_get(at, 1))};
    }
    qsort(s, n, sizeof *s, by_place);
    json_int_t end = 0;
    for (size_t i = 0; i < n && end >= 0; i++)
        end = s[i].from == end && s[i].to >= end ? s[i].to : -1;
    if (end < 0 || (uint64_t)end != r->size)
        return error_set(STET_EFORMAT, "%s: tensors overlap, or bytes belong to none of them",
                         r->path);
    return STET_OK;
}

static bool has_shape(const json_t *t, const size_t *dim, size_t rank)
{
    const json_t *s = json_object_get(t, "shape");
    bool same = json_array_size(s) == rank;
    for (size_t i = 0; same && i < rank; i++)
        same = json_is_integer(json_array_get(s, i)) &&
               json_integer_value(json_array_get(s, i)) == (json_int_t)dim[i];
    return same;
}

/* Append the tensor `name` of shape `dim` (up to three, 0 at the end) to the block; NULL after a
 * failure. */
static const float *tensor(reader *r, const size_t dim[3], const char *fmt, ...)
{
    if (r->status != STET_OK)
        return NULL;
    char name[64];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    size_t rank = 0, count = 1;
    bool fits = true;
    for (; rank < 3 && dim[rank]; rank++)
        fits = fits && size_mul(count, dim[rank], &count);
    const json_t *t = json_object_get(r->header, name), *at = json_object_get(t, "data_offsets");
    const json_int_t first = json_integer_value(json_array_get(at, 0)),
                     end = json_integer_value(json_array_get(at, 1));
    const char *type = json_string_value(json_object_get(t, "dtype"));
    if (!type || strcmp(type, "F32") != 0 || !has_shape(t, dim, rank)) {
        r->status =
            error_set(STET_EFORMAT, "%s: expected tensor '%s' as F32 of shape (%zu, %zu, %zu)",
                      r->path, name, dim[0], rank > 1 ? dim[1] : 1, rank > 2 ? dim[2] : 1);
        return NULL;
    }
    if (!fits || first < 0 || end < first || (uint64_t)end > r->size || count > r->cap - r->used ||
        (uint64_t)(end - first) != count * sizeof(float)) {
        r->status = error_set(STET_EFORMAT, "%s: tensor '%s': bad data_offsets", r->path, name);
        return NULL;
    }
    float *v = r->block + r->used;
    memcpy(v, r->data + first, count * sizeof *v);
    r->used += count;
    for (size_t i = 0; i < count; i++)
        if (!isfinite(v[i])) {
            r->status = error_set(STET_EFORMAT, "%s: tensor '%s': element %zu is not finite",
                                  r->path, name, i);
            return NULL;
        }
    return v;
}
#define TENSOR(r, d0, d1, d2, ...) tensor(r, (const size_t[3]){d0, d1, d2}, __VA_ARGS__)

/* ---- the kinds ---------------------------------------------------------------------------- */

static size_t setting(reader *r, const json_t *settings, const char *key)
{
    int64_t v = 1;
    if (r->status == STET_OK)
        r->status = json_get_int(settings, "settings in config.json", key, 1, MOST, &v);
    return (size_t)v;
}

/* A choice from names[0 .. n), the first where the key is missing. */
static size_t choice(reader *r, const json_t *settings, const char *key, const char *const *names,
                     size_t n)
{
    const json_t *v = json_object_get(settings, key);
    const char *name = v ? json_string_value(v) : names[0];
    size_t i = 0;
    while (i < n && (!name || strcmp(names[i], name) != 0))
        i++;
    if (i == n && r->status == STET_OK)
        r->status = error_set(STET_EFORMAT, "config.json: cannot check a model whose '%s' is '%s'",
                              key, name ? name : "no string");
    return i < n ? i : 0;
}

/* Words that a recurrence reads together: all where the key is missing. */
static size_t span_of(reader *r, const json_t *settings)
{
    const size_t all = r->m->max_len,
                 n = json_object_get(settings, "span") ? setting(r, settings, "span") : all;
    return n < all ? n : all;
}

static void read_cnn(reader *r, const json_t *settings)
{
    ver_model *m = r->m;
    const char *list = "";
    m->filters = setting(r, settings, "filters");
    if (r->status == STET_OK)
        r->status = json_get_str(settings, "settings in config.json", "kernels", &list);
    for (const char *s = list; r->status == STET_OK && *s; s += *s == ',') {
        char *end;
        const unsigned long k = strtoul(s, &end, 10);
        if (end == s || k < 1 || k > 64 || m->kernels == VER_CNN_KERNELS || (*end && *end != ','))
            r->status = error_set(STET_EFORMAT, "config.json: bad list of kernels '%s'", list);
        else
            m->k[m->kernels++] = k;
        s = end;
    }
    for (size_t i = 0; i < m->kernels; i++) {
        m->conv_w[i] = TENSOR(r, m->filters, m->dim, m->k[i], "convs.%zu.weight", i);
        m->conv_b[i] = TENSOR(r, m->filters, 0, 0, "convs.%zu.bias", i);
    }
    m->features = m->kernels * m->filters;
    if (r->status == STET_OK && m->features == 0)
        r->status = error_set(STET_EFORMAT, "config.json: no kernels");
    if (!json_object_get(settings, "dense"))
        return;
    const size_t units = setting(r, settings, "dense");
    m->kind = &ver_cnn_dense;
    m->dense_w = TENSOR(r, units, m->features, 0, "dense.weight");
    m->dense_b = TENSOR(r, units, 0, 0, "dense.bias");
    m->features = units;
}

/* A CNN whose filters were made by state spaces: those are in the file, and say nothing here. */
static void read_s4cnn(reader *r, const json_t *settings)
{
    read_cnn(r, settings);
    const ver_model *m = r->m;
    const size_t h = m->filters * setting(r, settings, "rank"),
                 n = setting(r, settings, "state") / 2;
    if (r->status == STET_OK && n == 0)
        r->status = error_set(STET_EFORMAT, "config.json: bad size of state");
    for (size_t i = 0; r->status == STET_OK && i < m->kernels; i++) {
        TENSOR(r, h, n, 0, "s4.%zu.log_a_real", i);
        TENSOR(r, h, n, 0, "s4.%zu.a_imag", i);
        TENSOR(r, h, n, 2, "s4.%zu.p", i);
        TENSOR(r, h, n, 2, "s4.%zu.b", i);
        TENSOR(r, h, n, 2, "s4.%zu.c", i);
        TENSOR(r, h, 0, 0, "s4.%zu.log_dt", i);
        TENSOR(r, h, 0, 0, "s4.%zu.d", i);
        TENSOR(r, h, m->dim, 0, "s4.%zu.encoder.weight", i);
    }
}

static void read_bilstm(reader *r, const json_t *settings)
{
    ver_model *m = r->m;
    const size_t h = m->hidden = setting(r, settings, "hidden");
    for (int d = 0; d < 2; d++) {
        const char *end = d ? "_reverse" : "";
        m->lstm[d].w_ih = TENSOR(r, 4 * h, m->dim, 0, "lstm.weight_ih_l0%s", end);
        m->lstm[d].w_hh = TENSOR(r, 4 * h, h, 0, "lstm.weight_hh_l0%s", end);
        m->lstm[d].b_ih = TENSOR(r, 4 * h, 0, 0, "lstm.bias_ih_l0%s", end);
        m->lstm[d].b_hh = TENSOR(r, 4 * h, 0, 0, "lstm.bias_hh_l0%s", end);
    }
    static const char *const pools[] = {"last", "max", "mean"};
    m->pool = choice(r, settings, "pool", pools, 3);
    m->span = span_of(r, settings);
    if (m->span < m->max_len && m->pool == VER_LAST && r->status == STET_OK)
        r->status = error_set(STET_EFORMAT, "config.json: a model with 'span' has a 'pool'");
    m->features = 2 * h;
}

static void read_s4(reader *r, const json_t *settings)
{
    ver_model *m = r->m;
    const size_t h = m->channels = setting(r, settings, "channels");
    const size_t n = m->states = setting(r, settings, "state") / 2;
    m->layers = setting(r, settings, "layers");
    if (r->status == STET_OK && (n == 0 || m->layers > VER_S4_LAYERS))
        r->status = error_set(STET_EFORMAT, "config.json: bad size of state or number of layers");
    static const char *const blocks[] = {"glu", "relu", "bare"}, *const pools[] = {"mean", "max"};
    const size_t block = choice(r, settings, "s4-block", blocks, 3);
    m->relu = block >= 1;
    m->bare = block == 2;
    m->pool = choice(r, settings, "s4-pool", pools, 2) == 1 ? VER_LARGEST : VER_MEAN;
    m->span = span_of(r, settings);
    const size_t mixed = m->relu ? h : 2 * h;
    m->enc_w = TENSOR(r, h, m->dim, 0, "encoder.weight");
    m->enc_b = TENSOR(r, h, 0, 0, "encoder.bias");
    for (size_t l = 0; r->status == STET_OK && l < m->layers; l++) {
        ver_s4 *s = &m->s4[l];
        s->log_a = TENSOR(r, h, n, 0, "layers.%zu.s4.log_a_real", l);
        s->w = TENSOR(r, h, n, 0, "layers.%zu.s4.a_imag", l);
        s->p = TENSOR(r, h, n, 2, "layers.%zu.s4.p", l);
        s->b = TENSOR(r, h, n, 2, "layers.%zu.s4.b", l);
        s->c = TENSOR(r, h, n, 2, "layers.%zu.s4.c", l);
        s->log_dt = TENSOR(r, h, 0, 0, "layers.%zu.s4.log_dt", l);
        s->d = TENSOR(r, h, 0, 0, "layers.%zu.s4.d", l);
        if (m->bare)
            continue;
        s->mix_w = TENSOR(r, mixed, h, 0, "layers.%zu.mix.weight", l);
        s->mix_b = TENSOR(r, mixed, 0, 0, "layers.%zu.mix.bias", l);
        if (m->relu)
            continue;
        s->norm_w = TENSOR(r, h, 0, 0, "layers.%zu.norm.weight", l);
        s->norm_b = TENSOR(r, h, 0, 0, "layers.%zu.norm.bias", l);
    }
    m->features = h;
}

/* The small network of word scores. */
static void read_word_network(reader *r, const json_t *settings)
{
    ver_model *m = r->m;
    int64_t units = 0;
    if (r->status == STET_OK && json_object_get(settings, "score-hidden"))
        r->status =
            json_get_int(settings, "settings in config.json", "score-hidden", 0, MOST, &units);
    const size_t h = m->word_units = (size_t)units;
    if (h == 0)
        return;
    m->word_w1 = TENSOR(r, h, m->dim, 0, "word.0.weight");
    m->word_b1 = TENSOR(r, h, 0, 0, "word.0.bias");
    m->word_w2 = TENSOR(r, m->classes, h, 0, "word.1.weight");
}

/* `settings` are all that a kind has, NULL at the end: what is not known here may change answers. */
static const struct {
    const ver_kind *kind;
    void (*read)(reader *r, const json_t *settings);
    const char *settings[9];
} kinds[] = {
    {&ver_sum_kind, read_word_network, {"score-hidden"}},
    {&ver_cnn, read_cnn, {"filters", "kernels", "dense", "score-hidden"}},
    {&ver_bilstm, read_bilstm, {"hidden", "pool", "span", "score-hidden"}},
    {&ver_s4_kind,
     read_s4,
     {"channels", "state", "layers", "s4-block", "s4-pool", "s4-memory", "span", "score-hidden"}},
    {&ver_s4cnn, read_s4cnn, {"filters", "kernels", "rank", "state", "s4-memory", "score-hidden"}}};

static void know_settings(reader *r, const json_t *settings, const char *const *known)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)settings, key, v)
    {
        const char *const *k = known;
        while (*k && strcmp(*k, key) != 0)
            k++;
        if (!*k && r->status == STET_OK)
            r->status = error_set(STET_EFORMAT,
                                  "config.json: cannot check a model with a setting '%s'", key);
    }
}

static stet_status read_weights(reader *r, const json_t *config, const char *name)
{
    ver_model *m = r->m;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].kind->name, name) == 0) {
            m->kind = kinds[i].kind;
            know_settings(r, json_object_get(config, "settings"), kinds[i].settings);
            kinds[i].read(r, json_object_get(config, "settings"));
        }
    if (!m->kind)
        return error_set(STET_EFORMAT, "config.json: cannot check a model of kind '%s'", name);
    TRY(r->status);
    if (m->features)
        m->fc_w = TENSOR(r, m->classes, m->features, 0, "fc.weight");
    m->fc_b = TENSOR(r, m->classes, 0, 0, "fc.bias");
    if (json_is_true(json_object_get(config, "word_scores"))) {
        m->scores = TENSOR(r, m->n_words, m->classes, 0, "scores.weight");
        if (m->features) /* behind the scores; where there is nothing else, before them */
            read_word_network(r, json_object_get(config, "settings"));
    } else if (!m->features) {
        return error_set(STET_EFORMAT, "config.json: a model of kind '%s' has 'word_scores'", name);
    } else if (json_object_get(json_object_get(config, "settings"), "score-hidden")) {
        return error_set(STET_EFORMAT,
                         "config.json: a model with 'score-hidden' has 'word_scores'");
    }
    m->table = TENSOR(r, m->n_words, m->dim, 0, "embedding.weight");
    if (r->status == STET_OK) {
        sha256 h;
        sha256_init(&h);
        sha256_add(&h, r->block, r->used * sizeof *r->block);
        sha256_hex(&h, m->sha_weights);
    }
    return r->status;
}

/* ---- the folder --------------------------------------------------------------------------- */

static stet_status read_vocab(ver_model *m, const char *path)
{
    stream *s;
    TRY(file_plain(path, 1 << 30));
    TRY(stream_open(path, &s));
    char *line;
    size_t len;
    stet_status st = STET_OK;
    while (st == STET_OK && stream_line(s, &line, &len, &st)) {
        const size_t before = m->vocab.n;
        st = strmap_add(&m->vocab, line, len, NULL);
        if (st == STET_OK && m->vocab.n == before)
            st = error_set(STET_EFORMAT, "%s:%zu: a word that is there already", path,
                           stream_line_number(s));
    }
    stream_close(s);
    if (st == STET_OK &&
        (m->vocab.n != m->n_words || strmap_find(&m->vocab, "<unk>", 5) != VER_UNK))
        st = error_set(STET_EFORMAT, "%s: expected %zu words, the second one <unk>", path,
                       m->n_words);
    sha256 h;
    sha256_init(&h);
    for (uint32_t i = 0; st == STET_OK && i < m->vocab.n; i++) {
        sha256_add(&h, strmap_text(&m->vocab, i), strmap_len(&m->vocab, i));
        sha256_add(&h, "\n", 1);
    }
    sha256_hex(&h, m->sha_vocabulary);
    return st;
}

/* The part of config.json that answers depend on: these keys, sorted, without spaces. */
static stet_status hash_config(const json_t *o, const char *path, ver_model *m)
{
    static const char *const keys[] = {"model",   "settings",  "classes", "dim",
                                       "max_len", "tokenizer", "words"};
    json_t *part = json_object();
    bool whole = true;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        whole = json_object_set(part, keys[i], json_object_get(o, keys[i])) == 0 && whole;
    if (json_is_true(json_object_get(o, "word_scores"))) /* others have the digest without */
        whole = json_object_set_new(part, "word_scores", json_true()) == 0 && whole;
    const json_t *rule = json_object_get(o, "rule");
    if (rule && ver_votes_known(rule)) /* an ensemble's digest is made of its members' */
        whole = json_object_set(part, "rule", (json_t *)(uintptr_t)rule) == 0 && whole;
    char *text;
    const stet_status st =
        whole ? json_text(part, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17), &text)
              : error_set(STET_EFORMAT,
                          "%s: expected model, settings, "
                          "classes, dim, max_len, tokenizer and words",
                          path);
    json_decref(part);
    if (st != STET_OK)
        return st;
    sha256 h;
    sha256_init(&h);
    sha256_add(&h, text, strlen(text));
    sha256_hex(&h, m->sha_config);
    mem_free(text);
    return STET_OK;
}

/* The list as text: enough to compare two. */
static stet_status keep_class_names(const json_t *list, ver_model *m)
{
    char *text;
    TRY(json_text(list, JSON_COMPACT, &text));
    m->class_names = arena_strndup(&m->mem, text, strlen(text));
    mem_free(text);
    return m->class_names ? STET_OK : STET_ENOMEM;
}

static bool is_ensemble(const json_t *rule)
{
    const char *name = json_string_value(json_object_get(rule, "name"));
    return name && strcmp(name, "ensemble") == 0;
}

static stet_status read_config(const json_t *o, const char *path, ver_model *m, const char **kind)
{
    int64_t dim, max_len, words;
    const json_t *rule = json_object_get(o, "rule");
    if (rule && !is_ensemble(rule) && !ver_votes_known(rule))
        return error_set(STET_ENOTSUP,
                         "%s: the model answers by a prediction rule, which cannot be checked",
                         path);
    const char *tokenizer;
    TRY(json_get_str(o, path, "model", kind));
    TRY(json_get_str(o, path, "tokenizer", &tokenizer));
    TRY(ver_reader_find(tokenizer, &m->reads));
    TRY(json_get_int(o, path, "dim", 1, MOST, &dim));
    TRY(json_get_int(o, path, "max_len", 1, 1 << 24, &max_len));
    TRY(json_get_int(o, path, "words", 2, UINT32_MAX, &words));
    const json_t *scores = json_object_get(o, "word_scores");
    if (scores && !json_is_boolean(scores))
        return error_set(STET_EFORMAT, "%s: expected true or false as 'word_scores'", path);
    m->dim = (size_t)dim;
    m->max_len = (size_t)max_len;
    m->n_words = (size_t)words;
    m->classes = json_array_size(json_object_get(o, "classes"));
    if (m->classes < 2)
        return error_set(STET_EFORMAT, "%s: expected a list of at least two 'classes'", path);
    TRY(keep_class_names(json_object_get(o, "classes"), m));
    return hash_config(o, path, m);
}

stet_status ver_model_load(const char *dir, ver_model *out)
{
    *out = (ver_model){0};
    reader r = {.m = out};
    char *config = path_join(dir, "config.json"), *vocab = path_join(dir, "vocab.txt");
    r.path = path_join(dir, "model.safetensors");
    json_t *o = NULL;
    const char *kind = NULL;
    stet_status st = config && vocab && r.path ? json_read_own(config, &o) : STET_ENOMEM;
    if (st == STET_OK)
        st = read_config(o, config, out, &kind);
    if (st == STET_OK)
        st = open_tensors(&r);
    if (st == STET_OK)
        st = check_places(&r);
    if (st == STET_OK)
        st = read_weights(&r, o, kind);
    if (st == STET_OK)
        st = read_vocab(out, vocab);
    const json_t *rule = json_object_get(o, "rule");
    if (st == STET_OK && rule)
        st = is_ensemble(rule) ? ver_ensemble_load(rule, dir, out) : ver_votes_load(rule, dir, out);
    json_decref(o);
    json_decref(r.header);
    file_map_close(&r.map);
    mem_free(config);
    mem_free(vocab);
    mem_free(r.path);
    if (st != STET_OK)
        ver_model_deinit(out);
    return st;
}

void ver_model_deinit(ver_model *m)
{
    for (size_t i = 1; i < m->n_members; i++)
        ver_model_deinit(&m->member[i]);
    mem_free(m->member);
    ver_votes_free(m->votes);
    arena_deinit(&m->mem);
    strmap_deinit(&m->vocab);
    *m = (ver_model){0};
}
