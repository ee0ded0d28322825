/* tests/tensor/test_cuda_bf16.c - products and attention of the GPU with factors rounded to bf16: near the
 * CPU's floats, the same bits every time. Skips where there is no GPU. */
#include "gpu_case.h"

/* Rounding changes a factor by one part in 256 (bf16) or 1024 (tf32, which may cut) at most, and there
 * are two factors. Float sums of up to 300 terms are off by less than 2e-5 of the terms' magnitudes. */
#define BF16 (2.0 / 256 + 1e-4)
#define TF32 (2.0 / 1024 + 1e-4)
#define SUMS 2e-5

/* A number with eight bits, which neither precision rounds. */
static real few_bits(real x)
{
    int e;
    const double m = frexp((double)x, &e);
    return (real)ldexp(round(m * 256) / 256, e);
}

/* Rounded factors are near; numbers that need no rounding give the CPU's results. */
static void check_products(const char *name, gpu_graph *build, int variants, const char *precision,
                           double rounding)
{
    gpu_check_how(name, build, variants, (gpu_how){rounding, precision, NULL, true});
    gpu_check_how(name, build, variants, (gpu_how){SUMS, precision, few_bits, true});
}

static node *product(gpu_case *c, int variant)
{
    static const size_t m[] = {1, 5, 130, 64}, n[] = {1, 7, 24, 40}, k[] = {1, 9, 33, 64};
    const bool ta = variant % 2, tb = variant / 2;
    node *a =
        gpu_input(c, ta ? shape2(k[variant], m[variant]) : shape2(m[variant], k[variant]), -1, 1);
    node *b =
        gpu_input(c, tb ? shape2(n[variant], k[variant]) : shape2(k[variant], n[variant]), -1, 1);
    return op_matmul(&c->t, a, ta, b, tb);
}

TEST(products_are_near_those_of_the_cpu)
{
    check_products("matmul", product, 4, "bf16", BF16);
    check_products("matmul", product, 4, "tf32", TF32);
}

/* Sizes that are multiples of eight have copies that serve the gradients, too; others have not. */
static node *linear(gpu_case *c, int variant)
{
    static const size_t rows[] = {3, 50, 300, 7}, in[] = {8, 64, 48, 10}, out[] = {16, 24, 96, 6};
    node *x = gpu_input(c, shape2(rows[variant], in[variant]), -1, 1);
    node *w = gpu_input(c, shape2(out[variant], in[variant]), -1, 1);
    return op_linear(&c->t, x, w, gpu_input(c, shape1(out[variant]), -1, 1));
}

TEST(linear_layers_are_near_those_of_the_cpu)
{
    check_products("linear", linear, 4, "bf16", BF16);
    check_products("linear", linear, 4, "tf32", TF32);
}

/* Many numbers of rows, of which several share an algorithm. */
enum { ROW_COUNTS = 30 };
static node *layer_of_rows(gpu_case *c, int variant)
{
    const size_t rows = (size_t)(330 - 11 * variant), in = 64, out = 24;
    node *x = gpu_input(c, shape2(rows, in), -1, 1);
    node *w = gpu_input(c, shape2(out, in), -1, 1);
    return op_linear(&c->t, x, w, gpu_input(c, shape1(out), -1, 1));
}

TEST(layers_have_any_number_of_rows)
{
    check_products("linear", layer_of_rows, ROW_COUNTS, "fp32", SUMS);
    check_products("linear", layer_of_rows, ROW_COUNTS, "bf16", BF16);
    check_products("linear", layer_of_rows, ROW_COUNTS, "tf32", TF32);
}

/* A run that is resumed has other products behind it. */
static gpu_results last_of(int first, arena *mem)
{
    store_arena values = {.store = gpu_store()};
    gpu_results r = {0};
    for (int variant = first; variant < ROW_COUNTS; variant++)
        r = gpu_run(layer_of_rows, variant, NULL, &values, mem);
    store_arena_deinit(&values);
    store_close(values.store);
    return r;
}

TEST(a_product_does_not_depend_on_those_before_it)
{
    arena mem = {0};
    const gpu_results late = last_of(0, &mem), alone = last_of(ROW_COUNTS - 1, &mem);
    CHECK_EQ(late.n, alone.n);
    CHECK(memcmp(late.x, alone.x, late.n * sizeof *late.x) == 0);
    arena_deinit(&mem);
}

/* Heads of 8, 32, 64, 128 and 96 columns, and of 6, which tensor cores are not asked for; all queries,
 * then the first of each text; texts around and beyond tiles of 16 and 64. */
static node *attention(gpu_case *c, int variant)
{
    static const uint32_t starts[][5] = {{0, 70, 90, 91, 92},     {0, 130, 194, 257, 258},
                                         {0, 64, 80, 95, 96},     {0, 65, 66, 67, 68},
                                         {0, 200, 216, 217, 218}, {0, 40, 41, 42, 43}};
    static const size_t d[] = {8, 32, 64, 128, 96, 6}, heads[] = {2, 3, 2, 1, 1, 2};
    static uint32_t row[512];
    static seq_index seq;
    const int v = variant / 2;
    const bool first = variant % 2;
    const size_t H = d[v] * heads[v];
    seq = (seq_index){.n_texts = 4,
                      .n_tokens = starts[v][4],
                      .n_rows = 1,
                      .max_len = starts[v][1],
                      .start = starts[v],
                      .row = row};
    node *q = gpu_input(c, shape2(first ? 4 : seq.n_tokens, H), -1, 1);
    node *kv = gpu_input(c, shape2(seq.n_tokens, 2 * H), -1, 1);
    return op_attention(&c->t, q, kv, heads[v], &seq, NULL, first ? 0 : 0.2, &c->r);
}

TEST(attention_is_near_that_of_the_cpu)
{
    /* products of rounded factors, and weights that add up to 1 */
    gpu_check_how("attention", attention, 12, (gpu_how){.tolerance = 0.03, .precision = "bf16"});
}
