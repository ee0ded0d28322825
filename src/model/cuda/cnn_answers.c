/* model/cuda/cnn_answers.c - a compiled CNN on a device (answers.h): every word's projection, bit by bit
 * that of cnn_words.c, so that a device adds what the host adds. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "model/answers.h"
#include "model/cnn.h"
#include "model/cuda/copy.h"
#include "tensor/host/panel.h"

static_assert((int)CNN_ON_PANEL == (int)PANEL, "panels of the host, read by the device");

static void close_cnn(void *p, store *s)
{
    cnn_on *c = p;
    store_release(s, (void *)c->word);
    store_release(s, (void *)c->bias);
    store_release(s, (void *)c->dense_weight);
    store_release(s, (void *)c->dense_bias);
    store_release(s, (void *)c->fc);
    store_release(s, (void *)c->fc_bias);
    mem_free(c);
}

/* The host would need seconds of processor time for all words, and most of them no text asks for. */
static stet_status project(cnn_on *on, const model *m, store *s)
{
    const cnn_compiled *c = m->compiled;
    const float *table = copy_of(s, m->table, m->n_words * m->dim),
                *panels = copy_of(s, c->panels, m->dim * panel_padded(c->width));
    float *word = store_alloc(s, m->n_words * c->width, sizeof *word);
    stet_status st = table && panels && word ? STET_OK : STET_ENOMEM;
    on->word = word;
    if (st == STET_OK) {
        store_enter(s);
        st = cuda_cnn_words(&(cnn_words_on){.n_words = m->n_words,
                                            .dim = m->dim,
                                            .width = c->width,
                                            .table = table,
                                            .panels = panels,
                                            .word = word,
                                            .fuses = panel_fuses()});
        store_leave(s);
    }
    store_release(s, (void *)table);
    store_release(s, (void *)panels);
    return st;
}

/* Transposed, so that the threads of units beside each other read numbers beside each other. */
static stet_status copy_dense(cnn_on *on, const model *m, store *s)
{
    const real *w = model_value(m, cnn_dense(m));
    real *turned = mem_alloc(on->features * on->dense, sizeof *turned);
    if (!turned)
        return STET_ENOMEM;
    for (size_t j = 0; j < on->dense; j++)
        for (size_t f = 0; f < on->features; f++)
            turned[f * on->dense + j] = w[j * on->features + f];
    on->dense_weight = copy_of(s, turned, on->features * on->dense);
    on->dense_bias = copy_of(s, model_value(m, cnn_dense(m) + 1), on->dense);
    mem_free(turned);
    return on->dense_weight && on->dense_bias ? STET_OK : STET_ENOMEM;
}

static stet_status fill(cnn_on *on, const model *m, store *s)
{
    const cnn_compiled *c = m->compiled;
    *on = (cnn_on){.n_kernels = c->n_kernels,
                   .filters = c->filters,
                   .width = c->width,
                   .features = c->n_kernels * c->filters,
                   .dense = c->dense};
    for (size_t i = 0; i < c->n_kernels; i++) {
        on->k[i] = c->k[i];
        on->first[i] = c->first[i];
    }
    real *bias = mem_alloc(on->features, sizeof *bias);
    if (!bias)
        return STET_ENOMEM;
    for (size_t i = 0; i < c->n_kernels; i++)
        memcpy(bias + i * c->filters, model_value(m, (int)(2 * i + 1)), c->filters * sizeof *bias);
    on->bias = copy_of(s, bias, on->features);
    mem_free(bias);
    if (on->dense)
        TRY(copy_dense(on, m, s));
    on->fc = copy_of(s, model_value(m, (int)m->n_params - 2),
                     m->n_classes * (on->dense ? on->dense : on->features));
    on->fc_bias = copy_of(s, model_value(m, (int)m->n_params - 1), m->n_classes);
    return on->bias && on->fc && on->fc_bias ? project(on, m, s) : STET_ENOMEM;
}

static stet_status open_cnn(const model *m, store *s, void **out)
{
    cnn_on *on = mem_zalloc(1, sizeof *on);
    const stet_status st = on ? fill(on, m, s) : STET_ENOMEM;
    if (st == STET_OK)
        *out = on;
    else if (on)
        close_cnn(on, s);
    return st;
}

static size_t word_room(const void *p) /* sums and two kinds of maxima */
{
    return 3 * ((const cnn_on *)p)->features;
}

static size_t variant_room(const void *p)
{
    (void)p;
    return 0;
}

static stet_status edits(const void *p, const edit_batch *b, float *room)
{
    return cuda_cnn_edits(p, b, room);
}

static stet_status ranges(const void *p, const range_batch *b)
{
    return cuda_cnn_ranges(p, b);
}

static stet_status mixtures(const void *p, const mixed_batch *b, float *room)
{
    return cuda_cnn_mixtures(p, b, room);
}

static stet_status texts(const void *p, const edit_batch *b, float *room)
{
    return cuda_cnn_texts(p, b, room);
}

static size_t text_room(const void *p)
{
    return ((const cnn_on *)p)->features;
}

const answer_desc cnn_answers = {.kernels = DEV_CUDA,
                                 .open = open_cnn,
                                 .close = close_cnn,
                                 .word_room = word_room,
                                 .variant_room = variant_room,
                                 .edits = edits,
                                 .texts = texts,
                                 .text_room = text_room,
                                 .ranges = ranges,
                                 .mixtures = mixtures,
                                 .weights = cuda_mixture_weights};
