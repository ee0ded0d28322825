/* How much does the growth bound add to a training step? Forward and backward of one IMDB-sized
 * batch with the cross-entropy alone and with each term, samples taken in turn; what is reported is
 * the share of the plain step. */
#include <string.h>

#include "base/mem.h"
#include "bench.h"
#include "defense/defenses.h"
#include "imdb_batch.h"

enum { DIM = 300, WORDS_OF_MODEL = WORDS + STET_FIRST_WORD };

typedef struct step {
    defense_list defenses;
    const model *m;
    const batch *x;
    real *grad;
    arena mem;
    uint64_t number;
    double loss;
    step_metrics metrics;
} step;

static void must_be_ok(stet_status st)
{
    if (st != STET_OK) {
        fprintf(stderr, "%s\n", stet_last_error());
        exit(1);
    }
}

static void run_step(void *ctx)
{
    step *s = ctx;
    const arena_mark mark = arena_save(&s->mem);
    tape t;
    pass p;
    rng drops = rng_stream(1, STREAM_DROPOUT, s->number);
    tape_init(&t, &s->mem, NULL, true);
    memset(s->grad, 0, s->m->n_values * sizeof *s->grad);
    must_be_ok(pass_init(&p, s->m, &t, NULL, s->grad, s->x));
    p.dropout = 0.5;
    p.stream = &drops;
    step_view v = {.m = s->m, .p = &p, .x = s->x, .step = s->number++, .seed = 1};
    node *y = defense_list_loss(&s->defenses, &v);
    must_be_ok(tape_backward(&t, y));
    store_letter numbers = {0};
    must_be_ok(defense_list_metrics(&s->defenses, &t, y, &numbers, &s->metrics));
    must_be_ok(metrics_receive(t.store, &numbers, &s->loss, &s->metrics));
    arena_restore(&s->mem, mark);
}

static void open_step(step *s, const char *defense, const char *const *settings, const model *m,
                      const stet_subst *subst, const batch *x)
{
    *s = (step){.m = m, .x = x};
    s->grad = must(mem_aligned(m->n_values, sizeof *s->grad));
    must_be_ok(defense_list_init(&s->defenses, defense, settings));
    must_be_ok(defense_list_start(&s->defenses, m, subst));
}

static void close_step(step *s)
{
    defense_list_end(&s->defenses);
    mem_free_aligned(s->grad);
    arena_deinit(&s->mem);
}

/* ---- made-up words ------------------------------------------------------------------------ */

static model *make_model(const char *kind, arena *mem, rng *r)
{
    const char **words = must(arena_new(mem, const char *, WORDS));
    for (size_t i = 0; i < WORDS; i++) {
        char text[16];
        snprintf(text, sizeof text, "w%zu", i);
        words[i] = must(arena_strndup(mem, text, strlen(text)));
    }
    stet_vocab *v;
    must_be_ok(stet_vocab_from_words(words, WORDS, &v));
    float *data = must(arena_new(mem, float, (size_t)WORDS_OF_MODEL *DIM));
    for (size_t i = 0; i < (size_t)WORDS_OF_MODEL * DIM; i++)
        data[i] = (float)(0.38 * rng_normal(r)); /* GloVe's */
    const stet_vectors t = {.n = WORDS_OF_MODEL, .dim = DIM, .data = data};
    const stet_model_new_args how = {
        .name = kind, .vocab = v, .vectors = &t, .max_len = LONGEST, .n_classes = 2, .seed = 1};
    model *m;
    must_be_ok(stet_model_new(&how, &m));
    stet_vocab_free(v);
    return m;
}

static stet_subst *make_subst(void)
{
    stet_subst_builder *b;
    stet_subst *s;
    must_be_ok(stet_subst_builder_new(&b));
    for (size_t i = 0; i < WORDS; i += 2) { /* every other word has 8 substitutes */
        char word[16], text[8][16];
        const char *subs[8];
        snprintf(word, sizeof word, "w%zu", i);
        for (size_t k = 0; k < 8; k++) {
            snprintf(text[k], sizeof text[k], "w%zu", (i + 1 + k * 97) % WORDS);
            subs[k] = text[k];
        }
        must_be_ok(stet_subst_add_list(b, word, subs, 8));
    }
    must_be_ok(stet_subst_build(b, &s));
    stet_subst_builder_free(b);
    return s;
}

static batch make_batch(arena *mem, rng *r)
{
    batch x = {.seq = imdb_batch(mem, r)};
    uint32_t *word = must(arena_new(mem, uint32_t, x.seq.n_rows));
    int32_t *label = must(arena_new(mem, int32_t, TEXTS));
    for (size_t i = 0; i < x.seq.n_rows; i++)
        word[i] = (uint32_t)(STET_FIRST_WORD + i);
    for (int i = 0; i < TEXTS; i++)
        label[i] = i % 2;
    x.word = word;
    x.label = label;
    return x;
}

/* ---- the question ------------------------------------------------------------------------- */

typedef struct variant {
    const char *name;
    const char *settings[4]; /* NULL at the end */
} variant;

static const variant plain[] = {{"layer", {"gbm-of=layer"}}, {"logits", {"gbm-of=logits"}}};
static const variant recurrent[] = {{"layer, t+o", {"gbm-of=layer", "gbm-boxes=t+o"}},
                                    {"logits, s+o", {"gbm-of=logits", "gbm-boxes=s+o"}},
                                    {"logits, s+l", {"gbm-of=logits", "gbm-boxes=s+l"}},
                                    {"layer, t+i", {"gbm-of=layer", "gbm-boxes=t+i"}},
                                    {"gain, s+o", {"gbm-of=gain", "gbm-boxes=s+o"}},
                                    {"rho, s+o", {"gbm-of=rho", "gbm-boxes=s+o"}}};

static double value_of(const step_metrics *found, const char *name)
{
    for (size_t i = 0; i < found->n; i++)
        if (strcmp(found->v[i].name, name) == 0)
            return found->v[i].value;
    fprintf(stderr, "the step says nothing of %s\n", name);
    exit(1);
}

static void compare(const char *kind, const variant *v, size_t n, const stet_subst *subst)
{
    enum { MOST = 8 };
    arena mem = {0};
    rng r = rng_stream(1, STREAM_BENCH, 0);
    model *m = make_model(kind, &mem, &r);
    const batch x = make_batch(&mem, &r);
    step s[MOST + 1];
    bench_fn *fn[MOST + 1];
    void *ctx[MOST + 1];
    bench_time t[MOST + 1];
    open_step(&s[0], "standard", NULL, m, NULL, &x);
    for (size_t i = 0; i < n; i++)
        open_step(&s[1 + i], "gbm", v[i].settings, m, subst, &x);
    for (size_t i = 0; i <= n; i++) {
        fn[i] = run_step;
        ctx[i] = &s[i];
        run_step(&s[i]);
        if (i > 0) /* the answer before the time: the loss is made of its two terms */
            bench_check(v[i - 1].name,
                        fabs(s[i].loss - (0.999 * value_of(&s[i].metrics, "ce") +
                                          0.001 * value_of(&s[i].metrics, "gbm"))) /
                            s[i].loss,
                        1e-5);
    }
    bench_measure_each(fn, ctx, n + 1, t);
    bench_rate(kind, "cross-entropy", t[0], 1, "steps/s");
    for (size_t i = 0; i < n; i++) {
        bench_rate(kind, v[i].name, t[1 + i], 1, "steps/s");
        if (!bench_json())
            printf("%45s adds %.2f %% (best), %.2f %% (median)\n", "",
                   100 * (t[1 + i].best / t[0].best - 1),
                   100 * (t[1 + i].median / t[0].median - 1));
    }
    for (size_t i = 0; i <= n; i++)
        close_step(&s[i]);
    stet_model_free(m);
    arena_deinit(&mem);
}

int main(int argc, char **argv)
{
    bench_start(argc, argv, "gbm",
                "what the growth bound adds to a training step of 64 IMDB texts");
    stet_subst *subst = make_subst();
    compare("bilstm", recurrent, sizeof recurrent / sizeof *recurrent, subst);
    compare("cnn", plain, sizeof plain / sizeof *plain, NULL);
    compare("s4", plain, sizeof plain / sizeof *plain, NULL);
    stet_subst_free(subst);
    return bench_finish();
}
