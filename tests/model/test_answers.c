/* Questions of many threads on a device: whole texts by the forward pass, and the queue that makes one
 * batch of what all ask. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/pool.h"
#include "model/answers.h"
#include "model/small_model.h"
#include "tensor/locked_store.h"

enum { ASKERS = 24, VARIANTS = 5, CLASSES = 3, LONGEST = 9 };

static void know_device(void)
{
    static bool known;
    if (!known)
        CHECK_OK(store_register(&locked_desc));
    known = true;
}

typedef struct asker {
    uint32_t ids[LONGEST];
    size_t n, start[VARIANTS + 1];
    stet_edit edits[VARIANTS * LONGEST];
    float logits[VARIANTS * CLASSES], clean[CLASSES];
    stet_status status;
    char message[128];
} asker;

/* Variant i has i edits, as far as the text has words. */
static void draw(asker *a, rng *r)
{
    a->n = 1 + rng_below(r, LONGEST);
    a->start[0] = 0;
    for (size_t i = 0; i < a->n; i++)
        a->ids[i] = (uint32_t)rng_below(r, SMALL_WORDS + STET_FIRST_WORD);
    for (size_t i = 0; i < VARIANTS; i++) {
        size_t at = a->start[i];
        for (uint32_t p = 0; p < a->n && p < i; p++)
            a->edits[at++] =
                (stet_edit){p, (uint32_t)rng_below(r, SMALL_WORDS + STET_FIRST_WORD)};
        a->start[i + 1] = at;
    }
}

typedef struct crowd {
    const model *m;
    answers *on;
    asker a[ASKERS];
} crowd;

static atomic_int computing, most_computing;

/* What a thread does between its questions. */
static void compute(void)
{
    const int now = ++computing;
    for (int most = most_computing; now > most;)
        if (atomic_compare_exchange_weak(&most_computing, &most, now))
            break;
    usleep(2000);
    computing--;
}

static void ask_one(void *ctx, size_t i, int worker)
{
    crowd *c = ctx;
    asker *a = &c->a[i];
    stet_view *v = NULL;
    (void)worker;
    answers_begin(c->on);
    compute();
    a->status = view_open_on(c->m, c->on, NULL, a->ids, a->n, &v);
    if (a->status == STET_OK)
        memcpy(a->clean, stet_view_logits(v), sizeof a->clean);
    compute();
    if (a->status == STET_OK)
        a->status = stet_view_edits(v, a->edits, a->start, VARIANTS, a->logits);
    snprintf(a->message, sizeof a->message, "%s", a->status == STET_OK ? "" : stet_last_error());
    compute();
    stet_view_free(v);
    answers_end(c->on);
}

static void ask_all(crowd *c, const model *m, const char *where)
{
    rng r = rng_stream(5, STREAM_TEST, 1);
    c->m = m;
    for (size_t i = 0; i < ASKERS; i++)
        draw(&c->a[i], &r);
    CHECK_OK(answers_open(m, where, &c->on));
    pool_run_wide(ASKERS, ASKERS, ask_one, c);
    answers_close(c->on);
}

TEST(a_device_answers_as_views_do)
{
    static crowd here, there;
    know_device();
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        model *m = small_model(kind, CLASSES, 9);
        ask_all(&here, m, "cpu");
        ask_all(&there, m, "locked");
        CHECK(here.on == NULL && there.on != NULL);
        for (size_t i = 0; i < ASKERS; i++) {
            CHECK_OK(here.a[i].status);
            CHECK_OK(there.a[i].status);
            for (int k = 0; k < CLASSES; k++)
                CHECK_NEAR(there.a[i].clean[k], here.a[i].clean[k], 1e-5);
            for (int k = 0; k < VARIANTS * CLASSES; k++)
                CHECK_NEAR(there.a[i].logits[k], here.a[i].logits[k], 1e-5);
        }
        stet_model_free(m);
    }
}

/* ---- a kind of our own -------------------------------------------------------------------- */

/* Says of a text what its words and places come to, so that a mix-up shows. */
static float toy_logit(const uint32_t *ids, size_t n, const stet_edit *e, size_t n_e, size_t c)
{
    double sum = (double)(c * n);
    for (size_t i = 0; i < n; i++) {
        uint32_t word = ids[i];
        for (size_t k = 0; k < n_e; k++)
            word = e[k].pos == i ? e[k].word : word;
        sum += (double)((i + c + 1) * word);
    }
    return (float)sum;
}

static int toy_batches;
static size_t toy_most; /* texts of a batch */
static bool toy_fails;

static stet_status toy_open(const model *m, store *s, void **out)
{
    (void)m;
    (void)s;
    *out = mem_zalloc(1, 1);
    return STET_OK;
}

static void toy_close(void *own, store *s)
{
    (void)s;
    mem_free(own);
}

static size_t toy_room(const void *own)
{
    (void)own;
    return 1;
}

static size_t toy_tile(const void *own)
{
    (void)own;
    return 2;
}

static size_t words_of(const edit_batch *b, size_t variant)
{
    return b->first[b->of[variant] + 1] - b->first[b->of[variant]];
}

static stet_status toy_answers(const edit_batch *b)
{
    if (toy_batches++ == 0)
        usleep(500000); /* the others ask meanwhile */
    toy_most = b->n_texts > toy_most ? b->n_texts : toy_most;
    size_t tiled = 0;
    for (size_t i = 0; i < b->n_tiles; i++) {
        const uint32_t from = b->tile[2 * i], some = b->tile[2 * i + 1];
        CHECK(from == tiled && some >= 1 && some <= 2);
        CHECK_EQ(words_of(b, from), words_of(b, from + some - 1));
        if (i > 0) /* nothing is cut that could go together */
            CHECK(b->tile[2 * i - 1] == 2 || words_of(b, from) != words_of(b, from - 1));
        tiled += some;
    }
    CHECK_EQ(tiled, b->n_variants);
    for (size_t v = 0; v < b->n_variants; v++)
        for (size_t c = 0; c < b->n_classes; c++)
            b->logits[v * b->n_classes + c] =
                toy_logit(b->word + b->first[b->of[v]], b->first[b->of[v] + 1] - b->first[b->of[v]],
                          b->edit + b->edit_at[v], b->edit_at[v + 1] - b->edit_at[v], c);
    return toy_fails ? error_set(STET_EDEVICE, "the toy broke") : STET_OK;
}

static stet_status toy_edits(const void *own, const edit_batch *b, float *room)
{
    (void)own;
    room[b->n_words + b->n_variants - 1] = 1; /* it is there */
    return toy_answers(b);
}

static stet_status toy_texts(const void *own, const edit_batch *b, float *room)
{
    (void)own;
    room[b->n_variants - 1] = 1;
    CHECK(b->n_variants == b->n_texts && b->edit_at[b->n_variants] == 0);
    return toy_answers(b);
}

/* Copy c of a text says the sum of its seed, its rows' numbers and where they stand, times c + 1. */
static float toy_mixed(uint64_t seed, const uint32_t *slot_at, const uint32_t *slot, size_t n, size_t c)
{
    double sum = (double)seed;
    for (size_t w = 0; w < n; w++)
        for (uint32_t s = slot_at[w]; s < slot_at[w + 1]; s++)
            sum += (double)((w + 1) * slot[s]);
    return (float)(sum * (double)(c + 1));
}

static stet_status toy_weights(const mixed_batch *b)
{
    for (size_t i = 0; i < b->n_slots * b->stride; i++)
        b->weight[i] = 1;
    return STET_OK;
}

static stet_status toy_mixtures(const void *own, const mixed_batch *b, float *room)
{
    (void)own;
    CHECK(b->stride % MIXTURE_LANES == 0 && b->stride >= b->copies);
    CHECK(b->weight[b->n_slots * b->stride - 1] == 1 && b->alpha == 0.25);
    room[b->n_texts * b->copies - 1] = 1;
    if (toy_batches++ == 0)
        usleep(500000);
    toy_most = b->n_texts > toy_most ? b->n_texts : toy_most;
    for (size_t i = 0; i < b->n_texts; i++)
        for (size_t c = 0; c < b->copies; c++)
            for (size_t k = 0; k < b->n_classes; k++)
                b->logits[(i * b->copies + c) * b->n_classes + k] =
                    (float)k + toy_mixed(b->seed[i], b->slot_at + b->first[i], b->slot,
                                         b->first[i + 1] - b->first[i], c);
    return STET_OK;
}

static const answer_desc toy = {.kernels = DEV_CPU,
                                .open = toy_open,
                                .close = toy_close,
                                .word_room = toy_room,
                                .variant_room = toy_room,
                                .tile = toy_tile,
                                .edits = toy_edits,
                                .texts = toy_texts,
                                .text_room = toy_room,
                                .mixtures = toy_mixtures,
                                .weights = toy_weights};

/* A model for which that answers. */
static model *toy_model(void)
{
    static model_desc desc;
    know_device();
    model *m = small_model(0, CLASSES, 9);
    desc = *m->desc;
    desc.answers = &toy;
    m->desc = &desc;
    return m;
}

TEST(everybody_gets_his_own_answers_from_shared_batches)
{
    static crowd c;
    model *m = toy_model();
    toy_batches = 0;
    toy_most = 0;
    most_computing = 0;
    stet_set_threads(4);
    ask_all(&c, m, "locked");
    CHECK_LE(4, toy_most);
    CHECK_LE(most_computing, 4);
    for (size_t i = 0; i < ASKERS; i++) {
        const asker *a = &c.a[i];
        CHECK_OK(a->status);
        for (size_t k = 0; k < CLASSES; k++)
            CHECK(a->clean[k] == toy_logit(a->ids, a->n, NULL, 0, k));
        for (size_t v = 0; v < VARIANTS; v++)
            for (size_t k = 0; k < CLASSES; k++)
                CHECK(a->logits[v * CLASSES + k] ==
                      toy_logit(a->ids, a->n, a->edits + a->start[v],
                                a->start[v + 1] - a->start[v], k));
    }
    toy_fails = true;
    ask_all(&c, m, "locked");
    toy_fails = false;
    for (size_t i = 0; i < ASKERS; i++) {
        CHECK_EQ((int)c.a[i].status, (int)STET_EDEVICE);
        CHECK(strstr(c.a[i].message, "the toy broke") != NULL);
    }
    stet_model_free(m);
}

/* Some texts of each asker: as they are, or with words that are mixtures. */
enum { ITS_TEXTS = 6, MIXED_COPIES = 5 };
typedef struct texts_asker {
    uint64_t start[ITS_TEXTS + 1], seed[ITS_TEXTS];
    uint32_t ids[ITS_TEXTS * LONGEST], slot_at[ITS_TEXTS * LONGEST + 1],
        slot[3 * ITS_TEXTS * LONGEST];
    float logits[ITS_TEXTS * CLASSES], mixed[ITS_TEXTS * MIXED_COPIES * CLASSES];
    stet_status status;
} texts_asker;

typedef struct texts_crowd {
    answers *on;
    texts_asker a[ASKERS];
} texts_crowd;

static void ask_texts(void *ctx, size_t i, int worker)
{
    texts_crowd *c = ctx;
    texts_asker *a = &c->a[i];
    (void)worker;
    const stet_corpus texts = {.n_texts = ITS_TEXTS, .ids = a->ids, .start = a->start};
    const mixed_texts mixed = {.n = ITS_TEXTS,
                               .copies = MIXED_COPIES,
                               .alpha = 0.25,
                               .start = a->start,
                               .slot_at = a->slot_at,
                               .slot = a->slot,
                               .seed = a->seed};
    answers_begin(c->on);
    a->status = answers_texts(c->on, &texts, a->logits);
    if (a->status == STET_OK)
        a->status = answers_mixtures(c->on, &mixed, a->mixed);
    answers_end(c->on);
}

TEST(whole_texts_and_mixtures_share_batches_too)
{
    static texts_crowd c;
    model *m = toy_model();
    rng r = rng_stream(6, STREAM_TEST, 1);
    for (size_t i = 0; i < ASKERS; i++) {
        texts_asker *a = &c.a[i];
        const uint64_t before = i % 3; /* a question need not begin with the first word */
        a->start[0] = before;
        for (size_t t = 0; t < ITS_TEXTS; t++) {
            a->start[t + 1] = a->start[t] + 1 + rng_below(&r, t % 2 ? 2 : LONGEST - 1);
            a->seed[t] = rng_below(&r, 1000);
        }
        for (size_t w = 0; w < a->start[ITS_TEXTS]; w++) {
            a->ids[w] = (uint32_t)rng_below(&r, SMALL_WORDS);
            a->slot_at[w + 1] = a->slot_at[w] + 1 + (uint32_t)rng_below(&r, 3);
        }
        for (uint32_t s = 0; s < a->slot_at[a->start[ITS_TEXTS]]; s++)
            a->slot[s] = (uint32_t)rng_below(&r, SMALL_WORDS);
    }
    CHECK_OK(answers_open(m, "locked", &c.on));
    CHECK(answers_mixtures_there(c.on) && !answers_mixtures_there(NULL));
    toy_batches = 0;
    toy_most = 0;
    pool_run_wide(ASKERS, ASKERS, ask_texts, &c);
    CHECK_LE(4 * ITS_TEXTS, toy_most);
    for (size_t i = 0; i < ASKERS; i++) {
        const texts_asker *a = &c.a[i];
        CHECK_OK(a->status);
        for (size_t t = 0; t < ITS_TEXTS; t++) {
            const size_t n = (size_t)(a->start[t + 1] - a->start[t]);
            for (size_t k = 0; k < CLASSES; k++) {
                CHECK(a->logits[t * CLASSES + k] == toy_logit(a->ids + a->start[t], n, NULL, 0, k));
                for (size_t v = 0; v < MIXED_COPIES; v++)
                    CHECK(a->mixed[(t * MIXED_COPIES + v) * CLASSES + k] ==
                          (float)k + toy_mixed(a->seed[t], a->slot_at + a->start[t], a->slot, n, v));
            }
        }
    }
    answers_close(c.on);
    stet_model_free(m);
}

/* More texts than make one question. */
TEST(many_texts_are_asked_in_pieces)
{
    enum { MANY = 150000 };
    model *m = toy_model();
    answers *on;
    uint64_t *start = mem_alloc(MANY + 1, sizeof *start), *seed = mem_alloc(MANY, sizeof *seed);
    uint32_t *ids = mem_alloc(MANY, sizeof *ids), *slot_at = mem_alloc(MANY + 1, sizeof *slot_at);
    float *logits = mem_alloc(MANY * CLASSES, sizeof *logits);
    for (uint32_t i = 0; i <= MANY; i++)
        start[i] = slot_at[i] = i;
    for (uint32_t i = 0; i < MANY; i++)
        ids[i] = i % SMALL_WORDS, seed[i] = i / 3;
    const stet_corpus texts = {.n_texts = MANY, .ids = ids, .start = start};
    const mixed_texts mixed = {MANY, 1, 0.25, start, slot_at, ids, seed};
    CHECK_OK(answers_open(m, "locked", &on));
    toy_batches = 1;
    CHECK_OK(answers_texts(on, &texts, logits));
    for (size_t i = 0; i < MANY; i++)
        for (size_t k = 0; k < CLASSES; k++)
            CHECK(logits[i * CLASSES + k] == toy_logit(ids + i, 1, NULL, 0, k));
    CHECK_OK(answers_mixtures(on, &mixed, logits));
    for (size_t i = 0; i < MANY; i++)
        for (size_t k = 0; k < CLASSES; k++)
            CHECK(logits[i * CLASSES + k] ==
                  (float)k + toy_mixed(seed[i], slot_at + i, ids, 1, 0));
    answers_close(on);
    mem_free(start);
    mem_free(seed);
    mem_free(ids);
    mem_free(slot_at);
    mem_free(logits);
    stet_model_free(m);
}
