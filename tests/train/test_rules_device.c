/* tests/train/test_rules_device.c - models that answer by a rule, on a device whose memory nobody but a
 * kernel may touch: the same answers, attacks and certificates as on the host. */
#include <math.h>

#include "small_run.h"
#include "base/json.h"
#include "stet/attack.h"
#include "stet/certify.h"
#include "model/mixed_reference.h"
#include "model/rule.h"
#include "model/variants.h"
#include "stet/model.h"
#include "tensor/locked_store.h"

static size_t uploads;

static void counted_upload(store *s, void *to, const void *from, size_t bytes)
{
    uploads++;
    locked_copy(s, to, from, bytes);
}

static const char *device_there(void)
{
    static store_desc counting;
    if (!counting.name) {
        counting = locked_desc;
        counting.upload = counted_upload;
        CHECK_OK(store_register(&counting));
    }
    return counting.name;
}

static const char sets_json[] =
    "{\"good0\": [\"good1\", \"bad4\"], \"good1\": [\"good0\", \"bad4\"], "
    "\"bad0\": [\"bad1\", \"good4\"], \"bad1\": [\"bad0\", \"good4\"], "
    "\"bad2\": [\"bad3\", \"good4\"], \"word1\": [\"word2\"]}";

static stet_model *trained(const char *kind, const char *by, const char *const *settings)
{
    static char sets[256], out[256];
    snprintf(sets, sizeof sets, "%s", at("sets.json"));
    snprintf(out, sizeof out, "%s-%s", at(kind), by);
    CHECK_OK(file_write_all(sets, sets_json, strlen(sets_json)));
    stet_train_args a = small_run(kind, out);
    stet_train_result r;
    stet_model *m;
    a.patience = 0;
    a.synonyms = sets;
    a.defense = by;
    a.defense_settings = settings;
    CHECK_OK(stet_train(&a, &r));
    CHECK_OK(stet_model_load(out, &m));
    return m;
}

/* On our own device every upload is counted. */
static bool counted(const char *where)
{
    return where && strcmp(where, "cuda") != 0;
}

typedef struct measured {
    stet_scores scores;
    stet_attack_result attack;
    stet_certify_result proofs;
    bool certified;
} measured;

static measured measure(const stet_model *m, const stet_dataset *d, const stet_sets *words,
                        const char *where)
{
    measured r = {0};
    stet_corpus c;
    CHECK_OK(stet_model_encode(m, d, &c));
    uploads = 0;
    CHECK_OK(stet_model_scores_on(m, where, &c, &r.scores));
    CHECK_EQ(uploads > 0, counted(where));
    stet_corpus_deinit(&c);
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    a.model = m, a.data = d, a.sets = words, a.device = where;
    uploads = 0;
    CHECK_OK(stet_attack_run(&a, &r.attack));
    CHECK_EQ(uploads > 0, counted(where));
    stet_certify_args p = STET_CERTIFY_DEFAULTS;
    p.model = m, p.data = d, p.sets = words, p.device = where;
    uploads = 0;
    r.certified = stet_certify_run(&p, &r.proofs) == STET_OK;
    CHECK_EQ(uploads > 0, r.certified && counted(where));
    return r;
}

static void forget(measured *r)
{
    stet_scores_deinit(&r->scores);
    if (r->certified)
        stet_certify_result_deinit(&r->proofs);
}

/* Texts of all lengths, an empty one among them, asked together and by themselves. */
static void answers_belong_to_their_texts(const stet_model *m)
{
    enum { TEXTS = 700 };
    stet_dataset *d;
    stet_corpus c;
    float *all = mem_alloc(2 * TEXTS, sizeof *all), one[2];
    write_corpus(at("many.tsv"), TEXTS, 5);
    CHECK_OK(stet_dataset_load(at("many.tsv"), NULL, &d));
    CHECK_OK(stet_model_encode(m, d, &c));
    CHECK(c.n_texts == TEXTS && c.n_classes == 2);
    for (size_t i = 0; i < TEXTS; i++) /* a text ends earlier, and the next begins there */
        c.start[i + 1] -= (c.start[i + 1] - c.start[i]) * (i % 5) / 4;
    CHECK_OK(stet_model_logits(m, &c, all));
    for (size_t i = 0; i < TEXTS; i += 13) {
        const stet_corpus alone = {
            1, (size_t)(c.start[i + 1] - c.start[i]), c.n_classes, c.ids, c.start + i, c.label + i};
        CHECK_OK(stet_model_logits(m, &alone, one));
        for (size_t k = 0; k < 2; k++)
            CHECK_NEAR(all[2 * i + k], one[k], 1e-4);
    }
    mem_free(all);
    stet_corpus_deinit(&c);
    stet_dataset_free(d);
}

/* ---- a compiled model on that device ------------------------------------------------------ */

static size_t asked_texts, asked_mixtures;

static stet_status open_reference(const model *m, store *s, void **out)
{
    (void)s;
    model *network = mem_alloc(1, sizeof *network);
    memcpy(network, m, sizeof *network);
    network->rule = NULL;
    *out = network;
    return STET_OK;
}

static void close_reference(void *own, store *s)
{
    (void)s;
    mem_free(own);
}

static size_t one(const void *own)
{
    (void)own;
    return 1;
}

static stet_status reference_texts(const void *own, const edit_batch *b, float *room)
{
    (void)room;
    const size_t none[2] = {0, 0};
    for (size_t v = 0; v < b->n_variants; v++) {
        const uint32_t begin = b->first[b->of[v]], n = b->first[b->of[v] + 1] - begin;
        CHECK(n > 0 && n <= ((const model *)own)->max_len);
        CHECK_EQ(b->edit_at[v], b->edit_at[v + 1]);
        asked_texts++;
        TRY(variants_whole(own, b->word + begin, n, NULL, none, 1, b->logits + v * b->n_classes));
    }
    return STET_OK;
}

static stet_status no_weights(const mixed_batch *b)
{
    (void)b;
    return STET_OK;
}

static stet_status mixtures_by_hand(const void *own, const mixed_batch *b, float *room)
{
    (void)room;
    uint64_t *start = mem_alloc(b->n_texts + 1, sizeof *start);
    for (size_t i = 0; i <= b->n_texts; i++)
        start[i] = b->first[i];
    asked_mixtures += b->n_texts;
    const mixed_texts t = {b->n_texts, b->copies, b->alpha, start, b->slot_at, b->slot, b->seed};
    reference_mixtures(own, &t, b->logits);
    mem_free(start);
    return STET_OK;
}

static const answer_desc reference = {.kernels = DEV_CPU,
                                      .open = open_reference,
                                      .close = close_reference,
                                      .word_room = one,
                                      .variant_room = one,
                                      .texts = reference_texts,
                                      .text_room = one,
                                      .mixtures = mixtures_by_hand,
                                      .weights = no_weights};

/* A rule may ask about texts without a word, and about longer ones than the model reads. */
static void any_text_can_be_asked(const stet_model *m, const char *where)
{
    enum { LENGTHS = 4 };
    uint32_t ids[600];
    int32_t label[LENGTHS] = {0};
    uint64_t start[LENGTHS + 1] = {0, 0, 3, 600, 600};
    float here[2 * LENGTHS], there[2 * LENGTHS];
    answers *on;
    CHECK_LE(m->max_len, 596);
    for (uint32_t i = 0; i < 600; i++)
        ids[i] = STET_FIRST_WORD + i % 20;
    CHECK_OK(answers_open(m, where, &on));
    const model *asked = answers_model(on, m);
    CHECK(asked->place && asked->place->on == on);
    for (size_t first = 0; first < LENGTHS; first++) { /* from any text on */
        const size_t n = LENGTHS - first;
        const stet_corpus c = {n,    (size_t)(start[LENGTHS] - start[first]), 2, ids, start + first,
                               label};
        CHECK_OK(model_network_logits(m, &c, here));
        CHECK_OK(model_network_logits(asked, &c, there));
        for (size_t i = 0; i < 2 * n; i++)
            CHECK_NEAR(there[i], here[i], 1e-5);
        CHECK_OK(rule_logits_all(m, &c, here)); /* the same draws */
        CHECK_OK(rule_logits_all(asked, &c, there));
        for (size_t i = 0; i < 2 * n; i++)
            CHECK_NEAR(there[i], here[i], 1e-5);
    }
    answers_close(on);
}

/* ---- all rules ---------------------------------------------------------------------------- */

static void compare(const stet_model *m, bool has_certificates, const char *where)
{
    stet_dataset *d;
    stet_sets words;
    write_corpus(at("test.tsv"), 40, 2);
    CHECK_OK(stet_dataset_load(at("test.tsv"), NULL, &d));
    CHECK_OK(stet_sets_load(at("sets.json"), &words));
    measured here = measure(m, d, &words, NULL), there = measure(m, d, &words, where);
    CHECK_LE(0.6, here.scores.accuracy);
    CHECK_NEAR(there.scores.accuracy, here.scores.accuracy, 1e-12);
    CHECK_NEAR(there.scores.loss, here.scores.loss, 1e-4);
    CHECK_EQ(there.attack.succeeded, here.attack.succeeded);
    CHECK_EQ(there.attack.unconfirmed, 0);
    CHECK_EQ(here.attack.redraws, m->rule->desc->answers_draw ? 8 : 0);
    CHECK_EQ(there.attack.redraws, here.attack.redraws);
    CHECK_NEAR(there.attack.aua_redrawn, here.attack.aua_redrawn, 0.01);
    CHECK_EQ(isnan(there.attack.flips_stay), isnan(here.attack.flips_stay));
    if (!isnan(here.attack.flips_stay))
        CHECK_NEAR(there.attack.flips_stay, here.attack.flips_stay, 0.05);
    CHECK_NEAR(there.attack.queries_mean, here.attack.queries_mean, 1e-9);
    CHECK_EQ(there.certified, here.certified);
    CHECK_EQ(here.certified, has_certificates);
    for (int v = 0; here.certified && v < STET_VERDICTS; v++)
        CHECK_EQ(there.proofs.verdicts[v], here.proofs.verdicts[v]);
    forget(&here);
    forget(&there);
    stet_sets_free(&words);
    stet_dataset_free(d);
}

enum { RULES = 5, DNE = 3 };
static const char *const rules[RULES] = {"ranmask", "safer", "text-crs", "dne", "encode"};
static const char *const few[RULES][4] = {
    {"ranmask-rate=0.3", "ranmask-votes=21", "ranmask-draws=40"},
    {"safer-votes=7", "safer-draws=40"},
    {"crs-votes=7"},
    {"dne-draws=15"},
    {"encode-most=2"}};
static const bool has_certificates[RULES] = {true, true, false, false, true};

TEST(rules_answer_on_a_device_as_on_the_host)
{
    static const char *const models[] = {"cnn", "bert"};
    const char *where = device_there();
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < RULES; i++) {
            stet_model *m = trained(models[k], rules[i], few[i]);
            answers_belong_to_their_texts(m);
            compare(m, has_certificates[i], where);
            stet_model_free(m);
        }
}

/* ---- other draws -------------------------------------------------------------------------- */

/* What an attack on `m` said of its texts, asked again by hand. */
typedef struct asked_again {
    const stet_model *m;
    uint64_t first, mean_of; /* draws that the attack has not seen, and how many it has */
    size_t right, still, flips, untouched; /* untouched: wrong answers about what it flipped */
} asked_again;

static double probability(const stet_model *m, const char *text, uint64_t redraw, int label)
{
    float prob[2];
    rule r = *m->rule; /* the attack goes on meanwhile */
    model asked = model_at(m, NULL);
    asked.rule = &r;
    r.redraw = redraw;
    CHECK_OK(stet_model_predict(&asked, text, strlen(text), prob, NULL));
    return prob[label];
}

static void ask_again(void *user, const char *line)
{
    asked_again *a = user;
    json_t *o = NULL;
    const char *text, *name, *before;
    CHECK_OK(json_read_text("line", line, strlen(line), &o));
    CHECK_OK(json_get_str(o, "line", "text", &before));
    const bool flipped = json_object_get(o, "adversarial") != NULL;
    CHECK_OK(json_get_str(o, "line", flipped ? "adversarial" : "text", &text));
    CHECK_OK(json_get_str(o, "line", "label", &name));
    const int label = strcmp(stet_model_class_name(a->m, 1), name) == 0;
    a->flips += flipped;
    for (uint64_t k = 0; k < 8; k++) {
        const bool right = probability(a->m, text, a->first + k, label) > 0.5;
        a->right += right;
        a->still += flipped && !right;
        a->untouched += flipped && probability(a->m, before, a->first + k, label) <= 0.5;
    }
    double mean = 0;
    for (uint64_t k = 1; k <= a->mean_of; k++)
        mean += probability(a->m, text, k, label) / (double)a->mean_of;
    if (!a->mean_of)
        mean = probability(a->m, text, 0, label);
    const json_t *after = json_object_get(o, "after");
    if (flipped)
        CHECK_NEAR(json_number_value(after), mean, 1e-4);
    CHECK(!flipped || mean < 0.5);
    json_decref(o);
}

/* Odd numbers of votes: no ties. */
TEST(an_attack_says_what_other_draws_make_of_its_flips)
{
    stet_dataset *d;
    stet_sets words;
    write_corpus(at("test.tsv"), 40, 2);
    CHECK_OK(stet_dataset_load(at("test.tsv"), NULL, &d));
    size_t some = 0;
    for (int i = 0; i < RULES; i++) {
        stet_model *m = trained("cnn", rules[i], few[i]);
        CHECK_OK(stet_sets_load(at("sets.json"), &words));
        for (uint64_t n = 0; n <= 5; n += 5) {
            const char *const settings[] = {n ? "draws=5" : NULL, NULL};
            asked_again by_hand = {.m = m, .first = n + 1, .mean_of = n};
            stet_attack_args a = STET_ATTACK_DEFAULTS;
            stet_attack_result r;
            a.model = m, a.data = d, a.sets = &words, a.settings = settings;
            a.each = m->rule->desc->answers_draw ? ask_again : NULL, a.each_user = &by_hand;
            if (n && !a.each) {
                CHECK_FAILS(stet_attack_run(&a, &r), STET_EUSAGE, "this model draws nothing");
                continue;
            }
            CHECK_OK(stet_attack_run(&a, &r));
            CHECK_EQ(r.redraws, a.each ? 8 : 0);
            CHECK_EQ(by_hand.flips, a.each ? r.succeeded : 0);
            if (a.each) {
                CHECK_NEAR(r.aua_redrawn, (double)by_hand.right / 8 / (double)r.n, 1e-12);
                CHECK_EQ(isnan(r.flips_stay), by_hand.flips == 0);
            }
            if (by_hand.flips) {
                CHECK_NEAR(8 * r.flips_stay * (double)by_hand.flips, (double)by_hand.still, 1e-9);
                CHECK_NEAR(8 * r.untouched_wrong * (double)by_hand.flips, (double)by_hand.untouched,
                           1e-9);
            }
            some += r.flips_stay > 0 && r.flips_stay < 1;
        }
        stet_sets_free(&words);
        stet_model_free(m);
    }
    CHECK_LE(4, some);
    stet_dataset_free(d);
}

/* On the host too: the same draws, with what it keeps of words. */
TEST(rules_answer_alike_once_a_model_is_compiled)
{
    enum { TEXTS = 300, LEN = 23 };
    static uint32_t ids[TEXTS * LEN];
    static uint64_t start[TEXTS + 1];
    static int32_t label[TEXTS];
    static float before[2 * TEXTS], after[2 * TEXTS];
    rng r = rng_stream(1, STREAM_TEST, 77);
    for (size_t i = 0; i < TEXTS; i++) {
        start[i + 1] = (i + 1) * LEN;
        for (uint32_t t = 0; t < LEN; t++) /* variants of one text */
            ids[i * LEN + t] = STET_FIRST_WORD + (rng_below(&r, 9) ? t : (uint32_t)rng_below(&r, 20));
    }
    const stet_corpus c = {TEXTS, TEXTS * LEN, 2, ids, start, label};
    for (int i = 0; i < RULES; i++) {
        stet_model *m = trained("cnn", rules[i], few[i]);
        CHECK(!model_compiled_here(m));
        CHECK_OK(rule_logits_all(m, &c, before));
        CHECK_OK(stet_model_compile(m));
        CHECK(model_compiled_here(m));
        CHECK_OK(rule_logits_all(m, &c, after));
        for (size_t k = 0; k < 2 * TEXTS; k++)
            CHECK_NEAR(after[k], before[k], 1e-5);
        stet_model_free(m);
    }
}

/* There the rule's questions are answered for a compiled model, those of all threads together. */
TEST(rules_ask_a_compiled_model)
{
    static const char *const models[] = {"cnn", "bilstm", "s4"};
    const char *where = device_there();
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < RULES; i++) {
            stet_model *m = trained(models[k], rules[i], few[i]);
            model_desc desc = *m->desc;
            desc.answers = &reference;
            m->desc = &desc;
            asked_texts = asked_mixtures = 0;
            compare(m, has_certificates[i], where);
            CHECK_EQ(asked_mixtures > 0, i == DNE);
            CHECK_EQ(asked_texts > 0, i != DNE);
            any_text_can_be_asked(m, where);
            stet_model_free(m);
        }
}

TEST(rules_answer_on_a_gpu_as_on_the_host)
{
    static const char *const models[] = {"cnn", "bilstm", "s4"};
    store *s;
    if (store_open("cuda", &s) != STET_OK)
        SKIP(stet_last_error());
    store_close(s);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < RULES; i++) {
            stet_model *m = trained(models[k], rules[i], few[i]);
            compare(m, has_certificates[i], "cuda");
            stet_model_free(m);
        }
}
