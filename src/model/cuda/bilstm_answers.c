/* model/cuda/bilstm_answers.c - a compiled BiLSTM on a device (answers.h). */
#include "base/mem.h"
#include "model/answers.h"
#include "model/bilstm.h"
#include "model/cuda/copy.h"

static void close_lstm(void *p, store *s)
{
    lstm_on *on = p;
    for (int d = 0; d < 2; d++) {
        store_release(s, (void *)on->word[d]);
        store_release(s, (void *)on->bias[d]);
        store_release(s, (void *)on->u[d]);
    }
    store_release(s, (void *)on->fc);
    store_release(s, (void *)on->fc_bias);
    mem_free(on);
}

/* nn.LSTM's (4H, H), gates one after the other, to (H, H, 4). */
static const float *copy_recurrent(store *s, const real *w, size_t H)
{
    real *u = mem_alloc(4 * H * H, sizeof *u);
    if (!u)
        return NULL;
    for (size_t g = 0; g < 4; g++)
        for (size_t to = 0; to < H; to++)
            for (size_t from = 0; from < H; from++)
                u[(from * H + to) * 4 + g] = w[(g * H + to) * H + from];
    const float *out = copy_of(s, u, 4 * H * H);
    mem_free(u);
    return out;
}

static stet_status fill(lstm_on *on, const model *m, store *s)
{
    const bilstm_compiled *c = m->compiled;
    bool ok = true;
    on->H = c->H;
    on->G = c->G;
    on->pool = (int)c->pool;
    on->span = c->span;
    for (int d = 0; d < 2; d++) {
        on->word[d] = copy_of(s, c->word[d], m->n_words * c->G);
        on->bias[d] = copy_of(s, c->cell[d].bias, 4 * c->H);
        on->u[d] = copy_recurrent(s, model_value(m, d * LSTM_PER_DIRECTION + LSTM_W_HH), c->H);
        ok = ok && on->word[d] && on->bias[d] && on->u[d];
    }
    on->fc = copy_of(s, model_value(m, (int)m->n_params - 2), m->n_classes * 2 * c->H);
    on->fc_bias = copy_of(s, model_value(m, (int)m->n_params - 1), m->n_classes);
    return ok && on->fc && on->fc_bias ? STET_OK : STET_ENOMEM;
}

static stet_status open_lstm(const model *m, store *s, void **out)
{
    const bilstm_compiled *c = m->compiled;
    if (cuda_lstm_tile(c->H) == 0)
        return STET_ENOTSUP;
    lstm_on *on = mem_zalloc(1, sizeof *on);
    const stet_status st = on ? fill(on, m, s) : STET_ENOMEM;
    if (st == STET_OK)
        *out = on;
    else if (on)
        close_lstm(on, s);
    return st;
}

static size_t word_room(const void *p)
{
    (void)p;
    return 0;
}

static size_t variant_room(const void *p) /* what the classifier sees */
{
    return 2 * ((const lstm_on *)p)->H;
}

static size_t tile(const void *p)
{
    return cuda_lstm_tile(((const lstm_on *)p)->H);
}

static stet_status edits(const void *p, const edit_batch *b, float *room)
{
    return cuda_lstm_edits(p, b, room);
}

static stet_status mixtures(const void *p, const mixed_batch *b, float *room)
{
    return cuda_lstm_mixtures(p, b, room);
}

const answer_desc bilstm_answers = {.kernels = DEV_CUDA,
                                    .open = open_lstm,
                                    .close = close_lstm,
                                    .word_room = word_room,
                                    .variant_room = variant_room,
                                    .tile = tile,
                                    .edits = edits,
                                    .texts = edits,
                                    .text_room = variant_room,
                                    .mixtures = mixtures,
                                    .weights = cuda_mixture_weights};
