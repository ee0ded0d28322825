/* model/bert.c - BERT: an encoder of texts as pieces of words, on packed batches without padding.
 *
 *     x = norm(word + position + type)
 *     each layer:  y = norm(x + out(attention(x)));  x = norm(y + down(gelu(up(y))))
 *     features = tanh(pooler(x of [CLS]))
 *
 * Only the last layer's [CLS] is read, so there everything but keys and values is computed for one row a
 * text. */
#include "model/bert.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/kind_list.h"

static const stet_opt opts[] = {
    STET_OPT_INT("bert-layers", bert_cfg, layers, "2", 1, 256, "N", "bert: layers"),
    STET_OPT_INT("bert-hidden", bert_cfg, hidden, "128", 1, 65536, "N", "bert: width"),
    STET_OPT_INT("bert-heads", bert_cfg, heads, "2", 1, 4096, "N", "bert: heads of attention"),
    STET_OPT_INT("bert-inner", bert_cfg, inner, "512", 1, 1 << 20, "N",
                 "bert: width inside a layer"),
    STET_OPT_INT("bert-positions", bert_cfg, positions, "512", 3, 1 << 20, "N",
                 "bert: longest text, in pieces"),
    STET_OPT_INT("bert-types", bert_cfg, types, "2", 1, 1024, "N", "bert: kinds of segments"),
    STET_OPT_INT("bert-pieces", bert_cfg, pieces, "8000", 6, 1 << 24, "N",
                 "bert: size of the vocabulary of word pieces, where the texts make it"),
    STET_OPT_REAL("bert-eps", bert_cfg, eps, "1e-12", 0, 1, "X",
                  "bert: epsilon of the layer norms"),
    STET_OPT_CHOICE("bert-case", bert_cfg, keeps_case, "lower", "lower|keep",
                    "bert: drop case and accents, or keep them"),
    STET_OPT_STR("bert-head", bert_cfg, head, "", "KIND[:NAME=VALUE...]",
                 "bert: freeze it, and train a model of this kind (cnn, bilstm, s4, s4cnn) on its "
                 "rows"),
    STET_OPT_END,
};

static bool has_head(const model *m)
{
    return bert_of(m)->head && *bert_of(m)->head;
}

/* ---- reading ------------------------------------------------------------------------------ */

static stet_status cut(const word_reader *r, const char *text, size_t len, stet_tokens *out)
{
    return wordpiece_cut(((const wordpiece *)r->user)->lower, text, len, out);
}

/* A word that is masked is [MASK]: what the model was trained to see in such a place. */
static size_t pieces(const word_reader *r, const char *word, size_t len, uint32_t *out)
{
    const wordpiece *w = r->user;
    if (len != 5 || memcmp(word, "<unk>", 5) != 0)
        return wordpiece_pieces(w, word, len, out);
    out[0] = w->mask;
    return 1;
}

static bool begins(const word_reader *r, uint32_t row)
{
    const wordpiece *w = r->user;
    return strncmp(strmap_text(&w->piece, row), "##", 2) != 0;
}

/* [UNK] and [MASK] stand for many words. */
static size_t spell(const word_reader *r, const uint32_t *rows, size_t n, char *out, size_t size)
{
    const wordpiece *w = r->user;
    size_t made = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t skip = begins(r, rows[i]) ? 0 : 2, len = strmap_len(&w->piece, rows[i]) - skip;
        if (rows[i] == w->unknown || rows[i] == w->mask || made + len >= size)
            return 0;
        memcpy(out + made, strmap_text(&w->piece, rows[i]) + skip, len);
        made += len;
    }
    out[made] = '\0';
    return made;
}

static stet_status count_texts(const stet_dataset *d, bool lower, stet_counter *c)
{
    stet_tokens t = {0};
    stet_status st = STET_OK;
    for (size_t i = 0; st == STET_OK && i < stet_dataset_size(d); i++) {
        const stet_str s = stet_dataset_text(d, i);
        st = wordpiece_cut(lower, s.data, s.len, &t);
        for (size_t k = 0; st == STET_OK && k < t.n; k++)
            st = stet_counter_add_word(c, stet_token_word(&t, k), 1);
    }
    stet_tokens_deinit(&t);
    return st;
}

static stet_status from_texts(const stet_dataset *d, bert_cfg *cfg, wordpiece *w)
{
    stet_counter *c;
    TRY(stet_counter_new(&c));
    stet_status st = count_texts(d, !cfg->keeps_case, c);
    if (st == STET_OK)
        st = wordpiece_from_counts(c, (size_t)cfg->pieces, !cfg->keeps_case, w);
    stet_counter_free(c);
    TRY(st);
    cfg->pieces = (int64_t)w->piece.n;
    log_info(
        "bert: no --init, so it starts from random numbers, with %zu pieces of the texts' words "
        "and %lld layers of width %lld; a pre-trained one is far better",
        w->piece.n, (long long)cfg->layers, (long long)cfg->hidden);
    return STET_OK;
}

static stet_status from_folder(const char *folder, const bert_cfg *cfg, wordpiece *w)
{
    char *path = path_join(folder, "vocab.txt");
    stet_status st = path ? wordpiece_load(path, !cfg->keeps_case, w) : STET_ENOMEM;
    if (st == STET_OK && w->piece.n != (size_t)cfg->pieces)
        st = error_set(STET_EFORMAT, "%s: %zu pieces, but config.json says %lld", path, w->piece.n,
                       (long long)cfg->pieces);
    mem_free(path);
    return st;
}

static stet_status reader(model *m, const reader_source *from)
{
    bert_cfg *cfg = m->cfg;
    if (cfg->hidden % cfg->heads)
        return error_set(STET_EUSAGE, "bert: a width of %lld is not %lld heads of one size",
                         (long long)cfg->hidden, (long long)cfg->heads);
    wordpiece *w = m->own = mem_zalloc(1, sizeof *w);
    if (!w)
        return STET_ENOMEM;
    if (from && from->folder)
        TRY(from_folder(from->folder, cfg, w));
    else if (from && from->texts)
        TRY(from_texts(from->texts, cfg, w));
    else
        return error_set(STET_EUSAGE, "a model of kind 'bert' needs --init FOLDER, or texts to "
                                      "make a vocabulary of");
    m->dim = (size_t)cfg->hidden;
    m->n_words = w->piece.n;
    m->reader.cut = cut;
    m->reader.rows = pieces;
    m->reader.begins = begins;
    m->reader.spell = spell;
    m->reader.user = w;
    m->reader.most_rows = WORDPIECE_MOST;
    m->reader.framed = true;
    m->reader.before = w->begin;
    m->reader.after = w->end;
    m->reader.max_rows = (size_t)cfg->positions - 2;
    return STET_OK;
}

static void reader_free(void *own)
{
    if (own)
        wordpiece_deinit(own);
    mem_free(own);
}

static stet_status reader_save(const model *m, const char *path)
{
    return wordpiece_save(m->own, path);
}

static void hash_words(const model *m, sha256 *h)
{
    const wordpiece *w = m->own;
    for (uint32_t i = 0; i < w->piece.n; i++) {
        sha256_add(h, strmap_text(&w->piece, i), strmap_len(&w->piece, i));
        sha256_add(h, "\n", 1);
    }
}

/* ---- parameters --------------------------------------------------------------------------- */

static const char *const part_names[BERT_MATRICES] = {
    "attention.self.query",   "attention.self.key", "attention.self.value",
    "attention.output.dense", "intermediate.dense", "output.dense"};

static stet_status add(model *m, const char *what, const char *end, shape s, param_kind kind)
{
    char name[128];
    snprintf(name, sizeof name, "bert.%s.%s", what, end);
    return model_param(m, name, s, kind);
}

static stet_status add_part(model *m, size_t layer, const char *part, const char *end, shape s,
                            param_kind kind)
{
    char what[96];
    snprintf(what, sizeof what, "encoder.layer.%zu.%s", layer, part);
    return add(m, what, end, s, kind);
}

static stet_status add_norm(model *m, const char *what)
{
    const shape s = shape1((size_t)bert_of(m)->hidden);
    TRY(add(m, what, "weight", s, PARAM_BARE));
    return add(m, what, "bias", s, PARAM_BARE);
}

static stet_status layout(model *m)
{
    const bert_cfg *c = m->cfg;
    const size_t H = (size_t)c->hidden, F = (size_t)c->inner, L = (size_t)c->layers;
    const size_t out[BERT_MATRICES] = {H, H, H, H, F, H}, in[BERT_MATRICES] = {H, H, H, H, H, F};
    TRY(add(m, "embeddings.word_embeddings", "weight", shape2(m->n_words, H), PARAM_PLAIN));
    TRY(add(m, "embeddings.position_embeddings", "weight", shape2((size_t)c->positions, H),
            PARAM_PLAIN));
    TRY(add(m, "embeddings.token_type_embeddings", "weight", shape2((size_t)c->types, H),
            PARAM_PLAIN));
    for (size_t l = 0; l < L; l++)
        for (int i = 0; i < BERT_MATRICES; i++)
            TRY(add_part(m, l, part_names[i], "weight", shape2(out[i], in[i]), PARAM_PLAIN));
    TRY(add(m, "pooler.dense", "weight", shape2(H, H), PARAM_PLAIN));
    TRY(add_norm(m, "embeddings.LayerNorm"));
    for (size_t l = 0; l < L; l++) {
        char norm[96];
        for (int i = 0; i < BERT_MATRICES; i++)
            TRY(add_part(m, l, part_names[i], "bias", shape1(out[i]), PARAM_BARE));
        snprintf(norm, sizeof norm, "encoder.layer.%zu.attention.output.LayerNorm", l);
        TRY(add_norm(m, norm));
        snprintf(norm, sizeof norm, "encoder.layer.%zu.output.LayerNorm", l);
        TRY(add_norm(m, norm));
    }
    TRY(add(m, "pooler.dense", "bias", shape1(H), PARAM_BARE));
    return has_head(m) ? bert_head_layout(m) : STET_OK;
}

void bert_init_param(const model *m, int id, rng *r)
{
    const char *name = m->params[id].name;
    const size_t n = strlen(name);
    const bool bias = n > 5 && strcmp(name + n - 5, ".bias") == 0;
    if (bias || strstr(name, "LayerNorm")) {
        init_constant(m, id, bias ? 0 : 1);
        return;
    }
    real *v = model_value(m, id);
    for (size_t i = 0; i < shape_count(m->params[id].shape); i++)
        v[i] = (real)(0.02 * rng_normal(r));
}

static stet_status init(const model *m, rng *r)
{
    for (size_t i = 0; i < m->n_params; i++)
        bert_init_param(m, (int)i, r);
    return m->head ? m->head->desc->init(m->head, r) : STET_OK;
}

/* ---- forward ------------------------------------------------------------------------------ */

static node *drop(const pass *p, node *x)
{
    return p->dropout > 0 ? op_dropout(p->t, x, p->dropout, p->stream) : x;
}

static node *norm(const model *m, const pass *p, node *x, int id)
{
    return op_layer_norm(p->t, x, p->param[id], p->param[id + 1], bert_of(m)->eps);
}

/* Neighbouring parameters, or rows of one, as one. */
static node *joined(const pass *p, int first, shape s)
{
    const node *x = p->param[first];
    return tape_input(p->t, s, x->value, x->grad);
}

static node *linear(const model *m, const pass *p, node *x, size_t layer, int which)
{
    return op_linear(p->t, x, p->param[bert_matrix(layer, which)],
                     p->param[bert_bare(m, layer, which)]);
}

static node *embed(const model *m, const pass *p)
{
    const seq_index *seq = p->seq;
    uint32_t *at = arena_new(p->t->mem, uint32_t, seq->n_tokens);
    if (!at) {
        tape_fail(p->t, STET_ENOMEM);
        return NULL;
    }
    for (size_t b = 0; b < seq->n_texts; b++)
        for (uint32_t i = seq->start[b]; i < seq->start[b + 1]; i++)
            at[i] = i - seq->start[b];
    node *x = op_add(p->t, op_gather(p->t, p->rows, seq->row, seq->n_tokens),
                     op_gather(p->t, p->param[BERT_POSITIONS], at, seq->n_tokens));
    x = op_add_bias(p->t, x, joined(p, BERT_TYPES, shape1(m->dim))); /* of one kind of segment */
    return drop(p, norm(m, p, x, bert_norm(m)));
}

static node *layer(const model *m, const pass *p, node *x, node *to, const seq_index *asks,
                   size_t l)
{
    const size_t H = m->dim;
    node *kv = op_linear(p->t, x, joined(p, bert_matrix(l, BERT_K), shape2(2 * H, H)),
                         joined(p, bert_bare(m, l, BERT_K), shape1(2 * H)));
    node *o = op_attention(p->t, linear(m, p, to, l, BERT_Q), kv, (size_t)bert_of(m)->heads, p->seq,
                           asks, p->dropout, p->stream);
    o = drop(p, linear(m, p, o, l, BERT_OUT));
    node *y = norm(m, p, op_add(p->t, to, o), bert_bare(m, l, BERT_NORM1));
    node *u = op_gelu(p->t, linear(m, p, y, l, BERT_UP));
    u = drop(p, linear(m, p, u, l, BERT_DOWN));
    return norm(m, p, op_add(p->t, y, u), bert_bare(m, l, BERT_NORM2));
}

/* After the first n layers. */
static node *layers(const model *m, pass *p, size_t n)
{
    node *x = embed(m, p), *room = p->t->record ? NULL : tape_zeros(p->t, x ? x->shape : shape1(1));
    for (size_t l = 0; l < n && x; l++) {
        const tape_mark mark = tape_save(p->t);
        x = tape_carry(p->t, mark, layer(m, p, x, x, NULL, l), room);
    }
    return x;
}

node *bert_rows(const model *m, pass *p)
{
    return layers(m, p, (size_t)bert_of(m)->layers);
}

static node *pooled(const model *m, const pass *p, node *first)
{
    return op_tanh(p->t, op_linear(p->t, first, p->param[bert_pooler(m)],
                                   p->param[bert_pooler_bias(m)]));
}

static node *features(const model *m, pass *p)
{
    if (m->head)
        return bert_head_features(m, p);
    const size_t L = (size_t)bert_of(m)->layers;
    node *x = layers(m, p, L - 1);
    node *first = op_gather(p->t, x, p->seq->start, p->seq->n_texts);
    return pooled(m, p, layer(m, p, x, first, NULL, L - 1));
}

static size_t n_layers(const model *m)
{
    return m->head ? 0 : (size_t)bert_of(m)->layers;
}

static uint32_t filler(const model *m)
{
    return ((const wordpiece *)m->own)->pad;
}

static const model_layers bert_layers = {n_layers, filler, embed, layer, pooled};

static size_t n_features(const model *m)
{
    return m->head ? m->head->desc->n_features(m->head) : (size_t)bert_of(m)->hidden;
}

const model_desc model_bert = {
    .name = "bert",
    .summary = "BERT: attention over pieces of words, from pre-trained weights (--init)",
    .opts = opts,
    .cfg_size = sizeof(bert_cfg),
    .train = {.decoupled = true,
              .rate = {3e-5, 3e-5},
              .decay = {0.01, 0},
              .dropout = 0.1,
              .warmup = 0.1,
              .clip = 1,
              .epochs = 3,
              .batch = 16},
    .reader = reader,
    .reader_free = reader_free,
    .reader_save = reader_save,
    .reader_words = hash_words,
    .learns_table = true,
    .foreign = &bert_foreign,
    .row_box = bert_row_box,
    .keep_rows = bert_keep_rows,
    .last_layer = "classifier",
    .eval_rows = 8192,
    .slow_edits = true,
    .layout = layout,
    .init = init,
    .features = features,
    .layers = &bert_layers,
    .n_features = n_features,
};
