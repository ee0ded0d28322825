/* report/report.c - see stet/report.h: reads the folders, puts results beside each other, hands
 * them to a page. */
#include <string.h>

#include "base/args.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "report/report_impl.h"
#include "text/utf8.h"

/* ---- names -------------------------------------------------------------------------------- */

/* The last part of the path where that says which folder is meant. */
static void name_runs(report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        size_t len, other_len;
        const char *part = path_last(r->run[i].dir, &len);
        bool alone = true;
        for (size_t j = 0; j < r->n; j++) {
            const char *other = path_last(r->run[j].dir, &other_len);
            alone = alone && (i == j || len != other_len || memcmp(part, other, len) != 0);
        }
        char *name = r->run[i].name;
        snprintf(name, sizeof r->run[i].name, "%.*s",
                 alone ? (int)len : (int)sizeof r->run[i].name - 1, alone ? part : r->run[i].dir);
        int32_t code; /* what is not UTF-8, or cut off, cannot stand on a page */
        for (size_t n = strlen(name), at = 0, k; at < n; at += k) {
            k = utf8_code(name + at, n - at, &code);
            name[at] = k == 1 && code == 0xfffd ? '?' : name[at];
        }
    }
}

/* ---- making ------------------------------------------------------------------------------- */

static stet_status gather(report *r)
{
    const stet_report_args *a = r->a;
    for (size_t i = 0; i < a->n_dirs; i++) {
        progress("reading", i, a->n_dirs, NULL);
        r->n = i + 1; /* so that a folder that was read in part is released */
        TRY(run_folder_read(a->dirs[i], !a->no_bounds && a->format != STET_REPORT_MARKDOWN,
                            &r->run[i]));
    }
    progress("reading", a->n_dirs, a->n_dirs, NULL);
    name_runs(r);
    return report_summarise(r);
}

static stet_status write_page(const report *r, buf *b)
{
    switch (r->a->format) {
    case STET_REPORT_MARKDOWN:
        return report_markdown(r, b);
    case STET_REPORT_JSON:
        return report_json(r, b);
    default:
        return report_html(r, b);
    }
}

static stet_status make(const stet_report_args *a, buf *b)
{
    if ((a->n_dirs == 0 && a->n_sheets == 0) || a->n_dirs > MAX_RUNS)
        return error_set(STET_EUSAGE, "a report is about 1 to %d run folders, not %zu", MAX_RUNS,
                         a->n_dirs);
    report *r = mem_zalloc(1, sizeof *r);
    if (!r)
        return STET_ENOMEM;
    r->a = a;
    const size_t failures = mem_failures();
    stet_status st = gather(r);
    if (st == STET_OK)
        st = write_page(r, b);
    if (st == STET_OK &&
        mem_failures() != failures) /* jansson leaves out what it has no memory for */
        st = error_set(STET_ENOMEM, "out of memory for the report");
    for (size_t i = 0; i < r->n; i++)
        run_folder_deinit(&r->run[i]);
    mem_free(r->data);
    mem_free(r);
    return st == STET_OK ? buf_status(b) : st;
}

void stet_report_args_init(stet_report_args *a, size_t size)
{
    const stet_report_args defaults = {0};
    args_init(a, size, &defaults, sizeof defaults);
}

stet_status stet_report(const stet_report_args *given, char **out)
{
    stet_report_args own = {0}, *a = &own;
    buf b = {0};
    *out = NULL;
    TRY(ARGS_TAKE(a, given));
    const stet_status st = make(a, &b);
    *out = st == STET_OK ? buf_take(&b) : NULL;
    buf_deinit(&b);
    return st;
}

stet_status stet_report_write(const stet_report_args *given, const char *path)
{
    stet_report_args own = {0}, *a = &own;
    buf b = {0};
    TRY(ARGS_TAKE(a, given));
    stet_status st = make(a, &b);
    if (st == STET_OK)
        st = file_write_all(path, b.data, b.n);
    buf_deinit(&b);
    return st;
}
