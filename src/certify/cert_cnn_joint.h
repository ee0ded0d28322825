/* certify/cert_cnn_joint.h - the joint bound of the CNN as a choice among additive bounds.
 *
 * An item of a feature's menu bounds it by a function of the words that is a sum over positions.
 * Let L be the least value of window t, d_p >= 0 what position p adds to it, so that a_t = L + sum
 * d_p:
 *
 *     low (om_f >= 0):  y_f >= a_t
 *     over (om_f >= 0): y_f >= k + max(0, a_t - k) >= k + sum over p of max(0, d_p - (k - L))
 *     cap (om_f < 0):   y_f <= c + sum over t in T of max(0, a_t - c)
 *                           <= c + sum over t in T, p of max(0, d_p - h_p),  sum of h_p = c - L
 *
 * where k is the lower end of the feature's range and no window outside T exceeds c. The second
 * step of `over` holds because max(0, x - h) is superadditive for x, h >= 0, that of `cap` because
 * max(0, x) is subadditive. Shares h_p in proportion to the greatest d_p make a cap exact at both
 * ends of the window's range; shares that follow the words of the moment make it exact there, which
 * is how the menu grows (cnn_joint_grow). Neither is above the chord between the ends. With a
 * budget there are also caps that count deviations from the reference, of which at most m are not
 * zero:
 *
 *     max(0, a + sum of v_p) <= r + sum over p of (max(0, a + m v_p) - r) / m,   r = max(0, a)
 *
 * Any convex combination of items bounds the feature as well, so the margin's bound is concave in
 * the weights, and its value is const + sum over positions of a minimum over the position's words.
 * cert_cnn_dual.c climbs it. */
#ifndef CERTIFY_CERT_CNN_JOINT_H
#define CERTIFY_CERT_CNN_JOINT_H

#include "certify/cert_cnn.h"

enum {
    MENU = 16,       /* items of a feature */
    CAP_WINDOWS = 3, /* windows of a cap */
    SPOT_LANES = 8   /* numbers of a position are padded to a multiple of it */
};

typedef enum item_kind {
    ITEM_REST, /* the end of IBP's range */
    ITEM_LOW,
    ITEM_OVER,
    ITEM_CAP,   /* shares in proportion; with a budget, deviations from the reference */
    ITEM_SPLIT, /* a cap with shares of its own */
    ITEM_KINDS
} item_kind;

typedef struct menu_item {
    item_kind kind;
    uint32_t feature, n_windows, window[CAP_WINDOWS];
    uint32_t piece, n_pieces;
    size_t share; /* split: (n_windows, k) in cnn_joint.share */
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
    uint32_t *top_low,
        *top_clean;     /* (features) window with the greatest lower end, with the references */
    uint32_t *top_high; /* windows with the greatest upper ends, */
    real *high;         /* and these: see cnn_high */

    uint32_t *pick;  /* (spots) worst words */
    float *drop;     /* (spots) what they take */
    float *sorted;   /* (spots) */
    float *score;    /* (scores) */
    float *lead;     /* (scores) what scores of words add, or NULL */
    uint32_t *menu;  /* (features, MENU) items; the first is the end of IBP's range */
    uint8_t *n_menu; /* (features) */
    double *om;      /* (features) */

    /* for one class */
    double be; /* biases; with scores of words, also those of positions without a choice */
    menu_item *item;
    menu_piece *piece;
    float *value;
    double *share;
    size_t n_items, n_pieces, n_values, n_shares, cap_items, cap_pieces, cap_values, cap_shares;
    float *weight, *best; /* (items) now; of the best value so far */
    float *worth;         /* (items) what an item gives with the worst words, times om */
    double *final;        /* (items) weights of the bound last given: of each feature, of sum 1 */
};

stet_status cnn_joint_new(cnn_joint **out);
void cnn_joint_free(cnn_joint *j);
/* cert_cnn_items.c: the end of IBP's range; what window t says, unless the menu has it or is full;
 * a cap on so many windows, those that reach highest; the same, exact for the words of j->pick. */
stet_status cnn_add_rest(cnn_work *w, size_t f);
stet_status cnn_add_window(cnn_work *w, size_t f, uint32_t t);
stet_status cnn_add_cap(cnn_work *w, size_t f, size_t windows);
stet_status cnn_add_split(cnn_work *w, size_t f, size_t windows);
/* With the words of j->pick: for how many windows the cap is lowest, and what it is. */
size_t cnn_best_cap(const cnn_work *w, size_t f, double *value);
/* Of feature f, the rank-th greatest upper end and (unless NULL) its window. */
real cnn_high(const cnn_work *w, size_t f, size_t rank, uint32_t *window);

/* w->joint for the task, if that has not been done yet; then the items for the margin against
 * `other`. */
stet_status cnn_joint_menu(cnn_work *w, int other);
/* Items that are exact, or nearly so, for the words of j->pick, of which j->worth speaks. */
stet_status cnn_joint_grow(cnn_work *w);

/* cert_cnn_dual.c: good weights for the items of the menu, and the bound they give. */
stet_status cnn_dual(cnn_work *w, int other, size_t refine, cert_bound *out);
/* The items of the bound just given: {"low": [[feature, weight, window], ...], "over": the same,
 * "cap": [[feature, weight, window, ...], ...], "split": [[feature, weight, window, [share of each
 * tap], ...], ...]}. */
struct json_t *cnn_dual_witness(const cnn_work *w);

#endif
