/* cli/numbers.c - see cli/numbers.h. */
#include "cli/numbers.h"

#include "stet/measured.h"

enum { MOST_CONFUSED = 100 }; /* classes: beyond it the matrix would be the whole file */

json_t *numbers_of_eval(const stet_model *m, const stet_scores *s)
{
    json_t *classes = json_array(), *confusion = json_array(), *bins = json_array();
    for (size_t c = 0; c < s->n_classes; c++) {
        json_array_append_new(classes,
                              json_pack("{s:s, s:f, s:f, s:f}", "class",
                                        stet_model_class_name(m, c), "precision", s->precision[c],
                                        "recall", s->recall[c], "f1", s->f1[c]));
        json_t *row = json_array();
        for (size_t j = 0; j < s->n_classes && s->n_classes <= MOST_CONFUSED; j++)
            json_array_append_new(row,
                                  json_integer((json_int_t)s->confusion[c * s->n_classes + j]));
        if (s->n_classes <= MOST_CONFUSED)
            json_array_append_new(confusion, row);
        else
            json_decref(row);
    }
    for (size_t b = 0; b < 15; b++)
        json_array_append_new(bins, json_pack("{s:I, s:f, s:f}", "n", (json_int_t)s->bin_count[b],
                                              "confidence", s->bin_confidence[b], "accuracy",
                                              s->bin_accuracy[b]));
    return json_pack("{s:f, s:I, s:f, s:f, s:o, s:o, s:o}", "accuracy", s->accuracy, "n",
                     (json_int_t)s->n, "loss", s->loss, "ece", s->ece, "per_class", classes,
                     "confusion", confusion, "calibration", bins);
}

json_t *numbers_of_attack(const char *attack, const char *profile, const char *const *settings,
                          const stet_attack_result *r)
{
    char *text;
    if (stet_attack_json(attack, profile, settings, r, &text) != STET_OK)
        return NULL;
    json_t *o = json_loads(text, 0, NULL);
    stet_free(text);
    return o;
}
