/* train/card.c - what the folder says about its model: the "training" object and the model card. */
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/markup.h"
#include "base/mem.h"
#include "train/run_state.h"

/* File names may hold any bytes; those that are not UTF-8 become U+FFFD, as config.json has them. */
static json_t *name_json(const char *path)
{
    size_t n;
    const char *name = path_last(path, &n);
    json_t *o = NULL;
    buf quoted = {0};
    buf_json_string(&quoted, name, n);
    if (buf_status(&quoted) == STET_OK)
        json_read_text(name, quoted.data, quoted.n, &o);
    buf_deinit(&quoted);
    return o;
}

static json_t *names_json(const char *const *list, size_t n)
{
    json_t *a = json_array();
    for (size_t i = 0; list && i < n && list[i]; i++)
        if (json_array_append_new(a, name_json(list[i])) != 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

/* The last parts of paths between commas. */
static json_t *list_json(const char *paths)
{
    json_t *a = json_array();
    char *copy = mem_strdup(paths), *rest = copy;
    bool whole = a && copy;
    for (char *path; whole && (path = strsep(&rest, ","));)
        whole = json_array_append_new(a, name_json(path)) == 0;
    mem_free(copy);
    if (whole)
        return a;
    json_decref(a);
    return NULL;
}

static double smooth_power(const run_state *r)
{
    const double own = r->a->smooth_frequency;
    return own != 0 ? own : defense_list_real(&r->defenses, "smooth-frequency");
}

static const char *const schedule_names[] = {"constant", "cosine", "step", "linear"};

/* What only some runs have: rates, a fold, teachers, a schedule that is not constant. */
static bool add_rates(const run_state *r, json_t *o)
{
    const stet_train_args *a = r->a;
    bool whole = true;
    if (a->schedule != STET_CONSTANT)
        whole &= json_object_set_new(o, "schedule", json_string(schedule_names[a->schedule])) == 0;
    if (a->schedule == STET_WARM_LINEAR)
        whole &= json_object_set_new(o, "warmup", json_real(a->warmup)) == 0;
    if (a->schedule == STET_COSINE && a->hold > 0)
        whole &= json_object_set_new(o, "hold", json_real(a->hold)) == 0;
    if (a->folds)
        whole &= json_object_set_new(o, "fold", json_integer((json_int_t)a->fold)) == 0 &&
                 json_object_set_new(o, "folds", json_integer((json_int_t)a->folds)) == 0;
    if (a->teacher)
        whole &= json_object_set_new(o, "teacher", list_json(a->teacher)) == 0 &&
                 json_object_set_new(o, "teacher_weight", json_real(a->teacher_weight)) == 0 &&
                 json_object_set_new(o, "teacher_worst", json_boolean(a->teacher_worst)) == 0;
    if (a->word_layer)
        whole &=
            json_object_set_new(o, "word_layer", json_integer((json_int_t)a->word_layer)) == 0;
    if (a->vector_rate > 0)
        whole &= json_object_set_new(o, "vector_rate", json_real(a->vector_rate)) == 0;
    if (r->p.m->scores >= 0)
        whole &= json_object_set_new(o, "score_rate", json_real(a->score_rate)) == 0 &&
                 json_object_set_new(o, "score_decay", json_real(a->score_decay)) == 0;
    return whole;
}

json_t *training_json(const run_state *r, bool complete)
{
    const stet_train_args *a = r->a;
    char print[17];
    snprintf(print, sizeof print, "%016" PRIx64, r->p.fingerprint);
    json_t *o = json_pack(
        "{s:s, s:o, s:o, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:s, s:I, s:f, s:f, s:o, s:o, "
        "s:I, s:I, s:I}",
        "run", print, "data", name_json(a->data), "vectors", names_json(a->vectors, a->n_vectors),
        "defense", a->defense, "batch", (json_int_t)a->batch, "epochs", (json_int_t)a->epochs,
        "patience", (json_int_t)a->patience, "rate", r->groups[0].rate, "decay", r->groups[0].decay,
        "dropout", r->dropout, "clip", a->clip, "optimizer",
        r->opt.how.kind == OPTIM_ADAM ? "adam" : "adamw", "seed", (json_int_t)a->seed, "smooth",
        defense_list_real(&r->defenses, "smooth"), "smooth_frequency", smooth_power(r), "synonyms",
        name_json(a->synonyms ? a->synonyms : ""), "defense_settings",
        names_json(a->defense_settings, 64), "train_texts", (json_int_t)r->p.train.n_texts,
        "valid_texts", (json_int_t)r->p.valid.n_texts, "parameters", (json_int_t)r->p.m->n_values);
    bool whole = o && add_rates(r, o);
    if (whole && a->init)
        whole = json_object_set_new(o, "init", name_json(a->init)) == 0;
    if (whole && r->p.subst) {
        snprintf(print, sizeof print, "%016" PRIx64, r->p.synonyms);
        whole = json_object_set_new(o, "synonyms_fingerprint", json_string(print)) == 0;
    }
    if (whole && r->stop.epoch)
        whole = json_object_set_new(o, "best_epoch",
                                    json_integer((json_int_t)r->stop.best_epoch)) == 0 &&
                json_object_set_new(o, "valid_accuracy", json_real(r->stop.best)) == 0 &&
                json_object_set_new(o, "valid_loss", json_real(r->at.valid_loss)) == 0;
    if (whole && complete)
        whole = json_object_set_new(o, "epochs_run", json_integer((json_int_t)r->at.epoch)) == 0;
    if (!whole) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static void put_name(markup *b, const char *path)
{
    size_t n;
    const char *name = path_last(path, &n);
    put_text(b, name, n);
}

stet_status card_write(const run_state *r)
{
    const stet_train_args *a = r->a;
    const model *m = r->p.m;
    markup b = {.escape = escape_markdown};
    put(&b, "# A %s text classifier\n\n", m->desc->name);
    put(&b, "Made by stet %s. %s; %zu trained parameters", STET_VERSION, m->desc->summary,
        m->n_values);
    if (m->table_param < 0)
        put(&b, " on %s word vectors of %zu dimensions, %zu words.\n\n",
            a->vector_rate > 0 ? "learned" : "frozen", m->dim, m->n_words);
    else
        put(&b, ", among them vectors of %zu dimensions for %zu pieces of words.\n\n", m->dim,
            m->n_words);
    put(&b, "| | |\n| --- | --- |\n");
    put(&b, "| classes | ");
    for (size_t c = 0; c < m->n_classes; c++)
        put(&b, "%s%s", c ? ", " : "", m->class_names[c]);
    put(&b, " |\n| training data | ");
    put_name(&b, a->data);
    put(&b, ": %zu texts, %zu held out for validation |\n", r->p.train.n_texts, r->p.valid.n_texts);
    put(&b, "| %s | ", a->n_vectors ? "word vectors" : "started from");
    if (a->init)
        put_name(&b, a->init);
    else if (!a->n_vectors)
        put(&b, "random numbers");
    for (size_t i = 0; i < a->n_vectors; i++) {
        put(&b, "%s", i ? ", " : "");
        put_name(&b, a->vectors[i]);
    }
    const double lambda = defense_list_real(&r->defenses, "smooth"), power = smooth_power(r);
    if (lambda > 0) {
        put(&b, ", smoothed over ");
        put_name(&b, a->synonyms);
        put(&b, " with lambda %g", lambda);
    }
    if (lambda > 0 && power != 0)
        put(&b, ", weights by frequency to the power %g", power);
    put(&b, " |\n| defence | %s", a->defense);
    for (const char *const *s = a->defense_settings; s && *s; s++)
        put(&b, ", %s", *s);
    put(&b, " |\n| training | %s, rate %g, weight decay %g, batch %zu, dropout %g, seed %llu |\n",
        r->opt.how.kind == OPTIM_ADAM ? "Adam" : "AdamW", r->groups[0].rate, r->groups[0].decay,
        a->batch, r->dropout, (unsigned long long)a->seed);
    if (a->teacher) {
        put(&b, "| soft labels | weight %g, of ", a->teacher_weight);
        for (const char *s = a->teacher; s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL) {
            char path[512];
            snprintf(path, sizeof path, "%.*s", (int)strcspn(s, ","), s);
            put(&b, "%s", s == a->teacher ? "" : ", ");
            put_name(&b, path);
        }
        put(&b, " |\n");
    }
    if (a->folds)
        put(&b, "| held out | fold %zu of %zu |\n", a->fold, a->folds);
    if (a->word_layer)
        put(&b, "| word layer | %zu units over vectors of %zu dimensions, in the table |\n",
            a->word_layer, m->raw_dim);
    if (a->vector_rate > 0)
        put(&b, "| word vectors learn | rate %g |\n", a->vector_rate);
    if (m->scores >= 0)
        put(&b, "| word scores | rate %g, decay %g |\n", a->score_rate, a->score_decay);
    put(&b, "| chosen | epoch %llu of %llu, %s validation accuracy %.2f %% |\n\n",
        (unsigned long long)r->stop.best_epoch, (unsigned long long)r->at.epoch,
        r->stop.last ? "the last:" : "by", 100 * r->stop.best);
    if (r->stop.last)
        put(&b, "The last epoch is kept whatever its validation accuracy. Measure on a test set "
                "with\n");
    else
        put(&b, "The epoch was chosen by validation accuracy, which is therefore optimistic. "
                "Measure on a test set with\n");
    put(&b, "`stet eval`, and under attack with `stet attack`. `config.json` says how texts are "
            "tokenised.\nThe classifier knows nothing beyond its training data, and its "
            "probabilities are not calibrated.\n");
    char *path = path_join(a->out, "README.md");
    stet_status st = markup_status(&b);
    if (st == STET_OK)
        st = path ? file_write_all(path, b.out.data, b.out.n) : STET_ENOMEM;
    mem_free(path);
    markup_deinit(&b);
    return st;
}
