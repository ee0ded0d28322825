/* certify/cert_cnn_joint.c - which items each feature gets: windows and caps to begin with, then
 * those that the worst words of the moment ask for. */
#include "certify/cert_cnn_joint.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/simd.h"

stet_status cnn_joint_new(cnn_joint **out)
{
    *out = mem_zalloc(1, sizeof **out);
    return *out ? STET_OK : STET_ENOMEM;
}

void cnn_joint_free(cnn_joint *j)
{
    if (!j)
        return;
    mem_free(j->item);
    mem_free(j->piece);
    mem_free(j->value);
    mem_free(j->share);
    mem_free(j);
}

/* ---- the windows with the greatest ends --------------------------------------------------- */

/* top (keep, F), at (keep, F): the `keep` greatest of x (n, F) in each column, falling, and their
 * rows; of equals the first. Columns without as many keep -INFINITY and row 0. */
SIMD_CLONES
static void top_rows(const real *RESTRICT x, size_t n, size_t F, size_t keep, real *RESTRICT top,
                     uint32_t *RESTRICT at, real *RESTRICT carry, uint32_t *RESTRICT carry_at)
{
    for (size_t i = 0; i < keep * F; i++) {
        top[i] = -INFINITY;
        at[i] = 0;
    }
    for (size_t t = 0; t < n; t++) {
        for (size_t f = 0; f < F; f++) {
            carry[f] = x[t * F + f];
            carry_at[f] = (uint32_t)t;
        }
        for (size_t k = 0; k < keep; k++) {
            real *RESTRICT y = top + k * F;
            uint32_t *RESTRICT z = at + k * F;
            for (size_t f = 0; f < F; f++) {
                const bool up = carry[f] > y[f];
                const real a = up ? carry[f] : y[f], b = up ? y[f] : carry[f];
                const uint32_t i = up ? carry_at[f] : z[f], j = up ? z[f] : carry_at[f];
                y[f] = a;
                z[f] = i;
                carry[f] = b;
                carry_at[f] = j;
            }
        }
    }
}

static stet_status top_windows(cnn_work *w, cnn_joint *j)
{
    const cnn_compiled *c = w->s->c;
    const size_t F = c->filters, n = w->s->features;
    real *carry = arena_new(&w->mem, real, F), *top = arena_new(&w->mem, real, n);
    uint32_t *carry_at = arena_new(&w->mem, uint32_t, F);
    j->top_low = arena_new(&w->mem, uint32_t, n);
    j->top_clean = arena_new(&w->mem, uint32_t, n);
    j->top_high = arena_new(&w->mem, uint32_t, n * (CAP_WINDOWS + 1));
    j->high = arena_new(&w->mem, real, n * (CAP_WINDOWS + 1));
    if (!carry || !top || !carry_at || !j->top_low || !j->top_clean || !j->top_high || !j->high)
        return STET_ENOMEM;
    for (size_t i = 0; i < c->n_kernels; i++) {
        const cnn_ranges *r = &w->r[i];
        top_rows(r->lo, r->n, F, 1, top, j->top_low + i * F, carry, carry_at);
        top_rows(r->hi, r->n, F, CAP_WINDOWS + 1, j->high + i * F * (CAP_WINDOWS + 1),
                 j->top_high + i * F * (CAP_WINDOWS + 1), carry, carry_at);
    }
    return cnn_winners(w, j->words, top, j->top_clean);
}

/* ---- what is common to all classes -------------------------------------------------------- */

static stet_status find_spots(cnn_work *w, cnn_joint *j)
{
    const cert_task *t = w->t;
    j->n_spots = j->n_scores = 0;
    j->spot_of = arena_new(&w->mem, uint32_t, t->n);
    j->spot = arena_new(&w->mem, menu_spot, t->n);
    j->words = arena_new(&w->mem, uint32_t, t->n);
    if (!j->spot_of || !j->spot || !j->words)
        return STET_ENOMEM;
    for (size_t p = 0; p < t->n; p++) {
        j->words[p] = t->word[t->start[p]];
        const uint32_t count = t->start[p + 1] - t->start[p];
        j->spot_of[p] = count > 1 ? (uint32_t)j->n_spots : UINT32_MAX;
        if (count == 1)
            continue;
        menu_spot *s = &j->spot[j->n_spots++];
        *s = (menu_spot){.pos = (uint32_t)p, .count = count, .score = j->n_scores};
        s->width = (count + SPOT_LANES - 1) / SPOT_LANES * SPOT_LANES;
        s->paid = !(t->unpaid && t->unpaid[p]);
        j->n_scores += s->width;
    }
    return STET_OK;
}

static stet_status open_joint(cnn_work *w)
{
    cnn_joint *j = w->joint;
    const size_t n = w->s->features;
    TRY(find_spots(w, j));
    TRY(top_windows(w, j));
    j->pick = arena_new(&w->mem, uint32_t, j->n_spots + 1);
    j->drop = arena_new(&w->mem, float, j->n_spots + 1);
    j->sorted = arena_new(&w->mem, float, j->n_spots + 1);
    j->score = arena_new(&w->mem, float, j->n_scores + 1);
    j->lead = w->scores.lead ? arena_new(&w->mem, float, j->n_scores + 1) : NULL;
    j->om = arena_new(&w->mem, double, n);
    j->menu = arena_new(&w->mem, uint32_t, n * MENU);
    j->n_menu = arena_new(&w->mem, uint8_t, n);
    j->weight = arena_new(&w->mem, float, n *MENU);
    j->best = arena_new(&w->mem, float, n *MENU);
    j->worth = arena_new(&w->mem, float, n *MENU);
    j->final = arena_new(&w->mem, double, n *MENU);
    j->open = (j->lead || !w->scores.lead) && j->pick && j->drop && j->sorted && j->score && j->om && j->menu && j->n_menu &&
              j->weight && j->best && j->worth && j->final;
    return j->open ? STET_OK : STET_ENOMEM;
}

/* ---- menus -------------------------------------------------------------------------------- */

static stet_status first_items(cnn_work *w, size_t f)
{
    cnn_joint *j = w->joint;
    TRY(cnn_add_rest(w, f));
    if (w->hi[f] <= w->lo[f] || j->om[f] == 0)
        return STET_OK;
    if (j->om[f] > 0) {
        TRY(cnn_add_window(w, f, j->top_low[f]));
        return cnn_add_window(w, f, j->top_clean[f]);
    }
    for (size_t n = 1; n <= 2 && cnn_high(w, f, n - 1, NULL) > 0; n++)
        TRY(cnn_add_cap(w, f, n));
    return STET_OK;
}

/* The margin's part that words have of their own. */
static void read_leads(const cnn_work *w, cnn_joint *j)
{
    const double *lead = w->scores.lead;
    if (!lead)
        return;
    memset(j->lead, 0, j->n_scores * sizeof *j->lead);
    for (size_t p = 0; p < w->t->n; p++) {
        const double *x = lead + w->t->start[p];
        const menu_spot *s = j->spot_of[p] == UINT32_MAX ? NULL : &j->spot[j->spot_of[p]];
        if (!s)
            j->be += x[0];
        for (uint32_t c = 0; s && c < s->count; c++)
            j->lead[s->score + c] = (float)x[c];
    }
}

stet_status cnn_joint_menu(cnn_work *w, int other)
{
    cnn_joint *j = w->joint;
    if (!j->open)
        TRY(open_joint(w));
    j->n_items = j->n_pieces = j->n_values = j->n_shares = 0;
    j->be = cnn_bias_margin(w, other);
    read_leads(w, j);
    memset(j->n_menu, 0, w->s->features);
    for (size_t f = 0; f < w->s->features; f++) {
        j->om[f] = cnn_weight(w, other, f);
        TRY(first_items(w, f));
    }
    return STET_OK;
}

/* The cap that is lowest with the picked words, if it says notably more than all items so far. */
static stet_status grow_cap(cnn_work *w, size_t f)
{
    const cnn_joint *j = w->joint;
    double lowest = INFINITY, value;
    for (size_t i = 0; i < j->n_menu[f]; i++)
        lowest = fmin(lowest, (double)j->worth[j->menu[f * MENU + i]] / j->om[f]);
    const size_t windows = cnn_best_cap(w, f, &value);
    return value < lowest - 1e-3 * (w->hi[f] - w->lo[f]) ? cnn_add_split(w, f, windows) : STET_OK;
}

stet_status cnn_joint_grow(cnn_work *w)
{
    cnn_joint *j = w->joint;
    const cert_task *t = w->t;
    const arena_mark scratch = arena_save(&w->mem);
    real *top = arena_new(&w->mem, real, w->s->features);
    uint32_t *at = arena_new(&w->mem, uint32_t, w->s->features);
    if (!top || !at)
        return STET_ENOMEM;
    for (size_t q = 0; q < j->n_spots; q++)
        j->words[j->spot[q].pos] = t->word[t->start[j->spot[q].pos] + j->pick[q]];
    TRY(cnn_winners(w, j->words, top, at));
    for (size_t f = 0; f < w->s->features; f++) {
        if (j->n_menu[f] < 2)
            continue;
        if (j->om[f] > 0 && (double)top[f] > w->lo[f])
            TRY(cnn_add_window(w, f, at[f]));
        else if (j->om[f] < 0 && j->n_menu[f] < MENU)
            TRY(grow_cap(w, f));
    }
    arena_restore(&w->mem, scratch);
    return STET_OK;
}
