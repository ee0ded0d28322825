/* train/teacher.h - soft labels: what trained models say of the training texts. A teacher repeats the
 * labels of texts that it was trained on, so it teaches the others: a model trained with --fold holds
 * out one fold of the texts, and teaches that one. */
#ifndef TRAIN_TEACHER_H
#define TRAIN_TEACHER_H

#include "model/model_impl.h"
#include "stet/train.h"

/* (n, K) for the texts of `train`: (1 - weight) for the label, the rest as the teachers' mean
 * probabilities have it; a new block for mem_free. The classes are those of `student`. STET_EUSAGE: a
 * text that no teacher may teach. */
stet_status teacher_targets(const stet_train_args *a, const model *student,
                            const stet_dataset *train, real **out);

#endif
