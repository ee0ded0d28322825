/* tests/text/test_imdb.c - the real corpora: counts, known words, the same with any thread count.
 */
#include "stet/text.h"
#include "test.h"

static stet_dataset *load(const char *name)
{
    stet_dataset *d;
    CHECK_OK(stet_dataset_load(test_data(name), NULL, &d));
    return d;
}

TEST(imdb_has_its_texts_and_classes)
{
    stet_dataset *d = load("imdb/train.tsv.xz");
    CHECK_EQ(stet_dataset_size(d), 25000);
    CHECK_EQ(stet_dataset_classes(d), 2);
    size_t positive = 0;
    for (size_t i = 0; i < 25000; i++)
        positive += stet_dataset_label(d, i) == 1;
    CHECK_EQ(positive, 12500);
    stet_dataset_free(d);
}

TEST(other_corpora_have_their_texts_and_classes)
{
    static const struct {
        const char *name;
        size_t texts, classes;
    } sets[] = {
        {"sst2/train.tsv.xz", 67349, 2},          {"sst2/dev.tsv.xz", 872, 2},
        {"ag_news/test.tsv.xz", 7600, 4},         {"ag_news/train_subset_desc.tsv.xz", 10001, 4},
        {"newsgroups20/train.tsv.xz", 11296, 20}, {"newsgroups20/test.tsv.xz", 7516, 20}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        stet_dataset *d = load(sets[i].name);
        CHECK_EQ(stet_dataset_size(d), sets[i].texts);
        CHECK_EQ(stet_dataset_classes(d), sets[i].classes);
        stet_dataset_free(d);
    }
}

TEST(glove_knows_nearly_all_words_of_imdb)
{
    stet_vocab *glove;
    stet_counter *c;
    CHECK_OK(stet_counter_new(&c));
    /* The word list is a data set of unlabelled lines. */
    stet_dataset *words;
    const stet_data_options how = {.header = 0, .unlabelled = true, .format = STET_DATA_TSV};
    CHECK_OK(stet_dataset_load(test_data("glove/glove.6B.vocab.txt.xz"), &how, &words));
    CHECK_EQ(stet_dataset_size(words), 400000);
    for (size_t i = 0; i < stet_dataset_size(words); i++)
        CHECK_OK(stet_counter_add_word(c, stet_dataset_text(words, i).data, 1));
    CHECK_OK(stet_vocab_build(c, 1, 0, &glove));
    static const char *const names[] = {"imdb/train.tsv.xz", "imdb/test.tsv.xz"};
    for (int k = 0; k < 2; k++) {
        stet_dataset *d = load(names[k]);
        stet_corpus corpus;
        CHECK_OK(stet_corpus_encode(d, glove, STET_TOK_WORD, 0, &corpus));
        size_t known = 0;
        for (size_t i = 0; i < corpus.n_tokens; i++)
            known += corpus.ids[i] != STET_UNK;
        CHECK_LE(0.996, (double)known / (double)corpus.n_tokens);
        stet_corpus_deinit(&corpus);
        stet_dataset_free(d);
    }
    stet_vocab_free(glove);
    stet_counter_free(c);
    stet_dataset_free(words);
}

TEST(imdb_gives_the_same_vocabulary_with_one_thread_and_three)
{
    stet_dataset *d = load("imdb/test.tsv.xz");
    for (int kind = 0; kind < STET_TOK_COUNT; kind++) {
        uint64_t print[2];
        for (int k = 0; k < 2; k++) {
            stet_counter *c;
            stet_vocab *v;
            stet_set_threads(k ? 3 : 1);
            CHECK_OK(stet_counter_new(&c));
            CHECK_OK(stet_counter_add_dataset(c, d, (stet_tokenizer)kind));
            CHECK_OK(stet_vocab_build(c, 1, 0, &v));
            print[k] = stet_vocab_fingerprint(v);
            CHECK_LE(60000, stet_vocab_size(v));
            stet_vocab_free(v);
            stet_counter_free(c);
        }
        CHECK(print[0] == print[1]);
    }
    stet_dataset_free(d);
}
