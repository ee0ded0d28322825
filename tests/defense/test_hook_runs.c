/* Defences in whole runs: vectors, tensors and saved state through training, interruption and other
 * devices; prediction rules wherever a trained model is asked. */
#include "train/small_run.h"

#include "alloc_fail.h"
#include "model/model_impl.h"
#include "stet/attack.h"
#include "stet/certify.h"
#include "tensor/locked_store.h"
#include "tensor/safetensors.h"
#include "toy_defenses.h"
#include "verify/ver_impl.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- whole runs --------------------------------------------------------------------------- */

static stet_train_args run_with(const char *defense, const char *const *settings, const char *out)
{
    stet_train_args a = small_run("cnn", out);
    static char sets[256];
    snprintf(sets, sizeof sets, "%s", at("sets"));
    write_sets(sets);
    a.synonyms = sets;
    a.defense = defense;
    a.defense_settings = settings;
    a.patience = 0;
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
    stet_train_args a = run_with("standard", NULL, at("plain"));
    stet_model *plain = trained(&a);
    a = run_with("mirror,gbm", SETTINGS("mirror=-0.5"), at("mirrored"));
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
    stet_train_args a = run_with("gbm", NULL, at("asked"));
    a.smooth = 2.5;
    a.smooth_frequency = 0.5;
    stet_model *asked = trained(&a);
    stet_train_result r;
    a = run_with("smooth,gbm", SETTINGS("smooth=2.5", "smooth-frequency=0.5"), at("named"));
    stet_model *named = trained(&a);
    CHECK_EQ(stet_model_fingerprint(asked), stet_model_fingerprint(named));
    a = run_with("smooth,gbm", NULL, at("four")); /* its default */
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
    a = run_with("smooth,gbm", NULL, at("none"));
    a.smooth = 0; /* none, whatever is listed */
    stet_model *none = trained(&a);
    a = run_with("gbm", NULL, at("plain"));
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
    stet_train_args a = run_with("scale", NULL, at("slow"));
    stet_model *slow = trained(&a);
    a = run_with("scale", NULL, at("fast"));
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

/* Every hook at once; the tensors of defences and what they save are in the checkpoint. */
TEST(a_run_with_every_hook_resumes_to_the_same_bytes)
{
    static const char list[] = "mirror,strike,drop,push,scale,clip,vote";
    stet_train_result r;
    stet_train_args a = run_with(list, SETTINGS("votes=5", "push-steps=2"), at("whole"));
    CHECK_OK(stet_train(&a, &r));
    a.out = at("parts");
    int left = 13;
    stet_set_progress(interrupt_after, &left);
    CHECK_FAILS(stet_train(&a, &r), STET_EINTR, "--resume");
    stet_interrupt_clear();
    stet_set_progress(NULL, NULL);
    a.resume = true;
    CHECK_OK(stet_train(&a, &r));
    same_files(at("whole"), at("parts"));
    stet_train_args locked = run_with(list, SETTINGS("votes=5", "push-steps=2"), at("locked"));
    CHECK_OK(store_register(&locked_desc)); /* where only kernels may look into a tensor */
    locked.device = "locked";
    CHECK_OK(stet_train(&locked, &r));
    same_files(at("whole"), at("locked"));
    char *salt = text_of(at("parts"), "salt.txt");
    CHECK_STR(salt, "4711\n");
    mem_free(salt);
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
    stet_train_args a = run_with("vote", SETTINGS("votes=15"), at("voting"));
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
    stet_train_args a = run_with("reverse", NULL, at("backwards"));
    stet_model *m = trained(&a);
    asked_texts t;
    open_texts(&a, &t);
    stet_attack_args attack = STET_ATTACK_DEFAULTS;
    attack.model = m, attack.data = t.data, attack.sets = &t.sets, attack.attack = "greedy";
    stet_attack_result r;
    CHECK_OK(stet_attack_run(&attack, &r));
    stet_corpus c;
    static float logits[300 * 2];
    CHECK_OK(stet_model_encode(m, t.data, &c));
    CHECK_OK(model_network_logits(m, &c, logits));
    size_t wrong = 0; /* of the network: right by the rule */
    for (size_t i = 0; i < c.n_texts; i++)
        wrong += stet_argmax(logits + 2 * i, 2) != c.label[i];
    CHECK(r.n == 300 && r.errors == 0 && r.correct == wrong && wrong != 150);
    stet_corpus_deinit(&c);
    stet_certify_args certify = STET_CERTIFY_DEFAULTS;
    certify.model = m, certify.data = t.data, certify.sets = &t.sets;
    stet_certify_result none;
    CHECK_FAILS(stet_certify_run(&certify, &none), STET_ENOTSUP,
                "prediction rule 'reverse', for which there are no certificates");
    stet_certifier *one;
    CHECK_FAILS(stet_certifier_new(m, &certify.how, &one), STET_ENOTSUP, "'reverse'");
    close_texts(&t);
    stet_model_free(m);
}

TEST(what_draws_make_likely_is_not_counted_with_proofs)
{
    stet_train_args a = run_with("vote", SETTINGS("vote-drop=0.1"), at("voting"));
    stet_model *m = trained(&a);
    asked_texts t;
    open_texts(&a, &t);
    stet_certify_args args = STET_CERTIFY_DEFAULTS;
    args.model = m, args.data = t.data, args.sets = &t.sets;
    stet_certify_result r;
    CHECK_OK(stet_certify_run(&args, &r));
    CHECK(r.n == 300 && r.likely > 0.5 && r.certified == 0);
    CHECK_EQ(r.verdicts[STET_LIKELY] + r.verdicts[STET_UNDECIDED] + r.verdicts[STET_WRONG], r.n);
    CHECK(r.margin_lo == 0 && r.margin_hi == 0 && r.n_budget == 1 && *r.method == '\0');
    CHECK_EQ(r.budget_at_least[0], 0); /* nothing is proved of any number of words */
    stet_certify_result_deinit(&r);
    /* it has a file, of no rule that the checker knows */
    args.file = at("certificates.jsonl");
    CHECK_OK(stet_certify_run(&args, &r));
    CHECK(r.likely > 0.5 && r.confidence == 0.99);
    stet_certify_result_deinit(&r);
    char *lines;
    size_t size;
    CHECK_OK(file_read_all(args.file, 1 << 24, &lines, &size));
    CHECK(strstr(lines, "\"statistical\":true,\"rule\":{\"name\":\"vote\","));
    CHECK(strstr(lines, "\"votes\":{\"agree\":") && !strstr(lines, "\"claims\""));
    mem_free(lines);
    stet_verify_result v;
    CHECK_FAILS(stet_verify_file(args.file, a.out, NULL, &v), STET_ENOTSUP, "cannot be checked");
    const rule_desc *vote = m->rule->desc; /* one that draws nothing has none */
    rule_desc proves = *vote;
    proves.confidence = NULL;
    m->rule->desc = &proves;
    CHECK_EQ(unlink(args.file), 0);
    CHECK_FAILS(stet_certify_run(&args, &r), STET_ENOTSUP, "'vote' leave nothing");
    CHECK(!file_exists(args.file));
    m->rule->desc = vote;
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
    stet_train_args a = run_with("vote", NULL, at("voting"));
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

/* ---- memory -------------------------------------------------------------------------------- */

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
    stet_train_args a = run_with("vote", SETTINGS("votes=2"), at("voting"));
    a.epochs = 1;
    stet_model_free(trained(&a));
    CHECK_LE(8, ALLOC_FAIL_LOOP(load_and_ask, (void *)(uintptr_t)a.out));
}
