/* model/scores.c - accuracy, per-class scores, confusion, calibration. */
#include <math.h>

#include "base/mem.h"
#include "stet/model.h"

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

stet_status stet_scores_of(const float *logits, const int32_t *label, size_t n, size_t n_classes,
                           stet_scores *out)
{
    *out = (stet_scores){.n = n, .n_classes = n_classes};
    TRY(alloc(out));
    size_t right = 0;
    for (size_t i = 0; i < n; i++) {
        const float *row = logits + i * n_classes;
        if (label[i] < 0 || (size_t)label[i] >= n_classes) {
            stet_scores_deinit(out);
            return error_set(STET_EUSAGE, "text %zu has no label among the %zu classes", i,
                             n_classes);
        }
        const int answer = stet_argmax(row, n_classes);
        double sum = 0;
        for (size_t k = 0; k < n_classes; k++)
            sum += exp((double)row[k] - row[answer]);
        const double confidence = 1 / sum;
        const bool ok = answer == label[i];
        right += ok;
        out->loss += log(sum) + row[answer] - row[label[i]];
        out->confusion[(size_t)label[i] * n_classes + (size_t)answer]++;
        const int b = (int)(confidence * BINS) < BINS ? (int)(confidence * BINS) : BINS - 1;
        out->bin_count[b]++;
        out->bin_confidence[b] += confidence;
        out->bin_accuracy[b] += ok;
    }
    if (n) {
        out->accuracy = (double)right / (double)n;
        out->loss /= (double)n;
    }
    per_class(out);
    calibration(out);
    return STET_OK;
}

void stet_scores_deinit(stet_scores *s)
{
    mem_free(s->precision);
    mem_free(s->confusion);
    s->precision = s->recall = s->f1 = NULL;
    s->confusion = NULL;
}
