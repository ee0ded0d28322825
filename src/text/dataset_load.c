/* text/dataset_load.c - find out the format, run its reader. */
#include <string.h>

#include "base/args.h"
#include "base/file.h"
#include "base/log.h"
#include "text/outfile.h"
#include "text/reader.h"

bool source_peek(line_source *in, stet_status *st)
{
    if (in->held)
        return true;
    in->held = stream_line(in->s, &in->line, &in->len, st);
    if (in->held && stream_line_number(in->s) == 1 && in->len >= 3 &&
        memcmp(in->line, "\xef\xbb\xbf", 3) == 0) {
        in->line += 3;
        in->len -= 3;
    }
    return in->held;
}

bool source_next(line_source *in, stet_status *st)
{
    const bool any = source_peek(in, st);
    in->held = false;
    return any;
}

size_t source_line_number(const line_source *in)
{
    return stream_line_number(in->s);
}

static bool ends_with(const char *s, size_t n, const char *end)
{
    const size_t k = strlen(end);
    return n >= k && strncasecmp(s + n - k, end, k) == 0;
}

/* The name decides, if it says something; else the first line. Without labels, lines of a file with
 * a name that says nothing (or of standard input) are texts, whatever is in them. */
static stet_data_format guess_format(const char *path, const line_source *in, bool unlabelled)
{
    const size_t n = outfile_stem(path, strlen(path));
    if (ends_with(path, n, ".jsonl") || ends_with(path, n, ".ndjson") ||
        ends_with(path, n, ".json"))
        return STET_DATA_JSONL;
    if (ends_with(path, n, ".csv"))
        return STET_DATA_CSV;
    if (ends_with(path, n, ".tsv"))
        return STET_DATA_TSV;
    if (unlabelled)
        return STET_DATA_TSV;
    if (in->len > 0 && in->line[0] == '{')
        return STET_DATA_JSONL;
    if (in->len >= 9 && memcmp(in->line, "__label__", 9) == 0)
        return STET_DATA_FASTTEXT;
    if (memchr(in->line, '\t', in->len) || !memchr(in->line, ',', in->len))
        return STET_DATA_TSV;
    return STET_DATA_CSV;
}

static stet_status read_stream(data_builder *b, const char *path)
{
    line_source in = {0};
    TRY(stream_open(path, &in.s));
    stet_status st = STET_OK;
    if (!source_peek(&in, &st)) {
        if (st == STET_OK)
            st = error_set(STET_EFORMAT, "%s: the file is empty", b->path);
    } else {
        const stet_data_format asked = b->how->format;
        switch (asked == STET_DATA_AUTO ? guess_format(path, &in, b->how->unlabelled) : asked) {
        case STET_DATA_CSV:
            st = read_csv(b, &in);
            break;
        case STET_DATA_JSONL:
            st = read_jsonl(b, &in);
            break;
        case STET_DATA_FASTTEXT:
            st = read_fasttext(b, &in);
            break;
        case STET_DATA_ACLIMDB:
            st = error_set(STET_EFORMAT, "%s: expected a folder with neg/ and pos/ in it", b->path);
            break;
        default:
            st = read_tsv(b, &in);
            break;
        }
    }
    stream_close(in.s);
    return st;
}

/* A first line whose label is seen nowhere else, and whose text is one word, is a heading. */
static void warn_of_heading(const stet_dataset *d, const data_builder *b)
{
    const size_t n = stet_dataset_size(d);
    if (n < 3 || b->how->unlabelled || b->how->like || stet_dataset_classes(d) < 2)
        return;
    const int first = stet_dataset_label(d, 0);
    const stet_str text = stet_dataset_text(d, 0);
    if (first < 0 || memchr(text.data, ' ', text.len))
        return;
    for (size_t i = 1; i < n; i++)
        if (stet_dataset_label(d, i) == first)
            return;
    log_warn("%s:1: '%s' and '%.40s' look like a heading, not data: name the columns with --label "
             "and --text",
             b->path, stet_dataset_class_name(d, (size_t)first), text.data);
}

void stet_data_options_init(stet_data_options *a, size_t size)
{
    const stet_data_options defaults = STET_DATA_DEFAULTS;
    args_init(a, size, &defaults, sizeof defaults);
}

stet_status stet_dataset_load(const char *path, const stet_data_options *given, stet_dataset **out)
{
    stet_data_options own = STET_DATA_DEFAULTS, *how = &own;
    *out = NULL;
    if (given)
        TRY(ARGS_TAKE(how, given));
    const bool folder = strcmp(path, "-") != 0 && dir_exists(path);
    if (folder && how->format != STET_DATA_AUTO && how->format != STET_DATA_ACLIMDB)
        return error_set(STET_EIO, "%s: a folder, where a file was expected", path);
    data_builder b;
    stet_status st = builder_init(&b, strcmp(path, "-") == 0 ? "standard input" : path, how);
    if (st == STET_OK)
        st = folder ? read_folder(&b, path) : read_stream(&b, path);
    if (st == STET_OK)
        st = builder_finish(&b, out);
    if (st == STET_OK && !folder)
        warn_of_heading(*out, &b);
    builder_deinit(&b);
    return st;
}
