/* base/buffer_size.h - sizes of buffers. A build for fuzzing makes them small: a run then costs
 * microseconds, and inputs of a few hundred bytes cross the buffers' ends. */
#ifndef BASE_BUFFER_SIZE_H
#define BASE_BUFFER_SIZE_H

#ifdef STET_FUZZ
#define BUFFER_SIZE(usual, fuzzed) (fuzzed)
#else
#define BUFFER_SIZE(usual, fuzzed) (usual)
#endif

#endif
