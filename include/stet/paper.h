/* stet/paper.h - what the growth bound paper prints (Bouri and Saoud, Growth Bound Matrices, ACL
 * Findings 2025), so that measured figures can stand beside it.
 *
 *     double p = stet_paper_accuracy("imdb", "cnn", "ibp", "pwws");   // 75.9
 *
 * The paper's rows other than its own were probably taken from other papers, attacked with other
 * programs and other candidates: docs/reproduce.md. */
#ifndef STET_PAPER_H
#define STET_PAPER_H

#include "stet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NAN where the paper says nothing. `corpus`: "imdb" or "yahoo"; `model`, `defense` and attacks by
 * their names in this program. */
/* In %. `measure`: "clean", or the accuracy under an attack. */
STET_API double stet_paper_accuracy(const char *corpus, const char *model, const char *defense,
                                    const char *measure);
/* Of an epoch of training on IMDB, on an A100. */
STET_API double stet_paper_seconds(const char *model, const char *defense);
/* The sum of the growth bound matrix of a model trained on IMDB. */
STET_API double stet_paper_growth(const char *model, const char *defense);

#ifdef __cplusplus
}
#endif
#endif
