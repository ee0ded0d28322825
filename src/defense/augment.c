/* defense/augment.c - more training texts: those of a file, such as the adversarial texts of `stet
 * augment`, each once per epoch, spread over its steps. They are no part of the data, so that validation
 * texts stay as they are. docs/defences.md. */
#include "base/mem.h"
#include "defense/defenses.h"

typedef struct augment_cfg {
    const char *texts;
} augment_cfg;

static const stet_opt opts[] = {
    STET_OPT_STR("augment-texts", augment_cfg, texts, NULL, "FILE",
                 "augment: labelled texts to train on beside --data; stet augment writes them"),
    STET_OPT_END,
};

typedef struct augment_state {
    stet_corpus texts;
    uint32_t *order; /* of this epoch */
    uint64_t epoch;  /* that `order` is of, from 1 on */
} augment_state;

static void end(void *state)
{
    augment_state *s = state;
    if (!s)
        return;
    stet_corpus_deinit(&s->texts);
    mem_free(s->order);
    mem_free(s);
}

/* The file's texts as the model reads them, with its classes. */
static stet_status read_texts(const char *path, const model *m, stet_corpus *out)
{
    stet_dataset *d;
    TRY(stet_model_data(m, path, NULL, &d));
    const stet_status st = stet_model_encode(m, d, out);
    stet_dataset_free(d);
    return st;
}

static stet_status start(const void *cfg, const model *m, const stet_subst *subst, void **state)
{
    (void)subst;
    const augment_cfg *c = cfg;
    augment_state *s = *state = mem_zalloc(1, sizeof *s);
    if (!s)
        return STET_ENOMEM;
    if (!c->texts)
        return error_set(STET_EUSAGE,
                         "--defense augment needs --augment-texts FILE; 'stet augment' "
                         "writes one");
    TRY(read_texts(c->texts, m, &s->texts));
    s->order = mem_alloc(s->texts.n_texts + 1, sizeof *s->order);
    return s->order ? STET_OK : STET_ENOMEM;
}

static stet_status add_texts(void *state, const step_view *v, step_texts *t)
{
    augment_state *s = state;
    const uint64_t epoch = v->step / v->steps_per_epoch, at = v->step % v->steps_per_epoch,
                   n = s->texts.n_texts;
    if (s->epoch != epoch + 1) {
        rng r = rng_stream(step_seed(v), STREAM_DEFENSE, epoch);
        rng_permutation(&r, s->order, (size_t)n);
        s->epoch = epoch + 1;
    }
    for (uint64_t k = at * n / v->steps_per_epoch; k < (at + 1) * n / v->steps_per_epoch; k++) {
        const uint32_t i = s->order[k];
        TRY(texts_add(t, s->texts.ids + s->texts.start[i],
                      (size_t)(s->texts.start[i + 1] - s->texts.start[i]), s->texts.label[i]));
    }
    return STET_OK;
}

const defense_desc defense_augment = {
    .name = "augment",
    .summary = "more training texts, such as adversarial ones",
    .opts = opts,
    .cfg_size = sizeof(augment_cfg),
    .start = start,
    .end = end,
    .batch = add_texts,
};
