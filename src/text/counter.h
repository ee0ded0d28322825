/* text/counter.h - what a counter is inside; stet_vocab_build reads it. */
#ifndef TEXT_COUNTER_H
#define TEXT_COUNTER_H

#include "base/strmap.h"
#include "stet/text.h"

struct stet_counter {
    strmap words; /* in the order of first appearance */
    uint64_t *count;
    bool *always; /* added with count 0: no cut removes it */
    size_t count_cap, always_cap;
    uint64_t tokens;
};

#endif
