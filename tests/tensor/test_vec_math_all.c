/* The vector functions at every one of the 2^32 floats, in parallel; minutes. */
#include "test.h"

#include "base/pool.h"
#include "vec_math_ref.h"

enum { BLOCK = 1 << 12 };
static const double MAX_ULP = 2;

typedef struct worst {
    double err;
    float x;
} worst;

typedef struct sweep {
    const vec_case *c;
    worst head[512]; /* per sign and exponent */
} sweep;

static void sweep_exponent(void *ctx, size_t head, int worker)
{
    (void)worker;
    sweep *s = ctx;
    real x[BLOCK], y[BLOCK];
    for (uint32_t first = 0; first < 1u << 23; first += BLOCK) {
        for (uint32_t i = 0; i < BLOCK; i++)
            x[i] = float_of((uint32_t)head << 23 | (first + i));
        s->c->fn(x, y, BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            const double err = ulp_error((float)y[i], s->c->ref((double)x[i]));
            if (!(err <= s->head[head].err))
                s->head[head] = (worst){err, (float)x[i]};
        }
    }
}

static void check_every_float(int which)
{
    sweep s = {.c = &vec_cases[which]};
    pool_run(512, sweep_exponent, &s);
    worst w = {0, 0};
    for (int i = 0; i < 512; i++)
        if (!(s.head[i].err <= w.err))
            w = s.head[i];
    printf("  %s: at most %.3f ulp, at %.9g\n", s.c->name, w.err, (double)w.x);
    CHECK_LE(w.err, MAX_ULP);
}

TEST(exp_is_within_2_ulp_at_every_float)
{
    check_every_float(0);
}
TEST(log_is_within_2_ulp_at_every_float)
{
    check_every_float(1);
}
TEST(tanh_is_within_2_ulp_at_every_float)
{
    check_every_float(2);
}
TEST(sigmoid_is_within_2_ulp_at_every_float)
{
    check_every_float(3);
}
TEST(gelu_is_within_2_ulp_at_every_float)
{
    check_every_float(4);
}
TEST(gelu_grad_is_within_2_ulp_at_every_float)
{
    check_every_float(5);
}
