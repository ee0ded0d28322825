/* text/vectors_save.c - writing vectors: pieces of rows become bytes in parallel and go out in
 * order. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/pool.h"
#include "stet/text.h"
#include "text/float_text.h"
#include "text/outfile.h"

enum { PIECE_ROWS = 64, PIECES = 64 };

typedef struct save_job {
    const stet_vectors *t;
    const stet_vocab *v;
    bool binary;
    size_t first; /* row of piece 0 */
    buf piece[PIECES];
} save_job;

static void append_text(buf *b, const float *row, size_t dim)
{
    for (size_t k = 0; k < dim; k++) {
        char text[1 + FLOAT_TEXT_MAX] = {' '};
        buf_bytes(b, text, (size_t)(float_format(row[k], text + 1) - text));
    }
}

static void append_binary(buf *b, const float *row, size_t dim)
{
    buf_char(b, ' ');
    for (size_t k = 0; k < dim; k++) {
        uint32_t bits;
        memcpy(&bits, &row[k], sizeof bits);
        const unsigned char bytes[4] = {bits & 255, bits >> 8 & 255, bits >> 16 & 255, bits >> 24};
        buf_bytes(b, bytes, sizeof bytes);
    }
}

static void format_piece(void *ctx, size_t i, int worker)
{
    (void)worker;
    save_job *const job = ctx;
    const stet_vectors *const t = job->t;
    const size_t first = job->first + i * PIECE_ROWS, end = first + PIECE_ROWS;
    for (size_t row = first; row < end && row < t->n; row++) {
        if (!t->known[row])
            continue;
        buf_str(&job->piece[i], stet_vocab_word(job->v, (uint32_t)row));
        (job->binary ? append_binary : append_text)(&job->piece[i], t->data + row * t->dim, t->dim);
        buf_char(&job->piece[i], '\n');
    }
}

static stet_status write_rows(save_job *job, outfile *f)
{
    for (job->first = STET_FIRST_WORD; job->first < job->t->n; job->first += PIECE_ROWS * PIECES) {
        pool_run(PIECES, format_piece, job);
        for (size_t i = 0; i < PIECES; i++) {
            buf *const b = &job->piece[i];
            if (buf_status(b) != STET_OK)
                return error_set(buf_status(b), "out of memory while writing vectors");
            if (b->n > 0)
                TRY(outfile_write(f, b->data, b->n));
            buf_clear(b);
        }
    }
    return STET_OK;
}

static stet_status save(const stet_vectors *t, const stet_vocab *v, const char *path, bool binary)
{
    if (stet_vocab_size(v) != t->n)
        return error_set(STET_EUSAGE, "%zu vectors do not belong to a vocabulary of %zu", t->n,
                         stet_vocab_size(v));
    save_job job = {.t = t, .v = v, .binary = binary};
    outfile *f;
    TRY(outfile_open(path, &f));
    stet_status st = STET_OK;
    if (binary) {
        char header[64];
        const int n = snprintf(header, sizeof header, "%zu %zu\n", t->n_known, t->dim);
        st = outfile_write(f, header, (size_t)n);
    }
    if (st == STET_OK)
        st = write_rows(&job, f);
    st = outfile_close(f, st);
    for (size_t i = 0; i < PIECES; i++)
        buf_deinit(&job.piece[i]);
    return st;
}

stet_status stet_vectors_save_text(const stet_vectors *t, const stet_vocab *v, const char *path)
{
    return save(t, v, path, false);
}

stet_status stet_vectors_save_binary(const stet_vectors *t, const stet_vocab *v, const char *path)
{
    for (size_t i = STET_FIRST_WORD; i < t->n && i < stet_vocab_size(v); i++)
        if (t->known[i] && strchr(stet_vocab_word(v, (uint32_t)i), ' '))
            return error_set(STET_EUSAGE,
                             "%s: word2vec's binary format cannot hold the word \"%s\"", path,
                             stet_vocab_word(v, (uint32_t)i));
    return save(t, v, path, true);
}
