/* tensor/safetensors.h - the safetensors file format: a JSON header and raw tensors.
 *
 *     st_file f;
 *     TRY(st_open(&f, path));
 *     stet_status st = st_read(&f, "fc.weight", shape2(2, 384), w);
 *     st_close(&f);
 *
 * The file is memory-mapped. Before anything is used the header is checked: its length, every type,
 * shape and offset, that tensors neither overlap nor leave gaps, and that they end with the file. */
#ifndef TENSOR_SAFETENSORS_H
#define TENSOR_SAFETENSORS_H

#include "base/file.h"
#include "tensor/tensor.h"

#define ST_DTYPE_MAP(X) X(F64, 8) X(F32, 4) X(F16, 2) X(BF16, 2) X(I64, 8) X(I32, 4) X(U8, 1)
typedef enum st_dtype {
#define ST_ENUM(name, size) ST_##name,
    ST_DTYPE_MAP(ST_ENUM)
#undef ST_ENUM
        ST_DTYPE_COUNT
} st_dtype;

#ifdef STET_DOUBLE
#define ST_REAL ST_F64
#else
#define ST_REAL ST_F32
#endif

typedef struct st_tensor {
    const char *name;
    st_dtype type;
    shape shape;
    const void *data; /* may be unaligned in a file that somebody else wrote */
} st_tensor;

typedef struct st_file {
    file_map map;
    char *path;
    struct json_t *header; /* owns the names */
    st_tensor *tensors;
    size_t n;
} st_file;

stet_status st_open(st_file *f, const char *path);
void st_close(st_file *f);
const st_tensor *st_find(const st_file *f, const char *name); /* NULL: not there */
/* The value of a __metadata__ key, or NULL. */
const char *st_metadata(const st_file *f, const char *key);
/* Copy a tensor of exactly this shape, converted from any floating type. */
stet_status st_read(const st_file *f, const char *name, shape expected, real *out);
stet_status st_read_bytes(const st_file *f, const char *name, st_dtype type, size_t count,
                          void *out);

/* Write all tensors, wider types first so that each is aligned; atomic. `metadata` is NULL or
 * key, value, key, value, ..., NULL. */
stet_status st_write(const char *path, const st_tensor *tensors, size_t n,
                     const char *const *metadata);

size_t st_dtype_size(st_dtype type);
float half_to_float(uint16_t h);
float bfloat_to_float(uint16_t b);

#endif
