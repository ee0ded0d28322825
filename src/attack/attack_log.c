/* attack/attack_log.c - the log of an attack: written a line at a time, read back to go on after a
 * crash. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attack/record.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

enum { MAX_JOURNAL = 1 << 30 };
const char *const outcome_names[OUTCOMES] = {"wrong",       "failure", "success",
                                             "unconfirmed", "error",   "timeout"};

static stet_status get_count(json_t *o, const char *key, uint64_t *out)
{
    int64_t v = 0;
    TRY(json_get_int(o, "record", key, 0, INT64_MAX, &v));
    *out = (uint64_t)v;
    return STET_OK;
}

stet_status record_parse(json_t *o, record *r)
{
    const char *name;
    uint64_t index, words, attackable, candidates, changed;
    TRY(json_get_str(o, "record", "outcome", &name));
    size_t k = 0;
    while (k < OUTCOMES && strcmp(outcome_names[k], name) != 0)
        k++;
    if (k == OUTCOMES)
        return error_set(STET_EFORMAT, "record: unknown outcome '%s'", name);
    TRY(get_count(o, "index", &index));
    TRY(get_count(o, "words", &words));
    TRY(get_count(o, "attackable", &attackable));
    TRY(get_count(o, "candidates", &candidates));
    TRY(get_count(o, "changed", &changed));
    TRY(get_count(o, "queries", &r->queries));
    TRY(get_count(o, "evaluations", &r->evaluations));
    r->outcome = (outcome)k;
    r->index = index, r->words = words, r->attackable = attackable, r->candidates = candidates,
    r->changed = changed;
    r->complete = json_is_true(json_object_get(o, "complete"));
    return STET_OK;
}

static record *find(record *r, size_t n, size_t index)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (r[mid].index < index)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && r[lo].index == index ? &r[lo] : NULL;
}

/* A line of an earlier run: a header that must be ours, or a text that is done. */
static stet_status take_line(const char *attack, const char *header, const char *line, size_t len,
                             record *r, size_t n, bool *began)
{
    json_t *o = NULL;
    TRY(json_read_text("record", line, len, &o));
    const json_t *name = json_object_get(o, "attack");
    stet_status st = STET_OK;
    if (!json_is_string(name)) {
        st = error_set(STET_EFORMAT, "expected a record with \"attack\"");
    } else if (strcmp(json_string_value(name), attack) == 0) {
        record got = {0};
        if (json_object_get(o, "settings")) {
            *began = true;
            if (strlen(header) != len || memcmp(header, line, len) != 0)
                st = error_set(
                    STET_EFORMAT,
                    "the log is of %s with other settings, model or data; give another file",
                    attack);
        } else {
            st = record_parse(o, &got);
        }
        record *mine =
            st == STET_OK && !json_object_get(o, "settings") ? find(r, n, got.index) : NULL;
        const bool no_result = got.outcome == OUTCOME_ERROR || got.outcome == OUTCOME_TIMEOUT;
        if (mine && !no_result) { /* one without is tried again */
            char *old = mine->line;
            got.line = mem_alloc(len + 2, 1);
            if (!got.line) {
                st = STET_ENOMEM;
            } else {
                memcpy(got.line, line, len);
                memcpy(got.line + len, "\n", 2);
                *mine = got;
                mem_free(old);
            }
        }
    }
    json_decref(o);
    return st;
}

/* Is it a log at all? Its first line is a header, of this attack or another; a crash can leave the beginning of ours. */
static bool is_log(const char *data, size_t size, const char *header)
{
    const char *end = memchr(data, '\n', size);
    if (!end)
        return size <= strlen(header) && memcmp(data, header, size) == 0;
    json_t *o = NULL;
    if (json_read_text("record", data, (size_t)(end - data), &o) != STET_OK)
        return false;
    const bool ours = json_is_string(json_object_get(o, "attack")) &&
                      json_is_integer(json_object_get(o, "version")) &&
                      json_is_object(json_object_get(o, "settings"));
    json_decref(o);
    return ours;
}

/* Read what is there; *good is the length of its whole lines. */
static stet_status read_back(const char *path, const char *attack, const char *header, record *r,
                             size_t n, size_t *good, bool *began)
{
    char *data;
    size_t size, number = 0;
    TRY(file_read_all(path, MAX_JOURNAL, &data, &size));
    const size_t failures = mem_failures();
    stet_status st =
        is_log(data, size, header) ? STET_OK
        : mem_failures() != failures
            ? STET_ENOMEM
            : error_set(STET_EFORMAT, "%s:1: not the log of an attack; give another file", path);
    *good = 0;
    while (st == STET_OK) {
        char *end = memchr(data + *good, '\n', size - *good);
        if (!end)
            break; /* a crash cut the last line off: it is written again */
        number++;
        st = take_line(attack, header, data + *good, (size_t)(end - data) - *good, r, n, began);
        *good = (size_t)(end - data) + 1;
    }
    mem_free(data);
    return st == STET_EFORMAT && number ? error_prefix(st, "%s:%zu", path, number) : st;
}

static stet_status io_error(const char *path)
{
    return error_set(STET_EIO, "%s: %s", path, strerror(errno));
}

/* Nothing is written, and nothing cut off, before the file is known to be a log. */
stet_status attack_log_open(attack_log *j, const char *path, const char *attack, const char *header,
                            record *r, size_t n, size_t *resumed)
{
    *j =
        (attack_log){.fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666),
                     .path = path};
    *resumed = 0;
    struct stat sb;
    if (j->fd < 0 || fstat(j->fd, &sb) != 0)
        return io_error(path);
    if (!S_ISREG(sb.st_mode))
        return error_set(STET_EIO, "%s: not a regular file", path);
    if (flock(j->fd, LOCK_EX | LOCK_NB) != 0)
        return error_set(STET_EIO, "%s: another run is writing this log", path);
    size_t good = 0;
    bool began = false;
    TRY(read_back(path, attack, header, r, n, &good, &began));
    if (ftruncate(j->fd, (off_t)good) != 0)
        return io_error(path);
    for (size_t i = 0; i < n; i++)
        *resumed += r[i].line != NULL;
    if (began)
        return STET_OK;
    TRY(attack_log_append(j, header, strlen(header)));
    return attack_log_append(j, "\n", 1);
}

stet_status attack_log_append(attack_log *j, const char *lines, size_t size)
{
    while (size > 0) {
        const ssize_t n = write(j->fd, lines, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return io_error(j->path);
        lines += n;
        size -= (size_t)n;
    }
    return STET_OK;
}

void attack_log_close(attack_log *j)
{
    if (j->fd >= 0)
        close(j->fd);
    j->fd = -1;
}
