/* attack/redraw.c - how much of an attack on a model that draws was luck. Every variant has draws
 * of its own, so a flip may be due to them and not to the words. So the model is asked again. */
#include <string.h>

#include "attack/subject.h"
#include "base/json.h"
#include "base/mem.h"
#include "model/rule.h"

enum { REDRAWS = 8 };

bool attack_redraws(const stet_attack_args *a)
{
    return a->model && a->model->rule && a->model->rule->desc->answers_draw;
}

/* The texts that count, as the attack left them. */
typedef struct left_texts {
    stet_str *text;
    int *label;
    bool *flipped;
    json_t **line; /* what a text lies in, or NULL */
    size_t n, flips;
} left_texts;

static stet_status take_text(const attack_job *j, const record *r, left_texts *t)
{
    const bool flipped = r->outcome == OUTCOME_SUCCESS;
    t->text[t->n] = stet_dataset_text(j->a->data, r->index);
    t->label[t->n] = stet_dataset_label(j->a->data, r->index);
    if (flipped) {
        json_t *o;
        const char *text;
        TRY(json_read_text("record", r->line, strlen(r->line), &o));
        t->line[t->n] = o;
        TRY(json_get_str(o, "record", "adversarial", &text));
        t->text[t->n] = (stet_str){text, strlen(text)};
    }
    t->flipped[t->n++] = flipped;
    t->flips += flipped;
    return STET_OK;
}

static stet_status take_texts(const attack_job *j, arena *mem, left_texts *t)
{
    t->text = arena_new(mem, stet_str, j->n + 1);
    t->label = arena_new(mem, int, j->n + 1);
    t->flipped = arena_new(mem, bool, j->n + 1);
    t->line = arena_znew(mem, json_t *, j->n + 1);
    if (!t->text || !t->label || !t->flipped || !t->line)
        return STET_ENOMEM;
    for (size_t i = 0; i < j->n; i++) {
        const record *r = &j->record[i];
        if (r->done && r->outcome != OUTCOME_ERROR && r->outcome != OUTCOME_TIMEOUT)
            TRY(take_text(j, r, t));
    }
    return STET_OK;
}

static stet_status read_texts(const stet_model *m, const left_texts *t, stet_corpus *out)
{
    stet_dataset *d;
    TRY(stet_dataset_new(t->text, t->label, t->n, (const char *const *)m->class_names,
                         m->n_classes, &d));
    const stet_status st = stet_model_encode(m, d, out);
    stet_dataset_free(d);
    return st;
}

static stet_status ask_again(const attack_job *j, const left_texts *t, const stet_corpus *c,
                             float *logits, stet_attack_result *out)
{
    const stet_model *m = j->a->model;
    rule other = *m->rule;
    model asked = model_at(m, m->place);
    asked.rule = &other;
    other.redraw += other.mean_of ? other.mean_of : 1; /* none that the attack has seen */
    other.mean_of = 0;
    size_t right = 0, still = 0;
    for (int k = 0; k < REDRAWS; k++, other.redraw++) {
        TRY(stet_model_logits_on(&asked, j->a->device ? j->a->device : "cpu", c, logits));
        for (size_t i = 0; i < t->n; i++) {
            const bool same =
                stet_argmax(logits + i * m->n_classes, m->n_classes) == t->label[i];
            right += same;
            still += t->flipped[i] && !same;
        }
    }
    out->redraws = REDRAWS;
    out->aua_redrawn = (double)right / (double)(REDRAWS * t->n);
    out->flips_stay = t->flips ? (double)still / (double)(REDRAWS * t->flips) : 0;
    return STET_OK;
}

stet_status attack_redraw(const attack_job *j, stet_attack_result *out)
{
    arena mem = {0};
    left_texts t = {0};
    stet_corpus c = {0};
    stet_status st = take_texts(j, &mem, &t);
    if (st == STET_OK && t.n)
        st = read_texts(j->a->model, &t, &c);
    float *logits = arena_new(&mem, float, t.n * j->a->model->n_classes + 1);
    if (st == STET_OK && t.n)
        st = logits ? ask_again(j, &t, &c, logits, out) : STET_ENOMEM;
    for (size_t i = 0; t.line && i < t.n; i++)
        json_decref(t.line[i]);
    stet_corpus_deinit(&c);
    arena_deinit(&mem);
    return st;
}
