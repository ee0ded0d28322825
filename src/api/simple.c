/* api/simple.c - see stet/simple.h. */
#include <math.h>
#include <string.h>

#include "api/result.h"
#include "base/args.h"
#include "base/json.h"
#include "base/mem.h"
#include "certify/cert_json.h"
#include "certify/certifier.h"
#include "text/dataset.h"
#include "text/words.h"

/* ---- predict ------------------------------------------------------------------------------ */

/* What is known of a question once it is answered, as a result. */
static stet_status predicted_of(const question *q, stet_predicted **out)
{
    result *r;
    *out = NULL;
    TRY(result_new(&r));
    stet_predicted *p = &r->is.predicted;
    const size_t K = stet_model_classes(q->m);
    const char *name = stet_model_class_name(q->m, (size_t)q->answer);
    float *prob = arena_new(&r->mem, float, K);
    p->label = q->answer;
    p->name = arena_strndup(&r->mem, name, strlen(name));
    p->probability = (double)q->prob[q->answer];
    p->n_classes = K;
    p->prob = prob;
    stet_status st = prob && p->name ? STET_OK : STET_ENOMEM;
    if (st == STET_OK)
        memcpy(prob, q->prob, K * sizeof *prob);
    buf b = {0};
    question_json(q, &b);
    buf_char(&b, '}');
    st = result_finish(r, st, &b, &p->json);
    *out = st == STET_OK ? p : NULL;
    return st;
}

stet_status stet_text_predict(const stet_model *m, const char *text, stet_predicted **out)
{
    *out = NULL;
    question q;
    TRY(question_open(&q, m, text, -1));
    const stet_status st = predicted_of(&q, out);
    question_close(&q);
    return st;
}

stet_status stet_text_cut(const stet_model *m, const char *text, size_t len, size_t *pieces)
{
    const word_reader *r = &m->reader;
    *pieces = 0;
    if (!r->framed)
        return STET_OK;
    stet_tokens t = {0};
    uint32_t *rows = mem_alloc(r->most_rows, sizeof *rows);
    stet_status st = rows ? reader_cut(r, text, len, &t) : STET_ENOMEM;
    size_t n = 0;
    for (size_t i = 0; st == STET_OK && i < t.n && n <= r->max_rows; i++)
        n += reader_rows(r, stet_token_word(&t, i), t.v[i].len, rows);
    if (n > r->max_rows)
        *pieces = r->max_rows;
    stet_tokens_deinit(&t);
    mem_free(rows);
    return st;
}

static stet_status predict_corpus(const stet_model *m, const char *where, const stet_corpus *c,
                                  float *prob, int *label)
{
    const size_t K = stet_model_classes(m), n = c->n_texts;
    float *logits = mem_alloc(n * K, sizeof *logits);
    stet_status st = logits ? stet_model_logits_on(m, where, c, logits) : STET_ENOMEM;
    for (size_t i = 0; st == STET_OK && i < n; i++) {
        st = model_check_logits(m, logits + i * K);
        if (st == STET_OK && prob)
            stet_softmax(logits + i * K, K, prob + i * K);
        if (st == STET_OK && label)
            label[i] = stet_argmax(logits + i * K, K);
    }
    mem_free(logits);
    return st;
}

/* The texts as a data set with the model's classes, all labelled `label`; -1: to be answered only. */
static stet_status data_of(const stet_model *m, const char *const *texts, size_t n, int label,
                           stet_dataset **out)
{
    const size_t K = stet_model_classes(m);
    stet_str *str = mem_alloc(n + 1, sizeof *str);
    int *labels = mem_alloc(n + 1, sizeof *labels);
    const char **names = mem_alloc(K, sizeof *names);
    stet_status st = str && labels && names ? STET_OK : STET_ENOMEM;
    for (size_t i = 0; st == STET_OK && i < n; i++) {
        str[i] = (stet_str){texts[i], strlen(texts[i])};
        labels[i] = label;
    }
    for (size_t c = 0; st == STET_OK && c < K; c++)
        names[c] = stet_model_class_name(m, c);
    if (st == STET_OK)
        st = dataset_of(str, labels, n, names, K, label < 0, out);
    mem_free(str);
    mem_free(labels);
    mem_free(names);
    return st;
}

static stet_status predict_texts(const stet_model *m, const char *where, bool tell,
                                 const char *const *texts, size_t n, float *prob, int *label)
{
    stet_dataset *d = NULL;
    stet_corpus c = {0};
    stet_status st = data_of(m, texts, n, -1, &d);
    if (st == STET_OK)
        st = tell ? stet_model_encode(m, d, &c) : corpus_read(d, &m->reader, &c, NULL);
    if (st == STET_OK)
        st = predict_corpus(m, where, &c, prob, label);
    stet_corpus_deinit(&c);
    stet_dataset_free(d);
    return st;
}

stet_status stet_texts_predict(const stet_model *m, const char *const *texts, size_t n, float *prob,
                               int *label)
{
    return predict_texts(m, NULL, true, texts, n, prob, label);
}

stet_status stet_texts_predict_on(const stet_model *m, const char *where, const char *const *texts,
                                  size_t n, stet_predicted **out)
{
    const size_t K = stet_model_classes(m);
    float *prob = mem_alloc(n * K + 1, sizeof *prob);
    int *label = mem_alloc(n + 1, sizeof *label);
    stet_status st =
        prob && label ? predict_texts(m, where, false, texts, n, prob, label) : STET_ENOMEM;
    for (size_t i = 0; i < n; i++)
        out[i] = NULL;
    for (size_t i = 0; st == STET_OK && i < n; i++) {
        const question q = {.m = m,
                            .prob = prob + i * K,
                            .answer = label[i],
                            .reading = {.text = {texts[i], strlen(texts[i])}}};
        st = predicted_of(&q, &out[i]);
    }
    for (size_t i = 0; st != STET_OK && i < n; i++) {
        stet_result_free(out[i]);
        out[i] = NULL;
    }
    mem_free(prob);
    mem_free(label);
    return st;
}

/* ---- attack ------------------------------------------------------------------------------- */

static void take_line(void *user, const char *line)
{
    buf *b = user;
    buf_str(b, line);
    if (b->n && b->data[b->n - 1] == '\n')
        b->data[--b->n] = '\0';
}

static size_t get_size(const json_t *o, const char *key)
{
    return (size_t)json_integer_value(json_object_get(o, key));
}

static const char *get_string(result *r, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_string(v) ? arena_strndup(&r->mem, json_string_value(v), json_string_length(v))
                             : NULL;
}

/* What the line says. */
static stet_status read_attacked(result *r, const stet_model *m, const json_t *o)
{
    stet_attacked *a = &r->is.attacked;
    const json_t *changes = json_object_get(o, "changes");
    const size_t n = json_array_size(changes);
    const char *answer = json_string_value(json_object_get(o, "answer"));
    stet_swap *swaps = arena_znew(&r->mem, stet_swap, n + 1);
    a->outcome = get_string(r, o, "outcome");
    if (!swaps || !a->outcome)
        return STET_ENOMEM;
    a->flipped = strcmp(a->outcome, "success") == 0;
    a->before = json_number_value(json_object_get(o, "before"));
    a->after = json_number_value(json_object_get(o, "after"));
    a->queries = get_size(o, "queries");
    for (size_t c = 0; answer && c < stet_model_classes(m); c++)
        if (strcmp(stet_model_class_name(m, c), answer) == 0)
            a->answer = (int)c;
    if (!a->flipped)
        return STET_OK;
    a->text = get_string(r, o, "adversarial");
    a->swaps = swaps;
    a->n_swaps = n;
    for (size_t k = 0; k < n; k++) {
        const json_t *c = json_array_get(changes, k);
        swaps[k] = (stet_swap){.position = get_size(c, "position"),
                               .start = get_size(c, "start"),
                               .end = get_size(c, "end"),
                               .from = get_string(r, c, "from"),
                               .to = get_string(r, c, "to")};
        if (!swaps[k].from || !swaps[k].to)
            return STET_ENOMEM;
    }
    return a->text ? STET_OK : STET_ENOMEM;
}

static stet_status attack_one(const stet_attack_args *how, const stet_model *m,
                              const stet_sets *sets, const char *text, int label, buf *line)
{
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    if (how)
        TRY(ARGS_TAKE(&a, how));
    if (label < 0)
        TRY(stet_model_predict(m, text, strlen(text), NULL, &label));
    stet_dataset *d = NULL;
    TRY(data_of(m, &text, 1, label, &d));
    a.model = m, a.data = d, a.sets = sets;
    a.command = NULL, a.victim = NULL, a.log = NULL, a.html = NULL;
    a.index = NULL, a.n_index = 0, a.shard = 0, a.shards = 0;
    a.each = take_line, a.each_user = line;
    stet_attack_result r;
    const stet_status st = stet_attack_run(&a, &r);
    stet_dataset_free(d);
    return st == STET_OK ? buf_status(line) : st;
}

stet_status stet_text_attack(const stet_model *m, const stet_sets *sets, const char *text,
                             int label, const stet_attack_args *how, stet_attacked **out)
{
    *out = NULL;
    buf line = {0};
    json_t *o = NULL;
    result *r = NULL;
    stet_status st = attack_one(how, m, sets, text, label, &line);
    if (st == STET_OK)
        st = json_read_text("attack", line.data, line.n, &o);
    if (st == STET_OK)
        st = result_new(&r);
    if (st != STET_OK) {
        json_decref(o);
        buf_deinit(&line);
        return st;
    }
    const char *name = json_string_value(json_object_get(o, "label"));
    for (size_t c = 0; name && c < stet_model_classes(m); c++)
        if (strcmp(stet_model_class_name(m, c), name) == 0)
            r->is.attacked.label = (int)c;
    st = read_attacked(r, m, o);
    json_decref(o);
    st = result_finish(r, st, &line, &r->is.attacked.json);
    *out = st == STET_OK ? &r->is.attacked : NULL;
    return st;
}

/* ---- certify ------------------------------------------------------------------------------ */

typedef struct proof {
    question q;
    stet_bound *bound;
    stet_choices choices;
    stet_certifier *certifier;
    stet_certificate c;
} proof;

static stet_status prove(proof *p, const stet_sets *sets, const stet_certify_how *how)
{
    stet_certify_how thorough = STET_CERTIFY_HOW;
    thorough.largest = thorough.complete = true;
    TRY(question_choices(&p->q, sets, &p->bound, &p->choices));
    TRY(stet_certifier_new(p->q.m, how ? how : &thorough, &p->certifier));
    return stet_certify_text(p->certifier, p->q.reading.ids, &p->choices, p->q.label, &p->c);
}

static stet_status copy_swap(result *r, const proof *p, uint32_t pos, uint32_t word, double drop,
                             stet_swap *out)
{
    const stet_tokens *t = &p->q.reading.tokens;
    const char *to = stet_words_word(p->q.words, word);
    *out = (stet_swap){.position = pos,
                       .start = t->v[pos].start,
                       .end = t->v[pos].end,
                       .from = arena_strndup(&r->mem, stet_token_word(t, pos), t->v[pos].len),
                       .to = arena_strndup(&r->mem, to, strlen(to)),
                       .drop = drop};
    return out->from && out->to ? STET_OK : STET_ENOMEM;
}

static stet_status copy_swaps(result *r, const proof *p, stet_certified *out)
{
    stet_swap *swaps = arena_znew(&r->mem, stet_swap, p->c.n_edits + 1),
              *harm = arena_znew(&r->mem, stet_swap, p->c.n_harm + 1);
    if (!swaps || !harm)
        return STET_ENOMEM;
    for (size_t k = 0; k < p->c.n_edits; k++)
        TRY(copy_swap(r, p, p->c.edits[k].pos, p->c.edits[k].word, 0, &swaps[k]));
    for (size_t k = 0; k < p->c.n_harm; k++)
        TRY(copy_swap(r, p, p->c.harm[k].pos, p->c.harm[k].word, p->c.harm[k].drop, &harm[k]));
    out->swaps = swaps, out->n_swaps = p->c.n_edits;
    out->harm = harm, out->n_harm = p->c.n_harm;
    return STET_OK;
}

/* The text with the counter-example's words in it. */
static stet_status flipped_text(result *r, const proof *p, stet_certified *out)
{
    const stet_str text = p->q.reading.text;
    if (out->n_swaps == 0)
        return STET_OK;
    size_t *at = arena_new(&r->mem, size_t, out->n_swaps);
    const char **with = arena_new(&r->mem, const char *, out->n_swaps);
    char *made = NULL;
    if (!at || !with)
        return STET_ENOMEM;
    for (size_t k = 0; k < out->n_swaps; k++)
        at[k] = out->swaps[k].position, with[k] = out->swaps[k].to;
    TRY(stet_text_rebuild(text.data, text.len, &p->q.reading.tokens, at, with, out->n_swaps,
                          &made));
    out->text = arena_strndup(&r->mem, made, strlen(made));
    stet_free(made);
    return out->text ? STET_OK : STET_ENOMEM;
}

static stet_status copy_proof(result *r, const proof *p)
{
    stet_certified *out = &r->is.certified;
    const stet_certificate *c = &p->c;
    const char *name = stet_model_class_name(p->q.m, (size_t)p->q.answer);
    out->verdict = c->verdict;
    out->verdict_name = stet_verdict_name(c->verdict);
    out->label = p->q.label, out->answer = p->q.answer;
    out->name = arena_strndup(&r->mem, name, strlen(name));
    out->probability = (double)p->q.prob[p->q.answer];
    out->clean = c->clean, out->margin = c->margin, out->budget = c->budget;
    out->method = arena_strndup(&r->mem, c->method, strlen(c->method));
    out->seconds = c->seconds, out->confidence = c->confidence;
    if (c->reason && !(out->reason = arena_strndup(&r->mem, c->reason, strlen(c->reason))))
        return STET_ENOMEM;
    out->changeable = stet_choices_changeable(&p->choices);
    out->substitutes = p->choices.n ? p->choices.start[p->choices.n] : 0;
    TRY(copy_swaps(r, p, out));
    TRY(flipped_text(r, p, out));
    return out->name && out->method ? STET_OK : STET_ENOMEM;
}

stet_status stet_text_certify(const stet_model *m, const stet_sets *sets, const char *text,
                              int label, const stet_certify_how *how, stet_certified **out)
{
    *out = NULL;
    proof p = {0};
    result *r = NULL;
    TRY(question_open(&p.q, m, text, label));
    stet_status st = prove(&p, sets, how);
    if (st == STET_OK)
        st = result_new(&r);
    if (st == STET_OK) {
        buf b = {0};
        question_json(&p.q, &b);
        buf_char(&b, ',');
        cert_json(&b, &(stet_certified_text){&p.q.reading, &p.choices}, &p.c);
        buf_char(&b, '}');
        st = result_finish(r, copy_proof(r, &p), &b, &r->is.certified.json);
        *out = st == STET_OK ? &r->is.certified : NULL;
    }
    stet_certificate_deinit(&p.c);
    stet_certifier_free(p.certifier);
    stet_choices_deinit(&p.choices);
    stet_bound_free(p.bound);
    question_close(&p.q);
    return st;
}
