/* model/views.c - the frame of views: it checks, keeps the words, and turns words of the run into
 * rows for kinds whose words are one row each. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "model/answers.h"
#include "model/word_scores.h"

static bool on_device(const stet_view *v)
{
    return v->on && answers_edits_there(v->on);
}

/* A rule sees whole texts. */
static bool in_full(const model *m)
{
    return m->rule || !m->desc->view_new || (m->desc->whole && m->desc->whole(m));
}

stet_status stet_view_open(const stet_model *m, const stet_words *w, const uint32_t *ids, size_t n,
                           stet_view **out)
{
    return view_open_on(m, NULL, w, ids, n, out);
}

stet_status view_open_on(const model *m, answers *a, const stet_words *w, const uint32_t *ids,
                         size_t n, stet_view **out)
{
    *out = NULL;
    TRY(model_ready(m));
    stet_view *v = a || in_full(m) ? full_view_new() : m->desc->view_new();
    if (!v)
        return STET_ENOMEM;
    v->m = m;
    v->on = a;
    v->words = w;
    v->logits = mem_zalloc(m->n_classes, sizeof *v->logits);
    v->scores = mem_zalloc(m->n_classes, sizeof *v->scores);
    stet_status st = v->logits && v->scores ? STET_OK : STET_ENOMEM;
    if (st == STET_OK && !w) {
        st = stet_model_words(m, &v->own_words);
        v->words = v->own_words;
    }
    if (st == STET_OK)
        st = stet_view_reopen(v, ids, n);
    if (st == STET_OK)
        *out = v;
    else
        stet_view_free(v);
    return st;
}

/* Rows instead of words, where that is one for one. */
static bool takes_rows(const stet_view *v)
{
    return v->m->reader.most_rows == 1;
}

/* The scores of the words of a text, by class, added to its logits. */
static void add_scores(const model *m, const uint32_t *ids, size_t n, double *scores, float *logits)
{
    const size_t K = m->n_classes;
    if (!has_word_scores(m))
        return;
    memset(scores, 0, K * sizeof *scores);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < K; k++)
            scores[k] += (double)m->score_table[ids[i] * K + k];
    for (size_t k = 0; k < K; k++)
        logits[k] += (float)(scores[k] / sqrt((double)n));
}

/* The same for variants, whose logits have none yet. */
static void add_edited_scores(const stet_view *v, const stet_edit *edits, const size_t *start,
                              size_t n, float *logits)
{
    const model *m = v->m;
    const size_t K = m->n_classes;
    const double root = sqrt((double)v->n);
    for (size_t i = 0; has_word_scores(m) && i < n; i++)
        for (size_t k = 0; k < K; k++) {
            double sum = v->scores[k];
            for (size_t e = start[i]; e < start[i + 1]; e++)
                sum += (double)m->score_table[edits[e].word * K + k] -
                       (double)m->score_table[v->ids[edits[e].pos] * K + k];
            logits[i * K + k] += (float)(sum / root);
        }
}

stet_status stet_view_reopen(stet_view *v, const uint32_t *ids, size_t n)
{
    static const uint32_t unknown = STET_UNK;
    if (n == 0 && !v->m->reader.framed)
        ids = &unknown, n = 1;
    n = n < v->m->max_len ? n : v->m->max_len;
    const size_t known = stet_words_size(v->words);
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= known)
            return error_set(STET_EUSAGE, "word id %u outside the vocabulary of %zu", ids[i],
                             known);
    arena_restore(&v->mem, (arena_mark){0});
    v->n = n;
    v->ids = arena_new(&v->mem, uint32_t, n + 1);
    if (!v->ids)
        return STET_ENOMEM;
    if (takes_rows(v))
        words_rows(v->words, ids, n, v->ids);
    else if (n)
        memcpy(v->ids, ids, n * sizeof *ids);
    if (on_device(v)) {
        const size_t none[2] = {0, 0};
        TRY(answers_edits(v->on, v->ids, v->n, NULL, none, 1, v->logits));
    } else if (v->on || in_full(v->m)) {
        TRY(full_view_open(v));
        return model_check_logits(v->m, v->logits);
    } else {
        TRY(v->m->desc->view_open(v));
    }
    add_scores(v->m, v->ids, v->n, v->scores, v->logits);
    return model_check_logits(v->m, v->logits);
}

const float *stet_view_logits(const stet_view *v)
{
    return v->logits;
}

static stet_status as_rows(stet_view *v, const stet_edit *edits, size_t n)
{
    TRY(mem_grow(&v->mapped, &v->cap_mapped, n, sizeof *v->mapped));
    for (size_t e = 0; e < n; e++) {
        v->mapped[e].pos = edits[e].pos;
        words_rows(v->words, &edits[e].word, 1, &v->mapped[e].word);
    }
    return STET_OK;
}

stet_status stet_view_edits(stet_view *v, const stet_edit *edits, const size_t *start, size_t n,
                            float *logits)
{
    const model *m = v->m;
    const size_t known = stet_words_size(v->words);
    const size_t as_they_are = m->reader.rows ? 0 : m->n_words; /* ids that are rows already */
    bool map = false;
    for (size_t i = 0; i < n; i++)
        for (size_t e = start[i]; e < start[i + 1]; e++) {
            if (edits[e].pos >= v->n || edits[e].word >= known ||
                (e > start[i] && edits[e].pos <= edits[e - 1].pos))
                return error_set(STET_EUSAGE,
                                 "variant %zu: edit (%u, %u) is out of range or out of order", i,
                                 edits[e].pos, edits[e].word);
            map = map || edits[e].word >= as_they_are;
        }
    if (n == 0)
        return STET_OK;
    if (map && takes_rows(v)) {
        TRY(as_rows(v, edits, start[n]));
        edits = v->mapped;
    }
    if (!on_device(v) && (v->on || in_full(m))) {
        TRY(full_view_edits(v, edits, start, n, logits));
    } else {
        TRY(on_device(v) ? answers_edits(v->on, v->ids, v->n, edits, start, n, logits)
                         : m->desc->view_edits(v, edits, start, n, logits));
        add_edited_scores(v, edits, start, n, logits);
    }
    for (size_t i = 0; i < n; i++)
        TRY(model_check_logits(m, logits + i * m->n_classes));
    return STET_OK;
}

stet_status view_texts(stet_view *v, const uint32_t *ids, const size_t *start, size_t n,
                       float *logits)
{
    const model *m = v->m;
    const size_t K = m->n_classes;
    const arena_mark mark = arena_save(&v->mem);
    uint32_t *row = arena_new(&v->mem, uint32_t, start[n] + n + 1);
    uint64_t *at = arena_new(&v->mem, uint64_t, n + 1);
    double *scores = arena_new(&v->mem, double, K);
    if (!row || !at || !scores)
        return STET_ENOMEM;
    at[0] = 0;
    for (size_t i = 0; i < n; i++) { /* an empty text is one unknown word */
        size_t len = start[i + 1] - start[i];
        len = len < m->max_len ? len : m->max_len;
        row[at[i]] = STET_UNK;
        words_rows(v->words, ids + start[i], len, row + at[i]);
        at[i + 1] = at[i] + (len ? len : 1);
    }
    const stet_corpus texts = {.n_texts = n, .n_tokens = at[n], .ids = row, .start = at};
    stet_status st = answers_texts(v->on, &texts, logits);
    for (size_t i = 0; st == STET_OK && i < n; i++) {
        add_scores(m, row + at[i], at[i + 1] - at[i], scores, logits + i * K);
        st = model_check_logits(m, logits + i * K);
    }
    arena_restore(&v->mem, mark);
    return st;
}

void stet_view_free(stet_view *v)
{
    if (!v)
        return;
    stet_words_free(v->own_words);
    arena_deinit(&v->mem);
    mem_free(v->mapped);
    mem_free(v->logits);
    mem_free(v->scores);
    mem_free(v);
}
