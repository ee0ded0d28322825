/* model/scores.c - accuracy, per-class scores, confusion, calibration. */
#include <math.h>

#include "base/mem.h"
#include "model/model_impl.h"

enum { BINS = 15 };

static stet_status alloc(stet_scores *s)
{
    const size_t k = s->n_classes;
    s->precision = mem_zalloc(3 * k, sizeof *s->precision);
    s->confusion = mem_zalloc(k * k, sizeof *s->confusion);
    if (!s->precision || !s->confusion) {
        stet_scores_deinit(s);
        return STET_ENOMEM;
    }
    s->recall = s->precision + k;
    s->f1 = s->precision + 2 * k;
    return STET_OK;
}

static void per_class(stet_scores *s)
{
    const size_t k = s->n_classes;
    for (size_t c = 0; c < k; c++) {
        size_t answered = 0, truth = 0;
        const size_t right = s->confusion[c * k + c];
        for (size_t j = 0; j < k; j++) {
            answered += s->confusion[j * k + c];
            truth += s->confusion[c * k + j];
        }
        s->precision[c] = answered ? (double)right / (double)answered : 0;
        s->recall[c] = truth ? (double)right / (double)truth : 0;
        s->f1[c] = answered + truth ? 2.0 * (double)right / (double)(answered + truth) : 0;
    }
}

static void calibration(stet_scores *s)
{
    for (int b = 0; b < BINS; b++)
        if (s->bin_count[b]) {
            s->bin_confidence[b] /= (double)s->bin_count[b];
            s->bin_accuracy[b] /= (double)s->bin_count[b];
            s->ece += (double)s->bin_count[b] / (double)s->n *
                      fabs(s->bin_confidence[b] - s->bin_accuracy[b]);
        }
}

/* One text's answer. */
static stet_status add_row(stet_scores *s, size_t i, const float *row, int32_t label)
{
    const size_t k = s->n_classes;
    if (label < 0 || (size_t)label >= k)
        return error_set(STET_EUSAGE, "text %zu has no label among the %zu classes", i, k);
    const int answer = stet_argmax(row, k);
    double sum = 0;
    for (size_t c = 0; c < k; c++) {
        if (!isfinite(row[c]))
            return error_set(STET_EFORMAT, "text %zu: the logit of class %zu is %g", i, c,
                             (double)row[c]);
        sum += exp((double)row[c] - row[answer]);
    }
    const double confidence = 1 / sum;
    const int b = (int)(confidence * BINS) < BINS ? (int)(confidence * BINS) : BINS - 1;
    const bool right = answer == label;
    s->accuracy += right;
    s->loss += log(sum) + row[answer] - row[label];
    s->confusion[(size_t)label * k + (size_t)answer]++;
    s->bin_count[b]++;
    s->bin_confidence[b] += confidence;
    s->bin_accuracy[b] += right;
    return STET_OK;
}

stet_status scores_begin(stet_scores *s, size_t n_classes)
{
    *s = (stet_scores){.n_classes = n_classes};
    return alloc(s);
}

stet_status scores_add(stet_scores *s, const float *logits, const int32_t *label, size_t n)
{
    for (size_t i = 0; i < n; i++, s->n++)
        TRY(add_row(s, s->n, logits + i * s->n_classes, label[i]));
    return STET_OK;
}

stet_status scores_end(stet_scores *s, stet_status st)
{
    if (st != STET_OK) {
        stet_scores_deinit(s);
        return st;
    }
    if (s->n) {
        s->accuracy /= (double)s->n;
        s->loss /= (double)s->n;
    }
    per_class(s);
    calibration(s);
    return STET_OK;
}

stet_status stet_scores_of(const float *logits, const int32_t *label, size_t n, size_t n_classes,
                           stet_scores *out)
{
    TRY(scores_begin(out, n_classes));
    return scores_end(out, scores_add(out, logits, label, n));
}

void stet_scores_deinit(stet_scores *s)
{
    mem_free(s->precision);
    mem_free(s->confusion);
    s->precision = s->recall = s->f1 = NULL;
    s->confusion = NULL;
}
