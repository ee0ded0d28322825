/* bound/cuda/rows_hull.cu - the box of rows of a table (../lstm_box_ops.h), and nothing else of boxes:
 * those of states are in a file of their own. */
#include "tensor/cuda/device.cuh"

enum { HULL_PIECES = 256 };

/* part (pieces, 2, D): the box of every piece of rows. A block has WARP columns of one piece. */
static __global__ void hull_kernel(const float *x, size_t rows, size_t D, size_t per_piece,
                                   float *part)
{
    __shared__ float lo[COLUMN_ROWS][WARP], hi[COLUMN_ROWS][WARP];
    const size_t j = (size_t)blockIdx.x * WARP + threadIdx.x, begin = blockIdx.y * per_piece;
    const size_t end = begin + per_piece < rows ? begin + per_piece : rows;
    float least = 0, most = 0;
    if (j < D) {
        least = most = x[begin * D + j];
        for (size_t i = begin + threadIdx.y; i < end; i += COLUMN_ROWS) {
            least = x[i * D + j] < least ? x[i * D + j] : least;
            most = x[i * D + j] > most ? x[i * D + j] : most;
        }
    }
    lo[threadIdx.y][threadIdx.x] = least;
    hi[threadIdx.y][threadIdx.x] = most;
    __syncthreads();
    if (threadIdx.y > 0 || j >= D)
        return;
    for (int k = 1; k < COLUMN_ROWS; k++) {
        least = lo[k][threadIdx.x] < least ? lo[k][threadIdx.x] : least;
        most = hi[k][threadIdx.x] > most ? hi[k][threadIdx.x] : most;
    }
    part[2 * blockIdx.y * D + j] = least;
    part[(2 * blockIdx.y + 1) * D + j] = most;
}

struct hull_end {
    const float *part;
    size_t pieces, D;
    float *out; /* (2, D) */
    __device__ void operator()(size_t i) const
    {
        const bool upper = i >= D;
        float best = part[i];
        for (size_t p = 1; p < pieces; p++) {
            const float x = part[2 * p * D + i];
            best = upper ? (x > best ? x : best) : (x < best ? x : best);
        }
        out[i] = best;
    }
};

extern "C" stet_status cuda_rows_hull_fwd(tape *, node *n)
{
    cuda_device *d = cuda_now();
    const size_t first = *(const size_t *)n->args, D = shape_cols(n->shape);
    const size_t rows = shape_rows(n->in[0]->shape) - first;
    size_t per_piece = (rows + HULL_PIECES - 1) / HULL_PIECES;
    per_piece = per_piece < COLUMN_ROWS ? COLUMN_ROWS : per_piece;
    const size_t pieces = (rows + per_piece - 1) / per_piece;
    scratch mem(d);
    float *part = mem.take<float>(2 * pieces * D);
    if (!part)
        return STET_ENOMEM;
    if (D == 0)
        return STET_OK;
    hull_kernel<<<dim3((unsigned)((D + WARP - 1) / WARP), (unsigned)pieces),
                  dim3(WARP, COLUMN_ROWS), 0, d->stream>>>(n->in[0]->value + first * D, rows, D,
                                                           per_piece, part);
    return each(d, "rows_hull", 2 * D, hull_end{part, pieces, D, n->value});
}
