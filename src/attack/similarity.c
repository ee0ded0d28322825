/* attack/similarity.c - how alike two windows of words are, without a sentence encoder. */
#include <math.h>

#include "attack/subject.h"
#include "model/model_impl.h"

double similarity_mean(void *user, const uint32_t *a, const uint32_t *b, size_t n)
{
    const model *m = user;
    double ab = 0, aa = 0, bb = 0;
    for (size_t d = 0; d < m->dim; d++) {
        double x = 0, y = 0;
        for (size_t i = 0; i < n; i++) {
            x += (double)m->table[a[i] * m->dim + d];
            y += (double)m->table[b[i] * m->dim + d];
        }
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 1;
}
