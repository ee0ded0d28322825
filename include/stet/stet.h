/* stet/stet.h - the whole library.
 *
 * It comes in three layers:
 *
 *     simple   stet/simple.h: one string, one call. Start here.
 *     context  stet/job.h: work that can be stopped, watched, and run beside other work.
 *     expert   everything else: data sets, training, all texts of a set, single steps.
 *
 * What is stable: the functions and types of the headers named first. Structs that hold arguments
 * begin with their size and are filled by a function NAME_init(&args, sizeof args), or in C and C++ by
 * the NAME_DEFAULTS macro; they grow at their end only, and a program that was compiled with a shorter
 * one goes on working. Structs that hold results and that the caller provides grow with the minor
 * version, which is part of the library's file name. No macro is needed to use the library from
 * another language.
 *
 * What is experimental may change from one minor version to the next: define STET_EXPERIMENTAL before
 * including this header to have it too. */
#ifndef STET_STET_H
#define STET_STET_H

#include "stet/status.h" /* versions, errors, logging, threads */
#include "stet/job.h"
#include "stet/text.h"
#include "stet/lexicon.h"
#include "stet/model.h"
#include "stet/train.h"
#include "stet/attack.h"
#include "stet/certify.h"
#include "stet/verify.h"
#include "stet/results.h"
#include "stet/report.h"
#include "stet/info.h"
#include "stet/simple.h"

#ifdef STET_EXPERIMENTAL
#include "stet/bound.h"
#include "stet/measured.h"
#include "stet/paper.h"
#include "stet/sandwich.h"
#include "stet/sweep.h"
#include "stet/plot.h"
#endif

#endif
