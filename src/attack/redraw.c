/* attack/redraw.c - how much of an attack on a model that draws was luck. Every variant has draws
 * of its own, so a flip may be due to them and not to the words: the model is asked again. */
#include <math.h>
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

/* The texts that count, as the attack left them, and behind them each flipped one as it was. */
typedef enum kind { KEPT, FLIPPED, UNTOUCHED } kind;
typedef struct left_texts {
    stet_str *text;
    int *label;
    kind *kind;
    size_t *index; /* in the data set */
    json_t **line; /* what a flipped text lies in */
    size_t n, lines;
} left_texts;

static void add_text(const attack_job *j, left_texts *t, size_t index, kind k, const char *flipped)
{
    t->text[t->n] =
        flipped ? (stet_str){flipped, strlen(flipped)} : stet_dataset_text(j->a->data, index);
    t->label[t->n] = stet_dataset_label(j->a->data, index);
    t->index[t->n] = index;
    t->kind[t->n++] = k;
}

/* A flip whose text is read otherwise than the attack meant is left out. */
static stet_status take_text(const attack_job *j, const record *r, left_texts *t)
{
    if (r->outcome != OUTCOME_SUCCESS) {
        add_text(j, t, r->index, KEPT, NULL);
        return STET_OK;
    }
    json_t *o;
    const char *flipped;
    TRY(json_read_text("record", r->line, strlen(r->line), &o));
    t->line[t->lines++] = o;
    TRY(json_get_str(o, "record", "adversarial", &flipped));
    if (!json_is_false(json_object_get(o, "reread")))
        add_text(j, t, r->index, FLIPPED, flipped);
    return STET_OK;
}

static stet_status take_texts(const attack_job *j, arena *mem, left_texts *t)
{
    const size_t most = 2 * j->n + 1;
    t->text = arena_new(mem, stet_str, most);
    t->label = arena_new(mem, int, most);
    t->kind = arena_new(mem, kind, most);
    t->index = arena_new(mem, size_t, most);
    t->line = arena_new(mem, json_t *, most);
    if (!t->text || !t->label || !t->kind || !t->index || !t->line)
        return STET_ENOMEM;
    for (size_t i = 0; i < j->n; i++) {
        const record *r = &j->record[i];
        if (r->done && r->outcome != OUTCOME_ERROR && r->outcome != OUTCOME_TIMEOUT)
            TRY(take_text(j, r, t));
    }
    for (size_t i = 0, n = t->n; i < n; i++)
        if (t->kind[i] == FLIPPED)
            add_text(j, t, t->index[i], UNTOUCHED, NULL);
    return STET_OK;
}

static stet_status read_texts(const stet_model *m, const left_texts *t, stet_corpus *out)
{
    stet_dataset *d;
    TRY(stet_dataset_new(t->text, t->label, t->n, (const char *const *)m->class_names, m->n_classes,
                         &d));
    const stet_status st = stet_model_encode(m, d, out);
    stet_dataset_free(d);
    return st;
}

static double share(const size_t of[2])
{
    return of[0] + of[1] ? (double)of[1] / (double)(of[0] + of[1]) : NAN;
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
    size_t wrong[UNTOUCHED + 1][2] = {{0}}; /* answers about texts of each kind: right, wrong */
    for (int k = 0; k < REDRAWS; k++, other.redraw++) {
        TRY(stet_model_logits_on(&asked, j->a->device ? j->a->device : "cpu", c, logits));
        for (size_t i = 0; i < t->n; i++)
            wrong[t->kind[i]]
                 [stet_argmax(logits + i * m->n_classes, m->n_classes) != t->label[i]]++;
    }
    const size_t left[2] = {wrong[KEPT][0] + wrong[FLIPPED][0], wrong[KEPT][1] + wrong[FLIPPED][1]};
    out->redraws = REDRAWS;
    out->aua_redrawn = 1 - share(left);
    out->flips_stay = share(wrong[FLIPPED]);
    out->untouched_wrong = share(wrong[UNTOUCHED]);
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
    for (size_t i = 0; i < t.lines; i++)
        json_decref(t.line[i]);
    stet_corpus_deinit(&c);
    arena_deinit(&mem);
    return st;
}
