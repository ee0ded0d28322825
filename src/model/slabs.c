/* model/slabs.c - see slabs.h. */
#include "model/slabs.h"

#include <string.h>

#include "base/mem.h"

enum {
    SLAB_NUMBERS = 1 << 22, /* of a slab's rows, unless a batch has more */
    SLOT_NUMBERS = 1 << 24, /* of all tables of slots */
    MOST_IDS = 1 << 28      /* of a corpus that is kept on a device */
};
_Static_assert(SLAB_BATCHES * sizeof(uint32_t) <= LETTER_BYTES, "counts fit into a letter");

/* Host and store have the same layout: heads of all batches, then the rows of each. */
typedef struct slab {
    uint32_t *host, *at;
    slab_on on;
    const uint32_t *pick; /* its first text */
    size_t taken;         /* batches */
    store_letter letter[SLAB_SIZES];
    bool sent; /* and not received */
    uint32_t size[SLAB_SIZES][SLAB_BATCHES];
} slab;

struct slabs {
    const model *m;
    const stet_corpus *c;
    store *store;
    size_t size;                /* texts of a batch */
    const word_sets *sets;      /* or NULL */
    uint32_t *alts;             /* (texts) with sets: substitutes of all tokens of a text */
    size_t head_room, row_room; /* numbers of a slab */
    slab_on kept;               /* what all slabs share: corpus, sets and slots */
    slab slab[2];
    int now; /* the one in use */
    arena mem;
};

/* ---- the kernel --------------------------------------------------------------------------- */

static stet_status cpu_slab(const slab_on *s)
{
    for (size_t b = 0; b < s->n; b++) {
        const slab_batch x = slab_batch_of(s, b);
        batch_ids(&s->from, x.head, x.n_texts, x.row);
        const size_t words = batch_number(s->slot, x.row, x.n_tokens, x.word);
        uint32_t *count = s->count + b;
        count[SLAB_WORDS * SLAB_BATCHES] = (uint32_t)words;
        if (!s->sets.start)
            continue;
        const seq_index q = {.n_tokens = x.n_tokens, .n_rows = words, .row = x.row};
        const set_counts n = batch_number_sets(s->slot, &s->sets, &q, &x.sets);
        count[SLAB_ROWS * SLAB_BATCHES] = (uint32_t)n.n_rows;
        count[SLAB_ALT * SLAB_BATCHES] = (uint32_t)n.n_alt;
        count[SLAB_MOVING * SLAB_BATCHES] = (uint32_t)n.n_moving;
    }
    return STET_OK;
}

static stet_status (*const kernels[DEV_COUNT])(const slab_on *s) = {[DEV_CPU] = cpu_slab,
                                                                    CUDA_KERNEL(cuda_slab)};

bool slabs_suit(const model *m, const stet_corpus *c, const store *s)
{
    return kernels[s->desc->kernels] && !m->cache && c->n_tokens <= MOST_IDS;
}

/* How many of the sizes there are. */
static int n_sizes(const slabs *s)
{
    return s->sets ? SLAB_SIZES : SLAB_WORDS + 1;
}

static stet_status send_sizes(slabs *s, slab *to)
{
    const size_t bytes = to->on.n * sizeof *to->on.count;
    for (int k = 0; k < n_sizes(s); k++)
        TRY(store_send(s->store, &to->letter[k], &(const void *){to->on.count + k * SLAB_BATCHES},
                       1, bytes));
    to->sent = true;
    return STET_OK;
}

static stet_status receive_sizes(slabs *s, slab *to)
{
    to->sent = false;
    for (int k = 0; k < n_sizes(s); k++)
        TRY(store_receive(s->store, &to->letter[k], to->size[k]));
    return STET_OK;
}

/* Heads for the texts from `pick` on, and their rows and words on the way. */
static stet_status begin(slabs *s, slab *to, const uint32_t *pick, size_t left)
{
    slab_on *on = &to->on;
    if (to->sent) /* nobody took it */
        TRY(receive_sizes(s, to));
    to->pick = pick;
    to->taken = 0;
    *on = s->kept;
    on->head = to->at;
    on->row = to->at + s->head_room;
    on->count = on->row + s->row_room;
    for (size_t n; on->n < SLAB_BATCHES && left > 0; pick += n, left -= n) {
        n = left < s->size ? left : s->size;
        const size_t tokens = on->token[on->n] + batch_tokens(s->m, s->c, pick, n);
        size_t alts = on->alt[on->n];
        for (size_t i = 0; s->alts && i < n; i++)
            alts += s->alts[pick[i]];
        if (slab_room(on, on->n + 1, tokens, alts) > s->row_room)
            break;
        arena_restore(&s->mem, (arena_mark){0});
        TRY(batch_plan(s->m, s->c, pick, n, &s->mem, to->host + slab_head(on, on->n)));
        on->text[on->n + 1] = on->text[on->n] + n;
        on->alt[on->n + 1] = alts;
        on->token[++on->n] = tokens;
    }
    store_upload(s->store, to->at, to->host, slab_head(on, on->n) * sizeof *to->at);
    store_enter(s->store);
    const stet_status st = kernels[s->store->desc->kernels](on);
    store_leave(s->store);
    TRY(st);
    return send_sizes(s, to);
}

/* ---- batches ------------------------------------------------------------------------------ */

/* Is this its next batch? */
static bool comes_next(const slabs *s, const slab *from, const uint32_t *pick, size_t left)
{
    const size_t b = from->taken;
    return b < from->on.n && from->pick + from->on.text[b] == pick &&
           from->on.text[b + 1] - from->on.text[b] == (left < s->size ? left : s->size);
}

void slabs_ask(slabs *s, const uint32_t *pick, size_t left)
{
    const slab *now = &s->slab[s->now];
    slab *next = &s->slab[!s->now];
    if (comes_next(s, now, pick, left)) { /* what is asked for is behind it */
        const size_t there = now->on.text[now->on.n] - now->on.text[now->taken];
        pick += there;
        left -= there;
    }
    if (left > 0 && !(next->sent && comes_next(s, next, pick, left)))
        (void)begin(s, next, pick, left); /* where it fails, slabs_take begins again */
}

stet_status slabs_take(slabs *s, const uint32_t *pick, size_t left, batch *out)
{
    slab *now = &s->slab[s->now];
    if (!comes_next(s, now, pick, left)) {
        now = &s->slab[!s->now];
        if (!(now->sent && comes_next(s, now, pick, left)))
            TRY(begin(s, now, pick, left));
        TRY(receive_sizes(s, now));
        s->now = !s->now;
    }
    slab_on on = now->on; /* the same layout here */
    on.head = now->host;
    on.row = now->host + s->head_room;
    const size_t b = now->taken++;
    const slab_batch x = slab_batch_of(&on, b);
    *out = batch_over(x.head, x.n_texts, x.row, now->size[SLAB_WORDS][b]);
    out->block = now->host;
    out->block_bytes = (s->head_room + s->row_room) * sizeof *now->host;
    out->known = slab_head(&on, on.n) * sizeof *now->host;
    out->twin = now->at;
    out->sets = s->sets;
    out->set_rows = x.sets;
    out->n_set =
        (set_counts){now->size[SLAB_ROWS][b], now->size[SLAB_ALT][b], now->size[SLAB_MOVING][b]};
    return STET_OK;
}

/* ---- memory ------------------------------------------------------------------------------- */

/* Room for any batch, and for many of the usual ones. */
static void measure(slabs *s)
{
    size_t all = 0, largest = 0; /* numbers of texts as batches of their own */
    for (size_t i = 0; i < s->c->n_texts; i++) {
        const size_t n =
            slab_room(&s->kept, 1, text_rows(s->m, s->c, (uint32_t)i), s->alts ? s->alts[i] : 0);
        largest = n > largest ? n : largest;
        all += n;
    }
    const size_t some = all < SLAB_NUMBERS ? all : SLAB_NUMBERS, one = s->size * largest;
    s->head_room = SLAB_BATCHES * batch_head(s->size);
    s->row_room = one > some ? one : some;
    const size_t fit = 1 + SLOT_NUMBERS / s->m->n_words;
    s->kept.n_slots = fit < SLAB_BATCHES ? fit : SLAB_BATCHES;
}

static stet_status take_slab(slabs *s, slab *to)
{
    const size_t n = s->head_room + s->row_room;
    to->host = mem_alloc(n, sizeof *to->host);
    to->at = store_alloc(s->store, n + SLAB_SIZES * SLAB_BATCHES, sizeof *to->at);
    if (!to->host || !to->at)
        return STET_ENOMEM;
    memset(to->host + s->head_room, 0xff, s->row_room * sizeof *to->host); /* nobody reads there */
    return STET_OK;
}

/* The sets in the store, and what they add to each text. */
static stet_status take_sets(slabs *s)
{
    const word_sets *from = s->sets;
    const size_t n = from->start[from->n_words];
    s->alts = mem_zalloc(s->c->n_texts, sizeof *s->alts);
    word_sets *to = &s->kept.sets;
    *to = (word_sets){from->n_words, store_alloc(s->store, from->n_words + 1, sizeof *to->start),
                      store_alloc(s->store, n + 1, sizeof *to->word)};
    if (!s->alts || !to->start || !to->word)
        return STET_ENOMEM;
    store_upload(s->store, to->start, from->start, (from->n_words + 1) * sizeof *to->start);
    store_upload(s->store, to->word, from->word, n * sizeof *to->word);
    for (uint32_t i = 0; i < s->c->n_texts; i++)
        for (size_t p = 0; p < text_rows(s->m, s->c, i); p++) {
            const uint32_t w = text_word(s->m, s->c, i, p);
            s->alts[i] += from->start[w + 1] - from->start[w];
        }
    return STET_OK;
}

static stet_status take_memory(slabs *s)
{
    const stet_corpus *c = s->c;
    if (s->sets)
        TRY(take_sets(s));
    measure(s);
    const size_t slots = s->kept.n_slots * s->m->n_words;
    uint32_t *ids = store_alloc(s->store, c->n_tokens + 1, sizeof *ids);
    s->kept.from.ids = ids;
    uint64_t *start = store_alloc(s->store, c->n_texts + 1, sizeof *start);
    s->kept.from.start = start;
    s->kept.slot = store_alloc(s->store, slots, sizeof *s->kept.slot);
    if (!ids || !start || !s->kept.slot)
        return STET_ENOMEM;
    store_upload(s->store, ids, c->ids, c->n_tokens * sizeof *ids);
    store_upload(s->store, start, c->start, (c->n_texts + 1) * sizeof *start);
    store_clear(s->store, s->kept.slot, slots * sizeof *s->kept.slot);
    TRY(take_slab(s, &s->slab[0]));
    return take_slab(s, &s->slab[1]);
}

stet_status slabs_open(const model *m, const stet_corpus *c, size_t size, const word_sets *sets,
                       store *on, slabs **out)
{
    *out = NULL;
    for (size_t i = 0; i < c->n_texts; i++)
        TRY(text_check(m, c, (uint32_t)i));
    slabs *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    s->m = m;
    s->c = c;
    s->sets = sets;
    s->store = on;
    s->size = size < c->n_texts ? size : c->n_texts;
    s->kept.from = corpus_source(m, c);
    s->kept.from.ids = NULL; /* not there yet */
    s->kept.from.start = NULL;
    s->kept.n_words = m->n_words;
    const stet_status st = take_memory(s);
    if (st == STET_OK)
        *out = s;
    else
        slabs_close(s);
    return st;
}

void slabs_close(slabs *s)
{
    if (!s)
        return;
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < SLAB_SIZES; k++)
            store_letter_drop(s->store, &s->slab[i].letter[k]);
        store_release(s->store, s->slab[i].at);
        mem_free(s->slab[i].host);
    }
    store_release(s->store, (void *)s->kept.from.ids);
    store_release(s->store, (void *)s->kept.from.start);
    store_release(s->store, s->kept.sets.start);
    store_release(s->store, s->kept.sets.word);
    store_release(s->store, s->kept.slot);
    mem_free(s->alts);
    arena_deinit(&s->mem);
    mem_free(s);
}
