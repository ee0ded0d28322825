/* The GPU against the CPU: its memory, every op that has kernels there, the optimiser, a text CNN in
 * training. Skips where there is no GPU. */
#include "test.h"

#include "base/strmap.h"
#include "op_cases.h"
#include "tensor/optim.h"

static store *gpu(void)
{
    store *s;
    const stet_status st = store_open("cuda", &s);
    if (st == STET_ENOTSUP)
        SKIP(stet_last_error());
    CHECK_OK(st);
    return s;
}

/* ---- the store ---------------------------------------------------------------------------- */

TEST(without_a_gpu_one_line_says_so)
{
    store *s;
    if (store_open("cuda", &s) == STET_OK)
        SKIP("there is a GPU");
    CHECK(!s);
    CHECK_FAILS(store_open("cuda", &s), STET_ENOTSUP, "device 'cuda': no GPU can be used here (");
}

TEST(memory_of_the_gpu_is_cleared_copied_and_read_back)
{
    store *s = gpu();
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

TEST(a_large_block_comes_back_as_it_went)
{
    enum { N = 1 << 20 };
    store *s = gpu();
    uint32_t *host = malloc(N * sizeof *host), *at = store_alloc(s, N, sizeof *at);
    CHECK(host && at);
    for (uint32_t i = 0; i < N; i++)
        host[i] = i * 2654435761u;
    store_upload(s, at, host, N * sizeof *host);
    memset(host, 0, N * sizeof *host); /* what was uploaded is no longer needed here */
    CHECK_OK(store_download(s, host, at, N * sizeof *host));
    for (uint32_t i = 0; i < N; i++)
        CHECK(host[i] == i * 2654435761u);
    store_release(s, at);
    store_close(s);
    free(host);
}

TEST(a_letter_holds_what_was_there_when_it_was_sent)
{
    store *s = gpu();
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

/* Many of them in flight: memory that uploads pass through is used again and again. */
TEST(uploads_keep_their_order_and_their_bytes)
{
    enum { N = 300000, TIMES = 60, KEPT = 1000 };
    store *s = gpu();
    uint32_t *host = malloc(N * sizeof *host), *at = store_alloc(s, N, sizeof *at);
    uint32_t *kept = store_alloc(s, TIMES * KEPT, sizeof *kept),
             *got = malloc(TIMES * KEPT * sizeof *got);
    CHECK(host && at && kept && got);
    for (uint32_t t = 0; t < TIMES; t++) {
        const uint32_t n = N - t * 1237;
        for (uint32_t i = 0; i < n; i++)
            host[i] = i * 2654435761u + t;
        store_upload(s, at, host, n * sizeof *host);
        store_copy(s, kept + t * KEPT, at + n - KEPT, KEPT * sizeof *kept);
    }
    CHECK_OK(store_download(s, got, kept, TIMES * KEPT * sizeof *got));
    for (uint32_t t = 0; t < TIMES; t++)
        for (uint32_t i = 0; i < KEPT; i++)
            CHECK(got[t * KEPT + i] == (N - t * 1237 - KEPT + i) * 2654435761u + t);
    store_release(s, at);
    store_release(s, kept);
    store_close(s);
    free(host);
    free(got);
}

TEST(too_large_a_block_is_refused_and_the_gpu_goes_on)
{
    store *s = gpu();
    CHECK(!store_alloc(s, (size_t)1 << 50, 1));
    CHECK(strstr(stet_last_error(), "GPU 0 is out of memory: 1125899906842624 bytes wanted"));
    real *x = store_alloc(s, 1, sizeof *x), y = 1;
    CHECK(x);
    store_clear(s, x, sizeof *x);
    CHECK_OK(store_download(s, &y, x, sizeof y));
    CHECK_EQ(y, 0);
    store_arena values = {.store = s}; /* the next launch is not blamed for it */
    arena mem = {0};
    tape t;
    tape_init(&t, &mem, &values, false);
    CHECK(op_scale(&t, tape_constant(&t, shape1(1), x), 2));
    CHECK_OK(tape_status(&t));
    arena_deinit(&mem);
    store_arena_deinit(&values);
    store_release(s, x);
    store_close(s);
}

/* Writes where there is no memory: the device is lost to this process. */
TEST(a_failing_kernel_is_told_by_the_next_call_that_returns_a_status)
{
    store *s = gpu();
    optim o;
    CHECK_OK(optim_init(&o, &(optim_options)OPTIM_DEFAULTS, s, 4));
    real *bad = (real *)(uintptr_t)4096;
    const param_group all = {0, 4, 0.1, 0};
    CHECK_OK(optim_step(&o, &all, 1, bad, bad));
    double norm;
    CHECK_FAILS(optim_norm(&o, &norm), STET_EDEVICE, "illegal memory access");
    CHECK_FAILS(optim_norm(&o, &norm), STET_EDEVICE, "GPU 0: ");
    CHECK(!store_alloc(s, 1, 1));
}

/* ---- the op matrix ------------------------------------------------------------------------ */

typedef enum wiring {
    DIRECT,     /* operands are inputs, whose gradients hold something already */
    FIRST_USER, /* operands are results, and the op is the first to give them a gradient */
    LATER_USER, /* another op gave them one before */
    WIRINGS
} wiring;

/* Result and gradients of a case, one after the other. */
typedef struct results {
    real *x;
    size_t n;
} results;

static void take_results(results *r, store *s, const real *from, size_t n, arena *mem)
{
    real *x = arena_new(mem, real, r->n + n);
    CHECK(x);
    if (r->n)
        memcpy(x, r->x, r->n * sizeof *x);
    CHECK_OK(store_download(s, x + r->n, from, n * sizeof *x));
    r->x = x;
    r->n += n;
}

/* Entries count differently: the sum of y times numbers of [-1, 1). */
static node *weighted_sum(tape *t, node *y, rng *r)
{
    if (!y)
        return NULL;
    real *w = arena_new(t->mem, real, shape_count(y->shape));
    CHECK(w);
    for (size_t i = 0; i < shape_count(y->shape); i++)
        w[i] = (real)(float)rng_range(r, -1, 1);
    return op_sum(t, op_mul(t, y, tape_numbers(t, y->shape, w)));
}

static results run_case(op_id op, int variant, wiring how, store_arena *values, arena *mem)
{
    store *s = values ? values->store : &host_store;
    rng r = rng_stream(11, STREAM_TEST, (uint64_t)op * OP_VARIANTS + (uint64_t)variant);
    op_case c = {0};
    op_tests[op].setup(&c, variant, &r, mem);
    real *value[CASE_INPUTS], *at[CASE_INPUTS], *grad[CASE_INPUTS];
    node *in[CASE_INPUTS], *rival = NULL, *y = NULL;
    tape t;
    tape_init(&t, mem, values, true);
    for (int i = 0; i < c.n_in; i++) {
        const size_t n = shape_count(c.in[i]);
        value[i] = op_case_values(&op_tests[op], &c, i, value, &r, mem);
        at[i] = store_alloc(s, n, sizeof(real));
        grad[i] = store_alloc(s, n, sizeof(real));
        CHECK(at[i] && grad[i]);
        store_upload(s, at[i], value[i], n * sizeof(real));
        store_upload(s, grad[i], value[i], n * sizeof(real));
        in[i] = tape_input(&t, c.in[i], at[i], grad[i]);
        if (how != DIRECT)
            in[i] = op_scale(&t, in[i], 1);
    }
    if (how == LATER_USER) /* the tape is walked backwards: the op before its rival */
        y = op_tests[op].apply(&t, in, &c);
    for (int i = 0; how != DIRECT && i < c.n_in; i++) {
        node *part = weighted_sum(&t, in[i], &r);
        rival = rival ? op_add(&t, rival, part) : part;
    }
    if (how != LATER_USER)
        y = op_tests[op].apply(&t, in, &c);
    node *loss = weighted_sum(&t, y, &r);
    CHECK_OK(tape_status(&t));
    CHECK_OK(tape_backward(&t, rival ? op_add(&t, loss, rival) : loss));
    results out = {0};
    take_results(&out, s, y->value, shape_count(y->shape), mem);
    for (int i = 0; i < c.n_in; i++) {
        take_results(&out, s, grad[i], shape_count(c.in[i]), mem);
        store_release(s, at[i]);
        store_release(s, grad[i]);
    }
    return out;
}

TEST(ops_agree_with_the_cpu_and_give_the_same_bits_every_time)
{
    static const char *const names[WIRINGS] = {"on inputs", "as first user", "as later user"};
    store_arena values = {.store = gpu()};
    const char *only = getenv("STET_TEST_OP"); /* one op, for slow checkers */
    int tried = 0;
    for (op_id op = 0; op < OP_COUNT; op++) {
        if (!op_support(&op_table[op], DEV_CUDA) || (only && strcmp(only, op_table[op].name) != 0))
            continue;
        tried++;
        for (int variant = 0; variant < OP_VARIANTS; variant++)
            for (wiring how = DIRECT; how < WIRINGS; how++) {
                arena mem = {0};
                const store_mark start = store_arena_save(&values);
                const results cpu = run_case(op, variant, how, NULL, &mem);
                const results got = run_case(op, variant, how, &values, &mem);
                const results again = run_case(op, variant, how, &values, &mem);
                CHECK_EQ(cpu.n, got.n);
                for (size_t i = 0; i < cpu.n; i++)
                    if (!(fabs((double)got.x[i] - (double)cpu.x[i]) <=
                          op_tests[op].float_tolerance * (1 + fabs((double)cpu.x[i]))))
                        test_fail(__FILE__, __LINE__,
                                  "%s, variant %d, %s: number %zu of %zu is %.9g, on the CPU %.9g",
                                  op_table[op].name, variant, names[how], i, cpu.n,
                                  (double)got.x[i], (double)cpu.x[i]);
                if (memcmp(got.x, again.x, got.n * sizeof *got.x) != 0)
                    test_fail(__FILE__, __LINE__, "%s, variant %d, %s: other bits the second time",
                              op_table[op].name, variant, names[how]);
                store_arena_restore(&values, start);
                arena_deinit(&mem);
            }
    }
    fprintf(stderr, "  %d of %d ops have kernels on the GPU\n", tried, OP_COUNT);
    CHECK_EQ(tried, only ? 1 : OP_COUNT);
    store_arena_deinit(&values);
    store_close(values.store);
}

TEST(an_op_without_a_kernel_says_so)
{
    static const op_desc bare = {.name = "bare", .n_in = 1, .infer = op_relu_infer};
    store_arena values = {.store = gpu()};
    arena mem = {0};
    tape t;
    tape_init(&t, &mem, &values, true);
    node *x = tape_zeros(&t, shape1(1));
    CHECK(!tape_push(&t, &bare, &x, 1, NULL, 0));
    CHECK_FAILS(tape_status(&t), STET_ENOTSUP, "op bare has no forward kernel on cuda");
    arena_deinit(&mem);
    store_arena_deinit(&values);
    store_close(values.store);
}

TEST(a_nan_stays_a_nan)
{
    store_arena values = {.store = gpu()};
    arena mem = {0};
    tape t;
    tape_init(&t, &mem, &values, false);
    node *x = tape_numbers(&t, shape1(1), (const real[]){(real)NAN});
    node *one = tape_numbers(&t, shape1(1), (const real[]){1});
    node *const y[] = {op_relu(&t, x),     op_abs(&t, x),          op_min(&t, x, one),
                       op_min(&t, one, x), op_max(&t, x, one),     op_max(&t, one, x),
                       op_tanh(&t, x),     op_clamp(&t, x, -1, 1), op_sum(&t, x)};
    double got[sizeof y / sizeof *y];
    CHECK_OK(tape_read(&t, y, sizeof y / sizeof *y, got));
    for (size_t i = 0; i < sizeof y / sizeof *y; i++)
        CHECK(isnan(got[i]));
    /* in the last window of a text */
    const uint32_t start[] = {0, 3}, row[] = {0, 0, 1};
    const seq_index seq = {1, 3, 2, 3, start, row};
    node *pooled = op_conv_pool(&t, tape_numbers(&t, shape2(2, 1), (const real[]){1, (real)NAN}),
                                tape_numbers(&t, shape3(1, 1, 2), (const real[]){1, 1}),
                                tape_zeros(&t, shape1(1)), &seq);
    CHECK_OK(tape_read(&t, &pooled, 1, got));
    CHECK(isnan(got[0]));
    arena_deinit(&mem);
    store_arena_deinit(&values);
    store_close(values.store);
}

/* ---- LSTMs whose weights fit the registers, and one whose do not ------------------------------ */

static results run_lstm(size_t hidden, store_arena *values, arena *mem)
{
    enum { TEXTS = 5, ROWS_IN = 30, IN = 20 };
    store *s = values ? values->store : &host_store;
    static const uint32_t start[TEXTS + 1] = {0, 40, 70, 90, 97, 98};
    uint32_t row[98];
    rng r = rng_stream(17, STREAM_TEST, hidden);
    for (int i = 0; i < 98; i++)
        row[i] = (uint32_t)rng_below(&r, ROWS_IN);
    const seq_index seq = {TEXTS, 98, ROWS_IN, 40, start, row};
    const shape shapes[9] = {
        shape2(ROWS_IN, IN),        shape2(4 * hidden, IN), shape2(4 * hidden, hidden),
        shape1(4 * hidden),         shape1(4 * hidden),     shape2(4 * hidden, IN),
        shape2(4 * hidden, hidden), shape1(4 * hidden),     shape1(4 * hidden)};
    real *at[9], *grad[9];
    node *in[9];
    tape t;
    tape_init(&t, mem, values, true);
    for (int i = 0; i < 9; i++) {
        const size_t n = shape_count(shapes[i]);
        real *x = arena_new(mem, real, n);
        for (size_t k = 0; k < n; k++)
            x[k] = (real)(rng_range(&r, -1, 1) / sqrt((double)hidden));
        at[i] = store_alloc(s, n, sizeof(real));
        grad[i] = store_alloc(s, n, sizeof(real));
        CHECK(x && at[i] && grad[i]);
        store_upload(s, at[i], x, n * sizeof *x);
        store_clear(s, grad[i], n * sizeof *x);
        in[i] = tape_input(&t, shapes[i], at[i], grad[i]);
    }
    node *y = op_bilstm(&t, in[0], in + 1, &seq, NULL);
    CHECK_OK(tape_backward(&t, weighted_sum(&t, y, &r)));
    results out = {0};
    take_results(&out, s, y->value, shape_count(y->shape), mem);
    for (int i = 0; i < 9; i++) {
        take_results(&out, s, grad[i], shape_count(shapes[i]), mem);
        store_release(s, at[i]);
        store_release(s, grad[i]);
    }
    return out;
}

TEST(an_lstm_of_every_size_agrees_with_the_cpu)
{
    static const size_t hidden[] = {32, 64, 100, 128, 300};
    store_arena values = {.store = gpu()};
    for (int k = 0; k < 4; k++) {
        arena mem = {0};
        const results cpu = run_lstm(hidden[k], NULL, &mem),
                      got = run_lstm(hidden[k], &values, &mem);
        const results again = run_lstm(hidden[k], &values, &mem);
        for (size_t i = 0; i < cpu.n; i++)
            if (!(fabs((double)got.x[i] - (double)cpu.x[i]) <=
                  op_tests[OP_bilstm].float_tolerance * (1 + fabs((double)cpu.x[i]))))
                test_fail(__FILE__, __LINE__,
                          "hidden %zu: number %zu of %zu is %.9g, on the CPU %.9g", hidden[k], i,
                          cpu.n, (double)got.x[i], (double)cpu.x[i]);
        CHECK(memcmp(got.x, again.x, got.n * sizeof *got.x) == 0);
        arena_deinit(&mem);
    }
    store_arena_deinit(&values);
    store_close(values.store);
}

/* ---- the optimiser ------------------------------------------------------------------------ */

enum { N = 1000, ROWS = 40, DIM = 25, STEPS = 10, PARTS = 2, PART_ROWS = 30 };

/* Ten steps of a block and of a table. The first part names rows several times, the second does not. */
static void optimise(store *s, optim_kind kind, double clip, real *w, real *table, double *norm)
{
    optim_options how = OPTIM_DEFAULTS;
    how.kind = kind;
    how.clip = clip;
    optim o;
    row_optim ro;
    arena mem = {0};
    store_arena values = {.store = s};
    CHECK_OK(optim_init(&o, &how, s, N));
    CHECK_OK(row_optim_init(&ro, s, ROWS, DIM, 1e-2));
    real *param = store_alloc(s, N, sizeof *param), *grad = store_alloc(s, N, sizeof *grad);
    real *rows = store_alloc(s, ROWS * DIM, sizeof *rows);
    real *row_grad = store_alloc(s, PARTS * PART_ROWS * DIM, sizeof *row_grad);
    CHECK(param && grad && rows && row_grad);
    static real g[N], rg[PARTS * PART_ROWS * DIM];
    static uint32_t index[PARTS * PART_ROWS];
    for (int i = 0; i < N; i++)
        w[i] = (real)sin(i);
    for (int i = 0; i < ROWS * DIM; i++)
        table[i] = (real)sin(2 * i);
    store_upload(s, param, w, N * sizeof *w);
    store_upload(s, rows, table, ROWS * DIM * sizeof *table);
    const param_group groups[2] = {{0, 300, 1e-2, 1e-1}, {300, 700, 1e-3, 0}};
    for (int t = 1; t <= STEPS; t++) {
        for (int i = 0; i < N; i++)
            g[i] = (real)cos(i * t);
        for (int i = 0; i < PARTS * PART_ROWS; i++)
            index[i] = (uint32_t)(i < PART_ROWS ? i * i + t : 7 * i + t) % ROWS;
        for (int i = 0; i < PARTS * PART_ROWS * DIM; i++)
            rg[i] = (real)cos(3 * i + t);
        store_upload(s, grad, g, sizeof g);
        store_upload(s, row_grad, rg, sizeof rg);
        CHECK_OK(optim_step(&o, groups, 2, param, grad));
        const row_part parts[PARTS] = {
            {.row = index, .n = PART_ROWS, .grad = row_grad},
            {.row = index + PART_ROWS, .n = PART_ROWS, .grad = row_grad + PART_ROWS * DIM}};
        CHECK_OK(row_optim_step(&ro, &o, parts, PARTS, rows, &mem, &values));
    }
    CHECK_OK(optim_norm(&o, norm));
    CHECK_OK(store_download(s, w, param, N * sizeof *w));
    CHECK_OK(store_download(s, table, rows, ROWS * DIM * sizeof *table));
    store_release(s, param);
    store_release(s, grad);
    store_release(s, rows);
    store_release(s, row_grad);
    optim_deinit(&o);
    row_optim_deinit(&ro);
    store_arena_deinit(&values);
    arena_deinit(&mem);
}

TEST(the_optimiser_makes_the_steps_of_the_cpu)
{
    store *s = gpu();
    static real w[3][N], table[3][ROWS * DIM];
    for (int kind = 0; kind < 2; kind++)
        for (int clip = 0; clip < 2; clip++) {
            double norm[3];
            optimise(&host_store, (optim_kind)kind, clip, w[0], table[0], &norm[0]);
            optimise(s, (optim_kind)kind, clip, w[1], table[1], &norm[1]);
            optimise(s, (optim_kind)kind, clip, w[2], table[2], &norm[2]);
            CHECK_NEAR(norm[1], norm[0], 1e-12 * norm[0]);
            for (int i = 0; i < N; i++)
                CHECK_NEAR(w[1][i], w[0][i], 1e-6);
            for (int i = 0; i < ROWS * DIM; i++)
                CHECK_NEAR(table[1][i], table[0][i], 1e-6);
            CHECK(memcmp(w[1], w[2], sizeof w[1]) == 0);
            CHECK(memcmp(table[1], table[2], sizeof table[1]) == 0);
        }
    store_close(s);
}

/* ---- a text CNN in training --------------------------------------------------------------- */

enum { WORDS = 900, V = 400, D = 50, F = 40, B = 16, LEN = 70, KINDS = 3, CLASSES = 3 };
enum { N_TABLE = WORDS * D, N_OUT = CLASSES * KINDS * F + CLASSES };

static size_t conv_size(int kind)
{
    return (size_t)(F * D * (3 + kind) + F);
}

/* Ten steps on learned vectors; the losses and the parameters after them. */
static void train(store *s, double *loss_out, real *param_host, size_t n)
{
    rng r = rng_stream(5, STREAM_TEST, 0);
    static uint32_t start[B + 1], row[B * LEN], word[V];
    static int32_t label[B];
    for (int b = 0; b < B; b++) {
        start[b + 1] = start[b] + (uint32_t)(LEN - 4 * b);
        label[b] = (int32_t)rng_below(&r, CLASSES);
    }
    for (uint32_t i = 0; i < start[B]; i++)
        row[i] = (uint32_t)rng_below(&r, V);
    for (int i = 0; i < V; i++)
        word[i] = (uint32_t)rng_below(&r, WORDS); /* some twice */
    for (size_t i = 0; i < n; i++)
        param_host[i] = (real)rng_range(&r, -0.1, 0.1);
    const seq_index seq = {B, start[B], V, LEN, start, row};
    optim_options how = OPTIM_DEFAULTS;
    how.clip = 1;
    optim o;
    CHECK_OK(optim_init(&o, &how, s, n));
    real *param = store_alloc(s, n, sizeof *param), *grad = store_alloc(s, n, sizeof *grad);
    CHECK(param && grad);
    store_upload(s, param, param_host, n * sizeof *param);
    arena mem = {0};
    store_arena values = {.store = s};
    size_t grown = 0;
    rng masks = rng_stream(6, STREAM_DROPOUT, 0);
    for (int step = 0; step < STEPS; step++) {
        const arena_mark mark = arena_save(&mem);
        const store_mark vmark = store_arena_save(&values);
        tape t;
        tape_init(&t, &mem, &values, true);
        store_clear(s, grad, n * sizeof *grad);
        node *table = tape_input(&t, shape2(WORDS, D), param, grad);
        node *x = op_gather(&t, table, word, V), *pooled[KINDS];
        size_t at = N_TABLE;
        for (int k = 0; k < KINDS; k++) {
            const size_t bias = at + conv_size(k) - F;
            node *w = tape_input(&t, shape3(F, D, (size_t)(3 + k)), param + at, grad + at);
            node *b = tape_input(&t, shape1(F), param + bias, grad + bias);
            pooled[k] = op_conv_pool(&t, x, w, b, &seq);
            at += conv_size(k);
        }
        node *h = op_dropout(&t, op_concat(&t, pooled, KINDS), 0.3, &masks);
        node *w = tape_input(&t, shape2(CLASSES, KINDS * F), param + at, grad + at);
        node *b = tape_input(&t, shape1(CLASSES), param + n - CLASSES, grad + n - CLASSES);
        node *loss = op_cross_entropy(&t, op_linear(&t, h, w, b), label);
        CHECK_OK(tape_backward(&t, loss));
        CHECK_OK(optim_step(&o, &(param_group){0, n, 5e-3, 1e-4}, 1, param, grad));
        CHECK_OK(tape_read(&t, &loss, 1, loss_out + step));
        store_arena_restore(&values, vmark);
        arena_restore(&mem, mark);
        CHECK(step < 2 || values.grown == grown);
        grown = values.grown;
    }
    CHECK_OK(store_download(s, param_host, param, n * sizeof *param));
    store_release(s, param);
    store_release(s, grad);
    optim_deinit(&o);
    store_arena_deinit(&values);
    arena_deinit(&mem);
}

TEST(a_text_cnn_learns_as_on_the_cpu)
{
    store *s = gpu();
    const size_t n = N_TABLE + conv_size(0) + conv_size(1) + conv_size(2) + N_OUT;
    real *param[3];
    double loss[3][STEPS];
    for (int i = 0; i < 3; i++) {
        param[i] = malloc(n * sizeof(real));
        CHECK(param[i]);
        train(i ? s : &host_store, loss[i], param[i], n);
    }
    for (int i = 0; i < STEPS; i++)
        CHECK_NEAR(loss[1][i], loss[0][i], 1e-4);
    CHECK_LE(loss[1][STEPS - 1], 0.8 * loss[1][0]);
    CHECK(memcmp(loss[1], loss[2], sizeof loss[1]) == 0);
    CHECK(memcmp(param[1], param[2], n * sizeof(real)) == 0);
    for (int i = 0; i < 3; i++)
        free(param[i]);
    store_close(s);
}
