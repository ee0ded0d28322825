/* model/variants.c - see variants.h: each variant is written out and read as a text of its own. */
#include "model/variants.h"

#include <string.h>

#include "base/mem.h"

enum { AT_ONCE = 256 };

static void write_out(const uint32_t *ids, size_t len, const stet_edit *edits, const size_t *start,
                      size_t from, size_t n, uint32_t *out)
{
    for (size_t i = 0; i < n; i++) {
        memcpy(out + i * len, ids, len * sizeof *ids);
        for (size_t e = start[from + i]; e < start[from + i + 1]; e++)
            out[i * len + edits[e].pos] = edits[e].word;
    }
}

stet_status variants_whole(const model *m, const uint32_t *ids, size_t len, const stet_edit *edits,
                           const size_t *start, size_t n, float *logits)
{
    const size_t rows = n < AT_ONCE ? n : AT_ONCE;
    uint32_t *text = mem_alloc(rows * len, sizeof *text);
    uint64_t *starts = mem_alloc(rows + 1, sizeof *starts);
    int32_t *label = mem_zalloc(rows, sizeof *label);
    stet_status st = text && starts && label ? STET_OK : STET_ENOMEM;
    for (size_t i = 0; st == STET_OK && i <= rows; i++)
        starts[i] = i * len;
    for (size_t from = 0; st == STET_OK && from < n; from += rows) {
        const size_t k = n - from < rows ? n - from : rows;
        write_out(ids, len, edits, start, from, k, text);
        const stet_corpus c = {.n_texts = k,
                               .n_tokens = k * len,
                               .n_classes = m->n_classes,
                               .ids = text,
                               .start = starts,
                               .label = label};
        st = stet_model_logits(m, &c, logits + from * m->n_classes);
    }
    mem_free(text);
    mem_free(starts);
    mem_free(label);
    return st;
}
