/* cli/sweep_jobs.c - see sweep_jobs.h. */
#include "cli/sweep_jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"

extern char **environ;

enum { MAX_ARGS = 96, PATH = 1100, INTERRUPTED = 130 };
static const char *const stage_file[] = {"train.json", "eval.json", "inspect.json"};

static void in_dir(const sweep_point *p, const char *name, char out[PATH])
{
    snprintf(out, PATH, "%s/%s", p->dir, name);
}

/* Past every stage whose file is there. */
static void skip_done(const sweep *s, sweep_point *p)
{
    for (; p->stage != SWEEP_DONE; p->stage++) {
        char path[PATH];
        in_dir(p, stage_file[p->stage], path);
        if (access(path, R_OK) != 0 && !(p->stage == SWEEP_EVAL && !s->test))
            return;
    }
}

/* ---- commands ----------------------------------------------------------------------------- */

typedef struct arguments {
    const char *v[MAX_ARGS + 1];
    size_t n;
    char threads[24];
} arguments;

static void push(arguments *a, const char *name, const char *value)
{
    if (!value || a->n + 2 > MAX_ARGS)
        return;
    if (name)
        a->v[a->n++] = name;
    a->v[a->n++] = value;
}

static void command_of(const sweep *s, const sweep_point *p, arguments *a)
{
    *a = (arguments){.n = 0};
    push(a, NULL, "stet");
    if (p->stage == SWEEP_TRAIN) {
        push(a, NULL, "train");
        for (size_t i = 0; i < s->n_train_args; i++)
            push(a, NULL, s->train_args[i]);
        push(a, "--defense", p->beta ? "gbm" : NULL);
        push(a, "--beta", p->beta);
        push(a, "--smooth", p->smooth);
        push(a, "--seed", p->seed);
        push(a, "-o", p->dir);
        push(a, NULL, "--resume");
    } else {
        push(a, NULL, p->stage == SWEEP_EVAL ? "eval" : "inspect");
        push(a, NULL, p->dir);
        push(a, "--data", s->test);
        push(a, "--top", p->stage == SWEEP_INSPECT ? "0" : NULL);
    }
    push(a, NULL, "--json");
    push(a, "--progress", "never");
    snprintf(a->threads, sizeof a->threads, "%ld", s->threads);
    push(a, "--threads", a->threads);
}

/* Standard output goes to FILE.part, messages to log.txt. */
static bool start(const sweep *s, sweep_point *p)
{
    char part[PATH], log[PATH], name[32];
    arguments a;
    command_of(s, p, &a);
    mkdir(p->dir, 0777);
    snprintf(name, sizeof name, "%s.part", stage_file[p->stage]);
    in_dir(p, name, part);
    in_dir(p, "log.txt", log);
    posix_spawn_file_actions_t files;
    if (posix_spawn_file_actions_init(&files) != 0)
        return false;
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, part, O_WRONLY | O_CREAT | O_TRUNC,
                                     0666);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC,
                                     0666);
    const int failed =
        posix_spawn(&p->pid, "/proc/self/exe", &files, NULL, (char *const *)a.v, environ);
    posix_spawn_file_actions_destroy(&files);
    if (failed)
        p->pid = 0;
    return !failed;
}

/* The last line that a failed command wrote. */
static void explain(const sweep_point *p, const char *what)
{
    char path[PATH], line[512] = "", next[512];
    in_dir(p, "log.txt", path);
    FILE *f = fopen(path, "r");
    while (f && fgets(next, sizeof next, f))
        memcpy(line, next, sizeof line);
    if (f)
        fclose(f);
    line[strcspn(line, "\n")] = '\0';
    cli_note("%s: %s%s%s", p->dir, what, *line ? ": " : "", line);
}

/* ---- scheduling --------------------------------------------------------------------------- */

static volatile sig_atomic_t stopped;

static void on_stop(int sig)
{
    (void)sig;
    stopped = 1;
}

/* One finished process: its output becomes the stage's file. */
static void finish(const sweep *s, sweep_point *p, int status)
{
    char part[PATH], final[PATH], name[32];
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    snprintf(name, sizeof name, "%s.part", stage_file[p->stage]);
    in_dir(p, name, part);
    in_dir(p, stage_file[p->stage], final);
    p->pid = 0;
    if (code == 0 && rename(part, final) == 0) {
        skip_done(s, p);
        if (p->stage == SWEEP_DONE && s->done)
            s->done(s, p);
        return;
    }
    unlink(part);
    stopped |= code == INTERRUPTED;
    p->failed = code != INTERRUPTED;
    if (p->failed)
        explain(p, code == 0 ? "cannot keep the result" : "failed");
}

static size_t running(const sweep *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += s->point[i].pid != 0;
    return n;
}

/* Start what there is room for: points that have begun first. */
static void fill(sweep *s)
{
    size_t n = running(s);
    for (size_t i = 0; i < s->n && n < s->jobs; i++) {
        sweep_point *p = &s->point[i];
        if (p->pid || p->failed || p->stage == SWEEP_DONE)
            continue;
        if (start(s, p)) {
            n++;
        } else {
            p->failed = true;
            explain(p, strerror(errno));
        }
    }
}

static void wait_one(sweep *s)
{
    int status;
    const pid_t pid = waitpid(-1, &status, 0);
    if (pid < 0 && errno == EINTR) { /* ours alone: pass it on, then wait for their checkpoints */
        for (size_t i = 0; i < s->n; i++)
            if (s->point[i].pid)
                kill(s->point[i].pid, SIGINT);
        return;
    }
    for (size_t i = 0; i < s->n; i++)
        if (pid > 0 && s->point[i].pid == pid)
            finish(s, &s->point[i], status);
}

stet_status sweep_run(sweep *s)
{
    const struct sigaction stop = {.sa_handler = on_stop}; /* no restart: waitpid returns */
    struct sigaction before[2];
    stopped = 0;
    sigaction(SIGINT, &stop, &before[0]);
    sigaction(SIGTERM, &stop, &before[1]);
    for (size_t i = 0; i < s->n; i++)
        skip_done(s, &s->point[i]);
    while (true) {
        if (!stopped)
            fill(s);
        if (running(s) == 0)
            break;
        wait_one(s);
    }
    sigaction(SIGINT, &before[0], NULL);
    sigaction(SIGTERM, &before[1], NULL);
    return stopped ? cli_fail(STET_EINTR, "interrupted; the same command goes on from here")
                   : STET_OK;
}
