/* certify/cert_cnn_items.c - the items of cert_cnn_joint.h, each as a constant and a value for
 * every word of some positions. Values are floats that were rounded to the safe side. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "certify/cert_cnn_joint.h"

real cnn_high(const cnn_work *w, size_t f, size_t rank, uint32_t *window)
{
    const size_t F = w->s->c->filters, at = (f / F * (CAP_WINDOWS + 1) + rank) * F + f % F;
    if (window)
        *window = w->joint->top_high[at];
    return w->joint->high[at];
}

/* ---- items of any kind ------------------------------------------------------------------- */

/* Word number `word` of a position as tap l of feature f sees it. */
static double word_value(const cnn_work *w, size_t f, size_t pos, size_t word, size_t l)
{
    const size_t F = w->s->c->filters;
    return (double)cnn_tap(w->s->c, w->t->word[w->t->start[pos] + word], f / F, l)[f % F];
}

static size_t taps_of(const cnn_work *w, size_t f)
{
    return w->s->c->k[f / w->s->c->filters];
}

/* Those that lie on the text. */
static size_t taps_on_text(const cnn_work *w, size_t f)
{
    return taps_of(w, f) < w->t->n ? taps_of(w, f) : w->t->n;
}

static double feature_bias(const cnn_work *w, size_t f)
{
    return (double)cnn_bias(w, f / w->s->c->filters)[f % w->s->c->filters];
}

/* A new item has no weight. */
static stet_status new_item(cnn_joint *j, size_t f, item_kind kind, double constant,
                            menu_item **out)
{
    TRY(mem_grow(&j->item, &j->cap_items, j->n_items + 1, sizeof *j->item));
    *out = &j->item[j->n_items];
    **out = (menu_item){
        .kind = kind, .feature = (uint32_t)f, .piece = (uint32_t)j->n_pieces, .constant = constant};
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

static float rounded_up(double x)
{
    const float y = (float)x;
    return (double)y < x ? nextafterf(y, INFINITY) : y;
}

/* A window as one feature sees it, tap by tap. */
typedef struct tap_range {
    uint32_t spot;        /* UINT32_MAX: no choice */
    double least, spread; /* of the words' values */
} tap_range;
typedef struct window_range {
    size_t n; /* taps on the text */
    tap_range tap[64];
    double least, spread; /* of the sum, bias included */
} window_range;

static void read_window(const cnn_work *w, size_t f, uint32_t t, window_range *x)
{
    x->n = taps_on_text(w, f);
    x->least = feature_bias(w, f);
    x->spread = 0;
    for (size_t l = 0; l < x->n; l++) {
        const uint32_t spot = w->joint->spot_of[t + l];
        double least = word_value(w, f, t + l, 0, l), most = least;
        for (size_t s = 1; spot != UINT32_MAX && s < w->joint->spot[spot].count; s++) {
            const double v = word_value(w, f, t + l, s, l);
            least = fmin(least, v);
            most = fmax(most, v);
        }
        x->tap[l] = (tap_range){spot, least, most - least};
        x->least += least;
        x->spread += most - least;
    }
}

/* One piece for tap l of window t: max(0, d - h), rounded to `side` (1 up, -1 down). */
static stet_status add_excess(cnn_work *w, menu_item *item, uint32_t t, size_t l,
                              const tap_range *x, double h, float side)
{
    cnn_joint *j = w->joint;
    float *v;
    if (x->spot == UINT32_MAX) { /* d = 0 */
        item->constant += fmax(0, -h);
        return STET_OK;
    }
    TRY(new_piece(j, item, x->spot, &v));
    for (size_t s = 0; s < j->spot[x->spot].count; s++) {
        const double d = word_value(w, item->feature, t + l, s, l) - x->least;
        v[s] = side * rounded_up((double)side * fmax(0, d - h));
    }
    return STET_OK;
}

stet_status cnn_add_rest(cnn_work *w, size_t f)
{
    menu_item *item;
    return new_item(w->joint, f, ITEM_REST, w->joint->om[f] >= 0 ? w->lo[f] : w->hi[f], &item);
}

/* ---- lows and overs ----------------------------------------------------------------------- */

static stet_status add_low(cnn_work *w, size_t f, uint32_t t)
{
    cnn_joint *j = w->joint;
    menu_item *item;
    TRY(new_item(j, f, ITEM_LOW, feature_bias(w, f), &item));
    item->n_windows = 1;
    item->window[0] = t;
    for (size_t l = 0; l < taps_on_text(w, f); l++) {
        const uint32_t spot = j->spot_of[t + l];
        if (spot == UINT32_MAX) {
            item->constant += word_value(w, f, t + l, 0, l);
            continue;
        }
        float *v;
        TRY(new_piece(j, item, spot, &v));
        for (size_t s = 0; s < j->spot[spot].count; s++)
            v[s] = (float)word_value(w, f, t + l, s, l); /* exact */
    }
    return STET_OK;
}

static stet_status add_over(cnn_work *w, size_t f, uint32_t t)
{
    window_range x;
    read_window(w, f, t, &x);
    const double h = fmax(0, w->lo[f] - x.least);
    bool any = false;
    for (size_t l = 0; l < x.n; l++)
        any = any || x.tap[l].spread > h;
    if (!any)
        return STET_OK;
    menu_item *item;
    TRY(new_item(w->joint, f, ITEM_OVER, w->lo[f], &item));
    item->n_windows = 1;
    item->window[0] = t;
    for (size_t l = 0; l < x.n; l++)
        if (x.tap[l].spread > h)
            TRY(add_excess(w, item, t, l, &x.tap[l], h, -1));
    return STET_OK;
}

stet_status cnn_add_window(cnn_work *w, size_t f, uint32_t t)
{
    const cnn_joint *j = w->joint;
    for (size_t i = 0; i < j->n_menu[f]; i++) {
        const menu_item *m = &j->item[j->menu[f * MENU + i]];
        if (m->kind == ITEM_LOW && m->window[0] == t)
            return STET_OK;
    }
    if (j->n_menu[f] + 2 > MENU)
        return STET_OK;
    TRY(add_low(w, f, t));
    return add_over(w, f, t);
}

/* ---- caps --------------------------------------------------------------------------------- */

/* A cap on the `windows` windows that reach highest; c is in its constant. */
static stet_status new_cap(cnn_work *w, size_t f, item_kind kind, size_t windows, double *c,
                           menu_item **out)
{
    cnn_joint *j = w->joint;
    *c = fmax(0, (double)cnn_high(w, f, windows, NULL));
    TRY(new_item(j, f, kind, *c, out));
    (*out)->n_windows = (uint32_t)windows;
    for (size_t i = 0; i < windows; i++)
        cnn_high(w, f, i, &(*out)->window[i]);
    return STET_OK;
}

/* max(0, a_t - c) with shares h (n). */
static stet_status add_shares(cnn_work *w, menu_item *item, uint32_t t, const window_range *x,
                              double c, const double *h)
{
    double excess = x->least - c;
    for (size_t l = 0; l < x->n; l++)
        excess += h[l];
    item->constant += fmax(0, excess);
    for (size_t l = 0; l < x->n; l++)
        TRY(add_excess(w, item, t, l, &x->tap[l], h[l], 1));
    return STET_OK;
}

/* Shares in proportion to what a tap can do; of a window without choices, nothing is to be shared.
 */
static void shares_in_proportion(const window_range *x, double c, double *h)
{
    for (size_t l = 0; l < x->n; l++)
        h[l] = x->spread > 0 ? (c - x->least) * x->tap[l].spread / x->spread : 0;
}

/* The same by deviations from the reference, of which at most m are not zero. */
static stet_status add_from_reference(cnn_work *w, menu_item *item, uint32_t t, double c)
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

stet_status cnn_add_cap(cnn_work *w, size_t f, size_t windows)
{
    menu_item *item;
    double c;
    TRY(new_cap(w, f, ITEM_CAP, windows, &c, &item));
    for (size_t i = 0; i < windows; i++) {
        window_range x;
        double h[64];
        if (w->limited) {
            TRY(add_from_reference(w, item, item->window[i], c));
            continue;
        }
        read_window(w, f, item->window[i], &x);
        shares_in_proportion(&x, c, h);
        TRY(add_shares(w, item, item->window[i], &x, c, h));
    }
    return STET_OK;
}

/* What the picked words add to the least value of a window, tap by tap; their sum. */
static double picked_excess(const cnn_work *w, size_t f, uint32_t t, const window_range *x,
                            double *d)
{
    double sum = 0;
    for (size_t l = 0; l < x->n; l++) {
        const size_t word = x->tap[l].spot == UINT32_MAX ? 0 : w->joint->pick[x->tap[l].spot];
        d[l] = word_value(w, f, t + l, word, l) - x->tap[l].least;
        sum += d[l];
    }
    return sum;
}

/* Shares with which the picked words reach exactly what the window does: none above its part d of
 * their sum, or none below. */
static void shares_for_pick(const window_range *x, double c, const double *d, double sum, double *h)
{
    const double whole = c - x->least;
    if (whole <= 0 || x->spread <= sum) {
        shares_in_proportion(x, c, h);
        return;
    }
    for (size_t l = 0; l < x->n; l++)
        h[l] = sum > whole ? d[l] * (whole / sum)
                           : d[l] + (whole - sum) * ((x->tap[l].spread - d[l]) / (x->spread - sum));
}

stet_status cnn_add_split(cnn_work *w, size_t f, size_t windows)
{
    cnn_joint *j = w->joint;
    const size_t k = taps_of(w, f);
    menu_item *item;
    double c;
    TRY(mem_grow(&j->share, &j->cap_shares, j->n_shares + windows * k, sizeof *j->share));
    TRY(new_cap(w, f, ITEM_SPLIT, windows, &c, &item));
    item->share = j->n_shares;
    j->n_shares += windows * k;
    memset(j->share + item->share, 0, windows * k * sizeof *j->share);
    for (size_t i = 0; i < windows; i++) {
        window_range x;
        double d[64], *h = j->share + item->share + i * k;
        read_window(w, f, item->window[i], &x);
        shares_for_pick(&x, c, d, picked_excess(w, f, item->window[i], &x, d), h);
        TRY(add_shares(w, item, item->window[i], &x, c, h));
    }
    return STET_OK;
}

size_t cnn_best_cap(const cnn_work *w, size_t f, double *value)
{
    const cnn_joint *j = w->joint;
    double a[CAP_WINDOWS];
    size_t best = 1;
    *value = INFINITY;
    for (size_t n = 1; n <= CAP_WINDOWS && cnn_high(w, f, n - 1, NULL) > 0; n++) {
        uint32_t t;
        cnn_high(w, f, n - 1, &t);
        a[n - 1] = feature_bias(w, f);
        for (size_t l = 0; l < taps_on_text(w, f); l++) {
            const uint32_t spot = j->spot_of[t + l];
            a[n - 1] += word_value(w, f, t + l, spot == UINT32_MAX ? 0 : j->pick[spot], l);
        }
        const double c = fmax(0, (double)cnn_high(w, f, n, NULL));
        double cap = c;
        for (size_t i = 0; i < n; i++)
            cap += fmax(0, a[i] - c);
        if (cap < *value) {
            *value = cap;
            best = n;
        }
    }
    return best;
}
