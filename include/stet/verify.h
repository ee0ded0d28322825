/* stet/verify.h - check a file of certificates without trusting the program that wrote it.
 *
 *     stet_verify_result r;
 *     if (stet_verify_file("cert.jsonl", "runs/cnn", NULL, &r) == STET_OK && r.failed == 0)
 *         printf("%zu claims stand\n", r.claims);
 *
 * Every claim is derived anew from the model folder and the words that the file states, with small,
 * slow code in double precision that shares nothing with the certifier: own readers, own bounds, no
 * BLAS, no threads. docs/certificates.md says what is checked and how.
 *
 * A statistical file, about a model that votes, proves nothing: what it calls likely is recomputed
 * from counts of votes that are taken on trust, and counted apart. */
#ifndef STET_VERIFY_H
#define STET_VERIFY_H

#include "stet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A text as the file states it. Substitutes of position i: substitute[start[i] .. start[i + 1]). */
typedef struct stet_verify_text {
    size_t index; /* in the data */
    int label;
    size_t n;
    const char *const *word;
    const size_t *start; /* (n + 1) */
    const char *const *substitute;
} stet_verify_text;

/* Compare a stated text with where it should come from: NULL, or what differs (a string that lives
 * until the next call). */
typedef const char *stet_verify_match(void *user, const stet_verify_text *text);
/* A line of the file (from 1) that does not hold, and why. */
typedef void stet_verify_failed(void *user, size_t line, const char *why);

typedef struct stet_verify_options {
    size_t size; /* of this struct; 0 counts as what this header says */
    stet_verify_match *match;   /* NULL: words and sets are taken as stated */
    stet_verify_failed *failed; /* NULL: only counted */
    void *user;
    const char *data_sha256, *sets_sha256; /* that the file must state; NULL: any */
    /* Claims about CNNs and sum models in exact arithmetic as well: slow. Such a claim may not exceed
     * what is derived at all. STET_ENOTSUP in a build without GMP. */
    bool exact;
} stet_verify_options;
STET_API void stet_verify_options_init(stet_verify_options *a, size_t size); /* sizeof(stet_verify_options) */

typedef struct stet_verify_result {
    size_t budget; /* substituted words that a certified text stands; SIZE_MAX: any number */
    size_t texts;  /* lines about texts */
    size_t failed; /* lines that do not hold, the first line counted too */
    size_t certified, broken, wrong, undecided; /* verdicts that stand */
    size_t claims;                              /* bounds derived anew that stand */
    size_t exact;                               /* of them, in exact arithmetic */
    double least;                               /* smallest of them; INFINITY: none */
    double seconds;
    size_t likely;     /* statements that follow from the counts of votes in a statistical file */
    double confidence; /* of those; 0: the file is one of proofs */
} stet_verify_result;

/* STET_OK means that the file was looked at; whether it holds is r->failed == 0. Other statuses:
 * the file or the model cannot be read. `options` may be NULL. */
STET_API stet_status stet_verify_file(const char *path, const char *model_dir,
                                      const stet_verify_options *options, stet_verify_result *r);

#ifdef __cplusplus
}
#endif
#endif
