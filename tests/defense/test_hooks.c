/* The contract of a defence: every hook does what defense_impl.h says, alone and in a list, in single
 * steps and in whole runs. */
#include "alloc_fail.h"
#include "base/file.h"
#include "base/log.h"
#include "defense_run.h"
#include "stet/attack.h"
#include "stet/certify.h"
#include "stet/train.h"
#include "tensor/safetensors.h"
#include "toy_defenses.h"
#include "verify/ver_impl.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void same_gradients(const run *a, const run *b, double tolerance)
{
    CHECK_EQ(a->m->n_values, b->m->n_values);
    for (size_t i = 0; i < a->m->n_values; i++)
        CHECK_NEAR((double)a->grad[i], (double)b->grad[i], tolerance);
}

/* ---- single steps ------------------------------------------------------------------------- */

TEST(absent_hooks_leave_the_step_as_it_is)
{
    run x;
    CHECK_OK(run_start(&x, CNN, 2, "standard,gbm", NULL, false));
    const stet_corpus corpus = small_corpus(2, 2), *c = &corpus;
    const uint32_t *pick = all_texts;
    size_t n = TEXTS;
    arena mem = {0};
    step_view v = view_of(&x, &x.batches, &mem);
    CHECK_OK(defense_list_batch(&x.l, &v, &c, &pick, &n));
    CHECK(c == &corpus && pick == all_texts && n == TEXTS && v.n_own == TEXTS);
    CHECK(x.m->rule == NULL && x.m->n_added == 0);
    CHECK_EQ(arena_save(&mem).used, 0);
    run_end(&x);
}

TEST(added_texts_are_part_of_the_batch)
{
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        run plain, copies, fewer;
        CHECK_OK(run_start(&plain, kind, 2, "standard", NULL, false));
        CHECK_OK(run_start(&copies, kind, 2, "drop", SETTINGS("drop=0"), false));
        CHECK_OK(run_start(&fewer, kind, 2, "drop", SETTINGS("drop=0.5"), false));
        /* each text twice: the same mean */
        const double loss = run_step(&plain, 0);
        CHECK_NEAR(run_step(&copies, 0), loss, 1e-5);
        same_gradients(&plain, &copies, 1e-5);
        const double one = run_step(&fewer, 0), two = run_step(&fewer, 0);
        CHECK(fabs(one - loss) > 1e-4 && fabs(two - one) > 1e-6); /* drawn anew at each step */
        run_end(&plain);
        run_end(&copies);
        run_end(&fewer);
    }
}

/* A defence after the others, to look at what they leave. */
static struct {
    size_t n_texts, n_own, added, unknown;
} seen;
static node *spy_loss(void *state, const step_view *v, node *base)
{
    (void)state;
    seen.n_texts = v->x->seq.n_texts;
    seen.n_own = v->n_own;
    seen.added = seen.unknown = 0;
    for (size_t b = 0; b < v->x->seq.n_texts; b++)
        seen.added += v->x->order[b] >= v->n_own;
    for (size_t i = 0; i < v->x->seq.n_tokens; i++)
        seen.unknown += v->x->word[v->x->seq.row[i]] == STET_UNK;
    CHECK_EQ(v->logits->shape.dim[0], seen.n_texts);
    return base;
}
static const defense_desc toy_spy = {
    .name = "spy", .summary = "looks", .opts = no_opts, .loss = spy_loss};

TEST(batch_hooks_are_asked_in_the_order_of_the_list)
{
    defense_register(&toy_spy);
    run x;
    CHECK_OK(run_start(&x, CNN, 2, "drop,blank,spy", SETTINGS("drop=0"), false));
    run_step(&x, 0);
    CHECK(seen.n_texts == 2 * TEXTS && seen.n_own == TEXTS && seen.added == TEXTS);
    const size_t half = seen.unknown; /* copies were made of the words */
    run_end(&x);
    CHECK_OK(run_start(&x, CNN, 2, "blank,drop,spy", SETTINGS("drop=0"), false));
    run_step(&x, 0);
    CHECK_EQ(seen.unknown, 2 * TEXTS * LEN); /* copies were made of what was blank */
    CHECK(half < seen.unknown && half >= TEXTS * LEN);
    run_end(&x);
}

/* Against differences, and against the gradient of the batch that shares its rows. */
TEST(a_probe_gives_the_gradient_of_every_position)
{
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        run x;
        CHECK_OK(run_start(&x, kind, 3, "standard", NULL, false));
        const stet_corpus c = small_corpus(2, 3);
        arena mem = {0};
        batch shared, own;
        CHECK_OK(batch_make(&x.batches, x.m, &c, all_texts, TEXTS, &mem, &shared));
        CHECK_OK(batch_spread(&shared, &mem, &own));
        CHECK_EQ(own.seq.n_rows, TEXTS * LEN);
        tape t;
        pass at = {.t = &t};
        tape_init(&t, &mem, NULL, false);
        step_view v = view_of(&x, &x.batches, &mem);
        v.p = &at;
        probe of_words = {.x = &shared}, of_places = {.x = &own};
        CHECK_OK(probe_run(&v, &of_words));
        CHECK_OK(probe_run(&v, &of_places));
        CHECK_NEAR(of_words.value->value[0], of_places.value->value[0], 1e-5);
        const size_t D = x.m->dim;
        real *sum = arena_znew(&mem, real, shared.seq.n_rows * D);
        for (size_t i = 0; i < own.seq.n_rows; i++)
            for (size_t k = 0; k < D; k++)
                sum[shared.seq.row[i] * D + k] += of_places.drows->value[i * D + k];
        for (size_t i = 0; i < shared.seq.n_rows * D; i++)
            CHECK_NEAR((double)sum[i], (double)of_words.drows->value[i], 1e-5);
        rng r = rng_stream(1, STREAM_TEST, 0);
        for (int k = 0; k < 20; k++) {
            const size_t i = rng_below(&r, own.seq.n_rows * D);
            const double h = 1e-2;
            double y[2];
            real *rows = of_places.at->value; /* on the host, and nobody else's */
            const real before = rows[i];
            for (int side = 0; side < 2; side++) {
                rows[i] = before + (real)(side ? h : -h);
                probe p = {.x = &own, .rows = of_places.at};
                CHECK_OK(probe_run(&v, &p));
                y[side] = (double)p.value->value[0];
            }
            rows[i] = before;
            CHECK_NEAR((y[1] - y[0]) / (2 * h), (double)of_places.drows->value[i], 2e-3);
        }
        for (size_t i = 0; i < x.m->n_values; i++)
            CHECK(x.grad[i] == 0); /* no weight, no gradient of the parameters */
        arena_deinit(&mem);
        run_end(&x);
    }
}

static node *twice(void *ctx, tape *t, node *logits)
{
    return op_scale(t, op_cross_entropy(t, logits, ctx), 2);
}

TEST(a_probe_with_a_weight_is_part_of_the_steps_gradient)
{
    run x, y;
    CHECK_OK(run_start(&x, CNN, 2, "standard", NULL, false));
    CHECK_OK(run_start(&y, CNN, 2, "standard", NULL, false));
    const double loss = run_step(&y, 0);
    const stet_corpus c = small_corpus(2, 2);
    arena mem = {0};
    batch b;
    CHECK_OK(batch_make(&x.batches, x.m, &c, all_texts, TEXTS, &mem, &b));
    tape t;
    pass at_step = {.t = &t};
    tape_init(&t, &mem, NULL, false);
    step_view v = view_of(&x, &x.batches, &mem);
    v.p = &at_step;
    probe p = {.x = &b, .weight = 0.75}, q = {.x = &b, .weight = 0.125, .loss = twice};
    q.ctx = (void *)(uintptr_t)b.label;
    CHECK_OK(probe_run(&v, &p));
    CHECK_OK(probe_run(&v, &q)); /* 0.75 + 0.125 * 2 */
    CHECK_NEAR(p.value->value[0], loss, 1e-6);
    CHECK_NEAR(q.value->value[0], 2 * loss, 1e-6);
    same_gradients(&x, &y, 1e-6);
    for (size_t i = 0; i < b.seq.n_rows * x.m->dim; i++)
        CHECK_NEAR(2 * (double)p.drows->value[i], (double)q.drows->value[i], 1e-6);
    arena_deinit(&mem);
    run_end(&x);
    run_end(&y);
}

TEST(a_forward_pass_can_be_replaced)
{
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        run plain, none, some, more, free;
        CHECK_OK(run_start(&plain, kind, 2, "standard", NULL, false));
        CHECK_OK(run_start(&none, kind, 2, "push", SETTINGS("push=0"), false));
        CHECK_OK(run_start(&some, kind, 2, "push", SETTINGS("push=0.2"), false));
        CHECK_OK(run_start(&more, kind, 2, "push", SETTINGS("push=0.2", "push-steps=4"), false));
        const double loss = run_step(&plain, 0), pushed = run_step(&some, 0);
        CHECK_NEAR(run_step(&none, 0), loss, 1e-5);
        same_gradients(&plain, &none, 1e-5);
        CHECK(pushed > loss && run_step(&more, 0) > pushed);
        CHECK_NEAR(metric(&some, "before"), loss, 1e-5);
        CHECK_NEAR(metric(&some, "ce"), pushed, 1e-5);
        /* a mean over the points on the way, gradients included; without a step, of equal points */
        CHECK_OK(run_start(&free, kind, 2, "push",
                           SETTINGS("push=0", "push-steps=3", "push-free=yes"), false));
        CHECK_NEAR(run_step(&free, 0), loss / 4, 1e-5);
        same_gradients(&plain, &free, 1e-5);
        run_end(&plain), run_end(&none), run_end(&some), run_end(&more), run_end(&free);
    }
}

TEST(hooks_of_several_defences_compose)
{
    run x, y;
    CHECK_OK(
        run_start(&x, CNN, 2, "drop,push,gbm", SETTINGS("drop=0", "push=0", "beta=0.5"), false));
    CHECK_OK(run_start(&y, CNN, 2, "gbm", SETTINGS("beta=0.5"), false));
    CHECK_NEAR(run_step(&x, 0), run_step(&y, 0), 1e-4);
    same_gradients(&x, &y, 1e-4);
    run_end(&x);
    run_end(&y);
    CHECK_OK(run_start(&x, CNN, 2, "drop,certified", SETTINGS("drop=0.3", "ramp=0"), true));
    for (int i = 0; i < 5; i++)
        CHECK(isfinite(run_step(&x, 0.01)) && metric(&x, "worst") > 0);
    run_end(&x);
}

TEST(what_cannot_be_combined_is_named)
{
    defense_list l;
    CHECK_FAILS(
        defense_list_init(&l, "push,gbm,certified", NULL), STET_EUSAGE,
        "defences 'push' and 'certified' cannot be combined: both replace the forward pass");
    defense_list_end(&l);
    CHECK_FAILS(defense_list_init(&l, "vote,reverse", NULL), STET_EUSAGE,
                "defences 'vote' and 'reverse' cannot be combined: both decide how the model");
    defense_list_end(&l);
    CHECK_FAILS(defense_list_init(&l, "push,drop", SETTINGS("pus=1")), STET_EUSAGE,
                "defence 'push,drop' has no setting 'pus'; did you mean 'push'?");
    defense_list_end(&l);
    CHECK_OK(defense_list_init(&l, "smooth", NULL));
    CHECK_FAILS(defense_list_check(&l, NULL), STET_EUSAGE, "--smooth needs --synonyms");
    defense_list_end(&l);
}

TEST(a_defence_can_be_put_in_front)
{
    defense_list l;
    CHECK_OK(defense_list_init(&l, "gbm,drop", SETTINGS("beta=0.5", "drop=0.25")));
    CHECK_OK(defense_list_first(&l, "smooth", SETTINGS("smooth=3")));
    CHECK(l.n == 3 && l.d[0].desc == &defense_smooth && l.d[1].desc == &defense_gbm &&
          l.d[2].desc == &toy_drop);
    CHECK(defense_list_real(&l, "smooth") == 3 && defense_list_real(&l, "beta") == 0.5 &&
          defense_list_real(&l, "drop") == 0.25 && defense_list_real(&l, "no such") == 0);
    CHECK_OK(defense_list_first(&l, "smooth", SETTINGS("smooth=5"))); /* is there already */
    CHECK(l.n == 3 && defense_list_real(&l, "smooth") == 5);
    defense_list_end(&l);
}

TEST(tensors_are_added_and_frozen)
{
    for (int kind = 0; kind < SMALL_KINDS; kind++) {
        run x;
        model *plain = small_model(kind, 2, 7);
        CHECK_OK(run_start(&x, kind, 2, "scale", SETTINGS("target=-2"), false));
        CHECK_EQ(x.m->n_params, plain->n_params);
        CHECK_EQ(x.m->n_values, plain->n_values + 2);
        /* the network begins as it would without */
        CHECK(memcmp(x.m->value, plain->value, plain->n_values * sizeof(real)) == 0);
        const real *own = model_value(x.m, model_param_id(x.m, "scale.two"));
        CHECK(own[0] != own[1] && fabs((double)own[0]) < 1);
        for (int i = 0; i < 60; i++)
            run_step(&x, 0.1);
        CHECK_NEAR((double)own[0], -2, 1e-3);
        CHECK_NEAR((double)own[1], -2, 1e-3);
        const size_t n_first = shape_count(x.m->params[0].shape);
        CHECK(memcmp(x.m->value, plain->value, n_first * sizeof(real)) == 0);
        CHECK(memcmp(x.m->value + n_first, plain->value + n_first,
                     (plain->n_values - n_first) * sizeof(real)) != 0);
        stet_model_free(plain);
        run_end(&x);
    }
}

TEST(weights_can_be_changed_after_a_step)
{
    run x;
    CHECK_OK(run_start(&x, CNN, 3, "clip", SETTINGS("clip-bias=0.001"), false));
    for (int i = 0; i < 10; i++) {
        run_step(&x, 0.1);
        for (int k = 0; k < 3; k++)
            CHECK(fabs((double)model_value(x.m, (int)x.m->n_params - 1)[k]) <=
                  0.0010001 * pow(0.99, i));
    }
    CHECK(metric(&x, "clipped") >= 9); /* as it was before the last step's clipping */
    run_end(&x);
}

/* ---- whole runs --------------------------------------------------------------------------- */

static const char *at(const char *name)
{
    static char path[8][256];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, 256, "%s/%s", test_dir(), name);
    return p;
}

/* Words good* and bad* decide among others. */
static void write_world(void)
{
    FILE *texts = fopen(at("train.tsv"), "w"), *vectors = fopen(at("vectors.txt"), "w");
    CHECK(texts && vectors);
    rng r = rng_stream(1, STREAM_TEST, 0);
    for (int i = 0; i < 160; i++) {
        fprintf(texts, "%d\t", i % 2);
        for (size_t w = 4 + rng_below(&r, 8); w > 0; w--)
            if (rng_below(&r, 2))
                fprintf(texts, "%s%d ", i % 2 ? "good" : "bad", (int)rng_below(&r, 4));
            else
                fprintf(texts, "word%d ", (int)rng_below(&r, 12));
        fprintf(texts, "%s0\n", i % 2 ? "good" : "bad");
    }
    for (int i = 0; i < 20; i++) {
        fprintf(vectors, i < 4 ? "good%d" : i < 8 ? "bad%d" : "word%d", i < 8 ? i % 4 : i - 8);
        for (int d = 0; d < 6; d++)
            fprintf(vectors, " %.4f", rng_normal(&r));
        fputc('\n', vectors);
    }
    fclose(texts);
    fclose(vectors);
    stet_subst_builder *b;
    stet_subst *s;
    CHECK_OK(stet_subst_builder_new(&b));
    CHECK_OK(stet_subst_add_list(b, "good0", SETTINGS("good1", "good2"), 2));
    CHECK_OK(stet_subst_add_list(b, "bad0", SETTINGS("bad1", "word1"), 2));
    CHECK_OK(stet_subst_add_list(b, "word3", SETTINGS("word4"), 1));
    CHECK_OK(stet_subst_build(b, &s));
    CHECK_OK(stet_subst_save(s, at("sets")));
    stet_subst_free(s);
    stet_subst_builder_free(b);
}

static stet_train_args world_run(const char *defense, const char *const *settings, const char *out)
{
    static char data[256], vector_file[256], sets[256];
    static const char *vectors[1], *const small[] = {"filters=6", "kernels=2,3", NULL};
    write_world();
    snprintf(data, sizeof data, "%s", at("train.tsv"));
    snprintf(vector_file, sizeof vector_file, "%s", at("vectors.txt"));
    snprintf(sets, sizeof sets, "%s", at("sets"));
    vectors[0] = vector_file;
    stet_train_args a = STET_TRAIN_DEFAULTS;
    a.data = data;
    a.vectors = vectors;
    a.n_vectors = 1;
    a.synonyms = sets;
    a.model_settings = small;
    a.defense = defense;
    a.defense_settings = settings;
    a.out = out;
    a.batch = 16;
    a.epochs = 4;
    a.patience = 0;
    a.rate = 0.01;
    a.save_every = 3;
    return a;
}

static stet_model *trained(const stet_train_args *a)
{
    stet_train_result r;
    stet_model *m;
    CHECK_OK(stet_train(a, &r));
    CHECK_OK(stet_model_load(a->out, &m));
    return m;
}

static char *text_of(const char *dir, const char *name)
{
    char path[512], *text;
    size_t n;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    CHECK_OK(file_read_all(path, 1 << 24, &text, &n));
    return text;
}

TEST(vectors_are_changed_before_there_is_a_model)
{
    stet_train_args a = world_run("standard", NULL, at("plain"));
    stet_model *plain = trained(&a);
    a = world_run("mirror,gbm", SETTINGS("mirror=-0.5"), at("mirrored"));
    stet_model *m = trained(&a);
    CHECK_EQ(m->n_words, plain->n_words);
    for (size_t i = 0; i < m->n_words * m->dim; i++)
        CHECK(m->table[i] == -0.5F * plain->table[i]);
    stet_model_free(plain);
    stet_model_free(m);
}

/* The model's table is the vectors of the file, smoothed. */
static void check_smoothed(const char *dir, double lambda)
{
    stet_model *m;
    stet_subst *sets;
    stet_vectors t;
    const char *const file[] = {at("vectors.txt")};
    double residual;
    CHECK_OK(stet_model_load(dir, &m));
    CHECK_OK(stet_subst_load(at("sets"), &sets));
    CHECK_OK(stet_vectors_load(file, 1, m->vocab, &t));
    CHECK(memcmp(t.data, m->table, m->n_words * m->dim * sizeof *t.data) != 0);
    CHECK_OK(stet_vectors_smooth(&t, m->vocab, sets, lambda, NULL, &residual));
    CHECK(memcmp(t.data, m->table, m->n_words * m->dim * sizeof *t.data) == 0);
    stet_vectors_deinit(&t);
    stet_subst_free(sets);
    stet_model_free(m);
}

/* Named in the list or asked for by its lambda: the same model. */
TEST(smoothing_is_a_defence_of_the_vectors)
{
    stet_train_args a = world_run("gbm", NULL, at("asked"));
    a.smooth = 2.5;
    a.smooth_frequency = 0.5;
    stet_model *asked = trained(&a);
    stet_train_result r;
    a = world_run("smooth,gbm", SETTINGS("smooth=2.5", "smooth-frequency=0.5"), at("named"));
    stet_model *named = trained(&a);
    CHECK_EQ(stet_model_fingerprint(asked), stet_model_fingerprint(named));
    a = world_run("smooth,gbm", NULL, at("four")); /* its default */
    CHECK_OK(stet_train(&a, &r));
    CHECK(r.smooth_residual > 0);
    check_smoothed(a.out, 4);
    char *one = text_of(at("asked"), "config.json"), *two = text_of(at("named"), "config.json"),
         *four = text_of(at("four"), "config.json");
    CHECK(strstr(one, "\"smooth\": 2.5") && strstr(one, "\"smooth_frequency\": 0.5") &&
          strstr(two, "\"smooth\": 2.5") && strstr(two, "\"smooth_frequency\": 0.5") &&
          strstr(four, "\"smooth\": 4.0"));
    mem_free(one), mem_free(two), mem_free(four);
    stet_model_free(asked);
    stet_model_free(named);
    a = world_run("smooth,gbm", NULL, at("none"));
    a.smooth = 0; /* none, whatever is listed */
    stet_model *none = trained(&a);
    a = world_run("gbm", NULL, at("plain"));
    stet_model *plain = trained(&a);
    CHECK_EQ(stet_model_fingerprint(none), stet_model_fingerprint(plain));
    stet_model_free(none);
    stet_model_free(plain);
    a.synonyms = NULL;
    a.smooth = 1;
    CHECK_FAILS(stet_train(&a, &r), STET_EUSAGE, "--smooth needs --synonyms");
}

/* Neither by its gradient nor by decay: at another rate everything else ends elsewhere. */
TEST(a_frozen_tensor_does_not_move)
{
    stet_train_args a = world_run("scale", NULL, at("slow"));
    stet_model *slow = trained(&a);
    a = world_run("scale", NULL, at("fast"));
    a.rate = 0.02;
    stet_model *fast = trained(&a);
    for (size_t i = 0; i < slow->n_params; i++) {
        const size_t size = shape_count(slow->params[i].shape) * sizeof(real);
        CHECK((memcmp(model_value(slow, (int)i), model_value(fast, (int)i), size) == 0) ==
              (i == 0));
    }
    stet_model_free(slow);
    stet_model_free(fast);
}

static void interrupt_after(void *left, const char *what, uint64_t done, uint64_t total,
                            const char *note)
{
    (void)what, (void)done, (void)total, (void)note;
    if (--*(int *)left == 0)
        stet_interrupt();
}

/* Every hook at once; the tensors of defences and what they save are in the checkpoint. */
TEST(a_run_with_every_hook_resumes_to_the_same_bytes)
{
    static const char list[] = "mirror,drop,push,scale,clip,vote";
    stet_train_result r;
    stet_train_args a = world_run(list, SETTINGS("votes=5", "push-steps=2"), at("whole"));
    CHECK_OK(stet_train(&a, &r));
    a.out = at("parts");
    int left = 13;
    stet_set_progress(interrupt_after, &left);
    CHECK_FAILS(stet_train(&a, &r), STET_EINTR, "--resume");
    stet_set_progress(NULL, NULL);
    a.resume = true;
    CHECK_OK(stet_train(&a, &r));
    static const char *const names[] = {"model.safetensors", "config.json", "README.md",
                                        "salt.txt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char whole[512], parts[512], *x, *y;
        size_t nx, ny;
        snprintf(whole, sizeof whole, "%s/%s", at("whole"), names[i]);
        snprintf(parts, sizeof parts, "%s/%s", at("parts"), names[i]);
        CHECK_OK(file_read_all(whole, 1 << 24, &x, &nx));
        CHECK_OK(file_read_all(parts, 1 << 24, &y, &ny));
        CHECK(nx == ny && memcmp(x, y, nx) == 0);
        mem_free(x);
        mem_free(y);
    }
    char *log = text_of(at("whole"), "train.jsonl");
    CHECK(strstr(log, "\"before\":") && strstr(log, "\"clipped\":") && strstr(log, "\"ce\":"));
    mem_free(log);
    /* what served the training stays out of the model, what the rule needs is in it */
    stet_model *m;
    CHECK_OK(stet_model_load(at("whole"), &m));
    CHECK(model_param_id(m, "scale.two") < 0 && model_param_id(m, "vote.bias") >= 0);
    for (int k = 0; k < 2; k++) /* clipped: it began at up to 0.29 */
        CHECK(fabs((double)model_value(m, (int)m->n_params - 1)[k]) <= 0.01);
    stet_model_free(m);
    st_file f;
    char weights[512];
    snprintf(weights, sizeof weights, "%s/model.safetensors", at("whole"));
    CHECK_OK(st_open(&f, weights));
    CHECK(!st_find(&f, "scale.two") && st_find(&f, "vote.bias"));
    st_close(&f);
}

/* ---- the rule ----------------------------------------------------------------------------- */

static const char sample[] = "good1 word2 bad3 word3 word5 good0 bad0 word7";

static void read_sample(const model *m, uint32_t ids[64], size_t *n)
{
    stet_words *w;
    stet_reading r = {0};
    CHECK_OK(stet_model_words(m, &w));
    CHECK_OK(stet_words_read(w, sample, strlen(sample), &r));
    *n = words_rows(w, r.ids, r.n, ids);
    stet_reading_deinit(&r);
    stet_words_free(w);
}

TEST(a_rule_answers_wherever_the_model_is_asked)
{
    stet_train_args a = world_run("vote", SETTINGS("votes=15"), at("voting"));
    stet_model *m = trained(&a);
    ver_model checked;
    CHECK_FAILS(ver_model_load(a.out, &checked), STET_ENOTSUP, "prediction rule");
    char *config = text_of(a.out, "config.json");
    CHECK(strstr(config, "\"rule\": {") && strstr(config, "\"name\": \"vote\"") &&
          strstr(config, "\"votes\": 15") && strstr(config, "\"format\": 2"));
    mem_free(config);

    uint32_t ids[64], changed[64];
    size_t n;
    read_sample(m, ids, &n);
    float by_rule[2], of_text[2], of_corpus[2], by_view[2], by_edit[4], network[2], prob[2];
    int label;
    CHECK_OK(vote_predict(m->rule, m, ids, n, by_rule));
    CHECK_OK(model_logits_of(m, ids, n, of_text));
    uint64_t start[2] = {0, n};
    int32_t truth = 1;
    const stet_corpus one = {1, n, 2, ids, start, &truth};
    CHECK_OK(stet_model_logits(m, &one, of_corpus));
    CHECK_OK(model_network_logits(m, &one, network));
    CHECK_OK(stet_model_predict(m, sample, strlen(sample), prob, &label));
    CHECK_OK(stet_model_compile(m));
    stet_view *v;
    CHECK_OK(stet_view_open(m, NULL, ids, n, &v));
    memcpy(by_view, stet_view_logits(v), sizeof by_view);
    const uint32_t other = stet_vocab_id(m->vocab, "good2", 5);
    const stet_edit edits[] = {{2, other}, {2, other}, {5, ids[0]}};
    const size_t first[] = {0, 1, 3};
    CHECK_OK(stet_view_edits(v, edits, first, 2, by_edit));
    stet_view_free(v);
    float full[2];
    stet_softmax(by_rule, 2, full);
    for (int k = 0; k < 2; k++) {
        CHECK(of_text[k] == by_rule[k] && of_corpus[k] == by_rule[k] && by_view[k] == by_rule[k]);
        CHECK(prob[k] == full[k] && network[k] != by_rule[k]);
    }
    CHECK_EQ(label, stet_argmax(by_rule, 2));
    for (size_t i = 0; i < 2; i++) {
        memcpy(changed, ids, n * sizeof *ids);
        for (size_t e = first[i]; e < first[i + 1]; e++)
            changed[edits[e].pos] = edits[e].word;
        CHECK_OK(model_logits_of(m, changed, n, full));
        CHECK(full[0] == by_edit[2 * i] && full[1] == by_edit[2 * i + 1]);
    }

    /* settings, tensors and files are the folder's */
    model_value(m, model_param_id(m, "vote.bias"))[1] = 2;
    ((vote_cfg *)m->rule->cfg)->votes = 3;
    *(uint64_t *)m->rule->state = 99;
    CHECK_OK(stet_model_save(m, at("other")));
    stet_model *again;
    CHECK_OK(stet_model_load(at("other"), &again));
    CHECK(((const vote_cfg *)again->rule->cfg)->votes == 3 &&
          *(const uint64_t *)again->rule->state == 99);
    CHECK_EQ(stet_model_fingerprint(again), stet_model_fingerprint(m));
    ((vote_cfg *)m->rule->cfg)->votes = 4;
    CHECK(stet_model_fingerprint(again) != stet_model_fingerprint(m));
    CHECK_OK(model_logits_of(again, ids, n, of_text));
    CHECK_NEAR(exp(of_text[0]) + exp(of_text[1] - 2), 4, 1e-4); /* three votes, a half for each */
    stet_model_free(again);
    stet_model_free(m);
}

typedef struct asked_texts {
    stet_dataset *data;
    stet_sets sets;
} asked_texts;

static void open_texts(const stet_train_args *a, asked_texts *t)
{
    CHECK_OK(stet_dataset_load(a->data, &a->format, &t->data));
    CHECK_OK(stet_sets_load(a->synonyms, &t->sets));
}

static void close_texts(asked_texts *t)
{
    stet_dataset_free(t->data);
    stet_sets_free(&t->sets);
}

TEST(an_attack_asks_the_rule)
{
    stet_train_args a = world_run("reverse", NULL, at("backwards"));
    stet_model *m = trained(&a);
    asked_texts t;
    open_texts(&a, &t);
    stet_attack_args attack = STET_ATTACK_DEFAULTS;
    attack.model = m, attack.data = t.data, attack.sets = &t.sets, attack.attack = "greedy";
    stet_attack_result r;
    CHECK_OK(stet_attack_run(&attack, &r));
    CHECK(r.n == 160 && r.clean < 0.2 && r.errors == 0); /* it learned, and says the opposite */
    stet_certify_args certify = STET_CERTIFY_DEFAULTS;
    certify.model = m, certify.data = t.data, certify.sets = &t.sets;
    stet_certify_result c;
    CHECK_FAILS(stet_certify_run(&certify, &c), STET_ENOTSUP,
                "prediction rule 'reverse', for which there are no certificates");
    stet_certifier *one;
    CHECK_FAILS(stet_certifier_new(m, &certify.how, &one), STET_ENOTSUP, "'reverse'");
    close_texts(&t);
    stet_model_free(m);
}

TEST(what_draws_make_likely_is_not_counted_with_proofs)
{
    stet_train_args a = world_run("vote", SETTINGS("vote-drop=0.1"), at("voting"));
    stet_model *m = trained(&a);
    asked_texts t;
    open_texts(&a, &t);
    stet_certify_args args = STET_CERTIFY_DEFAULTS;
    args.model = m, args.data = t.data, args.sets = &t.sets;
    stet_certify_result r;
    CHECK_OK(stet_certify_run(&args, &r));
    CHECK(r.n == 160 && r.likely > 0.5 && r.certified == 0);
    CHECK_EQ(r.verdicts[STET_LIKELY] + r.verdicts[STET_UNDECIDED] + r.verdicts[STET_WRONG], r.n);
    CHECK(r.margin_lo == 0 && r.margin_hi == 0 && r.n_budget == 1 && *r.method == '\0');
    CHECK_EQ(r.budget_at_least[0], r.verdicts[STET_UNDECIDED]);
    stet_certify_result_deinit(&r);
    args.file = at("certificates.jsonl");
    CHECK_FAILS(stet_certify_run(&args, &r), STET_ENOTSUP, "no proofs");
    CHECK(!file_exists(args.file));
    args.file = NULL;
    args.how.method = "ibp"; /* of the network, not of the votes */
    CHECK_FAILS(stet_certify_run(&args, &r), STET_EUSAGE, "no method 'ibp'");
    args.how.method = "auto";

    uint32_t ids[64], start[65] = {0};
    size_t n;
    read_sample(m, ids, &n);
    const stet_choices none = {.n = n, .start = start};
    float logits[2];
    CHECK_OK(model_logits_of(m, ids, n, logits));
    stet_certifier *c;
    stet_certificate out;
    CHECK_OK(stet_certifier_new(m, &args.how, &c));
    CHECK_OK(stet_certify_text(c, ids, &none, stet_argmax(logits, 2), &out));
    CHECK(out.verdict != STET_CERTIFIED && out.confidence == 0.99);
    CHECK_STR(out.method, "vote");
    CHECK_STR(stet_verdict_name(STET_LIKELY), "likely");
    stet_certificate_deinit(&out);
    stet_certifier_free(c);
    close_texts(&t);
    stet_model_free(m);
}

static void replace_in(const char *dir, const char *from, const char *to)
{
    char path[512], *text;
    size_t n;
    snprintf(path, sizeof path, "%s/config.json", dir);
    CHECK_OK(file_read_all(path, 1 << 24, &text, &n));
    const char *found = strstr(text, from);
    CHECK(found);
    FILE *f = fopen(path, "w");
    CHECK(f);
    fwrite(text, 1, (size_t)(found - text), f);
    fprintf(f, "%s%s", to, found + strlen(from));
    fclose(f);
    mem_free(text);
}

TEST(a_rule_that_is_not_there_or_not_right_is_told)
{
    stet_train_args a = world_run("vote", NULL, at("voting"));
    stet_model_free(trained(&a));
    stet_model *m;
    replace_in(a.out, "\"name\": \"vote\"", "\"name\": \"vota\"");
    CHECK_FAILS(stet_model_load(a.out, &m), STET_EFORMAT, "config.json: no prediction rule 'vota'");
    replace_in(a.out, "\"name\": \"vota\"", "\"nome\": \"vote\"");
    CHECK_FAILS(stet_model_load(a.out, &m), STET_EFORMAT,
                "config.json: no \"name\", expected a string");
    replace_in(a.out, "\"nome\": \"vote\"", "\"name\": \"vote\"");
    replace_in(a.out, "\"votes\": 25", "\"votos\": 25");
    CHECK_FAILS(
        stet_model_load(a.out, &m), STET_EFORMAT,
        "config.json: prediction rule 'vote' has no setting 'votos'; did you mean 'votes'?");
    replace_in(a.out, "\"votos\": 25", "\"votes\": 0");
    CHECK_FAILS(stet_model_load(a.out, &m), STET_EFORMAT, "--votes 0: expected an integer");
    replace_in(a.out, "\"votes\": 0", "\"votes\": 25");
    char salt[512];
    snprintf(salt, sizeof salt, "%s/salt.txt", a.out);
    CHECK(remove(salt) == 0);
    CHECK_FAILS(stet_model_load(a.out, &m), STET_EIO, "salt.txt");
    replace_in(a.out, "\"rule\": {", "\"rula\": {");
    CHECK_FAILS(stet_model_load(a.out, &m), STET_EFORMAT, "config.json");
}

/* ---- memory ------------------------------------------------------------------------------- */

/* Every toy but for the tensors, which would stay with the model from one use to the next. */
TEST(want_of_memory_in_a_hook_is_reported_and_nothing_leaks)
{
    run x;
    const char *const settings[] = {"push-steps=2", NULL};
    CHECK_OK(run_start(&x, CNN, 2, "drop,blank,push,clip", settings, false));
    CHECK_LE(8,
             ALLOC_FAIL_LOOP(scarce_step, &((scarce_run){&x, "drop,blank,push,clip", settings})));
    run_end(&x);
}

static stet_status load_and_ask(void *dir)
{
    stet_model *m;
    stet_status st = stet_model_load(dir, &m);
    if (st == STET_OK) {
        float prob[2];
        st = stet_model_predict(m, sample, strlen(sample), prob, NULL);
        stet_model_free(m);
    }
    return st;
}

TEST(want_of_memory_with_a_rule_is_reported_and_nothing_leaks)
{
    stet_train_args a = world_run("vote", SETTINGS("votes=2"), at("voting"));
    a.epochs = 1;
    stet_model_free(trained(&a));
    CHECK_LE(8, ALLOC_FAIL_LOOP(load_and_ask, (void *)(uintptr_t)a.out));
}
