/* Stores, their arenas, and the whole op matrix on a device whose memory nobody but a kernel may
 * touch (locked_store.h). */
#include "test.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/strmap.h"
#include "locked_store.h"
#include "op_cases.h"

static store *locked(void)
{
    store *s;
    CHECK_OK(store_register(&locked_desc));
    CHECK_OK(store_open("locked", &s));
    return s;
}

TEST(memory_of_a_store_is_cleared_copied_and_read_back)
{
    store *const stores[] = {&host_store, locked()};
    for (int i = 0; i < 2; i++) {
        store *s = stores[i];
        real *x = store_alloc(s, 8, sizeof *x), *y = store_alloc(s, 8, sizeof *y), host[8];
        CHECK(x && y);
        store_clear(s, x, 8 * sizeof *x);
        store_upload(s, x + 2, (const real[]){1, 2, 3}, 3 * sizeof *x);
        store_copy(s, y, x, 8 * sizeof *x);
        CHECK_OK(store_download(s, host, y, sizeof host));
        for (int k = 0; k < 8; k++)
            CHECK_EQ(host[k], k >= 2 && k < 5 ? k - 1 : 0);
        CHECK_OK(store_gather(s, host, (const void *const[]){y + 4, y + 2}, 2, sizeof *y));
        CHECK_EQ(host[0], 3);
        CHECK_EQ(host[1], 1);
        store_release(s, x);
        store_release(s, y);
        store_close(s);
    }
}

TEST(a_letter_holds_what_was_there_when_it_was_sent)
{
    store *const stores[] = {&host_store, locked()};
    for (int i = 0; i < 2; i++) {
        store *s = stores[i];
        real *x = store_alloc(s, 4, sizeof *x), got[2];
        double *y = store_alloc(s, 1, sizeof *y), one;
        store_letter letter = {0}, other = {0};
        CHECK(x && y);
        for (int k = 0; k < 3; k++) { /* a letter is used again */
            store_upload(s, x, (const real[]){1, 2, 3, (real)k}, 4 * sizeof *x);
            store_upload(s, y, &(const double){k + 0.5}, sizeof *y);
            CHECK_OK(store_send(s, &letter, (const void *const[]){x + 3, x + 1}, 2, sizeof *x));
            CHECK_OK(store_send(s, &other, (const void *const[]){y}, 1, sizeof *y));
            store_clear(s, x, 4 * sizeof *x);
            store_clear(s, y, sizeof *y);
            CHECK_OK(store_receive(s, &letter, got));
            CHECK_OK(store_receive(s, &other, &one));
            CHECK_EQ(got[0], k);
            CHECK_EQ(got[1], 2);
            CHECK_EQ(one, k + 0.5);
        }
        CHECK_FAILS(store_send(s, &letter, (const void *const[]){x}, 1, LETTER_BYTES + 1),
                    STET_EINTERNAL, "letter");
        store_letter_drop(s, &letter);
        store_letter_drop(s, &other);
        store_release(s, x);
        store_release(s, y);
        store_close(s);
    }
}

TEST(locked_memory_cannot_be_touched)
{
    store *s = locked();
    volatile real *x = store_alloc(s, 1, sizeof *x);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        x[0] = 1;
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(!WIFEXITED(status) ||
          WEXITSTATUS(status) != 0); /* a sanitizer exits, others are killed */
    store_release(s, (void *)(uintptr_t)x);
    store_close(s);
}

TEST(an_unknown_device_is_named)
{
    store *s;
    CHECK_FAILS(store_open("lokced", &s), STET_ENOTSUP, "no device 'lokced'");
    CHECK(!s);
}

TEST(precision_is_the_devices_and_has_three_names)
{
    store *s = locked();
    CHECK_OK(store_set_precision(s, "bf16"));
    CHECK_EQ(s->precision, PRECISION_BF16);
    CHECK_OK(store_set_precision(s, NULL));
    CHECK_EQ(s->precision, PRECISION_FP32);
    CHECK_FAILS(store_set_precision(s, "fp8"), STET_EUSAGE, "precision 'fp8'");
    CHECK_OK(store_set_precision(&host_store, "fp32"));
    CHECK_FAILS(store_set_precision(&host_store, "bf16"), STET_EUSAGE, "this is the CPU");
    CHECK_EQ(host_store.precision, PRECISION_FP32);
    store_close(s);
}

TEST(an_arena_of_a_store_grows_once)
{
    store_arena a = {.store = locked()};
    size_t grown = 0;
    for (int turn = 0; turn < 3; turn++) {
        const store_mark start = store_arena_save(&a);
        for (int i = 0; i < 10; i++) {
            char *p = store_arena_alloc(&a, (size_t)300000 + (size_t)i, 1);
            CHECK(p && (uintptr_t)p % 64 == 0);
            store_clear(a.store, p, 300000);
        }
        store_arena_restore(&a, start);
        CHECK(turn == 0 || a.grown == grown);
        grown = a.grown;
    }
    CHECK(!store_arena_alloc(&a, SIZE_MAX, 2));
    store_arena_deinit(&a);
    store_close(a.store);
}

/* ---- the op matrix ------------------------------------------------------------------------ */

/* Result and gradients of a case: the bytes, wherever they were computed. */
static uint64_t results(op_id op, int variant, store_arena *values)
{
    arena mem = {0};
    store *s = values ? values->store : &host_store;
    rng r = rng_stream(11, STREAM_TEST, (uint64_t)op * OP_VARIANTS + (uint64_t)variant);
    op_case c = {0};
    op_tests[op].setup(&c, variant, &r, &mem);
    real *value[CASE_INPUTS], *at[CASE_INPUTS], *grad[CASE_INPUTS];
    node *in[CASE_INPUTS];
    tape t;
    tape_init(&t, &mem, values, true);
    for (int i = 0; i < c.n_in; i++) {
        const size_t n = shape_count(c.in[i]);
        value[i] = op_case_values(&op_tests[op], &c, i, value, &r, &mem);
        at[i] = store_alloc(s, n, sizeof(real));
        grad[i] = store_alloc(s, n, sizeof(real));
        CHECK(at[i] && grad[i]);
        store_upload(s, at[i], value[i], n * sizeof(real));
        store_clear(s, grad[i], n * sizeof(real));
        in[i] = tape_input(&t, c.in[i], at[i], grad[i]);
    }
    node *y = op_tests[op].apply(&t, in, &c);
    CHECK_OK(tape_status(&t));
    CHECK_OK(tape_backward(&t, op_sum(&t, op_tanh(&t, y))));
    real *host = arena_new(&mem, real, shape_count(y->shape));
    CHECK_OK(tape_download(&t, y, host));
    uint64_t h = hash_bytes(host, shape_count(y->shape) * sizeof *host, 0);
    for (int i = 0; i < c.n_in; i++) {
        const size_t bytes = shape_count(c.in[i]) * sizeof(real);
        CHECK_OK(store_download(s, value[i], grad[i], bytes));
        h = hash_bytes(value[i], bytes, h);
        store_release(s, at[i]);
        store_release(s, grad[i]);
    }
    arena_deinit(&mem);
    return h;
}

TEST(every_op_runs_on_locked_memory_with_the_same_bits)
{
    store_arena values = {.store = locked()};
    for (op_id op = 0; op < OP_COUNT; op++)
        for (int variant = 0; variant < OP_VARIANTS; variant++) {
            const store_mark start = store_arena_save(&values);
            if (results(op, variant, &values) != results(op, variant, NULL))
                test_fail(__FILE__, __LINE__, "%s, variant %d: other bits on locked memory",
                          op_table[op].name, variant);
            store_arena_restore(&values, start);
        }
    store_arena_deinit(&values);
    store_close(values.store);
}

TEST(a_part_of_what_was_copied_is_not_copied_again)
{
    store_arena values = {.store = locked()};
    arena mem = {0};
    tape t;
    tape_init(&t, &mem, &values, false);
    static const uint32_t block[32] = {0};
    const size_t half = sizeof block / 2;
    const char *whole = tape_twin(&t, block, half);
    CHECK((const void *)whole != block);
    CHECK(tape_twin(&t, block + 3, 4 * sizeof *block) == whole + 3 * sizeof *block);
    CHECK(tape_twin(&t, block + 16, 0) == whole + half);
    CHECK(tape_twin(&t, block + 8, half) != whole + 8 * sizeof *block); /* reaches beyond */
    arena_deinit(&mem);
    store_arena_deinit(&values);
    store_close(values.store);
}

TEST(numbers_that_only_the_device_has_go_by_names)
{
    store_arena values = {.store = locked()};
    arena mem = {0};
    tape t;
    tape_init(&t, &mem, &values, false);
    enum { KNOWN = 2, ALL = 5 };
    static const uint32_t numbers[ALL] = {0, 3, 2, 0, 2};
    const uint32_t name[ALL] = {0, 3, UINT32_MAX, UINT32_MAX, UINT32_MAX}, *row = name + KNOWN;
    uint32_t *there = store_alloc(values.store, ALL, sizeof *there);
    store_upload(values.store, there, numbers, sizeof numbers);
    tape_twin_is(&t, name, sizeof name, KNOWN * sizeof *name, there);
    CHECK(tape_twin(&t, row, 3 * sizeof *row) == there + KNOWN);
    CHECK(tape_is_name(&t, row) && tape_is_name(&t, row + 2));
    CHECK(!tape_is_name(&t, name + 1) && !tape_is_name(&t, name + ALL));
    static const real rows[] = {1, 2, 3, 4, 5, 6};
    const seq_index seq = {1, 3, 3, 3, name, row};
    node *x = tape_numbers(&t, shape2(3, 2), rows), *y = op_gather(&t, x, row, 3),
         *mean = op_seq_mean(&t, y, &seq);
    real out[6], both[2];
    CHECK_OK(tape_status(&t));
    CHECK_OK(tape_download(&t, y, out));
    CHECK(out[0] == 5 && out[1] == 6 && out[2] == 1 && out[3] == 2 && out[4] == 5 && out[5] == 6);
    CHECK_OK(tape_download(&t, mean, both));
    CHECK(fabs((double)both[0] - 11.0 / 3) < 1e-6 && fabs((double)both[1] - 14.0 / 3) < 1e-6);
    CHECK(!op_gather(&t, x, name, KNOWN)); /* what the host knows is checked */
    CHECK_FAILS(tape_status(&t), STET_EUSAGE, "gather: index 1 is 3, but (3, 2) has 3 rows");
    arena_deinit(&mem);
    store_release(values.store, there);
    store_arena_deinit(&values);
    store_close(values.store);
}
