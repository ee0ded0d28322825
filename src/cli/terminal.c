/* cli/terminal.c - see cli/terminal.h. */
#include "cli/terminal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *code;
} styles[] = {{"bold", "\033[1m"},       {"dim", "\033[2m"},     {"red", "\033[31m"},
              {"green", "\033[32m"},     {"yellow", "\033[33m"}, {"reset", "\033[0m"},
              {"removed", "\033[9;31m"}, {"added", "\033[1;32m"}};
enum { STYLES = sizeof styles / sizeof *styles };

static bool dumb(void)
{
    const char *term = getenv("TERM");
    return !term || !*term || strcmp(term, "dumb") == 0;
}

bool terminal_colour(void)
{
    const char *no = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && !dumb() && !(no && *no);
}

bool terminal_moves(void)
{
    return isatty(STDERR_FILENO) && !dumb();
}

const char *terminal_style(const char *name)
{
    if (terminal_colour())
        for (size_t i = 0; i < STYLES; i++)
            if (strcmp(styles[i].name, name) == 0)
                return styles[i].code;
    return "";
}

/* ---- characters --------------------------------------------------------------------------- */

typedef enum verdict { SHOW, PASS, MORE } verdict; /* MORE: cannot tell before the next bytes */

/* The code at s, of `*len` bytes, which is to be shown as \uXXXX; PASS: *len bytes are harmless. */
static verdict judge(const char *s, size_t n, bool colour, size_t *len, unsigned *code)
{
    const unsigned char c = (unsigned char)s[0];
    *len = 1;
    *code = c;
    for (size_t i = 0; colour && c == 033 && i < STYLES; i++) {
        const size_t k = strlen(styles[i].code);
        if (strncmp(s, styles[i].code, n < k ? n : k) == 0) {
            *len = k;
            return n < k ? MORE : PASS;
        }
    }
    if (c < ' ' || c == 0x7f)
        return c == '\n' || c == '\t' ? PASS : SHOW;
    if (c != 0xc2 && c != 0xe2)
        return PASS;
    if (n < 2 || (c == 0xe2 && n < 3 && ((unsigned char)s[1] & 0xfe) == 0x80))
        return MORE;
    const unsigned char d = (unsigned char)s[1];
    if (c == 0xc2 && d >= 0x80 && d < 0xa0) { /* the controls of ISO 8859 */
        *len = 2;
        *code = d;
        return SHOW;
    }
    if (c == 0xe2 && (d & 0xfe) == 0x80) { /* letters that reverse those after them */
        const unsigned u = 0x2000 + (d & 1u) * 0x40 + ((unsigned char)s[2] & 0x3fu);
        if ((u >= 0x202a && u <= 0x202e) || (u >= 0x2066 && u <= 0x2069)) {
            *len = 3;
            *code = u;
            return SHOW;
        }
    }
    return PASS;
}

size_t terminal_clean(const char *s, char *out, size_t size)
{
    size_t at = 0, len;
    unsigned code;
    for (size_t n = strlen(s); n > 0; s += len, n -= len) {
        char shown[8];
        const bool show = judge(s, n, false, &len, &code) == SHOW || *s == '\n';
        const size_t need = show ? (size_t)snprintf(shown, sizeof shown, "\\u%04x", code) : len;
        if (at + need >= size)
            break;
        memcpy(out + at, show ? shown : s, need);
        at += need;
    }
    out[at] = '\0';
    return at;
}

/* ---- streams ------------------------------------------------------------------------------ */

enum { HELD = 8 };
typedef struct guard {
    int fd;
    size_t held; /* bytes of the last write that wait for the next */
    char hold[HELD];
} guard;

static void (*before_output)(void);

void terminal_before_output(void (*call)(void))
{
    before_output = call;
}

static bool write_all(int fd, const char *s, size_t n)
{
    while (n > 0) {
        const ssize_t k = write(fd, s, n);
        if (k < 0 && errno != EINTR)
            return false;
        s += k > 0 ? k : 0;
        n -= k > 0 ? (size_t)k : 0;
    }
    return true;
}

/* Harmless stretches go out as they are. */
static ssize_t guard_write(void *cookie, const char *s, size_t n)
{
    guard *g = cookie;
    char joined[2 * HELD];
    const bool colour = terminal_colour();
    if (g->fd == STDOUT_FILENO && before_output)
        before_output();
    size_t plain = 0, i = 0, len;
    unsigned code;
    if (g->held) { /* finish what the last write began */
        const size_t more = n < HELD ? n : HELD, had = g->held;
        memcpy(joined, g->hold, had);
        memcpy(joined + had, s, more);
        const verdict v = judge(joined, had + more, colour, &len, &code);
        if (v == MORE && more == n && had + n <= HELD) {
            memcpy(g->hold + had, s, n);
            g->held += n;
            return (ssize_t)n;
        }
        g->held = 0;
        char shown[8];
        const int k = snprintf(shown, sizeof shown, "\\u%04x", code);
        const size_t used = v == PASS && len < had ? had : len; /* what passes is passed whole */
        if (!(v == SHOW ? write_all(g->fd, shown, (size_t)k) &&
                              (len >= had || write_all(g->fd, joined + len, had - len))
                        : write_all(g->fd, joined, used)))
            return 0;
        i = plain = used > had ? used - had : 0;
    }
    for (; i < n; i += len) {
        const verdict v = judge(s + i, n - i, colour, &len, &code);
        if (v == PASS)
            continue;
        if (!write_all(g->fd, s + plain, i - plain))
            return 0;
        plain = i;
        if (v == MORE) {
            g->held = n - i;
            memcpy(g->hold, s + i, g->held);
            return (ssize_t)n;
        }
        char shown[8];
        const int k = snprintf(shown, sizeof shown, "\\u%04x", code);
        if (!write_all(g->fd, shown, (size_t)k))
            return 0;
        plain = i + len;
    }
    return write_all(g->fd, s + plain, n - plain) ? (ssize_t)n : 0;
}

static FILE *guarded(guard *g, FILE *instead, int mode)
{
    FILE *f = fopencookie(g, "w", (cookie_io_functions_t){.write = guard_write});
    if (!f)
        return instead;
    setvbuf(f, NULL, mode, BUFSIZ);
    return f;
}

void terminal_guard(void)
{
    static guard out = {.fd = STDOUT_FILENO}, err = {.fd = STDERR_FILENO};
    stdout = guarded(&out, stdout, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
    stderr = guarded(&err, stderr, _IONBF);
}
