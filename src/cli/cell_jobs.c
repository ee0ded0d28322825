/* cli/cell_jobs.c - the processes of cells: each stage is this program with other arguments. */
#include "cli/cell_jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stet/results.h"

extern char **environ;

enum { SIGNALLED = 128 };

/* ---- one process -------------------------------------------------------------------------- */

char **cell_command(const cli_cells *c, const cli_stage *s, size_t *skip)
{
    static const char *const how[] = {"--json", "--progress", "never", "--threads"};
    enum { N_HOW = sizeof how / sizeof *how, MOST_WORDS = 3, NAME = 64 };
    /* The words of the command's name and the number of threads follow the pointers. */
    const size_t most = 1 + MOST_WORDS + s->n_args + N_HOW + 2;
    char **v = malloc(most * sizeof *v + NAME + 24);
    if (!v)
        return cli_no_memory();
    char *name = (char *)(v + most), *threads = name + NAME, *save;
    size_t n = 0;
    snprintf(name, NAME, "%s", s->cmd->name);
    snprintf(threads, 24, "%ld", c->threads);
    v[n++] = "stet";
    for (char *w = strtok_r(name, " ", &save); w; w = strtok_r(NULL, " ", &save))
        v[n++] = w;
    *skip = n;
    for (size_t i = 0; i < s->n_args; i++)
        v[n++] = s->arg[i];
    for (size_t i = 0; i < N_HOW; i++)
        v[n++] = (char *)how[i];
    v[n++] = threads;
    v[n] = NULL;
    return v;
}

/* Standard output goes to a file of another name while it is written; what is measured goes to
 * DIR/results by itself. */
static void output_path(const cli_cell *x, const cli_stage *s, const char *end, char out[CELL_PATH])
{
    char name[256];
    snprintf(name, sizeof name, "%s%s", s->output, end);
    cell_path(x, name, out);
}

/* Messages go to log.txt. */
static bool start(const cli_cells *c, cli_cell *x)
{
    const cli_stage *s = &x->stage[x->at];
    char out[CELL_PATH] = "/dev/null", log[CELL_PATH];
    posix_spawn_file_actions_t files;
    if (stet_folder_make(x->dir) != STET_OK || posix_spawn_file_actions_init(&files) != 0)
        return false;
    if (s->output)
        output_path(x, s, ".part", out);
    cell_path(x, "log.txt", log);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out, O_WRONLY | O_CREAT | O_TRUNC,
                                     0666);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC,
                                     0666);
    size_t skip;
    char **v = cell_command(c, s, &skip);
    const int failed = posix_spawn(&x->pid, "/proc/self/exe", &files, NULL, v, environ);
    free(v);
    posix_spawn_file_actions_destroy(&files);
    if (failed)
        x->pid = 0;
    return !failed;
}

/* The last line that a failed command wrote. */
static void explain(const cli_cell *x, const char *what)
{
    char path[CELL_PATH], line[512] = "", next[512];
    cell_path(x, "log.txt", path);
    FILE *f = fopen(path, "r");
    while (f && fgets(next, sizeof next, f))
        memcpy(line, next, sizeof line);
    if (f)
        fclose(f);
    line[strcspn(line, "\n")] = '\0';
    cli_note("%s: %s%s%s", x->dir, what, *line ? ": " : "", line);
}

/* ---- all of them -------------------------------------------------------------------------- */

enum { ASKED = 1, PASSED_ON = 2 };
static volatile sig_atomic_t stopped; /* ASKED: a signal came, PASSED_ON: the commands know */

static void on_stop(int sig)
{
    cli_caught(sig);
    stopped = ASKED;
}

/* An output gets its name only when the command came to its end. */
static bool keep_output(const cli_cell *x, bool good)
{
    const cli_stage *s = &x->stage[x->at];
    char part[CELL_PATH], final[CELL_PATH];
    if (!s->output)
        return true;
    output_path(x, s, ".part", part);
    output_path(x, s, "", final);
    return good ? rename(part, final) == 0 : unlink(part) == 0;
}

/* One finished process: what it was to leave must be there. */
static void finish(cli_cells *c, cli_cell *x, int status)
{
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    const size_t at = x->at;
    x->pid = 0;
    const bool kept = keep_output(x, code == 0);
    if (code == 0 && kept)
        cell_skip_done(c, x);
    if (cell_done(x) && c->done)
        c->done(c, x);
    if (x->at != at)
        return;
    if (code > SIGNALLED)
        stopped |= PASSED_ON;
    x->failed = code <= SIGNALLED && !(stopped && WIFSIGNALED(status));
    if (x->failed)
        explain(x, code == 0 ? "cannot keep the result" : "failed");
}

static size_t running(const cli_cells *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        n += c->v[i]->pid != 0;
    return n;
}

/* Start what there is room for: cells that have begun first. */
static void fill(cli_cells *c)
{
    size_t n = running(c);
    for (size_t i = 0; i < c->n && n < c->jobs; i++) {
        cli_cell *x = c->v[i];
        if (x->pid || x->failed || cell_done(x))
            continue;
        if (start(c, x)) {
            n++;
        } else {
            x->failed = true;
            explain(x, strerror(errno));
        }
    }
}

/* A signal was ours alone: pass it on. What has an output to write saves its work first (training, a
 * checkpoint); what measures has nothing to save. */
static void stop_all(const cli_cells *c)
{
    for (size_t i = 0; i < c->n; i++) {
        const cli_cell *x = c->v[i];
        if (x->pid)
            kill(x->pid, x->stage[x->at].output ? SIGINT : SIGKILL);
    }
}

static void wait_one(cli_cells *c)
{
    int status;
    const pid_t pid = waitpid(-1, &status, 0);
    for (size_t i = 0; i < c->n; i++)
        if (pid > 0 && c->v[i]->pid == pid)
            finish(c, c->v[i], status);
}

stet_status cell_jobs_run(cli_cells *c)
{
    const struct sigaction stop = {.sa_handler = on_stop}; /* no restart: waitpid returns */
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    enum { N_SIGNALS = sizeof signals / sizeof *signals };
    struct sigaction before[N_SIGNALS];
    stopped = 0;
    for (int i = 0; i < N_SIGNALS; i++) {
        sigaction(signals[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN)
            sigaction(signals[i], &stop, NULL);
    }
    for (size_t i = 0; !stopped && i < c->n; i++)
        cell_skip_done(c, c->v[i]);
    for (;;) {
        if (!stopped)
            fill(c);
        if (stopped == ASKED) { /* also one that came while a command was started */
            stop_all(c);
            stopped = PASSED_ON;
        }
        if (running(c) == 0)
            break;
        wait_one(c);
    }
    for (int i = 0; i < N_SIGNALS; i++)
        sigaction(signals[i], &before[i], NULL);
    return stopped ? cli_fail(STET_EINTR, "interrupted; run the same command again to continue")
                   : STET_OK;
}
