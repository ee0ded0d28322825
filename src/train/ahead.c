/* train/ahead.c - see ahead.h. */
#include "train/ahead.h"

#include <pthread.h>

#include "base/mem.h"
#include "model/slabs.h"

typedef enum ahead_state { IDLE, ASKED, MADE } ahead_state;

struct batch_ahead {
    const model *m;
    const stet_corpus *c;
    size_t size;
    slabs *there; /* on a device; NULL: the thread's, as is what follows */
    batcher batches;
    arena mem[2]; /* of the batch in use and of the next one */
    int next;     /* which of them */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    ahead_state state;
    bool quit;
    /* while ASKED the thread's, otherwise the caller's */
    const uint32_t *pick;
    size_t n;
    batch made;
    stet_status status;
};

static stet_status make(batch_ahead *a)
{
    arena_restore(&a->mem[a->next], (arena_mark){0});
    return batch_make(&a->batches, a->m, a->c, a->pick, a->n, &a->mem[a->next], &a->made);
}

static void *ahead_main(void *arg)
{
    batch_ahead *a = arg;
    pthread_mutex_lock(&a->lock);
    while (!a->quit) {
        if (a->state != ASKED) {
            pthread_cond_wait(&a->changed, &a->lock);
            continue;
        }
        pthread_mutex_unlock(&a->lock);
        a->status = make(a);
        pthread_mutex_lock(&a->lock);
        a->state = MADE;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static void free_thread(batch_ahead *a)
{
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    batcher_deinit(&a->batches);
    arena_deinit(&a->mem[0]);
    arena_deinit(&a->mem[1]);
}

static stet_status start_thread(batch_ahead *a)
{
    stet_status st = batcher_init(&a->batches, a->m);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    if (st == STET_OK && pthread_create(&a->thread, NULL, ahead_main, a) != 0)
        st = error_set(STET_ENOMEM, "cannot start a thread for batches");
    if (st != STET_OK)
        free_thread(a);
    return st;
}

stet_status ahead_open(const model *m, const stet_corpus *c, size_t size, store *on,
                       const word_sets *sets, batch_ahead **out)
{
    batch_ahead *a = *out = mem_zalloc(1, sizeof *a);
    if (!a)
        return STET_ENOMEM;
    a->m = m;
    a->c = c;
    a->size = size;
    const stet_status st = on ? slabs_open(m, c, size, sets, on, &a->there) : start_thread(a);
    if (st != STET_OK) {
        mem_free(a);
        *out = NULL;
    }
    return st;
}

void ahead_close(batch_ahead *a)
{
    if (!a)
        return;
    if (a->there) {
        slabs_close(a->there);
    } else {
        pthread_mutex_lock(&a->lock);
        a->quit = true;
        pthread_cond_broadcast(&a->changed);
        pthread_mutex_unlock(&a->lock);
        pthread_join(a->thread, NULL);
        free_thread(a);
    }
    mem_free(a);
}

/* Until the thread has nothing to do. Returns with the lock held. */
static void wait_for_thread(batch_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    while (a->state == ASKED)
        pthread_cond_wait(&a->changed, &a->lock);
}

static size_t first_of(const batch_ahead *a, size_t left)
{
    return left < a->size ? left : a->size;
}

void ahead_ask(batch_ahead *a, const uint32_t *pick, size_t left)
{
    if (a->there) {
        slabs_ask(a->there, pick, left);
        return;
    }
    wait_for_thread(a);
    a->pick = pick;
    a->n = first_of(a, left);
    a->state = ASKED;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

stet_status ahead_take(batch_ahead *a, const uint32_t *pick, size_t left, batch *out)
{
    if (a->there)
        return slabs_take(a->there, pick, left, out);
    const size_t n = first_of(a, left);
    wait_for_thread(a);
    const bool made = a->state == MADE && a->pick == pick && a->n == n && a->status == STET_OK;
    a->state = IDLE;
    pthread_mutex_unlock(&a->lock);
    if (!made) { /* also after a failure: messages are kept per thread */
        a->pick = pick;
        a->n = n;
        TRY(make(a));
    }
    a->next = !a->next;
    *out = a->made;
    return STET_OK;
}
