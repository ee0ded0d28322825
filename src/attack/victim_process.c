/* attack/victim_process.c - any program as the victim: texts out, probabilities in, one JSON line
 * each.
 *
 *     > {"texts":["a fine film","a poor film"]}
 *     < {"probabilities":[[0.1,0.9],[0.8,0.2]]}
 *
 * A program that dies, hangs or answers nonsense costs the text that it failed on, and is started
 * again for the next. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack/attack_impl.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

extern char **environ;

enum { TEXTS_AT_ONCE = 256, MAX_ANSWER = 1 << 26 };

typedef struct process_victim {
    victim v;
    const char *command;
    double timeout;
    const stet_words *words;
    const attack_text *text;
    pid_t pid; /* 0: not running */
    int to, from;
    buf out, in;
} process_victim;

/* ---- the program -------------------------------------------------------------------------- */

static void stop(process_victim *p)
{
    if (p->pid == 0)
        return;
    close(p->to);
    close(p->from);
    kill(-p->pid, SIGKILL); /* the shell and what it started */
    while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    p->pid = 0;
}

static stet_status spawn(process_victim *p, const int in[2], const int out[2])
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    if (posix_spawn_file_actions_init(&files) != 0)
        return STET_ENOMEM;
    if (posix_spawnattr_init(&attr) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return STET_ENOMEM;
    }
    posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    char sh[] = "sh", dash_c[] = "-c";
    char *command = mem_strdup(p->command);
    char *argv[] = {sh, dash_c, command, NULL};
    const int error =
        command ? posix_spawn(&p->pid, "/bin/sh", &files, &attr, argv, environ) : ENOMEM;
    mem_free(command);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    if (error == 0)
        return STET_OK;
    p->pid = 0;
    return error_set(STET_EIO, "%s: %s", p->command, strerror(error));
}

static stet_status start(process_victim *p)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    if (p->pid)
        return STET_OK;
    stet_status st = STET_OK;
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
        st = error_set(STET_EIO, "%s: %s", p->command, strerror(errno));
    if (st == STET_OK)
        st = spawn(p, in, out);
    if (in[0] >= 0)
        close(in[0]);
    if (out[1] >= 0)
        close(out[1]);
    if (st == STET_OK) {
        p->to = in[1];
        p->from = out[0];
        fcntl(p->to, F_SETFL, O_NONBLOCK);
        fcntl(p->from, F_SETFL, O_NONBLOCK);
    } else {
        if (in[1] >= 0)
            close(in[1]);
        if (out[0] >= 0)
            close(out[0]);
    }
    return st;
}

/* Wait until fd is ready; false when the time is up. */
static bool ready(int fd, short events, double deadline)
{
    while (true) {
        const double left = deadline - seconds_now();
        struct pollfd f = {.fd = fd, .events = events};
        const int n = left > 0 ? poll(&f, 1, (int)ceil(fmin(left, 1e6) * 1e3)) : 0;
        if (n > 0)
            return true;
        if (n == 0 || errno != EINTR)
            return false;
    }
}

static stet_status hung(const process_victim *p)
{
    return error_set(STET_EIO, "victim '%s' did not answer within %g s", p->command, p->timeout);
}

static stet_status died(const process_victim *p)
{
    return error_set(STET_EIO, "victim '%s' ended without an answer", p->command);
}

/* A dead reader gives EPIPE here, not a signal that ends us. */
static stet_status send_all(process_victim *p, double deadline)
{
    sigset_t pipe_only, old;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &old);
    stet_status st = STET_OK;
    size_t done = 0;
    while (st == STET_OK && done < p->out.n) {
        const ssize_t n = write(p->to, p->out.data + done, p->out.n - done);
        if (n > 0)
            done += (size_t)n;
        else if (errno == EPIPE)
            st = died(p);
        else if (errno != EAGAIN && errno != EINTR)
            st = error_set(STET_EIO, "victim '%s': %s", p->command, strerror(errno));
        else if (!ready(p->to, POLLOUT, deadline))
            st = hung(p);
    }
    const struct timespec none = {0};
    if (!sigismember(&old, SIGPIPE))
        while (sigtimedwait(&pipe_only, NULL, &none) > 0)
            ;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return st;
}

/* One line into p->in, without its end. */
static stet_status receive(process_victim *p, double deadline)
{
    buf_clear(&p->in);
    while (true) {
        char part[65536];
        const ssize_t n = read(p->from, part, sizeof part);
        if (n == 0)
            return died(p);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return error_set(STET_EIO, "victim '%s': %s", p->command, strerror(errno));
        if (n < 0) {
            if (!ready(p->from, POLLIN, deadline))
                return hung(p);
            continue;
        }
        const char *end = memchr(part, '\n', (size_t)n);
        buf_bytes(&p->in, part, end ? (size_t)(end - part) : (size_t)n);
        TRY(buf_status(&p->in));
        if (end && end + 1 < part + n)
            return error_set(STET_EFORMAT, "victim '%s' wrote more than one line for one request",
                             p->command);
        if (end)
            return STET_OK;
        if (p->in.n > MAX_ANSWER)
            return error_set(STET_EFORMAT, "victim '%s' wrote a line of more than %d bytes",
                             p->command, MAX_ANSWER);
    }
}

/* ---- questions and answers ---------------------------------------------------------------- */

static stet_status write_text(process_victim *p, const stet_edit *e, size_t n)
{
    char *text;
    TRY(attack_text_edited(p->text, p->words, e, n, &text));
    buf_json_string(&p->out, text, strlen(text));
    stet_free(text);
    return STET_OK;
}

static stet_status nonsense(const process_victim *p, const char *why)
{
    return error_set(STET_EFORMAT, "victim '%s': %s", p->command, why);
}

static stet_status read_row(const process_victim *p, const json_t *row, double *prob)
{
    const size_t K = p->v.n_classes;
    if (!json_is_array(row) || json_array_size(row) != K)
        return error_set(STET_EFORMAT, "victim '%s': expected %zu probabilities per text",
                         p->command, K);
    for (size_t c = 0; c < K; c++) {
        const json_t *v = json_array_get(row, c);
        prob[c] = json_is_number(v) ? json_number_value(v) : -1;
    }
    const char *wrong = victim_row_wrong(prob, K);
    return wrong ? nonsense(p, wrong) : STET_OK;
}

static stet_status read_answer(const process_victim *p, size_t n, double *prob)
{
    json_t *o = NULL;
    const stet_status parsed = json_read_text("answer", p->in.data ? p->in.data : "", p->in.n, &o);
    if (parsed != STET_OK)
        return parsed == STET_EFORMAT ? error_prefix(parsed, "victim '%s'", p->command) : parsed;
    const json_t *rows = json_object_get(o, "probabilities");
    stet_status st = STET_OK;
    if (!json_is_array(rows) || json_array_size(rows) != n)
        st = error_set(STET_EFORMAT,
                       "victim '%s': expected {\"probabilities\": [...]} with %zu rows", p->command,
                       n);
    for (size_t i = 0; st == STET_OK && i < n; i++)
        st = read_row(p, json_array_get(rows, i), prob + i * p->v.n_classes);
    json_decref(o);
    return st;
}

static stet_status ask_some(process_victim *p, const stet_edit *edits, const size_t *first,
                            size_t n, double *prob)
{
    TRY(start(p));
    buf_clear(&p->out);
    buf_str(&p->out, "{\"texts\":[");
    for (size_t i = 0; i < n; i++) {
        if (i)
            buf_char(&p->out, ',');
        TRY(write_text(p, edits + first[i], first[i + 1] - first[i]));
    }
    buf_str(&p->out, "]}\n");
    TRY(buf_status(&p->out));
    const double deadline = seconds_now() + p->timeout;
    stet_status st = send_all(p, deadline);
    if (st == STET_OK)
        st = receive(p, deadline);
    if (st == STET_OK)
        st = read_answer(p, n, prob);
    if (st != STET_OK)
        stop(p);
    return st;
}

static stet_status ask(victim *v, const stet_edit *edits, const size_t *first, size_t n,
                       double *prob)
{
    for (size_t i = 0; i < n; i += TEXTS_AT_ONCE) {
        const size_t some = n - i < TEXTS_AT_ONCE ? n - i : TEXTS_AT_ONCE;
        TRY(ask_some((process_victim *)v, edits, first + i, some, prob + i * v->n_classes));
    }
    return STET_OK;
}

static stet_status open_text(victim *v, const attack_text *t)
{
    ((process_victim *)v)->text = t;
    return STET_OK;
}

static void free_victim(victim *v)
{
    process_victim *p = (process_victim *)v;
    stop(p);
    buf_deinit(&p->out);
    buf_deinit(&p->in);
    mem_free(p);
}

stet_status victim_of_command(const char *command, double timeout, const stet_words *w,
                              size_t n_classes, victim **out)
{
    process_victim *p = mem_zalloc(1, sizeof *p);
    if (!p)
        return STET_ENOMEM;
    p->v = (victim){.n_classes = n_classes, .open = open_text, .ask = ask, .free = free_victim};
    p->command = command;
    p->timeout = timeout;
    p->words = w;
    *out = &p->v;
    return STET_OK;
}
