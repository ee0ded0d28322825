/* tests/fuzz/fuzz_file.c - bytes as files, without touching a disk or asking the kernel.
 *
 * The linker sends open, stat, read, mmap and the like of the code under test here (--wrap in
 * CMakeLists.txt). Paths that fuzz_file() and fuzz_put() know are answered from memory, all others
 * by the C library. That halves the time of a run, and a mapping is a block of exactly the file's
 * size, so that the address sanitizer sees a read past its end. */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 32, OPEN = 16, MAPS = 32, PATH = 128, FD = 1 << 24 /* the first of ours */ };

typedef struct mem_file {
    char path[PATH];
    uint8_t *data;
    size_t size, cap;
} mem_file;

static mem_file files[FILES];
static struct {
    const mem_file *file; /* NULL: free */
    size_t at;
} opened[OPEN];
static void *maps[MAPS];

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static mem_file *find(const char *path)
{
    for (size_t i = 0; i < FILES && *files[i].path; i++)
        if (strcmp(files[i].path, path) == 0)
            return &files[i];
    return NULL;
}

static void put(const char *path, const uint8_t *data, size_t size)
{
    mem_file *f = find(path);
    for (size_t i = 0; !f && i < FILES; i++)
        if (!*files[i].path) {
            f = &files[i];
            snprintf(f->path, PATH, "%s", path);
        }
    if (!f)
        die("too many files");
    if (size > f->cap && !(f->data = realloc(f->data, f->cap = size)))
        die("no memory");
    if (size)
        memcpy(f->data, data, size);
    f->size = size;
}

const char *fuzz_file(const uint8_t *data, size_t size)
{
    static const char path[] = "/fuzz/input";
    put(path, data, size);
    return path;
}

/* ---- a folder ------------------------------------------------------------------------------ */

static char folder[64];

static int remove_one(const char *path, const struct stat *sb, int type, struct FTW *ftw)
{
    (void)sb, (void)type, (void)ftw;
    return remove(path);
}

static void remove_folder(void)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_folder(void)
{
    if (!*folder) {
        snprintf(folder, sizeof folder, "%s/stet-fuzz-%ld",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
        remove_folder();
        if (mkdir(folder, 0700) != 0)
            die(folder);
        atexit(remove_folder);
    }
    return folder;
}

void fuzz_put(const char *name, const uint8_t *data, size_t size)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    put(path, data, size);
}

int __real_open(const char *path, int flags, ...);
int __real_close(int fd);
ssize_t __real_read(int fd, void *data, size_t n);

void fuzz_take_folder(void)
{
    DIR *d = opendir(fuzz_folder());
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[PATH + 256];
        uint8_t data[1 << 14];
        snprintf(path, sizeof path, "%s/%s", fuzz_folder(), e->d_name);
        const int fd = e->d_type == DT_REG ? __real_open(path, O_RDONLY) : -1;
        if (fd < 0)
            continue;
        const ssize_t n = __real_read(fd, data, sizeof data);
        if (n < 0 || n == sizeof data || strlen(path) >= PATH)
            die(path);
        put(path, data, (size_t)n);
        __real_close(fd);
    }
    if (d)
        closedir(d);
}

/* ---- in place of the C library ------------------------------------------------------------- */

static bool ours(int fd)
{
    return fd >= FD && fd < FD + OPEN && opened[fd - FD].file;
}

int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    const mem_file *f = find(path);
    if (!f) {
        va_list ap;
        va_start(ap, flags);
        const int mode = flags & O_CREAT ? va_arg(ap, int) : 0;
        va_end(ap);
        return __real_open(path, flags, mode);
    }
    if ((flags & O_ACCMODE) != O_RDONLY)
        return errno = EROFS, -1;
    for (int i = 0; i < OPEN; i++)
        if (!opened[i].file) {
            opened[i].file = f;
            opened[i].at = 0;
            return FD + i;
        }
    return errno = EMFILE, -1;
}

int __wrap_close(int fd);
int __wrap_close(int fd)
{
    if (!ours(fd))
        return __real_close(fd);
    opened[fd - FD].file = NULL;
    return 0;
}

ssize_t __wrap_read(int fd, void *data, size_t n);
ssize_t __wrap_read(int fd, void *data, size_t n)
{
    if (!ours(fd))
        return __real_read(fd, data, n);
    const mem_file *f = opened[fd - FD].file;
    size_t *at = &opened[fd - FD].at;
    const size_t left = *at < f->size ? f->size - *at : 0, take = n < left ? n : left;
    if (take)
        memcpy(data, f->data + *at, take);
    *at += take;
    return (ssize_t)take;
}

/* What read() becomes in a hardened build. */
ssize_t __wrap___read_chk(int fd, void *data, size_t n, size_t room);
ssize_t __wrap___read_chk(int fd, void *data, size_t n, size_t room)
{
    return n > room ? (abort(), 0) : __wrap_read(fd, data, n);
}

static int describe(const mem_file *f, struct stat *out)
{
    *out = (struct stat){.st_mode = S_IFREG | 0600, .st_nlink = 1, .st_size = (off_t)f->size};
    return 0;
}

int __real_stat(const char *path, struct stat *out);
int __wrap_stat(const char *path, struct stat *out);
int __wrap_stat(const char *path, struct stat *out)
{
    const mem_file *f = find(path);
    return f ? describe(f, out) : __real_stat(path, out);
}

int __real_fstat(int fd, struct stat *out);
int __wrap_fstat(int fd, struct stat *out);
int __wrap_fstat(int fd, struct stat *out)
{
    return ours(fd) ? describe(opened[fd - FD].file, out) : __real_fstat(fd, out);
}

void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    if (!ours(fd))
        return __real_mmap(at, n, prot, flags, fd, offset);
    const mem_file *f = opened[fd - FD].file;
    size_t i = 0;
    while (i < MAPS && maps[i])
        i++;
    if (n > f->size || offset != 0 || i == MAPS || !(maps[i] = malloc(n)))
        return errno = ENOMEM, MAP_FAILED;
    return memcpy(maps[i], f->data, n);
}

int __real_munmap(void *at, size_t n);
int __wrap_munmap(void *at, size_t n);
int __wrap_munmap(void *at, size_t n)
{
    for (size_t i = 0; i < MAPS; i++)
        if (at && maps[i] == at) {
            maps[i] = NULL;
            free(at);
            return 0;
        }
    return __real_munmap(at, n);
}
