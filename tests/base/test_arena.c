/* tests/base/test_arena.c */
#include "test.h"

#include "alloc_fail.h"
#include "base/arena.h"
#include "base/mem.h"
#include "base/rng.h"

TEST(results_are_aligned_distinct_and_writable)
{
    arena a = {0};
    unsigned char *last = NULL;
    for (size_t n = 0; n < 3000; n++) {
        unsigned char *p = arena_new(&a, unsigned char, n % 97);
        CHECK(p);
        CHECK_EQ((uintptr_t)p % 64, 0);
        CHECK(p != last);
        memset(p, (int)n, n % 97);
        last = p;
    }
    arena_deinit(&a);
}

TEST(neighbours_do_not_overlap)
{
    enum { N = 400 };
    arena a = {0};
    uint32_t *p[N];
    for (uint32_t i = 0; i < N; i++) {
        p[i] = arena_new(&a, uint32_t, 1 + i * 3);
        CHECK(p[i]);
        for (uint32_t k = 0; k < 1 + i * 3; k++)
            p[i][k] = i;
    }
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t k = 0; k < 1 + i * 3; k++)
            CHECK_EQ(p[i][k], i);
    arena_deinit(&a);
}

TEST(an_empty_arena_restores_to_empty)
{
    arena a = {0};
    const arena_mark start = arena_save(&a);
    CHECK_EQ(start.used, 0);
    void *p = arena_alloc(&a, 10, 10);
    arena_restore(&a, start);
    CHECK(arena_alloc(&a, 10, 10) == p);
    arena_deinit(&a);
    arena_deinit(&a);
    CHECK(!a.first && !a.grown);
}

TEST(zeroed_memory_is_zero_after_reuse)
{
    arena a = {0};
    const arena_mark start = arena_save(&a);
    memset(arena_new(&a, char, 5000), 0x55, 5000);
    arena_restore(&a, start);
    const char *p = arena_znew(&a, char, 5000);
    for (int i = 0; i < 5000; i++)
        CHECK_EQ(p[i], 0);
    arena_deinit(&a);
}

/* Small and large requests mixed, with an inner mark: what a training step does. */
static void one_step(arena *a, uint64_t seed)
{
    rng r = rng_stream(seed, STREAM_TEST, 0);
    const arena_mark start = arena_save(a);
    for (int i = 0; i < 50; i++) {
        const size_t n = 1 + rng_below(&r, i % 7 ? 2000 : 300000);
        const arena_mark inner = arena_save(a);
        char *p = arena_new(a, char, n);
        CHECK(p);
        p[0] = p[n - 1] = 1;
        if (i % 3 == 0)
            arena_restore(a, inner);
    }
    arena_restore(a, start);
}

TEST(a_loop_allocates_nothing_after_its_first_turn)
{
    arena a = {0};
    one_step(&a, 1);
    const size_t blocks = a.grown, allocations = mem_count();
    CHECK_LE(2, blocks);
    for (int turn = 0; turn < 100; turn++)
        one_step(&a, 1);
    CHECK_EQ(a.grown, blocks);
    CHECK_EQ(mem_count(), allocations);
    arena_deinit(&a);
}

TEST(a_loop_with_changing_sizes_settles)
{
    arena a = {0};
    for (uint64_t turn = 0; turn < 200; turn++)
        one_step(&a, turn % 20);
    const size_t allocations = mem_count();
    for (uint64_t turn = 0; turn < 200; turn++)
        one_step(&a, turn % 20);
    CHECK_EQ(mem_count(), allocations);
    arena_deinit(&a);
}

TEST(a_mark_survives_the_reordering_of_free_blocks)
{
    arena a = {0};
    const arena_mark start = arena_save(&a);
    for (size_t n = 1; n < 5; n++)
        CHECK(arena_alloc(&a, n, 100000)); /* blocks of several sizes */
    arena_restore(&a, start);
    int *keep = arena_new(&a, int, 1);
    *keep = 42;
    const arena_mark mark = arena_save(&a);
    CHECK(arena_alloc(&a, 4, 100000)); /* takes a later block out of turn */
    arena_restore(&a, mark);
    CHECK(arena_alloc(&a, 1, 100000));
    CHECK_EQ(*keep, 42);
    arena_deinit(&a);
}

TEST(an_overflowing_size_is_out_of_memory)
{
    arena a = {0};
    CHECK(!arena_alloc(&a, SIZE_MAX / 2, 3));
    CHECK(strstr(stet_last_error(), "out of memory"));
    CHECK(!arena_alloc(&a, SIZE_MAX - 10, 1));
    CHECK(!arena_zalloc(&a, SIZE_MAX / 2 + 2, 2));
    CHECK(!arena_strndup(&a, "", SIZE_MAX));
    CHECK(arena_alloc(&a, 1, 1)); /* and goes on */
    arena_deinit(&a);
}

TEST(strings_are_copied_and_ended)
{
    arena a = {0};
    CHECK_STR(arena_strndup(&a, "synonym", 3), "syn");
    CHECK_STR(arena_strndup(&a, "", 0), "");
    arena_deinit(&a);
}

static stet_status use_arena(void *ctx)
{
    (void)ctx;
    arena a = {0};
    stet_status st = STET_OK;
    for (size_t i = 1; i < 6 && st == STET_OK; i++)
        if (!arena_zalloc(&a, i, 70000))
            st = STET_ENOMEM;
    arena_deinit(&a);
    return st;
}

TEST(an_arena_survives_every_failed_allocation)
{
    CHECK_LE(2, ALLOC_FAIL_LOOP(use_arena, NULL));
}

#ifdef ARENA_POISONS
#include <sanitizer/asan_interface.h>

TEST(gaps_and_freed_ranges_are_poisoned)
{
    arena a = {0};
    const arena_mark start = arena_save(&a);
    char *p = arena_new(&a, char, 64), *q = arena_new(&a, char, 10);
    CHECK(!__asan_address_is_poisoned(p + 63));
    CHECK(__asan_address_is_poisoned(p + 64));
    CHECK(__asan_address_is_poisoned(q + 10));
    arena_restore(&a, start);
    CHECK(__asan_address_is_poisoned(p));
    CHECK(__asan_address_is_poisoned(q));
    arena_deinit(&a);
}
#endif
