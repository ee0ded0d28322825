/* train/ahead.c - see ahead.h. */
#include "train/ahead.h"

#include <pthread.h>

#include "base/mem.h"

typedef enum ahead_state { IDLE, ASKED, MADE } ahead_state;

struct batch_ahead {
    const model *m;
    const stet_corpus *c;
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

stet_status ahead_open(const model *m, const stet_corpus *c, batch_ahead **out)
{
    batch_ahead *a = mem_zalloc(1, sizeof *a);
    *out = NULL;
    if (!a)
        return STET_ENOMEM;
    a->m = m;
    a->c = c;
    stet_status st = batcher_init(&a->batches, m);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    if (st == STET_OK && pthread_create(&a->thread, NULL, ahead_main, a) != 0)
        st = error_set(STET_ENOMEM, "cannot start a thread for batches");
    if (st == STET_OK) {
        *out = a;
        return STET_OK;
    }
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    batcher_deinit(&a->batches);
    mem_free(a);
    return st;
}

void ahead_close(batch_ahead *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->quit = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    batcher_deinit(&a->batches);
    arena_deinit(&a->mem[0]);
    arena_deinit(&a->mem[1]);
    mem_free(a);
}

/* Until the thread has nothing to do. Returns with the lock held. */
static void wait_for_thread(batch_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    while (a->state == ASKED)
        pthread_cond_wait(&a->changed, &a->lock);
}

void ahead_ask(batch_ahead *a, const uint32_t *pick, size_t n)
{
    wait_for_thread(a);
    a->pick = pick;
    a->n = n;
    a->state = ASKED;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

stet_status ahead_take(batch_ahead *a, const uint32_t *pick, size_t n, batch *out)
{
    wait_for_thread(a);
    const bool there = a->state == MADE && a->pick == pick && a->n == n && a->status == STET_OK;
    a->state = IDLE;
    pthread_mutex_unlock(&a->lock);
    if (!there) { /* also after a failure: messages are kept per thread */
        a->pick = pick;
        a->n = n;
        TRY(make(a));
    }
    a->next = !a->next;
    *out = a->made;
    return STET_OK;
}
