/* certify/onnx.c - see onnx.h. Numbers of fields are those of onnx.proto3. */
#include "certify/onnx.h"

#include <string.h>

enum { VARINT = 0, BYTES = 2 };
enum { FLOATS = 1, INT64S = 7 };                             /* TensorProto.DataType */
enum { NODE = 1, INITIALIZER = 5, INPUT = 11, OUTPUT = 12 }; /* of GraphProto */

static void put_varint(buf *b, uint64_t x)
{
    for (; x >= 0x80; x >>= 7)
        buf_char(b, (char)(x | 0x80));
    buf_char(b, (char)x);
}

static void put_number(buf *b, unsigned field, int64_t x)
{
    put_varint(b, field << 3 | VARINT);
    put_varint(b, (uint64_t)x);
}

static void put_bytes(buf *b, unsigned field, const void *data, size_t n)
{
    put_varint(b, field << 3 | BYTES);
    put_varint(b, n);
    buf_bytes(b, data, n);
}

static void put_text(buf *b, unsigned field, const char *text)
{
    put_bytes(b, field, text, strlen(text));
}

/* A message inside another; `part` is emptied. */
static void put_message(buf *b, unsigned field, buf *part)
{
    if (buf_status(part) != STET_OK)
        b->status = buf_status(part);
    else
        put_bytes(b, field, part->data ? part->data : "", part->n);
    buf_deinit(part);
    *part = (buf){0};
}

void onnx_node(buf *graph, const char *op, const char *const *inputs, const char *output,
               const onnx_attr *attrs)
{
    buf node = {0};
    for (; *inputs; inputs++)
        put_text(&node, 1, *inputs);
    put_text(&node, 2, output);
    put_text(&node, 3, output);
    put_text(&node, 4, op);
    for (; attrs && attrs->name; attrs++) {
        buf attr = {0};
        put_text(&attr, 1, attrs->name);
        if (attrs->n == 0)
            put_number(&attr, 3, attrs->v[0]);
        for (size_t i = 0; i < attrs->n; i++)
            put_number(&attr, 8, attrs->v[i]);
        put_number(&attr, 20, attrs->n ? 7 : 2); /* INTS, INT */
        put_message(&node, 5, &attr);
    }
    put_message(graph, NODE, &node);
}

static size_t put_dims(buf *b, const int64_t *dims)
{
    size_t n = 1;
    for (; *dims; dims++) {
        put_number(b, 1, *dims);
        n *= (size_t)*dims;
    }
    return n;
}

/* Data lies in the file as in the memory of a little-endian machine. */
void onnx_floats(buf *graph, const char *name, const int64_t *dims, const float *v)
{
    buf t = {0};
    const size_t n = put_dims(&t, dims);
    put_number(&t, 2, FLOATS);
    put_text(&t, 8, name);
    put_bytes(&t, 9, v, n * sizeof *v);
    put_message(graph, INITIALIZER, &t);
}

void onnx_shape(buf *graph, const char *name, const int64_t *dims)
{
    buf t = {0};
    int64_t n = 0;
    while (dims[n])
        n++;
    put_number(&t, 1, n);
    put_number(&t, 2, INT64S);
    put_text(&t, 8, name);
    put_bytes(&t, 9, dims, (size_t)n * sizeof *dims);
    put_message(graph, INITIALIZER, &t);
}

static void put_value(buf *graph, unsigned field, const char *name, const int64_t *dims)
{
    buf value = {0}, type = {0}, tensor = {0}, shape = {0};
    for (; *dims; dims++) {
        buf dim = {0};
        put_number(&dim, 1, *dims);
        put_message(&shape, 1, &dim);
    }
    put_number(&tensor, 1, FLOATS);
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_text(&value, 1, name);
    put_message(&value, 2, &type);
    put_message(graph, field, &value);
}

void onnx_input(buf *graph, const char *name, const int64_t *dims)
{
    put_value(graph, INPUT, name, dims);
}

void onnx_output(buf *graph, const char *name, const int64_t *dims)
{
    put_value(graph, OUTPUT, name, dims);
}

void onnx_model(buf *out, const buf *graph)
{
    buf opset = {0}, whole = {0};
    put_text(&opset, 1, "");
    put_number(&opset, 2, 13);
    buf_bytes(&whole, graph->data, graph->n);
    put_text(&whole, 2, "question");
    put_number(out, 1, 8); /* version of the format */
    put_text(out, 2, "stet");
    put_message(out, 7, &whole);
    put_message(out, 8, &opset);
}
