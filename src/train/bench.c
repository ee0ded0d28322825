/* train/bench.c - training steps on the clock, and the same batches for a rival. */
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "bound/hulls.h"
#include "tensor/safetensors.h"
#include "train/run_state.h"

static size_t batch_of(const run_state *r, size_t step, const uint32_t **pick)
{
    return run_batch(r, step % (size_t)r->steps_per_epoch, pick);
}

/* ids of all texts of all steps one after the other, where each text and each batch starts, labels. */
static stet_status dump_batches(const run_state *r, size_t steps, const char *dir)
{
    const stet_corpus *c = &r->p.train;
    size_t n_texts = 0, n_ids = 0;
    const uint32_t *pick;
    for (size_t s = 0; s < steps; s++) {
        const size_t n = batch_of(r, s, &pick);
        n_texts += n;
        for (size_t i = 0; i < n; i++)
            n_ids += (size_t)(c->start[pick[i] + 1] - c->start[pick[i]]);
    }
    int32_t *ids = mem_alloc(n_ids, sizeof *ids), *label = mem_alloc(n_texts, sizeof *label);
    int64_t *text = mem_alloc(n_texts + 1, sizeof *text),
            *batches = mem_alloc(steps + 1, sizeof *batches);
    char *path = path_join(dir, "batches.safetensors");
    stet_status st = ids && label && text && batches && path ? STET_OK : STET_ENOMEM;
    if (st == STET_OK) {
        size_t t = 0, w = 0;
        text[0] = batches[0] = 0;
        for (size_t s = 0; s < steps; s++) {
            const size_t n = batch_of(r, s, &pick);
            for (size_t i = 0; i < n; i++, t++) {
                for (uint64_t k = c->start[pick[i]]; k < c->start[pick[i] + 1]; k++)
                    ids[w++] = (int32_t)c->ids[k];
                label[t] = c->label[pick[i]];
                text[t + 1] = (int64_t)w;
            }
            batches[s + 1] = (int64_t)t;
        }
        const st_tensor out[] = {{"ids", ST_I32, shape1(n_ids), ids},
                                 {"label", ST_I32, shape1(n_texts), label},
                                 {"text", ST_I64, shape1(n_texts + 1), text},
                                 {"batch", ST_I64, shape1(steps + 1), batches}};
        st = st_write(path, out, sizeof out / sizeof *out, NULL);
    }
    mem_free(ids);
    mem_free(label);
    mem_free(text);
    mem_free(batches);
    mem_free(path);
    return st;
}

/* What may stand in the place of each word: where its ids start, ids. */
static stet_status dump_sets(const run_state *r, const char *dir)
{
    word_sets s = {0};
    char *path = path_join(dir, "sets.safetensors");
    stet_status st = path ? word_sets_make(r->p.subst, r->p.m->vocab, &s) : STET_ENOMEM;
    if (st == STET_OK) {
        /* ids are far below 2^31 */
        const st_tensor out[] = {{"start", ST_I32, shape1(s.n_words + 1), s.start},
                                 {"word", ST_I32, shape1(s.start[s.n_words]), s.word}};
        st = st_write(path, out, sizeof out / sizeof *out, NULL);
    }
    word_sets_deinit(&s);
    mem_free(path);
    return st;
}

/* A device loads its kernels in its first steps: of many, these are not timed. */
enum { WARM_UP = 10 };

static stet_status take_losses(run_state *r, size_t late, double *loss, size_t n_loss)
{
    while (r->n_sent > late) {
        step_record s;
        TRY(run_take(r, &s));
        if (s.step <= n_loss)
            loss[s.step - 1] = s.loss;
    }
    return STET_OK;
}

static stet_status timed_steps(run_state *r, size_t steps, double *loss, size_t n_loss,
                               stet_train_bench *out)
{
    const size_t warm_up = steps > 2 * WARM_UP ? WARM_UP : 0;
    double started = seconds_now();
    for (size_t s = 0; s < steps; s++) {
        if (s == warm_up) {
            TRY(take_losses(r, 0, loss, n_loss));
            started = seconds_now();
            out->tokens = 0;
        }
        const uint32_t *pick;
        const size_t n = batch_of(r, s, &pick);
        TRY(run_step(r, s % (size_t)r->steps_per_epoch));
        TRY(take_losses(r, run_late(r), loss, n_loss));
        for (size_t i = 0; i < n; i++)
            out->tokens += (size_t)(r->p.train.start[pick[i] + 1] - r->p.train.start[pick[i]]);
        progress("steps", s + 1, steps, NULL);
        TRY(interrupt_status());
    }
    TRY(take_losses(r, 0, loss, n_loss));
    out->seconds = seconds_now() - started;
    out->steps = steps - warm_up;
    return STET_OK;
}

static stet_status bench_run(run_state *r, size_t steps, const char *dump, double *loss,
                             size_t n_loss, stet_train_bench *out)
{
    if (dump && r->a->word_layer)
        return error_set(STET_EUSAGE,
                         "--dump: a saved model has no word layer to train: leave out --word-layer");
    TRY(run_set_up(r));
    TRY(run_order(r));
    if (steps == 0)
        steps = (size_t)r->steps_per_epoch;
    if (dump) {
        TRY(stet_model_save(r->p.m, dump));
        TRY(dump_batches(r, steps, dump));
        if (r->p.subst)
            TRY(dump_sets(r, dump));
    }
    TRY(timed_steps(r, steps, loss, n_loss, out));
    out->steps_per_epoch = (size_t)r->steps_per_epoch;
    out->epoch_seconds = out->seconds / (double)out->steps * (double)r->steps_per_epoch;
    return STET_OK;
}

stet_status stet_train_time(const stet_train_args *given, size_t steps, const char *dump,
                            double *loss, size_t n_loss, stet_train_bench *out)
{
    stet_train_args own = STET_TRAIN_DEFAULTS, *a = &own;
    *out = (stet_train_bench){0};
    TRY(ARGS_TAKE(a, given));
    run_args(a);
    run_state r = {.a = a};
    const stet_status st = bench_run(&r, steps, dump, loss, n_loss, out);
    run_tear_down(&r);
    return st;
}
