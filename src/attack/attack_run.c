/* attack/attack_run.c - an attack on all texts of a data set, in the frame of run/, with a log and a
 * summary. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "attack/subject.h"
#include "base/args.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "lexicon/function_words.h"
#include "lexicon/sets.h"
#include "model/answers.h"

enum { MAX_ERRORS_IN_A_ROW = 8 };

/* ---- setting up --------------------------------------------------------------------------- */

static stet_status check_args(const stet_attack_args *a)
{
    if (!a->data || !a->sets || !a->attack || !a->profile ||
        !!a->model + !!a->command + !!a->victim != 1)
        return error_set(STET_EUSAGE, "an attack needs data, substitution sets, and one of a "
                                      "model, a command and a function");
    if (a->model && stet_dataset_classes(a->data) != stet_model_classes(a->model))
        return error_set(STET_EUSAGE, "the data has %zu classes, the model %zu",
                         stet_dataset_classes(a->data), stet_model_classes(a->model));
    return STET_OK;
}

/* A record for every text to attack. */
static stet_status take_texts(attack_job *j)
{
    size_t *index;
    TRY(sets_take_texts(j->a->sets, j->a->data, j->a->index, j->a->n_index, j->a->shard,
                        j->a->shards, &index, &j->n));
    j->record = mem_zalloc(j->n + 1, sizeof *j->record);
    for (size_t i = 0; j->record && i < j->n; i++)
        j->record[i].index = index[i];
    mem_free(index);
    return j->record ? STET_OK : STET_ENOMEM;
}

/* Where the draws are not to be the model's own: a copy of the model that has others. */
static stet_status choose_draws(attack_job *j, stet_attack_args *a)
{
    if (a->model)
        TRY(model_ready(a->model));
    if (j->set.common.draws == 0)
        return STET_OK;
    if (!attack_redraws(a))
        return error_set(STET_EUSAGE, "draws: this %s draws nothing, so there is nothing to average",
                         a->model ? "model" : "victim");
    j->drawn = *a->model->rule;
    j->drawn.redraw = 1;
    j->drawn.mean_of = (uint64_t)j->set.common.draws;
    j->asked = model_at(a->model, a->model->place);
    j->asked.rule = &j->drawn;
    a->model = &j->asked;
    return STET_OK;
}

static stet_status set_up(attack_job *j)
{
    const stet_attack_args *a = j->a;
    if (a->model)
        TRY(answers_open(a->model, a->device, &j->on));
    TRY(a->model ? stet_model_words(a->model, &j->words) : stet_words_new(a->tokenizer, &j->words));
    TRY(stet_sets_bind(a->sets, j->words, &j->bound));
    if (a->stop)
        TRY(stop_words_read(a->stop, &j->stop));
    if (j->set.common.similarity == SIMILARITY_MEAN && !a->model && !a->similarity)
        return error_set(STET_EUSAGE,
                         "similarity 'mean' needs the word vectors of a model; a program has none");
    TRY(take_texts(j));
    const bool slow = a->model && a->model->rule && j->on; /* a prover would ask the host */
    const bool asks = j->set.common.proofs || (j->d->asks_proofs && j->d->asks_proofs(j->set.cfg));
    if (a->prover && a->model && asks && !slow) {
        const stet_status st = a->prover(a->model, &j->prover);
        if (st != STET_OK && st != STET_ENOTSUP)
            return st;
    }
    j->n_workers = answers_at_once(j->on);
    j->worker = mem_zalloc(j->n_workers, sizeof *j->worker);
    return j->worker ? STET_OK : STET_ENOMEM;
}

static void tear_down(attack_job *j)
{
    for (size_t i = 0; j->record && i < j->n; i++)
        mem_free(j->record[i].line);
    for (size_t w = 0; j->worker && w < j->n_workers; w++)
        subject_worker_free(&j->worker[w]);
    mem_free(j->record);
    mem_free(j->worker);
    victim_desk_free(j->desk);
    if (j->prover)
        j->prover->free(j->prover);
    strmap_deinit(&j->stop);
    stet_bound_free(j->bound);
    stet_words_free(j->words);
    answers_close(j->on);
    attack_settings_free(&j->set);
}

/* Everything that the results depend on, as one line; a log with another one is not ours. */
static stet_status make_header(const attack_job *j, char **out)
{
    const stet_attack_args *a = j->a;
    char *settings;
    TRY(stet_attack_settings(a->attack, a->profile, a->settings, &settings, NULL));
    buf b = {0};
    buf_printf(&b,
               "{\"attack\":\"%s\",\"version\":1,\"profile\":\"%s\",\"settings\":%s,\"seed\":%llu",
               a->attack, a->profile, settings, (unsigned long long)a->seed);
    stet_free(settings);
    if (a->model) {
        buf_printf(&b, ",\"model\":\"%016llx\"",
                   (unsigned long long)stet_model_fingerprint(a->model));
    } else {
        const char *name = a->victim ? a->victim_name ? a->victim_name : "" : a->command;
        buf_str(&b, a->victim ? ",\"victim\":" : ",\"command\":");
        buf_json_string(&b, name, strlen(name));
    }
    uint64_t stop = 0;
    for (uint32_t i = 0; i < j->stop.n; i++)
        stop = hash_bytes(strmap_text(&j->stop, i), strmap_len(&j->stop, i), stop + 1);
    buf_printf(&b,
               ",\"data\":\"%016llx\",\"synonyms\":\"%016llx\",\"stop_words\":\"%016llx\","
               "\"tagger\":%s,\"similarity_given\":%s}",
               (unsigned long long)stet_dataset_fingerprint(a->data),
               (unsigned long long)stet_sets_fingerprint(a->sets), (unsigned long long)stop,
               a->tagger ? "true" : "false", a->similarity ? "true" : "false");
    const stet_status st = buf_status(&b);
    *out = st == STET_OK ? buf_take(&b) : NULL;
    buf_deinit(&b);
    return st;
}

/* ---- running ------------------------------------------------------------------------------ */

static stet_status attack_one(void *ctx, size_t k, size_t worker, buf *line)
{
    attack_job *j = ctx;
    answers_begin(j->on);
    const stet_status st = subject_attack(j, &j->worker[worker], &j->record[k], line);
    answers_end(j->on);
    j->record[k].done = st == STET_OK;
    if (j->desk)
        victim_desk_text_done(j->desk);
    return st;
}

/* A program that fails on the very first text would fail on all of them. */
static stet_status no_answer(const attack_job *j, size_t k, const char *line)
{
    json_t *o = NULL;
    const char *error = NULL;
    if (json_read_text("record", line, strlen(line), &o) == STET_OK)
        error = json_string_value(json_object_get(o, "error"));
    const stet_status st =
        k == 0 ? error_set(STET_EIO, "no answer to the first text: %s", error ? error : "")
               : error_set(STET_EIO, "no answer to %zu texts in a row, the last: %s",
                           j->errors_in_a_row, error ? error : "");
    json_decref(o);
    return st;
}

static stet_status text_done(void *ctx, size_t k, const char *line)
{
    attack_job *j = ctx;
    record *r = &j->record[k];
    const bool error = r->outcome == OUTCOME_ERROR;
    j->errors_in_a_row = error ? j->errors_in_a_row + 1 : 0;
    j->counted += !error && r->outcome != OUTCOME_TIMEOUT;
    j->correct += !error && r->outcome != OUTCOME_TIMEOUT && r->outcome != OUTCOME_WRONG;
    j->succeeded += r->outcome == OUTCOME_SUCCESS;
    const bool kept = r->outcome == OUTCOME_SUCCESS && attack_redraws(j->a);
    if ((j->a->html || kept) && !(r->line = mem_strdup(line)))
        return STET_ENOMEM;
    if ((error && k == 0) || j->errors_in_a_row >= MAX_ERRORS_IN_A_ROW)
        return no_answer(j, k, line);
    if (j->a->each)
        j->a->each(j->a->each_user, line);
    return STET_OK;
}

static void tell_accuracy(const void *ctx, char *out, size_t size)
{
    const attack_job *j = ctx;
    snprintf(out, size, "accuracy under attack %.3f",
             j->counted ? (double)(j->correct - j->succeeded) / (double)j->counted : 0);
}

static const frame_hooks hooks = {
    .what = "attack", .one = attack_one, .done = text_done, .note = tell_accuracy};

/* ---- the summary -------------------------------------------------------------------------- */

static void summarise(const attack_job *j, stet_attack_result *out)
{
    double queries[2] = {0}, evaluations = 0, changed = 0, candidates = 0, attackable = 0;
    size_t with_words = 0;
    *out = (stet_attack_result){.resumed = out->resumed};
    for (size_t i = 0; i < j->n; i++) {
        const record *r = &j->record[i];
        if (!r->done)
            continue;
        if (r->outcome == OUTCOME_ERROR || r->outcome == OUTCOME_TIMEOUT) {
            out->errors += r->outcome == OUTCOME_ERROR;
            out->timeouts += r->outcome == OUTCOME_TIMEOUT;
            continue;
        }
        out->n++;
        with_words++;
        attackable += (double)r->attackable;
        candidates += (double)r->candidates;
        if (r->outcome == OUTCOME_WRONG)
            continue;
        const bool success = r->outcome == OUTCOME_SUCCESS;
        out->correct++;
        out->succeeded += success;
        out->unconfirmed += r->outcome == OUTCOME_UNCONFIRMED;
        out->decided += r->complete;
        out->proved += r->proved;
        queries[success] += (double)r->queries;
        evaluations += (double)r->evaluations;
        if (success && r->words)
            changed += (double)r->changed / (double)r->words;
    }
    const double n = (double)(out->n ? out->n : 1),
                 correct = (double)(out->correct ? out->correct : 1);
    const double won = (double)out->succeeded, kept = (double)out->correct - won;
    out->clean = (double)out->correct / n;
    out->aua = kept / n;
    out->success_rate = won / correct;
    out->queries_mean = (queries[0] + queries[1]) / correct;
    out->queries_success_mean = won > 0 ? queries[1] / won : 0;
    out->queries_failure_mean = kept > 0 ? queries[0] / kept : 0;
    out->evaluations_mean = evaluations / correct;
    out->changed_mean = won > 0 ? changed / won : 0;
    out->candidates_mean = attackable > 0 ? candidates / attackable : 0;
    out->attackable_mean = with_words ? attackable / (double)with_words : 0;
}

static stet_status write_page(const attack_job *j, const stet_attack_result *r)
{
    char title[128], summary[512];
    snprintf(title, sizeof title, "Attack %s", j->d->name);
    snprintf(summary, sizeof summary,
             "%zu texts, profile %s: accuracy %.1f %%, under attack %.1f %%; %zu of %zu attacks "
             "succeeded, changing %.1f %% of the words; "
             "%.1f candidates per attackable word.",
             r->n, j->a->profile, 100 * r->clean, 100 * r->aua, r->succeeded, r->correct,
             100 * r->changed_mean, r->candidates_mean);
    size_t at = strlen(summary);
    if (j->set.common.draws)
        at += (size_t)snprintf(summary + at, sizeof summary - at,
                               " The answer that was attacked is the mean of %" PRId64 ".",
                               j->set.common.draws);
    if (r->redraws)
        at += (size_t)snprintf(summary + at, sizeof summary - at,
                               " With other draws, over %zu answers to each text, accuracy is "
                               "%.1f %%.",
                               r->redraws, 100 * r->aua_redrawn);
    if (r->redraws && isfinite(r->flips_stay))
        snprintf(summary + at, sizeof summary - at,
                 " %.1f %% of the flips stay; without any swap the same texts are misclassified "
                 "%.1f %% of the time.",
                 100 * r->flips_stay, 100 * r->untouched_wrong);
    return page_write(j->a->html, title, summary, j->record, j->n);
}

void stet_attack_args_init(stet_attack_args *a, size_t size)
{
    const stet_attack_args defaults = STET_ATTACK_DEFAULTS;
    args_init(a, size, &defaults, sizeof defaults);
}

stet_status stet_attack_run(const stet_attack_args *given, stet_attack_result *out)
{
    stet_attack_args own = STET_ATTACK_DEFAULTS, *a = &own;
    *out = (stet_attack_result){0};
    TRY(ARGS_TAKE(a, given));
    TRY(check_args(a));
    attack_job j = {.a = a, .d = attack_find(a->attack)};
    if (!j.d)
        return STET_EUSAGE;
    const double start = seconds_now();
    frame f = {0};
    char *header = NULL;
    stet_status st = attack_settings_make(j.d, a->profile, a->settings, &j.set);
    if (st == STET_OK)
        st = choose_draws(&j, a);
    if (st == STET_OK)
        st = set_up(&j);
    if (st == STET_OK)
        st = frame_init(&f, &hooks, &j, j.n);
    f.what = j.d->name;
    f.at_once = j.n_workers;
    if (st == STET_OK && a->log)
        st = make_header(&j, &header);
    if (st == STET_OK && a->log)
        st = attack_log_open(&f, a->log, a->attack, header, j.record, &out->resumed);
    if (st == STET_OK && a->victim)
        st = victim_desk_new(a, j.n_workers, j.n - out->resumed, &j.desk);
    if (st == STET_OK)
        st = frame_run(&f);
    if (j.record)
        summarise(&j, out);
    out->seconds = seconds_now() - start;
    if (st == STET_OK && attack_redraws(a))
        st = attack_redraw(&j, out);
    if (st == STET_OK && a->html)
        st = write_page(&j, out);
    frame_deinit(&f);
    mem_free(header);
    tear_down(&j);
    return st;
}
