/* Short sentences with small sets, where everything can be tried: `exhaustive` confirms every
 * verdict it can enumerate, and every success of an attack lies in the enumerated space. */
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "model/model_impl.h"
#include "stet/attack.h"
#include "test.h"

enum { SENTENCES = 120, DIM = 16, CANDIDATES = 2 };

typedef struct verdict {
    bool success, complete;
} verdict;

/* A random CNN on the words of the sentences and of the sets. */
static stet_model *random_model(const stet_dataset *d, const stet_sets *sets)
{
    stet_counter *c;
    stet_vocab *v;
    CHECK_OK(stet_counter_new(&c));
    CHECK_OK(stet_counter_add_dataset(c, d, STET_TOK_WORD));
    for (uint32_t i = 0; i < stet_subst_words(sets->words); i++)
        CHECK_OK(stet_counter_add_word(c, stet_subst_word(sets->words, i), 0));
    CHECK_OK(stet_vocab_build(c, 0, 0, &v));
    const size_t n = stet_vocab_size(v);
    float *data = mem_alloc(n * DIM, sizeof *data);
    rng r = rng_stream(5, STREAM_TEST, 0);
    for (size_t i = 0; i < n * DIM; i++)
        data[i] = (float)rng_normal(&r);
    unsigned char *known = mem_alloc(n, 1);
    memset(known, 1, n);
    stet_vectors t = {.n = n, .dim = DIM, .data = data, .known = known, .n_known = n};
    double residual; /* substitutes are nearer than other words, so that not every text breaks */
    CHECK_OK(stet_vectors_smooth(&t, v, sets->words, 2, NULL, &residual));
    static const char *const settings[] = {"filters=8", "kernels=1,2,3", NULL};
    const stet_model_new_args how = {.name = "cnn",
                                     .settings = settings,
                                     .vocab = v,
                                     .vectors = &t,
                                     .max_len = 64,
                                     .n_classes = 2,
                                     .seed = 2};
    stet_model *m;
    CHECK_OK(stet_model_new(&how, &m));
    mem_free(data);
    mem_free(known);
    stet_vocab_free(v);
    stet_counter_free(c);
    return m;
}

static stet_dataset *corpus(void)
{
    stet_dataset *d;
    stet_data_options how = STET_DATA_DEFAULTS;
    CHECK_OK(stet_dataset_load(test_data("sst2/dev.tsv.xz"), &how, &d));
    return d;
}

/* Random weights favour one class: move the last bias until neither is. */
static void centre(stet_model *m, const stet_dataset *d)
{
    double odds = 0;
    const size_t n = stet_dataset_size(d);
    for (size_t i = 0; i < n; i++) {
        float p[2];
        const stet_str text = stet_dataset_text(d, i);
        CHECK_OK(stet_model_predict(m, text.data, text.len, p, NULL));
        odds += log((double)p[1] / (double)p[0]) / (double)n;
    }
    model_value(m, (int)m->n_params - 1)[1] -= (real)odds;
}

/* Short sentences with the model's own answers as labels: all of them
 * right, some of them breakable. */
static stet_dataset *own_answers(const stet_dataset *d, const stet_model *m)
{
    stet_str text[SENTENCES];
    int label[SENTENCES];
    size_t n = 0;
    for (size_t i = 0; i < stet_dataset_size(d) && n < SENTENCES; i++) {
        text[n] = stet_dataset_text(d, i);
        CHECK_OK(stet_model_predict(m, text[n].data, text[n].len, NULL, &label[n]));
        n += text[n].len < 100;
    }
    CHECK_EQ(n, SENTENCES);
    stet_dataset *out;
    CHECK_OK(stet_dataset_new(text, label, n, NULL, 2, &out));
    return out;
}

static stet_sets small_sets(void)
{
    stet_subst_builder *b;
    stet_sets s = {0};
    CHECK_OK(stet_subst_builder_new(&b));
    CHECK_OK(stet_subst_add_neighbours(b, test_data("counterfitted/euc-top8-d0.7.json.xz")));
    CHECK_OK(stet_subst_keep_top(b, CANDIDATES));
    CHECK_OK(stet_subst_build(b, &s.words));
    stet_subst_builder_free(b);
    return s;
}

/* Every change of a success is a word of the set of the word it replaces. */
static void check_changes(const json_t *o, const stet_sets *sets)
{
    const json_t *changes = json_object_get(o, "changes"), *c;
    size_t i;
    CHECK_EQ(json_array_size(changes), json_integer_value(json_object_get(o, "changed")));
    json_array_foreach(changes, i, c)
    {
        const char *from = json_string_value(json_object_get(c, "from")),
                   *to = json_string_value(json_object_get(c, "to"));
        size_t n;
        const uint32_t *alt =
            stet_subst_of(sets->words, stet_subst_word_id(sets->words, from, strlen(from)), &n);
        bool found = false;
        for (size_t k = 0; k < n; k++)
            found = found || strcmp(stet_subst_word(sets->words, alt[k]), to) == 0;
        CHECK(found);
    }
}

static void run(stet_attack_args *a, const char *attack, verdict *out)
{
    char log[512];
    snprintf(log, sizeof log, "%s/%s-%s.jsonl", test_dir(), attack, a->profile);
    a->attack = attack;
    a->log = log;
    stet_attack_result r;
    CHECK_OK(stet_attack_run(a, &r));
    CHECK_EQ(r.correct, SENTENCES);
    CHECK_EQ(r.unconfirmed, 0);
    stream *f;
    CHECK_OK(stream_open(log, &f));
    json_t *o;
    stet_status st = STET_OK;
    while (json_next_line(f, &o, &st)) {
        if (!json_object_get(o, "settings")) {
            verdict *v = &out[json_integer_value(json_object_get(o, "index"))];
            v->success = strcmp(json_string_value(json_object_get(o, "outcome")), "success") == 0;
            v->complete = json_is_true(json_object_get(o, "complete"));
            if (v->success)
                check_changes(o, a->sets);
        }
        json_decref(o);
    }
    CHECK_OK(st);
    stream_close(f);
}

TEST(exhaustive_search_confirms_the_verdicts_on_short_sentences)
{
    static const char *const four[] = {"pwws", "ga", "pso", "textfooler"};
    static const char *const cap[] = {"exhaustive-cap=60000", NULL};
    stet_dataset *d = corpus();
    stet_sets sets = small_sets();
    stet_model *m = random_model(d, &sets);
    centre(m, d);
    stet_dataset *right = own_answers(d, m);
    stet_attack_args a = STET_ATTACK_DEFAULTS;
    a.model = m, a.data = right, a.sets = &sets;
    verdict exact[SENTENCES] = {0}, greedy[SENTENCES] = {0}, other[SENTENCES] = {0};
    a.settings = cap;
    run(&a, "exhaustive", exact);
    a.settings = NULL;
    run(&a, "greedy", greedy);
    size_t decided = 0, broken = 0, won[4] = {0}, won_greedy = 0;
    for (size_t i = 0; i < SENTENCES; i++) {
        decided += exact[i].complete;
        broken += exact[i].complete && exact[i].success;
        won_greedy += greedy[i].success;
        if (exact[i].complete) /* small spaces are searched as a whole by greedy, too */
            CHECK_EQ(greedy[i].success, exact[i].success);
    }
    CHECK(decided > SENTENCES / 2 && broken > 10 && broken < decided);
    for (const char *const *p = stet_attack_profiles(); *p; p++)
        for (size_t k = 0; k < 4; k++) {
            a.profile = *p;
            run(&a, four[k], other);
            won[k] = 0;
            for (size_t i = 0; i < SENTENCES; i++) {
                won[k] += other[i].success;
                if (exact[i].complete) /* nobody breaks what cannot be broken */
                    CHECK(!other[i].success || exact[i].success);
            }
            CHECK_LE(won[k], won_greedy);
        }
    stet_sets_free(&sets);
    stet_dataset_free(right);
    stet_dataset_free(d);
    stet_model_free(m);
}
