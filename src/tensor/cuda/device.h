/* tensor/cuda/device.h - the GPU as far as `stet info` shows it, and its start. No CUDA type leaves this
 * folder. */
#ifndef TENSOR_CUDA_DEVICE_H
#define TENSOR_CUDA_DEVICE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Name and memory of the first CUDA device, or the reason why there is none. Static storage. */
const char *cuda_device_text(void);
/* Starts CUDA on the first device, which takes some tenths of a second, for all threads. A failure is told
 * to whoever opens the device. */
void cuda_device_start(void);

#ifdef __cplusplus
}
#endif
#endif
