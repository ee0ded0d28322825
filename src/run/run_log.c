/* run/run_log.c - see run/run_log.h. */
#include "run/run_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

static stet_status io_error(const char *path)
{
    return error_set(STET_EIO, "%s: %s", path, strerror(errno));
}

/* ---- opening ------------------------------------------------------------------------------ */

/* PATH.part beside what PATH names, links followed. */
static stet_status name_part(run_log *l, const char *path)
{
    char real[PATH_MAX];
    struct stat sb;
    const bool exists = stat(path, &sb) == 0;
    if (exists && S_ISDIR(sb.st_mode))
        return errno = EISDIR, io_error(path);
    if (exists && !S_ISREG(sb.st_mode)) {
        l->path = mem_strdup(path);
        return l->path ? STET_OK : STET_ENOMEM;
    }
    if (exists && realpath(path, real))
        path = real;
    buf part = {0};
    buf_printf(&part, "%s.part", path);
    l->path = buf_take(&part);
    l->target = mem_strdup(path);
    return l->path && l->target ? STET_OK : STET_ENOMEM;
}

static stet_status open_file(run_log *l, bool part, bool *fresh)
{
    struct stat sb;
    *fresh = access(l->path, F_OK) != 0;
    l->fd = open(l->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (l->fd < 0 && part && !l->target) /* a device, or a pipe that somebody reads */
        l->fd = open(l->path, O_WRONLY | O_CLOEXEC);
    if (l->fd < 0 || fstat(l->fd, &sb) != 0)
        return io_error(l->path);
    if (part && !l->target)
        return STET_OK;
    if (!S_ISREG(sb.st_mode))
        return error_set(STET_EIO, "%s: not a regular file", l->path);
    if (flock(l->fd, LOCK_EX | LOCK_NB) != 0)
        return error_set(STET_EIO, "%s: another run is writing this file", l->path);
    return STET_OK;
}

/* ---- reading back ------------------------------------------------------------------------- */

static stet_status read_lines(run_log *l, FILE *in, run_log_line *take, run_log_rest *rest,
                              void *ctx, off_t *good)
{
    char *line = NULL;
    size_t cap = 0, number = 0;
    ssize_t n;
    stet_status st = STET_OK;
    while (st == STET_OK && (n = getline(&line, &cap, in)) > 0) {
        const bool whole = line[n - 1] == '\n';
        line[n - whole] = '\0';
        st = whole ? take(ctx, ++number, line, (size_t)n - 1) : rest(ctx, number, line, (size_t)n);
        if (whole)
            *good += n;
        if (st == STET_EFORMAT)
            st = error_prefix(st, "%s:%zu", l->path, number ? number : 1);
    }
    if (st == STET_OK && ferror(in))
        st = io_error(l->path);
    if (st == STET_OK && !feof(in)) /* getline had no memory: what follows must not be cut off */
        st = error_set(STET_ENOMEM, "%s: out of memory", l->path);
    free(line);
    return st;
}

static stet_status read_back(run_log *l, run_log_line *take, run_log_rest *rest, void *ctx)
{
    off_t good = 0;
    FILE *in = fopen(l->path, "r");
    if (!in)
        return io_error(l->path);
    stet_status st = read_lines(l, in, take, rest, ctx, &good);
    fclose(in);
    if (st == STET_OK && ftruncate(l->fd, good) != 0)
        st = io_error(l->path);
    return st;
}

stet_status run_log_open(run_log *l, const char *path, bool part, run_log_line *take,
                         run_log_rest *rest, void *ctx)
{
    *l = (run_log){.fd = -1};
    bool fresh = false;
    stet_status st = STET_OK;
    if (part)
        st = name_part(l, path);
    else if (!(l->path = mem_strdup(path)))
        st = STET_ENOMEM;
    if (st == STET_OK)
        st = open_file(l, part, &fresh);
    if (st == STET_OK && (!part || l->target))
        st = read_back(l, take, rest, ctx);
    if (st != STET_OK) {
        if (fresh && l->fd >= 0)
            unlink(l->path);
        run_log_close(l);
    }
    return st;
}

/* ---- writing ------------------------------------------------------------------------------ */

stet_status run_log_append(run_log *l, const char *line, size_t n)
{
    while (n > 0) {
        const ssize_t done = write(l->fd, line, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return io_error(l->path);
        line += done;
        n -= (size_t)done;
    }
    return STET_OK;
}

stet_status run_log_restart(run_log *l)
{
    return l->target && ftruncate(l->fd, 0) != 0 ? io_error(l->path) : STET_OK;
}

void run_log_discard(run_log *l)
{
    if (l->target && l->fd >= 0)
        unlink(l->path);
}

stet_status run_log_finish(run_log *l)
{
    struct stat sb;
    if (l->target && fsync(l->fd) != 0)
        return io_error(l->path);
    if (!l->target)
        return STET_OK;
    if (stat(l->target, &sb) == 0)
        (void)!fchmod(l->fd, sb.st_mode & 07777);
    if (rename(l->path, l->target) != 0)
        return io_error(l->target);
    return file_sync_folder(l->target);
}

void run_log_close(run_log *l)
{
    if (l->fd >= 0)
        close(l->fd);
    mem_free(l->path);
    mem_free(l->target);
    *l = (run_log){.fd = -1};
}
