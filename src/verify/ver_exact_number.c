/* verify/ver_exact_number.c - see ver_exact_number.h. */
#include "verify/ver_exact_number.h"

#include <pthread.h>
#include <setjmp.h>
#include <string.h>

#include "base/mem.h"

/* ---- memory ------------------------------------------------------------------------------- */

/* GMP's allocator may not fail. Ours leaves the calculation instead; the blocks stand in a list. Outside
 * a calculation of ours, numbers are the host's and go to the allocator that was there before. */
typedef struct block {
    struct block **at, *next; /* *at is this one */
    max_align_t data[];
} block;

typedef struct calculation {
    jmp_buf no_memory;
    block *first;
} calculation;

static _Thread_local calculation *current; /* of this thread */
static void *(*host_take)(size_t);
static void *(*host_resize)(void *, size_t, size_t);
static void (*host_give)(void *, size_t);

static block *block_of(void *p)
{
    return (block *)((char *)p - offsetof(block, data));
}

static void *take(size_t n)
{
    if (!current)
        return host_take(n);
    block *b = mem_alloc(1, sizeof *b + n);
    if (!b)
        longjmp(current->no_memory, 1);
    b->at = &current->first;
    b->next = current->first;
    if (b->next)
        b->next->at = &b->next;
    current->first = b;
    return b->data;
}

static void give(void *p, size_t n)
{
    if (!current) {
        host_give(p, n);
        return;
    }
    block *b = block_of(p);
    *b->at = b->next;
    if (b->next)
        b->next->at = b->at;
    mem_free(b);
}

static void *resize(void *p, size_t old, size_t n)
{
    if (!current)
        return host_resize(p, old, n);
    void *q = take(n);
    memcpy(q, p, old < n ? old : n);
    give(p, old);
    return q;
}

static void stand_before_gmp(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    void *(*t)(size_t);
    void *(*r)(void *, size_t, size_t);
    void (*g)(void *, size_t);
    pthread_mutex_lock(&lock);
    mp_get_memory_functions(&t, &r, &g);
    if (t != take) {
        host_take = t;
        host_resize = r;
        host_give = g;
        mp_set_memory_functions(take, resize, give);
    }
    pthread_mutex_unlock(&lock);
}

static bool calculate(calculation *c, void (*fn)(void *), void *ctx)
{
    if (setjmp(c->no_memory) != 0)
        return false;
    current = c;
    fn(ctx);
    return true;
}

stet_status exact_run(void (*fn)(void *), void *ctx)
{
    calculation c;
    stand_before_gmp();
    c.first = NULL;
    const bool done = calculate(&c, fn, ctx);
    while (c.first)
        give(c.first->data, 0);
    current = NULL;
    return done ? STET_OK : STET_ENOMEM;
}

/* ---- numbers ------------------------------------------------------------------------------ */

mpz_t *exact_integers(size_t n)
{
    mpz_t *x = take((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i++)
        mpz_init(x[i]);
    return x;
}

mpq_t *exact_fractions(size_t n)
{
    mpq_t *x = take((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i++)
        mpq_init(x[i]);
    return x;
}

/* f = mantissa 2^(e - 149); returns e. */
static unsigned split(float f, int64_t *mantissa)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const uint32_t e = bits >> 23 & 0xff, m = (bits & 0x7fffff) | (e ? 0x800000 : 0);
    *mantissa = bits >> 31 ? -(int64_t)m : (int64_t)m;
    return e ? e - 1 : 0;
}

void exact_float(mpz_t x, float f, unsigned long shift)
{
    int64_t m;
    const unsigned e = split(f, &m);
    mpz_set_si(x, m);
    mpz_mul_2exp(x, x, e + shift - EXACT_ONE);
}

static void add_shifted(mpz_t sum, int64_t v, unsigned long by, mpz_t x)
{
    mpz_set_si(x, v);
    mpz_mul_2exp(x, x, by);
    mpz_add(sum, sum, x);
}

/* Products with the same exponent are added up as integers first. */
static void add_products(const float *a, size_t stride, const float *b, size_t n, mpz_t p, mpz_t q,
                         mpz_t x)
{
    enum { EXPONENTS = 2 * 254 };
    int64_t sum[EXPONENTS] = {0}, size[EXPONENTS] = {0};
    unsigned long low = EXPONENTS, high = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t ma, mb;
        const unsigned e = split(a[i * stride], &ma) + split(b[i], &mb);
        const int64_t product = ma * mb;
        if (product == 0)
            continue;
        sum[e] += product;
        size[e] += product < 0 ? -product : product;
        low = e < low ? e : low;
        high = e > high ? e : high;
    }
    for (unsigned long e = low; e <= high; e++) {
        if (!size[e])
            continue;
        add_shifted(p, sum[e], e, x);
        add_shifted(q, size[e], e, x);
    }
}

void exact_dot(const float *a, size_t stride, const float *b, size_t n, mpz_t p, mpz_t q, mpz_t x)
{
    enum { SOME = 1 << 14 }; /* so many products of 48 bits fit 63 */
    mpz_set_ui(p, 0);
    mpz_set_ui(q, 0);
    for (size_t i = 0; i < n; i += SOME)
        add_products(a + i * stride, stride, b + i, n - i < SOME ? n - i : SOME, p, q, x);
}

void exact_gamma(mpq_t g, unsigned long n)
{
    mpq_set_ui(g, n, (1UL << 24) - n);
    mpq_canonicalize(g);
}
