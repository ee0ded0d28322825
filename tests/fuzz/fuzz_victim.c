/* tests/fuzz/fuzz_victim.c - what a program under attack answers. */
#include "../../src/attack/victim_process.c"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    process_victim p = {.v.n_classes = 2, .command = "victim"};
    double prob[3 * 2];
    buf_bytes(&p.in, data, size);
    if (buf_status(&p.in) == STET_OK && read_answer(&p, 3, prob) == STET_OK)
        for (int i = 0; i < 3; i++)
            if (!(fabs(prob[2 * i] + prob[2 * i + 1] - 1) < 0.1))
                abort();
    buf_deinit(&p.in);
    return 0;
}
