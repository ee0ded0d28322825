/* certify/onnx.h - just enough of ONNX to write a network: messages of protobuf, appended to a buffer.
 *
 *     buf graph = {0}, model = {0};
 *     onnx_node(&graph, "Relu", (const char *const[]){"x", NULL}, "y", NULL);
 *     onnx_model(&model, &graph); */
#ifndef CERTIFY_ONNX_H
#define CERTIFY_ONNX_H

#include "base/buf.h"

enum { ONNX_DIMS = 4 };

/* An attribute of a node: one integer, or a list; name NULL ends a list of them. */
typedef struct onnx_attr {
    const char *name;
    size_t n; /* 0: an integer */
    int64_t v[ONNX_DIMS];
} onnx_attr;

void onnx_node(buf *graph, const char *op, const char *const *inputs, const char *output,
               const onnx_attr *attrs);
/* A constant; dims end with 0. */
void onnx_floats(buf *graph, const char *name, const int64_t *dims, const float *v);
void onnx_shape(buf *graph, const char *name, const int64_t *dims);
void onnx_input(buf *graph, const char *name, const int64_t *dims);
void onnx_output(buf *graph, const char *name, const int64_t *dims);
/* The file: a graph under the operators of version 13. */
void onnx_model(buf *out, const buf *graph);

#endif
