/* tests/lexicon/test_builtin.c - the built-in corpus: reproducible, balanced, readable, and as hard
 * and as misleading as it is meant to be. */
#include <ctype.h>

#include "alloc_fail.h"
#include "base/rng.h"
#include "subst_test.h"

static stet_dataset *corpus(size_t n, uint64_t seed)
{
    stet_dataset *d;
    CHECK_OK(stet_builtin_corpus(n, seed, &d));
    CHECK_EQ(stet_dataset_size(d), n);
    return d;
}

TEST(a_review_depends_on_the_seed_and_its_number_alone)
{
    stet_dataset *a = corpus(50, 7), *b = corpus(40, 7), *c = corpus(40, 8);
    size_t same = 0;
    for (size_t i = 0; i < 40; i++) {
        CHECK_STR(stet_dataset_text(a, i).data, stet_dataset_text(b, i).data);
        CHECK_EQ(stet_dataset_label(a, i), stet_dataset_label(b, i));
        same += strcmp(stet_dataset_text(a, i).data, stet_dataset_text(c, i).data) == 0;
    }
    CHECK_EQ(same, 0);
    stet_dataset_free(a);
    stet_dataset_free(b);
    stet_dataset_free(c);
}

TEST(both_classes_have_half_of_the_reviews)
{
    stet_dataset *d = corpus(1000, 1);
    CHECK_EQ(stet_dataset_classes(d), 2);
    CHECK_STR(stet_dataset_class_name(d, 0), "negative");
    CHECK_STR(stet_dataset_class_name(d, 1), "positive");
    size_t positive = 0, alternating = 0;
    for (size_t i = 0; i < 1000; i++) {
        positive += stet_dataset_label(d, i) == 1;
        alternating += i > 0 && stet_dataset_label(d, i) != stet_dataset_label(d, i - 1);
    }
    CHECK_EQ(positive, 500);
    CHECK_LE(700, alternating); /* one of each in every two, in random order: 3/4 */
    CHECK_LE(alternating, 800);
    stet_dataset_free(d);
}

TEST(reviews_are_sentences_and_some_of_them_are_brief)
{
    size_t brief = 0;
    stet_dataset *d = corpus(3000, 2);
    for (size_t i = 0; i < 3000; i++) {
        const stet_str t = stet_dataset_text(d, i);
        size_t words = 1;
        for (size_t j = 0; j < t.len; j++) {
            words += t.data[j] == ' ';
            CHECK(!strchr("{}~", t.data[j]) && t.data[j] >= ' ');
            if (t.data[j] == ' ') /* one space between words, none before a mark */
                CHECK(isalpha((unsigned char)t.data[j + 1]));
        }
        brief += words <= 20;
        CHECK_LE(words, 120);
        CHECK(isupper((unsigned char)t.data[0]));
        CHECK(strchr(".?", t.data[t.len - 1]));
        CHECK(!strstr(t.data, " a a") && !strstr(t.data, " a e") && !strstr(t.data, " an b"));
    }
    CHECK_NEAR((double)brief / 3000, 0.3, 0.05);
    stet_dataset_free(d);
}

TEST(families_are_symmetric_and_apart)
{
    stet_subst *s;
    CHECK_OK(stet_builtin_subst(&s));
    stet_subst_stats st;
    CHECK_OK(stet_subst_stats_of(s, NULL, STET_TOK_WORD, &st));
    CHECK_NEAR(st.symmetric_share, 1, 0);
    CHECK_EQ(st.replaceable, st.words);
    CHECK_LE(300, st.words);
    CHECK_LE(st.largest_component, 7); /* no word is in two families */
    CHECK_LIST(s, "film", "movie picture feature flick");
    CHECK_LIST(s, "dull", "boring tedious tiresome dreary");
    stet_subst_free(s);
}

/* ---- a linear classifier ------------------------------------------------------------------ */

/* Logistic regression on the set of words of a text, or of their families. */
typedef struct linear {
    stet_vocab *v;
    const stet_subst *s;
    bool families;
    double *w, bias;
} linear;

/* The ids of a text's words, each once; -1 marks repeats. */
static size_t features(const linear *m, const stet_corpus *c, size_t i, uint32_t *out)
{
    size_t n = 0;
    for (uint64_t p = c->start[i]; p < c->start[i + 1]; p++) {
        uint32_t id = c->ids[p];
        if (m->families && id >= STET_FIRST_WORD) { /* the family's first word stands for it */
            const char *word = stet_vocab_word(m->v, id);
            size_t k;
            const uint32_t *subs =
                stet_subst_of(m->s, stet_subst_word_id(m->s, word, strlen(word)), &k);
            for (size_t j = 0; j < k; j++) {
                const char *sub = stet_subst_word(m->s, subs[j]);
                const uint32_t other = stet_vocab_id(m->v, sub, strlen(sub));
                id = other >= STET_FIRST_WORD && other < id ? other : id;
            }
        }
        bool seen = false;
        for (size_t j = 0; j < n; j++)
            seen |= out[j] == id;
        if (!seen)
            out[n++] = id;
    }
    return n;
}

static double score(const linear *m, const uint32_t *ids, size_t n)
{
    double z = m->bias;
    for (size_t j = 0; j < n; j++)
        z += m->w[ids[j]];
    return z;
}

static void fit(linear *m, const stet_corpus *c)
{
    uint32_t ids[256], *order = mem_alloc(c->n_texts, sizeof *order);
    m->w = mem_zalloc(stet_vocab_size(m->v), sizeof *m->w);
    m->bias = 0;
    for (int epoch = 0; epoch < 10; epoch++) {
        rng r = rng_stream(1, STREAM_SHUFFLE, (uint64_t)epoch);
        rng_permutation(&r, order, c->n_texts);
        for (size_t i = 0; i < c->n_texts; i++) {
            const size_t n = features(m, c, order[i], ids);
            const double p = 1 / (1 + exp(-score(m, ids, n)));
            const double step = 0.1 / (1 + epoch) * (c->label[order[i]] - p);
            m->bias += step;
            for (size_t j = 0; j < n; j++)
                m->w[ids[j]] += step;
        }
    }
    mem_free(order);
}

static double accuracy(const linear *m, const stet_corpus *c)
{
    uint32_t ids[256];
    size_t right = 0;
    for (size_t i = 0; i < c->n_texts; i++)
        right += (score(m, ids, features(m, c, i, ids)) > 0) == (c->label[i] == 1);
    return (double)right / (double)c->n_texts;
}

/* Every word replaced by the worst of its family: exact for a linear model. */
static double accuracy_under_attack(const linear *m, const stet_corpus *c)
{
    uint32_t ids[256];
    size_t right = 0;
    for (size_t i = 0; i < c->n_texts; i++) {
        const double sign = c->label[i] == 1 ? 1 : -1;
        const size_t n = features(m, c, i, ids);
        double z = m->bias;
        for (size_t j = 0; j < n; j++) {
            double worst = m->w[ids[j]];
            const char *word = stet_vocab_word(m->v, ids[j]);
            size_t k;
            const uint32_t *subs =
                stet_subst_of(m->s, stet_subst_word_id(m->s, word, strlen(word)), &k);
            for (size_t q = 0; q < k; q++) {
                const char *sub = stet_subst_word(m->s, subs[q]);
                const double w = m->w[stet_vocab_id(m->v, sub, strlen(sub))];
                worst = sign * w < sign * worst ? w : worst;
            }
            z += worst;
        }
        right += sign * z > 0;
    }
    return (double)right / (double)c->n_texts;
}

TEST(a_word_counter_is_good_and_fooled_a_family_counter_is_neither)
{
    stet_dataset *train = corpus(6000, 1), *test = corpus(2000, 2);
    stet_subst *s;
    CHECK_OK(stet_builtin_subst(&s));
    stet_counter *count;
    linear m = {.s = s};
    CHECK_OK(stet_counter_new(&count));
    CHECK_OK(stet_counter_add_dataset(count, train, STET_TOK_WORD));
    CHECK_OK(stet_vocab_build(count, 1, 0, &m.v));
    stet_counter_free(count);
    CHECK_LE(stet_vocab_size(m.v), 800);
    stet_corpus a, b;
    CHECK_OK(stet_corpus_encode(train, m.v, STET_TOK_WORD, 0, &a));
    CHECK_OK(stet_corpus_encode(test, m.v, STET_TOK_WORD, 0, &b));

    fit(&m, &a);
    const double words = accuracy(&m, &b), attacked = accuracy_under_attack(&m, &b);
    mem_free(m.w);
    m.families = true;
    fit(&m, &a);
    const double merged = accuracy(&m, &b);
    mem_free(m.w);
    printf("  words %.3f, under attack %.3f, families %.3f\n", words, attacked, merged);
    CHECK_LE(0.90, words);
    CHECK_LE(words, 0.96);
    CHECK_LE(attacked, 0.15);
    CHECK_LE(0.85, merged);
    CHECK_LE(merged, words - 0.02);

    stet_corpus_deinit(&a);
    stet_corpus_deinit(&b);
    stet_vocab_free(m.v);
    stet_subst_free(s);
    stet_dataset_free(train);
    stet_dataset_free(test);
}

static stet_status make_and_release(void *ctx)
{
    (void)ctx;
    stet_dataset *d;
    TRY(stet_builtin_corpus(3, 1, &d));
    stet_dataset_free(d);
    return STET_OK;
}

TEST(the_corpus_survives_every_failed_allocation)
{
    CHECK_LE(4, ALLOC_FAIL_LOOP(make_and_release, NULL));
}
