/* certify/cert_cnn_joint.c - the menu of cert_cnn_joint.h: which items each feature gets. */
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
    mem_free(j);
}

/* ---- the windows with the greatest ends --------------------------------------------------- */

/* top (keep, F), at (keep, F): the `keep` greatest of x (n, F) in each column, falling, and their
 * rows; of equals the first. Columns without as many keep -INFINITY and row 0. */
SIMD_CLONES
static void top_rows(const real *RESTRICT x, size_t n, size_t F, size_t keep, real *RESTRICT top, uint32_t *RESTRICT at,
                     real *RESTRICT carry, uint32_t *RESTRICT carry_at)
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

/* Of feature f, the rank-th greatest upper end and its window. */
static real high_of(const cnn_work *w, const cnn_joint *j, size_t f, size_t rank, uint32_t *window)
{
    const size_t F = w->s->c->filters, at = (f / F * (CAP_WINDOWS + 1) + rank) * F + f % F;
    if (window)
        *window = j->top_high[at];
    return j->high[at];
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
    j->om = arena_new(&w->mem, double, n);
    j->menu = arena_new(&w->mem, uint32_t, n * MENU);
    j->n_menu = arena_new(&w->mem, uint8_t, n);
    j->weight = arena_new(&w->mem, float, n * MENU);
    j->best = arena_new(&w->mem, float, n * MENU);
    j->worth = arena_new(&w->mem, float, n * MENU);
    j->final = arena_new(&w->mem, double, n * MENU);
    j->open = j->pick && j->drop && j->sorted && j->score && j->om && j->menu && j->n_menu &&
              j->weight && j->best && j->worth && j->final;
    return j->open ? STET_OK : STET_ENOMEM;
}

/* ---- items -------------------------------------------------------------------------------- */

/* The word of spot q (a position without choice: its only word) as tap l of feature f sees it. */
static double word_value(const cnn_work *w, size_t f, size_t pos, size_t word, size_t l)
{
    const size_t F = w->s->c->filters;
    return (double)cnn_tap(w->s->c, w->t->word[w->t->start[pos] + word], f / F, l)[f % F];
}

static stet_status new_item(cnn_joint *j, size_t f, menu_item **out)
{
    TRY(mem_grow(&j->item, &j->cap_items, j->n_items + 1, sizeof *j->item));
    *out = &j->item[j->n_items];
    **out = (menu_item){.feature = (uint32_t)f, .piece = (uint32_t)j->n_pieces};
    j->weight[j->n_items] = j->best[j->n_items] = 0;
    j->menu[f * MENU + j->n_menu[f]++] = (uint32_t)j->n_items++;
    return STET_OK;
}

/* Zeros for the words of a position, to be filled. */
static stet_status new_piece(cnn_joint *j, menu_item *item, size_t spot, float **out)
{
    const size_t width = j->spot[spot].width;
    TRY(mem_grow(&j->piece, &j->cap_pieces, j->n_pieces + 1, sizeof *j->piece));
    TRY(mem_grow(&j->value, &j->cap_values, j->n_values + width, sizeof *j->value));
    j->piece[j->n_pieces++] = (menu_piece){(uint32_t)spot, j->n_values};
    *out = j->value + j->n_values;
    memset(*out, 0, width * sizeof **out);
    j->n_values += width;
    item->n_pieces++;
    return STET_OK;
}

/* Taps of a kernel that lie on the text. */
static size_t taps_on_text(const cnn_work *w, size_t f)
{
    const size_t k = w->s->c->k[f / w->s->c->filters];
    return k < w->t->n ? k : w->t->n;
}

static double feature_bias(const cnn_work *w, size_t f)
{
    return (double)cnn_bias(w, f / w->s->c->filters)[f % w->s->c->filters];
}

static stet_status add_rest(cnn_work *w, size_t f)
{
    menu_item *item;
    TRY(new_item(w->joint, f, &item));
    item->constant = w->joint->om[f] >= 0 ? w->lo[f] : w->hi[f];
    return STET_OK;
}

stet_status cnn_joint_add_low(cnn_work *w, size_t f, uint32_t t)
{
    cnn_joint *j = w->joint;
    for (size_t i = 0; i < j->n_menu[f]; i++) {
        const menu_item *old = &j->item[j->menu[f * MENU + i]];
        if (old->n_windows == 1 && old->window[0] == t)
            return STET_OK;
    }
    if (j->n_menu[f] == MENU)
        return STET_OK;
    menu_item *item;
    TRY(new_item(j, f, &item));
    item->n_windows = 1;
    item->window[0] = t;
    item->constant = feature_bias(w, f);
    for (size_t l = 0; l < taps_on_text(w, f); l++) {
        const uint32_t spot = j->spot_of[t + l];
        if (spot == UINT32_MAX) {
            item->constant += word_value(w, f, t + l, 0, l);
            continue;
        }
        float *v;
        TRY(new_piece(j, item, spot, &v));
        for (size_t s = 0; s < j->spot[spot].count; s++)
            v[s] = (float)word_value(w, f, t + l, s, l);
    }
    return STET_OK;
}

static float rounded_up(double x)
{
    const float y = (float)x;
    return (double)y < x ? nextafterf(y, INFINITY) : y;
}

/* A window's taps on positions with a choice. */
typedef struct cap_window {
    size_t n, tap[64];
    double least[64], spread[64]; /* of the tap's values */
    double fixed, spreads;        /* all other taps and the bias; sum of spreads */
} cap_window;

static void read_window(const cnn_work *w, size_t f, uint32_t t, cap_window *x)
{
    const cnn_joint *j = w->joint;
    x->n = 0;
    x->fixed = feature_bias(w, f);
    x->spreads = 0;
    for (size_t l = 0; l < taps_on_text(w, f); l++) {
        const uint32_t spot = j->spot_of[t + l];
        double least = word_value(w, f, t + l, 0, l), most = least;
        for (size_t s = 1; spot != UINT32_MAX && s < j->spot[spot].count; s++) {
            const double v = word_value(w, f, t + l, s, l);
            least = fmin(least, v);
            most = fmax(most, v);
        }
        if (most > least) {
            x->tap[x->n] = l;
            x->least[x->n] = least;
            x->spread[x->n++] = most - least;
            x->spreads += most - least;
        } else {
            x->fixed += least;
        }
    }
}

/* max(0, a_t - c) from above, by deviations from the window's least value. */
static stet_status add_cap_window(cnn_work *w, menu_item *item, uint32_t t, double c)
{
    cap_window x;
    read_window(w, item->feature, t, &x);
    double least = x.fixed - c;
    for (size_t i = 0; i < x.n; i++)
        least += x.least[i];
    if (x.n == 0)
        item->constant += fmax(0, least);
    for (size_t i = 0; i < x.n; i++) {
        const size_t pos = t + x.tap[i], spot = w->joint->spot_of[pos];
        const double lambda = x.spread[i] / x.spreads;
        float *v;
        TRY(new_piece(w->joint, item, spot, &v));
        for (size_t s = 0; s < w->joint->spot[spot].count; s++) {
            const double d = word_value(w, item->feature, pos, s, x.tap[i]) - x.least[i];
            v[s] = rounded_up(fmax(0, lambda * least + d));
        }
    }
    return STET_OK;
}

/* The same by deviations from the reference, of which at most m are not zero. */
static stet_status add_cap_limited(cnn_work *w, menu_item *item, uint32_t t, double c)
{
    cnn_joint *j = w->joint;
    const size_t f = item->feature;
    double at = feature_bias(w, f) - c;
    size_t choices = 0, unpaid = 0;
    for (size_t l = 0; l < taps_on_text(w, f); l++) {
        const uint32_t spot = j->spot_of[t + l];
        at += word_value(w, f, t + l, 0, l);
        choices += spot != UINT32_MAX;
        unpaid += spot != UINT32_MAX && !j->spot[spot].paid;
    }
    const size_t most = choices - unpaid < w->t->budget ? choices : w->t->budget + unpaid;
    const double m = most > 1 ? (double)most : 1, rest = fmax(0, at);
    item->constant += rest;
    for (size_t l = 0; l < taps_on_text(w, f); l++) {
        const uint32_t spot = j->spot_of[t + l];
        if (spot == UINT32_MAX)
            continue;
        float *v;
        TRY(new_piece(j, item, spot, &v));
        const double ref = word_value(w, f, t + l, 0, l);
        for (size_t s = 1; s < j->spot[spot].count; s++)
            v[s] = rounded_up((fmax(0, at + m * (word_value(w, f, t + l, s, l) - ref)) - rest) / m);
    }
    return STET_OK;
}

/* The `windows` windows that reach highest above all others. */
static stet_status add_cap(cnn_work *w, size_t f, size_t windows)
{
    cnn_joint *j = w->joint;
    const double c = fmax(0, (double)high_of(w, j, f, windows, NULL));
    menu_item *item;
    TRY(new_item(j, f, &item));
    item->constant = c;
    item->n_windows = (uint32_t)windows;
    for (size_t i = 0; i < windows; i++) {
        high_of(w, j, f, i, &item->window[i]);
        TRY(w->limited ? add_cap_limited(w, item, item->window[i], c) : add_cap_window(w, item, item->window[i], c));
    }
    return STET_OK;
}

static stet_status fill_menu(cnn_work *w, size_t f)
{
    cnn_joint *j = w->joint;
    TRY(add_rest(w, f));
    if (w->hi[f] <= w->lo[f] || j->om[f] == 0)
        return STET_OK;
    if (j->om[f] >= 0) {
        TRY(cnn_joint_add_low(w, f, j->top_low[f]));
        return cnn_joint_add_low(w, f, j->top_clean[f]);
    }
    for (size_t n = 1; n <= CAP_WINDOWS; n++)
        if (high_of(w, j, f, n - 1, NULL) > 0)
            TRY(add_cap(w, f, n));
    return STET_OK;
}

stet_status cnn_joint_menu(cnn_work *w, int other)
{
    cnn_joint *j = w->joint;
    if (!j->open)
        TRY(open_joint(w));
    j->n_items = j->n_pieces = j->n_values = 0;
    j->be = cnn_bias_margin(w, other);
    memset(j->n_menu, 0, w->s->features);
    for (size_t f = 0; f < w->s->features; f++) {
        j->om[f] = cnn_weight(w, other, f);
        TRY(fill_menu(w, f));
    }
    return STET_OK;
}
