/* tensor/safetensors.c - see safetensors.h. Layout: u64 header length, JSON header, data. */
#include "tensor/safetensors.h"

#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"

enum { ALIGN = 64 };
static const uint64_t header_cap = 100u << 20; /* the format's own limit */

static const struct {
    const char *name;
    size_t size;
} dtypes[ST_DTYPE_COUNT] = {
#define ST_ROW(name, size) {#name, size},
    ST_DTYPE_MAP(ST_ROW)
#undef ST_ROW
};

size_t st_dtype_size(st_dtype type)
{
    return dtypes[type].size;
}

/* ---- 16-bit floats ------------------------------------------------------------------------ */

static float bits_to_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float bfloat_to_float(uint16_t b)
{
    return bits_to_float((uint32_t)b << 16);
}

float half_to_float(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    const uint32_t exponent = h >> 10 & 31, mantissa = h & 1023;
    if (exponent == 31)
        return bits_to_float(sign | 0x7f800000u | mantissa << 13);
    if (exponent == 0) { /* zero and subnormals: exactly mantissa * 2^-24 */
        const float v = (float)mantissa * 0x1p-24f;
        return sign ? -v : v;
    }
    return bits_to_float(sign | (exponent + 112) << 23 | mantissa << 13);
}

/* ---- reading ------------------------------------------------------------------------------ */

static uint64_t load_u64(const unsigned char *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static stet_status parse_dtype(const char *path, const char *name, const json_t *o, st_dtype *out)
{
    const char *text = json_string_value(json_object_get(o, "dtype"));
    for (int d = 0; text && d < ST_DTYPE_COUNT; d++)
        if (strcmp(text, dtypes[d].name) == 0) {
            *out = (st_dtype)d;
            return STET_OK;
        }
    return error_set(STET_EFORMAT, "%s: tensor '%s': unknown dtype '%s'", path, name,
                     text ? text : "(none)");
}

static stet_status parse_shape(const char *path, const char *name, const json_t *o, shape *out)
{
    const json_t *a = json_object_get(o, "shape");
    const size_t rank = json_array_size(a);
    if (!json_is_array(a) || rank > MAX_RANK)
        return error_set(STET_EFORMAT, "%s: tensor '%s': expected a shape of at most %d dimensions",
                         path, name, MAX_RANK);
    *out = (shape){.rank = (int)rank};
    size_t count = 1;
    for (size_t i = 0; i < rank; i++) {
        const json_t *d = json_array_get(a, i);
        const json_int_t v = json_integer_value(d);
        if (!json_is_integer(d) || v < 0 || (uint64_t)v > SIZE_MAX ||
            !size_mul(count, (size_t)v, &count))
            return error_set(STET_EFORMAT, "%s: tensor '%s': bad dimension %zu of its shape", path,
                             name, i);
        out->dim[i] = (size_t)v;
    }
    return STET_OK;
}

static stet_status parse_tensor(const st_file *f, const char *name, const json_t *o,
                                const unsigned char *data, size_t size, st_tensor *out)
{
    out->name = name;
    TRY(parse_dtype(f->path, name, o, &out->type));
    TRY(parse_shape(f->path, name, o, &out->shape));
    const json_t *off = json_object_get(o, "data_offsets");
    const json_t *b = json_array_get(off, 0), *e = json_array_get(off, 1);
    if (json_array_size(off) != 2 || !json_is_integer(b) || !json_is_integer(e))
        return error_set(STET_EFORMAT, "%s: tensor '%s': expected data_offsets [begin, end]",
                         f->path, name);
    const json_int_t begin = json_integer_value(b), end = json_integer_value(e);
    size_t bytes;
    if (begin < 0 || end < begin || (uint64_t)end > size)
        return error_set(STET_EFORMAT,
                         "%s: tensor '%s': data_offsets [%lld, %lld] leave the %zu bytes of data "
                         "(file truncated?)",
                         f->path, name, (long long)begin, (long long)end, size);
    if (!size_mul(shape_count(out->shape), dtypes[out->type].size, &bytes) ||
        (uint64_t)(end - begin) != bytes) {
        char s[64];
        return error_set(STET_EFORMAT,
                         "%s: tensor '%s': shape %s of %s does not fill its %lld bytes", f->path,
                         name, shape_text(out->shape, s, sizeof s), dtypes[out->type].name,
                         (long long)(end - begin));
    }
    out->data = data + begin;
    return STET_OK;
}

static int by_position(const void *a, const void *b)
{
    const st_tensor *x = a, *y = b;
    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return (shape_count(x->shape) > 0) - (shape_count(y->shape) > 0); /* empty ones first */
}

/* Tensors must tile the data exactly, or two of them would share bytes or some bytes would hide. */
static stet_status check_tiling(const st_file *f, const unsigned char *data, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < f->n; i++) {
        const st_tensor *t = &f->tensors[i];
        if ((const unsigned char *)t->data != data + at)
            return error_set(STET_EFORMAT, "%s: tensor '%s' overlaps another or leaves a gap",
                             f->path, t->name);
        at += shape_count(t->shape) * dtypes[t->type].size;
    }
    if (at != size)
        return error_set(STET_EFORMAT, "%s: %zu bytes after the last tensor", f->path, size - at);
    return STET_OK;
}

static stet_status parse(st_file *f)
{
    if (f->map.size < 8)
        return error_set(STET_EFORMAT, "%s: too short for a safetensors file (%zu bytes)", f->path,
                         f->map.size);
    const uint64_t n = load_u64(f->map.data);
    if (n > header_cap || n > f->map.size - 8)
        return error_set(STET_EFORMAT, "%s: header of %llu bytes does not fit a file of %zu",
                         f->path, (unsigned long long)n, f->map.size);
    json_t *header = NULL;
    TRY(json_read_text(f->path, (const char *)f->map.data + 8, (size_t)n, &header));
    f->header = header;
    if (!json_is_object(header))
        return error_set(STET_EFORMAT, "%s: header is not a JSON object", f->path);

    const unsigned char *data = f->map.data + 8 + n;
    const size_t size = f->map.size - 8 - (size_t)n;
    f->tensors = mem_zalloc(json_object_size(header) + 1, sizeof *f->tensors);
    if (!f->tensors)
        return STET_ENOMEM;
    const char *name;
    json_t *o;
    json_object_foreach(header, name, o)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        TRY(parse_tensor(f, name, o, data, size, &f->tensors[f->n]));
        f->n++;
    }
    qsort(f->tensors, f->n, sizeof *f->tensors, by_position);
    return check_tiling(f, data, size);
}

stet_status st_open(st_file *f, const char *path)
{
    *f = (st_file){0};
    f->path = mem_strdup(path);
    stet_status st = f->path ? file_map_open(&f->map, path) : STET_ENOMEM;
    if (st == STET_OK)
        st = parse(f);
    if (st != STET_OK)
        st_close(f);
    return st;
}

void st_close(st_file *f)
{
    json_decref(f->header);
    mem_free(f->tensors);
    mem_free(f->path);
    file_map_close(&f->map);
    *f = (st_file){0};
}

const st_tensor *st_find(const st_file *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->tensors[i].name, name) == 0)
            return &f->tensors[i];
    return NULL;
}

const char *st_metadata(const st_file *f, const char *key)
{
    return json_string_value(json_object_get(json_object_get(f->header, "__metadata__"), key));
}

static stet_status convert(const st_file *f, const st_tensor *t, real *out)
{
    const size_t n = shape_count(t->shape);
    const unsigned char *p = t->data;
    switch (t->type) {
#define CONVERT(type, expression)                                                                  \
    for (size_t i = 0; i < n; i++) {                                                               \
        type v;                                                                                    \
        memcpy(&v, p + i * sizeof v, sizeof v);                                                    \
        out[i] = (real)(expression);                                                               \
    }                                                                                              \
    return STET_OK
    case ST_F64:
        CONVERT(double, v);
    case ST_F32:
        CONVERT(float, v);
    case ST_F16:
        CONVERT(uint16_t, half_to_float(v));
    case ST_BF16:
        CONVERT(uint16_t, bfloat_to_float(v));
#undef CONVERT
    default:
        return error_set(STET_EFORMAT, "%s: tensor '%s' is %s, expected a floating type", f->path,
                         t->name, dtypes[t->type].name);
    }
}

static stet_status need(const st_file *f, const char *name, const st_tensor **out)
{
    *out = st_find(f, name);
    return *out ? STET_OK : error_set(STET_EFORMAT, "%s: no tensor '%s'", f->path, name);
}

stet_status st_read(const st_file *f, const char *name, shape expected, real *out)
{
    const st_tensor *t;
    TRY(need(f, name, &t));
    if (!shape_equal(t->shape, expected)) {
        char have[64], want[64];
        return error_set(STET_EFORMAT, "%s: tensor '%s' has shape %s, expected %s", f->path, name,
                         shape_text(t->shape, have, sizeof have),
                         shape_text(expected, want, sizeof want));
    }
    return convert(f, t, out);
}

stet_status st_read_bytes(const st_file *f, const char *name, st_dtype type, size_t count,
                          void *out)
{
    const st_tensor *t;
    TRY(need(f, name, &t));
    if (t->type != type || shape_count(t->shape) != count)
        return error_set(STET_EFORMAT, "%s: tensor '%s' holds %zu of %s, expected %zu of %s",
                         f->path, name, shape_count(t->shape), dtypes[t->type].name, count,
                         dtypes[type].name);
    memcpy(out, t->data, count * dtypes[type].size);
    return STET_OK;
}

/* ---- writing ------------------------------------------------------------------------------ */

/* The i-th tensor in file order: by falling element size, otherwise as given. */
static size_t file_order(const st_tensor *tensors, size_t n, size_t *order)
{
    size_t k = 0;
    for (size_t size = 8; size > 0; size /= 2)
        for (size_t i = 0; i < n; i++)
            if (dtypes[tensors[i].type].size == size)
                order[k++] = i;
    return k;
}

static void write_header(buf *b, const st_tensor *tensors, const size_t *order, size_t n,
                         const char *const *metadata)
{
    buf_char(b, '{');
    if (metadata && *metadata) {
        buf_str(b, "\"__metadata__\":{");
        for (const char *const *m = metadata; *m; m += 2) {
            buf_str(b, m == metadata ? "" : ",");
            buf_json_string(b, m[0], strlen(m[0]));
            buf_char(b, ':');
            buf_json_string(b, m[1], strlen(m[1]));
        }
        buf_str(b, n ? "}," : "}");
    }
    size_t at = 0;
    for (size_t k = 0; k < n; k++) {
        const st_tensor *t = &tensors[order[k]];
        buf_str(b, k ? "," : "");
        buf_json_string(b, t->name, strlen(t->name));
        buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", dtypes[t->type].name);
        for (int d = 0; d < t->shape.rank; d++)
            buf_printf(b, d ? ",%zu" : "%zu", t->shape.dim[d]);
        const size_t end = at + shape_count(t->shape) * dtypes[t->type].size;
        buf_printf(b, "],\"data_offsets\":[%zu,%zu]}", at, end);
        at = end;
    }
    buf_char(b, '}');
    while (buf_status(b) == STET_OK && (8 + b->n) % ALIGN)
        buf_char(b, ' ');
}

stet_status st_write(const char *path, const st_tensor *tensors, size_t n,
                     const char *const *metadata)
{
    size_t *order = mem_alloc(n + 1, sizeof *order);
    if (!order)
        return STET_ENOMEM;
    file_order(tensors, n, order);
    buf header = {0};
    write_header(&header, tensors, order, n, metadata);
    stet_status st = buf_status(&header);

    atomic_file f;
    if (st == STET_OK)
        st = atomic_open(&f, path);
    if (st == STET_OK) {
        unsigned char length[8];
        for (int i = 0; i < 8; i++)
            length[i] = (unsigned char)((uint64_t)header.n >> 8 * i);
        st = atomic_write(&f, length, sizeof length);
        if (st == STET_OK)
            st = atomic_write(&f, header.data, header.n);
        for (size_t k = 0; st == STET_OK && k < n; k++) {
            const st_tensor *t = &tensors[order[k]];
            st = atomic_write(&f, t->data, shape_count(t->shape) * dtypes[t->type].size);
        }
        if (st == STET_OK)
            st = atomic_commit(&f);
        else
            atomic_abort(&f);
    }
    buf_deinit(&header);
    mem_free(order);
    return st;
}
