/* bound/cuda/gbm_lstm.cuh - the growth bounds of an LSTM's cell, all units at once: what the ops of
 * gbm_lstm.cu and gbm_lstm_gain.cu share. */
#ifndef BOUND_CUDA_GBM_LSTM_CUH
#define BOUND_CUDA_GBM_LSTM_CUH

#include "tensor/cuda/device.cuh"

extern "C" {
#include "bound/bound_args.h"
}
#include "bound/gbm_unit.h"

/* A block has a unit of a cell. */
enum { UNIT_THREADS = 128, UNIT_WARPS = UNIT_THREADS / WARP };

/* Sums over the threads of a block, in a fixed order, for all of them. */
template <class T, int N> static __device__ void block_totals(T (&x)[N])
{
    __shared__ T part[UNIT_WARPS][N];
    __syncthreads(); /* the sums before have been read */
    for (int i = 0; i < N; i++) {
        const T sum = warp_sum(x[i]);
        if (threadIdx.x % WARP == 0)
            part[threadIdx.x / WARP][i] = sum;
    }
    __syncthreads();
    for (int i = 0; i < N; i++) {
        x[i] = 0;
        for (int w = 0; w < UNIT_WARPS; w++)
            x[i] += part[w][i];
    }
}

enum { GBM_PARTS = 3 }; /* Mv, Mh, Mc, as in ../gbm_ops.h */

/* Inputs of the ops: the weights of one direction, boxes of words (2, D) and states (4, H); for the
 * gain also omega and eta. */
enum { IN_W_IH, IN_W_HH, IN_B_IH, IN_B_HH, IN_WEIGHTS };
enum { IN_WORDS = IN_WEIGHTS, IN_STATE, IN_OMEGA, IN_ETA };

/* A cell, its boxes, and where its bounds go. Any pointer of the last three groups may be NULL. */
struct gbm_cell {
    lstm_weights w;
    const float *words, *state;
    gbm_cell_mode mode;
    lstm_gbm_loss loss;
    /* entries for steps in a row: Mb's columns of h as (2 H, H), and turned over (H, 2 H) */
    double *m, *mt, *mc, *f;
    float *mv, *ahat;
    /* the weighted sum of the entries: of each unit (H), and the plain sums (H, 3) of Mv, Mh, Mc */
    float *value;
    double *parts;
    /* its gradient: written, not added to; one row for both biases */
    float *dw_ih, *dw_hh, *db;
};

gbm_cell gbm_cell_of(const node *n);
stet_status gbm_cell_run(cuda_device *d, const node *n, const gbm_cell *c);

/* Gradients of the weights, kept by the op's forward kernel, and so many numbers after them. Without a
 * backward pass *more is scratch, and nothing is kept. */
stet_status gbm_cell_keep(tape *t, node *n, scratch *mem, gbm_cell *c, size_t more, float **rest);
/* The weights' gradients += n's (times *also where there is one) times those kept; and omega's, if it
 * wants one, from the numbers after them. */
stet_status gbm_cell_back(cuda_device *d, node *n, const float *also, node *omega);
/* The numbers after the kept gradients. */
float *gbm_cell_rest(const node *n);

#endif
