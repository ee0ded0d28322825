/* lexicon/pos.c - Penn tags as the four parts of speech that WordNet has. */
#include "stet/lexicon.h"

#include <string.h>

stet_pos stet_pos_of_penn(const char *tag)
{
    static const char *const prefixes[STET_OTHER] = {"NN", "VB", "JJ", "RB"};
    for (int pos = 0; pos < STET_OTHER; pos++) {
        if (strncmp(tag, prefixes[pos], 2) == 0)
            return (stet_pos)pos;
    }
    return STET_OTHER;
}
