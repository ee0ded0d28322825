/* api/explain.c - which words carry an answer: the text with one word changed at a time. */
#include <math.h>
#include <string.h>

#include "api/result.h"
#include "base/mem.h"

/* One variant a word without it, then one for each substitute of each word. */
typedef struct variants {
    stet_edit *edit; /* (n) */
    size_t *start;   /* (n + 1) */
    float *logits;   /* (n, K) */
    size_t n;
} variants;

static void variants_deinit(variants *v)
{
    mem_free(v->edit);
    mem_free(v->start);
    mem_free(v->logits);
}

static stet_status list_variants(const question *q, const stet_choices *c, variants *v)
{
    const size_t words = q->reading.n, subs = c->n ? c->start[c->n] : 0;
    v->edit = mem_alloc(words + subs + 1, sizeof *v->edit);
    v->start = mem_alloc(words + subs + 1, sizeof *v->start);
    v->logits = mem_alloc((words + subs + 1) * stet_model_classes(q->m), sizeof *v->logits);
    if (!v->edit || !v->start || !v->logits)
        return STET_ENOMEM;
    for (size_t i = 0; i < words; i++)
        v->edit[v->n++] = (stet_edit){(uint32_t)i, STET_UNK};
    for (size_t i = 0; i < c->n; i++)
        for (uint32_t k = c->start[i]; k < c->start[i + 1]; k++)
            v->edit[v->n++] = (stet_edit){(uint32_t)i, c->word[k]};
    for (size_t i = 0; i <= v->n; i++)
        v->start[i] = i;
    return STET_OK;
}

static double margin(const float *logits, size_t k, int label)
{
    double best = -HUGE_VAL;
    for (size_t c = 0; c < k; c++)
        if ((int)c != label && (double)logits[c] > best)
            best = (double)logits[c];
    return (double)logits[label] - best;
}

static stet_status judge_words(result *r, const question *q, const stet_choices *c,
                               const variants *v, double clean)
{
    const size_t K = stet_model_classes(q->m);
    const stet_tokens *t = &q->reading.tokens;
    stet_explained *out = &r->is.explained;
    stet_explained_word *w = arena_znew(&r->mem, stet_explained_word, q->reading.n + 1);
    if (!w)
        return STET_ENOMEM;
    out->words = w, out->n = q->reading.n;
    for (size_t i = 0; i < out->n; i++) {
        w[i].position = i, w[i].start = t->v[i].start, w[i].end = t->v[i].end;
        w[i].word = arena_strndup(&r->mem, stet_token_word(t, i), t->v[i].len);
        w[i].weight = clean - margin(v->logits + i * K, K, q->label);
        const char *worst = NULL;
        for (uint32_t k = c->n ? c->start[i] : 0; c->n && k < c->start[i + 1]; k++) {
            const double drop = clean - margin(v->logits + (out->n + k) * K, K, q->label);
            if (drop > w[i].drop)
                w[i].drop = drop, worst = c->text[k];
        }
        if (worst)
            w[i].worst = arena_strndup(&r->mem, worst, strlen(worst));
        if (!w[i].word || (worst && !w[i].worst))
            return STET_ENOMEM;
    }
    return STET_OK;
}

static void put_word(buf *b, const stet_explained_word *w)
{
    buf_printf(b, "{\"position\":%zu,\"start\":%zu,\"end\":%zu,\"word\":", w->position, w->start,
               w->end);
    buf_json_string(b, w->word, strlen(w->word));
    buf_str(b, ",\"weight\":");
    buf_real(b, w->weight);
    if (w->worst) {
        buf_str(b, ",\"substitute\":");
        buf_json_string(b, w->worst, strlen(w->worst));
        buf_str(b, ",\"drop\":");
        buf_real(b, w->drop);
    }
    buf_char(b, '}');
}

static stet_status explain(result *r, question *q, const stet_choices *c)
{
    stet_explained *out = &r->is.explained;
    const size_t K = stet_model_classes(q->m);
    const char *name = stet_model_class_name(q->m, (size_t)q->label);
    variants v = {0};
    stet_view *view = NULL;
    stet_status st = list_variants(q, c, &v);
    if (st == STET_OK)
        st = stet_view_open(q->m, q->words, q->reading.ids, q->reading.n, &view);
    if (st == STET_OK)
        st = stet_view_edits(view, v.edit, v.start, v.n, v.logits);
    if (st == STET_OK) {
        out->label = q->label;
        out->name = arena_strndup(&r->mem, name, strlen(name));
        out->probability = (double)q->prob[q->label];
        out->margin = margin(stet_view_logits(view), K, q->label);
        st = out->name ? judge_words(r, q, c, &v, out->margin) : STET_ENOMEM;
    }
    stet_view_free(view);
    variants_deinit(&v);
    return st;
}

stet_status stet_text_explain(const stet_model *m, const stet_sets *sets, const char *text,
                              int label, stet_explained **out)
{
    *out = NULL;
    question q;
    stet_bound *bound = NULL;
    stet_choices c = {0};
    result *r = NULL;
    TRY(question_open(&q, m, text, label));
    stet_status st = sets ? question_choices(&q, sets, &bound, &c) : STET_OK;
    if (st == STET_OK)
        st = result_new(&r);
    if (st == STET_OK) {
        const stet_explained *e = &r->is.explained;
        buf b = {0};
        st = explain(r, &q, &c);
        question_json(&q, &b);
        buf_printf(&b, ",\"explained\":%d,\"margin\":", q.label);
        buf_real(&b, e->margin);
        buf_str(&b, ",\"words\":[");
        for (size_t i = 0; st == STET_OK && i < e->n; i++) {
            buf_str(&b, i ? "," : "");
            put_word(&b, &e->words[i]);
        }
        buf_str(&b, "]}");
        st = result_finish(r, st, &b, &r->is.explained.json);
        *out = st == STET_OK ? &r->is.explained : NULL;
    }
    stet_choices_deinit(&c);
    stet_bound_free(bound);
    question_close(&q);
    return st;
}
