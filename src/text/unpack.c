/* text/unpack.c - archives by libarchive, trusting nothing in them.
 *
 * Everything is written below a fresh folder, DIR/.unpack-PID, so a broken archive leaves nothing behind. When all of it
 * is there the folder becomes DIR/.unpacked-ARCHIVE and its entries are moved into place; if that is interrupted, the next
 * run moves the rest. Names that are absolute or
 * climb by ".." are refused, and so is whatever is neither a file nor a folder: a link could point
 * outside. */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/fetch.h"

#define UNPACKED_MAX (UINT64_C(64) << 30) /* bytes; the largest known item unpacks to 6 GB */

bool unpack_is_archive(const char *file)
{
    static const char *const suffixes[] = {".tar.gz",  ".tgz", ".tar.xz", ".tar.zst",
                                           ".tar.bz2", ".tar", ".zip"};
    const size_t n = strlen(file);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const size_t k = strlen(suffixes[i]);
        if (n > k && strcasecmp(file + n - k, suffixes[i]) == 0)
            return true;
    }
    return false;
}

static bool name_is_safe(const char *name)
{
    if (*name == '/' || *name == '\0')
        return false;
    for (const char *s = name; *s;) {
        const size_t n = strcspn(s, "/");
        if (n == 2 && s[0] == '.' && s[1] == '.')
            return false;
        s += n + (s[n] == '/');
    }
    return true;
}

typedef struct unpacking {
    struct archive *from;
    const char *path; /* of the archive */
    const char *dir;  /* the fresh folder */
    uint64_t written;
} unpacking;

static stet_status archive_failure(const unpacking *u)
{
    const char *why = archive_error_string(u->from);
    return error_set(STET_EFORMAT, "%s: %s", u->path, why ? why : "not an archive, or damaged");
}

static stet_status write_all(const unpacking *u, const char *to, int fd, const char *data, size_t n)
{
    for (size_t done = 0; done < n;) {
        const ssize_t k = write(fd, data + done, n - done);
        if (k < 0 && errno != EINTR)
            return error_set(STET_EIO, "%s: %s", to, strerror(errno));
        done += k > 0 ? (size_t)k : 0;
    }
    return u->written > UNPACKED_MAX
               ? error_set(STET_EFORMAT, "%s: unpacks to more than %llu bytes", u->path,
                           (unsigned long long)UNPACKED_MAX)
               : interrupt_status();
}

static stet_status unpack_file(unpacking *u, const char *to)
{
    enum { CHUNK = 1 << 16 };
    const int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set(STET_EIO, "%s: %s", to, strerror(errno));
    char *data = mem_alloc(CHUNK, 1);
    stet_status st = data ? STET_OK : STET_ENOMEM;
    while (st == STET_OK) {
        const la_ssize_t got = archive_read_data(u->from, data, CHUNK);
        if (got == 0)
            break;
        u->written += got > 0 ? (uint64_t)got : 0;
        st = got < 0 ? archive_failure(u) : write_all(u, to, fd, data, (size_t)got);
    }
    mem_free(data);
    if (close(fd) != 0 && st == STET_OK)
        st = error_set(STET_EIO, "%s: %s", to, strerror(errno));
    return st;
}

static stet_status unpack_entry(unpacking *u, struct archive_entry *entry)
{
    const char *name = archive_entry_pathname(entry);
    if (!name || !name_is_safe(name))
        return error_set(STET_EFORMAT, "%s: refused: the entry '%s' points outside", u->path,
                         name ? name : "");
    const bool folder = archive_entry_filetype(entry) == AE_IFDIR;
    if ((!folder && archive_entry_filetype(entry) != AE_IFREG) || archive_entry_hardlink(entry))
        return error_set(STET_EFORMAT, "%s: refused: the entry '%s' is neither a file nor a folder",
                         u->path, name);
    char *to = path_join(u->dir, name);
    if (!to)
        return STET_ENOMEM;
    stet_status st;
    if (folder) {
        st = dir_make(to);
    } else {
        char *slash = strrchr(to, '/');
        *slash = '\0';
        st = dir_make(to);
        *slash = '/';
        if (st == STET_OK)
            st = unpack_file(u, to);
    }
    mem_free(to);
    return st;
}

static stet_status unpack_into(const char *path, const char *dir)
{
    unpacking u = {archive_read_new(), path, dir, 0};
    if (!u.from)
        return error_set(STET_ENOMEM, "out of memory");
    stet_status st = STET_OK;
    if (archive_read_support_filter_all(u.from) < ARCHIVE_WARN ||
        archive_read_support_format_tar(u.from) != ARCHIVE_OK ||
        archive_read_support_format_zip(u.from) != ARCHIVE_OK ||
        archive_read_open_filename(u.from, path, 1 << 16) != ARCHIVE_OK)
        st = archive_failure(&u);
    while (st == STET_OK) {
        struct archive_entry *entry;
        const int rc = archive_read_next_header(u.from, &entry);
        if (rc == ARCHIVE_EOF)
            break;
        st = rc < ARCHIVE_WARN ? archive_failure(&u) : unpack_entry(&u, entry);
        progress("unpacking", u.written, 0, NULL);
    }
    archive_read_free(u.from);
    return st;
}

/* ---- into place --------------------------------------------------------------------------- */

typedef stet_status place_fn(const char *from, const char *to);

static stet_status check_place(const char *from, const char *to)
{
    (void)from;
    struct stat sb;
    return lstat(to, &sb) != 0
               ? STET_OK
               : error_set(STET_EIO, "%s: is in the way of what was unpacked; move it or remove it",
                           to);
}

static stet_status move_there(const char *from, const char *to)
{
    return rename(from, to) == 0 ? STET_OK : error_set(STET_EIO, "%s: %s", to, strerror(errno));
}

static stet_status for_entry(const char *from_dir, const char *to_dir, const char *name,
                             place_fn *fn)
{
    char *from = path_join(from_dir, name), *to = path_join(to_dir, name);
    const stet_status st = from && to ? fn(from, to) : STET_ENOMEM;
    mem_free(from);
    mem_free(to);
    return st;
}

static stet_status for_entries(const char *from_dir, const char *to_dir, place_fn *fn)
{
    DIR *handle = opendir(from_dir);
    if (!handle)
        return error_set(STET_EIO, "%s: %s", from_dir, strerror(errno));
    stet_status st = STET_OK;
    struct dirent *entry;
    while (st == STET_OK && (entry = dir_next(handle, from_dir, &st)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            st = for_entry(from_dir, to_dir, entry->d_name, fn);
    closedir(handle);
    return st;
}

static int remove_entry(const char *path, const struct stat *sb, int type, struct FTW *ftw)
{
    (void)sb, (void)type, (void)ftw;
    return remove(path);
}

static void remove_tree(const char *dir)
{
    nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Folders of processes that were killed while they unpacked. */
static void remove_leftovers(const char *dir)
{
    DIR *handle = opendir(dir);
    for (struct dirent *e; handle && (e = readdir(handle));) {
        long pid;
        char *path = NULL;
        if (sscanf(e->d_name, ".unpack-%ld", &pid) == 1 && pid > 0 && pid != (long)getpid() &&
            kill((pid_t)pid, 0) != 0 && errno == ESRCH)
            path = path_join(dir, e->d_name);
        if (path)
            remove_tree(path);
        mem_free(path);
    }
    if (handle)
        closedir(handle);
}

/* All places are looked at before the first is taken. */
static stet_status unpack_all(const char *archive, const char *dir, const char *fresh,
                              const char *ready)
{
    remove_tree(fresh); /* left by a killed process that had our number */
    TRY(dir_make(fresh));
    stet_status st = unpack_into(archive, fresh);
    if (st == STET_OK)
        st = for_entries(fresh, dir, check_place);
    if (st == STET_OK)
        st = move_there(fresh, ready);
    if (st != STET_OK)
        remove_tree(fresh);
    return st;
}

stet_status unpack(const char *archive, const char *dir)
{
    size_t n;
    const char *name = path_last(archive, &n);
    buf fresh = {0}, ready = {0};
    buf_printf(&fresh, "%s/.unpack-%ld", dir, (long)getpid());
    buf_printf(&ready, "%s/.unpacked-%.*s", dir, (int)n, name);
    stet_status st = buf_status(&fresh) == STET_OK ? buf_status(&ready) : STET_ENOMEM;
    remove_leftovers(dir);
    if (st == STET_OK && !dir_exists(ready.data))
        st = unpack_all(archive, dir, fresh.data, ready.data);
    if (st == STET_OK)
        st = for_entries(ready.data, dir, move_there);
    if (st == STET_OK && rmdir(ready.data) != 0)
        st = error_set(STET_EIO, "%s: %s", ready.data, strerror(errno));
    buf_deinit(&fresh);
    buf_deinit(&ready);
    return st;
}
