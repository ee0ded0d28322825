/* model/cnn_words.c - what every tap of every filter makes of a word, computed when it is first needed:
 * a text and its substitutes are a few hundred words of a vocabulary of fifty thousand.
 *
 * Whoever needs words claims those that nobody has, computes them, and only then waits for those that
 * others have claimed. Nobody with a claim waits, for others or for the pool, so nobody waits for
 * ever. A word's numbers have the same bits in any company (panel.h). */
#include <sched.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "model/cnn.h"
#include "tensor/host/panel.h"

enum { TOGETHER = 96 }; /* words */
enum { NOT_YET, CLAIMED, THERE };

typedef cnn_compiled compiled;

/* nn.Conv1d's (F, D, k) as panels of (D, width). */
static void pack_weights(const model *m, compiled *c)
{
    const size_t F = c->filters, D = m->dim;
    memset(c->panels, 0, D * panel_padded(c->width) * sizeof *c->panels);
    for (size_t i = 0; i < c->n_kernels; i++)
        for (size_t l = 0; l < c->k[i]; l++)
            panel_pack(D, F, model_value(m, (int)(2 * i)) + l, c->k[i], D * c->k[i],
                       c->first[i] + l * F, c->panels);
    const size_t in = c->n_kernels * F;
    if (!c->dense)
        return;
    memset(c->dense_panels, 0, in * panel_padded(c->dense) * sizeof *c->dense_panels);
    panel_pack(in, c->dense, model_value(m, cnn_dense(m)), 1, in, 0, c->dense_panels);
}

stet_status cnn_compile(const model *m, void **out)
{
    compiled *c = mem_zalloc(1, sizeof *c);
    if (!c)
        return STET_ENOMEM;
    c->filters = (size_t)((const cnn_cfg *)m->cfg)->filters;
    c->n_kernels = cnn_kernels(m, c->k);
    for (size_t i = 0; i < c->n_kernels; i++) {
        c->first[i] = c->width;
        c->width += c->k[i] * c->filters;
    }
    c->dense = (size_t)((const cnn_cfg *)m->cfg)->dense;
    if (c->dense)
        c->dense_panels = mem_aligned(c->n_kernels * c->filters * panel_padded(c->dense),
                                      sizeof *c->dense_panels);
    c->panels = mem_aligned(m->dim * panel_padded(c->width), sizeof *c->panels);
    c->word = mem_aligned(m->n_words * c->width, sizeof *c->word);
    c->state = mem_alloc(m->n_words, sizeof *c->state);
    if (!c->panels || !c->word || !c->state || (c->dense && !c->dense_panels)) {
        cnn_compiled_free(c);
        return STET_ENOMEM;
    }
    pack_weights(m, c);
    for (size_t i = 0; i < m->n_words; i++)
        atomic_init(&c->state[i], NOT_YET);
    atomic_init(&c->all, false);
    *out = c;
    return STET_OK;
}

void cnn_compiled_free(void *p)
{
    compiled *c = p;
    mem_free_aligned(c->panels);
    mem_free_aligned(c->dense_panels);
    mem_free_aligned(c->word);
    mem_free(c->state);
    mem_free(c);
}

/* n words, claimed; `room` holds their vectors and one panel of what comes out. */
static void project(const model *m, compiled *c, const uint32_t *word, size_t n, real *room)
{
    const size_t D = m->dim;
    real *const y = room + TOGETHER * D;
    panel_fn *const kernel = panel_kernel();
    for (size_t i = 0; i < n; i++)
        memcpy(room + i * D, m->table + word[i] * D, D * sizeof *room);
    for (size_t j = 0; j < c->width; j += PANEL) {
        const size_t some = c->width - j < PANEL ? c->width - j : PANEL;
        kernel(n, D, (panel_left){room, D, 1}, (panel_right){c->panels + j * D, PANEL},
               (panel_start){.zero = true}, y, PANEL);
        for (size_t i = 0; i < n; i++)
            memcpy(c->word + word[i] * c->width + j, y + i * PANEL, some * sizeof *y);
    }
    for (size_t i = 0; i < n; i++)
        atomic_store_explicit(&c->state[word[i]], THERE, memory_order_release);
}

/* Those of the words that nobody has claimed. */
static stet_status make(const model *m, compiled *c, const uint32_t *word, size_t step, size_t n)
{
    uint32_t mine[TOGETHER];
    size_t got = 0;
    real *room = mem_aligned(TOGETHER * (m->dim + PANEL), sizeof *room);
    if (!room)
        return STET_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        unsigned char before = NOT_YET;
        if (atomic_compare_exchange_strong(&c->state[word[i * step]], &before, CLAIMED))
            mine[got++] = word[i * step];
        if (got == TOGETHER || i + 1 == n) {
            project(m, c, mine, got, room);
            got = 0;
        }
    }
    mem_free_aligned(room);
    return STET_OK;
}

static bool is_there(const compiled *c, uint32_t word)
{
    return atomic_load_explicit(&c->state[word], memory_order_acquire) == THERE;
}

stet_status cnn_need(const model *m, const uint32_t *word, size_t step, size_t n)
{
    compiled *c = m->compiled;
    if (atomic_load_explicit(&c->all, memory_order_acquire))
        return STET_OK;
    size_t i = 0;
    while (i < n && is_there(c, word[i * step]))
        i++;
    if (i < n)
        TRY(make(m, c, word + i * step, step, n - i));
    for (; i < n; i++)
        while (!is_there(c, word[i * step]))
            sched_yield();
    return STET_OK;
}

typedef struct all_job {
    const model *m;
    atomic_bool failed;
} all_job;

static void all_piece(void *ctx, size_t piece, int worker)
{
    (void)worker;
    all_job *j = ctx;
    uint32_t word[TOGETHER];
    const size_t first = piece * TOGETHER, left = j->m->n_words - first;
    const size_t n = left < TOGETHER ? left : TOGETHER;
    for (size_t i = 0; i < n; i++)
        word[i] = (uint32_t)(first + i);
    if (make(j->m, j->m->compiled, word, 1, n) != STET_OK)
        atomic_store(&j->failed, true);
}

stet_status cnn_compile_words(const model *m)
{
    compiled *c = m->compiled;
    all_job j = {.m = m};
    if (atomic_load_explicit(&c->all, memory_order_acquire))
        return STET_OK;
    pool_run((m->n_words + TOGETHER - 1) / TOGETHER, all_piece, &j);
    if (atomic_load(&j.failed))
        return error_set(STET_ENOMEM, "out of memory for the words of a model");
    for (uint32_t i = 0; i < m->n_words; i++)
        while (!is_there(c, i))
            sched_yield();
    atomic_store_explicit(&c->all, true, memory_order_release);
    return STET_OK;
}
