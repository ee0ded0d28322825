/* text/read_folder.c - a folder of classes: DIR/neg/0_3.txt, DIR/pos/0_9.txt, as in aclImdb. Each
 * sub-folder is a class, each file in it a text; `unsup` (aclImdb's unlabelled part) and hidden
 * names are passed over. */
#include "text/reader.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

enum { FILE_CAP = 64 << 20 };

typedef struct name_list {
    char **v;
    size_t n, cap;
} name_list;

static void free_names(name_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        mem_free(l->v[i]);
    mem_free(l->v);
}

/* By the number in front, as the texts of aclImdb are numbered, then by bytes. */
static int by_number(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    const unsigned long long i = strtoull(x, NULL, 10), k = strtoull(y, NULL, 10);
    return i != k ? (i < k ? -1 : 1) : strcmp(x, y);
}

static stet_status add_name(const char *dir, const char *name, bool folders, name_list *out)
{
    char *path = path_join(dir, name);
    if (!path)
        return STET_ENOMEM;
    const bool wanted = folders ? dir_exists(path) : file_exists(path);
    mem_free(path);
    if (!wanted)
        return STET_OK;
    TRY(mem_grow(&out->v, &out->cap, out->n + 1, sizeof *out->v));
    out->v[out->n] = mem_strdup(name);
    return out->v[out->n] ? (out->n++, STET_OK) : STET_ENOMEM;
}

/* The folders, or the files, of `dir`, sorted. */
static stet_status list(const char *dir, bool folders, name_list *out)
{
    DIR *handle = opendir(dir);
    if (!handle)
        return error_set(STET_EIO, "%s: %s", dir, strerror(errno));
    stet_status st = STET_OK;
    struct dirent *entry;
    while (st == STET_OK && (entry = dir_next(handle, dir, &st)))
        if (entry->d_name[0] != '.')
            st = add_name(dir, entry->d_name, folders, out);
    closedir(handle);
    if (st == STET_OK && out->n)
        qsort(out->v, out->n, sizeof *out->v, by_number);
    return st;
}

static stet_status add_file(data_builder *b, const char *path, const char *class)
{
    char *data;
    size_t size;
    TRY(file_read_all(path, FILE_CAP, &data, &size));
    while (size > 0 && (data[size - 1] == '\n' || data[size - 1] == '\r'))
        size--;
    const char *const folder = b->path;
    b->path = path;
    stet_status st = builder_text(b, data, size);
    if (st == STET_OK)
        st = builder_row(b, 0, class, strlen(class));
    b->path = folder;
    mem_free(data);
    return st;
}

static stet_status add_class(data_builder *b, const char *dir, const char *class)
{
    name_list files = {0};
    stet_status st = list(dir, false, &files);
    for (size_t i = 0; st == STET_OK && i < files.n; i++) {
        char *path = path_join(dir, files.v[i]);
        st = path ? add_file(b, path, class) : STET_ENOMEM;
        mem_free(path);
    }
    free_names(&files);
    return st;
}

stet_status read_folder(data_builder *b, const char *dir)
{
    name_list classes = {0};
    stet_status st = list(dir, true, &classes);
    for (size_t c = 0; st == STET_OK && c < classes.n; c++) {
        if (strcmp(classes.v[c], "unsup") == 0)
            continue;
        char *path = path_join(dir, classes.v[c]);
        st = path ? add_class(b, path, classes.v[c]) : STET_ENOMEM;
        mem_free(path);
    }
    free_names(&classes);
    if (st == STET_OK && b->d->n == 0 && b->d->skipped == 0)
        st = error_set(
            STET_EFORMAT,
            "%s: no folders of texts such as neg/ and pos/ in it; in aclImdb, take train or test",
            dir);
    return st;
}
