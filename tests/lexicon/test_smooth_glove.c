/* tests/lexicon/test_smooth_glove.c - smoothing real vectors: how far synonyms stay apart. */
#include "subst_test.h"

static uint32_t row_of(const stet_vectors *t, const stet_vocab *v, const char *word)
{
    const uint32_t row = stet_vocab_id(v, word, strlen(word));
    return t->known[row] ? row : STET_UNK;
}

/* Half the width of the box around a word and its substitutes: the mean over all words of the
 * vocabulary and all coordinates. */
static double mean_half_width(const stet_vectors *t, const stet_vocab *v, const stet_subst *s)
{
    double sum = 0;
    for (uint32_t w = 0; w < stet_subst_words(s); w++) {
        size_t n;
        const uint32_t *subs = stet_subst_of(s, w, &n);
        uint32_t row[16] = {row_of(t, v, stet_subst_word(s, w))}, rows = 1;
        for (size_t i = 0; i < n; i++) {
            const uint32_t r = row_of(t, v, stet_subst_word(s, subs[i]));
            if (r != STET_UNK)
                row[rows++] = r;
        }
        for (size_t c = 0; row[0] != STET_UNK && c < t->dim; c++) {
            float lo = t->data[row[0] * t->dim + c], hi = lo;
            for (size_t i = 1; i < rows; i++) {
                lo = fminf(lo, t->data[row[i] * t->dim + c]);
                hi = fmaxf(hi, t->data[row[i] * t->dim + c]);
            }
            sum += (hi - lo) / 2;
        }
    }
    return sum / (double)((t->n - STET_FIRST_WORD) * t->dim);
}

/* The 30,000 most frequent words of IMDB and Jia's sets without stop words as keys. Another program
 * measured these widths with another tokeniser (18,717 words with synonyms where ours finds 19,406,
 * so its widths are 4 % smaller). */
TEST(synonym_boxes_of_glove_shrink_as_measured)
{
    stet_dataset *d;
    stet_data_options how = STET_DATA_DEFAULTS;
    CHECK_OK(stet_dataset_load(test_data("imdb/train.tsv.xz"), &how, &d));
    stet_counter *count;
    stet_vocab *v;
    CHECK_OK(stet_counter_new(&count));
    CHECK_OK(stet_counter_add_dataset(count, d, STET_TOK_WORD));
    CHECK_OK(stet_vocab_build(count, 1, 30000, &v));
    stet_counter_free(count);
    stet_dataset_free(d);

    stet_subst_builder *b = builder_of(NULL);
    CHECK_OK(
        stet_subst_add_neighbours(b, test_data("counterfitted/counterfitted_neighbors.json.xz")));
    CHECK_OK(stet_subst_keep_vocab(b, v));
    CHECK_OK(stet_subst_drop_stop_words(b, test_data("postag/stopwords_english.txt")));
    stet_subst *s = built(b);

    stet_vectors raw;
    const char *path = test_data("glove/glove.6B.300d.core.txt.xz");
    CHECK_OK(stet_vectors_load(&path, 1, v, &raw));
    CHECK_NEAR(mean_half_width(&raw, v, s), 0.183, 0.05 * 0.183);
    float *copy = mem_alloc(raw.n * raw.dim, sizeof *copy);
    memcpy(copy, raw.data, raw.n * raw.dim * sizeof *copy);
    static const struct {
        double lambda, width;
    } measured[] = {{1, 0.032}, {2, 0.021}, {4, 0.013}, {10, 0.007}};
    for (size_t i = 0; i < 4; i++) {
        memcpy(raw.data, copy, raw.n * raw.dim * sizeof *copy);
        double residual;
        CHECK_OK(stet_vectors_smooth(&raw, v, s, measured[i].lambda, NULL, &residual));
        CHECK_LE(residual, 1e-6);
        CHECK_NEAR(mean_half_width(&raw, v, s), measured[i].width, 0.05 * measured[i].width);
    }
    mem_free(copy);
    stet_vectors_deinit(&raw);
    stet_subst_free(s);
    stet_vocab_free(v);
}
