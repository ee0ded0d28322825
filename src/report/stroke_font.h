/* report/stroke_font.h - letters as strokes, for rasters: lines of one width with round ends, drawn
 * at any size. */
#ifndef REPORT_STROKE_FONT_H
#define REPORT_STROKE_FONT_H

#include <stddef.h>

/* Strokes of the character that begins at *s, which moves past it: polylines separated by blanks, a
 * point two digits (x, y), y downwards, capitals from 0 to 7, the baseline at 7. Unknown characters
 * are boxes. *width is how far the next one is. */
const char *stroke_glyph(const char **s, int *width);
enum { STROKE_BASELINE = 7, STROKE_HEIGHT = 10 }; /* of a line of text, in units */

/* Of a whole text, in units. */
int stroke_width(const char *s);

#endif
