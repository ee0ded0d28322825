/* Batches of slabs on the GPU against the host's. Skips where there is no GPU. */
#include "slab_case.h"

TEST(slabs_make_the_batches_of_the_host_on_the_gpu)
{
    store *s;
    const stet_status st = store_open("cuda", &s);
    if (st == STET_ENOTSUP)
        SKIP(stet_last_error());
    CHECK_OK(st);
    for (int i = 0; i < SLAB_CASES; i++)
        slabs_make_the_same(&slab_cases[i], s, NULL);
    store_close(s);
}
