/* train/folder.c - what is in the run's folder before it begins: nothing, an older run, or files of somebody else, which
 * stay as they are. */
#include <errno.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/run_state.h"

/* config.json of the folder; NULL where there is none, or one that is no JSON. */
static stet_status config_of(const run_state *r, json_t **out)
{
    *out = NULL;
    char *path = path_join(r->a->out, "config.json");
    if (!path)
        return STET_ENOMEM;
    const stet_status st = file_exists(path) ? json_read_own(path, out) : STET_OK;
    mem_free(path);
    return st == STET_EFORMAT ? STET_OK : st;
}

/* ---- whose folder it is ------------------------------------------------------------------- */

/* Does train.jsonl begin as journal.c begins it? A run that was killed early leaves it empty. */
static stet_status is_journal(const char *path, bool *is)
{
    static const char begin[] = "{\"schema\":";
    char got[sizeof begin] = "";
    *is = false;
    if (!file_exists(path))
        return STET_OK;
    TRY(file_plain(path, SIZE_MAX));
    FILE *f = fopen(path, "r");
    if (!f)
        return error_set(STET_EIO, "%s: %s", path, strerror(errno));
    const size_t n = fread(got, 1, sizeof begin - 1, f);
    fclose(f);
    *is = n == 0 || strcmp(got, begin) == 0;
    return STET_OK;
}

static stet_status keep_foreign_files(const run_state *r)
{
    static const char *const written[] = {"train.jsonl", "config.json", "model.safetensors",
                                          "vocab.txt", "README.md"};
    json_t *config;
    TRY(config_of(r, &config));
    bool ours = json_object_get(config, "stet") != NULL;
    json_decref(config);
    stet_status st = ours ? STET_OK : is_journal(r->log_path, &ours);
    for (size_t i = 0; st == STET_OK && !ours && i < sizeof written / sizeof *written; i++) {
        char *path = path_join(r->a->out, written[i]);
        bool there = false;
        st = path ? file_look(path, &there) : STET_ENOMEM;
        if (there)
            st = error_set(STET_EUSAGE,
                           "%s: stet did not write this file, and training would replace it: "
                           "choose another folder",
                           path);
        mem_free(path);
    }
    return st;
}

/* Two runs in one folder would leave the weights of one with the configuration of the other. */
static stet_status lock_folder(run_state *r)
{
    r->folder = opendir(r->a->out);
    if (!r->folder)
        return error_set(STET_EIO, "%s: %s", r->a->out, strerror(errno));
    if (flock(dirfd(r->folder), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return error_set(STET_EIO, "%s: another run is writing to this folder", r->a->out);
    return STET_OK; /* where the file system has no locks, without one */
}

stet_status folder_check(const run_state *r)
{
    struct stat held, now;
    if (fstat(dirfd(r->folder), &held) == 0 && stat(r->a->out, &now) == 0 &&
        held.st_dev == now.st_dev && held.st_ino == now.st_ino)
        return STET_OK;
    return error_set(STET_EIO,
                     "%s: the folder was removed or replaced while the run was writing to it",
                     r->a->out);
}

stet_status folder_open(run_state *r)
{
    TRY(dir_make(r->a->out));
    TRY(lock_folder(r));
    file_leftovers(r->a->out, NULL);
    r->log_path = path_join(r->a->out, "train.jsonl");
    r->checkpoint_path = path_join(r->a->out, "checkpoint.safetensors");
    return r->log_path && r->checkpoint_path ? keep_foreign_files(r) : STET_ENOMEM;
}

/* ---- a complete run ----------------------------------------------------------------------- */

/* The first setting in which the run asked for differs from the one that is there, by name. */
static stet_status same_run(const run_state *r, const json_t *config)
{
    json_t *now = json_pack("{s:s}", "model", r->p.m->desc->name), *v;
    if (json_object_update_new(now, training_json(r, false)) != 0) {
        json_decref(now);
        return error_set(STET_ENOMEM, "out of memory");
    }
    const char *key;
    stet_status st = STET_OK;
    json_object_foreach(now, key, v)
    {
        const json_t *of = strcmp(key, "model") == 0 ? config : json_object_get(config, "training"),
                     *then = json_object_get(of, key);
        if (st != STET_OK || !then || json_equal(v, then) || strcmp(key, "run") == 0)
            continue;
        buf was = {0}, is = {0};
        json_append_line(&was, then);
        json_append_line(&is, v);
        st = buf_status(&was) != STET_OK || buf_status(&is) != STET_OK
                 ? STET_ENOMEM
                 : error_set(STET_EUSAGE,
                             "%s: holds a complete run with %s %.*s, not %.*s: start without "
                             "--resume, or choose another folder",
                             r->a->out, key, (int)was.n - 1, was.data, (int)is.n - 1, is.data);
        buf_deinit(&was);
        buf_deinit(&is);
    }
    json_decref(now);
    return st;
}

stet_status folder_take_complete(run_state *r, bool *complete)
{
    json_t *config;
    TRY(config_of(r, &config));
    const json_t *t = json_object_get(config, "training"),
                 *epochs = json_object_get(t, "epochs_run");
    *complete = json_is_integer(epochs) && !file_exists(r->checkpoint_path);
    stet_status st = *complete ? same_run(r, config) : STET_OK;
    if (*complete && st == STET_OK) {
        r->at.epoch = (uint64_t)json_integer_value(epochs);
        r->at.step = r->at.epoch * r->steps_per_epoch;
        r->at.valid_loss = json_number_value(json_object_get(t, "valid_loss"));
        r->stop.best_epoch = (uint64_t)json_integer_value(json_object_get(t, "best_epoch"));
        r->stop.best = json_number_value(json_object_get(t, "valid_accuracy"));
        log_info("%s: the run is complete, nothing to resume", r->a->out);
    }
    json_decref(config);
    return st;
}
