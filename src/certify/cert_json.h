/* certify/cert_json.h - what is known of one text, as JSON for people's programs (docs/api.md); not
 * the certificate that a checker can follow, which is cert_file.c's. */
#ifndef CERTIFY_CERT_JSON_H
#define CERTIFY_CERT_JSON_H

#include "base/buf.h"
#include "stet/certify.h"

/* Appends `"verdict":...,` and the rest, without braces and without the text. */
void cert_json(buf *b, const stet_certified_text *t, const stet_certificate *c);

#endif
