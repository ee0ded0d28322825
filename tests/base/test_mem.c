/* tests/base/test_mem.c */
#include "test.h"

#include "alloc_fail.h"
#include "base/json.h"
#include "base/mem.h"
#include "stet/option.h"

TEST(size_products_are_checked)
{
    size_t n = 7;
    CHECK(size_mul(6, 7, &n) && n == 42);
    CHECK(size_mul(0, SIZE_MAX, &n) && n == 0);
    CHECK(size_mul(1, SIZE_MAX, &n) && n == SIZE_MAX);
    CHECK(!size_mul(SIZE_MAX / 2 + 1, 2, &n));
}

TEST(an_overflowing_size_is_out_of_memory)
{
    CHECK(!mem_alloc(SIZE_MAX / 4, 8));
    CHECK(strstr(stet_last_error(), "out of memory"));
    CHECK(!mem_zalloc(SIZE_MAX, SIZE_MAX));
    CHECK(!mem_aligned(SIZE_MAX - 8, 1));
    CHECK(!mem_strndup("x", SIZE_MAX));
    void *p = mem_alloc(1, 1);
    CHECK(!mem_resize(p, SIZE_MAX, 3));
    mem_free(p); /* still ours */
    CHECK_EQ(mem_failures(), 5);
}

TEST(nothing_is_a_valid_size)
{
    void *p = mem_alloc(0, 8), *q = mem_zalloc(8, 0), *r = mem_aligned(0, 0);
    CHECK(p && q && r);
    p = mem_resize(p, 0, 0);
    CHECK(p);
    mem_free(p);
    mem_free(q);
    mem_free_aligned(r);
    mem_free(NULL);
    mem_free_aligned(NULL);
    stet_free(NULL);
}

TEST(zeroed_memory_is_zero)
{
    unsigned char *p = mem_alloc(1000, 1);
    CHECK(p);
    memset(p, 0xaa, 1000);
    mem_free(p);
    p = mem_zalloc(10, 100);
    CHECK(p);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(p[i], 0);
    mem_free(p);
}

TEST(strings_are_copied)
{
    char *a = mem_strdup("abc"), *b = mem_strndup("abcdef", 4);
    CHECK_STR(a, "abc");
    CHECK_STR(b, "abcd");
    mem_free(a);
    mem_free(b);
}

/* An allocator whose results are as badly aligned as malloc's contract forbids. */
static void *crooked_resize(void *user, void *p, size_t size)
{
    ++*(int *)user;
    char *q = realloc(p ? (char *)p - 8 : NULL, size + 8);
    return q ? q + 8 : NULL;
}

static void crooked_release(void *user, void *p)
{
    --*(int *)user;
    free((char *)p - 8);
}

TEST(aligned_memory_is_aligned_whatever_the_allocator)
{
    int live = 0;
    for (int turn = 0; turn < 2; turn++) {
        for (size_t n = 1; n < 300; n += 7) {
            unsigned char *p = mem_aligned(n, 3);
            CHECK(p);
            CHECK_EQ((uintptr_t)p % 64, 0);
            memset(p, 1, n * 3);
            mem_free_aligned(p);
        }
        CHECK_EQ(live, 0);
        stet_set_allocator(crooked_resize, crooked_release, &live);
    }
    void *p = mem_aligned(1, 1);
    CHECK_EQ(live, 1);
    mem_free_aligned(p);
}

static int of_the_host;

static void *host_alloc(size_t size)
{
    of_the_host++;
    return malloc(size);
}

TEST(a_replaced_allocator_leaves_the_hosts_json_alone_and_can_be_restored)
{
    int live = 0;
    json_set_alloc_funcs(host_alloc, free);
    stet_set_allocator(crooked_resize, crooked_release, &live);
    json_t *o;
    CHECK_OK(json_read_text("text", "[1]", 3, &o));
    CHECK_LE(2, of_the_host); /* values come from the host's allocator */
    CHECK_EQ(live, 0);
    json_decref(o);
    stet_set_allocator(NULL, NULL, NULL);
    void *p = mem_alloc(10, 1);
    CHECK_EQ(live, 0);
    stet_free(p);
}

TEST(allocations_are_counted)
{
    const size_t before = mem_count();
    void *p = mem_alloc(1, 1);
    p = mem_resize(p, 2, 1);
    CHECK_EQ(mem_count(), before + 2);
    mem_free(p);
}

TEST(an_array_grows_geometrically)
{
    uint32_t *v = NULL;
    size_t cap = 0;
    const size_t before = mem_count();
    for (uint32_t i = 0; i < 100000; i++) {
        CHECK_OK(mem_grow(&v, &cap, i + 1, sizeof *v));
        v[i] = i;
    }
    CHECK_EQ(v[99999], 99999);
    CHECK_LE(mem_count() - before, 40);
    CHECK_FAILS(mem_grow(&v, &cap, SIZE_MAX / 2, sizeof *v), STET_ENOMEM, "out of memory");
    CHECK_EQ(v[99999], 99999); /* untouched */
    mem_free(v);
}

static stet_status two_blocks(void *ctx)
{
    (void)ctx;
    char *a = mem_strdup("a"), *b = a ? mem_aligned(3, 5) : NULL;
    mem_free(a);
    mem_free_aligned(b);
    return a && b ? STET_OK : STET_ENOMEM;
}

TEST(the_failure_loop_reaches_every_allocation)
{
    CHECK_EQ(ALLOC_FAIL_LOOP(two_blocks, NULL), 2);
}
