/* certify/certifier.h - one text on its way to a certificate: its words, proofs of tasks, points
 * that might change the answer, the tree of parts, the line in the file.
 *
 * A certifier belongs to one thread. What a text needs lives in the certifier's arena until the
 * next text, so that the certificate's line can be written once the verdict is known. */
#ifndef CERTIFY_CERTIFIER_H
#define CERTIFY_CERTIFIER_H

#include <jansson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "certify/certify_impl.h"

/* A model, its family, and what the family prepared; all certifiers of a run share one. */
typedef struct cert_shared {
    const model *m;
    const cert_family *family;
    void *impl; /* the model keeps it */
    struct answers *on; /* who answers for the model (model/answers.h); NULL: its views */
} cert_shared;
stet_status cert_shared_init(cert_shared *s, const model *m, const cert_family *f);
stet_status cert_family_of(const char *kind, const cert_family **out);
stet_status cert_family_of_model(const model *m, const cert_family **out); /* of kind and settings */
stet_status cert_family_for(const model *m, const cert_family **out); /* the same, or cert_ensemble */
/* Does it answer by a rule of which bounds know nothing? That of an ensemble is known. */
bool cert_by_rule(const model *m);
/* And do its certificates rest on draws? Those are statistical, and hold with a confidence; 0 of
 * others. */
bool cert_by_draws(const model *m);
double cert_confidence(const model *m);

/* The words of a text. A choice is an index into a position's words, 0 the text's own. */
typedef struct cert_text {
    size_t n;
    const uint32_t *start, *word; /* (n + 1), (start[n]) rows of the model's table */
    const uint32_t *id;           /* (start[n]) the same as words of the run */
    size_t changeable;            /* positions with more than one word */
    size_t budget;                /* STET_ANY where it does not matter */
    int label;
} cert_text;

/* Beside the family's methods, which are numbered from 0. */
enum { CERT_ENUMERATE = 1000 };
extern const char cert_enumerate_name[];
static inline const char *cert_method_name(const cert_family *f, size_t method)
{
    return method == CERT_ENUMERATE ? cert_enumerate_name : f->methods[method];
}
size_t cert_auto_methods(const cert_family *f); /* those that may prove more than the ones before */

/* Against one class: what was proved, and how. */
typedef struct cert_claim {
    size_t method;
    double bound, slack; /* -INFINITY: nothing */
    json_t *witness;     /* owned, or NULL */
} cert_claim;

/* What is known of a task. */
typedef struct cert_proof {
    cert_claim *claim; /* (K); that of the label is not used */
    size_t n_classes;
    int label, worst; /* worst: the class with the lowest bound */
    double margin;    /* that bound: > 0 proves the task */
    cert_bound sum;   /* the last method's that has the form of a sum, for its worst class */
    cert_bound next;  /* the bound being computed */
} cert_proof;

/* A part of the text's combinations: position `pos` holds one of set[0 .. n_set), ascending
 * choices; what its ancestors say of other positions holds too. The root says nothing. */
typedef struct cert_node {
    size_t parent, child; /* the second child is child + 1; SIZE_MAX: none */
    uint32_t pos, n_set;
    const uint32_t *set;
    uint32_t split, n_first, n_split; /* the next split, found when the node was bounded: */
    uint32_t *order;                  /* choices at `split`, the first n_first go one way */
    cert_claim weakest;               /* of its claims; without the witness */
    bool empty;   /* every combination changes more words than the budget allows */
    char *claims; /* of a proved leaf, as the file has them; NULL: not kept */
} cert_node;

typedef struct cert_tree {
    cert_node *node;
    size_t n, cap;
    size_t *heap; /* nodes still to be split, the lowest bound on top */
    size_t n_heap, cap_heap;
} cert_tree;

struct stet_certifier {
    cert_shared own; /* of a certifier that stands alone */
    const cert_shared *shared;
    stet_certify_how how;
    size_t first_method, end_method;
    enum { ENUMERATE_NEVER, ENUMERATE_CHEAP, ENUMERATE_ALWAYS } enumerate; /* after the methods */
    bool keep;  /* claims and witnesses, for a file */
    bool waits; /* most of the work is a device's */
    void *work; /* the family's */
    stet_view *view;
    struct victim *victim; /* these two for the attack */
    struct search_memory *memory;

    /* the text in work */
    arena mem;
    double started;
    cert_text text;
    cert_proof proof; /* of the text, or of the largest budget */
    cert_tree tree;   /* without nodes unless the text was split */
    int after;        /* the class that the counter-example gives */
    buf evidence;     /* of a verdict by the model's rule (rule_desc.certify), for a file */
};

bool cert_out_of_time(const stet_certifier *c); /* of the text in work */

stet_status certifier_new(const cert_shared *s, const stet_certify_how *how, stet_certifier **out);
/* stet_certify_text without the list of harms. A text whose numbers overflow is undecided, with the
 * reason. */
stet_status certifier_text(stet_certifier *c, const uint32_t *ids, const stet_choices *choices,
                           int label, stet_certificate *out);
/* stet_certify_run with another family than the model's kind has. */
stet_status certify_run_with(const stet_certify_args *a, const cert_family *f,
                             stet_certify_result *out);

/* ---- cert_prove.c ------------------------------------------------------------------------- */

cert_task cert_task_of(const cert_text *t, size_t budget); /* the whole text */
stet_status cert_proof_init(stet_certifier *c, cert_proof *p);
void cert_proof_drop(cert_proof *p); /* its witnesses; the rest is the arena's */
/* Bounds of the task, from cheap to expensive, each class until it is proved. */
stet_status cert_prove(stet_certifier *c, const cert_task *t, cert_proof *out);
/* The largest budget below the text's that can be proved, after c->proof failed for the text;
 * leaves its proof in c->proof. */
stet_status cert_largest(stet_certifier *c, size_t *out);

/* ---- cert_enumerate.c --------------------------------------------------------------------- */

/* Claims for all classes that have none, by trying every combination of the task; nothing changes
 * where there are too many, or one of them is not proved. */
stet_status cert_enumerate(stet_certifier *c, const cert_task *t, cert_proof *out);

/* ---- cert_points.c ------------------------------------------------------------------------ */

/* A point: one choice for each of the n positions. Its margin is that of the label against the best
 * other class; STET_EFORMAT where it is not a number. */
stet_status cert_margin_at(stet_certifier *c, const uint32_t *choice, double *margin);
/* The margins of the point last asked for with one swap each: a position and the choice there. */
stet_status cert_margins_of(stet_certifier *c, const stet_edit *swaps, size_t n, double *margin);
/* Does a full evaluation give another class than the label? Then c->after is that class. */
stet_status cert_confirm(stet_certifier *c, const uint32_t *choice, bool *broken);
/* From a confirmed counter-example to one that is further from the edge, if there is one near. */
stet_status cert_strengthen(stet_certifier *c, uint32_t *choice);
/* What the bound fears most within the budget, as indices into the sets of the task. */
stet_status cert_worst_point(stet_certifier *c, const cert_bound *b, const cert_task *t,
                             uint32_t *choice);
/* Down from the worst words of c->proof, then an attack. `choice` (n) holds the counter-example if
 * one is confirmed. */
stet_status cert_find_break(stet_certifier *c, uint32_t *choice, bool *broken);

/* ---- cert_decide.c ------------------------------------------------------------------------ */

/* After c->proof failed: split until there is a proof, a counter-example (in `choice`), or no time
 * left. */
stet_status cert_decide(stet_certifier *c, uint32_t *choice, stet_verdict *out);
const cert_claim *cert_tree_weakest(const cert_tree *t); /* of the leaves; NULL: they have none */
void cert_tree_clear(cert_tree *t);
void cert_tree_deinit(cert_tree *t);

/* ---- cert_file.c -------------------------------------------------------------------------- */

/* [{"other":0,"bound":...},...]: a proof's claims as text; release with mem_free. */
stet_status cert_claims_text(const stet_certifier *c, const cert_proof *p, char **out);
/* The first line of a file, and the line of the text that the certifier has just done; `words` are
 * its tokens. */
stet_status cert_file_header(const stet_certify_args *a, size_t texts, buf *b);
stet_status cert_file_line(const stet_certifier *c, size_t index, const stet_tokens *words,
                           const stet_choices *choices, const stet_certificate *r, buf *b);

/* ---- cert_resume.c ------------------------------------------------------------------------ */

/* What a line of an unfinished file says of text `index`, but for edits. STET_EFORMAT: damaged, or of
 * another text. */
stet_status cert_resume_line(const cert_shared *s, const char *line, size_t len, size_t index,
                             stet_certificate *out);
/* The counter-example, in words of the run. */
stet_status cert_resume_edits(const char *line, const stet_choices *choices, stet_certificate *out);

/* ---- cert_export.c ------------------------------------------------------------------------ */

/* Can questions about this model be exported? STET_ENOTSUP if not. */
stet_status cert_export_check(const model *m, const cert_family *f);
/* dir/text-INDEX.onnx and .vnnlib of the text that the certifier has just done, unless nothing in it
 * can change. */
stet_status cert_export(const stet_certifier *c, size_t index, const stet_tokens *words,
                        const stet_choices *choices, const char *dir);

#endif
