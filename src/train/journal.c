/* train/journal.c - train.jsonl: one object a step and an epoch. A resumed run cuts the file back to
 * what its checkpoint knows and goes on, so that no step stands twice. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "train/run_state.h"

static stet_status failed(const run_state *r)
{
    return error_set(STET_EIO, "%s: %s", r->log_path, strerror(errno));
}

/* A line that was put together; its memory is released. */
static stet_status write_line(run_state *r, buf *line)
{
    stet_status st = buf_status(line);
    if (st == STET_OK && fwrite(line->data, 1, line->n, r->log) != line->n)
        st = failed(r);
    buf_deinit(line);
    return st;
}

static stet_status start_record(run_state *r)
{
    json_t *o = json_pack("{s:i, s:s, s:o}", "schema", 1, "version", STET_VERSION, "training",
                          training_json(r, false));
    if (!o)
        return error_set(STET_ENOMEM, "out of memory for train.jsonl");
    buf line = {0};
    json_append_line(&line, o);
    json_decref(o);
    return write_line(r, &line);
}

stet_status journal_open(run_state *r)
{
    r->log = fopen(r->log_path, r->at.log_size ? "r+" : "w");
    if (!r->log)
        return failed(r);
    if (r->at.log_size == 0)
        return start_record(r);
    if (fseek(r->log, 0, SEEK_END) != 0 || ftell(r->log) < (long)r->at.log_size)
        return error_set(STET_EFORMAT, "%s: shorter than its checkpoint says", r->log_path);
    if (ftruncate(fileno(r->log), (off_t)r->at.log_size) != 0 || fseek(r->log, 0, SEEK_END) != 0)
        return failed(r);
    return STET_OK;
}

stet_status journal_step(run_state *r, const step_record *s)
{
    buf line = {0};
    buf_printf(&line, "{\"step\":%llu,\"epoch\":%llu,\"loss\":%.9g,\"grad_norm\":%.6g",
               (unsigned long long)s->step, (unsigned long long)r->at.epoch + 1, s->loss, s->norm);
    const step_metrics *m = s->metrics;
    for (size_t i = 0; i < m->n; i++)
        buf_printf(&line, ",\"%s\":%.9g", m->v[i].name, m->v[i].value);
    buf_str(&line, "}\n");
    return write_line(r, &line);
}

stet_status journal_epoch(run_state *r, double train_loss, const stet_scores *valid,
                          double worst_case, double seconds)
{
    buf line = {0};
    buf_printf(&line,
               "{\"epoch\":%llu,\"train_loss\":%.9g,\"valid_accuracy\":%.9g,\"valid_loss\":%.9g",
               (unsigned long long)r->at.epoch, train_loss, valid->accuracy, valid->loss);
    if (!isnan(worst_case))
        buf_printf(&line, ",\"valid_worst_case\":%.9g", worst_case);
    buf_printf(&line, ",\"best\":%s,\"seconds\":%.3f}\n",
               r->stop.best_epoch == r->stop.epoch ? "true" : "false", seconds);
    return write_line(r, &line);
}

stet_status journal_end(run_state *r)
{
    buf line = {0};
    buf_printf(
        &line, "{\"end\":true,\"epochs\":%llu,\"best_epoch\":%llu,\"valid_accuracy\":%.9g}\n",
        (unsigned long long)r->at.epoch, (unsigned long long)r->stop.best_epoch, r->stop.best);
    return write_line(r, &line);
}

stet_status journal_flush(run_state *r)
{
    TRY(folder_check(r));
    const long size = ftell(r->log);
    if (size < 0 || fflush(r->log) != 0 || fsync(fileno(r->log)) != 0)
        return failed(r);
    r->at.log_size = (uint64_t)size;
    return STET_OK;
}
