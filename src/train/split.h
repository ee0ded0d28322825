/* train/split.h - which texts are held out: a share at random, or one of several folds. */
#ifndef TRAIN_SPLIT_H
#define TRAIN_SPLIT_H

#include "base/error.h"
#include "stet/train.h"

/* "2of5"; NULL: 0 of 0. */
stet_status fold_parse(const char *text, size_t *fold, size_t *folds);
/* Which of `folds` a text is in, from 1: its bytes alone decide, so that equal texts are in one fold and
 * every run agrees. */
size_t fold_of(stet_str text, size_t folds);
/* One fold apart. */
stet_status split_fold(const stet_dataset *all, size_t fold, size_t folds, stet_dataset **train,
                       stet_dataset **held);

#endif
