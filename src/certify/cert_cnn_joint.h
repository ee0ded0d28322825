/* certify/cert_cnn_joint.h - the joint bound of the CNN as a choice among additive bounds.
 *
 * A piece of menu bounds one feature by a function of the words that is a sum over positions:
 *
 *     low (om_f >= 0):  y_f >= a_{t,f}                      one window
 *     cap (om_f < 0):   y_f <= c + sum over t in T of max(0, a_{t,f} - c)
 *                           <= c + sum over t in T, p of lambda_p max(0, L_t - c + d_p / lambda_p)
 *
 * where no window outside T exceeds c, L_t is the least value of window t and d_p what position p
 * adds to it. The second step is Jensen's inequality; with lambda_p in proportion to the greatest d_p it
 * is exact at both ends of the window's range and wherever one position decides, and never above
 * the chord between the ends. With a budget, deviations count from the reference, of which at most m
 * are not zero, and lambda_p = 1/m.
 *
 * Any convex combination of items bounds the feature as well (the rest of the weight goes to the end
 * of IBP's range), so the margin's bound is concave in the weights, and its value is
 * const + sum over positions of a minimum over the position's words. cert_cnn_dual.c climbs it. */
#ifndef CERTIFY_CERT_CNN_JOINT_H
#define CERTIFY_CERT_CNN_JOINT_H

#include "certify/cert_cnn.h"

enum {
    MENU = 8,        /* items of a feature */
    CAP_WINDOWS = 3, /* windows of a cap */
    SPOT_LANES = 8   /* numbers of a position are padded to a multiple of it */
};

typedef struct menu_item {
    uint32_t feature, n_windows, window[CAP_WINDOWS];
    uint32_t piece, n_pieces;
    double constant;
} menu_item;

/* What an item says about one position: a value for each of its words. */
typedef struct menu_piece {
    uint32_t spot;
    size_t value; /* first of spot.width numbers in cnn_joint.value */
} menu_piece;

/* A position with several words. */
typedef struct menu_spot {
    uint32_t pos, count, width;
    size_t score; /* first of width numbers in cnn_joint.score */
    bool paid;
} menu_spot;

struct cnn_joint {
    bool open; /* for the task */
    menu_spot *spot;
    uint32_t *spot_of; /* (n) of a position; UINT32_MAX: it has one word */
    uint32_t *words;   /* (n) the reference words; then the worst ones */
    size_t n_spots, n_scores;
    uint32_t *top_low, *top_high, *top_clean; /* windows of each feature with the greatest ends, see top_windows */
    real *high;        /* the greatest upper ends themselves */

    uint32_t *pick;    /* (spots) worst words */
    float *drop;       /* (spots) what they take */
    float *sorted;     /* (spots) */
    float *score;      /* (scores) */
    uint32_t *menu;    /* (features, MENU) items; the first is the end of IBP's range */
    uint8_t *n_menu;   /* (features) */
    double *om;        /* (features) */

    /* for one class */
    double be;
    menu_item *item;
    menu_piece *piece;
    float *value;
    size_t n_items, n_pieces, n_values, cap_items, cap_pieces, cap_values;
    float *weight, *best; /* (items) now; of the best value so far */
    float *worth;         /* (items) what an item gives with the worst words, times om */
    double *final;        /* (items) weights of the bound last given: of each feature, of sum 1 */
};

stet_status cnn_joint_new(cnn_joint **out);
void cnn_joint_free(cnn_joint *j);
/* w->joint for the task, if that has not been done yet; then the items for the margin against
 * `other`. */
stet_status cnn_joint_menu(cnn_work *w, int other);
/* One more item, unless it is there or the menu is full. */
stet_status cnn_joint_add_low(cnn_work *w, size_t f, uint32_t t);

/* cert_cnn_dual.c: good weights for the items of the menu, and the bound they give. */
stet_status cnn_dual(cnn_work *w, int other, size_t refine, cert_bound *out);
/* The weights of the bound just given: {"low": [[feature, weight, window], ...], "cap": [[feature,
 * weight, window, ...], ...]}. */
struct json_t *cnn_dual_witness(const cnn_work *w);

#endif
