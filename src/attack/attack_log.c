/* attack/attack_log.c - the log of an attack, read back to go on after a crash. One file may hold the
 * logs of several attacks, one after the other. */
#include <string.h>

#include "attack/record.h"
#include "base/json.h"
#include "base/mem.h"

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
    const char *name, *flipped;
    uint64_t index, words, attackable, candidates, changed;
    TRY(json_get_str(o, "record", "outcome", &name));
    size_t k = 0;
    while (k < OUTCOMES && strcmp(outcome_names[k], name) != 0)
        k++;
    if (k == OUTCOMES)
        return error_set(STET_EFORMAT, "record: unknown outcome '%s'", name);
    if (k == OUTCOME_SUCCESS)
        TRY(json_get_str(o, "record", "adversarial", &flipped));
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
    r->proved = json_is_string(json_object_get(o, "stopped"));
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

typedef struct reading {
    frame *f;
    const char *attack, *header;
    record *r;  /* (f->n) */
    bool began; /* the header is there */
} reading;

/* A text of our attack: done, unless it has no result and is tried again. */
static stet_status take_record(reading *g, json_t *o, const char *line, size_t len)
{
    record got = {0};
    TRY(record_parse(o, &got));
    record *mine = find(g->r, g->f->n, got.index);
    if (!mine || got.outcome == OUTCOME_ERROR || got.outcome == OUTCOME_TIMEOUT)
        return STET_OK;
    got.done = true;
    *mine = got;
    return frame_have(g->f, (size_t)(mine - g->r), line, len);
}

/* A log begins with a header, of this attack or another. */
static stet_status check_log(const json_t *o)
{
    return json_is_string(json_object_get(o, "attack")) &&
                   json_is_integer(json_object_get(o, "version")) &&
                   json_is_object(json_object_get(o, "settings"))
               ? STET_OK
               : error_set(STET_EFORMAT, "not the log of an attack; give another file");
}

static stet_status take_object(reading *g, size_t number, json_t *o, const char *line, size_t len)
{
    if (number == 1)
        TRY(check_log(o));
    const char *name = json_string_value(json_object_get(o, "attack"));
    if (!name)
        return error_set(STET_EFORMAT, "expected a record with \"attack\"");
    if (strcmp(name, g->attack) != 0)
        return STET_OK;
    if (!json_object_get(o, "settings"))
        return take_record(g, o, line, len);
    g->began = true;
    return strlen(g->header) == len && memcmp(g->header, line, len) == 0
               ? STET_OK
               : error_set(STET_EFORMAT,
                           "the log is of %s with other settings, model or data; give another file",
                           g->attack);
}

static stet_status take_line(void *ctx, size_t number, const char *line, size_t len)
{
    json_t *o = NULL;
    stet_status st = json_read_text("record", line, len, &o);
    if (st == STET_EFORMAT && number == 1)
        return check_log(NULL);
    if (st == STET_OK)
        st = take_object(ctx, number, o, line, len);
    json_decref(o);
    return st;
}

/* A crash can leave the beginning of our header, or of any line behind it. */
static stet_status check_rest(void *ctx, size_t lines, const char *rest, size_t len)
{
    const char *header = ((reading *)ctx)->header;
    return lines || (len <= strlen(header) && memcmp(rest, header, len) == 0) ? STET_OK
                                                                              : check_log(NULL);
}

stet_status attack_log_open(frame *f, const char *path, const char *attack, const char *header,
                            record *r, size_t *resumed)
{
    reading g = {.f = f, .attack = attack, .header = header, .r = r};
    *resumed = 0;
    TRY(run_log_open(&f->log, path, false, take_line, check_rest, &g));
    for (size_t i = 0; i < f->n; i++)
        *resumed += r[i].done;
    if (g.began)
        return STET_OK;
    TRY(run_log_append(&f->log, header, strlen(header)));
    return run_log_append(&f->log, "\n", 1);
}
