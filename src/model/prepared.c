/* model/prepared.c - what is computed from a model once, when somebody first needs it, and kept with
 * it: projections for edits, weights in double for bounds. To everybody else the model stays const;
 * threads that come at the same time wait for the first. */
#include "base/mem.h"
#include "model/word_scores.h"

typedef struct prepared {
    const void *key;
    void *value;
    void (*release)(void *value);
    struct prepared *next;
} prepared;

/* Under the lock. */
static stet_status make(const model *m, const void *key, prepare_fn *fn, void (*release)(void *),
                        void **out)
{
    for (prepared *p = m->kept->list; p; p = p->next)
        if (p->key == key) {
            *out = p->value;
            return STET_OK;
        }
    prepared *p = mem_zalloc(1, sizeof *p);
    if (!p)
        return STET_ENOMEM;
    const stet_status st = fn(m, &p->value);
    if (st != STET_OK) {
        mem_free(p);
        return st;
    }
    p->key = key;
    p->release = release;
    p->next = m->kept->list;
    m->kept->list = p;
    *out = p->value;
    return STET_OK;
}

stet_status model_prepared(const model *m, const void *key, prepare_fn *fn,
                           void (*release)(void *value), void **out)
{
    *out = NULL;
    pthread_mutex_lock(&m->kept->lock);
    const stet_status st = make(m, key, fn, release, out);
    pthread_mutex_unlock(&m->kept->lock);
    return st;
}

static stet_status compile(model *m)
{
    if (has_word_scores(m) && !m->score_table)
        TRY(word_scores_compile(m));
    if (m->desc->compile)
        TRY(m->desc->compile(m, &m->compiled));
    return STET_OK;
}

stet_status model_ready(const model *given)
{
    model *m = (model *)given; /* what changes is nobody's but ours, and under the lock */
    if (atomic_load_explicit(&m->is_compiled, memory_order_acquire))
        return STET_OK;
    stet_status st = STET_OK;
    pthread_mutex_lock(&m->kept->lock);
    if (!atomic_load_explicit(&m->is_compiled, memory_order_relaxed)) {
        st = compile(m);
        atomic_store_explicit(&m->is_compiled, st == STET_OK, memory_order_release);
    }
    pthread_mutex_unlock(&m->kept->lock);
    return st;
}

stet_status stet_model_compile(const stet_model *m)
{
    TRY(model_ready(m));
    return m->desc->compile_words ? m->desc->compile_words(m) : STET_OK;
}

stet_status model_kept_init(model *m)
{
    m->kept = mem_zalloc(1, sizeof *m->kept);
    if (!m->kept)
        return STET_ENOMEM;
    pthread_mutex_init(&m->kept->lock, NULL);
    return STET_OK;
}

void model_forget(model *m)
{
    while (m->kept && m->kept->list) {
        prepared *p = m->kept->list;
        m->kept->list = p->next;
        p->release(p->value);
        mem_free(p);
    }
    if (m->compiled)
        m->desc->compiled_free(m->compiled);
    mem_free_aligned(m->score_table);
    m->score_table = NULL;
    m->compiled = NULL;
    m->is_compiled = false;
}

void model_kept_deinit(model *m)
{
    model_forget(m);
    if (m->kept)
        pthread_mutex_destroy(&m->kept->lock);
    mem_free(m->kept);
    m->kept = NULL;
}
