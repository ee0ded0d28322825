/* train/train.c - the training loop. Every random choice derives from (seed, epoch or step), every
 * reduction has a fixed order, and a checkpoint holds the rest: the same seed ends in the same bytes, interrupted or not. */
#include "stet/train.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/args.h"
#include "base/clock.h"
#include "base/job.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/number.h"
#include "model/slabs.h"
#include "model/word_layer.h"
#include "train/run_state.h"

/* ---- the order of an epoch ---------------------------------------------------------------- */

static size_t length_of(const stet_corpus *c, uint32_t i)
{
    return (size_t)(c->start[i + 1] - c->start[i]);
}

/* Stable insertion of equal keys is what makes the order a function of the permutation alone. */
static void sort_by_length(const stet_corpus *c, uint32_t *v, uint32_t *tmp, size_t n)
{
    if (n < 2)
        return;
    const size_t half = n / 2;
    sort_by_length(c, v, tmp, half);
    sort_by_length(c, v + half, tmp, n - half);
    size_t i = 0, j = half;
    for (size_t k = 0; k < n; k++)
        tmp[k] = j == n || (i < half && length_of(c, v[i]) >= length_of(c, v[j])) ? v[i++] : v[j++];
    memcpy(v, tmp, n * sizeof *v);
}

/* Shuffle; sort pools of texts by length so that a batch's texts are alike; shuffle the batches. */
stet_status run_order(run_state *r)
{
    const size_t n = r->p.train.n_texts, size = r->a->batch, pool = r->a->length_pool * size;
    uint32_t *drawn = mem_alloc(n, sizeof *drawn), *tmp = mem_alloc(n, sizeof *tmp);
    if (!drawn || !tmp) {
        mem_free(drawn);
        mem_free(tmp);
        return STET_ENOMEM;
    }
    rng s = rng_stream(r->a->seed, STREAM_SHUFFLE, r->at.epoch);
    rng_permutation(&s, drawn, n);
    for (size_t i = 0; r->a->length_pool > 1 && i < n; i += pool)
        sort_by_length(&r->p.train, drawn + i, tmp, n - i < pool ? n - i : pool);
    /* whole batches change places; a last partial one stays last */
    const size_t whole = n / size;
    rng_permutation(&s, tmp, whole);
    for (size_t b = 0; b < whole; b++)
        memcpy(r->order + b * size, drawn + tmp[b] * size, size * sizeof *drawn);
    memcpy(r->order + whole * size, drawn + whole * size, (n - whole * size) * sizeof *drawn);
    mem_free(drawn);
    mem_free(tmp);
    return STET_OK;
}

/* ---- one step ----------------------------------------------------------------------------- */

step_view run_view(run_state *r)
{
    return (step_view){.m = r->p.m,
                       .w = &r->w,
                       .subst = r->p.subst,
                       .target = r->p.target,
                       .target_in_worst = r->a->teacher_worst,
                       .data = &r->p.train,
                       .step = r->at.step,
                       .total_steps = r->steps_per_epoch * r->a->epochs,
                       .steps_per_epoch = r->steps_per_epoch,
                       .seed = r->a->seed,
                       .mem = &r->step_mem,
                       .batches = &r->batches,
                       .grad = r->grad};
}

size_t run_batch(const run_state *r, size_t i, const uint32_t **pick)
{
    const size_t first = i * r->a->batch, left = r->p.train.n_texts - first;
    *pick = r->order + first;
    return left < r->a->batch ? left : r->a->batch;
}

/* The texts of step i of the epoch as a batch, made ahead where nothing changes them. */
static stet_status take_batch(run_state *r, step_view *v, size_t i, batch *out)
{
    const stet_corpus *texts = &r->p.train;
    const uint32_t *pick;
    size_t n = run_batch(r, i, &pick);
    v->own = pick;
    TRY(defense_list_batch(&r->defenses, v, &texts, &pick, &n));
    if (!r->ahead)
        return batch_make(&r->batches, r->p.m, texts, pick, n, &r->step_mem, out);
    const size_t left = r->p.train.n_texts - i * r->a->batch;
    TRY(ahead_take(r->ahead, pick, left, out));
    if (left > n)
        ahead_ask(r->ahead, pick + n, left - n);
    return STET_OK;
}

static stet_status forward_backward(run_state *r, size_t i, step_numbers *to)
{
    const model *m = r->p.m;
    batch x;
    tape t;
    pass p = {.t = &t};
    step_view v = run_view(r);
    v.p = &p;
    tape_init(&t, &r->step_mem, &r->values, true);
    store_clear(r->store, r->grad, m->n_values * sizeof *r->grad);
    TRY(take_batch(r, &v, i, &x));
    model_weights read = r->w;
    if (defense_list_alone(&r->defenses))
        read.learn = NULL;
    TRY(pass_init(&p, m, &t, &read, r->grad, &x));
    rng drops = rng_stream(r->a->seed, STREAM_DROPOUT, r->at.step);
    p.dropout = r->dropout;
    p.stream = &drops;
    v.x = &x;
    node *y = defense_list_loss(&r->defenses, &v);
    TRY(tape_backward(&t, y));
    return defense_list_metrics(&r->defenses, &t, y, &to->loss, &to->metrics);
}

/* The rows of the table that the step read. */
static stet_status update_vectors(run_state *r)
{
    return row_optim_step(&r->vectors, &r->opt, r->learned.part, r->learned.n, r->w.table,
                          &r->step_mem, &r->values);
}

/* What defences do after the step, on a tape of their own. */
static stet_status after_step(run_state *r)
{
    step_view v = run_view(r);
    tape t;
    pass p = {.t = &t};
    tape_init(&t, &r->step_mem, &r->values, false);
    v.p = &p;
    TRY(pass_params(&p, r->p.m, &r->w, NULL));
    return defense_list_after_step(&r->defenses, &v);
}

/* The optimiser's step, and what follows it. */
static stet_status update(run_state *r, step_numbers *to)
{
    TRY(optim_step(&r->opt, r->groups, r->n_groups, r->w.value, r->grad));
    TRY(weights_derive(&r->w, r->p.m, &r->step_mem, &r->values));
    TRY(store_send(r->store, &to->norm, &(const void *){r->opt.norm}, 1, sizeof *r->opt.norm));
    if (r->w.learn)
        TRY(update_vectors(r));
    return defense_list_has_after_step(&r->defenses) ? after_step(r) : STET_OK;
}

stet_status run_step(run_state *r, size_t i)
{
    step_numbers *to = &r->numbers[r->at.step % 2];
    r->learned.n = 0;
    stet_status st = forward_backward(r, i, to);
    if (st == STET_OK)
        st = update(r, to);
    store_arena_restore(&r->values, (store_mark){0});
    arena_restore(&r->step_mem, (arena_mark){0});
    TRY(st);
    to->step = ++r->at.step;
    r->n_sent++;
    return STET_OK;
}

size_t run_late(const run_state *r)
{
    return r->store->desc->send ? 1 : 0;
}

stet_status run_take(run_state *r, step_record *out)
{
    step_numbers *from = &r->numbers[(r->at.step - r->n_sent) % 2];
    *out = (step_record){.step = from->step, .metrics = &from->metrics};
    r->n_sent--;
    TRY(metrics_receive(r->store, &from->loss, &out->loss, &from->metrics));
    return store_receive(r->store, &from->norm, &out->norm);
}

/* Enter what finished steps gave into the books, but for the last `late` of them. */
static stet_status settle(run_state *r, size_t late)
{
    while (r->n_sent > late) {
        step_record s;
        TRY(run_take(r, &s));
        if (!isfinite(s.loss) || !isfinite(s.norm))
            return error_set(STET_EFORMAT,
                             "training diverged: loss %g, gradient norm %g at step %llu; a smaller "
                             "--lr or --clip helps",
                             s.loss, s.norm, (unsigned long long)s.step);
        r->at.loss_sum += s.loss;
        TRY(journal_step(r, &s));
    }
    return STET_OK;
}

static stet_status train_step(run_state *r)
{
    TRY(run_step(r, (size_t)r->at.step_in_epoch));
    r->at.step_in_epoch++;
    return settle(r, run_late(r));
}

/* ---- one epoch ---------------------------------------------------------------------------- */

static stet_status save_best(run_state *r)
{
    json_t *training = training_json(r, false);
    json_decref(r->p.m->extra);
    r->p.m->extra = training ? json_pack("{s:o}", "training", training) : NULL;
    if (!r->p.m->extra)
        return error_set(STET_ENOMEM, "out of memory for the configuration");
    TRY(weights_fetch(&r->w, r->p.m));
    TRY(folder_check(r));
    return stet_model_save(r->p.m, r->a->out);
}

static stet_status save_progress(run_state *r)
{
    TRY(settle(r, 0));
    TRY(journal_flush(r));
    return checkpoint_save(r);
}

static bool run_is_over(const run_state *r)
{
    return r->at.epoch >= r->a->epochs || early_stop_done(&r->stop);
}

/* Where the last epoch counts, those before it matter to a checkpoint alone; and after it there is
 * nothing to go on with. */
static stet_status save_epoch(run_state *r, bool best)
{
    const bool due = checkpoint_due(r), over = run_is_over(r);
    if (best && (due || over || !r->stop.last))
        TRY(save_best(r));
    return due && !over ? save_progress(r) : STET_OK;
}

static stet_status stop_here(run_state *r)
{
    TRY(save_progress(r));
    return error_set(STET_EINTR, "interrupted after step %llu; continue with --resume",
                     (unsigned long long)r->at.step);
}

static stet_status finish_epoch(run_state *r)
{
    stet_scores s;
    char worst[48] = "";
    double share;
    TRY(settle(r, 0));
    stet_status st = run_validate(r, &s, &share);
    if (st != STET_OK)
        return st == STET_EINTR ? stop_here(r) : st;
    if (!isnan(share))
        snprintf(worst, sizeof worst, ", worst case %.2f %%", 100 * share);
    const double train_loss = r->at.loss_sum / (double)r->steps_per_epoch,
                 seconds = seconds_now() - r->epoch_started;
    r->at.epoch++;
    r->at.step_in_epoch = 0;
    r->at.loss_sum = 0;
    const bool best = early_stop_update(&r->stop, s.accuracy);
    if (best) {
        r->at.train_loss = train_loss;
        r->at.valid_loss = s.loss;
    }
    log_info("epoch %llu/%zu: loss %.4f; validation %.2f %%%s, loss %.4f%s (%.1f s)",
             (unsigned long long)r->at.epoch, r->a->epochs, train_loss, 100 * s.accuracy, worst,
             s.loss, best && !r->stop.last ? ", best" : "", seconds);
    st = journal_epoch(r, train_loss, &s, share, seconds);
    stet_scores_deinit(&s);
    return st == STET_OK ? save_epoch(r, best) : st;
}

static stet_status train_epoch(run_state *r)
{
    TRY(run_order(r));
    r->epoch_started = seconds_now();
    char what[64];
    snprintf(what, sizeof what, "epoch %llu/%zu", (unsigned long long)r->at.epoch + 1,
             r->a->epochs);
    while (r->at.step_in_epoch < r->steps_per_epoch) {
        TRY(train_step(r));
        char note[48] = "";
        const double taken = (double)(r->at.step_in_epoch - r->n_sent);
        if (taken > 0)
            snprintf(note, sizeof note, "loss %.4f", r->at.loss_sum / taken);
        progress(what, r->at.step_in_epoch, r->steps_per_epoch, note);
        if (interrupted())
            return stop_here(r);
        if (r->a->save_every && r->at.step % r->a->save_every == 0 && checkpoint_due(r))
            TRY(save_progress(r));
    }
    return finish_epoch(r);
}

/* ---- the run ------------------------------------------------------------------------------ */

static double or_default(double v, double otherwise)
{
    return v >= 0 ? v : otherwise;
}

/* Neighbouring parameters of one kind make one group. */
static stet_status make_groups(run_state *r)
{
    const model *m = r->p.m;
    const model_desc *d = model_reading(m)->desc;
    r->groups = mem_alloc(m->n_params + m->n_added, sizeof *r->groups);
    if (!r->groups)
        return STET_ENOMEM;
    const double rate[PARAM_KINDS] = {
        or_default(r->a->rate, d->train.rate[PARAM_PLAIN]),
        or_default(r->a->state_rate, d->train.rate[PARAM_STATE]), r->a->score_rate,
        or_default(r->a->rate, d->train.rate[PARAM_PLAIN])};
    const double decay[PARAM_KINDS] = {or_default(r->a->decay, d->train.decay[PARAM_PLAIN]),
                                       d->train.decay[PARAM_STATE], r->a->score_decay};
    const param *last = NULL;
    for (size_t i = 0; i < m->n_params + m->n_added; last = &m->params[i++]) {
        const param *p = &m->params[i];
        if (p->frozen)
            continue;
        if (last && !last->frozen && p->kind == last->kind)
            r->groups[r->n_groups - 1].n += shape_count(p->shape);
        else
            r->groups[r->n_groups++] =
                (param_group){p->first, shape_count(p->shape), rate[p->kind], decay[p->kind]};
    }
    r->dropout = or_default(r->a->dropout, d->train.dropout);
    return STET_OK;
}

static stet_status check_args(const stet_train_args *a)
{
    const model_desc *desc = model_find(a->model);
    if (!desc)
        return STET_EUSAGE;
    if (!a->out || !a->data || (a->n_vectors == 0 && !desc->reader))
        return error_set(STET_EUSAGE, "training needs --data, --vectors and -o");
    if (a->length_pool == 0 || a->max_len == 0)
        return error_set(STET_EUSAGE, "--length-pool and --max-len must be at least 1");
    if (desc->learns_table && a->vector_rate > 0)
        return error_set(STET_EUSAGE, "--tune-vectors: a model of kind '%s' trains its own anyway",
                         desc->name);
    if (!(a->hold >= 0 && a->hold <= 1))
        return error_set(STET_EUSAGE, "--hold %g: expected a share from 0 to 1", a->hold);
    if (a->folds == 1 || a->fold > a->folds || (a->folds && a->fold == 0))
        return error_set(STET_EUSAGE, "--fold %zuof%zu: there is no such fold", a->fold, a->folds);
    return STET_OK;
}

/* Those of the list, and smoothing where a lambda asks for it. */
static stet_status choose_defenses(run_state *r)
{
    const stet_train_args *a = r->a;
    char lambda[64], power[64];
    const char *settings[3] = {NULL};
    size_t n = 0;
    number_print(lambda, sizeof lambda, "smooth=%.17g", a->smooth);
    number_print(power, sizeof power, "smooth-frequency=%.17g", a->smooth_frequency);
    if (a->smooth >= 0)
        settings[n++] = lambda;
    if (a->smooth_frequency != 0)
        settings[n++] = power;
    TRY(defense_list_init(&r->defenses, a->defense, a->defense_settings));
    return a->smooth > 0 || defense_list_real(&r->defenses, "smooth") > 0
               ? defense_list_first(&r->defenses, "smooth", settings)
               : STET_OK;
}

void run_args(stet_train_args *a)
{
    for (size_t k = 0; k < stet_model_kinds(); k++) {
        if (strcmp(stet_model_kind_name(k), a->model) != 0)
            continue;
        const stet_model_training t = stet_model_kind_training(k);
        a->batch = a->batch ? a->batch : t.batch;
        a->epochs = a->epochs ? a->epochs : t.epochs;
        a->clip = or_default(a->clip, t.clip);
        a->warmup = or_default(a->warmup, t.warmup);
        if (a->schedule == STET_OWN_SCHEDULE)
            a->schedule = t.warmup > 0 ? STET_WARM_LINEAR : STET_CONSTANT;
    }
}

/* Batches beside the steps, where nothing changes their texts. */
static stet_status open_ahead(run_state *r)
{
    if (r->store->desc->host || defense_list_has_batch(&r->defenses))
        return STET_OK;
    const word_sets *sets;
    const bool there = !defense_list_reads_words(&r->defenses, &sets) &&
                       slabs_suit(r->p.m, &r->p.train, r->store);
    return ahead_open(r->p.m, &r->p.train, r->a->batch, there ? r->store : NULL, sets, &r->ahead);
}

stet_status run_set_up(run_state *r)
{
    const stet_train_args *a = r->a;
    /* before the long reading */
    TRY(store_open(a->device ? a->device : job_device(), &r->store));
    if (a->precision && strcmp(a->precision, "fp32") != 0) /* else the device's own */
        TRY(store_set_precision(r->store, a->precision));
    TRY(choose_defenses(r));
    TRY(prepare(a, &r->defenses, &r->p));
    TRY(defense_list_start(&r->defenses, r->p.m, r->p.subst));
    TRY(make_groups(r));
    const size_t n = r->p.m->n_values;
    r->steps_per_epoch = (r->p.train.n_texts + a->batch - 1) / a->batch;
    r->stop.last = defense_list_keeps_last(&r->defenses);
    r->stop.patience = r->stop.last ? 0 : a->patience;
    optim_options how = OPTIM_DEFAULTS;
    how.kind = model_reading(r->p.m)->desc->train.decoupled ? OPTIM_ADAMW : OPTIM_ADAM;
    how.clip = a->clip;
    how.schedule = (schedule_kind)a->schedule;
    how.total_steps = r->steps_per_epoch * a->epochs;
    how.step_every = how.total_steps / 3 + 1;
    how.warmup = (uint64_t)(a->warmup * (double)how.total_steps + 0.5);
    how.hold = (uint64_t)(a->hold * (double)how.total_steps + 0.5);
    TRY(weights_init(&r->w, r->p.m, r->store));
    TRY(optim_init(&r->opt, &how, r->store, n));
    r->values.store = r->store;
    if (a->vector_rate > 0) {
        TRY(row_optim_init(&r->vectors, r->store, r->p.m->n_words, model_vector_dim(r->p.m),
                           a->vector_rate));
        r->w.learn = &r->learned;
    }
    r->grad = store_alloc(r->store, n, sizeof *r->grad);
    r->order = mem_alloc(r->p.train.n_texts, sizeof *r->order);
    if (!r->grad || !r->order)
        return STET_ENOMEM;
    TRY(open_ahead(r));
    return batcher_init(&r->batches, r->p.m);
}

/* The best epoch's weights are in the folder already; what is left is to say that the run is complete. */
static stet_status finish_run(run_state *r)
{
    char *config = path_join(r->a->out, "config.json");
    if (!config)
        return STET_ENOMEM;
    json_t *o = NULL;
    stet_status st = journal_end(r);
    if (st == STET_OK)
        st = journal_flush(r);
    if (st == STET_OK)
        st = card_write(r);
    if (st == STET_OK)
        st = json_read_own(config, &o);
    if (st == STET_OK) {
        json_t *training = training_json(r, true);
        st = training && json_object_set_new(o, "training", training) == 0
                 ? json_write_file(config, o)
                 : error_set(STET_ENOMEM, "out of memory");
    }
    json_decref(o);
    mem_free(config);
    return st == STET_OK ? file_remove(r->checkpoint_path) : st;
}

static stet_status run(run_state *r)
{
    bool complete = false;
    TRY(folder_open(r));
    TRY(run_set_up(r));
    if (r->a->resume)
        TRY(folder_take_complete(r, &complete));
    if (complete)
        return STET_OK;
    if (r->a->resume && file_exists(r->checkpoint_path))
        TRY(checkpoint_load(r));
    else /* in place of an older run's: from here on this one can be resumed */
        TRY(checkpoint_save(r));
    TRY(journal_open(r));
    log_info("%s, %s: %zu texts, %zu for validation, %zu words, %zu parameters",
             r->p.m->desc->name, r->a->defense, r->p.train.n_texts, r->p.valid.n_texts,
             r->p.m->n_words, r->p.m->n_values);
    while (!run_is_over(r))
        TRY(train_epoch(r));
    return finish_run(r);
}

static void report(const run_state *r, double seconds, stet_train_result *out)
{
    *out = (stet_train_result){.epochs = (size_t)r->at.epoch,
                               .best_epoch = (size_t)r->stop.best_epoch,
                               .steps = (size_t)r->at.step,
                               .n_train = r->p.train.n_texts,
                               .n_valid = r->p.valid.n_texts,
                               .n_words = r->p.m->n_words,
                               .valid_accuracy = r->stop.best,
                               .valid_loss = r->at.valid_loss,
                               .train_loss = r->at.train_loss,
                               .seconds = seconds,
                               .seconds_per_epoch = r->at.epoch ? seconds / (double)r->at.epoch : 0,
                               .smooth_residual = metric_of(&r->p.told, "smooth_residual")};
}

static void release_device(run_state *r)
{
    for (int i = 0; i < 2; i++) {
        store_letter_drop(r->store, &r->numbers[i].loss);
        store_letter_drop(r->store, &r->numbers[i].norm);
    }
    store_release(r->store, r->grad);
}

void run_tear_down(run_state *r)
{
    if (r->log)
        fclose(r->log);
    if (r->folder)
        closedir(r->folder);
    ahead_close(r->ahead);
    defense_list_end(&r->defenses);
    mem_free(r->log_path);
    mem_free(r->checkpoint_path);
    mem_free(r->order);
    mem_free(r->groups);
    optim_deinit(&r->opt);
    row_optim_deinit(&r->vectors);
    weights_deinit(&r->w);
    if (r->store)
        release_device(r);
    store_arena_deinit(&r->values);
    store_close(r->store);
    batcher_deinit(&r->batches);
    arena_deinit(&r->step_mem);
    prepared_deinit(&r->p);
}

void stet_train_args_init(stet_train_args *a, size_t size)
{
    const stet_train_args defaults = STET_TRAIN_DEFAULTS;
    args_init(a, size, &defaults, sizeof defaults);
}

stet_status stet_train(const stet_train_args *given, stet_train_result *out)
{
    stet_train_args own = STET_TRAIN_DEFAULTS, *a = &own;
    *out = (stet_train_result){0};
    TRY(ARGS_TAKE(a, given));
    TRY(check_args(a));
    run_args(a);
    run_state r = {.a = a};
    r.started = seconds_now();
    const stet_status st = run(&r);
    if (st == STET_OK)
        report(&r, seconds_now() - r.started, out);
    run_tear_down(&r);
    return st;
}
