/* attack/victim_function.c - a function of the host as the victim: variants as texts in, probabilities
 * out.
 *
 * Texts under attack share the function. Whoever has questions lays them on the desk and waits; the
 * last to come takes all that lies there to the function. So a call has the questions of all texts
 * under attack, and which those are does not depend on who is faster. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attack/attack_impl.h"
#include "base/mem.h"

static const double sum_tolerance = 1e-3;
enum { PATIENCE_MS = 100 }; /* for one that takes long to think, or that never comes */

/* What one text asks at once. */
typedef struct question {
    const attack_text *text;
    char **texts; /* (n) */
    size_t n;
    double *prob; /* (n, K) */
    bool answered;
    stet_status st;
    char *message; /* of a failure */
} question;

struct victim_desk {
    const stet_attack_args *a;
    size_t n_classes;
    size_t workers, left; /* who may ask; texts that are not done */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool asking;        /* somebody is with the function */
    question **waiting; /* (n_waiting <= workers) */
    size_t n_waiting, arrivals;
    question **taken; /* (workers) with whoever asks, and room for the call: */
    const char **texts;
    double *prob;
    size_t cap_texts, cap_prob;
};

typedef struct function_victim {
    victim v;
    victim_desk *desk;
    const stet_words *words;
    const attack_text *text;
    char **texts; /* (cap) */
    size_t cap;
} function_victim;

stet_status attack_text_edited(const attack_text *t, const stet_words *w, const stet_edit *edits,
                               size_t n, char **out)
{
    size_t *at = mem_alloc(n + 1, sizeof *at);
    const char **with = mem_alloc(n + 1, sizeof *with);
    *out = NULL;
    stet_status st = at && with ? STET_OK : STET_ENOMEM;
    for (size_t k = 0; st == STET_OK && k < n; k++) {
        at[k] = edits[k].pos;
        with[k] = edits[k].word == WORD_DELETED ? "" : stet_words_word(w, edits[k].word);
    }
    if (st == STET_OK)
        st = stet_text_rebuild(t->text.data, t->text.len, t->tokens, at, with, n, out);
    mem_free(at);
    mem_free(with);
    return st;
}

const char *victim_row_wrong(const double *prob, size_t k)
{
    double sum = 0;
    for (size_t c = 0; c < k; c++) {
        if (!(prob[c] >= 0))
            return "a probability is not a number from 0 to 1";
        sum += prob[c];
    }
    return fabs(sum - 1) <= sum_tolerance ? NULL : "the probabilities of a text do not sum to 1";
}

/* ---- at the desk -------------------------------------------------------------------------- */

stet_status victim_desk_new(const stet_attack_args *a, size_t workers, size_t texts,
                            victim_desk **out)
{
    victim_desk *d = mem_zalloc(1, sizeof *d);
    *out = d;
    if (!d)
        return STET_ENOMEM;
    d->a = a;
    d->n_classes = stet_dataset_classes(a->data);
    d->workers = workers;
    d->left = texts;
    pthread_mutex_init(&d->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&d->changed, &attr);
    pthread_condattr_destroy(&attr);
    d->waiting = mem_alloc(workers, sizeof(question *));
    d->taken = mem_alloc(workers, sizeof(question *));
    return d->waiting && d->taken ? STET_OK : STET_ENOMEM;
}

void victim_desk_free(victim_desk *d)
{
    if (!d)
        return;
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    mem_free(d->waiting);
    mem_free(d->taken);
    mem_free(d->texts);
    mem_free(d->prob);
    mem_free(d);
}

void victim_desk_text_done(victim_desk *d)
{
    pthread_mutex_lock(&d->lock);
    d->left--;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

static stet_status call(const victim_desk *d, const char *const *texts, size_t n, double *prob)
{
    for (size_t i = 0; i < n * d->n_classes; i++)
        prob[i] = -1; /* what it does not fill in is noticed */
    stet_set_error("");
    const stet_status st = d->a->victim(d->a->victim_user, texts, n, d->n_classes, prob);
    const char *message = stet_last_error();
    return st == STET_OK      ? STET_OK
           : st == STET_EINTR ? error_set(STET_EINTR, "%s", *message ? message : "interrupted")
                              /* whatever it was, it is about these texts */
                              : error_set(STET_EIO, "%s", *message ? message : "the victim failed");
}

/* All texts of n questions, in as few calls as may be. */
static stet_status ask_together(victim_desk *d, question *const *q, size_t n)
{
    const size_t K = d->n_classes;
    size_t total = 0, at = 0;
    for (size_t i = 0; i < n; i++)
        total += q[i]->n;
    TRY(mem_grow(&d->texts, &d->cap_texts, total, sizeof *d->texts));
    TRY(mem_grow(&d->prob, &d->cap_prob, total * K, sizeof *d->prob));
    for (size_t i = 0; i < n; at += q[i++]->n)
        memcpy(d->texts + at, q[i]->texts, q[i]->n * sizeof *d->texts);
    const size_t most = d->a->victim_batch ? d->a->victim_batch : total;
    for (size_t i = 0; i < total; i += most)
        TRY(call(d, d->texts + i, total - i < most ? total - i : most, d->prob + i * K));
    at = 0;
    for (size_t i = 0; i < n; at += q[i++]->n)
        memcpy(q[i]->prob, d->prob + at * K, q[i]->n * K * sizeof *d->prob);
    return STET_OK;
}

static void answer(question *q, stet_status st)
{
    q->st = st;
    q->message = st == STET_OK ? NULL : mem_strdup(stet_last_error());
}

/* Long texts beside long ones, which spares the victim padding. */
static int by_length(const void *x, const void *y)
{
    const attack_text *a = (*(question *const *)x)->text, *b = (*(question *const *)y)->text;
    return a->text.len != b->text.len
               ? (a->text.len > b->text.len) - (a->text.len < b->text.len)
               : (a->text.data > b->text.data) - (a->text.data < b->text.data);
}

/* A failure is the fault of one text: then each is asked about by itself. */
static void serve(victim_desk *d, size_t n)
{
    qsort(d->taken, n, sizeof(question *), by_length);
    const stet_status st = ask_together(d, d->taken, n);
    const bool again = st != STET_OK && st != STET_EINTR && n > 1;
    for (size_t i = 0; i < n; i++)
        answer(d->taken[i], again ? ask_together(d, &d->taken[i], 1) : st);
}

/* Under the lock. False: nobody came for a while. */
static bool wait_for_change(victim_desk *d)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += PATIENCE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    const size_t before = d->arrivals;
    return pthread_cond_timedwait(&d->changed, &d->lock, &until) != ETIMEDOUT ||
           d->arrivals != before;
}

static stet_status ask_at_desk(victim_desk *d, question *q)
{
    bool patient = true;
    pthread_mutex_lock(&d->lock);
    d->waiting[d->n_waiting++] = q;
    d->arrivals++;
    while (!q->answered) {
        const size_t expected = d->left < d->workers ? d->left : d->workers;
        if (d->asking || (d->n_waiting < expected && patient)) {
            const bool called = d->asking; /* who comes back from a call has time to think */
            patient = wait_for_change(d) || called;
            continue;
        }
        const size_t n = d->n_waiting;
        memcpy(d->taken, d->waiting, n * sizeof(question *));
        d->n_waiting = 0;
        d->asking = true;
        pthread_mutex_unlock(&d->lock);
        serve(d, n);
        pthread_mutex_lock(&d->lock);
        for (size_t i = 0; i < n; i++)
            d->taken[i]->answered = true;
        d->asking = false;
        pthread_cond_broadcast(&d->changed);
    }
    pthread_mutex_unlock(&d->lock);
    const stet_status st =
        q->st == STET_OK
            ? STET_OK
            : error_set(q->st, "%s", q->message ? q->message : stet_status_text(q->st));
    mem_free(q->message);
    return st;
}

/* ---- the victim of one thread ------------------------------------------------------------- */

static stet_status open_text(victim *v, const attack_text *t)
{
    ((function_victim *)v)->text = t;
    return STET_OK;
}

static stet_status ask(victim *v, const stet_edit *edits, const size_t *first, size_t n,
                       double *prob)
{
    function_victim *f = (function_victim *)v;
    TRY(mem_grow(&f->texts, &f->cap, n, sizeof *f->texts));
    question q = {.text = f->text, .texts = f->texts, .prob = prob};
    stet_status st = STET_OK;
    for (; st == STET_OK && q.n < n; q.n++)
        st = attack_text_edited(f->text, f->words, edits + first[q.n], first[q.n + 1] - first[q.n],
                                &q.texts[q.n]);
    if (st == STET_OK)
        st = ask_at_desk(f->desk, &q);
    for (size_t i = 0; i < q.n; i++)
        stet_free(q.texts[i]);
    for (size_t i = 0; st == STET_OK && i < n; i++) {
        const char *wrong = victim_row_wrong(prob + i * v->n_classes, v->n_classes);
        if (wrong)
            st = error_set(STET_EFORMAT, "victim: %s", wrong);
    }
    return st;
}

static void free_victim(victim *v)
{
    mem_free(((function_victim *)v)->texts);
    mem_free(v);
}

stet_status victim_of_function(victim_desk *desk, const stet_words *w, victim **out)
{
    function_victim *f = mem_zalloc(1, sizeof *f);
    if (!f)
        return STET_ENOMEM;
    f->v =
        (victim){.n_classes = desk->n_classes, .open = open_text, .ask = ask, .free = free_victim};
    f->desk = desk;
    f->words = w;
    *out = &f->v;
    return STET_OK;
}
