/* verify/ver_check.c - does what a line says hold? */
#include <string.h>

#include "verify/ver_votes.h"

/* Own bounds in double may lie this much below a claim: both are sums, of different order. */
static double tolerance(double claimed)
{
    return 1e-6 * (1 + fabs(claimed));
}

stet_status ver_open_task(ver_work *w, const ver_task *t)
{
    arena_restore(&w->mem, (arena_mark){0});
    w->t = t;
    return w->m->kind->open(w);
}

/* ---- one text, word by word --------------------------------------------------------------- */

/* Lower bound of logit[label] - logit[other] where every position holds one known word: the value
 * itself, less what float32 may be wrong by. */
static stet_status value_bound(ver_work *w, int label, int other, double *out)
{
    return w->m->kind->bound(w, label, other, w->m->kind->value, NULL, out);
}

static stet_status open_words(ver_work *w, const ver_line *l, const uint32_t *id, arena *a,
                              ver_task *t)
{
    uint32_t *start = arena_new(a, uint32_t, l->task.n + 1);
    if (!start)
        return STET_ENOMEM;
    for (size_t p = 0; p <= l->task.n; p++)
        start[p] = (uint32_t)p;
    *t = (ver_task){l->task.n, start, id, VER_ANY, l->task.unpaid};
    return ver_open_task(w, t);
}

static stet_status own_words(const ver_line *l, arena *a, uint32_t **out)
{
    uint32_t *id = *out = arena_new(a, uint32_t, l->task.n);
    for (size_t p = 0; id && p < l->task.n; p++)
        id[p] = l->task.word[l->task.start[p]];
    return id ? STET_OK : STET_ENOMEM;
}

/* The text as it stands: its margin is the stated one, and no class is sure to beat the answer. */
static stet_status check_clean(ver_work *w, const ver_line *l, arena *a)
{
    uint32_t *id;
    ver_task t;
    TRY(own_words(l, a, &id));
    TRY(open_words(w, l, id, a, &t));
    const int label = l->text.label;
    double lo = INFINITY, hi = INFINITY;
    for (int c = 0; c < (int)w->m->classes; c++) {
        double above, below;
        if (c != label) {
            TRY(value_bound(w, label, c, &above));
            TRY(value_bound(w, c, label, &below));
            lo = above < lo ? above : lo;
            hi = -below < hi ? -below : hi;
        }
        if (c != l->answer) {
            TRY(value_bound(w, c, l->answer, &above));
            if (!(above <= 0))
                return error_set(STET_EFORMAT, "the answer is %d, not %d", c, l->answer);
        }
    }
    const double slack = tolerance(l->clean);
    if (!(l->clean >= lo - slack && l->clean <= hi + slack))
        return error_set(STET_EFORMAT, "\"clean\" is %.9g, but lies between %.9g and %.9g",
                         l->clean, lo, hi);
    if ((l->answer == label) != (l->verdict != VER_WRONG))
        return error_set(STET_EFORMAT, "label %d, answer %d do not fit the verdict", label,
                         l->answer);
    return STET_OK;
}

/* ---- counter-examples --------------------------------------------------------------------- */

static stet_status apply_edit(const ver_line *l, const json_t *edit, size_t *next, uint32_t *id)
{
    const json_t *at = json_array_get(edit, 0);
    const char *word = json_string_value(json_array_get(edit, 1));
    const json_int_t p = json_integer_value(at);
    if (json_array_size(edit) != 2 || !json_is_integer(at) || !word || p < 0 ||
        (size_t)p >= l->text.n)
        return error_set(STET_EFORMAT, "\"edits\": expected [position, word]");
    if ((size_t)p < *next)
        return error_set(STET_EFORMAT, "\"edits\": positions are not ascending");
    *next = (size_t)p + 1;
    for (size_t i = l->text.start[p]; i < l->text.start[p + 1]; i++)
        if (strcmp(l->text.substitute[i], word) == 0) {
            id[p] = l->task.word[l->task.start[p] + 1 + i - l->text.start[p]];
            return STET_OK;
        }
    return error_set(STET_EFORMAT, "\"edits\": '%.40s' may not stand at position %lld", word,
                     (long long)p);
}

/* A claim is about every rounding there might be. A counter-example is about one program, which its
 * finder has asked; that an LSTM's rounding might in theory add up to any answer does not save the
 * text. So here the value decides, in double. */
static stet_status check_edits(ver_work *w, const ver_line *l, size_t needed, arena *a)
{
    const size_t n = json_array_size(l->edits);
    if (n == 0 || n > needed)
        return error_set(STET_EFORMAT, "\"edits\": %zu changes, outside what is allowed", n);
    if (l->after == l->text.label)
        return error_set(STET_EFORMAT, "\"after\" is the label: nothing is broken");
    uint32_t *id;
    ver_task t;
    size_t next = 0;
    TRY(own_words(l, a, &id));
    for (size_t i = 0; i < n; i++)
        TRY(apply_edit(l, json_array_get(l->edits, i), &next, id));
    TRY(open_words(w, l, id, a, &t));
    for (int c = 0; c < (int)w->m->classes; c++) {
        const double above = c == l->after ? 0 : w->m->kind->margin(w, l->after, c);
        if (!(above >= -tolerance(l->clean)))
            return error_set(STET_EFORMAT, "the edited text gives class %d by %.9g, not %d", c,
                             -above, l->after);
    }
    return STET_OK;
}

/* ---- claims ------------------------------------------------------------------------------- */

static stet_status check_claim(ver_work *w, int label, const json_t *claim, bool *seen, arena *a,
                               stet_verify_result *r)
{
    static const char *const keys[] = {"other", "bound", "method", "witness", NULL};
    const char *method;
    int64_t other;
    double bound, own;
    TRY(json_get_int(claim, "claim", "other", 0, (int64_t)w->m->classes - 1, &other));
    TRY(ver_only_keys(claim, "claim", keys));
    TRY(json_get_real(claim, "claim", "bound", &bound));
    TRY(json_get_str(claim, "claim", "method", &method));
    const char *const *known = w->m->kind->methods;
    const bool enumerate = strcmp(method, "enumerate") == 0;
    while (*known && strcmp(*known, method) != 0)
        known++;
    if (!*known && !enumerate)
        return error_set(STET_EFORMAT, "claim: unknown method \"%.40s\"", method);
    if (other == label || seen[other])
        return error_set(STET_EFORMAT, "claim: class %d a second time, or the label itself",
                         (int)other);
    if (!(bound > 0))
        return error_set(STET_EFORMAT, "claim: expected a bound above 0");
    seen[other] = true;
    const json_t *witness = json_object_get(claim, "witness");
    if (enumerate && witness)
        return error_set(STET_EFORMAT, "claim: a witness of what needs none");
    w->exact = w->want_exact;
    w->is_exact = false;
    const stet_status st = enumerate ? ver_enumerate(w, w->t, label, (int)other, bound, a, &own)
                  : w->m->kind->bound(w, label, (int)other, method, witness, &own);
    w->exact = false;
    TRY(st);
    const double slack = w->is_exact ? 0 : tolerance(bound); /* exact: nothing is forgiven */
    if (!(own > 0) || !(own >= bound - slack))
        return error_set(STET_EFORMAT, "class %d: claimed %.9g by %s, derived %.9g", (int)other,
                         bound, method, own);
    r->claims++;
    r->exact += w->is_exact;
    r->least = own < r->least ? own : r->least;
    return STET_OK;
}

/* One claim for every other class. */
static stet_status check_claims(ver_work *w, const ver_task *t, int label, const json_t *claims,
                                arena *a, stet_verify_result *r)
{
    const size_t n = w->m->classes;
    if (!json_is_array(claims) || json_array_size(claims) != n - 1)
        return error_set(STET_EFORMAT, "\"claims\": expected one for each of %zu classes", n - 1);
    bool *seen = arena_znew(a, bool, n);
    if (!seen)
        return STET_ENOMEM;
    TRY(ver_open_task(w, t));
    for (size_t i = 0; i < n - 1; i++)
        TRY(check_claim(w, label, json_array_get(claims, i), seen, a, r));
    return STET_OK;
}

/* ---- trees -------------------------------------------------------------------------------- */

/* What a path through the tree leaves: words by their place in the text's own sets. */
typedef struct part {
    const ver_line *line;
    bool *out; /* (all words) not in this part */
} part;

/* The part as a task: the first word left is the reference. Where the text's own word is gone a
 * change is certain: it has been paid for, and any further one there is free. false: more changes
 * than the budget allows, so that no text is in this part. */
static bool task_of(const part *p, uint32_t *start, uint32_t *word, bool *unpaid, ver_task *t)
{
    const ver_task *all = &p->line->task;
    size_t k = 0, changed = 0;
    for (size_t i = 0; i < all->n; i++) {
        start[i] = (uint32_t)k;
        unpaid[i] = p->out[all->start[i]];
        changed += unpaid[i];
        for (size_t j = all->start[i]; j < all->start[i + 1]; j++)
            if (!p->out[j])
                word[k++] = all->word[j];
    }
    start[all->n] = (uint32_t)k;
    *t = (ver_task){all->n, start, word, all->budget, unpaid};
    if (all->budget != VER_ANY && changed > all->budget)
        return false;
    if (all->budget != VER_ANY)
        t->budget -= changed;
    return true;
}

/* A leaf has claims, or says that the budget leaves it without texts. */
static stet_status check_leaf(ver_work *w, const part *p, const json_t *leaf, arena *a,
                              stet_verify_result *r)
{
    static const char *const keys[] = {"claims", "over_budget", NULL};
    const json_t *claims = json_object_get(leaf, "claims");
    TRY(ver_only_keys(leaf, "leaf", keys));
    const size_t n = p->line->task.n, total = p->line->task.start[n];
    const arena_mark mark = arena_save(a);
    uint32_t *start = arena_new(a, uint32_t, n + 1), *word = arena_new(a, uint32_t, total);
    bool *unpaid = arena_new(a, bool, n);
    ver_task t;
    if (!start || !word || !unpaid)
        return STET_ENOMEM;
    if (task_of(p, start, word, unpaid, &t)) {
        if (!claims || json_object_get(leaf, "over_budget"))
            return error_set(STET_EFORMAT, "tree: a part within the budget without claims");
        TRY(check_claims(w, &t, p->line->text.label, claims, a, r));
    } else if (claims || !json_is_true(json_object_get(leaf, "over_budget"))) {
        return error_set(STET_EFORMAT, "tree: a part over the budget that does not say so");
    }
    arena_restore(a, mark);
    return STET_OK;
}

/* Place of `word` in the set of position `at`: 0 is the text's own word. */
static size_t place_of(const ver_line *l, size_t at, const char *word)
{
    if (strcmp(l->text.word[at], word) == 0)
        return l->task.start[at];
    for (size_t i = l->text.start[at]; i < l->text.start[at + 1]; i++)
        if (strcmp(l->text.substitute[i], word) == 0)
            return l->task.start[at] + 1 + i - l->text.start[at];
    return SIZE_MAX;
}

/* Which words of position `at` are in the first part: some of those that are left, not all. */
static stet_status read_split(const part *p, size_t at, const json_t *words, bool *first)
{
    const ver_line *l = p->line;
    size_t left = 0;
    for (size_t j = l->task.start[at]; j < l->task.start[at + 1]; j++)
        left += !p->out[j];
    const size_t n = json_array_size(words);
    if (n == 0 || n >= left)
        return error_set(STET_EFORMAT, "tree: position %zu is not cut into two parts", at);
    for (size_t i = 0; i < n; i++) {
        const char *word = json_string_value(json_array_get(words, i));
        const size_t j = word ? place_of(l, at, word) : SIZE_MAX;
        if (j == SIZE_MAX || p->out[j] || first[j - l->task.start[at]])
            return error_set(STET_EFORMAT, "tree: a word that is not left at position %zu", at);
        first[j - l->task.start[at]] = true;
    }
    return STET_OK;
}

/* Both parts together are the set that was cut, so that the leaves cover all texts. */
static stet_status check_tree(ver_work *w, part *p, const json_t *tree, arena *a,
                              stet_verify_result *r)
{
    static const char *const keys[] = {"at", "words", "first", "second", NULL};
    if (!json_is_object(tree))
        return error_set(STET_EFORMAT, "tree: a part is missing");
    if (!json_object_get(tree, "at"))
        return check_leaf(w, p, tree, a, r);
    const ver_line *l = p->line;
    int64_t at;
    TRY(ver_only_keys(tree, "tree", keys));
    TRY(json_get_int(tree, "tree", "at", 0, (int64_t)l->text.n - 1, &at));
    const arena_mark mark = arena_save(a);
    const size_t from = l->task.start[at], n = l->task.start[at + 1] - from;
    bool *first = arena_znew(a, bool, n), *before = arena_new(a, bool, n);
    if (!first || !before)
        return STET_ENOMEM;
    TRY(read_split(p, (size_t)at, json_object_get(tree, "words"), first));
    memcpy(before, p->out + from, n);
    for (int side = 0; side < 2; side++) {
        for (size_t j = 0; j < n; j++)
            p->out[from + j] = before[j] || first[j] == (side == 1);
        TRY(check_tree(w, p, json_object_get(tree, side ? "second" : "first"), a, r));
    }
    memcpy(p->out + from, before, n);
    arena_restore(a, mark);
    return STET_OK;
}

static stet_status check_proof(ver_work *w, const ver_line *l, arena *a, stet_verify_result *r)
{
    if (l->claims)
        return check_claims(w, &l->task, l->text.label, l->claims, a, r);
    part p = {l, arena_znew(a, bool, l->task.start[l->task.n])};
    return p.out ? check_tree(w, &p, l->tree, a, r) : STET_ENOMEM;
}

/* "budget" is what the claims are for: 0 where there are none. A text whose claims cover all that the
 * file asks for is certified, and no other is; a counter-example changes more words than they allow.
 */
static stet_status check_budget(const ver_line *l, size_t needed)
{
    const size_t budget = l->task.budget;
    if ((l->claims || l->tree) != (budget > 0))
        return error_set(STET_EFORMAT, "\"budget\" without claims, or claims for no change");
    if (l->verdict == VER_CERTIFIED && budget < needed)
        return error_set(STET_EFORMAT, "certified for %zu changed words only", budget);
    if (l->verdict != VER_CERTIFIED && budget >= needed)
        return error_set(STET_EFORMAT, "claims for all that is asked, but not certified");
    if (l->verdict == VER_BROKEN && json_array_size(l->edits) <= budget)
        return error_set(STET_EFORMAT, "\"edits\": no more changes than the claims allow");
    return STET_OK;
}

stet_status ver_line_check(ver_work *w, const ver_line *l, size_t needed, arena *a,
                           stet_verify_result *r)
{
    if (w->m->votes)
        return ver_votes_check(w->m, l, needed, a);
    if (!l->unread)
        TRY(check_clean(w, l, a));
    TRY(check_budget(l, needed));
    if (l->claims || l->tree)
        TRY(check_proof(w, l, a, r));
    if (l->verdict == VER_BROKEN)
        TRY(check_edits(w, l, needed, a));
    return STET_OK;
}
