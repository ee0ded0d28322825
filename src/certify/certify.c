/* certify/certify.c - certifiers: one text from its words to its certificate. */
#include <math.h>
#include <string.h>

#include "attack/attack_impl.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "certify/cert_scores.h"
#include "certify/certifier.h"
#include "model/answers.h"

const char *stet_verdict_name(stet_verdict v)
{
    static const char *const names[STET_VERDICTS] = {"wrong", "certified", "broken", "undecided",
                                                     "likely"};
    return (unsigned)v < STET_VERDICTS ? names[v] : "unknown";
}

void stet_certificate_deinit(stet_certificate *c)
{
    mem_free(c->harm);
    mem_free(c->edits);
    mem_free(c->reason);
    *c = (stet_certificate){0};
}

bool cert_out_of_time(const stet_certifier *c)
{
    return c->how.time_limit > 0 && seconds_now() - c->started > c->how.time_limit;
}

/* ---- certifiers --------------------------------------------------------------------------- */

stet_status cert_shared_init(cert_shared *s, const model *m, const cert_family *f)
{
    *s = (cert_shared){.m = m, .family = f};
    if (cert_by_rule(m) && !m->rule->desc->certify)
        return error_set(STET_ENOTSUP,
                         "the model answers by the prediction rule '%s', for which there are no "
                         "certificates",
                         m->rule->desc->name);
    if (m->reader.most_rows > 1 && !cert_by_rule(m))
        return error_set(STET_ENOTSUP, "certificates need a model that reads one vector per word");
    TRY(model_ready(m));
    TRY(cert_scores_check(m));
    return cert_by_rule(m) ? STET_OK : model_prepared(m, f, f->prepare, f->shared_free, &s->impl);
}

size_t cert_auto_methods(const cert_family *f)
{
    size_t n = f->n_auto;
    while (!f->n_auto && f->methods[n])
        n++;
    return n;
}

static stet_status choose_methods(stet_certifier *c)
{
    const char *const *names = c->shared->family->methods, *method = c->how.method;
    if (cert_by_rule(c->shared->m)) /* its own method, and no other: bounds are of the network */
        return !method || strcmp(method, "auto") == 0
                   ? STET_OK
                   : error_set(STET_EUSAGE,
                               "no method '%s' for a model that answers by the prediction rule "
                               "'%s'; it has auto",
                               method, c->shared->m->rule->desc->name);
    if (!method || strcmp(method, "auto") == 0) {
        c->end_method = cert_auto_methods(c->shared->family);
        c->enumerate = c->shared->family->exact ? ENUMERATE_NEVER : ENUMERATE_CHEAP;
        return STET_OK;
    }
    if (strcmp(method, cert_enumerate_name) == 0) {
        c->enumerate = ENUMERATE_ALWAYS;
        return STET_OK;
    }
    while (names[c->end_method])
        c->end_method++;
    for (size_t m = 0; m < c->end_method; m++)
        if (strcmp(names[m], method) == 0) {
            c->first_method = m;
            c->end_method = m + 1;
            return STET_OK;
        }
    buf list = {0};
    for (size_t m = 0; m < c->end_method; m++)
        buf_printf(&list, ", %s", names[m]);
    buf_printf(&list, ", %s", cert_enumerate_name);
    const stet_status st =
        error_set(STET_EUSAGE, "no method '%s' for models of kind '%s'; it has auto%s", method,
                  stet_model_kind(c->shared->m), list.data ? list.data : "");
    buf_deinit(&list);
    return st;
}

stet_status certifier_new(const cert_shared *s, const stet_certify_how *how, stet_certifier **out)
{
    json_guard(); /* witnesses are made of its values */
    *out = NULL;
    if (how->budget == 0)
        return error_set(STET_EUSAGE, "a budget of 0 substituted words leaves nothing to prove");
    stet_certifier *c = mem_zalloc(1, sizeof *c);
    if (!c)
        return STET_ENOMEM;
    c->shared = s;
    c->how = *how;
    stet_status st = choose_methods(c);
    if (st == STET_OK && !cert_by_rule(s->m))
        st = s->family->work_new(s->impl, &c->work);
    if (st == STET_OK && c->work && s->on && s->family->use)
        c->waits = c->end_method > 0 && c->end_method <= s->family->use(c->work, s->on) &&
                   how->budget == STET_ANY && !how->largest && !how->complete;
    if (st == STET_OK)
        *out = c;
    else
        stet_certifier_free(c);
    return st;
}

stet_status stet_certifier_new(const stet_model *m, const stet_certify_how *how,
                               stet_certifier **out)
{
    *out = NULL;
    const cert_family *f;
    TRY(cert_family_for(m, &f));
    cert_shared s;
    stet_status st = cert_shared_init(&s, m, f);
    if (st == STET_OK)
        st = certifier_new(&s, how, out);
    if (st != STET_OK)
        return st;
    (*out)->own = s;
    (*out)->shared = &(*out)->own;
    return STET_OK;
}

void stet_certifier_free(stet_certifier *c)
{
    if (!c)
        return;
    if (c->work)
        c->shared->family->work_free(c->work);
    if (c->victim)
        c->victim->free(c->victim);
    search_memory_free(c->memory);
    stet_view_free(c->view);
    cert_proof_drop(&c->proof);
    cert_tree_deinit(&c->tree);
    arena_deinit(&c->mem);
    buf_deinit(&c->evidence);
    mem_free(c);
}

/* ---- one text ----------------------------------------------------------------------------- */

static void forget_last(stet_certifier *c)
{
    cert_proof_drop(&c->proof);
    cert_tree_clear(&c->tree);
    arena_restore(&c->mem, (arena_mark){0});
    buf_clear(&c->evidence);
    c->text = (cert_text){0};
    c->proof = (cert_proof){0};
}

static bool listed(const uint32_t *set, uint32_t n, uint32_t word)
{
    for (uint32_t k = 0; k < n; k++)
        if (set[k] == word)
            return true;
    return false;
}

/* The text's own word first, then its substitutes; an empty text is one unknown word. */
static stet_status take_text(stet_certifier *c, const uint32_t *ids, const stet_choices *choices,
                             int label)
{
    static const uint32_t unknown = STET_UNK;
    const model *m = c->shared->m;
    const size_t n = choices->n ? choices->n : 1, total = choices->n ? choices->start[n] : 0;
    if (label < 0 || (size_t)label >= m->n_classes || n > m->max_len)
        return error_set(STET_EUSAGE,
                         "label %d of a text of %zu words: the model has %zu classes "
                         "and reads %zu words",
                         label, n, m->n_classes, m->max_len);
    uint32_t *start = arena_new(&c->mem, uint32_t, n + 1),
             *id = arena_new(&c->mem, uint32_t, n + total),
             *word = arena_new(&c->mem, uint32_t, n + total);
    if (!start || !id || !word)
        return STET_ENOMEM;
    uint32_t made = 0;
    size_t changeable = 0;
    for (size_t p = 0; p < n; p++) {
        start[p] = made;
        id[made++] = choices->n ? ids[p] : unknown;
        for (uint32_t k = choices->n ? choices->start[p] : 0;
             choices->n && k < choices->start[p + 1]; k++)
            if (!listed(id + start[p], made - start[p], choices->word[k]))
                id[made++] = choices->word[k];
        changeable += made - start[p] > 1;
    }
    start[n] = made;
    if (choices->words)
        words_rows(choices->words, id, made, word);
    else
        memcpy(word, id, made * sizeof *id);
    for (uint32_t k = 0; k < made; k++)
        if (word[k] >= m->n_words)
            return error_set(STET_EUSAGE, "word id %u outside the vocabulary of %zu", word[k],
                             m->n_words);
    c->text = (cert_text){.n = n,
                          .start = start,
                          .word = word,
                          .id = id,
                          .changeable = changeable,
                          .budget = c->how.budget < changeable ? c->how.budget : STET_ANY,
                          .label = label};
    return STET_OK;
}

static stet_status take_edits(const stet_certifier *c, const uint32_t *choice,
                              stet_certificate *out)
{
    const cert_text *t = &c->text;
    out->edits = mem_alloc(t->n, sizeof *out->edits);
    if (!out->edits)
        return STET_ENOMEM;
    for (size_t p = 0; p < t->n; p++)
        if (choice[p])
            out->edits[out->n_edits++] = (stet_edit){(uint32_t)p, t->id[t->start[p] + choice[p]]};
    return STET_OK;
}

static void take_bound(const stet_certifier *c, const cert_claim *weakest, stet_certificate *out)
{
    if (!weakest || !isfinite(weakest->bound))
        return;
    out->margin = weakest->bound;
    out->slack = weakest->slack;
    out->method = cert_method_name(c->shared->family, weakest->method);
}

/* What a proof that failed fears most, where that decides: a bound that is exact. */
static stet_status try_feared(stet_certifier *c, uint32_t *choice, stet_verdict *out)
{
    const cert_task whole = cert_task_of(&c->text, c->text.budget);
    bool broken;
    TRY(cert_worst_point(c, &c->proof.sum, &whole, choice));
    TRY(cert_confirm(c, choice, &broken));
    *out = broken ? STET_BROKEN : STET_UNDECIDED;
    return STET_OK;
}

static stet_status judge(stet_certifier *c, uint32_t *choice, stet_certificate *out)
{
    const cert_task whole = cert_task_of(&c->text, c->text.budget);
    TRY(cert_proof_init(c, &c->proof));
    TRY(cert_prove(c, &whole, &c->proof));
    take_bound(c, &c->proof.claim[c->proof.worst], out);
    out->verdict = c->proof.margin > 0 ? STET_CERTIFIED : STET_UNDECIDED;
    if (out->verdict == STET_UNDECIDED && c->shared->family->exact && c->proof.sum.additive) {
        TRY(try_feared(c, choice, &out->verdict));
    } else if (out->verdict == STET_UNDECIDED && c->how.complete) {
        TRY(cert_decide(c, choice, &out->verdict));
        out->branches = c->tree.n;
        if (out->verdict == STET_CERTIFIED)
            take_bound(c, cert_tree_weakest(&c->tree), out);
    }
    if (out->verdict == STET_BROKEN)
        TRY(take_edits(c, choice, out));
    if (out->verdict == STET_CERTIFIED)
        out->budget = c->text.budget;
    else if (c->how.largest)
        TRY(cert_largest(c, &out->budget));
    return STET_OK;
}

/* The rule's own certificate. No rule proves anything by drawing. */
static stet_status ask_rule(stet_certifier *c, const model *m, const uint32_t *ids,
                            const stet_choices *choices, stet_certificate *out)
{
    const rule_desc *d = m->rule->desc;
    out->method = d->name;
    TRY(d->certify(m->rule, m, ids, choices, &c->how, out->label, out, &c->evidence));
    return out->verdict == STET_CERTIFIED && out->confidence > 0
               ? error_set(STET_EINTERNAL, "rule '%s': a proof that rests on draws", d->name)
               : STET_OK;
}

/* The same, where words are one row each: it is given rows. */
static stet_status judge_by_rule(stet_certifier *c, const stet_choices *choices,
                                 stet_certificate *out)
{
    const model *m = answers_model(c->shared->on, c->shared->m);
    const cert_text *t = &c->text;
    uint32_t *ids = arena_new(&c->mem, uint32_t, t->n),
             *start = arena_new(&c->mem, uint32_t, t->n + 1),
             *word = arena_new(&c->mem, uint32_t, t->start[t->n]);
    if (!ids || !start || !word)
        return STET_ENOMEM;
    start[0] = 0;
    for (size_t p = 0; p < t->n; p++) {
        const uint32_t n = t->start[p + 1] - t->start[p] - 1;
        ids[p] = t->word[t->start[p]];
        memcpy(word + start[p], t->word + t->start[p] + 1, n * sizeof *word);
        start[p + 1] = start[p] + n;
    }
    const stet_choices rows = {
        .n = choices->n, .start = start, .word = word, .text = choices->text};
    TRY(ask_rule(c, m, ids, &rows, out));
    for (size_t i = 0; i < out->n_edits; i++) { /* rows; the caller has words */
        uint32_t k = t->start[out->edits[i].pos];
        while (t->word[k] != out->edits[i].word)
            k++;
        out->edits[i].word = t->id[k];
    }
    return STET_OK;
}

/* A text that cannot be bounded because its numbers overflow: that is known of it, and no more. Other
 * failures are handed back. */
static stet_status undecided(stet_status st, stet_certificate *out)
{
    if (st != STET_EFORMAT && st != STET_ENOTSUP)
        return st;
    const stet_certificate was = *out;
    char *reason = mem_strdup(stet_last_error());
    stet_certificate_deinit(out);
    *out = (stet_certificate){.verdict = STET_UNDECIDED,
                              .label = was.label,
                              .answer = was.answer,
                              .probability = was.probability,
                              .clean = was.clean,
                              .margin = -INFINITY,
                              .method = "none",
                              .confidence = was.confidence,
                              .reason = reason};
    return reason ? STET_OK : STET_ENOMEM;
}

static stet_status take_answer(stet_certifier *c, const float *logits, stet_certificate *out)
{
    const size_t K = c->shared->m->n_classes;
    float *prob = arena_new(&c->mem, float, K);
    if (!prob)
        return STET_ENOMEM;
    stet_softmax(logits, K, prob);
    out->answer = stet_argmax(logits, K);
    out->probability = (double)prob[out->answer];
    return STET_OK;
}

/* Where words have several rows it is given words. */
static stet_status judge_words(stet_certifier *c, const uint32_t *ids, const stet_choices *choices,
                               stet_certificate *out)
{
    const model *m = answers_model(c->shared->on, c->shared->m);
    uint32_t *rows = arena_new(&c->mem, uint32_t, choices->n * m->reader.most_rows + 1);
    float *logits = arena_new(&c->mem, float, m->n_classes);
    if (!rows || !logits)
        return STET_ENOMEM;
    if (!choices->words || out->label < 0 || (size_t)out->label >= m->n_classes)
        return error_set(STET_EUSAGE, "label %d: the model has %zu classes", out->label,
                         m->n_classes);
    TRY(model_logits_of(m, rows, words_rows(choices->words, ids, choices->n, rows), logits));
    TRY(model_check_logits(m, logits));
    TRY(take_answer(c, logits, out));
    out->clean = INFINITY;
    for (size_t k = 0; k < m->n_classes; k++)
        if ((int)k != out->label)
            out->clean = fmin(out->clean, (double)(logits[out->label] - logits[k]));
    if (out->answer != out->label)
        return STET_OK;
    return ask_rule(c, m, ids, choices, out);
}

static stet_status certify(stet_certifier *c, const uint32_t *ids, const stet_choices *choices,
                           int label, stet_certificate *out)
{
    if (cert_by_rule(c->shared->m) && c->shared->m->reader.most_rows > 1) {
        const stet_status by_words = judge_words(c, ids, choices, out);
        return by_words == STET_OK ? by_words : undecided(by_words, out);
    }
    TRY(take_text(c, ids, choices, label));
    uint32_t *choice = arena_znew(&c->mem, uint32_t, c->text.n);
    if (!choice)
        return STET_ENOMEM;
    stet_status st = cert_margin_at(c, choice, &out->clean);
    if (st != STET_OK)
        return undecided(st, out);
    TRY(take_answer(c, stet_view_logits(c->view), out));
    if (out->answer != label)
        return STET_OK;
    st = cert_by_rule(c->shared->m) ? judge_by_rule(c, choices, out) : judge(c, choice, out);
    return st == STET_OK ? st : undecided(st, out);
}

stet_status certifier_text(stet_certifier *c, const uint32_t *ids, const stet_choices *choices,
                           int label, stet_certificate *out)
{
    *out = (stet_certificate){.verdict = STET_WRONG,
                              .label = label,
                              .answer = -1,
                              .probability = NAN,
                              .clean = -INFINITY,
                              .margin = -INFINITY,
                              .method = "none",
                              .confidence = cert_confidence(c->shared->m)};
    forget_last(c);
    c->started = seconds_now();
    const stet_status st = certify(c, ids, choices, label, out);
    out->seconds = seconds_now() - c->started;
    if (st != STET_OK)
        stet_certificate_deinit(out);
    return st;
}

/* ---- the words that do most harm ---------------------------------------------------------- */

/* Some methods that prove a text say nothing of its words; then a more expensive one is asked. */
static stet_status find_sum(stet_certifier *c)
{
    const cert_family *f = c->shared->family;
    cert_proof *p = &c->proof;
    const cert_task t = cert_task_of(&c->text, c->text.budget);
    if (p->worst == p->label)
        return STET_OK;
    TRY(f->open(c->work, &t));
    const size_t enough = p->claim[p->worst].method;
    for (size_t m = 0; m < cert_auto_methods(f) && !(p->sum.additive && m > enough); m++) {
        p->next.additive = false;
        TRY(f->bound(c->work, m, p->worst, c->how.refine, &p->next));
        if (p->next.additive && (!p->sum.additive || p->next.margin > p->sum.margin)) {
            const cert_bound other = p->sum;
            p->sum = p->next;
            p->next = other;
        }
    }
    return STET_OK;
}

static int more_harm(const void *a, const void *b)
{
    const stet_harm *x = a, *y = b;
    if (x->drop != y->drop)
        return x->drop < y->drop ? 1 : -1;
    return (x->pos > y->pos) - (x->pos < y->pos);
}

static stet_status take_harm(stet_certifier *c, stet_certificate *out)
{
    const cert_text *t = &c->text;
    cert_bound *b = &c->proof.sum;
    b->additive = false; /* of the text as a whole, whatever was proved last */
    TRY(find_sum(c));
    out->harm = mem_alloc(t->n, sizeof *out->harm);
    if (!out->harm)
        return STET_ENOMEM;
    for (size_t p = 0; b->additive && p < t->n; p++)
        if (b->drop[p] > 0)
            out->harm[out->n_harm++] =
                (stet_harm){(uint32_t)p, t->id[t->start[p] + b->worst[p]], b->drop[p]};
    qsort(out->harm, out->n_harm, sizeof *out->harm, more_harm);
    return STET_OK;
}

stet_status stet_certify_text(stet_certifier *c, const uint32_t *ids, const stet_choices *choices,
                              int label, stet_certificate *out)
{
    TRY(certifier_text(c, ids, choices, label, out));
    const stet_status st = out->verdict == STET_WRONG || out->reason || cert_by_rule(c->shared->m)
                               ? STET_OK
                               : take_harm(c, out);
    if (st != STET_OK)
        stet_certificate_deinit(out);
    return st;
}
