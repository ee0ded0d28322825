/* attack/subject.c - see subject.h. A success is believed only after a full evaluation of the
 * rebuilt text and a second look at every substitution. */
#include "attack/subject.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/answers.h"

/* View and full evaluation round differently; further apart than this, one of them is wrong. */
static const double rounding = 1e-3;

static double next_number(chance *c)
{
    return rng_double(&((rng_chance *)c)->r);
}

void subject_worker_free(attack_worker *w)
{
    if (w->v)
        w->v->free(w->v);
    search_memory_free(w->memory);
    arena_deinit(&w->mem);
    stet_reading_deinit(&w->reading);
    stet_reading_deinit(&w->again);
    stet_choices_deinit(&w->choices);
    stet_words_free(w->words);
}

/* ---- reading ------------------------------------------------------------------------------ */

static stet_status start_worker(attack_job *j, attack_worker *w)
{
    const stet_attack_args *a = j->a;
    if (!w->memory)
        TRY(search_memory_new(&w->memory));
    if (!w->words)
        TRY(stet_words_fork(j->words, &w->words));
    if (w->v)
        return STET_OK;
    const size_t K = stet_dataset_classes(a->data);
    return a->model    ? victim_of_model(a->model, j->on, w->words, &w->v)
           : a->victim ? victim_of_function(j->desk, w->words, &w->v)
                       : victim_of_command(a->command, a->timeout, w->words, K, &w->v);
}

static stet_status read_text(const attack_job *j, attack_worker *w, size_t index)
{
    const stet_str text = stet_dataset_text(j->a->data, index);
    stet_reading *r = &w->reading;
    stet_words_forget(w->words);
    TRY(stet_words_read(w->words, text.data, text.len, r));
    w->text = (attack_text){.text = text, .tokens = &r->tokens, .ids = r->ids, .n = r->n};
    return stet_bound_choices(j->bound, w->words, r, &w->choices);
}

/* The candidates of positions that may change: what a proof must cover. */
static stet_status free_choices(attack_worker *w, const uint32_t *first, const uint32_t *word,
                                const unsigned char *filtered, stet_choices *out)
{
    out->start = arena_znew(&w->mem, uint32_t, out->n + 1);
    out->word = arena_new(&w->mem, uint32_t, first[out->n] + 1);
    if (!out->start || !out->word)
        return STET_ENOMEM;
    for (size_t i = 0; i < out->n; i++) {
        const uint32_t some = filtered[i] ? 0 : first[i + 1] - first[i];
        memcpy(out->word + out->start[i], word + first[i], some * sizeof *word);
        out->start[i + 1] = out->start[i] + some;
    }
    return STET_OK;
}

/* The problem, in memory of the worker: candidates cut to the limit, stop words marked. */
static stet_status set_problem(const attack_job *j, attack_worker *w)
{
    const stet_tokens *tokens = &w->reading.tokens;
    const size_t n = w->text.n, total = w->choices.start[w->choices.n];
    const size_t cap =
        j->set.common.max_candidates ? (size_t)j->set.common.max_candidates : MAX_CANDIDATES;
    uint32_t *first = arena_znew(&w->mem, uint32_t, n + 1),
             *word = arena_new(&w->mem, uint32_t, total + 1);
    unsigned char *filtered = arena_new(&w->mem, unsigned char, n + 1),
                  *listed = arena_new(&w->mem, unsigned char, n + 1);
    w->with = arena_new(&w->mem, const char *, total + 1);
    if (!first || !word || !filtered || !listed || !w->with)
        return STET_ENOMEM;
    uint32_t made = 0;
    for (size_t i = 0; i < n; i++) {
        filtered[i] =
            strmap_find(&j->stop, stet_token_word(tokens, i), tokens->v[i].len) != STRMAP_NONE;
        listed[i] = stet_bound_lists(j->bound, w->text.ids[i]) ||
                    w->choices.start[i + 1] > w->choices.start[i];
        for (uint32_t k = w->choices.start[i]; k < w->choices.start[i + 1] && made - first[i] < cap;
             k++, made++) {
            word[made] = w->choices.word[k];
            w->with[made] = w->choices.text[k];
        }
        first[i + 1] = made;
    }
    const attack_common *c = &j->set.common;
    stet_choices may = {.n = n, .words = w->words};
    if (j->prover)
        TRY(free_choices(w, first, word, filtered, &may));
    w->s = (search){.n = n,
                    .ids = w->text.ids,
                    .first = first,
                    .word = word,
                    .filtered = filtered,
                    .listed = listed,
                    .mask = STET_UNK,
                    .common = *c,
                    .v = w->v,
                    .chance = &w->chance.c,
                    .mem = &w->mem,
                    .memory = w->memory,
                    .prover = j->prover,
                    .worker = (size_t)(w - j->worker),
                    .may = may,
                    .keep = {.tagger = j->a->tagger, .words = w->words}};
    if (j->a->similarity) {
        w->s.keep.similarity = j->a->similarity;
        w->s.keep.user = j->a->similarity_user;
    } else if (c->similarity == SIMILARITY_MEAN && j->a->model) {
        w->s.keep.similarity = similarity_mean;
        w->s.keep.user = (void *)j->a->model; /* read only */
    }
    return STET_OK;
}

/* ---- checking ----------------------------------------------------------------------------- */

typedef struct adversarial {
    size_t *at; /* (n) changed positions */
    const char **with;
    size_t n;
    char *text; /* rebuilt; stet_free */
    double p;   /* of class y, by the full evaluation */
    int answer;
    bool reread; /* the rebuilt text reads as intended */
} adversarial;

static stet_status rebuild(attack_worker *w, adversarial *v)
{
    const search *s = &w->s;
    v->at = arena_new(&w->mem, size_t, s->n + 1);
    v->with = arena_new(&w->mem, const char *, s->n + 1);
    if (!v->at || !v->with)
        return STET_ENOMEM;
    for (size_t i = 0; i < s->n; i++)
        if (s->found[i] != PICK_ORIGINAL) {
            v->at[v->n] = i;
            v->with[v->n++] = w->with[s->first[i] + s->found[i] - 1];
        }
    return stet_text_rebuild(w->text.text.data, w->text.text.len, w->text.tokens, v->at, v->with, v->n,
                             &v->text);
}

/* Every substitution is in its set, looked up anew. */
static stet_status check_sets(const attack_job *j, const attack_worker *w, const adversarial *v)
{
    const stet_str text = w->text.text;
    for (size_t k = 0; k < v->n; k++) {
        bool allowed;
        TRY(stet_sets_allow(j->a->sets, text.data, text.len, w->text.tokens, v->at[k], v->with[k],
                            &allowed));
        if (!allowed || w->s.filtered[v->at[k]])
            return error_set(STET_EINTERNAL, "%s put '%s' for '%s', which its set does not allow",
                             j->d->name, v->with[k], stet_token_word(w->text.tokens, v->at[k]));
    }
    return STET_OK;
}

/* Probabilities (K) of the adversarial text by a full evaluation. */
static stet_status evaluate(const attack_job *j, attack_worker *w, adversarial *v, double *prob)
{
    const search *s = &w->s;
    const size_t K = s->n_classes;
    stet_edit *edits = arena_new(&w->mem, stet_edit, s->n + 1);
    uint32_t *want = arena_new(&w->mem, uint32_t, s->n + 1);
    if (!edits || !want)
        return STET_ENOMEM;
    for (size_t i = 0; i < s->n; i++)
        want[i] = search_word(s, i, s->found[i]);
    if (!j->a->model) { /* the program sees the rebuilt text in any case; it must stay with its
                           answer */
        for (size_t k = 0; k < v->n; k++)
            edits[k] = (stet_edit){(uint32_t)v->at[k], want[v->at[k]]};
        const size_t start[2] = {0, v->n};
        v->reread = true;
        return s->v->ask(s->v, edits, start, 1, prob);
    }
    float *p = arena_new(&w->mem, float, K);
    if (!p)
        return STET_ENOMEM;
    TRY(stet_words_read(w->words, v->text, strlen(v->text), &w->again));
    v->reread = w->again.n == s->n && memcmp(w->again.ids, want, s->n * sizeof *want) == 0;
    TRY(stet_model_answer(answers_model(j->on, j->a->model), w->words, want, s->n, p, NULL));
    for (size_t c = 0; c < K; c++)
        prob[c] = (double)p[c];
    return STET_OK;
}

static stet_status check(const attack_job *j, attack_worker *w, adversarial *v, record *r)
{
    search *s = &w->s;
    TRY(check_sets(j, w, v));
    double *prob = arena_new(&w->mem, double, s->n_classes);
    if (!prob)
        return STET_ENOMEM;
    size_t row;
    TRY(search_ask(s, s->found, &row));
    TRY(search_answer(s));
    const double claimed = search_p(s, row);
    TRY(evaluate(j, w, v, prob));
    v->p = prob[s->y];
    v->answer = most_probable(prob, s->n_classes);
    const bool holds = v->answer != s->y;
    if (j->a->model && !answers_rough(j->on) && fabs(v->p - claimed) > rounding)
        return error_set(STET_EINTERNAL, "text %zu: %s says P = %.6f, a full evaluation says %.6f",
                         r->index, j->d->name, claimed, v->p);
    r->outcome = holds ? OUTCOME_SUCCESS : OUTCOME_UNCONFIRMED;
    const double most = s->common.max_result;
    if (holds && most > 0 && (double)v->n > most * (double)s->n)
        r->outcome = OUTCOME_FAILURE;
    return STET_OK;
}

/* ---- recording ---------------------------------------------------------------------------- */

static void key(buf *b, const char *name)
{
    buf_printf(b, ",\"%s\":", name);
}

static void put_string(buf *b, const char *name, const char *s, size_t n)
{
    key(b, name);
    buf_json_string(b, s, n);
}

static void put_changes(buf *b, const attack_worker *w, const adversarial *v)
{
    key(b, "changes");
    buf_char(b, '[');
    for (size_t k = 0; k < v->n; k++) {
        const stet_token *t = &w->text.tokens->v[v->at[k]];
        buf_printf(b, "%s{\"position\":%zu,\"start\":%u,\"end\":%u", k ? "," : "", v->at[k],
                   t->start, t->end);
        put_string(b, "from", stet_token_word(w->text.tokens, v->at[k]), t->len);
        put_string(b, "to", v->with[k], strlen(v->with[k]));
        buf_char(b, '}');
    }
    buf_char(b, ']');
}

static stet_status write_line(const attack_job *j, const attack_worker *w, const adversarial *v,
                              const char *error, const record *r, buf *b)
{
    const stet_dataset *d = j->a->data;
    const stet_str text = stet_dataset_text(d, r->index);
    buf_printf(b, "{\"attack\":\"%s\",\"index\":%zu,\"outcome\":\"%s\"", j->d->name, r->index,
               outcome_names[r->outcome]);
    const char *label = stet_dataset_class_name(d, (size_t)stet_dataset_label(d, r->index));
    put_string(b, "label", label, strlen(label));
    if (error) {
        put_string(b, "error", error, strlen(error));
    } else {
        const char *answer = stet_dataset_class_name(d, (size_t)v->answer);
        put_string(b, "answer", answer, strlen(answer));
        key(b, "before");
        buf_real(b, search_p(&w->s, 0));
        key(b, "after");
        buf_real(b, v->p);
    }
    buf_printf(b,
               ",\"queries\":%llu,\"evaluations\":%llu,\"words\":%zu,\"attackable\":%zu,"
               "\"candidates\":%zu,\"changed\":%zu",
               (unsigned long long)r->queries, (unsigned long long)r->evaluations, r->words,
               r->attackable, r->candidates, r->changed);
    if (r->complete)
        buf_str(b, ",\"complete\":true");
    if (r->proved)
        buf_str(b, ",\"stopped\":\"certified\"");
    if (!error && v->text && !v->reread)
        buf_str(b, ",\"reread\":false");
    if (v->text) {
        put_changes(b, w, v);
        put_string(b, "adversarial", v->text, strlen(v->text));
    }
    put_string(b, "text", text.data, text.len);
    buf_str(b, "}\n");
    return buf_status(b);
}

/* ---- one text ----------------------------------------------------------------------------- */

static stet_status search_one(const attack_job *j, attack_worker *w, record *r, adversarial *v)
{
    search *s = &w->s;
    s->y = stet_dataset_label(j->a->data, r->index);
    TRY(search_start(s, &w->text));
    v->p = search_p(s, 0);
    v->answer = most_probable(search_prob(s, 0), s->n_classes);
    if (v->answer != s->y) {
        r->outcome = OUTCOME_WRONG;
        return STET_OK;
    }
    if (j->a->time_limit > 0)
        s->deadline = seconds_now() + j->a->time_limit;
    if (s->common.proofs)
        TRY(search_ask_proof(s, false));
    const stet_status st = s->proved ? STET_OK : j->d->run(s, j->set.cfg);
    s->deadline = 0; /* what was found is checked in any case */
    if (st == OVER_TIME) {
        r->outcome = OUTCOME_TIMEOUT;
        r->queries = s->queries;
        r->evaluations = s->evaluations;
        return STET_OK;
    }
    if (st != STET_OK && st != OVER_BUDGET)
        return st;
    r->outcome = OUTCOME_FAILURE;
    r->complete = s->complete;
    r->proved = s->proved && !s->success;
    if (s->success) {
        TRY(rebuild(w, v));
        TRY(check(j, w, v, r));
    }
    r->queries = s->queries;
    r->evaluations = s->evaluations;
    r->changed = r->outcome == OUTCOME_SUCCESS ? v->n : 0;
    return STET_OK;
}

stet_status subject_attack(attack_job *j, attack_worker *w, record *r, buf *line)
{
    const arena_mark start = arena_save(&w->mem);
    w->chance = (rng_chance){.c = {.next = next_number},
                             .r = rng_stream(j->a->seed, STREAM_ATTACK, r->index)};
    adversarial v = {0};
    stet_status st = start_worker(j, w);
    if (st == STET_OK)
        st = read_text(j, w, r->index);
    if (st == STET_OK)
        st = set_problem(j, w);
    if (st == STET_OK) {
        r->words = w->s.n;
        for (size_t i = 0; i < w->s.n; i++)
            if (search_free(&w->s, i)) {
                r->attackable++;
                r->candidates += search_count(&w->s, i);
            }
        st = search_one(j, w, r, &v);
    }
    const char *error = NULL;
    if (!j->a->model &&
        (st == STET_EIO ||
         st == STET_EFORMAT)) { /* the program's fault: the next text gets a new one */
        r->outcome = OUTCOME_ERROR;
        error = stet_last_error();
        st = STET_OK;
    }
    if (st == STET_OK)
        st = write_line(j, w, &v, error, r, line);
    stet_free(v.text);
    arena_restore(&w->mem, start);
    return st;
}
