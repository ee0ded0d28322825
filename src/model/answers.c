/* model/answers.c - see answers.h. */
#include "model/answers.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "model/rule.h"
#include "model/word_scores.h"

enum { MOST_ROOM = 1 << 28, MOST_VARIANTS = 1 << 20 }; /* of a batch: numbers of the device */

typedef enum topic { EDITS, TEXTS, RANGES, MIXTURES } topic;

/* A thread that waits, on its own stack. */
typedef struct waiter {
    sem_t wake;          /* posted once it has a turn, and where the device is its own now */
    size_t open;         /* questions without an answer */
    struct waiter *next; /* in line for a turn */
} waiter;

/* One of its questions. */
typedef struct question {
    waiter *by;
    topic what;
    size_t room;          /* numbers of the device that it needs */
    const uint32_t *ids;  /* of n_texts texts, text i being ids[text_at[i] .. text_at[i + 1]) */
    const uint64_t *text_at;
    size_t n_texts;
    const stet_edit *edits; /* variants of one text; for whole texts there are none of these */
    const size_t *start;
    size_t n_variants; /* or texts */
    float *logits;
    mixed_texts mixed;         /* this for mixtures */
    size_t n;                  /* these for ranges: words */
    const uint32_t *at, *word;
    size_t features;
    const real *pad;
    real *lo, *hi;

    stet_status status;
    char message[256];
    struct question *next;
} question;

struct answers {
    const model *m;
    const answer_desc *d; /* NULL: the forward pass answers */
    store *store;
    void *own;       /* d's */
    model_weights w; /* of the forward pass */
    store_arena passes;
    store_arena values; /* of what d answers */
    model there; /* the model with these */
    model_place place;
    arena mem;
    pthread_mutex_t lock; /* of what follows */
    pthread_mutex_t pass; /* of the forward pass */
    question *first;      /* still to be taken up */
    bool busy;            /* some thread has the device */
    size_t turns;         /* to compute that nobody has; there are as many as threads */
    waiter *line, **end;  /* with nothing to wait for but a turn */
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

/* ---- a batch ------------------------------------------------------------------------------ */

/* The copies of a mixture, as kernels have them. */
static size_t lanes_of(size_t copies)
{
    return (copies + MIXTURE_LANES - 1) / MIXTURE_LANES * MIXTURE_LANES;
}

static size_t mixed_slots(const mixed_texts *t)
{
    return t->slot_at[t->start[t->n]] - t->slot_at[t->start[0]];
}

/* Several arrays that go to the device as one block. */
typedef struct parcel {
    char *here, *there; /* the host's copy, the device's */
    size_t used;
} parcel;

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static stet_status parcel_init(parcel *p, answers *a, size_t bytes)
{
    p->here = arena_alloc(&a->mem, bytes, 1);
    p->there = store_arena_alloc(&a->values, bytes, 1);
    p->used = 0;
    return p->here && p->there ? STET_OK : STET_ENOMEM;
}

/* Room for one array: where the host writes it; *out: where the device reads it. */
static void *parcel_add(parcel *p, size_t count, size_t size, const void **out)
{
    void *at = p->here + p->used;
    *out = p->there + p->used;
    p->used += rounded(count * size);
    return at;
}
#define PARCEL(p, count, type, out) ((type *)parcel_add(p, count, sizeof(type), (const void **)(out)))

/* Variants of texts of one length, one after the other, in tiles; their number. `out` may be NULL. */
static size_t cut_tiles(const question *list, size_t tile, uint32_t *out)
{
    size_t n = 0, some = 0, variant = 0;
    uint64_t length = 0;
    for (const question *q = list; q && tile; q = q->next)
        for (size_t i = 0; i < q->n_variants; i++, variant++) {
            const uint64_t *at = q->text_at + (q->what == TEXTS ? i : 0);
            if (some == tile || at[1] - at[0] != length)
                some = 0;
            if (some++ == 0) {
                length = at[1] - at[0];
                if (out)
                    out[2 * n] = (uint32_t)variant;
                n++;
            }
            if (out)
                out[2 * n - 1] = (uint32_t)some;
        }
    return n;
}

/* The questions' texts, variants and edits, end to end. */
static stet_status pack_edits(answers *a, const question *list, edit_batch *b)
{
    const size_t tile = a->d->tile ? a->d->tile(a->own) : 0;
    size_t edits = 0;
    *b = (edit_batch){.n_classes = a->m->n_classes, .n_tiles = cut_tiles(list, tile, NULL)};
    for (const question *q = list; q; q = q->next) {
        b->n_texts += q->n_texts;
        b->n_words += q->text_at[q->n_texts] - q->text_at[0];
        b->n_variants += q->n_variants;
        edits += q->what == TEXTS ? 0 : q->start[q->n_variants];
    }
    if (b->n_words + edits + b->n_variants > UINT32_MAX / 4)
        return error_set(STET_EUSAGE, "%zu variants with %zu edits at once", b->n_variants, edits);
    parcel p;
    TRY(parcel_init(&p, a,
                    rounded(4 * b->n_words) + rounded(4 * (b->n_texts + 1)) +
                        rounded(4 * b->n_variants) + rounded(4 * (b->n_variants + 1)) +
                        rounded(edits * sizeof(stet_edit)) + rounded(8 * b->n_tiles)));
    uint32_t *word = PARCEL(&p, b->n_words, uint32_t, &b->word),
             *first = PARCEL(&p, b->n_texts + 1, uint32_t, &b->first),
             *of = PARCEL(&p, b->n_variants, uint32_t, &b->of),
             *edit_at = PARCEL(&p, b->n_variants + 1, uint32_t, &b->edit_at);
    stet_edit *edit = PARCEL(&p, edits, stet_edit, &b->edit);
    cut_tiles(list, tile, PARCEL(&p, 2 * b->n_tiles, uint32_t, &b->tile));
    uint32_t text = 0, words = 0, variants = 0, at = 0;
    for (const question *q = list; q; q = q->next) {
        const uint64_t begin = q->text_at[0], count = q->text_at[q->n_texts] - begin;
        const bool whole = q->what == TEXTS;
        const size_t own = whole ? 0 : q->start[q->n_variants];
        memcpy(word + words, q->ids + begin, count * sizeof *word);
        if (own)
            memcpy(edit + at, q->edits, own * sizeof *edit);
        for (size_t i = 0; i < q->n_variants; i++, variants++) {
            of[variants] = text + (uint32_t)(whole ? i : 0);
            edit_at[variants] = at + (uint32_t)(whole ? 0 : q->start[i]);
        }
        for (size_t i = 0; i < q->n_texts; i++)
            first[text++] = words + (uint32_t)(q->text_at[i] - begin);
        words += (uint32_t)count;
        at += (uint32_t)own;
    }
    first[text] = words;
    edit_at[variants] = at;
    store_upload(a->store, p.there, p.here, p.used);
    return STET_OK;
}

/* Variants, or whole texts. */
static stet_status answer_edits(answers *a, question *list)
{
    edit_batch b;
    TRY(pack_edits(a, list, &b));
    const size_t K = b.n_classes;
    size_t numbers = 0;
    for (const question *q = list; q; q = q->next)
        numbers += q->room;
    float *room = store_arena_alloc(&a->values, numbers, sizeof *room);
    b.logits = store_arena_alloc(&a->values, b.n_variants * K, sizeof *b.logits);
    float *logits = arena_alloc(&a->mem, b.n_variants * K, sizeof *logits);
    if (!room || !b.logits || !logits)
        return STET_ENOMEM;
    store_enter(a->store);
    const stet_status st = (list->what == TEXTS ? a->d->texts : a->d->edits)(a->own, &b, room);
    store_leave(a->store);
    TRY(st);
    TRY(store_download(a->store, logits, b.logits, b.n_variants * K * sizeof *logits));
    for (question *q = list; q; q = q->next) {
        memcpy(q->logits, logits, q->n_variants * K * sizeof *logits);
        logits += q->n_variants * K;
    }
    return STET_OK;
}

static stet_status pack_ranges(answers *a, const question *list, range_batch *b)
{
    size_t places = 0, words = 0;
    const size_t features = list->features;
    *b = (range_batch){0};
    for (const question *q = list; q; q = q->next) {
        b->n_texts++;
        places += q->n;
        words += q->at[q->n];
    }
    parcel p;
    TRY(parcel_init(&p, a,
                    rounded(4 * (b->n_texts + 1)) + rounded(4 * (places + 1)) + rounded(4 * words) +
                        rounded(b->n_texts * features * sizeof(float))));
    uint32_t *first = PARCEL(&p, b->n_texts + 1, uint32_t, &b->first),
             *at = PARCEL(&p, places + 1, uint32_t, &b->at),
             *word = PARCEL(&p, words, uint32_t, &b->word);
    float *pad = PARCEL(&p, b->n_texts * features, float, &b->pad);
    uint32_t text = 0, place = 0, made = 0;
    for (const question *q = list; q; q = q->next) {
        first[text] = place;
        for (size_t i = 0; i < q->n; i++)
            at[place++] = made + q->at[i];
        memcpy(word + made, q->word, q->at[q->n] * sizeof *word);
        made += q->at[q->n];
        for (size_t f = 0; f < features; f++)
            pad[text * features + f] = (float)q->pad[f];
        text++;
    }
    first[text] = place;
    at[place] = made;
    store_upload(a->store, p.there, p.here, p.used);
    return STET_OK;
}

static stet_status answer_ranges(answers *a, question *list)
{
    range_batch b;
    TRY(pack_ranges(a, list, &b));
    const size_t features = list->features, count = 2 * b.n_texts * features;
    b.top = store_arena_alloc(&a->values, count, sizeof *b.top);
    float *top = arena_alloc(&a->mem, count, sizeof *top);
    if (!b.top || !top)
        return STET_ENOMEM;
    store_enter(a->store);
    const stet_status st = a->d->ranges(a->own, &b);
    store_leave(a->store);
    TRY(st);
    TRY(store_download(a->store, top, b.top, count * sizeof *top));
    for (question *q = list; q; q = q->next, top += 2 * features)
        for (size_t f = 0; f < features; f++) {
            q->lo[f] = (real)top[f];
            q->hi[f] = (real)top[features + f];
        }
    return STET_OK;
}

static stet_status pack_mixtures(answers *a, const question *list, mixed_batch *b)
{
    const size_t copies = list->mixed.copies;
    *b = (mixed_batch){.n_classes = a->m->n_classes,
                       .copies = copies,
                       .stride = lanes_of(copies),
                       .alpha = list->mixed.alpha};
    for (const question *q = list; q; q = q->next) {
        b->n_texts += q->mixed.n;
        b->n_words += q->mixed.start[q->mixed.n] - q->mixed.start[0];
        b->n_slots += mixed_slots(&q->mixed);
    }
    if (b->n_slots > UINT32_MAX / 4)
        return error_set(STET_EUSAGE, "%zu words of mixtures at once", b->n_slots);
    parcel p;
    TRY(parcel_init(&p, a,
                    rounded(8 * b->n_texts) + rounded(4 * (b->n_texts + 1)) +
                        rounded(4 * (b->n_words + 1)) + rounded(4 * b->n_slots)));
    uint64_t *seed = PARCEL(&p, b->n_texts, uint64_t, &b->seed);
    uint32_t *first = PARCEL(&p, b->n_texts + 1, uint32_t, &b->first),
             *slot_at = PARCEL(&p, b->n_words + 1, uint32_t, &b->slot_at),
             *slot = PARCEL(&p, b->n_slots, uint32_t, &b->slot);
    uint32_t text = 0, words = 0, slots = 0;
    for (const question *q = list; q; q = q->next) {
        const mixed_texts *t = &q->mixed;
        const uint64_t begin = t->start[0], end = t->start[t->n];
        memcpy(seed + text, t->seed, t->n * sizeof *seed);
        memcpy(slot + slots, t->slot + t->slot_at[begin], mixed_slots(t) * sizeof *slot);
        for (size_t i = 0; i < t->n; i++)
            first[text++] = words + (uint32_t)(t->start[i] - begin);
        for (uint64_t w = begin; w < end; w++)
            slot_at[words++] = slots + (t->slot_at[w] - t->slot_at[begin]);
        slots += (uint32_t)mixed_slots(t);
    }
    first[text] = words;
    slot_at[words] = slots;
    store_upload(a->store, p.there, p.here, p.used);
    return STET_OK;
}

static stet_status answer_mixtures(answers *a, question *list)
{
    mixed_batch b;
    TRY(pack_mixtures(a, list, &b));
    const size_t count = b.n_texts * b.copies * b.n_classes;
    b.weight = store_arena_alloc(&a->values, b.n_slots * b.stride, sizeof *b.weight);
    b.logits = store_arena_alloc(&a->values, count, sizeof *b.logits);
    float *room = store_arena_alloc(&a->values, b.n_texts * b.copies * a->d->text_room(a->own),
                                    sizeof *room),
          *logits = arena_alloc(&a->mem, count, sizeof *logits);
    if (!b.weight || !b.logits || !room || !logits)
        return STET_ENOMEM;
    store_enter(a->store);
    stet_status st = a->d->weights(&b);
    if (st == STET_OK)
        st = a->d->mixtures(a->own, &b, room);
    store_leave(a->store);
    TRY(st);
    TRY(store_download(a->store, logits, b.logits, count * sizeof *logits));
    for (question *q = list; q; q = q->next) {
        const size_t own = q->mixed.n * b.copies * b.n_classes;
        memcpy(q->logits, logits, own * sizeof *logits);
        logits += own;
    }
    return STET_OK;
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
    const arena_mark mark = arena_save(&a->mem);
    const store_mark held = store_arena_save(&a->values);
    const stet_status st = list->what == RANGES     ? answer_ranges(a, list)
                           : list->what == MIXTURES ? answer_mixtures(a, list)
                                                    : answer_edits(a, list);
    arena_restore(&a->mem, mark);
    store_arena_restore(&a->values, held);
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
    return slots * lanes_of(t->copies) + t->copies * each;
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
