/* tests/torture/fail.c - preloaded into the program: makes its n-th allocation, write, fsync, ... fail, or kills it there.
 *
 * With $TORTURE set the program becomes a server: torture.py sends a line "KIND N HOW" (which calls, the number of the call,
 * fail, rest or kill), a fresh child runs main with it, and the answer is its wait status and how many calls of that kind it
 * made. So the libraries are loaded once, and a run costs a fork. Counting begins with main: what the loader and the
 * libraries do before it is not ours. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ASK = 198, ANSWER = 199 }; /* descriptors of the server */
enum { HANG_SECONDS = 300 };      /* on a busy machine too, nothing here takes so long */
enum {
    MALLOC,
    WRITE,
    FSYNC,
    RENAME,
    OPEN,
    READ,
    MMAP,
    THREAD,
    CLOSE,
    STAT,
    REMOVE,
    SHORT,
    INTR,
    KINDS
};
static const char *const kinds[KINDS] = {"malloc", "write", "fsync",  "rename", "open",
                                         "read",   "mmap",  "thread", "close",  "stat",
                                         "remove", "short", "intr"};
enum { FAIL, REST, KILL };

static struct {
    unsigned kinds; /* bits; 0: nothing is counted */
    long at;
    int how;
    atomic_long *made; /* shared with the server */
} set;

/* Is it this call's turn? */
static int turn(int kind)
{
    if (!(set.kinds & 1u << kind))
        return 0;
    const long n = atomic_fetch_add(set.made, 1) + 1;
    if (n == set.at && set.how == KILL)
        raise(SIGKILL);
    return n == set.at || (n > set.at && set.how == REST && set.at > 0);
}

#define NEXT(type, name, ...)                                                                      \
    static type (*next)(__VA_ARGS__);                                                              \
    if (!next)                                                                                     \
    *(void **)&next = dlsym(RTLD_NEXT, #name)

/* ---- memory ---- */

/* OpenBLAS's kernels for small products do not look whether malloc gave them anything. So gemm.c looks before, and that is
 * the call that is counted: from there calls fail only where all do. */
static uintptr_t theirs_from, theirs_to;

static int find_theirs(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    for (int i = 0; strstr(info->dlpi_name, "libopenblas") && i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            theirs_from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            theirs_to = theirs_from + info->dlpi_phdr[i].p_memsz;
        }
    return 0;
}

static int memory_turn(const void *caller)
{
    if ((uintptr_t)caller < theirs_from || (uintptr_t)caller >= theirs_to)
        return turn(MALLOC);
    return set.kinds & 1u << MALLOC && set.how == REST && set.at > 0 &&
           atomic_load(set.made) >= set.at;
}
#define MEMORY_TURN memory_turn(__builtin_return_address(0))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

static void *none(void)
{
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t size)
{
    return MEMORY_TURN ? none() : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return MEMORY_TURN ? none() : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    return MEMORY_TURN ? none() : __libc_realloc(p, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return MEMORY_TURN ? none() : __libc_memalign(align, size);
}

int posix_memalign(void **p, size_t align, size_t size)
{
    void *q = MEMORY_TURN ? NULL : __libc_memalign(align, size);
    if (!q)
        return ENOMEM;
    *p = q;
    return 0;
}

/* ---- files ---- */

static int refuse(int kind, int error)
{
    if (!turn(kind))
        return 0;
    errno = error;
    return 1;
}

ssize_t write(int fd, const void *data, size_t n)
{
    NEXT(ssize_t, write, int, const void *, size_t);
    if (fd == STDERR_FILENO || fd == ANSWER) /* messages must arrive to be judged */
        return next(fd, data, n);
    if (n > 1 && turn(SHORT)) /* no failure: the rest has to follow */
        n /= 2;
    return refuse(WRITE, ENOSPC) || refuse(INTR, EINTR) ? -1 : next(fd, data, n);
}

ssize_t read(int fd, void *data, size_t n)
{
    NEXT(ssize_t, read, int, void *, size_t);
    if (n > 1 && turn(SHORT))
        n = n > 16 ? 16 : 1;
    return refuse(READ, EIO) || refuse(INTR, EINTR) ? -1 : next(fd, data, n);
}

/* What stdio holds back for standard output is written here, inside the C library. */
int fflush(FILE *f)
{
    NEXT(int, fflush, FILE *);
    return f == stdout && refuse(WRITE, ENOSPC) ? EOF : next(f);
}

int close(int fd)
{
    NEXT(int, close, int);
    const int rc = next(fd);
    return refuse(CLOSE, EIO) ? -1 : rc;
}

int fclose(FILE *f)
{
    NEXT(int, fclose, FILE *);
    const int rc = next(f);
    return refuse(CLOSE, EIO) ? EOF : rc;
}

int stat(const char *path, struct stat *out)
{
    NEXT(int, stat, const char *, struct stat *);
    return refuse(STAT, EIO) ? -1 : next(path, out);
}

int lstat(const char *path, struct stat *out)
{
    NEXT(int, lstat, const char *, struct stat *);
    return refuse(STAT, EIO) ? -1 : next(path, out);
}

int fstat(int fd, struct stat *out)
{
    NEXT(int, fstat, int, struct stat *);
    return refuse(STAT, EIO) ? -1 : next(fd, out);
}

int access(const char *path, int how)
{
    NEXT(int, access, const char *, int);
    return refuse(STAT, EIO) ? -1 : next(path, how);
}

struct dirent *readdir(DIR *d)
{
    NEXT(struct dirent *, readdir, DIR *);
    return refuse(READ, EIO) ? NULL : next(d);
}

int unlink(const char *path)
{
    NEXT(int, unlink, const char *);
    return refuse(REMOVE, EIO) ? -1 : next(path);
}

int unlinkat(int dir, const char *path, int flags)
{
    NEXT(int, unlinkat, int, const char *, int);
    return refuse(REMOVE, EIO) ? -1 : next(dir, path, flags);
}

int rmdir(const char *path)
{
    NEXT(int, rmdir, const char *);
    return refuse(REMOVE, EIO) ? -1 : next(path);
}

int openat(int dir, const char *path, int flags, ...)
{
    NEXT(int, openat, int, const char *, int, ...);
    va_list ap;
    va_start(ap, flags);
    const int mode = flags & O_CREAT ? va_arg(ap, int) : 0;
    va_end(ap);
    return refuse(OPEN, EMFILE) ? -1 : next(dir, path, flags, mode);
}

int pipe2(int fd[2], int flags)
{
    NEXT(int, pipe2, int *, int);
    return refuse(OPEN, EMFILE) ? -1 : next(fd, flags);
}

int flock(int fd, int how)
{
    NEXT(int, flock, int, int);
    return refuse(STAT, ENOLCK) ? -1 : next(fd, how);
}

ssize_t __read_chk(int fd, void *data, size_t n,
                   size_t room); /* what read() becomes in a hardened build */
ssize_t __read_chk(int fd, void *data, size_t n, size_t room)
{
    return n > room ? (abort(), 0) : read(fd, data, n);
}

int fsync(int fd)
{
    NEXT(int, fsync, int);
    return refuse(FSYNC, EIO) ? -1 : next(fd);
}

int ftruncate(int fd, off_t size)
{
    NEXT(int, ftruncate, int, off_t);
    return refuse(WRITE, EIO) ? -1 : next(fd, size);
}

int rename(const char *from, const char *to)
{
    NEXT(int, rename, const char *, const char *);
    return refuse(RENAME, EIO) ? -1 : next(from, to);
}

int link(const char *from, const char *to)
{
    NEXT(int, link, const char *, const char *);
    return refuse(RENAME, EPERM) ? -1 : next(from, to);
}

int mkdir(const char *path, mode_t mode)
{
    NEXT(int, mkdir, const char *, mode_t);
    return refuse(OPEN, EIO) ? -1 : next(path, mode);
}

int open(const char *path, int flags, ...)
{
    NEXT(int, open, const char *, int, ...);
    va_list ap;
    va_start(ap, flags);
    const int mode = flags & O_CREAT ? va_arg(ap, int) : 0;
    va_end(ap);
    return refuse(OPEN, EMFILE) ? -1 : next(path, flags, mode);
}

int __open_2(const char *path, int flags); /* likewise */
int __open_2(const char *path, int flags)
{
    return open(path, flags);
}

FILE *fopen(const char *path, const char *mode)
{
    NEXT(FILE *, fopen, const char *, const char *);
    return refuse(OPEN, EMFILE) ? NULL : next(path, mode);
}

DIR *opendir(const char *path)
{
    NEXT(DIR *, opendir, const char *);
    return refuse(OPEN, EMFILE) ? NULL : next(path);
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    NEXT(void *, mmap, void *, size_t, int, int, int, off_t);
    return refuse(MMAP, ENOMEM) ? MAP_FAILED : next(at, n, prot, flags, fd, offset);
}

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *ctx)
{
    NEXT(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    return turn(THREAD) ? EAGAIN : next(t, a, fn, ctx);
}

/* ---- the server ---- */

static int (*real_main)(int, char **, char **);

static void redirect(const char *path, int to)
{
    const int fd = open(path, to == STDIN_FILENO ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dup2(fd, to);
    close(fd);
}

static unsigned kinds_of(char *names)
{
    unsigned bits = 0;
    for (char *name = strtok(names, "+"); name; name = strtok(NULL, "+"))
        for (int k = 0; k < KINDS; k++)
            if (strcmp(name, kinds[k]) == 0)
                bits |= 1u << k;
    return bits;
}

static int child(int argc, char **argv, char **env, unsigned bits, long at, char how)
{
    close(ASK);
    close(ANSWER);
    redirect("torture.in", STDIN_FILENO);
    redirect("torture.out", STDOUT_FILENO);
    redirect("torture.err", STDERR_FILENO);
    unsetenv("LD_PRELOAD"); /* programs that it starts are themselves */
    unsetenv("TORTURE");
    set.at = at;
    set.how = how == 'k' ? KILL : how == 'r' ? REST : FAIL;
    set.kinds = bits;
    return real_main(argc, argv, env);
}

static int serve(int argc, char **argv, char **env)
{
    if (!getenv("TORTURE"))
        return real_main(argc, argv, env);
    dl_iterate_phdr(find_theirs, NULL);
    const char *one = getenv("TORTURE_ONE"); /* "KIND N HOW", for a debugger */
    set.made = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char line[256], names[128], how[16];
    long at;
    if (one && sscanf(one, "%127s %ld %15s", names, &at, how) == 3)
        return child(argc, argv, env, kinds_of(names), at, how[0]);
    FILE *ask = fdopen(ASK, "r");
    sigset_t ended, before;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ended, &before);
    while (fgets(line, sizeof line, ask) && sscanf(line, "%127s %ld %15s", names, &at, how) == 3) {
        atomic_store(set.made, 0);
        const unsigned bits = kinds_of(names);
        const pid_t pid = fork();
        if (pid == 0) {
            sigprocmask(SIG_SETMASK, &before, NULL);
            return child(argc, argv, env, bits, at, how[0]);
        }
        const struct timespec long_enough = {.tv_sec = HANG_SECONDS};
        if (sigtimedwait(&ended, NULL, &long_enough) < 0)
            kill(pid, SIGALRM); /* it hangs */
        int status = -1;
        waitpid(pid, &status, 0);
        dprintf(ANSWER, "%d %ld\n", status, atomic_load(set.made));
    }
    _exit(0);
}

int __libc_start_main(int (*fn)(int, char **, char **), int argc, char **argv,
                      int (*init)(int, char **, char **), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end);
int __libc_start_main(int (*fn)(int, char **, char **), int argc, char **argv,
                      int (*init)(int, char **, char **), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end)
{
    NEXT(int, __libc_start_main, int (*)(int, char **, char **), int, char **,
         int (*)(int, char **, char **), void (*)(void), void (*)(void), void *);
    real_main = fn;
    return next(serve, argc, argv, init, fini, rtld_fini, stack_end);
}
