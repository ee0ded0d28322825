/* cli/output.c - tables, JSON lines, colour, and the progress line. */
#include "cli/output.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/terminal.h"
#include "stet/status.h"

static struct {
    bool quiet, verbose, progress;
    bool require_failed;
    char message[1024]; /* of cli_usage and cli_fail */
    int lost;           /* why standard output could not be written, once it could not */
    size_t line_width;  /* of the progress line now on the terminal */
    double started, drawn;
    double told; /* when something was last printed */
    char what[64], line[256];
} state;

double cli_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* ---- progress ----------------------------------------------------------------------------- */

/* Messages and the progress line share the terminal with the heartbeat below. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void clear_line(void)
{
    pthread_mutex_lock(&lock);
    if (state.line_width)
        dprintf(STDERR_FILENO, "\r%*s\r", (int)state.line_width, "");
    state.line_width = 0;
    state.line[0] = '\0';
    state.told = cli_now();
    pthread_mutex_unlock(&lock);
}

/* In place of the line that is there. */
static void draw_line(const char *raw)
{
    char line[256];
    struct winsize screen; /* a line that wraps could not be taken back */
    terminal_clean(raw, line, sizeof line);
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &screen) == 0 && screen.ws_col > 1 &&
        screen.ws_col <= sizeof line)
        line[screen.ws_col - 1] = '\0';
    const size_t width = strlen(line);
    dprintf(STDERR_FILENO, "\r%s%*s", line,
            state.line_width > width ? (int)(state.line_width - width) : 0, "");
    state.line_width = width;
}

static void duration(double s, char *out, size_t size)
{
    if (s < 60)
        snprintf(out, size, "%.0f s", s);
    else if (s < 3600)
        snprintf(out, size, "%d:%02d", (int)s / 60, (int)s % 60);
    else
        snprintf(out, size, "%d:%02d:%02d", (int)s / 3600, (int)s / 60 % 60, (int)s % 60);
}

static void on_progress(void *user, const char *what, uint64_t done, uint64_t total,
                        const char *note)
{
    (void)user;
    const double t = cli_now();
    if (strncmp(state.what, what, sizeof state.what - 1) != 0 || done == 0) {
        snprintf(state.what, sizeof state.what, "%s", what);
        state.started = t;
        state.drawn = 0;
    }
    if (t - state.drawn < 0.1 && !(total && done >= total))
        return;
    state.drawn = t;

    const double spent = t - state.started, rate = spent > 0 ? (double)done / spent : 0;
    char counted[64], speed[32] = "", left[32] = "";
    if (total)
        snprintf(counted, sizeof counted, "%3.0f%% %" PRIu64 "/%" PRIu64,
                 100.0 * (double)done / (double)total, done, total);
    else
        snprintf(counted, sizeof counted, "%" PRIu64, done);
    if (rate >= 1)
        snprintf(speed, sizeof speed, rate >= 100 ? ", %.0f/s" : ", %.1f/s", rate);
    else if (rate > 0)
        snprintf(speed, sizeof speed, ", %.1f s each", 1 / rate);
    const double seconds_left =
        total && done < total && rate > 0 ? (double)(total - done) / rate : 0;
    if (seconds_left > 0 && seconds_left < 1e8) {
        char d[16];
        duration(seconds_left, d, sizeof d);
        snprintf(left, sizeof left, ", %s left", d);
    }
    pthread_mutex_lock(&lock);
    snprintf(state.line, sizeof state.line, "%s %s%s%s%s%s", what, counted, speed, left,
             note && *note ? ", " : "", note ? note : "");
    draw_line(state.line);
    state.told = t;
    pthread_mutex_unlock(&lock);
    if (total && done >= total)
        clear_line();
}

/* Some steps take long and report nothing: after SILENT seconds the line says for how long. */
static void *heartbeat(void *unused)
{
    enum { SILENT = 2 };
    for (;;) {
        sleep(1);
        pthread_mutex_lock(&lock);
        const double silent = cli_now() - state.told;
        if (state.progress && silent > SILENT) {
            char line[sizeof state.line + 32], d[16];
            duration(silent, d, sizeof d);
            snprintf(line, sizeof line, "%s, %s in this step", *state.line ? state.line : "working",
                     d);
            draw_line(line);
        }
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void on_log(void *user, stet_log_level level, const char *message)
{
    (void)user;
    if (level > (state.verbose ? STET_LOG_DEBUG : STET_LOG_INFO) ||
        (state.quiet && level > STET_LOG_ERROR))
        return;
    clear_line();
    fprintf(stderr, "%s%s\n", level == STET_LOG_WARN ? "warning: " : "", message);
}

void output_init(const cli_common *common)
{
    state.quiet = common->quiet;
    state.verbose = common->verbose;
    state.progress =
        common->progress == 1 || (common->progress == 0 && !common->quiet && terminal_moves());
    stet_set_logger(on_log, NULL);
    stet_set_progress(state.progress ? on_progress : NULL, NULL);
    terminal_before_output(clear_line);
    state.told = cli_now();
    pthread_t beat; /* without it, fewer signs of life */
    if (state.progress && pthread_create(&beat, NULL, heartbeat, NULL) == 0)
        pthread_detach(beat);
}

stet_status output_end(stet_status st)
{
    clear_line();
    pthread_mutex_lock(&lock);
    state.progress = false;
    pthread_mutex_unlock(&lock);
    if (st == STET_OK)
        return cli_printed();
    fflush(stdout);
    return st;
}

/* ---- messages ----------------------------------------------------------------------------- */

static void put_note(const char *fmt, va_list ap)
{
    clear_line();
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
}

void cli_note(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!state.quiet)
        put_note(fmt, ap);
    va_end(ap);
}

void cli_warn(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put_note(fmt, ap);
    va_end(ap);
}

void cli_require_failed(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    clear_line();
    fputs("stet: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    state.require_failed = true;
}

bool output_require_failed(void)
{
    return state.require_failed;
}

stet_status cli_usage(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(state.message, sizeof state.message, fmt, ap);
    va_end(ap);
    return STET_EUSAGE;
}

stet_status cli_fail(stet_status code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(state.message, sizeof state.message, fmt, ap);
    va_end(ap);
    return code;
}

const char *output_message(void)
{
    return state.message[0] ? state.message : stet_last_error();
}

stet_status cli_printed(void)
{
    if (!state.lost && fflush(stdout) != 0)
        state.lost = errno;
    if (!state.lost && ferror(stdout)) /* lost while it was printed: a write says why */
        state.lost = write(STDOUT_FILENO, "\n", 1) < 0 ? errno : EIO;
    return state.lost ? cli_fail(STET_EIO, "standard output: %s", strerror(state.lost)) : STET_OK;
}

bool output_unheard(void)
{
    return state.lost == EPIPE;
}

bool cli_colour(void)
{
    return terminal_colour();
}

const char *cli_style(const char *name)
{
    return terminal_style(name);
}

/* ---- ends --------------------------------------------------------------------------------- */

static volatile sig_atomic_t caught = SIGINT;

void cli_caught(int sig)
{
    caught = sig;
}

int output_signal(void)
{
    return caught;
}

void *cli_no_memory(void)
{
    static const char message[] = "stet: out of memory\n";
    clear_line();
    (void)!write(STDERR_FILENO, message, sizeof message - 1);
    _exit(EXIT_FAILURE);
}

/* ---- files -------------------------------------------------------------------------------- */

stet_status cli_can_write(const char *path)
{
    if (!path || strcmp(path, "-") == 0)
        return STET_OK;
    char *copy = strdup(path);
    if (!copy)
        cli_no_memory();
    struct stat is;
    int why = access(dirname(copy), W_OK) == 0 ? 0 : errno;
    if (!why && stat(path, &is) == 0 && S_ISDIR(is.st_mode))
        why = EISDIR;
    free(copy);
    return why ? cli_fail(STET_EIO, "%s: %s", path, strerror(why)) : STET_OK;
}

/* ---- lines -------------------------------------------------------------------------------- */

void cli_end_at_once(void)
{
    pthread_mutex_lock(&lock);
    state.progress = false; /* it may wait for somebody to type */
    pthread_mutex_unlock(&lock);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (signal(SIGHUP, SIG_DFL) == SIG_IGN)
        signal(SIGHUP, SIG_IGN);
}

/* The lines of data[0..n) from `from` on, line ends cut off; *from: behind the last of them. The last
 * bytes without a line end are a line if nothing follows (`last`). */
static stet_status give_lines(char *data, size_t n, size_t seen, bool last, cli_line *each,
                              void *user, size_t *from)
{
    stet_status st = STET_OK;
    for (char *end; st == STET_OK && *from < n; seen = *from) {
        end = memchr(data + seen, '\n', n - seen);
        if (!end && !last)
            break;
        char *line = data + *from;
        size_t len = end ? (size_t)(end - line) : n - *from;
        *from += len + (end != NULL);
        while (len > 0 && line[len - 1] == '\r')
            len--;
        line[len] = '\0'; /* there is room for one byte more */
        st = each(user, line, len);
    }
    return st;
}

static bool must_wait(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 0;
}

stet_status cli_each_line(cli_line *each, cli_idle *idle, void *user)
{
    if (isatty(STDIN_FILENO))
        cli_note("reading standard input, one text per line; end with Ctrl-D");
    size_t cap = 1 << 16, n = 0;
    char *data = malloc(cap + 1);
    stet_status st = STET_OK;
    for (ssize_t got = 1; st == STET_OK && got != 0;) {
        if (data && n == cap) {
            char *more = realloc(data, 2 * cap + 1);
            if (!more)
                free(data);
            data = more;
            cap *= 2;
        }
        if (!data)
            return cli_fail(STET_ENOMEM, "standard input: %s", strerror(ENOMEM));
        if (idle && must_wait(STDIN_FILENO))
            st = idle(user);
        got = st == STET_OK ? read(STDIN_FILENO, data + n, cap - n) : 0;
        if (got < 0 && errno != EINTR)
            st = cli_fail(STET_EIO, "standard input: %s", strerror(errno));
        if (got < 0 || st != STET_OK)
            continue;
        size_t from = 0;
        st = give_lines(data, n + (size_t)got, n, got == 0, each, user, &from);
        n += (size_t)got - from;
        memmove(data, data + from, n);
    }
    free(data);
    return st;
}

/* ---- JSON --------------------------------------------------------------------------------- */

json_t *cli_json_start(const cli_command *cmd, const void *cfg)
{
    char *text = NULL;
    if (stet_opt_json(cmd->opts, cfg, &text) != STET_OK)
        return NULL;
    json_t *config = json_loads(text, 0, NULL);
    stet_free(text);
    return json_pack("{s:i, s:s, s:s, s:o}", "schema", 1, "version", stet_version(), "command",
                     cmd->name, "config", config ? config : json_object());
}

json_t *cli_json_string(const char *s)
{
    json_t *o = json_string(s);
    char *ascii = o ? NULL : strdup(s);
    for (char *c = ascii; c && *c; c++)
        *c = (unsigned char)*c < 0x80 ? *c : '?';
    if (ascii)
        o = json_string(ascii);
    free(ascii);
    return o;
}

stet_status cli_json_print(json_t *object)
{
    if (!object)
        return cli_fail(STET_ENOMEM, "out of memory");
    char *line = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(10));
    json_decref(object);
    if (!line)
        return cli_fail(STET_ENOMEM, "out of memory, or a number that JSON cannot hold");
    puts(line);
    stet_free(line);
    return cli_printed();
}

/* Columns on the terminal: UTF-8 continuation bytes take none. */
static size_t columns_of(const char *s, size_t n)
{
    size_t w = 0;
    for (size_t i = 0; i < n; i++)
        w += ((unsigned char)s[i] & 0xc0) != 0x80;
    return w;
}

/* ---- tables ------------------------------------------------------------------------------- */

const char *cli_fmt(const char *fmt, ...)
{
    static char buffers[32][128];
    static size_t next;
    char *b = buffers[next++ % 32];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(b, sizeof buffers[0], fmt, ap);
    va_end(ap);
    return b;
}

void cli_wrap(const char *text, size_t width)
{
    size_t at = 0;
    while (*text) {
        text += strspn(text, " \n");
        const size_t n = strcspn(text, " \n");
        if (n == 0)
            break;
        const size_t wide = columns_of(text, n);
        if (at && at + 1 + wide > width)
            at = (putchar('\n'), 0);
        at += (size_t)printf("%s", at ? " " : "");
        printf("%.*s", (int)n, text);
        at += wide;
        text += n;
    }
    putchar('\n');
}

const char *cli_rate(double per_second, const char *what)
{
    if (!(per_second > 0))
        return "";
    return per_second >= 100 ? cli_fmt("%.0f %s/s", per_second, what)
           : per_second >= 1 ? cli_fmt("%.1f %s/s", per_second, what)
                             : cli_fmt("%.1f s for each", 1 / per_second);
}

const char *cli_spark(const double *v, size_t n, double lo, double hi)
{
    static const char *const block[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static char buffers[8][3 * 64 + 1];
    static size_t next;
    char *b = buffers[next++ % 8];
    size_t at = 0;
    for (size_t i = 0; i < n && i < 64; i++) {
        const double share = hi > lo ? (v[i] - lo) / (hi - lo) : 0;
        const int step = share >= 1  ? 7
                         : share > 0 ? (int)(8 * share)
                                     : 0; /* not a number: the lowest */
        memcpy(b + at, block[step], 3);
        at += 3;
    }
    b[at] = '\0';
    return b;
}

static void add_cell(cli_table *t, const char *text)
{
    if (t->n == t->cap) {
        const size_t cap = t->cap ? 2 * t->cap : 64;
        char **cell = realloc(t->cell, cap * sizeof *cell);
        t->cell = cell ? cell : cli_no_memory();
        t->cap = cap;
    }
    char *copy = strdup(text);
    t->cell[t->n++] = copy ? copy : cli_no_memory();
}

/* The heading says how many columns there are; shorter rows are filled up. */
static void end_row(cli_table *t, size_t cols)
{
    if (t->rows++ == 0)
        t->cols = cols;
    for (; cols < t->cols; cols++)
        add_cell(t, "");
}

void cli_row(cli_table *t, const char *first, ...)
{
    va_list ap;
    va_start(ap, first);
    size_t cols = 0;
    for (const char *c = first; c; c = va_arg(ap, const char *), cols++)
        add_cell(t, c);
    va_end(ap);
    end_row(t, cols);
}

void cli_row_of(cli_table *t, const char *const *cell, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add_cell(t, cell[i]);
    end_row(t, n);
}

static size_t width_of(const char *s)
{
    return columns_of(s, strlen(s));
}

static bool numeric(const char *s)
{
    return *s == '\0' || strchr("0123456789.+-", *s) != NULL;
}

typedef struct column {
    size_t width;
    bool right; /* numbers under the heading */
} column;

static column column_of(const cli_table *t, size_t c)
{
    column out = {.right = true};
    for (size_t r = 0; r < t->rows && r * t->cols + c < t->n; r++) {
        const char *cell = t->cell[r * t->cols + c];
        const size_t width = width_of(cell);
        out.width = width > out.width ? width : out.width;
        out.right = out.right && (r == 0 || numeric(cell));
    }
    return out;
}

void cli_table_print(cli_table *t)
{
    column *const columns = malloc((t->cols + 1) * sizeof *columns);
    if (!columns)
        cli_no_memory();
    for (size_t c = 0; c < t->cols; c++)
        columns[c] = column_of(t, c);
    for (size_t r = 0; r < t->rows && (r + 1) * t->cols <= t->n; r++) {
        for (size_t c = 0; c < t->cols; c++) {
            const char *cell = t->cell[r * t->cols + c];
            const int pad = (int)(columns[c].width - width_of(cell));
            const bool last = c + 1 == t->cols, right = columns[c].right;
            printf("%s%*s%s%s%*s", r == 0 ? cli_style("bold") : "", right ? pad : 0, "", cell,
                   r == 0 ? cli_style("reset") : "", right || last ? 0 : pad, "");
            fputs(last ? "\n" : "  ", stdout);
        }
    }
    free(columns);
    cli_table_drop(t);
}

void cli_table_drop(cli_table *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->cell[i]);
    free(t->cell);
    *t = (cli_table){0};
}
