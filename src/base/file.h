/* base/file.h - whole files and atomic replacement.
 *
 * A writer collects into PATH.tmp-PID and appears at PATH only on commit (write, fsync, rename,
 * fsync of the folder), so that a reader sees the old file or the new one, never a part. Existing
 * permissions and symbolic links are kept; a device or a pipe is written directly.
 *
 *     atomic_file f;
 *     TRY(atomic_open(&f, path));
 *     stet_status st = atomic_write(&f, data, size);
 *     if (st == STET_OK) st = atomic_commit(&f);   // on failure nothing is left behind
 *     else atomic_abort(&f); */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <dirent.h>
#include <stdio.h>

#include "base/error.h"
#include "base/sha256.h"

typedef struct atomic_file {
    FILE *stream;               /* may be written with stdio; errors are found at commit */
    char *path, *target, *temp; /* as given; links resolved; NULL for a device or pipe */
    struct file_sink *sink;
} atomic_file;

stet_status atomic_open(atomic_file *f, const char *path);
stet_status atomic_write(atomic_file *f, const void *data, size_t size);
stet_status atomic_printf(atomic_file *f, const char *fmt, ...) PRINTF_LIKE(2, 3);
stet_status atomic_commit(atomic_file *f);
void atomic_abort(atomic_file *f); /* fine after a failed open or commit */
/* What killed processes left in a folder: NAME.tmp-PID of a process that is gone; of any name where NAME is NULL.
 * atomic_open does it for its own path. */
void file_leftovers(const char *folder, const char *name);
stet_status file_write_all(const char *path, const void *data, size_t size); /* all of the above */

/* A regular file of at most so many bytes, or why not: opening a FIFO would wait, reading a device might not end. */
stet_status file_plain(const char *path, size_t max_size);
/* The whole file, with a NUL after the last byte (not counted); release with mem_free. */
stet_status file_read_all(const char *path, size_t max_size, char **data, size_t *size);

stet_status file_sha256(const char *path, char out[SHA256_HEX], uint64_t *size); /* size may be NULL */

/* A read-only mapping; an empty file maps to size 0. */
typedef struct file_map {
    const unsigned char *data;
    size_t size;
} file_map;
stet_status file_map_open(file_map *m, const char *path);
void file_map_close(file_map *m);

stet_status dir_make(const char *path); /* with parents; fine if it exists */
/* True also for what cannot be looked at (EIO, EACCES): opening it will say why. */
bool file_exists(const char *path);
bool dir_exists(const char *path);
stet_status file_sync_folder(const char *path); /* a rename to `path` lasts */
stet_status file_look(const char *path, bool *there); /* STET_EIO: it cannot be known */
/* The next entry; NULL: there is none, or, where *st changes, it cannot be read. */
struct dirent *dir_next(DIR *d, const char *path, stet_status *st);
stet_status file_remove(const char *path); /* fine if it does not exist */
char *path_join(const char *dir, const char *name); /* new string, NULL: out of memory */
/* Where the last part of a path begins, *n bytes long, slashes at the end left out: folders of one machine mean
 * nothing on another. */
const char *path_last(const char *path, size_t *n);

#endif
