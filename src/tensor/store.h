/* tensor/store.h - the memory of a device.
 *
 * An address of a tensor is an address in a store. Only kernels of the store's device follow it;
 * all other code asks the store to clear, copy, upload and download.
 *
 *     store *s;
 *     TRY(store_open("cpu", &s));
 *     real *x = store_alloc(s, n, sizeof *x);      NULL: out of memory, message set
 *     store_upload(s, x, host, n * sizeof *x);
 *     ...
 *     TRY(store_download(s, host, x, n * sizeof *x));   waits for the device
 *     store_release(s, x);
 *     store_close(s);
 *
 * A failure of the device (not of an allocation) is kept by the store until the next call that
 * returns a status. The host's store is always there and costs nothing: its addresses are ordinary
 * pointers. */
#ifndef TENSOR_STORE_H
#define TENSOR_STORE_H

#include "base/arena.h"
#include "tensor/tensor.h"

typedef struct store store;

/* Some numbers on their way to the host. */
enum { LETTER_BYTES = 256 };
typedef struct store_letter {
    size_t bytes;
    void *own; /* the device's; NULL: the numbers are in `data` already */
    char data[LETTER_BYTES];
} store_letter;

/* What a device's memory can do. `enter` and `leave` stand around every kernel and may be NULL. */
typedef struct store_desc {
    const char *name; /* as in --device */
    device kernels;   /* the column of the op table that runs here */
    bool host;        /* addresses are the host's: nothing needs a copy */
    stet_status (*open)(store *s);
    void (*close)(store *s);
    void *(*alloc)(store *s, size_t bytes);
    void (*release)(store *s, void *p);
    void (*clear)(store *s, void *p, size_t bytes);
    void (*upload)(store *s, void *to, const void *from, size_t bytes);
    /* n pieces of `bytes` bytes one after the other; waits for the device once. */
    stet_status (*download)(store *s, void *to, const void *const *from, size_t n, size_t bytes);
    void (*copy)(store *s, void *to, const void *from, size_t bytes);
    /* n pieces of `bytes` bytes as they are now, for `receive` to wait for; `drop` releases what a
     * letter has of the device. All three or none: without them, sending waits. */
    stet_status (*send)(store *s, store_letter *l, const void *const *from, size_t n, size_t bytes);
    stet_status (*receive)(store *s, store_letter *l);
    void (*drop)(store *s, store_letter *l);
    void (*enter)(store *s);
    void (*leave)(store *s);
} store_desc;

/* How a device multiplies matrices: in float, or with factors rounded to fewer bits, which tensor cores
 * take; sums are float's in any case. */
typedef enum store_precision { PRECISION_FP32, PRECISION_TF32, PRECISION_BF16 } store_precision;

struct store {
    const store_desc *desc;
    void *own; /* the device's */
    store_precision precision;
};

extern store host_store;
extern const store_desc cuda_store_desc; /* cuda/store.cu; only in a build with CUDA */

/* The store of the device `name`; the host's for "cpu" or NULL; for "auto" that of a GPU that can be
 * used, or the host's. A precision may follow: "cuda:bf16". STET_ENOTSUP: not in this build or not on this machine. */
stet_status store_open(const char *name, store **out);
void store_close(store *s); /* NULL is fine */
/* "fp32" or NULL, "tf32", "bf16". STET_EUSAGE: no such, or the host's store, which knows float alone. */
stet_status store_set_precision(store *s, const char *name);
/* Make a further device known by its name; `d` stays borrowed. For backends and tests. */
stet_status store_register(const store_desc *d);

void *store_alloc(store *s, size_t count, size_t size); /* 64-byte aligned, not initialised */
void store_release(store *s, void *p);                  /* NULL is fine */
void store_clear(store *s, void *p, size_t bytes);
void store_upload(store *s, void *to, const void *from, size_t bytes);
stet_status store_download(store *s, void *to, const void *from, size_t bytes);
/* The same for n pieces of `bytes` bytes each, with one wait for all. */
stet_status store_gather(store *s, void *to, const void *const *from, size_t n, size_t bytes);
/* The same without a wait, at most LETTER_BYTES in all: the device may go on before anybody reads.
 * A letter begins as {0} and may be sent again once it was received. */
stet_status store_send(store *s, store_letter *l, const void *const *from, size_t n, size_t bytes);
stet_status store_receive(store *s, store_letter *l, void *to);
void store_letter_drop(store *s, store_letter *l);
void store_copy(store *s, void *to, const void *from, size_t bytes);
void store_enter(store *s);
void store_leave(store *s);

/* Memory of a store that goes at once, as base/arena.h: blocks are kept, so that a loop that saves
 * and restores a mark allocates nothing after its first turn. The bookkeeping is the host's. */
typedef struct store_block store_block;
typedef struct store_arena {
    struct store *store;
    store_block *first, *current;
    size_t used;  /* bytes used in `current` */
    size_t grown; /* blocks ever taken from the store */
} store_arena;
typedef struct store_mark {
    store_block *block;
    size_t used;
} store_mark;

void *store_arena_alloc(store_arena *a, size_t count, size_t size);
store_mark store_arena_save(const store_arena *a);
void store_arena_restore(store_arena *a, store_mark mark);
void store_arena_deinit(store_arena *a);

#endif
