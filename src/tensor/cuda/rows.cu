/* tensor/cuda/rows.cu - ops that move whole rows or parts of them: gather, concat, slice, and the
 * mean over the tokens of each text. */
#include "tensor/cuda/device.cuh"

/* blocks of columns -------------------------------------------------------------------------- */

/* A block of `width` columns copied (or added) from one matrix to another of equally many rows. */
struct move_block {
    const float *from;
    float *to;
    size_t from_ld, to_ld, width;
    bool add;
    __device__ void operator()(size_t i) const
    {
        const size_t row = i / width, j = i % width;
        float *at = to + row * to_ld + j;
        *at = (add ? *at : 0) + from[row * from_ld + j];
    }
};

static stet_status run_move(const node *n, size_t rows, move_block f)
{
    return each(cuda_now(), n->op->name, rows * f.width, f);
}

/* Some blocks of equally many rows, with one launch: their entries one after the other. */
enum { BLOCKS_AT_ONCE = 8 };
struct move_blocks {
    size_t rows, n, end[BLOCKS_AT_ONCE]; /* where each block's entries end */
    move_block block[BLOCKS_AT_ONCE];
    void add(move_block b)
    {
        end[n] = (n ? end[n - 1] : 0) + rows * b.width;
        block[n++] = b;
    }
    __device__ void operator()(size_t i) const
    {
        size_t k = 0;
        while (i >= end[k])
            k++;
        block[k](i - (k ? end[k - 1] : 0));
    }
};

static stet_status run_moves(const node *n, move_blocks *f)
{
    const size_t entries = f->n ? f->end[f->n - 1] : 0;
    const stet_status st = each(cuda_now(), n->op->name, entries, *f);
    f->n = 0;
    return st;
}

extern "C" stet_status cuda_concat_fwd(tape *, node *n)
{
    const size_t total = shape_cols(n->shape);
    move_blocks f = {};
    f.rows = shape_rows(n->shape);
    size_t at = 0;
    for (int i = 0; i < n->n_in; i++) {
        const size_t c = shape_cols(n->in[i]->shape);
        f.add(move_block{n->in[i]->value, n->value + at, c, total, c, false});
        at += c;
        if (f.n == BLOCKS_AT_ONCE)
            TRY(run_moves(n, &f));
    }
    return run_moves(n, &f);
}

/* A block a launch where an operand stands twice: both parts of its gradient meet. */
static bool stands_twice(const node *n, int i)
{
    for (int k = 0; k < i; k++)
        if (n->in[k] == n->in[i])
            return true;
    return false;
}

extern "C" stet_status cuda_concat_bwd(tape *, node *n)
{
    const size_t total = shape_cols(n->shape);
    move_blocks f = {};
    f.rows = shape_rows(n->shape);
    size_t at = 0;
    for (int i = 0; i < n->n_in; i++) {
        node *x = n->in[i];
        const size_t c = shape_cols(x->shape);
        if (f.n == BLOCKS_AT_ONCE || stands_twice(n, i))
            TRY(run_moves(n, &f));
        if (x->needs_grad)
            f.add(move_block{n->grad + at, x->grad, total, c, c, !grad_is_fresh(x)});
        at += c;
    }
    return run_moves(n, &f);
}

extern "C" stet_status cuda_slice_fwd(tape *, node *n)
{
    const slice_args *args = (const slice_args *)n->args;
    const float *from = n->in[0]->value + args->first;
    return run_move(
        n, shape_rows(n->shape),
        move_block{from, n->value, shape_cols(n->in[0]->shape), args->n, args->n, false});
}

extern "C" stet_status cuda_slice_bwd(tape *, node *n)
{
    const slice_args *args = (const slice_args *)n->args;
    node *x = n->in[0];
    TRY(clear_if_fresh(cuda_now(), x));
    return run_move(
        n, shape_rows(n->shape),
        move_block{n->grad, x->grad + args->first, args->n, shape_cols(x->shape), args->n, true});
}

/* gather ------------------------------------------------------------------------------------- */

/* A warp a row. */
static __global__ void gather_kernel(const float *from, const uint32_t *at, size_t n, size_t c,
                                     float *to)
{
    for (size_t i = (size_t)blockIdx.x * COLUMN_ROWS + threadIdx.y; i < n;
         i += (size_t)gridDim.x * COLUMN_ROWS) {
        const float *row = from + (size_t)at[i] * c;
#pragma unroll 4
        for (size_t j = threadIdx.x; j < c; j += WARP)
            to[i * c + j] = row[j];
    }
}

extern "C" stet_status cuda_gather_fwd(tape *, node *n)
{
    const gather_args *args = (const gather_args *)n->args;
    if (args->n == 0)
        return STET_OK;
    gather_kernel<<<blocks_for(args->n, COLUMN_ROWS), dim3(WARP, COLUMN_ROWS), 0,
                    cuda_now()->stream>>>(n->in[0]->value, args->at, args->n,
                                          shape_cols(n->shape), n->value);
    return cuda_launched(cuda_now(), "gather");
}

/* Rows that meet are added in the order of the index, a long row of them in pieces. */
stet_status cuda_add_rows_to(cuda_device *d, const float *from, const uint32_t *at, size_t n,
                             size_t rows, size_t c, float *into)
{
    scratch mem(d);
    sorted_keys sorted;
    if (n == 0)
        return STET_OK;
    TRY(cuda_sort(&mem, at, n, rows, &sorted));
    return scatter_add(&mem, "adding rows", sorted, n, rows, c, matrix_entry{from, c}, false, into);
}

/* Every row takes one. */
struct put_back_entry {
    const float *from;
    const uint32_t *at;
    size_t c;
    float *to;
    __device__ void operator()(size_t i) const
    {
        to[(size_t)at[i / c] * c + i % c] += from[i];
    }
};

extern "C" stet_status cuda_gather_bwd(tape *, node *n)
{
    const gather_args *args = (const gather_args *)n->args;
    node *x = n->in[0];
    TRY(clear_if_fresh(cuda_now(), x));
    if (args->permutes)
        return each(cuda_now(), "permute", shape_count(n->shape),
                    put_back_entry{n->grad, args->at, shape_cols(n->shape), x->grad});
    return cuda_add_rows_to(cuda_now(), n->grad, args->at, args->n, shape_rows(x->shape),
                            shape_cols(n->shape), x->grad);
}

/* mean over each text ------------------------------------------------------------------------ */

/* A block has WARP columns of one text; its rows of threads share the tokens. */
static __global__ void mean_kernel(const float *x, const uint32_t *start, size_t c, float *y)
{
    __shared__ float sum[COLUMN_ROWS][WARP];
    const size_t b = blockIdx.x, j = (size_t)blockIdx.y * WARP + threadIdx.x;
    float s = 0;
    if (j < c)
        for (size_t i = start[b] + threadIdx.y; i < start[b + 1]; i += COLUMN_ROWS)
            s += x[i * c + j];
    sum[threadIdx.y][threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.y > 0 || j >= c)
        return;
    for (int k = 1; k < COLUMN_ROWS; k++)
        s += sum[k][threadIdx.x];
    y[b * c + j] = s * (1 / (float)(start[b + 1] - start[b]));
}

static __global__ void mean_bwd_kernel(const float *dy, const uint32_t *start, size_t c, float *dx,
                                       bool fresh)
{
    const size_t b = blockIdx.x, j = (size_t)blockIdx.y * WARP + threadIdx.x;
    if (j >= c)
        return;
    const float d = dy[b * c + j] * (1 / (float)(start[b + 1] - start[b]));
    for (size_t i = start[b] + threadIdx.y; i < start[b + 1]; i += COLUMN_ROWS)
        dx[i * c + j] = (fresh ? 0 : dx[i * c + j]) + d;
}

static dim3 text_grid(const seq_index *seq, size_t c)
{
    return dim3((unsigned)seq->n_texts, (unsigned)((c + WARP - 1) / WARP));
}

/* largest of each text: `from` (B, c) is where it stands, the first of equals; NaN stays NaN */
static __global__ void max_kernel(const float *x, const uint32_t *start, size_t c, float *y,
                                  uint32_t *from)
{
    const size_t b = blockIdx.x, j = (size_t)blockIdx.y * WARP + threadIdx.x;
    if (j >= c)
        return;
    uint32_t at = start[b];
    float most = x[at * c + j];
    for (uint32_t i = start[b] + 1; i < start[b + 1]; i++) {
        const float now = x[i * c + j];
        if (now > most || now != now) {
            most = now;
            at = i;
        }
    }
    y[b * c + j] = most;
    if (from)
        from[b * c + j] = at;
}

/* Each column of a text has one entry that gets the gradient. */
struct give_to_largest {
    const float *dy;
    const uint32_t *from;
    size_t c;
    float *dx;
    __device__ void operator()(size_t i) const
    {
        dx[from[i] * c + i % c] += dy[i];
    }
};

extern "C" stet_status cuda_seq_mean_fwd(tape *, node *n)
{
    const seq_index *seq = ((const seq_args *)n->args)->at;
    const size_t c = shape_cols(n->shape);
    if (c == 0)
        return STET_OK;
    mean_kernel<<<text_grid(seq, c), dim3(WARP, COLUMN_ROWS), 0, cuda_now()->stream>>>(
        n->in[0]->value, seq->start, c, n->value);
    return cuda_launched(cuda_now(), "seq_mean");
}

extern "C" stet_status cuda_seq_mean_bwd(tape *, node *n)
{
    const seq_index *seq = ((const seq_args *)n->args)->at;
    const size_t c = shape_cols(n->shape);
    node *x = n->in[0];
    const bool fresh = grad_is_fresh(x);
    if (c == 0)
        return STET_OK;
    mean_bwd_kernel<<<text_grid(seq, c), dim3(WARP, COLUMN_ROWS), 0, cuda_now()->stream>>>(
        n->grad, seq->start, c, x->grad, fresh);
    return cuda_launched(cuda_now(), "seq_mean");
}

extern "C" stet_status cuda_seq_max_fwd(tape *t, node *n)
{
    const seq_index *seq = ((const seq_args *)n->args)->at;
    const size_t c = shape_cols(n->shape);
    if (c == 0)
        return STET_OK;
    if (n->needs_grad) {
        n->saved = store_arena_alloc(t->values, shape_count(n->shape), sizeof(uint32_t));
        if (!n->saved)
            return STET_ENOMEM;
    }
    max_kernel<<<text_grid(seq, c), dim3(WARP, 1), 0, cuda_now()->stream>>>(
        n->in[0]->value, seq->start, c, n->value, (uint32_t *)n->saved);
    return cuda_launched(cuda_now(), "seq_max");
}

extern "C" stet_status cuda_seq_max_bwd(tape *, node *n)
{
    TRY(clear_if_fresh(cuda_now(), n->in[0]));
    const give_to_largest f = {n->grad, (const uint32_t *)n->saved, shape_cols(n->shape),
                               n->in[0]->grad};
    return each(cuda_now(), "seq_max", shape_count(n->shape), f);
}
