/* cli/terminal.h - what may reach a terminal. Class names, texts and folder names are written by
 * others and may hold control characters that a terminal would obey: move the cursor, set the
 * title, write over a line. Standard output and standard error are replaced by streams that show
 * such characters as \u001b, whoever prints them; only this program's own styles pass. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

void terminal_guard(void);
/* Called before anything is written to standard output: takes the progress line away. */
void terminal_before_output(void (*call)(void));

bool terminal_colour(void); /* stdout is a terminal that has colours, and NO_COLOR is not set */
bool terminal_moves(void);  /* stderr is a terminal on which a line can be written over */
/* "bold" "dim" "red" "green" "yellow" "removed" "added" "reset"; "" where there are no colours. */
const char *terminal_style(const char *name);

/* `out` (of `size`) becomes `s` with its control characters shown; cut off where it does not fit.
 * Returns its length. */
size_t terminal_clean(const char *s, char *out, size_t size);

#endif
