/* certify/cert_cnn_dual.c - climb the joint bound: weights of the menu's items, a simplex for each
 * feature. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/simd.h"
#include "certify/cert_cnn_joint.h"

/* ---- the value of weights ----------------------------------------------------------------- */

SIMD_CLONES
static void add_piece(float *RESTRICT score, const float *RESTRICT value, float by, size_t n)
{
    for (size_t i = 0; i < n; i += SPOT_LANES)
        for (size_t k = 0; k < SPOT_LANES; k++)
            score[i + k] += by * value[i + k];
}

static int falling(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Within the budget only the largest drops happen. */
static void keep_budget(const cnn_work *w, cnn_joint *j)
{
    size_t n = 0, left = w->t->budget;
    for (size_t q = 0; q < j->n_spots; q++)
        if (j->spot[q].paid)
            j->sorted[n++] = j->drop[q];
    if (n <= left)
        return;
    qsort(j->sorted, n, sizeof *j->sorted, falling);
    const float least = left ? j->sorted[left - 1] : INFINITY;
    for (size_t q = 0; q < j->n_spots; q++)
        if (j->spot[q].paid && j->drop[q] > least)
            left--;
    for (size_t q = 0; q < j->n_spots; q++) {
        if (!j->spot[q].paid || j->drop[q] > least)
            continue;
        if (left && j->drop[q] == least) {
            left--;
        } else {
            j->drop[q] = 0;
            j->pick[q] = 0;
        }
    }
}

/* The bound of j->weight, up to rounding; worst words in pick; item values in worth. */
static float value_of(const cnn_work *w, cnn_joint *j)
{
    if (j->lead)
        memcpy(j->score, j->lead, j->n_scores * sizeof *j->score);
    else
        memset(j->score, 0, j->n_scores * sizeof *j->score);
    double sum = j->be;
    for (size_t i = 0; i < j->n_items; i++) {
        const menu_item *m = &j->item[i];
        const float by = (float)j->om[m->feature] * j->weight[i];
        if (by == 0)
            continue;
        sum += (double)by * m->constant;
        for (size_t k = m->piece; k < m->piece + m->n_pieces; k++) {
            const menu_spot *s = &j->spot[j->piece[k].spot];
            add_piece(j->score + s->score, j->value + j->piece[k].value, by, s->width);
        }
    }
    for (size_t q = 0; q < j->n_spots; q++) {
        const float *score = j->score + j->spot[q].score;
        uint32_t best = 0;
        for (uint32_t s = 1; s < j->spot[q].count; s++)
            best = score[s] < score[best] ? s : best;
        j->pick[q] = best;
        j->drop[q] = score[0] - score[best];
        sum += (double)score[0];
    }
    if (w->limited)
        keep_budget(w, j);
    for (size_t q = 0; q < j->n_spots; q++)
        sum -= (double)j->drop[q];
    for (size_t i = 0; i < j->n_items; i++) {
        const menu_item *m = &j->item[i];
        float v = (float)m->constant;
        for (size_t k = m->piece; k < m->piece + m->n_pieces; k++)
            v += j->value[j->piece[k].value + j->pick[j->piece[k].spot]];
        j->worth[i] = v * (float)j->om[m->feature];
    }
    return (float)sum;
}

/* j->best with sums of exactly 1, up to doubles: the first item takes what the others leave. */
static void normalise(const cnn_work *w, cnn_joint *j)
{
    for (size_t f = 0; f < w->s->features; f++) {
        const uint32_t *menu = j->menu + f * MENU;
        double sum = 0;
        for (size_t i = 1; i < j->n_menu[f]; i++)
            sum += (double)j->best[menu[i]];
        const double by = sum > 1 ? 1 / sum : 1;
        for (size_t i = 1; i < j->n_menu[f]; i++)
            j->final[menu[i]] = (double)j->best[menu[i]] * by;
        j->final[menu[0]] = fmax(0, 1 - sum);
    }
}

/* score of every word, as the weights of j->final have it, in double. `base` and `size` get the
 * constants and the sum of absolute values; the number of terms is returned. */
static size_t exact_scores(const cnn_joint *j, double *score, double *base, double *size)
{
    size_t terms = 0;
    for (size_t i = 0; i < j->n_items; i++) {
        const menu_item *m = &j->item[i];
        const double by = j->om[m->feature] * j->final[i];
        if (by == 0)
            continue;
        *base += by * m->constant;
        *size += fabs(by * m->constant);
        terms += 1 + m->n_pieces;
        for (size_t k = m->piece; k < m->piece + m->n_pieces; k++) {
            const menu_spot *s = &j->spot[j->piece[k].spot];
            double most = 0;
            for (size_t c = 0; c < s->count; c++) {
                const double v = by * (double)j->value[j->piece[k].value + c];
                score[s->score + c] += v;
                most = fmax(most, fabs(v));
            }
            *size += 2 * most;
        }
    }
    return terms;
}

/* The scores of words, where one word then serves the network and its own score. */
static void start_with_leads(const cnn_work *w, double *score, double *size)
{
    const cnn_joint *j = w->joint;
    for (size_t q = 0; w->scores.lead && q < j->n_spots; q++) {
        const menu_spot *s = &j->spot[q];
        const double *x = w->scores.lead + w->t->start[s->pos];
        double most = 0;
        for (size_t c = 0; c < s->count; c++) {
            score[s->score + c] = x[c];
            most = fmax(most, fabs(x[c]));
        }
        *size += 2 * most;
    }
}

/* The value of j->final in double, as a certificate needs it. */
static stet_status exact_value(cnn_work *w, int other, cert_bound *out)
{
    const cnn_joint *j = w->joint;
    const arena_mark scratch = arena_save(&w->mem);
    double *score = arena_znew(&w->mem, double, j->n_scores + 1);
    double *sorted = arena_new(&w->mem, double, w->t->n);
    if (!score || !sorted)
        return STET_ENOMEM;
    double base = j->be, size = fabs(base);
    start_with_leads(w, score, &size);
    const size_t terms = exact_scores(j, score, &base, &size) + w->t->n;
    for (size_t p = 0; p < w->t->n; p++) {
        out->drop[p] = 0;
        out->worst[p] = 0;
    }
    for (size_t q = 0; q < j->n_spots; q++) {
        const menu_spot *s = &j->spot[q];
        const double *x = score + s->score;
        uint32_t best = 0;
        for (uint32_t c = 1; c < s->count; c++)
            best = x[c] < x[best] ? c : best;
        out->drop[s->pos] = x[0] - x[best];
        out->worst[s->pos] = best;
        base += x[0];
    }
    out->additive = true;
    out->slack = cnn_slack(w, other, size, terms) + (w->scores.lead ? w->scores.sum.slack : 0);
    out->base = base - out->slack;
    out->margin = cert_within_budget(out, w->t, w->t->budget, sorted);
    arena_restore(&w->mem, scratch);
    return STET_OK;
}

/* ---- climbing ----------------------------------------------------------------------------- */

/* The nearest point of the simplex: what is left of each entry above a common level, of sum 1.
 * Steps may be long; entries that are 1 below the greatest are 0 anyway. */
static void project(float *x, size_t n)
{
    float order[MENU], sum = 0, shift = 0, most = x[0];
    for (size_t i = 1; i < n; i++)
        most = fmaxf(most, x[i]);
    for (size_t i = 0; i < n; i++)
        x[i] = fmaxf(x[i] - most, -1);
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        for (; at > 0 && order[at - 1] < x[i]; at--)
            order[at] = order[at - 1];
        order[at] = x[i];
    }
    for (size_t i = 0; i < n; i++) {
        sum += order[i];
        const float s = (sum - 1) / (float)(i + 1);
        if (order[i] > s)
            shift = s;
    }
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] > shift ? x[i] - shift : 0;
}

/* All the weight of a feature on one item: the end of IBP's range (`from` 0), or its first cap, or
 * its low number `from` unless that window may be negative. */
static void start_from(const cnn_work *w, cnn_joint *j, size_t from)
{
    const size_t F = w->s->c->filters;
    memset(j->weight, 0, j->n_items * sizeof *j->weight);
    for (size_t f = 0; f < w->s->features; f++) {
        const uint32_t *menu = j->menu + f * MENU;
        size_t take = 0, lows = 0;
        for (size_t i = 1; i < j->n_menu[f] && lows < from; i++) {
            const menu_item *m = &j->item[menu[i]];
            if (m->kind == ITEM_LOW) {
                lows++;
                take = w->r[f / F].lo[m->window[0] * F + f % F] > 0 ? i : 0;
            } else if (m->kind == ITEM_CAP && take == 0) {
                take = i;
            }
        }
        j->weight[menu[take]] = 1;
    }
}

static float square(float x)
{
    return x * x;
}

/* One step along the supergradient, of the length that would reach `target` were the bound linear
 * (Polyak 1969). */
static void step_towards(const cnn_work *w, cnn_joint *j, float missing)
{
    float norm = FLT_MIN;
    for (size_t f = 0; f < w->s->features; f++) {
        const uint32_t *menu = j->menu + f * MENU;
        const size_t n = j->n_menu[f];
        float mean = 0;
        for (size_t i = 0; i < n; i++)
            mean += j->worth[menu[i]] / (float)n;
        for (size_t i = 0; i < n; i++)
            norm += square(j->worth[menu[i]] - mean);
    }
    const float length = missing / norm;
    for (size_t f = 0; f < w->s->features; f++) {
        const uint32_t *menu = j->menu + f * MENU;
        const size_t n = j->n_menu[f];
        float x[MENU];
        for (size_t i = 0; i < n; i++)
            x[i] = j->weight[menu[i]] + length * j->worth[menu[i]];
        project(x, n);
        for (size_t i = 0; i < n; i++)
            j->weight[menu[i]] = x[i];
    }
}

static void keep_if_best(cnn_joint *j, float value, float *best)
{
    if (!(value > *best))
        return;
    *best = value;
    memcpy(j->best, j->weight, j->n_items * sizeof *j->best);
}

/* Back to the best weights. */
static float return_to_best(const cnn_work *w, cnn_joint *j)
{
    memcpy(j->weight, j->best, j->n_items * sizeof *j->weight);
    return value_of(w, j);
}

/* The value to be reached lies above the best one by a distance that begins with twice the width of
 * IBP's range and is halved after every few steps. */
static stet_status climb(cnn_work *w, size_t steps, float *best)
{
    enum { ROUNDS = 6 };                                 /* that add items */
    const size_t patience = (size_t)sqrt((double)steps); /* steps at one distance */
    cnn_joint *j = w->joint;
    float distance = 0, now = return_to_best(w, j);
    for (size_t f = 0; f < w->s->features; f++)
        distance += 2 * (float)(fabs(j->om[f]) * (w->hi[f] - w->lo[f]));
    for (size_t step = 0; step < steps; step++) {
        if (step % patience == 0 && step / patience < ROUNDS) {
            TRY(cnn_joint_grow(w));
            now = value_of(w, j);
        }
        step_towards(w, j, *best + distance - now);
        now = value_of(w, j);
        keep_if_best(j, now, best);
        if (step % patience == patience - 1) {
            distance /= 2;
            now = return_to_best(w, j);
        }
    }
    return STET_OK;
}

stet_status cnn_dual(cnn_work *w, int other, size_t refine, cert_bound *out)
{
    cnn_joint *j = w->joint;
    TRY(cnn_joint_menu(w, other));
    float best = -INFINITY;
    for (size_t from = 0; from < 3;
         from++) { /* IBP; windows with the best lower ends; those of the text */
        start_from(w, j, from);
        keep_if_best(j, value_of(w, j), &best);
    }
    if (refine && j->n_spots)
        TRY(climb(w, refine, &best));
    normalise(w, j);
    return exact_value(w, other, out);
}

/* ---- for a checker ------------------------------------------------------------------------ */

static json_t *item_to_json(const cnn_work *w, const menu_item *m, double weight)
{
    const size_t k = w->s->c->k[m->feature / w->s->c->filters];
    json_t *row = json_array();
    json_array_append_new(row, json_integer((json_int_t)m->feature));
    json_array_append_new(row, json_real(weight));
    for (size_t i = 0; i < m->n_windows; i++) {
        json_array_append_new(row, json_integer((json_int_t)m->window[i]));
        if (m->kind != ITEM_SPLIT)
            continue;
        json_t *share = json_array();
        for (size_t l = 0; l < k; l++)
            json_array_append_new(share, json_real(w->joint->share[m->share + i * k + l]));
        json_array_append_new(row, share);
    }
    return row;
}

json_t *cnn_dual_witness(const cnn_work *w)
{
    static const char *const names[ITEM_KINDS] = {NULL, "low", "over", "cap", "split"};
    const cnn_joint *j = w->joint;
    json_t *out = json_object();
    for (size_t kind = ITEM_LOW; kind < ITEM_KINDS; kind++)
        json_object_set_new(out, names[kind], json_array());
    for (size_t i = 0; i < j->n_items; i++) {
        const menu_item *m = &j->item[i];
        if (m->kind != ITEM_REST && j->final[i] > 0)
            json_array_append_new(json_object_get(out, names[m->kind]),
                                  item_to_json(w, m, j->final[i]));
    }
    return out;
}
