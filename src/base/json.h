/* base/json.h - jansson with our error model: a bad file names itself, line and column. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>

#include "base/error.h"

stet_status json_read_file(const char *path, json_t **out); /* plain or compressed */
stet_status json_read_text(const char *what, const char *text, size_t size, json_t **out);
stet_status json_write_file(const char *path, const json_t *value); /* atomic, indented, keys in order of insertion */
/* Fields with a check of type and range; `what` names the object in the message. */
stet_status json_get_int(const json_t *o, const char *what, const char *key, int64_t lo, int64_t hi, int64_t *out);
stet_status json_get_real(const json_t *o, const char *what, const char *key, double *out);
stet_status json_get_str(const json_t *o, const char *what, const char *key, const char **out);

#endif
