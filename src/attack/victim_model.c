/* attack/victim_model.c - a model of ours as the victim: edits of an opened view. */
#include <math.h>
#include <string.h>

#include "attack/attack_impl.h"
#include "base/mem.h"
#include "model/answers.h"

typedef struct model_victim {
    victim v;
    const stet_model *m;
    answers *on; /* or NULL */
    const stet_words *words;
    stet_view *view;  /* of the text with `base` */
    stet_view *other; /* for variants with words taken out */
    uint32_t *ids;    /* (n) the text as opened */
    size_t n, cap_ids;
    stet_edit *base; /* what the view has changed already */
    size_t n_base, cap_base;
    uint32_t *variant; /* (n) */
    size_t cap_variant;
    stet_edit *edits; /* against the view */
    size_t *start;
    float *logits, *shorter; /* of all variants; of those with words taken out */
    size_t cap_edits, cap_start, cap_logits, cap_shorter;
} model_victim;

static void softmax(const float *logits, size_t k, double *prob)
{
    double top = logits[0], sum = 0;
    for (size_t c = 1; c < k; c++)
        top = fmax(top, logits[c]);
    for (size_t c = 0; c < k; c++)
        sum += prob[c] = exp(logits[c] - top);
    for (size_t c = 0; c < k; c++)
        prob[c] /= sum;
}

static stet_status reopen(model_victim *mv, stet_view **view, const uint32_t *ids, size_t n)
{
    return *view ? stet_view_reopen(*view, ids, n)
                 : view_open_on(mv->m, mv->on, mv->words, ids, n, view);
}

static stet_status open_text(victim *v, const attack_text *t)
{
    model_victim *mv = (model_victim *)v;
    mv->n = t->n;
    mv->n_base = 0;
    TRY(mem_grow(&mv->ids, &mv->cap_ids, mv->n, sizeof *mv->ids));
    TRY(mem_grow(&mv->variant, &mv->cap_variant, mv->n, sizeof *mv->variant));
    if (mv->n)
        memcpy(mv->ids, t->ids, mv->n * sizeof *mv->ids);
    return reopen(mv, &mv->view, mv->ids, mv->n);
}

/* The text with edits, words taken out left out. Returns its length. */
static size_t write_out(const model_victim *mv, const stet_edit *e, size_t n, uint32_t *out)
{
    size_t len = 0, k = 0;
    for (size_t i = 0; i < mv->n; i++) {
        const bool edited = k < n && e[k].pos == i;
        const uint32_t word = edited ? e[k++].word : mv->ids[i];
        if (word != WORD_DELETED)
            out[len++] = word;
    }
    return len;
}

static stet_status near_variant(victim *v, const stet_edit *e, size_t n)
{
    model_victim *mv = (model_victim *)v;
    if (n == mv->n_base && (n == 0 || memcmp(e, mv->base, n * sizeof *e) == 0))
        return STET_OK;
    TRY(mem_grow(&mv->base, &mv->cap_base, n, sizeof *mv->base));
    memcpy(mv->base, e, n * sizeof *e);
    mv->n_base = n;
    const size_t len = write_out(mv, e, n, mv->variant);
    return stet_view_reopen(mv->view, mv->variant, len);
}

/* Edits against the original as edits against the view: a merge of two sorted lists. Returns how
 * many. */
static size_t against_base(const model_victim *mv, const stet_edit *e, size_t n, stet_edit *out)
{
    const stet_edit *b = mv->base;
    size_t i = 0, j = 0, made = 0;
    while (i < n || j < mv->n_base) {
        if (j == mv->n_base || (i < n && e[i].pos < b[j].pos)) {
            out[made++] = e[i++];
        } else if (i == n || b[j].pos < e[i].pos) {
            out[made++] = (stet_edit){b[j].pos, mv->ids[b[j].pos]};
            j++;
        } else {
            if (e[i].word != b[j].word)
                out[made++] = e[i];
            i++, j++;
        }
    }
    return made;
}

static bool takes_out(const stet_edit *e, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (e[i].word == WORD_DELETED)
            return true;
    return false;
}

/* Variants with words taken out: each a text of its own, on a device all at once. Their logits take the
 * place of those of the text as it is. */
static stet_status ask_shorter(model_victim *mv, const stet_edit *edits, const size_t *start,
                               size_t n)
{
    const size_t K = mv->v.n_classes;
    const bool together = mv->on && answers_edits_there(mv->on);
    size_t shorter = 0;
    for (size_t i = 0; i < n; i++)
        shorter += takes_out(edits + start[i], start[i + 1] - start[i]);
    if (shorter == 0)
        return STET_OK;
    TRY(mem_grow(&mv->variant, &mv->cap_variant, together ? shorter * mv->n : mv->n,
                 sizeof *mv->variant));
    TRY(mem_grow(&mv->shorter, &mv->cap_shorter, shorter * K, sizeof *mv->shorter));
    size_t k = 0;
    mv->start[0] = 0; /* the edits against the view are answered */
    for (size_t i = 0; i < n; i++) {
        const stet_edit *e = edits + start[i];
        if (!takes_out(e, start[i + 1] - start[i]))
            continue;
        const size_t at = together ? mv->start[k] : 0,
                     len = write_out(mv, e, start[i + 1] - start[i], mv->variant + at);
        if (!together) {
            TRY(reopen(mv, &mv->other, mv->variant, len));
            memcpy(mv->shorter + k * K, stet_view_logits(mv->other), K * sizeof *mv->shorter);
        }
        mv->start[++k] = at + len;
    }
    if (together)
        TRY(view_texts(mv->view, mv->variant, mv->start, shorter, mv->shorter));
    k = 0;
    for (size_t i = 0; i < n; i++)
        if (takes_out(edits + start[i], start[i + 1] - start[i]))
            memcpy(mv->logits + i * K, mv->shorter + k++ * K, K * sizeof *mv->logits);
    return STET_OK;
}

static stet_status ask(victim *v, const stet_edit *edits, const size_t *start, size_t n,
                       double *prob)
{
    model_victim *mv = (model_victim *)v;
    const size_t K = v->n_classes;
    TRY(mem_grow(&mv->start, &mv->cap_start, n + 1, sizeof *mv->start));
    TRY(mem_grow(&mv->logits, &mv->cap_logits, n * K, sizeof *mv->logits));
    TRY(mem_grow(&mv->edits, &mv->cap_edits, start[n] + n * mv->n_base, sizeof *mv->edits));
    mv->start[0] = 0;
    for (size_t i = 0; i < n; i++) {
        const stet_edit *e = edits + start[i];
        const size_t len = start[i + 1] - start[i];
        const size_t made =
            takes_out(e, len) ? 0 : against_base(mv, e, len, mv->edits + mv->start[i]);
        mv->start[i + 1] = mv->start[i] + made;
    }
    TRY(stet_view_edits(mv->view, mv->edits, mv->start, n, mv->logits));
    TRY(ask_shorter(mv, edits, start, n));
    for (size_t i = 0; i < n; i++)
        softmax(mv->logits + i * K, K, prob + i * K);
    return STET_OK;
}

static void free_victim(victim *v)
{
    model_victim *mv = (model_victim *)v;
    stet_view_free(mv->view);
    stet_view_free(mv->other);
    mem_free(mv->ids);
    mem_free(mv->base);
    mem_free(mv->variant);
    mem_free(mv->edits);
    mem_free(mv->start);
    mem_free(mv->logits);
    mem_free(mv->shorter);
    mem_free(mv);
}

stet_status victim_of_model(const stet_model *m, answers *on, const stet_words *w, victim **out)
{
    model_victim *mv = mem_zalloc(1, sizeof *mv);
    if (!mv)
        return STET_ENOMEM;
    mv->m = m;
    mv->on = on;
    mv->words = w;
    mv->v = (victim){.n_classes = stet_model_classes(m),
                     .open = open_text,
                     .ask = ask,
                     .near = on ? NULL : near_variant, /* a device is asked once a round */
                     .free = free_victim};
    *out = &mv->v;
    return STET_OK;
}
