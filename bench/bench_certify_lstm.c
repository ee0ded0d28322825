/* How many reviews a second can each bound of the BiLSTM take, and how wide are its tubes at the
 * end? Texts of 230 and 512 words of which 45 % have a set of 5.6 words on average, 64 units a
 * direction, vectors of 300, weights of a trained model's size. A method is timed together with
 * opening the text; "auto" is all four that it tries where nothing can be proved. */
#include "base/mem.h"
#include "bench.h"
#include "certify/cert_lstm.h"
#include "certify/certify_impl.h"
#include "imdb_batch.h"

enum { DIM = 300, SET = 6, VOCABULARY = 6000 };

typedef struct review {
    void *work;
    cert_task task;
    size_t first, end; /* methods */
    double margin;
    double drop[LONGEST];
    uint32_t worst[LONGEST], start[LONGEST + 1], word[LONGEST * SET];
} review;

static void must_be_ok(stet_status st)
{
    if (st != STET_OK) {
        fprintf(stderr, "%s\n", stet_last_error());
        exit(1);
    }
}

/* Words k SET .. k SET + SET - 1 are synonyms of each other: `spread` apart. */
static model *new_model(double spread, rng *r)
{
    char(*text)[8] = must(mem_alloc(VOCABULARY, sizeof *text));
    const char **words = must(mem_alloc(VOCABULARY, sizeof *words));
    float *data = must(mem_zalloc((VOCABULARY + STET_FIRST_WORD) * DIM, sizeof *data));
    for (size_t i = 0; i < VOCABULARY; i++) {
        snprintf(text[i], sizeof text[i], "w%u", (unsigned)i % 100000);
        words[i] = text[i];
        float *v = data + (i + STET_FIRST_WORD) * DIM;
        for (size_t j = 0; j < DIM; j++)
            v[j] = i % SET ? v[j - i % SET * DIM] + (float)(spread * rng_normal(r))
                           : (float)(0.4 * rng_normal(r));
    }
    stet_vocab *vocab;
    must_be_ok(stet_vocab_from_words(words, VOCABULARY, &vocab));
    const stet_vectors vectors = {.n = VOCABULARY + STET_FIRST_WORD, .dim = DIM, .data = data};
    const stet_model_new_args how = {.name = "bilstm",
                                     .vocab = vocab,
                                     .vectors = &vectors,
                                     .max_len = LONGEST,
                                     .n_classes = 2,
                                     .seed = 1};
    model *m;
    must_be_ok(stet_model_new(&how, &m));
    must_be_ok(stet_model_compile(m));
    stet_vocab_free(vocab);
    mem_free(data);
    mem_free(words);
    mem_free(text);
    return m;
}

static void new_review(review *x, size_t n, rng *r)
{
    x->start[0] = 0;
    for (size_t p = 0; p < n; p++) {
        const uint32_t set = (uint32_t)rng_below(r, VOCABULARY / SET) * SET + STET_FIRST_WORD;
        const uint32_t own = (uint32_t)rng_below(r, SET), count = rng_double(r) < 0.45 ? SET : 1;
        for (uint32_t k = 0; k < count; k++)
            x->word[x->start[p] + k] = set + (own + k) % SET;
        x->start[p + 1] = x->start[p] + count;
    }
    x->task =
        (cert_task){.n = n, .start = x->start, .word = x->word, .budget = STET_ANY, .label = 1};
}

static void certify(void *ctx)
{
    review *x = ctx;
    must_be_ok(cert_bilstm.open(x->work, &x->task));
    for (size_t method = x->first; method < x->end; method++) {
        cert_bound b = {.drop = x->drop, .worst = x->worst};
        must_be_ok(cert_bilstm.bound(x->work, method, 0, 0, &b));
        x->margin = b.margin;
    }
}

/* A bound says nothing if the clean text itself is below it. */
static double above_clean(review *x, const model *m)
{
    uint32_t ids[LONGEST];
    for (size_t p = 0; p < x->task.n; p++)
        ids[p] = x->word[x->start[p]];
    stet_view *view;
    must_be_ok(stet_view_open(m, NULL, ids, x->task.n, &view));
    const float *logits = stet_view_logits(view);
    const double clean = (double)logits[1] - (double)logits[0];
    stet_view_free(view);
    certify(x);
    return fmax(0, x->margin - clean);
}

static void bench(size_t n, double spread)
{
    rng r = rng_stream(1, STREAM_TEST, n);
    model *m = new_model(spread, &r);
    review *x = must(mem_zalloc(1, sizeof *x));
    void *shared;
    must_be_ok(cert_bilstm.prepare(m, &shared));
    must_be_ok(cert_bilstm.work_new(shared, &x->work));
    new_review(x, n, &r);
    char what[64];
    snprintf(what, sizeof what, "%zu words, %g apart", n, spread);
    bench_rate(what, "opening", bench_measure(certify, x), 1, "texts/s");
    for (size_t method = 0; cert_bilstm.methods[method]; method++) {
        x->first = method;
        x->end = method + 1;
        bench_check(what, above_clean(x, m), 0);
        bench_rate(what, cert_bilstm.methods[method], bench_measure(certify, x), 1, "texts/s");
    }
    x->first = 0;
    x->end = cert_bilstm.n_auto;
    bench_rate(what, "auto", bench_measure(certify, x), 1, "texts/s");
    cert_bilstm.work_free(x->work);
    cert_bilstm.shared_free(shared);
    mem_free(x);
    stet_model_free(m);
}

int main(int argc, char **argv)
{
    bench_start(argc, argv, "certify_lstm", "certificates of BiLSTMs, texts a second and core");
    bench(230, 0.01);
    bench(230, 0.1);
    bench(512, 0.01);
    return bench_finish();
}
