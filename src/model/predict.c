/* model/predict.c - answers: to whole corpora in batches, and to single texts. */
#include <math.h>
#include <string.h>

#include "base/args.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "model/answers.h"
#include "model/rule.h"
#include "model/word_scores.h"

/* Texts at once, or rows where a device is asked about the variants of a text or what a rule makes of
 * them: enough to keep it busy, in some hundred megabytes. */
enum { EVAL_BATCH = 64, PLACE_ROWS = 1 << 17 };

void stet_softmax(const float *logits, size_t k, float *prob)
{
    double top = logits[0], sum = 0;
    for (size_t i = 1; i < k; i++)
        top = logits[i] > top ? logits[i] : top;
    for (size_t i = 0; i < k; i++)
        sum += exp(logits[i] - top);
    for (size_t i = 0; i < k; i++)
        prob[i] = (float)(exp(logits[i] - top) / sum);
}

int stet_argmax(const float *v, size_t k)
{
    size_t best = 0;
    for (size_t i = 1; i < k; i++)
        if (v[i] > v[best])
            best = i;
    return (int)best;
}

stet_status stet_model_words(const stet_model *m, stet_words **out)
{
    return words_new(&m->reader, out);
}

stet_status stet_model_data(const stet_model *m, const char *path, const stet_data_options *how,
                            stet_dataset **out)
{
    stet_data_options own = STET_DATA_DEFAULTS;
    stet_dataset *like;
    *out = NULL;
    if (how)
        TRY(ARGS_TAKE(&own, how));
    TRY(stet_dataset_new(NULL, NULL, 0, (const char *const *)m->class_names, m->n_classes, &like));
    own.size = sizeof own;
    own.like = like;
    const stet_status st = stet_dataset_load(path, &own, out);
    stet_dataset_free(like);
    return st;
}

stet_status stet_model_encode(const stet_model *m, const stet_dataset *d, stet_corpus *out)
{
    size_t cut = 0;
    TRY(corpus_read(d, &m->reader, out, &cut));
    if (cut && m->reader.framed)
        log_info("%zu of %zu texts have more than %zu pieces: the rest of each is not read", cut,
                 out->n_texts, m->reader.max_rows);
    return STET_OK;
}

stet_status model_check_logits(const model *m, const float *logits)
{
    for (size_t k = 0; k < m->n_classes; k++)
        if (!isfinite(logits[k]))
            return error_set(
                STET_EFORMAT,
                "%s: the logit of class '%s' is %g, not finite: the weights are too large",
                m->folder ? m->folder : "the model", m->class_names[k], (double)logits[k]);
    return STET_OK;
}

/* ---- whole corpora ------------------------------------------------------------------------ */

/* Where an evaluation computes: weights and memory of one store, or NULL and NULL for the model's
 * own. */
typedef struct evaluation {
    const model *m;
    const model_weights *w;
    store_arena *values;
    batcher batches;
    arena mem;
} evaluation;

/* Logits (texts, K) of a batch. */
static stet_status eval_pass(evaluation *e, const batch *x, real *y)
{
    const store_mark held = e->values ? store_arena_save(e->values) : (store_mark){0};
    tape t;
    pass p;
    tape_init(&t, &e->mem, e->values, false);
    stet_status st = pass_init(&p, e->m, &t, e->w, NULL, x);
    if (st == STET_OK)
        st = tape_download(&t, model_forward(e->m, &p), y);
    if (e->values)
        store_arena_restore(e->values, held);
    return st;
}

/* Where others ask too, the batch is made before it is this thread's turn. */
static stet_status eval_batch(evaluation *e, const stet_corpus *c, const uint32_t *pick, size_t n,
                              float *logits)
{
    const model *m = e->m;
    batch x;
    real *y = arena_new(&e->mem, real, n * m->n_classes);
    if (!y)
        return STET_ENOMEM;
    TRY(batch_make(&e->batches, m, c, pick, n, &e->mem, &x));
    if (m->place)
        pthread_mutex_lock(m->place->lock);
    const stet_status st = eval_pass(e, &x, y);
    if (m->place)
        pthread_mutex_unlock(m->place->lock);
    TRY(st);
    for (size_t i = 0; i < n; i++) {
        float *const row = logits + pick[x.order[i]] * m->n_classes;
        for (size_t k = 0; k < m->n_classes; k++)
            row[k] = (float)y[i * m->n_classes + k];
        TRY(model_check_logits(m, row));
    }
    return STET_OK;
}

/* Texts of similar length go together: less imbalance, the same answers. */
static uint32_t *length_order(const stet_corpus *c)
{
    uint32_t *order = mem_alloc(c->n_texts + 1, sizeof *order);
    size_t longest = 0;
    for (size_t i = 0; i < c->n_texts; i++) {
        const size_t n = (size_t)(c->start[i + 1] - c->start[i]);
        longest = n > longest ? n : longest;
    }
    size_t *count = mem_zalloc(longest + 2, sizeof *count);
    if (!order || !count) {
        mem_free(order);
        mem_free(count);
        return NULL;
    }
    for (size_t i = 0; i < c->n_texts; i++)
        count[c->start[i + 1] - c->start[i] + 1]++;
    for (size_t n = 0; n <= longest; n++)
        count[n + 1] += count[n];
    for (size_t i = 0; i < c->n_texts; i++)
        order[count[c->start[i + 1] - c->start[i]]++] = (uint32_t)i;
    mem_free(count);
    return order;
}

/* How many of the texts pick[0..n) go together: so many texts, or so many rows. */
static size_t batch_size(const model *m, const stet_corpus *c, const uint32_t *pick, size_t n)
{
    const size_t most = m->desc->eval_rows ? m->desc->eval_rows : m->place ? PLACE_ROWS : 0;
    if (most == 0)
        return n < EVAL_BATCH ? n : EVAL_BATCH;
    size_t rows = 0, some = 0;
    for (; some < n && rows < most; some++) {
        const size_t len = (size_t)(c->start[pick[some] + 1] - c->start[pick[some]]);
        rows += (len < model_max_rows(m) ? len : model_max_rows(m)) + 2 * m->reader.framed;
    }
    return some;
}

static stet_status network_logits(const model *m, const model_weights *w, store_arena *values,
                                  const stet_corpus *c, float *logits, bool told)
{
    uint32_t *order = length_order(c);
    evaluation e = {.m = m, .w = w, .values = values};
    if (!order || batcher_init(&e.batches, m) != STET_OK) {
        mem_free(order);
        return STET_ENOMEM;
    }
    stet_status st = STET_OK;
    for (size_t i = 0, n; st == STET_OK && i < c->n_texts; i += n) {
        n = batch_size(m, c, order + i, c->n_texts - i);
        const arena_mark start = arena_save(&e.mem);
        st = eval_batch(&e, c, order + i, n, logits);
        arena_restore(&e.mem, start);
        if (told)
            progress("evaluating", i + n, c->n_texts, NULL);
        if (st == STET_OK)
            st = interrupt_status();
    }
    arena_deinit(&e.mem);
    batcher_deinit(&e.batches);
    mem_free(order);
    return st;
}

/* Texts of a corpus as a compiled model reads them, each cut to what it reads and of one row at least, into
 * memory of `mem`; those of `c` itself where they are so already. */
static stet_status texts_read(const model *m, const stet_corpus *c, arena *mem, stet_corpus *out)
{
    size_t n, same = 0;
    *out = *c;
    for (size_t i = 0; i < c->n_texts; i++) {
        corpus_rows(m, c, i, &n);
        same += n == c->start[i + 1] - c->start[i];
    }
    if (same == c->n_texts)
        return STET_OK;
    out->ids = arena_new(mem, uint32_t, c->n_tokens + c->n_texts);
    out->start = arena_new(mem, uint64_t, c->n_texts + 1);
    if (!out->ids || !out->start)
        return STET_ENOMEM;
    out->start[0] = 0;
    for (size_t i = 0; i < c->n_texts; i++) {
        const uint32_t *rows = corpus_rows(m, c, i, &n);
        memcpy(out->ids + out->start[i], rows, n * sizeof *rows);
        out->start[i + 1] = out->start[i] + n;
    }
    return STET_OK;
}

/* On a device, or here. */
static stet_status compiled_logits(const model *m, const stet_corpus *c, float *logits)
{
    arena mem = {0};
    stet_corpus texts;
    stet_status st = m->place ? texts_read(m, c, &mem, &texts) : m->desc->texts(m, c, logits);
    if (st == STET_OK && m->place)
        st = answers_texts(m->place->on, &texts, logits);
    for (size_t i = 0; st == STET_OK && i < c->n_texts; i++)
        st = model_check_logits(m, logits + i * m->n_classes);
    arena_deinit(&mem);
    return st;
}

bool model_compiled_here(const model *m)
{
    return !m->place && atomic_load(&m->is_compiled) && m->compiled && !has_word_scores(m);
}

stet_status model_network_logits(const model *m, const stet_corpus *c, float *logits)
{
    const model_place *at = m->place;
    if ((at && at->on) || (m->desc->texts && model_compiled_here(m)))
        return compiled_logits(m, c, logits);
    return network_logits(m, at ? at->w : NULL, at ? at->values : NULL, c, logits, false);
}

static stet_status logits_by_rule(const model *m, const stet_corpus *c, float *logits)
{
    enum { AT_ONCE = 256 };
    for (size_t i = 0; i < c->n_texts; i += AT_ONCE) {
        const stet_corpus piece = corpus_piece(c, i, AT_ONCE);
        TRY(rule_logits_all(m, &piece, logits + i * m->n_classes));
        progress("evaluating", i + piece.n_texts, c->n_texts, NULL);
        TRY(interrupt_status());
    }
    return STET_OK;
}

/* A rule asks the network about many texts for each of ours, and a compiled one answers them faster.
 * It rounds mixtures differently, though, and training is to end in the same bytes on any device. */
static stet_status ready_for_rule(const model *m, bool training)
{
    const bool faster = m->rule->desc->mixes ? m->desc->mixtures && !training : !!m->desc->texts;
    return faster ? model_ready(m) : STET_OK;
}

stet_status model_eval(const model *m, const model_weights *w, store_arena *values,
                       const stet_corpus *c, float *logits)
{
    if (!m->rule)
        return network_logits(m, w, values, c, logits, true);
    if (!w || w->store->desc->host || !m->rule->desc->on_device) {
        TRY(ready_for_rule(m, w != NULL));
        return logits_by_rule(m, c, logits);
    }
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const model_place place = {w, values, &lock, NULL};
    const model there = model_at(m, &place);
    return logits_by_rule(&there, c, logits);
}

model model_at(const model *m, const model_place *place)
{
    model there;
    memcpy(&there, m, sizeof there);
    there.place = place;
    return there;
}

stet_status stet_model_logits(const stet_model *m, const stet_corpus *c, float *logits)
{
    return model_eval(m, NULL, NULL, c, logits);
}

stet_status model_scores(const model *m, const model_weights *w, store_arena *values,
                         const stet_corpus *c, stet_scores *out)
{
    enum { LOGITS = 64 << 20 }; /* at a time */
    const size_t some = LOGITS / m->n_classes ? LOGITS / m->n_classes : 1;
    const size_t room = some < c->n_texts ? some : c->n_texts;
    float *logits = mem_alloc(room * m->n_classes, sizeof *logits);
    stet_status st = logits ? scores_begin(out, m->n_classes) : STET_ENOMEM;
    for (size_t i = 0; st == STET_OK && i < c->n_texts; i += room) {
        const stet_corpus piece = corpus_piece(c, i, room);
        st = model_eval(m, w, values, &piece, logits);
        if (st == STET_OK)
            st = scores_add(out, logits, piece.label, piece.n_texts);
    }
    mem_free(logits);
    return logits ? scores_end(out, st) : st;
}

stet_status stet_model_scores(const stet_model *m, const stet_corpus *c, stet_scores *out)
{
    *out = (stet_scores){0};
    return model_scores(m, NULL, NULL, c, out);
}

/* Logits or scores in the store of a device. */
static stet_status eval_on(const model *m, const char *where, const stet_corpus *c, float *logits,
                           stet_scores *scores)
{
    store *s;
    TRY(store_open(where, &s));
    store_arena values = {.store = s};
    model_weights w;
    stet_status st = weights_init(&w, m, s);
    const model_weights *there = s->desc->host ? NULL : &w;
    if (st == STET_OK)
        st = logits ? model_eval(m, there, there ? &values : NULL, c, logits)
                    : model_scores(m, there, there ? &values : NULL, c, scores);
    weights_deinit(&w);
    store_arena_deinit(&values);
    store_close(s);
    return st;
}

stet_status stet_model_scores_on(const stet_model *m, const char *where, const stet_corpus *c,
                                 stet_scores *out)
{
    *out = (stet_scores){0};
    return eval_on(m, where, c, NULL, out);
}

stet_status stet_model_logits_on(const stet_model *m, const char *where, const stet_corpus *c,
                                 float *logits)
{
    return eval_on(m, where, c, logits, NULL);
}

stet_status model_logits_of(const model *m, const uint32_t *rows, size_t n, float *logits)
{
    if (m->rule)
        return rule_logits(m, rows, n, logits);
    uint32_t *copy = mem_alloc(n + 1, sizeof *copy); /* a corpus is not const */
    stet_status st = copy ? STET_OK : STET_ENOMEM;
    if (st == STET_OK) {
        memcpy(copy, rows, n * sizeof *rows);
        uint64_t start[2] = {0, n};
        int32_t none = -1;
        const stet_corpus c = {.n_texts = 1,
                               .n_tokens = n,
                               .n_classes = m->n_classes,
                               .ids = copy,
                               .start = start,
                               .label = &none};
        st = model_network_logits(m, &c, logits);
    }
    mem_free(copy);
    return st;
}

/* ---- single texts ------------------------------------------------------------------------- */

stet_status stet_model_answer(const stet_model *m, const stet_words *w, const uint32_t *ids,
                              size_t n, float *prob, int *label)
{
    static const uint32_t unknown = STET_UNK;
    if (n == 0 && !m->reader.framed)
        ids = &unknown, n = 1;
    uint32_t *rows = mem_alloc(n * m->reader.most_rows + 1, sizeof *rows);
    float *logits = mem_alloc(m->n_classes, sizeof *logits);
    stet_status st = rows && logits ? STET_OK : STET_ENOMEM;
    if (st == STET_OK)
        st = model_logits_of(m, rows, words_rows(w, ids, n, rows), logits);
    if (st == STET_OK)
        st = model_check_logits(m, logits);
    if (st == STET_OK && label)
        *label = stet_argmax(logits, m->n_classes);
    if (st == STET_OK && prob)
        stet_softmax(logits, m->n_classes, prob);
    mem_free(logits);
    mem_free(rows);
    return st;
}

stet_status stet_model_predict(const stet_model *m, const char *text, size_t len, float *prob,
                               int *label)
{
    stet_words *w;
    TRY(stet_model_words(m, &w));
    stet_reading r = {0};
    stet_status st = stet_words_read(w, text, len, &r);
    if (st == STET_OK)
        st = stet_model_answer(m, w, r.ids, r.n, prob, label);
    stet_reading_deinit(&r);
    stet_words_free(w);
    return st;
}
