/* sweep/sweep_point.c - see sweep_impl.h: one point, from an empty folder to what was measured about
 * its model. A stage is done when what it leaves is there: train.json, or a result in DIR/results about
 * this very model, these texts, sets and settings (stet/measured.h). So work that was stopped at any
 * moment goes on from there, and what was measured by hand counts. */
#include <string.h>

#include "base/file.h"
#include "report/measured_impl.h"
#include "stet/measured.h"
#include "sweep/sweep_impl.h"

/* Settings of the attack, those that `stet attack` has by itself: its results count. */
#define SWEEP_PROFILE "openattack"

static stet_status no_memory(void)
{
    return error_set(STET_ENOMEM, "out of memory for a sweep");
}

bool sweep_wants(const sweep *s, const sweep_point *p, sweep_stage stage)
{
    return stage == SWEEP_EVAL      ? s->a.test && !s->frontier
           : stage == SWEEP_INSPECT ? p->inspected && !s->frontier
           : stage == SWEEP_ATTACK  ? s->a.attack != NULL
           : stage == SWEEP_CERTIFY ? s->certify
                                    : true;
}

/* ---- training ----------------------------------------------------------------------------- */

static void path_in(const sweep_point *p, const char *name, char out[SWEEP_PATH + 32])
{
    snprintf(out, SWEEP_PATH + 32, "%s/%s", p->dir, name);
}

/* Options that say how training runs, not what comes out. */
static bool is_of_no_effect(const char *option)
{
    static const char *const names[] = {"out", "resume", "save-every", "threads", "device", NULL};
    for (const char *const *n = names; *n; n++)
        if (strcmp(option, *n) == 0)
            return true;
    return false;
}

static stet_status as_printed(const json_t *v, char **out)
{
    *out = NULL;
    return v ? json_text(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(10), out) : STET_OK;
}

static stet_status same_option(const sweep_point *p, const char *key, const json_t *now,
                               const json_t *then)
{
    char *is, *was = NULL;
    stet_status st = as_printed(now, &is);
    if (st == STET_OK)
        st = as_printed(then, &was);
    if (st == STET_OK && is && was && strcmp(is, was) != 0)
        st = error_set(STET_EUSAGE,
                       "%s: trained with --%s %s, not %s; choose another folder with -o", p->dir,
                       key, was, is);
    mem_free(is);
    mem_free(was);
    return st;
}

/* What a folder was made with must be what is asked for now: the table would show numbers of other
 * settings. Options that the program of then did not know are passed over. */
static stet_status same_settings(const sweep_point *p, json_t *now, json_t *then)
{
    const char *key;
    json_t *v;
    measured_shorten(now);
    measured_shorten(then);
    json_object_foreach(now, key, v) if (!is_of_no_effect(key))
        TRY(same_option(p, key, v, json_object_get(then, key)));
    return STET_OK;
}

/* What training said at its end; NULL: it did not come there. */
static stet_status trained(const sweep_point *p, json_t **out)
{
    char path[SWEEP_PATH + 32];
    *out = NULL;
    path_in(p, "train.json", path);
    return file_exists(path) ? json_read_own(path, out) : STET_OK;
}

stet_status sweep_point_check(const sweep *s, sweep_point *p)
{
    sweep_words w;
    sweep_line l;
    stet_train_args a;
    void *store;
    json_t *now = NULL, *then = NULL;
    TRY(sweep_train_words(s, p, &w));
    TRY(sweep_line_read(w.v, w.n, &l));
    stet_status st = stet_train_settings_args(&l.settings, &a, &store);
    if (st == STET_EUSAGE)
        st = error_prefix(st, "stet train");
    p->inspected = st == STET_OK && stet_gbm_known(a.model);
    stet_free(store);
    if (st == STET_OK)
        st = sweep_line_json(&l, &now);
    if (st == STET_OK)
        st = trained(p, &then);
    if (st == STET_OK && then)
        st = same_settings(p, now, json_object_get(then, "config"));
    json_decref(now);
    json_decref(then);
    return st;
}

/* train.json, as `stet train --json` prints it. Takes `config`. */
static stet_status keep_trained(const sweep_point *p, json_t *config, const stet_train_result *r)
{
    char path[SWEEP_PATH + 32], *text = NULL;
    const size_t failures = mem_failures();
    json_t *o = json_pack(
        "{s:i, s:s, s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f}",
        "schema", 1, "version", stet_version(), "command", "train", "config", config, "out",
        measured_string(p->dir, strlen(p->dir)), "epochs", (json_int_t)r->epochs, "best_epoch",
        (json_int_t)r->best_epoch, "steps", (json_int_t)r->steps, "train_texts",
        (json_int_t)r->n_train, "valid_texts", (json_int_t)r->n_valid, "words",
        (json_int_t)r->n_words, "valid_accuracy", r->valid_accuracy, "valid_loss", r->valid_loss,
        "seconds", r->seconds, "seconds_per_epoch", r->seconds_per_epoch, "smooth_residual",
        r->smooth_residual);
    stet_status st = o && mem_failures() == failures ? STET_OK : no_memory();
    if (st == STET_OK)
        st = json_text(o, JSON_COMPACT | JSON_REAL_PRECISION(10), &text);
    json_decref(o);
    path_in(p, "train.json", path);
    if (st == STET_OK) {
        const size_t n = strlen(text);
        text[n] = '\n'; /* in place of its end */
        st = file_write_all(path, text, n + 1);
    }
    mem_free(text);
    return st;
}

static stet_status train(const sweep *s, const sweep_point *p)
{
    static const char *const device[] = {"cpu", "cuda", "auto"};
    sweep_words w;
    sweep_line l;
    stet_train_args a;
    stet_train_result r;
    void *store;
    json_t *config = NULL;
    TRY(sweep_train_words(s, p, &w));
    TRY(sweep_line_read(w.v, w.n, &l));
    TRY(sweep_line_json(&l, &config));
    stet_status st = stet_train_settings_args(&l.settings, &a, &store);
    if (st == STET_OK) {
        a.seed = (uint64_t)l.seed;
        a.device = device[l.device];
        st = stet_train(&a, &r);
    }
    stet_free(store);
    if (st == STET_OK)
        return keep_trained(p, config, &r);
    json_decref(config);
    return st;
}

/* What training said of the model is in config.json. */
static stet_status run_training(const sweep *s, sweep_point *p)
{
    char path[SWEEP_PATH + 32];
    json_t *end;
    TRY(trained(p, &end));
    p->found = end != NULL;
    json_decref(end);
    if (!p->found)
        TRY(train(s, p));
    path_in(p, "config.json", path);
    return json_read_own(path, &p->record[SWEEP_TRAIN]);
}

/* ---- measuring ---------------------------------------------------------------------------- */

/* What a stage works on. */
typedef struct subject {
    const sweep *s;
    sweep_point *p;
    stet_model *m;
    const stet_dataset *all;
    size_t *index, n_index; /* the sample */
} subject;

static void set_path(json_t *o, const char *key, const char *path)
{
    if (path)
        json_object_set_new(o, key, measured_string(path, strlen(path)));
}

/* The settings of the command of that name, by which its results are known. */
static json_t *settings_of(const subject *x, sweep_stage stage, const char *data, json_int_t limit)
{
    json_t *o = json_pack("{s:I, s:I}", "limit", limit, "seed", (json_int_t)x->s->a.seed);
    set_path(o, "data", data);
    if (stage == SWEEP_ATTACK || stage == SWEEP_CERTIFY)
        set_path(o, "synonyms", x->s->a.synonyms);
    if (x->p->held_out) {
        json_object_set_new(o, "label", json_string("label"));
        json_object_set_new(o, "text", json_string("text"));
    }
    if (stage != SWEEP_INSPECT)
        json_object_set_new(o, "skip-bad", json_false());
    if (stage == SWEEP_INSPECT)
        json_object_set_new(o, "words", json_integer(32));
    if (stage == SWEEP_ATTACK) {
        const stet_attack_args a = STET_ATTACK_DEFAULTS;
        json_object_update_new(o, json_pack("{s:s, s:s, s:f, s:s, s:f, s:s}", "attack",
                                            x->s->a.attack, "profile", SWEEP_PROFILE, "time-limit",
                                            a.time_limit, "tagger", "none", "victim-timeout",
                                            a.timeout, "tokenizer", "word"));
    }
    if (stage == SWEEP_CERTIFY) {
        const stet_certify_how how = STET_CERTIFY_HOW;
        json_object_update_new(o, json_pack("{s:s, s:i, s:b, s:b, s:f, s:I}", "method", how.method,
                                            "budget", 0, "largest", 0, "complete", 0, "time-limit",
                                            how.time_limit, "refine", (json_int_t)how.refine));
    }
    return o;
}

static stet_status draw(subject *x, size_t limit)
{
    const size_t n = stet_dataset_size(x->all);
    const stet_sets *sets = &x->s->files->sets;
    x->index = mem_alloc(n + 1, sizeof *x->index);
    if (!x->index)
        return STET_ENOMEM;
    TRY(stet_sets_sample(sets, x->all, limit, x->s->a.seed, x->index, &x->n_index));
    return x->n_index || !sets->texts
               ? STET_OK
               : error_set(STET_EUSAGE, "--synonyms %s: none of its %zu texts is in the data",
                           x->s->a.synonyms, stet_subst_texts_count(sets->texts));
}

static stet_status eval(subject *x, char **numbers)
{
    stet_corpus c = {0};
    stet_scores scores = {0};
    stet_status st = stet_model_encode(x->m, x->all, &c);
    if (st == STET_OK)
        st = stet_model_scores(x->m, &c, &scores);
    if (st == STET_OK)
        st = stet_eval_json(x->m, &scores, numbers);
    x->n_index = scores.n;
    stet_scores_deinit(&scores);
    stet_corpus_deinit(&c);
    return st;
}

enum { INSPECTED = 200 }; /* texts, as `stet inspect` takes them */

static stet_status inspect(subject *x, char **numbers)
{
    stet_corpus c = {0};
    stet_dataset *sample = NULL;
    stet_gbm g = {0};
    stet_gbm_options how = STET_GBM_DEFAULTS;
    stet_status st = STET_OK;
    how.seed = x->s->a.seed;
    if (x->all) {
        size_t index[INSPECTED];
        x->n_index = stet_dataset_sample(x->all, INSPECTED, how.seed, index);
        st = stet_dataset_pick(x->all, index, x->n_index, &sample);
        if (st == STET_OK)
            st = stet_model_encode(x->m, sample, &c);
        how.texts = &c;
    }
    if (st == STET_OK)
        st = stet_gbm_of(x->m, &how, &g);
    if (st == STET_OK) {
        size_t n;
        char name[SWEEP_PATH];
        const char *part = path_last(x->p->dir, &n);
        snprintf(name, sizeof name, "%.*s", (int)n, part);
        st = stet_gbm_json(&g, name, 0, numbers);
    }
    stet_gbm_deinit(&g);
    stet_dataset_free(sample);
    stet_corpus_deinit(&c);
    return st;
}

static stet_status attack(subject *x, char **numbers)
{
    stet_kept *kept;
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    stet_attack_result r;
    TRY(stet_kept_new(NULL, &kept));
    a.model = x->m, a.data = x->all, a.index = x->index, a.n_index = x->n_index;
    a.sets = &x->s->files->sets, a.attack = x->s->a.attack, a.profile = SWEEP_PROFILE;
    a.seed = x->s->a.seed, a.prover = stet_certify_prover;
    a.each = stet_kept_attacked, a.each_user = kept;
    stet_status st = stet_attack_run(&a, &r);
    if (st == STET_OK)
        st = stet_attack_json(a.attack, a.profile, NULL, &r, numbers);
    if (st == STET_OK)
        st = stet_kept_join(kept, numbers);
    stet_kept_free(kept);
    return st;
}

static stet_status certify(subject *x, char **numbers)
{
    stet_kept *kept;
    stet_certify_args a = STET_CERTIFY_DEFAULTS;
    stet_certify_result r = {0};
    TRY(stet_kept_new(x->m, &kept));
    a.model = x->m, a.data = x->all, a.index = x->index, a.n_index = x->n_index;
    a.sets = &x->s->files->sets, a.model_name = x->p->dir;
    a.each = stet_kept_certified, a.each_user = kept;
    stet_status st = stet_certify_run(&a, &r);
    if (st == STET_OK)
        st = stet_certify_json(&a.how, &r, numbers);
    if (st == STET_OK)
        st = stet_kept_join(kept, numbers);
    stet_certify_result_deinit(&r);
    stet_kept_free(kept);
    return st;
}

static const struct {
    const char *command;
    stet_status (*run)(subject *x, char **numbers);
    bool swaps; /* works on a sample, with sets */
} stages[SWEEP_DONE] = {[SWEEP_EVAL] = {"eval", eval, false},
                        [SWEEP_INSPECT] = {"inspect", inspect, false},
                        [SWEEP_ATTACK] = {"attack", attack, true},
                        [SWEEP_CERTIFY] = {"certify", certify, true}};

static stet_status make(subject *x, sweep_stage stage, stet_measured *as)
{
    char *numbers = NULL;
    stet_status st = stages[stage].swaps ? draw(x, x->s->a.limit) : STET_OK;
    if (st == STET_OK)
        st = stages[stage].run(x, &numbers);
    as->texts = x->n_index;
    if (st == STET_OK)
        st = stet_measured_write(as, numbers);
    mem_free(numbers);
    mem_free(x->index);
    return st;
}

/* The stage's result: the one that is there, or a new one. */
static stet_status result_of(subject *x, sweep_stage stage, stet_measured *as, json_t **record)
{
    char *found = NULL;
    TRY(stet_measured_read(as, &found));
    if (!found) {
        x->p->found = false;
        TRY(make(x, stage, as));
        TRY(stet_measured_read(as, &found));
    }
    if (!found)
        return error_set(STET_EIO, "%s: the result was not kept", as->name);
    const stet_status st = json_read_text(as->name, found, strlen(found), record);
    mem_free(found);
    return st;
}

static stet_status measure(const sweep *s, sweep_point *p, stet_model *m, sweep_stage stage)
{
    const bool swaps = stages[stage].swaps, plain = stage == SWEEP_INSPECT;
    const char *path = p->held_out ? p->held_out : s->a.test;
    subject x = {.s = s, .p = p, .m = m};
    char name[96], *config = NULL;
    if (path)
        TRY(sweep_texts(s->files, path, p->held_out, plain ? NULL : m, &x.all));
    snprintf(name, sizeof name, "%s", stages[stage].command);
    if (stage == SWEEP_ATTACK)
        snprintf(name, sizeof name, "attack-%s-" SWEEP_PROFILE, s->a.attack);
    if (stage == SWEEP_CERTIFY)
        snprintf(name, sizeof name, "certify-auto");
    const size_t failures = mem_failures();
    json_t *settings = settings_of(&x, stage, path,
                                   swaps   ? (json_int_t)s->a.limit
                                   : plain ? INSPECTED
                                           : 0);
    stet_status st = settings && mem_failures() == failures
                         ? json_text(settings, JSON_COMPACT, &config)
                         : no_memory();
    json_decref(settings);
    stet_measured as = {.size = sizeof as,
                        .command = stages[stage].command,
                        .dir = p->dir,
                        .name = name,
                        .config = config,
                        .seed = (int64_t)s->a.seed,
                        .model = m,
                        .data = x.all,
                        .data_path = path,
                        .sets = swaps ? &s->files->sets : NULL,
                        .sets_path = swaps ? s->a.synonyms : NULL};
    if (st == STET_OK)
        st = result_of(&x, stage, &as, &p->record[stage]);
    mem_free(config);
    return st;
}

stet_status sweep_point_run(const sweep *s, sweep_point *p)
{
    stet_model *m = NULL;
    TRY(run_training(s, p));
    stet_status st = stet_model_load(p->dir, &m);
    for (sweep_stage k = SWEEP_TRAIN + 1; st == STET_OK && k < SWEEP_DONE; k++)
        if (sweep_wants(s, p, k))
            st = measure(s, p, m, k);
    stet_model_free(m);
    p->done = st == STET_OK;
    return st;
}
