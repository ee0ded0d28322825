/* text/corpus.c - a data set as rows of a model, or as word ids, read in parallel. */
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "text/dataset.h"
#include "text/words.h"

typedef struct piece_ids {
    uint32_t *ids;
    size_t n, cap, cut;
    stet_status status;
} piece_ids;

typedef struct encode_job {
    const stet_dataset *d;
    const word_reader *r;
    uint64_t *length; /* (n_texts) */
    piece_ids *piece;
} encode_job;

static stet_status encode_text(const encode_job *job, size_t text, stet_tokens *tokens,
                               piece_ids *p)
{
    const stet_str s = stet_dataset_text(job->d, text);
    const word_reader *r = job->r;
    TRY(reader_cut(r, s.data, s.len, tokens));
    const size_t n = r->max_len && tokens->n > r->max_len ? r->max_len : tokens->n;
    TRY(mem_grow(&p->ids, &p->cap, p->n + (n + 1) * r->most_rows, sizeof *p->ids));
    const size_t before = p->n;
    for (size_t k = 0; k < n; k++)
        p->n += reader_rows(r, stet_token_word(tokens, k), tokens->v[k].len, p->ids + p->n);
    if (n == 0 && r->rows && !r->framed) /* a word model's batches see to it themselves */
        p->n += r->rows(r, "<unk>", 5, p->ids + p->n);
    job->length[text] = p->n - before;
    p->cut += tokens->n > n || (r->max_rows && p->n - before > r->max_rows);
    return STET_OK;
}

static void encode_piece(void *ctx, size_t i, int worker)
{
    (void)worker;
    const encode_job *job = ctx;
    piece_ids *p = &job->piece[i];
    stet_tokens tokens = {0};
    size_t first, end;
    dataset_piece(job->d, i, &first, &end);
    for (size_t k = first; k < end && p->status == STET_OK; k++)
        p->status = encode_text(job, k, &tokens, p);
    stet_tokens_deinit(&tokens);
}

static void copy_labels(const stet_dataset *d, stet_corpus *out)
{
    out->n_texts = d->n;
    out->n_classes = stet_dataset_classes(d);
    memcpy(out->label, d->label, d->n * sizeof *d->label);
}

/* Lengths to starts, pieces to one array. */
static stet_status join(const encode_job *job, size_t n_pieces, stet_corpus *out)
{
    for (size_t i = 0; i < n_pieces; i++) {
        if (job->piece[i].status != STET_OK)
            return error_set(job->piece[i].status, "cannot tokenise: %s",
                             stet_status_text(job->piece[i].status));
        out->n_tokens += job->piece[i].n;
    }
    out->ids = mem_alloc(out->n_tokens, sizeof *out->ids);
    if (!out->ids)
        return STET_ENOMEM;
    uint32_t *to = out->ids;
    for (size_t i = 0; i < n_pieces; i++) {
        if (job->piece[i].n)
            memcpy(to, job->piece[i].ids, job->piece[i].n * sizeof *to);
        to += job->piece[i].n;
    }
    out->start[0] = 0;
    for (size_t i = 0; i < out->n_texts; i++)
        out->start[i + 1] += out->start[i];
    return STET_OK;
}

stet_status corpus_read(const stet_dataset *d, const word_reader *r, stet_corpus *out, size_t *cut)
{
    *out = (stet_corpus){0};
    const size_t n = dataset_pieces(d);
    out->start = mem_alloc(d->n + 1, sizeof *out->start);
    out->label = mem_alloc(d->n, sizeof *out->label);
    encode_job job = {d, r, NULL, mem_zalloc(n, sizeof *job.piece)};
    stet_status st = out->start && out->label && job.piece ? STET_OK : STET_ENOMEM;
    if (st == STET_OK) {
        job.length = out->start + 1;
        copy_labels(d, out);
        pool_run(n, encode_piece, &job);
        st = join(&job, n, out);
    }
    for (size_t i = 0; job.piece && i < n; i++) {
        if (cut)
            *cut = (i ? *cut : 0) + job.piece[i].cut;
        mem_free(job.piece[i].ids);
    }
    mem_free(job.piece);
    if (st != STET_OK)
        stet_corpus_deinit(out);
    return st;
}

stet_status stet_corpus_encode(const stet_dataset *d, const stet_vocab *v, stet_tokenizer kind,
                               size_t max_len, stet_corpus *out)
{
    const word_reader r = {.tokenizer = kind, .vocab = v, .max_len = max_len, .most_rows = 1};
    return corpus_read(d, &r, out, NULL);
}

void stet_corpus_deinit(stet_corpus *c)
{
    mem_free(c->ids);
    mem_free(c->start);
    mem_free(c->label);
    *c = (stet_corpus){0};
}
