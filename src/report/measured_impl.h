/* report/measured_impl.h - what files about results share: see stet/measured.h. */
#ifndef REPORT_MEASURED_IMPL_H
#define REPORT_MEASURED_IMPL_H

#include "base/json.h"

/* As a JSON string; what is no UTF-8 is told as far as it goes. NULL: out of memory. */
json_t *measured_string(const char *s, size_t n);
/* Paths among the values become their last part. */
void measured_shorten(json_t *config);

#endif
