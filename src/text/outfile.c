/* text/outfile.c - libarchive's filters between us and an atomic file. */
#include "text/outfile.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

static const struct {
    const char *suffix;
    int (*add)(struct archive *);
} filters[] = {
    {".gz", archive_write_add_filter_gzip},
    {".xz", archive_write_add_filter_xz},
    {".zst", archive_write_add_filter_zstd},
};
enum { N_FILTERS = sizeof filters / sizeof *filters };

struct outfile {
    atomic_file file;
    FILE *standard;          /* standard output instead of `file`, or NULL */
    struct archive *archive; /* NULL: plain */
    stet_status status;      /* of writing compressed data */
};

static int filter_of(const char *path, size_t n)
{
    for (int i = 0; i < N_FILTERS; i++) {
        const size_t k = strlen(filters[i].suffix);
        if (n > k && strncasecmp(path + n - k, filters[i].suffix, k) == 0)
            return i;
    }
    return -1;
}

size_t outfile_stem(const char *path, size_t n)
{
    const int i = filter_of(path, n);
    return i < 0 ? n : n - strlen(filters[i].suffix);
}

static const char *name_of(const outfile *f)
{
    return f->standard ? "standard output" : f->file.path;
}

static stet_status put(outfile *f, const void *data, size_t n)
{
    if (!f->standard)
        return atomic_write(&f->file, data, n);
    return fwrite(data, 1, n, f->standard) == n
               ? STET_OK
               : error_set(STET_EIO, "standard output: %s", strerror(errno));
}

/* libarchive leaks its filter once a write has failed. So it never hears of failures: they are kept
 * here and whatever follows is dropped. */
static la_ssize_t write_block(struct archive *a, void *user, const void *data, size_t n)
{
    (void)a;
    outfile *f = user;
    if (f->status == STET_OK)
        f->status = put(f, data, n);
    return (la_ssize_t)n;
}

static stet_status archive_failure(const outfile *f)
{
    const char *why = archive_error_string(f->archive);
    return error_set(STET_EIO, "%s: %s", name_of(f), why ? why : "cannot compress");
}

/* The "raw" archive format is the bytes of one entry and nothing else. */
static stet_status start_filter(outfile *f, int filter)
{
    f->archive = archive_write_new();
    struct archive_entry *entry = archive_entry_new();
    stet_status st = f->archive && entry ? STET_OK : error_set(STET_ENOMEM, "out of memory");
    if (st == STET_OK) {
        archive_entry_set_filetype(entry, AE_IFREG);
        if (filters[filter].add(f->archive) < ARCHIVE_WARN ||
            archive_write_set_format_raw(f->archive) != ARCHIVE_OK ||
            (strcmp(filters[filter].suffix, ".gz") == 0 && /* the same bytes tomorrow */
             archive_write_set_filter_option(f->archive, "gzip", "timestamp", NULL) != ARCHIVE_OK) ||
            archive_write_set_bytes_in_last_block(f->archive, 1) != ARCHIVE_OK || /* no padding */
            archive_write_open(f->archive, f, NULL, write_block, NULL) != ARCHIVE_OK ||
            archive_write_header(f->archive, entry) != ARCHIVE_OK)
            st = archive_failure(f);
    }
    archive_entry_free(entry);
    return st;
}

/* Our own stream on the same descriptor: what the host's stdio still holds comes first. */
static stet_status open_standard(outfile *f)
{
    fflush(stdout);
    const int fd = dup(STDOUT_FILENO);
    f->standard = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (f->standard)
        return STET_OK;
    const int error = errno;
    if (fd >= 0)
        close(fd);
    return error_set(STET_EIO, "standard output: %s", strerror(error));
}

stet_status outfile_open(const char *path, outfile **out)
{
    *out = NULL;
    outfile *f = mem_zalloc(1, sizeof *f);
    if (!f)
        return STET_ENOMEM;
    const int filter = filter_of(path, strlen(path));
    stet_status st = strcmp(path, "-") == 0 ? open_standard(f) : atomic_open(&f->file, path);
    if (st == STET_OK && filter >= 0)
        st = start_filter(f, filter);
    if (st != STET_OK)
        return outfile_close(f, st);
    *out = f;
    return STET_OK;
}

stet_status outfile_write(outfile *f, const void *data, size_t n)
{
    if (!f->archive)
        return put(f, data, n);
    if (n > 0 && archive_write_data(f->archive, data, n) != (la_ssize_t)n)
        return archive_failure(f);
    return f->status;
}

/* The rest of the compressed data comes out here. */
static stet_status end_filter(outfile *f, stet_status st)
{
    if (st != STET_OK)
        f->status = st; /* drop it */
    if (archive_write_close(f->archive) != ARCHIVE_OK && st == STET_OK)
        st = archive_failure(f);
    archive_write_free(f->archive);
    return st == STET_OK ? f->status : st;
}

stet_status outfile_close(outfile *f, stet_status st)
{
    if (!f)
        return st;
    if (f->archive)
        st = end_filter(f, st);
    if (f->standard && fclose(f->standard) != 0 && st == STET_OK)
        st = error_set(STET_EIO, "standard output: %s", strerror(errno));
    if (!f->standard && st == STET_OK)
        st = atomic_commit(&f->file);
    else
        atomic_abort(&f->file);
    mem_free(f);
    return st;
}
