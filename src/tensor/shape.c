/* tensor/shape.c - shapes. */
#include "tensor/tensor.h"

#include <stdio.h>

shape shape1(size_t n)
{
    return (shape){1, {n}};
}

shape shape2(size_t rows, size_t cols)
{
    return (shape){2, {rows, cols}};
}

shape shape3(size_t a, size_t b, size_t c)
{
    return (shape){3, {a, b, c}};
}

size_t shape_count(shape s)
{
    return shape_rows(s) * shape_cols(s);
}

size_t shape_rows(shape s)
{
    size_t n = 1;
    for (int i = 0; i + 1 < s.rank; i++)
        n *= s.dim[i];
    return n;
}

size_t shape_cols(shape s)
{
    return s.rank ? s.dim[s.rank - 1] : 1;
}

bool shape_equal(shape a, shape b)
{
    bool same = a.rank == b.rank;
    for (int i = 0; same && i < a.rank; i++)
        same = a.dim[i] == b.dim[i];
    return same;
}

const char *shape_text(shape s, char *out, size_t size)
{
    size_t at = (size_t)snprintf(out, size, "(");
    for (int i = 0; i < s.rank && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, i ? ", %zu" : "%zu", s.dim[i]);
    if (at < size)
        snprintf(out + at, size - at, ")");
    return out;
}
