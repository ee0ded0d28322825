/* attack/similarity.c - how alike two windows of words are, without a sentence encoder. */
#include <math.h>

#include "attack/subject.h"
#include "base/mem.h"
#include "model/model_impl.h"

double similarity_mean(void *user, const stet_words *w, const uint32_t *a, const uint32_t *b,
                       size_t n)
{
    const model *m = user;
    const size_t most = n * m->reader.most_rows;
    uint32_t *row = mem_alloc(2 * most, sizeof *row);
    if (!row)
        return 1;
    const size_t n_a = words_rows(w, a, n, row), n_b = words_rows(w, b, n, row + most);
    double ab = 0, aa = 0, bb = 0;
    for (size_t d = 0; d < m->dim; d++) {
        double x = 0, y = 0;
        for (size_t i = 0; i < n_a; i++)
            x += (double)m->table[row[i] * m->dim + d];
        for (size_t i = 0; i < n_b; i++)
            y += (double)m->table[row[most + i] * m->dim + d];
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    mem_free(row);
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 1;
}
