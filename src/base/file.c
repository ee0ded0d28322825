/* base/file.c - see base/file.h. A sink between stdio and the file keeps the first error, so that
 * commit can name it however long ago it happened. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

struct file_sink {
    int fd;
    int error; /* errno of the first failed write, or 0 */
};

static stet_status fail(const char *path, int error)
{
    return error_set(STET_EIO, "%s: %s", path, strerror(error));
}

static ssize_t sink_write(void *cookie, const char *data, size_t size)
{
    struct file_sink *sink = cookie;
    size_t done = 0;
    while (done < size) {
        const ssize_t n = write(sink->fd, data + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (!sink->error)
                sink->error = n < 0 ? errno : EIO;
            return 0;
        }
        done += (size_t)n;
    }
    return (ssize_t)size;
}

/* ---- what a killed process left behind ------------------------------------------------------ */

/* ENTRY is NAME.tmp-PID (of any name where NAME is NULL) of a process that is no more. */
static bool is_leftover(const char *entry, const char *name)
{
    static const char mark[] = ".tmp-";
    const size_t n = name ? strlen(name) : 0;
    const char *at = name ? entry + n : strstr(entry, mark);
    if (!at || (name && strncmp(entry, name, n) != 0) || strncmp(at, mark, sizeof mark - 1) != 0)
        return false;
    const char *digits = at + sizeof mark - 1;
    const long pid = strtol(digits, NULL, 10);
    return *digits && strspn(digits, "0123456789") == strlen(digits) && pid > 0 && pid <= INT_MAX &&
           pid != (long)getpid() && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* A writer on another machine, or in another container, holds a lock on it. */
static void remove_unlocked(int dir, const char *entry)
{
    const int fd = openat(dir, entry, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat sb;
    if (fd >= 0 && fstat(fd, &sb) == 0 && S_ISREG(sb.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(dir, entry, 0);
    if (fd >= 0)
        close(fd);
}

void file_leftovers(const char *folder, const char *name)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (is_leftover(e->d_name, name))
            remove_unlocked(dirfd(d), e->d_name);
    if (d)
        closedir(d);
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return !slash          ? mem_strdup(".")
           : slash == path ? mem_strdup("/")
                           : mem_strndup(path, (size_t)(slash - path));
}

static stet_status remove_leftovers_of(const char *path)
{
    char *folder = folder_of(path);
    if (!folder)
        return STET_ENOMEM;
    const char *slash = strrchr(path, '/');
    file_leftovers(folder, slash ? slash + 1 : path);
    mem_free(folder);
    return STET_OK;
}

/* ---- atomic files --------------------------------------------------------------------------- */

/* Open a file descriptor that writes go to: PATH.tmp-PID beside a file, the thing itself for a
 * device or a pipe, which cannot be replaced. A symbolic link stays one. */
static stet_status open_target(atomic_file *f, const char *path)
{
    char real[PATH_MAX];
    struct stat sb;
    const bool exists = stat(path, &sb) == 0;
    if (exists && S_ISDIR(sb.st_mode))
        return fail(path, EISDIR);
    if (exists && !S_ISREG(sb.st_mode)) {
        f->sink->fd = open(path, O_WRONLY | O_CLOEXEC);
        return f->sink->fd >= 0 ? STET_OK : fail(path, errno);
    }
    if (exists && realpath(path, real))
        path = real;
    buf temp = {0};
    buf_printf(&temp, "%s.tmp-%ld", path, (long)getpid());
    f->temp = buf_take(&temp);
    f->target = mem_strdup(path);
    if (!f->temp || !f->target)
        return STET_ENOMEM;
    TRY(remove_leftovers_of(path));
    unlink(f->temp); /* left by a killed process that had our number */
    f->sink->fd = open(f->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (f->sink->fd < 0) {
        const int error = errno;
        mem_free(f->temp);
        f->temp = NULL;
        return fail(f->path, error);
    }
    (void)!flock(f->sink->fd, LOCK_EX | LOCK_NB); /* see remove_unlocked */
    if (exists)
        (void)!fchmod(f->sink->fd, sb.st_mode & 07777);
    return STET_OK;
}

stet_status atomic_open(atomic_file *f, const char *path)
{
    *f = (atomic_file){0};
    f->path = mem_strdup(path);
    f->sink = mem_zalloc(1, sizeof *f->sink);
    stet_status st = f->path && f->sink ? STET_OK : STET_ENOMEM;
    if (f->sink)
        f->sink->fd = -1;
    if (st == STET_OK)
        st = open_target(f, path);
    if (st == STET_OK) {
        f->stream = fopencookie(f->sink, "w", (cookie_io_functions_t){.write = sink_write});
        if (!f->stream)
            st = error_set(STET_ENOMEM, "%s: out of memory", path);
    }
    if (st != STET_OK)
        atomic_abort(f);
    return st;
}

static stet_status write_failure(const atomic_file *f)
{
    return fail(f->path, f->sink->error ? f->sink->error : EIO);
}

stet_status atomic_write(atomic_file *f, const void *data, size_t size)
{
    return size == 0 || fwrite(data, 1, size, f->stream) == size ? STET_OK : write_failure(f);
}

stet_status atomic_printf(atomic_file *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = vfprintf(f->stream, fmt, ap);
    va_end(ap);
    return n >= 0 ? STET_OK : write_failure(f);
}

/* A rename lasts once the folder is on disk. Some file systems cannot sync a folder; then there is
 * nothing more we can do. */
stet_status file_sync_folder(const char *path)
{
    char *folder = folder_of(path);
    if (!folder)
        return STET_ENOMEM;
    stet_status st = STET_OK;
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
            st = fail(folder, errno);
        close(fd);
    }
    mem_free(folder);
    return st;
}

static stet_status finish(atomic_file *f)
{
    if (fflush(f->stream) != 0 || ferror(f->stream))
        return write_failure(f);
    if (!f->temp)
        return STET_OK;
    if (fsync(f->sink->fd) != 0)
        return fail(f->path, errno);
    if (rename(f->temp, f->target) != 0)
        return fail(f->path, errno);
    mem_free(f->temp); /* nothing to remove any more */
    f->temp = NULL;
    return file_sync_folder(f->target);
}

stet_status atomic_commit(atomic_file *f)
{
    const stet_status st = finish(f);
    atomic_abort(f);
    return st;
}

void atomic_abort(atomic_file *f)
{
    if (f->stream)
        fclose(f->stream);
    if (f->sink && f->sink->fd >= 0)
        close(f->sink->fd);
    if (f->temp)
        unlink(f->temp);
    mem_free(f->sink);
    mem_free(f->temp);
    mem_free(f->target);
    mem_free(f->path);
    *f = (atomic_file){0};
}

stet_status file_write_all(const char *path, const void *data, size_t size)
{
    atomic_file f;
    TRY(atomic_open(&f, path));
    const stet_status st = atomic_write(&f, data, size);
    if (st == STET_OK)
        return atomic_commit(&f);
    atomic_abort(&f);
    return st;
}

static stet_status too_large(const char *path, size_t max_size)
{
    return error_set(STET_EFORMAT, "%s: larger than %zu bytes", path, max_size);
}

static stet_status read_fd(int fd, const char *path, size_t max_size, char **data, size_t *size)
{
    struct stat sb;
    if (fstat(fd, &sb) != 0)
        return fail(path, errno);
    const bool known = S_ISREG(sb.st_mode) && sb.st_size >= 0;
    if (known && (uintmax_t)sb.st_size > max_size)
        return too_large(path, max_size);
    /* One byte more than the file holds, to see its end without growing, and one for the NUL. */
    size_t want = known ? (size_t)sb.st_size + 2 : 1 << 16, n = 0, cap = 0;
    for (;;) {
        TRY(mem_grow(data, &cap, want, 1));
        const ssize_t got = read(fd, *data + n, cap - n - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(path, errno);
        n += (size_t)got;
        if (n > max_size)
            return too_large(path, max_size);
        if (got == 0)
            break;
        if (n + 1 == cap)
            want = cap + 1;
    }
    (*data)[n] = '\0';
    *size = n;
    return STET_OK;
}

stet_status file_plain(const char *path, size_t max_size)
{
    struct stat sb;
    if (stat(path, &sb) != 0)
        return fail(path, errno);
    if (S_ISDIR(sb.st_mode))
        return fail(path, EISDIR);
    if (!S_ISREG(sb.st_mode))
        return error_set(STET_EIO, "%s: not a regular file", path);
    return (uintmax_t)sb.st_size > max_size ? too_large(path, max_size) : STET_OK;
}

stet_status file_read_all(const char *path, size_t max_size, char **data, size_t *size)
{
    *data = NULL;
    *size = 0;
    TRY(file_plain(path, max_size));
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail(path, errno);
    const stet_status st = read_fd(fd, path, max_size, data, size);
    close(fd);
    if (st != STET_OK) {
        mem_free(*data);
        *data = NULL;
    }
    return st;
}

stet_status file_sha256(const char *path, char out[SHA256_HEX], uint64_t *size)
{
    file_map m;
    TRY(file_map_open(&m, path));
    sha256 h;
    sha256_init(&h);
    sha256_add(&h, m.data, m.size);
    sha256_hex(&h, out);
    if (size)
        *size = m.size;
    file_map_close(&m);
    return STET_OK;
}

stet_status file_map_open(file_map *m, const char *path)
{
    *m = (file_map){(const unsigned char *)"", 0};
    const int fd =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO would wait for a writer */
    if (fd < 0)
        return fail(path, errno);
    struct stat sb;
    stet_status st = STET_OK;
    if (fstat(fd, &sb) != 0)
        st = fail(path, errno);
    else if (!S_ISREG(sb.st_mode))
        st = error_set(STET_EIO, "%s: not a regular file", path);
    else if (sb.st_size > 0) {
        void *p = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            st = fail(path, errno);
        else
            *m = (file_map){p, (size_t)sb.st_size};
    }
    close(fd);
    return st;
}

void file_map_close(file_map *m)
{
    if (m->size)
        munmap((void *)(uintptr_t)m->data, m->size);
    *m = (file_map){0};
}

stet_status dir_make(const char *path)
{
    if (!*path)
        return error_set(STET_EIO, "the name of a folder is empty");
    char *part = mem_strdup(path);
    if (!part)
        return STET_ENOMEM;
    stet_status st = STET_OK;
    for (char *p = part; st == STET_OK && *p; p++) {
        if (p[1] != '/' && p[1] != '\0')
            continue;
        const char end = p[1];
        p[1] = '\0';
        const int why = mkdir(part, 0777) == 0 ? 0 : errno; /* before dir_exists changes it */
        if (why && !dir_exists(part))
            st = fail(part, why == EEXIST ? ENOTDIR : why);
        p[1] = end;
    }
    mem_free(part);
    return st;
}

stet_status file_look(const char *path, bool *there)
{
    struct stat sb;
    *there = stat(path, &sb) == 0;
    return *there || errno == ENOENT || errno == ENOTDIR ? STET_OK : fail(path, errno);
}

/* What cannot be looked at may be there. */
static bool exists(const char *path, bool folder)
{
    struct stat sb;
    return stat(path, &sb) == 0 ? !S_ISDIR(sb.st_mode) == !folder
                                : errno != ENOENT && errno != ENOTDIR;
}

bool file_exists(const char *path)
{
    return exists(path, false);
}

bool dir_exists(const char *path)
{
    return exists(path, true);
}

struct dirent *dir_next(DIR *d, const char *path, stet_status *st)
{
    errno = 0;
    struct dirent *e = readdir(d);
    if (!e && errno)
        *st = fail(path, errno);
    return e;
}

stet_status file_remove(const char *path)
{
    return unlink(path) == 0 || errno == ENOENT
               ? STET_OK
               : error_set(STET_EIO, "%s: cannot be removed: %s", path, strerror(errno));
}

char *path_join(const char *dir, const char *name)
{
    const size_t n = strlen(dir);
    buf b = {0};
    buf_str(&b, dir);
    if (n > 0 && dir[n - 1] != '/')
        buf_char(&b, '/');
    buf_str(&b, name);
    return buf_take(&b);
}

const char *path_last(const char *path, size_t *n)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t from = end;
    while (from > 0 && path[from - 1] != '/')
        from--;
    *n = end - from;
    return path + from;
}
