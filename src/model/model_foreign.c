/* model/model_foreign.c - model folders that other programs wrote, for the kinds that can read them. */
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "model/kind_list.h"

const model_desc *model_foreign_kind(const json_t *config)
{
    for (const model_desc *const *d = model_descs; *d; d++)
        if ((*d)->foreign && (*d)->foreign->is(config))
            return *d;
    return NULL;
}

/* Before memory is taken for what a configuration only announces. */
static stet_status check_size(const model *m, const char *dir)
{
    char *path = path_join(dir, "model.safetensors");
    if (!path)
        return STET_ENOMEM;
    file_map map;
    stet_status st = file_exists(path) ? file_map_open(&map, path) : STET_OK;
    if (st == STET_OK && file_exists(path)) {
        const size_t n = m->head ? m->params[m->head_first].first : m->n_values;
        if (n > map.size)
            st = error_set(STET_EFORMAT,
                           "%s: %zu bytes cannot hold the %zu parameters that config.json "
                           "announces",
                           path, map.size, n);
        file_map_close(&map);
    }
    mem_free(path);
    return st;
}

/* One list of both; none may be in both. */
static stet_status join_settings(const char *dir, const char **theirs, const char *const *given,
                                 arena *mem, const char ***out)
{
    size_t n = 0, more = 0;
    while (theirs[n])
        n++;
    while (given && given[more])
        more++;
    *out = arena_znew(mem, const char *, n + more + 1);
    if (!*out)
        return STET_ENOMEM;
    memcpy(*out, theirs, n * sizeof *theirs);
    for (size_t k = 0; k < more; k++) {
        const size_t len = strcspn(given[k], "=") + 1;
        for (size_t i = 0; i < n; i++)
            if (strncmp(theirs[i], given[k], len) == 0)
                return error_set(STET_EUSAGE, "--%.*s: --init %s already sets it", (int)len - 1,
                                 given[k], dir);
        (*out)[n + k] = given[k];
    }
    return STET_OK;
}

static stet_status alloc_foreign(const model_desc *desc, const char *dir, const char *path,
                                 const json_t *config, const char *const *given, size_t n_classes,
                                 model **out)
{
    arena scratch = {0};
    const char **theirs = NULL, **settings = NULL;
    *out = NULL;
    stet_status st = desc->foreign->settings(config, path, dir, &scratch, &theirs);
    if (st == STET_OK)
        st = join_settings(dir, theirs, given, &scratch, &settings);
    if (st == STET_OK) {
        const reader_source from = {.folder = dir};
        st = model_alloc(desc, settings, &from, 0, n_classes, out);
        if (st == STET_EUSAGE && !(given && *given))
            st = error_prefix(STET_EFORMAT, "%s", path);
    }
    arena_deinit(&scratch);
    if (st == STET_OK)
        st = check_size(*out, dir);
    if (st != STET_OK) {
        stet_model_free(*out);
        *out = NULL;
    }
    return st;
}

stet_status model_alloc_foreign(const model_desc *desc, const char *folder,
                                const char *const *settings, size_t n_classes, model **out)
{
    *out = NULL;
    json_t *config = NULL;
    if (!dir_exists(folder))
        return error_set(STET_EIO, "%s: no such folder", folder);
    char *path = path_join(folder, "config.json");
    if (!path)
        return STET_ENOMEM;
    stet_status st = json_read_own(path, &config);
    if (st == STET_OK && !desc->foreign->is(config))
        st = error_set(STET_EFORMAT, "%s: not the configuration of a %s", path, desc->name);
    if (st == STET_OK)
        st = alloc_foreign(desc, folder, path, config, settings, n_classes, out);
    json_decref(config);
    mem_free(path);
    return st;
}

static stet_status fill_foreign(model *m, const char *dir, const char *const *names)
{
    stet_vocab *none;
    m->folder = mem_strdup(dir);
    TRY(m->folder ? model_class_names(m, names) : STET_ENOMEM);
    TRY(stet_vocab_from_words(NULL, 0, &none));
    model_read_by(m, none, STET_TOK_WORD, SIZE_MAX);
    TRY(model_zeros(m));
    return m->desc->foreign->load(m, dir, NULL);
}

stet_status model_load_foreign(const model_desc *desc, const char *dir, const char *path,
                               const json_t *config, model **out)
{
    arena scratch = {0};
    const char **names = NULL;
    size_t n = 0;
    model *m = NULL;
    stet_status st = desc->foreign->classes(config, path, &scratch, &names, &n);
    if (st == STET_OK)
        st = alloc_foreign(desc, dir, path, config, NULL, n, &m);
    if (st == STET_OK)
        st = fill_foreign(m, dir, names);
    arena_deinit(&scratch);
    if (st == STET_OK)
        *out = m;
    else
        stet_model_free(m);
    return st;
}
