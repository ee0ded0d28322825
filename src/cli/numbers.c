/* cli/numbers.c - see cli/numbers.h. */
#include "cli/numbers.h"

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
    char *text = NULL, *missing = NULL;
    if (stet_attack_settings(attack, profile, settings, &text, &missing) != STET_OK)
        return NULL;
    json_t *set = json_loads(text, 0, NULL);
    json_t *o = json_pack(
        "{s:s, s:s, s:o, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, "
        "s:I, s:I, s:I, s:f}",
        "attack", attack, "profile", profile, "settings", set ? set : json_object(), "missing",
        missing, "n", (json_int_t)r->n, "clean", r->clean, "aua", r->aua, "success_rate",
        r->success_rate, "queries_mean", r->queries_mean, "queries_success_mean",
        r->queries_success_mean, "queries_failure_mean", r->queries_failure_mean,
        "evaluations_mean", r->evaluations_mean, "changed_mean", r->changed_mean, "candidates_mean",
        r->candidates_mean, "attackable_mean", r->attackable_mean, "errors", (json_int_t)r->errors,
        "timeouts", (json_int_t)r->timeouts, "unconfirmed", (json_int_t)r->unconfirmed, "decided",
        (json_int_t)r->decided, "resumed", (json_int_t)r->resumed, "seconds", r->seconds);
    stet_free(text);
    stet_free(missing);
    return o;
}
