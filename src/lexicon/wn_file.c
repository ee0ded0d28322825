/* lexicon/wn_file.c - see wn_file.h. The files come sorted, but not all of them quite (Debian's
 * noun.exc repeats keys), so the order is checked while the lines are counted and mended if need
 * be; after that a lookup is a binary search. */
#include "lexicon/wn_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Bytes of the line at `offset` without its end. */
static stet_str line_at(const wn_file *f, size_t offset)
{
    const char *start = (const char *)f->map.data + offset;
    const size_t left = f->map.size - offset;
    const char *end = memchr(start, '\n', left);
    size_t len = end ? (size_t)(end - start) : left;
    while (len && (start[len - 1] == ' ' || start[len - 1] == '\r'))
        len--;
    return (stet_str){start, len};
}

static size_t key_len(stet_str line)
{
    const char *space = memchr(line.data, ' ', line.len);
    return space ? (size_t)(space - line.data) : line.len;
}

static int compare_bytes(const char *a, size_t a_len, const char *b, size_t b_len)
{
    const int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

static int compare_lines(const void *a, const void *b, void *file)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const stet_str p = line_at(file, x), q = line_at(file, y);
    const int order = compare_bytes(p.data, key_len(p), q.data, key_len(q));
    return order ? order : (x > y) - (x < y);
}

static stet_status find_lines(wn_file *f)
{
    size_t cap = 0;
    bool sorted = true;
    for (size_t at = 0; at < f->map.size;) {
        const stet_str line = line_at(f, at);
        if (line.len && line.data[0] != ' ') {
            TRY(mem_grow(&f->line, &cap, f->n + 1, sizeof *f->line));
            f->line[f->n++] = (uint32_t)at;
            if (f->n > 1 && sorted)
                sorted = compare_lines(&f->line[f->n - 2], &f->line[f->n - 1], f) < 0;
        }
        const unsigned char *end = memchr(f->map.data + at, '\n', f->map.size - at);
        at = end ? (size_t)(end - f->map.data) + 1 : f->map.size;
    }
    if (!sorted)
        qsort_r(f->line, f->n, sizeof *f->line, compare_lines, f);
    return STET_OK;
}

stet_status wn_file_map(wn_file *f, const char *dir, const char *name)
{
    *f = (wn_file){0};
    f->path = path_join(dir, name);
    stet_status st = f->path ? file_map_open(&f->map, f->path) : STET_ENOMEM;
    if (st == STET_OK && f->map.size > UINT32_MAX)
        st = error_set(STET_EFORMAT, "%s: %zu bytes, expected less than 4 GiB", f->path,
                       f->map.size);
    if (st != STET_OK)
        wn_file_close(f);
    return st;
}

stet_status wn_file_open(wn_file *f, const char *dir, const char *name)
{
    TRY(wn_file_map(f, dir, name));
    const stet_status st = find_lines(f);
    if (st != STET_OK)
        wn_file_close(f);
    return st;
}

void wn_file_close(wn_file *f)
{
    file_map_close(&f->map);
    mem_free(f->path);
    mem_free(f->line);
    *f = (wn_file){0};
}

stet_str wn_file_line(const wn_file *f, size_t i)
{
    return line_at(f, f->line[i]);
}

size_t wn_file_lower_bound(const wn_file *f, const char *key, size_t len)
{
    size_t lo = 0, hi = f->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const stet_str line = wn_file_line(f, mid);
        if (compare_bytes(line.data, key_len(line), key, len) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool wn_file_find(const wn_file *f, const char *key, size_t len, stet_str *line)
{
    bool found = false;
    for (size_t i = wn_file_lower_bound(f, key, len); i < f->n; i++) {
        const stet_str next = wn_file_line(f, i);
        if (key_len(next) != len || memcmp(next.data, key, len) != 0)
            break;
        *line = next;
        found = true;
    }
    return found;
}

stet_status wn_fields_at(const wn_file *f, size_t offset, wn_fields *out)
{
    if (offset >= f->map.size || (offset && f->map.data[offset - 1] != '\n'))
        return error_set(STET_EFORMAT, "%s: no line starts at offset %zu", f->path, offset);
    const stet_str line = line_at(f, offset);
    *out = (wn_fields){f, line.data, line.data + line.len};
    return STET_OK;
}

bool wn_fields_next(wn_fields *f, stet_str *out)
{
    while (f->p < f->end && *f->p == ' ')
        f->p++;
    const char *start = f->p;
    while (f->p < f->end && *f->p != ' ')
        f->p++;
    *out = (stet_str){start, (size_t)(f->p - start)};
    return out->len > 0;
}

static stet_status wrong_field(const wn_fields *f, stet_str field, const char *what,
                               const char *expected)
{
    const size_t at = (size_t)(field.data - (const char *)f->file->map.data);
    return error_set(STET_EFORMAT, "%s: offset %zu: %s is '%.*s', expected %s", f->file->path, at,
                     what, (int)(field.len < 40 ? field.len : 40), field.data, expected);
}

stet_status wn_fields_word(wn_fields *f, const char *what, stet_str *out)
{
    const bool ok = wn_fields_next(f, out) && !memchr(out->data, '\0', out->len);
    return ok ? STET_OK : wrong_field(f, *out, what, "a word");
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return 99;
}

stet_status wn_fields_number(wn_fields *f, const char *what, unsigned base, uint32_t max,
                             uint32_t *out)
{
    stet_str field;
    uint64_t value = 0;
    bool ok = wn_fields_next(f, &field);
    for (size_t i = 0; ok && i < field.len; i++) {
        const unsigned digit = (unsigned)digit_value(field.data[i]);
        value = value * base + digit;
        ok = digit < base && value <= max;
    }
    if (!ok) {
        char expected[64];
        snprintf(expected, sizeof expected, "a %s number up to %u",
                 base == 16 ? "hexadecimal" : "decimal", max);
        return wrong_field(f, field, what, expected);
    }
    *out = (uint32_t)value;
    return STET_OK;
}
