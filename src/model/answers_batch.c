/* model/answers_batch.c - what many threads asked, packed for a device, and its answers handed out. */
#include <string.h>

#include "model/answers_impl.h"

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
#define PARCEL(p, count, type, out)                                                                \
    ((type *)parcel_add(p, count, sizeof(type), (const void **)(out)))

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

/* The logits that a question is for. */
static size_t logits_asked(const answers *a, const question *q)
{
    return (q->what == MIXTURES ? q->mixed.n * q->mixed.copies : q->n_variants) * a->m->n_classes;
}

static size_t logits_of_all(const answers *a, const question *list)
{
    size_t n = 0;
    for (const question *q = list; q; q = q->next)
        n += logits_asked(a, q);
    return n;
}

/* From the device to those who asked. */
static stet_status hand_out(answers *a, question *list, const float *there)
{
    const size_t all = logits_of_all(a, list);
    float *logits = arena_alloc(&a->mem, all, sizeof *logits);
    if (!logits)
        return STET_ENOMEM;
    TRY(store_download(a->store, logits, there, all * sizeof *logits));
    for (question *q = list; q; q = q->next) {
        memcpy(q->logits, logits, logits_asked(a, q) * sizeof *logits);
        logits += logits_asked(a, q);
    }
    return STET_OK;
}

/* Variants, or whole texts. */
static stet_status answer_edits(answers *a, question *list)
{
    edit_batch b;
    TRY(pack_edits(a, list, &b));
    size_t numbers = 0;
    for (const question *q = list; q; q = q->next)
        numbers += q->room;
    float *room = store_arena_alloc(&a->values, numbers, sizeof *room);
    b.logits = store_arena_alloc(&a->values, logits_of_all(a, list), sizeof *b.logits);
    if (!room || !b.logits)
        return STET_ENOMEM;
    store_enter(a->store);
    const stet_status st = (list->what == TEXTS ? a->d->texts : a->d->edits)(a->own, &b, room);
    store_leave(a->store);
    TRY(st);
    return hand_out(a, list, b.logits);
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
                       .stride = mixture_lanes(copies),
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
    b.weight = store_arena_alloc(&a->values, b.n_slots * b.stride, sizeof *b.weight);
    b.logits = store_arena_alloc(&a->values, logits_of_all(a, list), sizeof *b.logits);
    float *room =
        store_arena_alloc(&a->values, b.n_texts * b.copies * a->d->text_room(a->own), sizeof *room);
    if (!b.weight || !b.logits || !room)
        return STET_ENOMEM;
    store_enter(a->store);
    stet_status st = a->d->weights(&b);
    if (st == STET_OK)
        st = a->d->mixtures(a->own, &b, room);
    store_leave(a->store);
    TRY(st);
    return hand_out(a, list, b.logits);
}

stet_status answers_batch(answers *a, question *list)
{
    const arena_mark mark = arena_save(&a->mem);
    const store_mark held = store_arena_save(&a->values);
    const stet_status st = list->what == RANGES     ? answer_ranges(a, list)
                           : list->what == MIXTURES ? answer_mixtures(a, list)
                                                    : answer_edits(a, list);
    arena_restore(&a->mem, mark);
    store_arena_restore(&a->values, held);
    return st;
}
