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
#include "report/report_impl.h"

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

typedef struct name_list {
    char **name;
    size_t n, cap;
} name_list;

static stet_status list_names(const char *folder, name_list *l)
{
    DIR *handle = opendir(folder);
    if (!handle)
        return errno == ENOENT || errno == ENOTDIR
                   ? STET_OK
                   : error_set(STET_EIO, "%s: %s", folder, strerror(errno));
    stet_status st = STET_OK;
    for (const struct dirent *e; st == STET_OK && (e = dir_next(handle, folder, &st));) {
        const size_t len = strlen(e->d_name), tail = sizeof ending - 1;
        if (len <= tail || e->d_name[0] == '.' || strcmp(e->d_name + len - tail, ending) != 0)
            continue;
        st = mem_grow(&l->name, &l->cap, l->n + 1, sizeof *l->name);
        if (st == STET_OK && !(l->name[l->n] = mem_strndup(e->d_name, len - tail)))
            st = STET_ENOMEM;
        l->n += st == STET_OK;
    }
    closedir(handle);
    if (st == STET_OK && l->n)
        qsort(l->name, l->n, sizeof *l->name, by_name);
    return st;
}

static stet_status read_one(const char *folder, const char *name, result_take *take, void *ctx)
{
    char *path = file_of(folder, name, "");
    json_t *o = NULL;
    stet_status st = path ? json_read_own(path, &o) : STET_ENOMEM;
    if (st == STET_OK && !json_is_object(o))
        st = error_set(STET_EFORMAT, "%s: expected a JSON object", path);
    if (st == STET_OK)
        st = take(ctx, name, o);
    json_decref(o);
    mem_free(path);
    return st;
}

stet_status results_each(const char *dir, result_take *take, void *ctx)
{
    name_list l = {0};
    char *folder = path_join(dir, "results");
    stet_status st = folder ? list_names(folder, &l) : STET_ENOMEM;
    for (size_t i = 0; st == STET_OK && i < l.n; i++)
        st = read_one(folder, l.name[i], take, ctx);
    for (size_t i = 0; i < l.n; i++)
        mem_free(l.name[i]);
    mem_free(l.name);
    mem_free(folder);
    return st;
}

typedef struct reading {
    stet_results *out;
    size_t cap_name, cap_json;
} reading;

static stet_status take_text(void *ctx, const char *name, json_t *o)
{
    reading *g = ctx;
    stet_results *r = g->out;
    TRY(mem_grow(&r->name, &g->cap_name, r->n + 1, sizeof *r->name));
    TRY(mem_grow(&r->json, &g->cap_json, r->n + 1, sizeof *r->json));
    buf line = {0};
    json_append_line(&line, o);
    const stet_status st = buf_status(&line);
    r->name[r->n] = mem_strdup(name);
    r->json[r->n++] = buf_take(&line);
    buf_deinit(&line);
    return st == STET_OK && !r->name[r->n - 1] ? STET_ENOMEM : st;
}

stet_status stet_results_read(const char *dir, stet_results *out)
{
    *out = (stet_results){0};
    reading g = {.out = out};
    const stet_status st = results_each(dir, take_text, &g);
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

void stet_interval(double ratio, double n, double *lo, double *hi)
{
    static const double z = 1.959963984540054;
    const double middle = (ratio + z * z / (2 * n)) / (1 + z * z / n),
                 half = z / (1 + z * z / n) * sqrt(ratio * (1 - ratio) / n + z * z / (4 * n * n));
    *lo = n > 0 ? fmax(0, middle - half) : NAN;
    *hi = n > 0 ? fmin(1, middle + half) : NAN;
}

stet_status stet_folder_make(const char *path)
{
    return dir_make(path);
}
