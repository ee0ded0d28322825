/* tests/fuzz/fuzz_certificate.c - a line of a certificate file, about a small model in memory, and about
 * the same one that votes. */
#include "fuzz.h"

#include "verify/ver_votes.h"

static const float table[5][2] = {{0, 0}, {0.1f, 0}, {1, 0.5f}, {0.9f, 0.6f}, {-1, 0.2f}};
static const float conv_w[2 * 2 * 2] = {0.5f, -0.2f, 0.1f, 0.7f, -0.6f, 0.3f, 0.2f, 0.1f};
static const float conv_b[2] = {0.1f, 0.2f}, fc_w[4] = {-0.8f, 0.4f, 0.9f, -0.5f},
                   fc_b[2] = {0, 0.1f};

/* One kernel of width 2, two filters, two classes; words good, fine, bad. */
static stet_status small_model(ver_model *m)
{
    static const char *const words[] = {"<pad>", "<unk>", "good", "fine", "bad"};
    *m = (ver_model){.kind = &ver_cnn, .dim = 2, .classes = 2, .max_len = 64, .n_words = 5};
    TRY(ver_reader_find("word", &m->reads));
    m->table = &table[0][0];
    m->kernels = 1;
    m->filters = m->features = 2;
    m->k[0] = 2;
    m->conv_w[0] = conv_w;
    m->conv_b[0] = conv_b;
    m->fc_w = fc_w;
    m->fc_b = fc_b;
    for (size_t i = 0; i < 5; i++)
        TRY(strmap_add(&m->vocab, words[i], i < 2 ? 5 : i < 4 ? 4 : 3, NULL));
    return STET_OK;
}

static stet_status let_vote(ver_model *m)
{
    static const char how[] = "{\"name\":\"ranmask\",\"settings\":{\"ranmask-rate\":0.9,"
                              "\"ranmask-draws\":100,\"ranmask-error\":0.05}}";
    json_t *o;
    TRY(json_read_text("rule", how, sizeof how - 1, &o));
    const stet_status st = ver_votes_load(o, "", m);
    json_decref(o);
    return st;
}

static void check(const json_t *o, bool votes)
{
    ver_model m;
    arena mem = {0};
    ver_line l;
    stet_verify_result r = {.least = INFINITY};
    stet_status st = small_model(&m);
    ver_work w = {.m = &m};
    if (st == STET_OK && votes)
        st = let_vote(&m);
    if (st == STET_OK)
        st = ver_line_read(&m, o, &mem, &l);
    if (st == STET_OK)
        (void)ver_line_check(&w, &l, 1, &mem, &r);
    arena_deinit(&mem);
    ver_work_deinit(&w);
    ver_model_deinit(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *o;
    if (json_read_text("input", (const char *)data, size, &o) != STET_OK)
        return 0;
    check(o, false);
    check(o, true);
    json_decref(o);
    return 0;
}
