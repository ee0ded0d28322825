/* api/result.c - see api/result.h. */
#include "api/result.h"

#include <string.h>

#include "base/mem.h"
#include "lexicon/sets.h"

stet_status result_new(result **out)
{
    *out = mem_zalloc(1, sizeof **out);
    return *out ? STET_OK : STET_ENOMEM;
}

void stet_result_free(void *p)
{
    if (!p)
        return;
    result *r = (result *)((char *)p - offsetof(result, is));
    arena_deinit(&r->mem);
    mem_free(r);
}

stet_status result_finish(result *r, stet_status st, buf *b, const char **json)
{
    if (st == STET_OK)
        st = buf_status(b);
    if (st == STET_OK && !(*json = arena_strndup(&r->mem, b->data, b->n)))
        st = STET_ENOMEM;
    buf_deinit(b);
    if (st != STET_OK)
        stet_result_free(&r->is);
    return st;
}

/* ---- questions ---------------------------------------------------------------------------- */

static stet_status ask(question *q, const char *text, int label)
{
    const size_t K = stet_model_classes(q->m);
    if (label < -1 || label >= (int)K)
        return error_set(STET_EUSAGE, "label %d: the model has %zu classes", label, K);
    q->prob = mem_alloc(K, sizeof *q->prob);
    if (!q->prob)
        return STET_ENOMEM;
    TRY(stet_model_words(q->m, &q->words));
    TRY(stet_words_read(q->words, text, strlen(text), &q->reading));
    TRY(stet_model_answer(q->m, q->words, q->reading.ids, q->reading.n, q->prob, &q->answer));
    q->label = label < 0 ? q->answer : label;
    return STET_OK;
}

stet_status question_open(question *q, const stet_model *m, const char *text, int label)
{
    *q = (question){.m = m};
    const stet_status st = ask(q, text, label);
    if (st != STET_OK)
        question_close(q);
    return st;
}

void question_close(question *q)
{
    stet_reading_deinit(&q->reading);
    stet_words_free(q->words);
    mem_free(q->prob);
    *q = (question){0};
}

static void put_name(const question *q, buf *b, size_t c)
{
    const char *name = stet_model_class_name(q->m, c);
    buf_json_string(b, name, strlen(name));
}

void question_json(const question *q, buf *b)
{
    buf_str(b, "{\"label\":");
    put_name(q, b, (size_t)q->answer);
    buf_printf(b, ",\"class\":%d,\"probability\":", q->answer);
    buf_real(b, (double)q->prob[q->answer]);
    buf_str(b, ",\"probabilities\":{");
    for (size_t c = 0; c < stet_model_classes(q->m); c++) {
        buf_str(b, c ? "," : "");
        put_name(q, b, c);
        buf_char(b, ':');
        buf_real(b, (double)q->prob[c]);
    }
    buf_str(b, "},\"text\":");
    buf_json_string(b, q->reading.text.data, q->reading.text.len);
}

stet_status question_choices(question *q, const stet_sets *sets, stet_bound **bound,
                             stet_choices *out)
{
    const stet_str text = q->reading.text;
    size_t which = 0;
    *bound = NULL;
    if (sets->texts)
        TRY(stet_subst_texts_find(sets->texts, text.data, text.len, &which));
    if (which == SIZE_MAX)
        return error_set(STET_EUSAGE, "the substitution sets say nothing about the text '%.40s%s'",
                         text.data, text.len > 40 ? "..." : "");
    stet_status st = sets_bind_text(sets, q->words, &q->reading, bound);
    if (st == STET_OK)
        st = stet_bound_choices(*bound, q->words, &q->reading, out);
    return st;
}
