/* text/dataset_save.c - TSV, CSV and JSON lines. CSV and JSON keep every byte; TSV has no way to
 * write a tab or a line end inside a text, so there they become spaces. */
#include <string.h>

#include "base/buf.h"
#include "text/dataset.h"
#include "text/outfile.h"

typedef void row_writer(buf *b, const stet_str *label, stet_str text);

static void put_flat(buf *b, stet_str s)
{
    buf_bytes(b, s.data, s.len);
    for (char *p = b->status == STET_OK ? b->data + b->n - s.len : NULL; p && p < b->data + b->n;
         p++)
        if (*p == '\t' || *p == '\n' || *p == '\r')
            *p = ' ';
}

static void tsv_row(buf *b, const stet_str *label, stet_str text)
{
    if (label) {
        put_flat(b, *label);
        buf_char(b, '\t');
    }
    put_flat(b, text);
    buf_char(b, '\n');
}

static void put_quoted(buf *b, stet_str s)
{
    buf_char(b, '"');
    for (const char *quote; (quote = memchr(s.data, '"', s.len)) != NULL;) {
        const size_t n = (size_t)(quote + 1 - s.data);
        buf_bytes(b, s.data, n);
        buf_char(b, '"');
        s.data += n;
        s.len -= n;
    }
    buf_bytes(b, s.data, s.len);
    buf_char(b, '"');
}

static void csv_row(buf *b, const stet_str *label, stet_str text)
{
    if (label) {
        put_quoted(b, *label);
        buf_char(b, ',');
    }
    put_quoted(b, text);
    buf_str(b, "\r\n");
}

static void json_row(buf *b, const stet_str *label, stet_str text)
{
    if (label) {
        buf_str(b, "{\"label\":");
        buf_json_string(b, label->data, label->len);
        buf_str(b, ",\"text\":");
    } else {
        buf_str(b, "{\"text\":");
    }
    buf_json_string(b, text.data, text.len);
    buf_str(b, "}\n");
}

static row_writer *writer_of(const char *path)
{
    static const struct {
        const char *suffix;
        row_writer *row;
    } kinds[] = {{".tsv", tsv_row},
                 {".txt", tsv_row},
                 {".csv", csv_row},
                 {".jsonl", json_row},
                 {".ndjson", json_row}};
    const size_t n = outfile_stem(path, strlen(path));
    if (strcmp(path, "-") == 0)
        return tsv_row;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t k = strlen(kinds[i].suffix);
        if (n > k && strncasecmp(path + n - k, kinds[i].suffix, k) == 0)
            return kinds[i].row;
    }
    return NULL;
}

static stet_status write_rows(const stet_dataset *d, outfile *f, row_writer *row)
{
    enum { FLUSH_AT = 1 << 20 };
    const bool labelled = d->classes.n > 0;
    buf b = {0};
    if (row == csv_row)
        buf_str(&b, labelled ? "label,text\r\n" : "text\r\n");
    stet_status st = STET_OK;
    for (size_t i = 0; st == STET_OK && i < d->n; i++) {
        if (labelled && d->label[i] < 0) {
            st = error_set(STET_EUSAGE, "text %zu has no label, others have", i);
            break;
        }
        const uint32_t class = labelled ? (uint32_t)d->label[i] : 0;
        const stet_str label =
            labelled ? (stet_str){strmap_text(&d->classes, class), strmap_len(&d->classes, class)}
                     : (stet_str){"", 0};
        row(&b, labelled ? &label : NULL, stet_dataset_text(d, i));
        st = buf_status(&b);
        if (st == STET_OK && (b.n >= FLUSH_AT || i + 1 == d->n)) {
            st = outfile_write(f, b.data, b.n);
            buf_clear(&b);
        }
    }
    buf_deinit(&b);
    return st;
}

stet_status stet_dataset_save(const stet_dataset *d, const char *path)
{
    row_writer *row = writer_of(path);
    if (!row)
        return error_set(
            STET_EUSAGE,
            "%s: the name must end in .tsv, .csv or .jsonl, then .gz, .xz or .zst if compressed",
            path);
    outfile *f;
    TRY(outfile_open(path, &f));
    return outfile_close(f, write_rows(d, f, row));
}
