/* tests/fuzz/fuzz_safetensors.c - a file of tensors: every byte that it promises can be read. */
#include "fuzz.h"

#include <stdlib.h>

#include "tensor/safetensors.h"

static volatile uint64_t sum; /* of all bytes, so that they are read */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    st_file f;
    if (st_open(&f, fuzz_file(data, size)) != STET_OK)
        return 0;
    for (size_t i = 0; i < f.n; i++) {
        const st_tensor *t = &f.tensors[i];
        const size_t n = shape_count(t->shape) * st_dtype_size(t->type);
        for (size_t b = 0; b < n; b++)
            sum += ((const unsigned char *)t->data)[b];
        real *values = malloc((shape_count(t->shape) + 1) * sizeof *values);
        if (values)
            (void)st_read(&f, t->name, t->shape, values);
        free(values);
    }
    (void)st_metadata(&f, "run");
    st_close(&f);
    return 0;
}
