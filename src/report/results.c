/* report/results.c - see stet/results.h. */
#include "stet/results.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

static const char ending[] = ".json";
static const char name_letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

static bool good_name(const char *s)
{
    return *s && *s != '.' && s[strspn(s, name_letters)] == '\0';
}

static const char *identity_of(const json_t *o)
{
    const char *s = json_string_value(json_object_get(o, "identity"));
    return s ? s : "";
}

/* ---- writing ------------------------------------------------------------------------------ */

static char *file_of(const char *folder, const char *name, const char *identity)
{
    buf b = {0};
    buf_printf(&b, "%s/%s%s%s%s", folder, name, *identity ? "-" : "", identity, ending);
    return buf_take(&b);
}

/* NAME, or NAME-IDENTITY where NAME is the result of something else. A file that cannot be read
 * counts as something else: it is not ours to replace. */
static stet_status choose_path(const char *folder, const char *name, const json_t *o, char **out)
{
    *out = file_of(folder, name, "");
    if (!*out)
        return STET_ENOMEM;
    bool there;
    stet_status st = file_look(*out, &there);
    if (st != STET_OK || !there)
        return st;
    json_t *old = NULL;
    st = json_read_own(*out, &old);
    const bool same = st == STET_OK && strcmp(identity_of(old), identity_of(o)) == 0;
    json_decref(old);
    if (same || st == STET_ENOMEM)
        return st;
    mem_free(*out);
    *out = file_of(folder, name, *identity_of(o) ? identity_of(o) : "other");
    return *out ? STET_OK : STET_ENOMEM;
}

stet_status stet_results_write(const char *dir, const char *name, const char *json)
{
    json_t *o = NULL;
    char *folder = NULL, *path = NULL;
    stet_status st = json_read_text(name, json, strlen(json), &o);
    if (st == STET_OK &&
        (!json_is_object(o) || !good_name(name) || (*identity_of(o) && !good_name(identity_of(o)))))
        st = error_set(STET_EFORMAT, "%s: expected a plain name and a JSON object", name);
    if (st == STET_OK)
        st = (folder = path_join(dir, "results")) ? dir_make(folder) : STET_ENOMEM;
    if (st == STET_OK)
        st = choose_path(folder, name, o, &path);
    if (st == STET_OK)
        st = json_write_file(path, o);
    mem_free(folder);
    mem_free(path);
    json_decref(o);
    return st;
}

/* ---- reading ------------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static stet_status list_names(const char *folder, stet_results *r)
{
    DIR *handle = opendir(folder);
    if (!handle)
        return errno == ENOENT || errno == ENOTDIR
                   ? STET_OK
                   : error_set(STET_EIO, "%s: %s", folder, strerror(errno));
    size_t cap = 0;
    stet_status st = STET_OK;
    for (const struct dirent *e; st == STET_OK && (e = dir_next(handle, folder, &st));) {
        const size_t len = strlen(e->d_name), tail = sizeof ending - 1;
        if (len <= tail || e->d_name[0] == '.' || strcmp(e->d_name + len - tail, ending) != 0)
            continue;
        st = mem_grow(&r->name, &cap, r->n + 1, sizeof *r->name);
        if (st == STET_OK && !(r->name[r->n] = mem_strndup(e->d_name, len - tail)))
            st = STET_ENOMEM;
        r->n += st == STET_OK;
    }
    closedir(handle);
    if (st == STET_OK && r->n)
        qsort(r->name, r->n, sizeof *r->name, by_name);
    return st;
}

static stet_status read_one(const char *folder, const char *name, char **out)
{
    char *path = file_of(folder, name, "");
    json_t *o = NULL;
    buf line = {0};
    stet_status st = path ? json_read_own(path, &o) : STET_ENOMEM;
    if (st == STET_OK && !json_is_object(o))
        st = error_set(STET_EFORMAT, "%s: expected a JSON object", path);
    if (st == STET_OK) {
        json_append_line(&line, o);
        st = buf_status(&line);
    }
    if (st == STET_OK)
        *out = buf_take(&line);
    buf_deinit(&line);
    json_decref(o);
    mem_free(path);
    return st;
}

stet_status stet_results_read(const char *dir, stet_results *out)
{
    *out = (stet_results){0};
    char *folder = path_join(dir, "results");
    stet_status st = folder ? list_names(folder, out) : STET_ENOMEM;
    if (st == STET_OK && !(out->json = mem_zalloc(out->n + 1, sizeof *out->json)))
        st = STET_ENOMEM;
    for (size_t i = 0; st == STET_OK && i < out->n; i++)
        st = read_one(folder, out->name[i], &out->json[i]);
    mem_free(folder);
    if (st != STET_OK)
        stet_results_deinit(out);
    return st;
}

void stet_results_deinit(stet_results *r)
{
    for (size_t i = 0; i < r->n; i++) {
        mem_free(r->name[i]);
        mem_free(r->json ? r->json[i] : NULL);
    }
    mem_free(r->name);
    mem_free(r->json);
    *r = (stet_results){0};
}

void stet_interval(double share, double n, double *lo, double *hi)
{
    static const double z = 1.959963984540054;
    const double middle = (share + z * z / (2 * n)) / (1 + z * z / n),
                 half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n));
    *lo = n > 0 ? fmax(0, middle - half) : NAN;
    *hi = n > 0 ? fmin(1, middle + half) : NAN;
}

stet_status stet_folder_make(const char *path)
{
    return dir_make(path);
}
