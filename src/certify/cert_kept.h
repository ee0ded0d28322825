/* certify/cert_kept.h - what is known of a word, kept from text to text for all threads of a run.
 *
 * Every word has at most one entry, all of one size; a new one finds room as long as there is some.
 * Threads add without a lock: an entry is written first and published then. Two threads may write
 * the same word's at once: both are right, and one is found from then on. */
#ifndef CERTIFY_CERT_KEPT_H
#define CERTIFY_CERT_KEPT_H

#include <stdatomic.h>

#include "base/error.h"

typedef struct cert_kept {
    atomic_uint *of;     /* (words) number of the entry, from 1 on; 0: none */
    unsigned char *room; /* (n, size) */
    size_t n, size;
    atomic_size_t used;
} cert_kept;

stet_status cert_kept_init(cert_kept *k, size_t words, size_t size);
void cert_kept_deinit(cert_kept *k);                           /* a zeroed one, too */
const void *cert_kept_find(const cert_kept *k, uint32_t word); /* NULL: not there */
void *cert_kept_room(cert_kept *k); /* for a new entry; NULL: none is left */
void cert_kept_publish(cert_kept *k, uint32_t word, const void *entry);

#endif
