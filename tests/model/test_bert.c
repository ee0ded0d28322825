/* tests/model/test_bert.c - BERT against the golden tiny one: logits, gradients and steps of training,
 * in float and in double. */
#include "golden.h"
#include "model/bert.h"
#include "tensor/optim.h"
#include "tiny_bert.h"

typedef struct step {
    model *m;
    json_t *golden;
    stet_corpus c;
    batcher batches;
    batch x;
    arena mem;
    tape t;
    pass p;
    real *grad;
} step;

/* The golden texts, without what stands around them. */
static void texts_of(step *s)
{
    const json_t *texts = json_object_get(s->golden, "texts"),
                 *labels = json_object_get(s->golden, "labels");
    const size_t n = json_array_size(texts);
    s->c = (stet_corpus){.n_texts = n, .n_classes = 3};
    s->c.ids = mem_alloc(64, sizeof *s->c.ids);
    s->c.start = mem_zalloc(n + 1, sizeof *s->c.start);
    s->c.label = mem_alloc(n, sizeof *s->c.label);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(texts, i);
        for (size_t k = 1; k + 1 < json_array_size(v); k++)
            s->c.ids[s->c.n_tokens++] = (uint32_t)json_integer_value(json_array_get(v, k));
        s->c.start[i + 1] = s->c.n_tokens;
        s->c.label[i] = (int32_t)json_integer_value(json_array_get(labels, i));
    }
}

static step *begin(void)
{
    static step s;
    static const uint32_t pick[] = {0, 1, 2};
    s.golden = tiny_golden();
    CHECK_OK(stet_model_load(tiny_bert(), &s.m));
    texts_of(&s);
    CHECK_OK(batcher_init(&s.batches, s.m));
    CHECK_OK(batch_make(&s.batches, s.m, &s.c, pick, 3, &s.mem, &s.x));
    s.grad = mem_zalloc(s.m->n_values, sizeof *s.grad);
    return &s;
}

static node *loss_of(step *s)
{
    memset(s->grad, 0, s->m->n_values * sizeof *s->grad);
    tape_init(&s->t, &s->mem, NULL, true);
    CHECK_OK(pass_init(&s->p, s->m, &s->t, NULL, s->grad, &s->x));
    return op_cross_entropy(&s->t, model_forward(s->m, &s->p), s->x.label);
}

static void end(step *s)
{
    stet_corpus_deinit(&s->c);
    batcher_deinit(&s->batches);
    arena_deinit(&s->mem);
    mem_free(s->grad);
    json_decref(s->golden);
    stet_model_free(s->m);
}

TEST(logits_and_loss_are_the_golden_ones)
{
    step *s = begin();
    real loss;
    node *y = loss_of(s);
    CHECK_OK(tape_status(&s->t));
    CHECK_OK(tape_download(&s->t, y, &loss));
    CHECK_NEAR(loss, json_number_value(json_object_get(s->golden, "loss")), value_tolerance);
    float logits[9];
    CHECK_OK(stet_model_logits(s->m, &s->c, logits));
    for (int i = 0; i < 9; i++)
        CHECK_NEAR(
            logits[i],
            json_number_value(json_array_get(json_object_get(s->golden, "logits"), (size_t)i)),
            1e-5);
    end(s);
}

TEST(logits_of_the_pass_are_the_golden_ones)
{
    step *s = begin();
    real logits[9];
    tape_init(&s->t, &s->mem, NULL, true);
    CHECK_OK(pass_init(&s->p, s->m, &s->t, NULL, s->grad, &s->x));
    const node *y = model_forward(s->m, &s->p);
    CHECK_OK(tape_download(&s->t, y, logits));
    check_numbers("logits", json_object_get(s->golden, "logits"), logits, value_tolerance);
    end(s);
}

TEST(gradients_are_the_golden_ones)
{
    step *s = begin();
    CHECK_OK(tape_backward(&s->t, loss_of(s)));
    const char *name;
    json_t *want;
    json_object_foreach(json_object_get(s->golden, "grad"), name, want)
    {
        const int id = model_param_id(s->m, name);
        CHECK(id >= 0);
        check_numbers(name, want, s->grad + s->m->params[id].first, gradient_tolerance);
    }
    size_t seen = 0;
    json_object_foreach(json_object_get(s->golden, "grad_check"), name, want)
    {
        const param *p = &s->m->params[model_param_id(s->m, name)];
        double sum = 0, squares = 0, waves = 0, w[3];
        for (size_t i = 0; i < shape_count(p->shape); i++) {
            const double g = (double)s->grad[p->first + i];
            sum += g;
            squares += g * g;
            waves += g * cos((double)i);
        }
        CHECK_EQ(doubles(want, w), 3);
        CHECK_NEAR(sum, w[0], gradient_tolerance);
        CHECK_NEAR(squares, w[1], gradient_tolerance);
        CHECK_NEAR(waves, w[2], gradient_tolerance);
        seen++;
    }
    CHECK_EQ(seen, s->m->n_params);
    end(s);
}

/* With one row a position, the rows' gradients are those of positions. */
TEST(gradients_of_rows_are_the_golden_ones)
{
    step *s = begin();
    uint32_t row[13], word[13];
    for (uint32_t i = 0; i < 13; i++) {
        word[i] = s->x.word[s->x.seq.row[i]];
        row[i] = i;
    }
    batch spread = s->x;
    spread.seq.row = row;
    spread.seq.n_rows = 13;
    spread.word = word;
    tape_init(&s->t, &s->mem, NULL, true);
    CHECK_OK(pass_init(&s->p, s->m, &s->t, NULL, s->grad, &spread));
    real d[13 * 16] = {0};
    s->p.rows = tape_input(&s->t, shape2(13, 16), s->p.rows->value, d);
    CHECK_OK(tape_backward(&s->t, op_cross_entropy(&s->t, model_forward(s->m, &s->p), s->x.label)));
    check_numbers("grad_words", json_object_get(s->golden, "grad_words"), d, gradient_tolerance);
    end(s);
}

TEST(steps_of_training_are_the_golden_ones)
{
    /* the golden steps clip by norm + 1e-6 instead of norm */
    const double tolerance = fmax(1e-8, 10 * gradient_tolerance);
    step *s = begin();
    const json_t *train = json_object_get(s->golden, "train");
    double rates[5], losses[5], norms[5];
    doubles(json_object_get(train, "rates"), rates);
    doubles(json_object_get(train, "losses"), losses);
    doubles(json_object_get(train, "norms"), norms);
    optim o;
    optim_options how = OPTIM_DEFAULTS;
    how.kind = OPTIM_ADAMW;
    how.clip = 1;
    how.schedule = SCHEDULE_LINEAR;
    how.total_steps = 6;
    how.warmup = 2;
    CHECK_OK(optim_init(&o, &how, &host_store, s->m->n_values));
    param_group g[64];
    for (size_t i = 0; i < s->m->n_params; i++)
        g[i] = (param_group){s->m->params[i].first, shape_count(s->m->params[i].shape), 0.005,
                             s->m->params[i].kind == PARAM_PLAIN ? 0.01 : 0};
    real loss;
    for (int i = 0; i < 5; i++) {
        CHECK_NEAR(0.005 * schedule_factor(&how, (uint64_t)i), rates[i], 1e-15);
        node *y = loss_of(s);
        CHECK_OK(tape_backward(&s->t, y));
        CHECK_OK(tape_download(&s->t, y, &loss));
        CHECK_NEAR(loss, losses[i], tolerance);
        CHECK_OK(optim_step(&o, g, s->m->n_params, s->m->value, s->grad));
        double norm;
        CHECK_OK(optim_norm(&o, &norm));
        CHECK_NEAR(norm, norms[i], tolerance);
    }
    node *y = loss_of(s);
    CHECK_OK(tape_download(&s->t, y, &loss));
    CHECK_NEAR(loss, json_number_value(json_object_get(train, "loss_after")), tolerance);
    check_numbers("classifier.bias", json_object_get(train, "after"),
                  model_value(s->m, (int)s->m->n_params - 1), tolerance);
    check_numbers("word 7", json_object_get(train, "after_word7"), s->m->table + 7 * 16, tolerance);
    optim_deinit(&o);
    end(s);
}

/* ---- a real checkpoint -------------------------------------------------------------------- */

/* The vectors of a checkpoint that many use, where its folder is given. */
TEST(features_of_a_real_checkpoint_are_the_golden_ones)
{
    const char *dir = getenv("STET_BERT_DIR");
    if (!dir)
        SKIP("no folder in $STET_BERT_DIR (docs/bert.md says which)");
    json_t *o;
    CHECK_OK(json_read_file(STET_SOURCE_DIR "/tests/golden/bert/minilm.json", &o));
    model *m;
    const stet_model_new_args how = {
        .name = "bert", .init = dir, .max_len = 512, .n_classes = 2, .seed = 1};
    CHECK_OK(stet_model_new(&how, &m));
    const json_t *texts = json_object_get(o, "texts");
    stet_str s[4];
    for (size_t i = 0; i < 4; i++) {
        const json_t *t = json_array_get(texts, i);
        s[i] = (stet_str){json_string_value(t), json_string_length(t)};
    }
    stet_dataset *d;
    stet_corpus c;
    CHECK_OK(stet_dataset_new(s, (const int[]){0, 1, 0, 1}, 4, NULL, 2, &d));
    CHECK_OK(stet_model_encode(m, d, &c));
    for (uint32_t i = 0; i < 4; i++) {
        const json_t *ids = json_array_get(json_object_get(o, "ids"), i),
                     *pooled = json_array_get(json_object_get(o, "pooler"), i);
        CHECK_EQ(c.start[i + 1] - c.start[i] + 2, json_array_size(ids));
        for (size_t k = 0; k < c.start[i + 1] - c.start[i]; k++)
            CHECK_EQ(c.ids[c.start[i] + k], json_integer_value(json_array_get(ids, k + 1)));
        arena mem = {0};
        tape t;
        pass p;
        batch x;
        batcher b;
        real f[384];
        tape_init(&t, &mem, NULL, false);
        CHECK_OK(batcher_init(&b, m));
        CHECK_OK(batch_make(&b, m, &c, &i, 1, &mem, &x));
        CHECK_OK(pass_init(&p, m, &t, NULL, NULL, &x));
        const node *y = m->desc->features(m, &p);
        CHECK_OK(tape_download(&t, y, f));
        for (size_t k = 0; k < 8; k++)
            CHECK_NEAR(f[k], json_number_value(json_array_get(pooled, k)), 2e-5);
        batcher_deinit(&b);
        arena_deinit(&mem);
    }
    stet_corpus_deinit(&c);
    stet_dataset_free(d);
    stet_model_free(m);
    json_decref(o);
}
