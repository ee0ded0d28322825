/* certify/certify_run.c - certificates for all texts of a data set, in the frame of run/, with a file
 * and a summary. */
#include <math.h>
#include <string.h>

#include "base/args.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "certify/cert_json.h"
#include "certify/certifier.h"
#include "lexicon/sets.h"
#include "model/answers.h"
#include "run/frame.h"

/* What a thread keeps from text to text. */
typedef struct run_worker {
    stet_certifier *c;
    stet_words *words; /* a fork, for the words of the text in work */
    stet_reading reading;
    stet_choices choices;
} run_worker;

typedef struct run_record {
    size_t index;
    stet_certificate r;
    size_t changeable, candidates;
    buf json;             /* for args.line */
    stet_reading reading; /* these two for args.each, until it has been told */
    stet_choices choices;
    bool done, resumed;
} run_record;

typedef struct run_job {
    const stet_certify_args *a;
    cert_shared shared;
    stet_words *words; /* of the run: the model's vocabulary, then those of the sets */
    stet_bound *bound;
    run_worker *worker; /* (n_workers), and one for texts that are resumed */
    size_t n_workers;
    run_record *record; /* (n), ascending index */
    size_t n;
    size_t told, right, certified; /* texts that are done; of them */
    frame f;
    buf head; /* the first line of the file */
} run_job;

/* ---- setting up --------------------------------------------------------------------------- */

static stet_status check_args(const stet_certify_args *a)
{
    if (!a->model || !a->data || !a->sets)
        return error_set(STET_EUSAGE, "a certificate needs a model, data and substitution sets");
    if (stet_dataset_classes(a->data) != stet_model_classes(a->model))
        return error_set(STET_EUSAGE, "the data has %zu classes, the model %zu",
                         stet_dataset_classes(a->data), stet_model_classes(a->model));
    if (a->file && cert_by_rule(a->model) && !cert_by_draws(a->model))
        return error_set(STET_ENOTSUP,
                         "%s: certificates of the prediction rule '%s' leave nothing that a "
                         "checker could follow, so they have no file",
                         a->file, a->model->rule->desc->name);
    return STET_OK;
}

static stet_status take_texts(run_job *j)
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

/* As many as there are threads, or texts that should wait for a device at once. Bounds that keep a core
 * busy gain nothing from more: they take their memory each, and the time of a search is limited. */
static stet_status make_workers(run_job *j)
{
    const size_t most = answers_at_once(j->shared.on);
    j->worker = mem_zalloc(most + 1, sizeof *j->worker);
    if (!j->worker)
        return STET_ENOMEM;
    j->n_workers = (size_t)stet_threads();
    for (size_t w = 0; w < j->n_workers; w++) {
        run_worker *worker = &j->worker[w];
        TRY(stet_words_fork(j->words, &worker->words));
        TRY(certifier_new(&j->shared, &j->a->how, &worker->c));
        worker->c->keep = j->a->file != NULL;
        if (worker->c->waits)
            j->n_workers = most;
    }
    return stet_words_fork(j->words, &j->worker[j->n_workers].words);
}

static stet_status set_up(run_job *j, const cert_family *f)
{
    const stet_certify_args *a = j->a;
    if (a->export_dir) {
        TRY(cert_export_check(a->model, f));
        TRY(dir_make(a->export_dir));
    }
    TRY(take_texts(j));
    TRY(stet_model_words(a->model, &j->words));
    TRY(stet_sets_bind(a->sets, j->words, &j->bound));
    TRY(cert_shared_init(&j->shared, a->model, f));
    TRY(answers_open(a->model, a->device, &j->shared.on));
    return make_workers(j);
}

static void tear_down(run_job *j)
{
    for (size_t i = 0; j->record && i < j->n; i++) {
        stet_certificate_deinit(&j->record[i].r);
        buf_deinit(&j->record[i].json);
        stet_reading_deinit(&j->record[i].reading);
        stet_choices_deinit(&j->record[i].choices);
    }
    frame_deinit(&j->f);
    buf_deinit(&j->head);
    for (size_t w = 0; j->worker && w <= j->n_workers; w++) {
        stet_certifier_free(j->worker[w].c);
        stet_reading_deinit(&j->worker[w].reading);
        stet_choices_deinit(&j->worker[w].choices);
        stet_words_free(j->worker[w].words);
    }
    mem_free(j->record);
    mem_free(j->worker);
    stet_bound_free(j->bound);
    stet_words_free(j->words);
    answers_close(j->shared.on);
}

/* ---- one text ----------------------------------------------------------------------------- */

static stet_status write_json(const run_job *j, run_record *r, const stet_certified_text *t)
{
    const char *label = stet_model_class_name(j->a->model, (size_t)r->r.label);
    buf *b = &r->json;
    buf_printf(b, "{\"index\":%zu,\"label\":", r->index);
    buf_json_string(b, label, strlen(label));
    buf_printf(b, ",\"class\":%d,\"answer\":%d,\"probability\":", r->r.label, r->r.answer);
    buf_real(b, r->r.probability);
    buf_str(b, ",\"text\":");
    buf_json_string(b, t->reading->text.data, t->reading->text.len);
    buf_char(b, ',');
    cert_json(b, t, &r->r);
    buf_char(b, '}');
    return buf_status(b);
}

/* The text and what may stand in it, read by a worker. */
static stet_status read_text(const run_job *j, run_worker *w, run_record *r, stet_reading *reading,
                             stet_choices *choices)
{
    const stet_str text = stet_dataset_text(j->a->data, r->index);
    stet_words_forget(w->words);
    TRY(stet_words_read(w->words, text.data, text.len, reading));
    TRY(stet_bound_choices(j->bound, w->words, reading, choices));
    r->changeable = stet_choices_changeable(choices);
    r->candidates = choices->start[choices->n];
    return STET_OK;
}

static stet_status certify_record(const run_job *j, run_worker *w, run_record *r, buf *line)
{
    const stet_certify_args *a = j->a;
    stet_reading *reading = a->each ? &r->reading : &w->reading;
    stet_choices *choices = a->each ? &r->choices : &w->choices;
    const int label = stet_dataset_label(a->data, r->index);
    TRY(read_text(j, w, r, reading, choices));
    TRY(a->harm ? stet_certify_text(w->c, reading->ids, choices, label, &r->r)
                : certifier_text(w->c, reading->ids, choices, label, &r->r));
    if (a->line)
        TRY(write_json(j, r, &(stet_certified_text){reading, choices}));
    if (a->export_dir && r->r.verdict != STET_WRONG && !r->r.reason)
        TRY(cert_export(w->c, r->index, &reading->tokens, choices, a->export_dir));
    return a->file ? cert_file_line(w->c, r->index, &reading->tokens, choices, &r->r, line)
                   : STET_OK;
}

static stet_status certify_one(void *ctx, size_t k, size_t worker, buf *line)
{
    run_job *j = ctx;
    run_record *r = &j->record[k];
    answers_begin(j->shared.on);
    const stet_status st = certify_record(j, &j->worker[worker], r, line);
    answers_end(j->shared.on);
    r->done = st == STET_OK;
    return st == STET_OK || st == STET_EINTR ? st : error_prefix(st, "text %zu", r->index);
}

/* A text of an earlier run: its line has the certificate, reading it again gives the rest. */
static stet_status reread(run_job *j, run_record *r, const char *line)
{
    run_worker *w = &j->worker[j->n_workers];
    TRY(read_text(j, w, r, &r->reading, &r->choices));
    if (r->r.verdict == STET_BROKEN)
        TRY(cert_resume_edits(line, &r->choices, &r->r));
    return j->a->line ? write_json(j, r, &(stet_certified_text){&r->reading, &r->choices})
                      : STET_OK;
}

static stet_status text_done(void *ctx, size_t k, const char *line)
{
    run_job *j = ctx;
    run_record *r = &j->record[k];
    if (r->resumed)
        TRY(reread(j, r, line));
    if (j->a->line)
        j->a->line(j->a->line_user, r->json.data);
    if (j->a->each)
        j->a->each(j->a->each_user, r->index, &(stet_certified_text){&r->reading, &r->choices},
                   &r->r);
    buf_deinit(&r->json);
    stet_reading_deinit(&r->reading);
    stet_choices_deinit(&r->choices);
    j->told++;
    j->right += r->r.verdict != STET_WRONG;
    j->certified += r->r.verdict == STET_CERTIFIED;
    return STET_OK;
}

static void tell_certified(const void *ctx, char *out, size_t size)
{
    const run_job *j = ctx;
    const double done = j->told ? (double)j->told : 1;
    snprintf(out, size, "certified %.3f of %.3f", (double)j->certified / done,
             (double)j->right / done);
}

static const frame_hooks hooks = {
    .what = "certify", .one = certify_one, .done = text_done, .note = tell_certified};

/* ---- the summary -------------------------------------------------------------------------- */

/* What draws make likely is not counted with what is proved. */
static double proved_margin(const run_record *r)
{
    return r->r.verdict == STET_LIKELY ? -INFINITY : r->r.margin;
}

static void count_margins(const run_job *j, stet_certify_result *out)
{
    out->margin_lo = INFINITY;
    out->margin_hi = -INFINITY;
    for (size_t i = 0; i < j->n; i++) {
        const double m = proved_margin(&j->record[i]);
        if (isfinite(m)) {
            out->margin_lo = fmin(out->margin_lo, m);
            out->margin_hi = fmax(out->margin_hi, m);
        }
    }
    if (out->margin_lo > out->margin_hi)
        out->margin_lo = out->margin_hi = 0;
    const double width = out->margin_hi - out->margin_lo;
    for (size_t i = 0; i < j->n; i++) {
        const double m = proved_margin(&j->record[i]);
        if (!isfinite(m))
            continue;
        const double at = width > 0 ? (m - out->margin_lo) / width * STET_MARGIN_BINS : 0;
        out->margin_bins[at < STET_MARGIN_BINS ? (size_t)at : STET_MARGIN_BINS - 1]++;
    }
}

static stet_status count_budgets(const run_job *j, stet_certify_result *out)
{
    size_t largest = 0;
    for (size_t i = 0; i < j->n; i++) {
        const stet_certificate *r = &j->record[i].r;
        if (r->confidence == 0 && r->budget != STET_ANY && r->budget > largest)
            largest = r->budget;
    }
    out->budget_at_least = mem_zalloc(largest + 1, sizeof *out->budget_at_least);
    if (!out->budget_at_least)
        return STET_ENOMEM;
    out->n_budget = largest + 1;
    for (size_t i = 0; i < j->n; i++) {
        const stet_certificate *r = &j->record[i].r;
        const bool counts = r->verdict != STET_WRONG && r->confidence == 0;
        for (size_t b = 0; counts && b <= largest && b <= r->budget; b++)
            out->budget_at_least[b]++;
    }
    return STET_OK;
}

/* "ibp 312, joint 401": texts by the method that proved them. */
static stet_status count_methods(const run_job *j, stet_certify_result *out)
{
    buf b = {0};
    const cert_family *f = j->shared.family;
    for (size_t m = 0;; m++) { /* the family's, then the one that all have */
        const char *name = f->methods && f->methods[m] ? f->methods[m] : cert_enumerate_name;
        size_t n = 0;
        for (size_t i = 0; i < j->n; i++)
            n += j->record[i].r.verdict == STET_CERTIFIED && j->record[i].r.method == name;
        if (n)
            buf_printf(&b, "%s%s %zu", b.n ? ", " : "", name, n);
        if (name == cert_enumerate_name)
            break;
    }
    const stet_status st = buf_status(&b);
    out->method = st == STET_OK ? buf_take(&b) : NULL;
    buf_deinit(&b);
    return st == STET_OK && !out->method ? STET_ENOMEM : st;
}

static void count_verdicts(const run_job *j, stet_certify_result *out)
{
    double candidates = 0, changeable = 0, slack = 0;
    size_t n = 0, with_bound = 0;
    memset(out->verdicts, 0, sizeof out->verdicts);
    for (size_t i = 0; i < j->n; i++) {
        const run_record *r = &j->record[i];
        if (!r->done)
            continue;
        n++;
        out->verdicts[r->r.verdict]++;
        candidates += (double)r->candidates;
        changeable += (double)r->changeable;
        if (isfinite(proved_margin(r))) {
            slack += r->r.slack;
            with_bound++;
        }
    }
    const double all = n ? (double)n : 1;
    out->n = n;
    out->confidence = cert_confidence(j->a->model);
    out->correct = n - out->verdicts[STET_WRONG];
    out->clean = (double)out->correct / all;
    out->certified = (double)out->verdicts[STET_CERTIFIED] / all;
    out->broken = (double)out->verdicts[STET_BROKEN] / all;
    out->undecided = (double)out->verdicts[STET_UNDECIDED] / all;
    out->likely = (double)out->verdicts[STET_LIKELY] / all;
    out->slack_mean = with_bound ? slack / (double)with_bound : 0;
    out->candidates_mean = changeable > 0 ? candidates / changeable : 0;
    out->attackable_mean = changeable / all;
}

static stet_status count_unbounded(const run_job *j, stet_certify_result *out)
{
    for (size_t i = 0; i < j->n; i++) {
        const run_record *r = &j->record[i];
        out->resumed += r->resumed;
        out->unbounded += r->r.reason != NULL;
        if (r->r.reason && !out->reason && !(out->reason = mem_strdup(r->r.reason)))
            return STET_ENOMEM;
    }
    return STET_OK;
}

static stet_status summarise(const run_job *j, stet_certify_result *out)
{
    count_verdicts(j, out);
    TRY(count_unbounded(j, out));
    count_margins(j, out);
    TRY(count_budgets(j, out));
    TRY(count_methods(j, out));
    out->index = mem_alloc(j->n + 1, sizeof *out->index);
    out->verdict = mem_alloc(j->n + 1, sizeof *out->verdict);
    if (!out->index || !out->verdict)
        return STET_ENOMEM;
    for (size_t i = 0; i < j->n; i++) {
        out->index[i] = j->record[i].index;
        out->verdict[i] = j->record[i].r.verdict;
    }
    return STET_OK;
}

void stet_certify_result_deinit(stet_certify_result *r)
{
    mem_free(r->budget_at_least);
    mem_free(r->index);
    mem_free(r->verdict);
    mem_free(r->method);
    mem_free(r->reason);
    *r = (stet_certify_result){0};
}

/* ---- the file ----------------------------------------------------------------------------- */

static stet_status other_run(void)
{
    return error_set(STET_EFORMAT,
                     "an unfinished run with another model, data or settings: remove it, "
                     "or give another file");
}

static stet_status take_line(void *ctx, size_t number, const char *line, size_t len)
{
    run_job *j = ctx;
    if (number == 1)
        return len + 1 == j->head.n && memcmp(line, j->head.data, len) == 0 ? STET_OK : other_run();
    const size_t k = number - 2;
    if (k >= j->n)
        return other_run();
    run_record *r = &j->record[k];
    TRY(cert_resume_line(&j->shared, line, len, r->index, &r->r));
    r->done = r->resumed = true;
    return frame_have(&j->f, k, line, len);
}

/* A kill can leave the beginning of our first line, or of any line behind it. */
static stet_status check_rest(void *ctx, size_t lines, const char *rest, size_t len)
{
    const run_job *j = ctx;
    return lines || (len < j->head.n && memcmp(rest, j->head.data, len) == 0) ? STET_OK
                                                                              : other_run();
}

/* FILE.part is the log; it becomes FILE when all texts are in it. */
static stet_status certify_to_file(run_job *j)
{
    TRY(cert_file_header(j->a, j->n, &j->head));
    TRY(run_log_open(&j->f.log, j->a->file, true, take_line, check_rest, j));
    stet_status st = STET_OK;
    if (!(j->n && j->record[0].resumed)) {
        st = run_log_restart(&j->f.log);
        if (st == STET_OK)
            st = run_log_append(&j->f.log, j->head.data, j->head.n);
    }
    if (st == STET_OK)
        st = frame_run(&j->f);
    if (st == STET_OK)
        return run_log_finish(&j->f.log);
    if (j->f.logged == 0) /* nothing to go on with */
        run_log_discard(&j->f.log);
    return st;
}

stet_status certify_run_with(const stet_certify_args *a, const cert_family *f,
                             stet_certify_result *out)
{
    *out = (stet_certify_result){0};
    TRY(check_args(a));
    run_job j = {.a = a};
    const double start = seconds_now();
    stet_status st = set_up(&j, f);
    if (st == STET_OK)
        st = frame_init(&j.f, &hooks, &j, j.n);
    j.f.at_once = j.n_workers;
    if (st == STET_OK)
        st = a->file ? certify_to_file(&j) : frame_run(&j.f);
    if (st == STET_OK)
        st = summarise(&j, out);
    out->seconds = seconds_now() - start;
    tear_down(&j);
    if (st != STET_OK)
        stet_certify_result_deinit(out);
    return st;
}

void stet_certify_args_init(stet_certify_args *a, size_t size)
{
    const stet_certify_args defaults = STET_CERTIFY_DEFAULTS;
    args_init(a, size, &defaults, sizeof defaults);
}

void stet_certify_how_init(stet_certify_how *h, size_t size)
{
    const stet_certify_how defaults = STET_CERTIFY_HOW;
    memcpy(h, &defaults, size < sizeof defaults ? size : sizeof defaults);
}

stet_status stet_certify_run(const stet_certify_args *given, stet_certify_result *out)
{
    stet_certify_args own = STET_CERTIFY_DEFAULTS, *a = &own;
    *out = (stet_certify_result){0};
    TRY(ARGS_TAKE(a, given));
    TRY(check_args(a));
    const cert_family *f;
    TRY(cert_family_for(a->model, &f));
    return certify_run_with(a, f, out);
}
