/* Blocks to hold out, and the settings that no other beats. */
#include <math.h>

#include "stet/sweep.h"
#include "test.h"

static stet_dataset *data(size_t n)
{
    stet_str text[40];
    int label[40];
    char words[40][8];
    const char *names[] = {"a", "b"};
    for (size_t i = 0; i < n; i++) {
        snprintf(words[i], sizeof words[i], "w%zu", i);
        text[i] = (stet_str){words[i], strlen(words[i])};
        label[i] = i % 3 == 0; /* a third of them */
    }
    stet_dataset *d;
    CHECK_OK(stet_dataset_new(text, label, n, names, 2, &d));
    return d;
}

TEST(blocks_are_stretches_of_every_class_and_cover_the_data)
{
    stet_dataset *d = data(30);
    bool seen[30] = {0};
    for (size_t b = 0; b < 5; b++) {
        stet_dataset *in, *out;
        CHECK_OK(stet_block_cut(d, b, 0.2, &in, &out));
        CHECK_EQ(stet_dataset_size(in), 6);
        CHECK_EQ(stet_dataset_size(out), 24);
        size_t of_b = 0, at = 0, last = 0;
        for (size_t i = 0; i < 6; i++) {
            const stet_str t = stet_dataset_text(in, i);
            size_t k = 0;
            CHECK_EQ(sscanf(t.data, "w%zu", &k), 1);
            CHECK(!seen[k]);
            seen[k] = true;
            of_b += stet_dataset_label(in, i) == 1;
            last = k;
        }
        CHECK_EQ(of_b, 2);
        CHECK(b > 0 || last == 29);     /* the last block is the first */
        for (size_t i = 0; i < 24; i++) /* the rest, in its order */
            for (; at < 30; at++) {
                const stet_str x = stet_dataset_text(out, i), y = stet_dataset_text(d, at);
                if (x.len == y.len && memcmp(x.data, y.data, x.len) == 0)
                    break;
            }
        CHECK(at < 30);
        stet_dataset_free(in);
        stet_dataset_free(out);
    }
    for (size_t i = 0; i < 30; i++)
        CHECK(seen[i]);
    stet_dataset_free(d);
}

TEST(blocks_that_cannot_be_are_told)
{
    stet_dataset *d = data(3), *in, *out;
    CHECK_FAILS(stet_block_cut(d, 1, 0.1, &in, &out), STET_EUSAGE, "too few");
    CHECK(in == NULL && out == NULL);
    CHECK_FAILS(stet_block_cut(d, 2, 0.5, &in, &out), STET_EUSAGE, "2 blocks");
    CHECK_FAILS(stet_block_cut(d, 0, 0.6, &in, NULL), STET_EUSAGE, "share");
    CHECK_FAILS(stet_block_cut(d, 0, (double)NAN, &in, NULL), STET_EUSAGE, "share");
    CHECK_OK(stet_block_cut(d, 0, 0.5, NULL, &out));
    stet_dataset_free(out);
    stet_dataset_free(d);
}

TEST(the_frontier_is_what_no_other_beats)
{
    const double clean[] = {0.9, 0.8, 0.7, 0.9, 0.85, 0.95, 0.6},
                 proved[] = {0.5, 0.6, 0.65, 0.5, 0.55, (double)NAN, 0.65};
    size_t chosen[7];
    CHECK_EQ(stet_frontier(clean, proved, 7, chosen), 4);
    const size_t want[] = {2, 1, 4, 0}; /* of the equals 0 and 3 the first; 6 is beaten by 2 */
    for (size_t i = 0; i < 4; i++)
        CHECK_EQ(chosen[i], want[i]);
    CHECK_EQ(stet_frontier(clean, proved, 0, chosen), 0);
    double mean, spread;
    stet_mean_spread((const double[]){1, 2, 6}, 3, &mean, &spread);
    CHECK_NEAR(mean, 3, 1e-15);
    CHECK_NEAR(spread, sqrt(7), 1e-15);
    stet_mean_spread(clean, 1, &mean, &spread);
    CHECK_NEAR(spread, 0, 0);
    stet_mean_spread(clean, 0, &mean, &spread);
    CHECK(isnan(mean));
}
