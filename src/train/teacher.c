/* train/teacher.c - see teacher.h. */
#include "train/teacher.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/job.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/strmap.h"
#include "train/split.h"

/* ---- which folders ------------------------------------------------------------------------ */

typedef struct folders {
    char **v;
    size_t n, cap;
} folders;

/* The folder joins the list if it is that of a run. */
static stet_status add_run(folders *f, const char *dir, bool *added)
{
    char *config = path_join(dir, "config.json");
    if (!config)
        return STET_ENOMEM;
    *added = file_exists(config);
    mem_free(config);
    if (!*added)
        return STET_OK;
    TRY(mem_grow(&f->v, &f->cap, f->n + 1, sizeof *f->v));
    f->v[f->n] = mem_strdup(dir);
    return f->v[f->n] ? (f->n++, STET_OK) : STET_ENOMEM;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A run folder, or the run folders in one, by name. */
static stet_status find_runs(const char *dir, folders *f)
{
    bool added;
    TRY(add_run(f, dir, &added));
    if (added)
        return STET_OK;
    DIR *handle = opendir(dir);
    if (!handle)
        return error_set(STET_EIO, "--teacher %s: %s", dir, strerror(errno));
    const size_t first = f->n;
    stet_status st = STET_OK;
    for (const struct dirent *e; st == STET_OK && (e = readdir(handle));) {
        char *path = path_join(dir, e->d_name);
        st = !path ? STET_ENOMEM : e->d_name[0] == '.' ? STET_OK : add_run(f, path, &added);
        mem_free(path);
    }
    closedir(handle);
    if (st == STET_OK && f->n == first)
        return error_set(STET_EUSAGE, "--teacher %s: neither a run folder nor a folder of them",
                         dir);
    if (f->n > first)
        qsort(f->v + first, f->n - first, sizeof *f->v, by_name);
    return st;
}

static stet_status find_all(const char *list, folders *f)
{
    char *copy = mem_strdup(list);
    if (!copy)
        return STET_ENOMEM;
    stet_status st = STET_OK;
    char *rest = copy;
    for (char *dir; st == STET_OK && (dir = strsep(&rest, ","));)
        st = find_runs(dir, f);
    mem_free(copy);
    return st;
}

/* ---- one teacher -------------------------------------------------------------------------- */

/* The fold that it held out, as its folder says; {0}: it may teach all texts. */
typedef struct held_out {
    size_t fold, folds;
} held_out;

static held_out fold_of_run(const model *m)
{
    const json_t *training = json_object_get(m->extra, "training");
    return (held_out){(size_t)json_integer_value(json_object_get(training, "fold")),
                      (size_t)json_integer_value(json_object_get(training, "folds"))};
}

/* Where each class of the student is among the teacher's. */
static stet_status match_classes(const model *student, const model *m, size_t *at)
{
    for (size_t c = 0; c < student->n_classes; c++) {
        at[c] = 0;
        while (at[c] < m->n_classes && strcmp(m->class_names[at[c]], student->class_names[c]) != 0)
            at[c]++;
        if (at[c] == m->n_classes || m->n_classes != student->n_classes)
            return error_set(STET_EUSAGE, "--teacher %s: its classes differ from those of the data",
                             m->folder);
    }
    return STET_OK;
}

/* Adds its probabilities of the texts that it may teach to `sum` (n, K), and 1 to their `count`. A large
 * teacher answers on the device. */
static stet_status ask(const model *m, const char *where, const model *student,
                       const stet_dataset *train, double *sum, uint32_t *count)
{
    const size_t n = stet_dataset_size(train), K = student->n_classes;
    const held_out h = fold_of_run(m);
    size_t *index = mem_alloc(n + 1, sizeof *index), *at = mem_alloc(K, sizeof *at), some = 0;
    float *logits = NULL, *p = mem_alloc(K, sizeof *p);
    stet_dataset *texts = NULL;
    stet_corpus c = {0};
    stet_status st = index && at && p ? match_classes(student, m, at) : STET_ENOMEM;
    for (size_t i = 0; st == STET_OK && i < n; i++)
        if (!h.folds || fold_of(stet_dataset_text(train, i), h.folds) == h.fold)
            index[some++] = i;
    if (st == STET_OK && some)
        st = stet_dataset_pick(train, index, some, &texts);
    if (st == STET_OK && some)
        st = stet_model_encode(m, texts, &c);
    if (st == STET_OK && !(logits = mem_alloc(some * K + 1, sizeof *logits)))
        st = STET_ENOMEM;
    if (st == STET_OK && some)
        st = stet_model_logits_on(m, m->desc->eval_rows ? where : NULL, &c, logits);
    for (size_t i = 0; st == STET_OK && i < some; i++) {
        stet_softmax(logits + i * K, K, p);
        for (size_t k = 0; k < K; k++)
            sum[index[i] * K + k] += (double)p[at[k]];
        count[index[i]]++;
    }
    stet_corpus_deinit(&c);
    stet_dataset_free(texts);
    mem_free(index);
    mem_free(at);
    mem_free(logits);
    mem_free(p);
    return st;
}

static stet_status ask_all(const folders *f, const char *where, const model *student,
                           const stet_dataset *train, double *sum, uint32_t *count)
{
    stet_status st = STET_OK;
    for (size_t i = 0; st == STET_OK && i < f->n; i++) {
        stet_model *m;
        st = stet_model_load(f->v[i], &m);
        if (st != STET_OK)
            return error_prefix(st, "--teacher");
        st = ask(m, where, student, train, sum, count);
        stet_model_free(m);
    }
    return st;
}

/* ---- all of them -------------------------------------------------------------------------- */

static stet_status mix(const stet_dataset *train, size_t K, double weight, const double *sum,
                       const uint32_t *count, real *out)
{
    size_t right = 0;
    const size_t n = stet_dataset_size(train);
    for (size_t i = 0; i < n; i++) {
        const size_t label = (size_t)stet_dataset_label(train, i);
        size_t best = 0;
        if (count[i] == 0)
            return error_set(STET_EUSAGE,
                             "--teacher: every teacher has seen text %zu in its training, and "
                             "would repeat its label; give the teachers of all folds",
                             i);
        for (size_t k = 0; k < K; k++) {
            const double p = sum[i * K + k] / count[i];
            out[i * K + k] = (real)((k == label) * (1 - weight) + weight * p);
            best = sum[i * K + k] > sum[i * K + best] ? k : best;
        }
        right += best == label;
    }
    log_info("teachers: %.2f %% accurate on %zu training texts", 100 * (double)right / (double)n,
             n);
    return STET_OK;
}

stet_status teacher_targets(const stet_train_args *a, const model *student,
                            const stet_dataset *train, real **out)
{
    const size_t n = stet_dataset_size(train), K = student->n_classes;
    folders f = {0};
    double *sum = mem_zalloc(n * K + 1, sizeof *sum);
    uint32_t *count = mem_zalloc(n + 1, sizeof *count);
    real *target = mem_alloc(n * K + 1, sizeof *target);
    stet_status st = sum && count && target ? find_all(a->teacher, &f) : STET_ENOMEM;
    if (st == STET_OK)
        st = ask_all(&f, a->device ? a->device : job_device(), student, train, sum, count);
    if (st == STET_OK)
        st = mix(train, K, a->teacher_weight, sum, count, target);
    for (size_t i = 0; i < f.n; i++)
        mem_free(f.v[i]);
    mem_free(f.v);
    mem_free(sum);
    mem_free(count);
    if (st != STET_OK) {
        mem_free(target);
        target = NULL;
    }
    *out = target;
    return st;
}
