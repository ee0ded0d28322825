/* The box-width loss is what its file says, its gradient reaches the vectors, and with box-alone no
 * other loss does. */
#include <math.h>

#include "alloc_fail.h"
#include "bound/hulls.h"
#include "defense_run.h"

/* One step whose vectors learn: the loss, and the gradient of the whole table. `detached`: what
 * training does for a defence that moves the vectors alone. */
static double step_loss(run *x, double *dtable, bool detached)
{
    const stet_corpus corpus = small_corpus(2, x->m->n_classes);
    learned_rows learned = {.n = 0};
    const model_weights w = {.store = &host_store,
                             .value = x->m->value,
                             .table = x->m->table,
                             .learn = &learned};
    model_weights read = w;
    if (detached)
        read.learn = NULL;
    arena mem = {0};
    batch b;
    tape t;
    pass p = {.t = &t};
    step_view v = view_of(x, &x->batches, &mem);
    v.w = &w;
    v.p = &p;
    v.x = &b;
    tape_init(&t, &mem, NULL, true);
    memset(x->grad, 0, x->m->n_values * sizeof *x->grad);
    CHECK_OK(batch_make(&x->batches, x->m, &corpus, all_texts, TEXTS, &mem, &b));
    CHECK_OK(pass_init(&p, x->m, &t, &read, x->grad, &b));
    node *y = defense_list_loss(&x->l, &v);
    double loss;
    CHECK_OK(tape_backward(&t, y));
    store_letter numbers = {0};
    CHECK_OK(defense_list_metrics(&x->l, &t, y, &numbers, &x->metrics));
    CHECK_OK(metrics_receive(t.store, &numbers, &loss, &x->metrics));
    const size_t D = x->m->dim;
    memset(dtable, 0, x->m->n_words * D * sizeof *dtable);
    for (size_t k = 0; k < learned.n; k++)
        for (size_t i = 0; i < learned.part[k].n * D; i++)
            dtable[learned.part[k].row[i / D] * D + i % D] += (double)learned.part[k].grad[i];
    arena_deinit(&mem);
    return loss;
}

static double distance(const model *m, uint32_t a, uint32_t b)
{
    double sum = 0;
    for (size_t j = 0; j < m->dim; j++)
        sum += fabs((double)m->table[a * m->dim + j] - (double)m->table[b * m->dim + j]);
    return sum;
}

/* near(w) by its definition. */
static double width(const model *m, const word_sets *s, uint32_t word)
{
    double sum = 0;
    for (size_t j = 0; j < m->dim; j++) {
        double most = 0;
        for (size_t i = s->start[word]; i < s->start[word + 1]; i++)
            most = fmax(most, fabs((double)m->table[word * m->dim + j] -
                                   (double)m->table[s->word[i] * m->dim + j]));
        sum += most;
    }
    return sum;
}

enum { N_WORDS = SMALL_WORDS + STET_FIRST_WORD };

/* alpha so large that no distance is cut: then far(w) lies between the least and the largest one. */
TEST(the_loss_is_the_mean_width_less_the_distance_of_others)
{
    static double d[N_WORDS * SMALL_DIM];
    run x;
    word_sets sets;
    CHECK_OK(run_start(&x, CNN, 2, "box-width",
                       (const char *const[]){"box-weight=0.5", "box-alpha=1000", NULL}, true));
    CHECK_OK(word_sets_make(x.subst, x.m->vocab, &sets));
    const stet_corpus c = small_corpus(2, 2);
    bool seen[N_WORDS] = {false};
    double near = 0, least = INFINITY, most = 0;
    size_t n = 0;
    for (size_t i = 0; i < c.n_tokens; i++)
        if (!seen[c.ids[i]] && sets.start[c.ids[i] + 1] > sets.start[c.ids[i]]) {
            seen[c.ids[i]] = true;
            near += width(x.m, &sets, c.ids[i]);
            n++;
            for (uint32_t r = 0; r < N_WORDS; r++) {
                least = fmin(least, distance(x.m, c.ids[i], r));
                most = fmax(most, distance(x.m, c.ids[i], r));
            }
        }
    CHECK(n > 5);
    const double loss = step_loss(&x, d, false), box = metric(&x, "box"), ce = metric(&x, "ce");
    CHECK_NEAR(loss, ce + 0.5 * box, 1e-4 * loss);
    CHECK_LE(near / (double)n - most + 1000, box);
    CHECK_LE(box, near / (double)n - least + 1000);
    /* cut at 0 nobody is far: the loss is the width alone */
    run_end(&x);
    CHECK_OK(run_start(&x, CNN, 2, "box-width",
                       (const char *const[]){"box-weight=0.5", "box-alpha=0", NULL}, true));
    step_loss(&x, d, false);
    CHECK_NEAR(metric(&x, "box"), near / (double)n, 1e-4 * near);
    word_sets_deinit(&sets);
    run_end(&x);
}

/* Along the gradient of the vectors the loss changes as the gradient says. */
TEST(the_gradient_reaches_the_vectors)
{
    static double d[N_WORDS * SMALL_DIM], none[N_WORDS * SMALL_DIM];
    run x;
    CHECK_OK(run_start(&x, CNN, 2, "certified,box-width",
                       (const char *const[]){"box-weight=0.3", "box-alpha=3", "ramp=0", NULL},
                       true));
    step_loss(&x, d, false);
    const double h = sizeof(real) == sizeof(double) ? 1e-7 : 1e-3,
                 tolerance = sizeof(real) == sizeof(double) ? 1e-6 : 2e-2;
    rng r = rng_stream(3, STREAM_TEST, 1);
    double slope = 0, size = 0, direction[N_WORDS * SMALL_DIM];
    for (size_t i = 0; i < N_WORDS * SMALL_DIM; i++) {
        direction[i] = rng_normal(&r) / 20;
        slope += direction[i] * d[i];
        size += fabs(direction[i] * d[i]);
    }
    double side[2];
    for (int k = 0; k < 2; k++) {
        const double step = k ? h : -h;
        for (size_t i = 0; i < N_WORDS * SMALL_DIM; i++)
            x.m->table[i] = (real)((double)x.m->table[i] + step * direction[i]);
        side[k] = step_loss(&x, none, false);
        for (size_t i = 0; i < N_WORDS * SMALL_DIM; i++)
            x.m->table[i] = (real)((double)x.m->table[i] - step * direction[i]);
    }
    CHECK(size > 0.1);
    CHECK_NEAR((side[1] - side[0]) / (2 * h), slope, tolerance * size);
    run_end(&x);
}

TEST(alone_it_is_the_only_loss_that_moves_the_vectors)
{
    static double both[N_WORDS * SMALL_DIM], alone[N_WORDS * SMALL_DIM], box[N_WORDS * SMALL_DIM];
    run x;
    CHECK_OK(run_start(&x, CNN, 2, "certified,box-width",
                       (const char *const[]){"ramp=0", "box-alone=yes", NULL}, true));
    CHECK(defense_list_alone(&x.l));
    step_loss(&x, alone, true);
    step_loss(&x, both, false);
    run_end(&x);
    CHECK_OK(run_start(&x, CNN, 2, "box-width", NULL, true));
    CHECK(!defense_list_alone(&x.l));
    step_loss(&x, box, true);
    run_end(&x);
    double same = 0, other = 0;
    for (size_t i = 0; i < N_WORDS * SMALL_DIM; i++) {
        same += fabs(alone[i] - box[i]);
        other += fabs(both[i] - box[i]);
    }
    CHECK_LE(same, 1e-6);
    CHECK(other > 1e-3);
}

TEST(without_sets_or_learning_it_says_what_is_missing)
{
    run x;
    CHECK_FAILS(run_start(&x, CNN, 2, "box-width", NULL, false), STET_EUSAGE, "--synonyms");
    CHECK_FAILS(defense_list_check_learning(&x.l, false), STET_EUSAGE, "--tune-vectors");
    CHECK_OK(defense_list_check_learning(&x.l, true));
    run_end(&x);
}
