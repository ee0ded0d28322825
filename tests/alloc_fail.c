/* tests/alloc_fail.c - an allocator that counts, and fails when told to. */
#include "alloc_fail.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/json.h"
#include "test.h"

enum { FAIL_ONE, FAIL_REST, FAIL_MODES };

typedef struct failing {
    size_t number; /* of the allocation that fails, from 1 */
    int mode;
    atomic_size_t made;
    atomic_long live; /* blocks not yet released */
} failing;

static void *failing_resize(void *user, void *p, size_t size)
{
    failing *f = user;
    const size_t number = atomic_fetch_add(&f->made, 1) + 1;
    if (number == f->number || (number > f->number && f->mode == FAIL_REST))
        return NULL;
    void *q = realloc(p, size);
    if (q && !p)
        atomic_fetch_add(&f->live, 1);
    return q;
}

static void failing_release(void *user, void *p)
{
    failing *f = user;
    if (p)
        atomic_fetch_sub(&f->live, 1);
    free(p);
}

static failing *active;

static void *json_alloc(size_t size)
{
    return failing_resize(active, NULL, size);
}

static void json_release(void *p)
{
    failing_release(active, p);
}

size_t alloc_fail_loop(const char *file, int line, alloc_fail_fn *fn, void *ctx)
{
    static const char *const how[FAIL_MODES] = {"alone", "and all after it"};
    for (size_t number = 1;; number++) {
        for (int mode = 0; mode < FAIL_MODES; mode++) {
            failing f = {.number = number, .mode = mode};
            active = &f;
            stet_set_allocator(failing_resize, failing_release, &f);
            json_set_alloc_funcs(json_alloc, json_release);
            json_guard(); /* as if something had been parsed */
            const stet_status st = fn(ctx);
            stet_set_allocator(NULL, NULL, NULL);
            json_set_alloc_funcs(malloc, free);
            const size_t made = atomic_load(&f.made);
            if (atomic_load(&f.live) != 0)
                test_fail(file, line, "allocation %zu failed (%s): %ld blocks left behind", number,
                          how[mode], atomic_load(&f.live));
            if (made < number) {
                if (st != STET_OK)
                    test_fail(file, line, "no allocation failed, but: %s: %s", stet_status_name(st),
                              stet_last_error());
                return made;
            }
            if (st != STET_ENOMEM || !*stet_last_error())
                test_fail(file, line, "allocation %zu failed (%s): expected ENOMEM, got %s '%s'",
                          number, how[mode], stet_status_name(st), stet_last_error());
        }
    }
}
