/* Every op of the list against its description (op_cases.h). Compiled twice: with real = double the
 * gradients meet finite differences, with real = float the results meet those of the double build.
 */
#include "test.h"

#include <libgen.h>
#include <unistd.h>

#include "op_cases.h"
#include "base/strmap.h"

static const char DUMP[] = "STET_TEST_OPS_DUMP"; /* where the double build leaves its results */

/* A case with its operands. The objective is sum w y: each entry of the result counts differently.
 */
typedef struct instance {
    const op_test *test;
    op_case c;
    real *value[CASE_INPUTS], *grad[CASE_INPUTS];
    real *w, *y;
    size_t n_y;
} instance;

typedef enum wiring {
    DIRECT,     /* operands are inputs of the tape */
    FIRST_USER, /* operands are results, and the op is the first to give them a gradient */
    LATER_USER, /* another op gave them one before */
    WIRINGS
} wiring;

static real *random_block(size_t n, rng *r, arena *mem)
{
    real *x = arena_new(mem, real, n);
    CHECK(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (real)(float)rng_range(r, -1, 1);
    return x;
}

static void instance_make(instance *s, op_id op, int variant, arena *mem)
{
    rng r = rng_stream(11, STREAM_TEST, (uint64_t)op * OP_VARIANTS + (uint64_t)variant);
    *s = (instance){.test = &op_tests[op]};
    s->test->setup(&s->c, variant, &r, mem);
    for (int i = 0; i < s->c.n_in; i++) {
        s->value[i] = op_case_values(s->test, &s->c, i, s->value, &r, mem);
        s->grad[i] = arena_znew(mem, real, shape_count(s->c.in[i]));
        CHECK(s->grad[i]);
    }
    tape t;
    tape_init(&t, mem, NULL, false);
    node *in[CASE_INPUTS];
    for (int i = 0; i < s->c.n_in; i++)
        in[i] = tape_constant(&t, s->c.in[i], s->value[i]);
    node *y = s->test->apply(&t, in, &s->c);
    CHECK_OK(tape_status(&t));
    s->n_y = shape_count(y->shape);
    s->y = y->value;
    s->w = random_block(s->n_y, &r, mem);
}

static node *weighted_sum(tape *t, node *y, const real *w)
{
    return op_sum(t, op_mul(t, y, tape_constant(t, y->shape, w)));
}

/* Adds the gradients of the objective to s->grad, for the operands in the bit mask `wanted`. Wired
 * through results, operand i also gets `extra` into its gradient from a second user. */
static void backward(instance *s, wiring how, unsigned wanted, const real *const *extra, arena *mem)
{
    tape t;
    tape_init(&t, mem, NULL, true);
    node *in[CASE_INPUTS], *loss = NULL;
    for (int i = 0; i < s->c.n_in; i++) {
        in[i] = tape_input(&t, s->c.in[i], s->value[i], wanted >> i & 1 ? s->grad[i] : NULL);
        if (how != DIRECT)
            in[i] = op_scale(&t, in[i], 1);
    }
    node *second = NULL;
    for (int i = 0; how != DIRECT && i < s->c.n_in; i++) {
        if (how == LATER_USER && i == 0) /* the tape is walked backwards: the op before its rival */
            loss = weighted_sum(&t, s->test->apply(&t, in, &s->c), s->w);
        node *part = weighted_sum(&t, in[i], extra[i]);
        second = second ? op_add(&t, second, part) : part;
    }
    if (!loss)
        loss = weighted_sum(&t, s->test->apply(&t, in, &s->c), s->w);
    CHECK_OK(tape_status(&t));
    CHECK_OK(tape_backward(&t, second ? op_add(&t, loss, second) : loss));
}

static void clear_grads(instance *s)
{
    for (int i = 0; i < s->c.n_in; i++)
        memset(s->grad[i], 0, shape_count(s->c.in[i]) * sizeof(real));
}

#define FOR_EACH_CASE(op, variant)                                                                 \
    for (op_id op = 0; op < OP_COUNT; op++)                                                        \
        for (int variant = 0; variant < OP_VARIANTS; variant++)

TEST(every_op_has_a_description_and_a_cpu_kernel)
{
    for (op_id op = 0; op < OP_COUNT; op++) {
        const bool cpu = op_support(&op_table[op], DEV_CPU);
        if (!op_tests[op].apply || !cpu)
            test_fail(__FILE__, __LINE__, "op %s has no %s", op_table[op].name,
                      cpu ? "row in op_cases.c" : "kernel");
    }
}

#ifdef STET_DOUBLE

/* The objective at the present values, by the forward pass alone. */
static long double objective(const instance *s, arena *mem)
{
    const arena_mark mark = arena_save(mem);
    tape t;
    tape_init(&t, mem, NULL, false);
    node *in[CASE_INPUTS];
    for (int i = 0; i < s->c.n_in; i++)
        in[i] = tape_constant(&t, s->c.in[i], s->value[i]);
    const node *y = s->test->apply(&t, in, &s->c);
    CHECK_OK(tape_status(&t));
    long double sum = 0; /* differences of it would show the rounding of a sum in double */
    for (size_t i = 0; i < s->n_y; i++)
        sum += (long double)s->w[i] * (long double)y->value[i];
    arena_restore(mem, mark);
    return sum;
}

/* Differences of fourth order: exact to rounding for what is smooth at the scale of the step. */
static double difference(instance *s, int input, size_t i, arena *mem)
{
    const double h = 1e-4, x = (double)s->value[input][i];
    long double f[4];
    for (int k = 0; k < 4; k++) {
        s->value[input][i] = (real)(x + h * (k < 2 ? k - 2 : k - 1));
        f[k] = objective(s, mem);
    }
    s->value[input][i] = (real)x;
    return (double)(8 * (f[2] - f[1]) - (f[3] - f[0])) / (12 * h);
}

TEST(gradients_are_those_of_finite_differences)
{
    FOR_EACH_CASE(op, variant)
    {
        const size_t sample = variant == OP_LARGE ? 8 : 30; /* entries of each operand */
        arena mem = {0};
        instance s;
        instance_make(&s, op, variant, &mem);
        backward(&s, DIRECT, ~0u, NULL, &mem);
        rng r = rng_stream(12, STREAM_TEST, 0);
        for (int in = 0; in < s.c.n_in; in++) {
            const size_t n = shape_count(s.c.in[in]);
            for (size_t k = 0; k < n && k < sample; k++) {
                const size_t i = n <= sample ? k : rng_below(&r, n);
                const double expected = difference(&s, in, i, &mem), got = (double)s.grad[in][i];
                if (!(fabs(got - expected) <= s.test->tolerance * (1 + fabs(expected))))
                    test_fail(
                        __FILE__, __LINE__,
                        "%s, variant %d: gradient of operand %d at %zu is %.12g, expected %.12g",
                        op_table[op].name, variant, in, i, got, expected);
            }
        }
        arena_deinit(&mem);
    }
}

TEST(results_are_written_for_the_float_build)
{
    const char *path = getenv(DUMP);
    if (!path)
        SKIP("only runs on behalf of test_ops");
    FILE *f = fopen(path, "wb");
    CHECK(f);
    FOR_EACH_CASE(op, variant)
    {
        arena mem = {0};
        instance s;
        instance_make(&s, op, variant, &mem);
        backward(&s, DIRECT, ~0u, NULL, &mem);
        CHECK_EQ(fwrite(s.y, sizeof *s.y, s.n_y, f), s.n_y);
        for (int i = 0; i < s.c.n_in; i++) {
            const size_t n = shape_count(s.c.in[i]);
            CHECK_EQ(fwrite(s.grad[i], sizeof(real), n, f), n);
        }
        arena_deinit(&mem);
    }
    CHECK_EQ(fclose(f), 0);
}

#else

static void expect_doubles(FILE *f, const real *x, size_t n, double tolerance, const char *op,
                           int variant, const char *what)
{
    for (size_t i = 0; i < n; i++) {
        double expected;
        CHECK_EQ(fread(&expected, sizeof expected, 1, f), 1);
        if (!(fabs((double)x[i] - expected) <= tolerance * (1 + fabs(expected))))
            test_fail(__FILE__, __LINE__, "%s, variant %d: %s at %zu is %.9g, in double %.9g", op,
                      variant, what, i, (double)x[i], expected);
    }
}

TEST(float_results_and_gradients_agree_with_double)
{
    char self[4096], path[128], command[8192];
    const ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK_LE(1, len);
    self[len] = '\0';
    snprintf(path, sizeof path, "%s/results", test_dir());
    snprintf(command, sizeof command,
             "%s='%s' '%s/test_ops_f64' results_are_written_for_the_float_build >/dev/null", DUMP,
             path, dirname(self));
    CHECK_EQ(system(command), 0);
    FILE *f = fopen(path, "rb");
    CHECK(f);
    FOR_EACH_CASE(op, variant)
    {
        arena mem = {0};
        instance s;
        instance_make(&s, op, variant, &mem);
        backward(&s, DIRECT, ~0u, NULL, &mem);
        const double tolerance = s.test->float_tolerance;
        expect_doubles(f, s.y, s.n_y, tolerance, op_table[op].name, variant, "the result");
        for (int i = 0; i < s.c.n_in; i++) {
            char what[64];
            snprintf(what, sizeof what, "the gradient of operand %d", i);
            expect_doubles(f, s.grad[i], shape_count(s.c.in[i]), tolerance, op_table[op].name,
                           variant, what);
        }
        arena_deinit(&mem);
    }
    CHECK_EQ(fgetc(f), EOF);
    fclose(f);
}

#endif

static void expect_grads(const instance *s, const real *const *expected, const real *const *extra,
                         unsigned wanted, const char *op, const char *what)
{
    for (int in = 0; in < s->c.n_in; in++)
        for (size_t i = 0; i < shape_count(s->c.in[in]); i++) {
            const double got = (double)s->grad[in][i];
            const double want =
                wanted >> in & 1 ? (double)expected[in][i] + (extra ? (double)extra[in][i] : 0) : 0;
            if (!(fabs(got - want) <= s->test->float_tolerance * (1 + fabs(want))))
                test_fail(__FILE__, __LINE__,
                          "%s %s: gradient of operand %d at %zu is %g, expected %g", op, what, in,
                          i, got, want);
        }
}

/* Gradients add up wherever the operands come from, and each can be asked for alone. */
TEST(gradients_do_not_depend_on_the_wiring_or_on_who_else_wants_one)
{
    static const char *const names[WIRINGS] = {"on inputs", "as first user", "as later user"};
    FOR_EACH_CASE(op, variant)
    {
        if (variant == OP_LARGE)
            continue;
        arena mem = {0};
        instance s;
        instance_make(&s, op, variant, &mem);
        real *extra[CASE_INPUTS], *expected[CASE_INPUTS];
        rng r = rng_stream(13, STREAM_TEST, 0);
        backward(&s, DIRECT, ~0u, NULL, &mem);
        for (int i = 0; i < s.c.n_in; i++) {
            const size_t n = shape_count(s.c.in[i]);
            extra[i] = random_block(n, &r, &mem);
            expected[i] = arena_new(&mem, real, n);
            memcpy(expected[i], s.grad[i], n * sizeof(real));
            memcpy(s.grad[i], extra[i], n * sizeof(real)); /* what was there before is kept */
        }
        const real *const *want = (const real *const *)expected;
        const real *const *more = (const real *const *)extra;
        backward(&s, DIRECT, ~0u, NULL, &mem);
        expect_grads(&s, want, more, ~0u, op_table[op].name, "added to a gradient");
        for (wiring how = DIRECT; how < WIRINGS; how++)
            for (int only = -1; only < s.c.n_in; only++) {
                const unsigned wanted = only < 0 ? ~0u : 1u << only;
                clear_grads(&s);
                backward(&s, how, wanted, more, &mem);
                expect_grads(&s, want, how == DIRECT ? NULL : more, wanted, op_table[op].name,
                             names[how]);
            }
        arena_deinit(&mem);
    }
}

static uint64_t hash_results(op_id op, int variant, int threads)
{
    stet_set_threads(threads);
    arena mem = {0};
    instance s;
    instance_make(&s, op, variant, &mem);
    backward(&s, DIRECT, ~0u, NULL, &mem);
    uint64_t h = hash_bytes(s.y, s.n_y * sizeof(real), 0);
    for (int i = 0; i < s.c.n_in; i++)
        h = hash_bytes(s.grad[i], shape_count(s.c.in[i]) * sizeof(real), h);
    arena_deinit(&mem);
    return h;
}

TEST(results_have_the_same_bits_for_any_number_of_threads)
{
    FOR_EACH_CASE(op, variant)
    {
        const uint64_t expected = hash_results(op, variant, 1);
        for (int threads = 2; threads <= 3; threads++)
            if (hash_results(op, variant, threads) != expected)
                test_fail(__FILE__, __LINE__, "%s, variant %d: %d threads give other bits than 1",
                          op_table[op].name, variant, threads);
    }
}
