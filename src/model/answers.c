/* model/answers.c - see answers.h. */
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "model/answers_impl.h"
#include "model/rule.h"
#include "model/word_scores.h"

enum { MOST_ROOM = 1 << 28, MOST_VARIANTS = 1 << 20 }; /* of a batch: numbers of the device */

/* A thread that waits, on its own stack. */
struct waiter {
    sem_t wake;          /* posted once it has a turn, and where the device is its own now */
    size_t open;         /* questions without an answer */
    struct waiter *next; /* in line for a turn */
};

/* ---- opening ------------------------------------------------------------------------------ */

static const answer_desc *desc_for(const model *m, const store *s)
{
    const bool whole = (m->rule && has_word_scores(m)) || (m->desc->whole && m->desc->whole(m));
    const answer_desc *d = whole ? NULL : m->desc->answers;
    return d && d->kernels == s->desc->kernels ? d : NULL;
}

static stet_status prepare(answers *a)
{
    TRY(model_ready(a->m));
    a->d = desc_for(a->m, a->store);
    if (a->d) {
        const stet_status st = a->d->open(a->m, a->store, &a->own);
        if (st == STET_ENOTSUP)
            a->d = NULL;
        else if (st != STET_OK || !a->m->rule)
            return st;
    }
    a->place = (model_place){&a->w, &a->passes, &a->pass, a->d ? a : NULL};
    a->there = model_at(a->m, &a->place);
    return weights_init(&a->w, a->m, a->store);
}

stet_status answers_open(const model *m, const char *where, answers **out)
{
    store *s;
    *out = NULL;
    TRY(store_open(where, &s));
    if (s == &host_store || (m->rule && !m->rule->desc->on_device)) {
        store_close(s);
        return STET_OK;
    }
    answers *a = mem_zalloc(1, sizeof *a);
    if (!a) {
        store_close(s);
        return STET_ENOMEM;
    }
    a->m = m;
    a->store = s;
    a->values.store = a->passes.store = s;
    pthread_mutex_init(&a->lock, NULL);
    pthread_mutex_init(&a->pass, NULL);
    a->turns = (size_t)stet_threads();
    a->end = &a->line;
    const stet_status st = prepare(a);
    if (st == STET_OK)
        *out = a;
    else
        answers_close(a);
    return st;
}

void answers_close(answers *a)
{
    if (!a)
        return;
    if (a->own)
        a->d->close(a->own, a->store);
    if (a->w.store)
        weights_deinit(&a->w);
    store_arena_deinit(&a->values);
    store_arena_deinit(&a->passes);
    store_close(a->store);
    arena_deinit(&a->mem);
    pthread_mutex_destroy(&a->lock);
    pthread_mutex_destroy(&a->pass);
    mem_free(a);
}

size_t answers_at_once(const answers *a)
{
    const size_t threads = (size_t)stet_threads();
    return a && a->d && threads < ANSWERS_AT_ONCE ? ANSWERS_AT_ONCE : threads;
}

/* Under the lock. */
static void give_turn(answers *a, waiter *w)
{
    if (a->turns) {
        a->turns--;
        sem_post(&w->wake);
        return;
    }
    w->next = NULL;
    *a->end = w;
    a->end = &w->next;
}

static void hand_on_turn(answers *a)
{
    waiter *w = a->line;
    a->turns++;
    if (!w)
        return;
    a->line = w->next;
    if (!a->line)
        a->end = &a->line;
    give_turn(a, w);
}

static void wait_for_wake(waiter *w)
{
    while (sem_wait(&w->wake) != 0 && errno == EINTR)
        ;
}

void answers_begin(answers *a)
{
    if (!a)
        return;
    waiter w;
    sem_init(&w.wake, 0, 0);
    pthread_mutex_lock(&a->lock);
    give_turn(a, &w);
    pthread_mutex_unlock(&a->lock);
    wait_for_wake(&w);
    sem_destroy(&w.wake);
}

void answers_end(answers *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    hand_on_turn(a);
    pthread_mutex_unlock(&a->lock);
}

bool answers_edits_there(const answers *a)
{
    return a->d && !a->m->rule;
}

bool answers_ranges_there(const answers *a)
{
    return a->d && a->d->ranges;
}

bool answers_mixtures_there(const answers *a)
{
    return a && a->d && a->d->mixtures;
}

const model *answers_model(const answers *a, const model *m)
{
    return a && !answers_edits_there(a) ? &a->there : m;
}

bool answers_rough(const answers *a)
{
    return a && !a->d && (a->m->rule || a->store->precision != PRECISION_FP32);
}

/* ---- the queue ---------------------------------------------------------------------------- */

/* Under the lock: the first question and those like it that there is room for. The others keep their
 * order. */
static question *take(answers *a)
{
    const topic what = a->first->what;
    size_t room = 0, variants = 0;
    question *taken = NULL, **end = &taken, **at = &a->first;
    while (*at) {
        question *q = *at;
        const bool fits = !taken || (q->what == what && room + q->room <= MOST_ROOM &&
                                     variants + q->n_variants <= MOST_VARIANTS);
        if (!fits) {
            at = &q->next;
            continue;
        }
        room += q->room;
        variants += q->n_variants;
        *at = q->next;
        q->next = NULL;
        *end = q;
        end = &q->next;
    }
    return taken;
}

static void answer(answers *a, question *list)
{
    const stet_status st = answers_batch(a, list);
    for (question *q = list; q; q = q->next) {
        q->status = st;
        if (st != STET_OK)
            snprintf(q->message, sizeof q->message, "%s", stet_last_error());
    }
}

/* With the device: a batch. The next in line has the device before those of this batch go on. Of these
 * as many are woken as there are turns; each hands his on, so that nobody wakes them all. */
static void lead(answers *a)
{
    pthread_mutex_lock(&a->lock);
    question *list = take(a);
    pthread_mutex_unlock(&a->lock);
    answer(a, list);
    pthread_mutex_lock(&a->lock);
    a->busy = a->first != NULL;
    if (a->busy)
        sem_post(&a->first->by->wake); /* it waits, and nobody else takes its question */
    for (question *next; list; list = next) {
        next = list->next; /* gone once its thread goes on */
        if (--list->by->open == 0)
            give_turn(a, list->by);
    }
    pthread_mutex_unlock(&a->lock);
}

/* Questions q[0..n) of one thread, which has a turn, and has one again when they are answered. */
static stet_status ask(answers *a, question *q, size_t n)
{
    stet_status st = STET_OK;
    if (n == 0)
        return STET_OK;
    waiter w = {.open = n};
    sem_init(&w.wake, 0, 0);
    for (size_t i = 0; i < n; i++) {
        q[i].by = &w;
        q[i].next = i + 1 < n ? &q[i + 1] : NULL;
    }
    pthread_mutex_lock(&a->lock);
    question **end = &a->first;
    while (*end)
        end = &(*end)->next;
    *end = q;
    bool leads = !a->busy;
    a->busy = true;
    hand_on_turn(a);
    pthread_mutex_unlock(&a->lock);
    for (;;) {
        if (leads)
            lead(a);
        wait_for_wake(&w);
        pthread_mutex_lock(&a->lock);
        leads = w.open > 0;
        pthread_mutex_unlock(&a->lock);
        if (!leads)
            break;
    }
    sem_destroy(&w.wake);
    for (size_t i = 0; i < n; i++)
        if (st == STET_OK && q[i].status != STET_OK)
            st = error_set(q[i].status, "%s", q[i].message);
    return st;
}

stet_status answers_edits(answers *a, const uint32_t *ids, size_t n, const stet_edit *edits,
                          const size_t *start, size_t n_variants, float *logits)
{
    const uint64_t text_at[2] = {0, n};
    question q = {.what = EDITS,
                  .room = n * a->d->word_room(a->own) + n_variants * a->d->variant_room(a->own),
                  .ids = ids,
                  .text_at = text_at,
                  .n_texts = 1,
                  .edits = edits,
                  .start = start,
                  .n_variants = n_variants,
                  .logits = logits};
    return n_variants ? ask(a, &q, 1) : STET_OK;
}

/* Numbers of the device for text i of a question. */
static size_t text_room(const answers *a, const question *q, size_t i)
{
    const mixed_texts *t = &q->mixed;
    const size_t each = a->d->text_room(a->own);
    if (q->what == TEXTS)
        return each;
    const size_t slots = t->slot_at[t->start[i + 1]] - t->slot_at[t->start[i]];
    return slots * mixture_lanes(t->copies) + t->copies * each;
}

/* Texts first .. first + n of a question, whose answers have `each` numbers. */
static question piece_of(const question *q, size_t first, size_t n, size_t room, size_t each)
{
    question piece = *q;
    piece.room = room;
    piece.logits += first * each;
    if (q->what == TEXTS) {
        piece.text_at += first;
        piece.n_texts = piece.n_variants = n;
    } else {
        piece.mixed.start += first;
        piece.mixed.seed += first;
        piece.mixed.n = n;
    }
    return piece;
}

/* n texts in pieces of which several fit a batch. */
static stet_status ask_in_pieces(answers *a, const question *all, size_t n, size_t each)
{
    enum { MOST_PIECE = MOST_ROOM / 8 };
    question *q = NULL;
    size_t made = 0, cap = 0;
    stet_status st = STET_OK;
    for (size_t i = 0, some; st == STET_OK && i < n; i += some) {
        size_t room = 0;
        for (some = 0; i + some < n && some < MOST_VARIANTS / 8 && room < MOST_PIECE; some++)
            room += text_room(a, all, i + some);
        st = mem_grow(&q, &cap, made + 1, sizeof *q);
        if (st == STET_OK)
            q[made++] = piece_of(all, i, some, room, each);
    }
    if (st == STET_OK)
        st = ask(a, q, made);
    mem_free(q);
    return st;
}

stet_status answers_texts(answers *a, const stet_corpus *c, float *logits)
{
    const question all = {.what = TEXTS, .ids = c->ids, .text_at = c->start, .logits = logits};
    return ask_in_pieces(a, &all, c->n_texts, a->m->n_classes);
}

stet_status answers_mixtures(answers *a, const mixed_texts *t, float *logits)
{
    const question all = {.what = MIXTURES, .mixed = *t, .logits = logits};
    return ask_in_pieces(a, &all, t->n, t->copies * a->m->n_classes);
}

stet_status answers_ranges(answers *a, size_t n, const uint32_t *start, const uint32_t *word,
                           size_t features, const real *pad, real *lo, real *hi)
{
    question q = {.what = RANGES,
                  .room = n * a->d->word_room(a->own),
                  .n = n,
                  .at = start,
                  .word = word,
                  .features = features,
                  .pad = pad,
                  .lo = lo,
                  .hi = hi};
    return ask(a, &q, 1);
}
