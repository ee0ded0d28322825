/* cli/sweep_frontier.h - choosing settings without the test set: blocks of consecutive training
 * texts are held out in turn, and the settings that no other beats there, in clean and in certified
 * accuracy, are the frontier. */
#ifndef CLI_SWEEP_FRONTIER_H
#define CLI_SWEEP_FRONTIER_H

#include "cli/sweep_grid.h"

/* ---- blocks ------------------------------------------------------------------------------- */

/* Files of one block: its texts, and all others. */
typedef struct sweep_block {
    char held_out[1100], rest[1100];
    size_t texts;
} sweep_block;

/* OUT/blocks/block-1.jsonl, rest-1.jsonl, ...: of every class, in the order of the file, stretches of
 * the given share, the last one first: neighbours, who are often about the same thing, are together
 * on one side. `data`, `label`, `text` and `skip-bad` are those of `train`, the settings of training.
 * Blocks that are there must be the same, STET_EUSAGE if not. */
stet_status sweep_blocks_cut(const json_t *train, const char *out, size_t n, double share,
                             sweep_block *blocks);

/* ---- the frontier ------------------------------------------------------------------------- */

/* Cells that no other equals or beats in both accuracies, by rising clean accuracy; how many. */
size_t sweep_frontier(const sweep_grid *g, size_t *chosen);

/* OUT/final/...: a point for each chosen cell and seed, trained on all texts. */
stet_status sweep_final_points(const sweep_grid *g, const char *out, const size_t *chosen, size_t n,
                               sweep_point **points);

/* OUT/frontier.sh: the commands of the final points, as `final` has planned them, with what the
 * blocks say of each. */
stet_status sweep_frontier_script(const sweep_grid *g, const sweep *final, const char *out,
                                  const sweep_block *blocks, const size_t *chosen, size_t n);

/* OUT/frontier.svg: certified over clean accuracy, of all cells and of the chosen; of these also on
 * the test texts where that was measured. */
stet_status sweep_frontier_plot(const sweep_grid *g, const sweep *final, const char *out,
                                const size_t *chosen, size_t n);

#endif
