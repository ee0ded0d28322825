/* api/result.h - results that own their memory: the struct that the caller sees, and behind it an arena
 * for all that it points to. */
#ifndef API_RESULT_H
#define API_RESULT_H

#include "base/arena.h"
#include "base/buf.h"
#include "stet/simple.h"

typedef struct result {
    arena mem;
    union {
        stet_predicted predicted;
        stet_attacked attacked;
        stet_certified certified;
        stet_explained explained;
    } is;
} result;

stet_status result_new(result **out);
/* The line that `b` holds becomes *json; `b` is released. On failure the result is, too. */
stet_status result_finish(result *r, stet_status st, buf *b, const char **json);

/* What the simple calls begin with: a text as the model reads it, its answer, and the class in
 * question: `label`, or the answer where that is -1. */
typedef struct question {
    const stet_model *m;
    stet_words *words;
    stet_reading reading;
    float *prob; /* (K) */
    int answer, label;
} question;
stet_status question_open(question *q, const stet_model *m, const char *text, int label);
void question_close(question *q);
/* {"label":NAME,"class":...,"probability":...,"probabilities":{...},"text":..., without its end. */
void question_json(const question *q, buf *b);

/* Substitutes for the words of the text: the sets bound to q->words, as far as the text needs. */
stet_status question_choices(question *q, const stet_sets *sets, stet_bound **bound,
                             stet_choices *out);

#endif
