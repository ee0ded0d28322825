/* certify/cert_json.c - see cert_json.h. */
#include "certify/cert_json.h"

#include <string.h>

enum { MOST_HARMFUL = 5 };

static void put_string(buf *b, const char *key, const char *s)
{
    buf_printf(b, ",\"%s\":", key);
    buf_json_string(b, s, strlen(s));
}

static void put_swap(buf *b, const stet_certified_text *t, uint32_t pos, uint32_t word)
{
    const stet_token *at = &t->reading->tokens.v[pos];
    buf_printf(b, "{\"position\":%u,\"start\":%u,\"end\":%u", pos, at->start, at->end);
    put_string(b, "word", stet_token_word(&t->reading->tokens, pos));
    put_string(b, "substitute", stet_words_word(t->choices->words, word));
}

void cert_json(buf *b, const stet_certified_text *t, const stet_certificate *c)
{
    const stet_choices *choices = t->choices;
    const size_t changeable = stet_choices_changeable(choices);
    buf_printf(b, "\"verdict\":\"%s\",\"certified\":%s", stet_verdict_name(c->verdict),
               c->verdict == STET_CERTIFIED ? "true" : "false");
    if (c->budget == STET_ANY)
        buf_str(b, ",\"largest_budget\":null");
    else
        buf_printf(b, ",\"largest_budget\":%zu", c->budget);
    buf_str(b, ",\"clean_margin\":");
    buf_real(b, c->clean);
    buf_str(b, ",\"margin\":");
    buf_real(b, c->margin);
    put_string(b, "method", c->method);
    buf_printf(b,
               ",\"changeable\":%zu,\"substitutes\":%zu,\"branches\":%zu,\"seconds\":", changeable,
               choices->n ? (size_t)choices->start[choices->n] : 0, c->branches);
    buf_real(b, c->seconds);
    if (c->confidence > 0) { /* of a model that votes */
        buf_str(b, ",\"confidence\":");
        buf_real(b, c->confidence);
    }
    if (c->reason)
        put_string(b, "reason", c->reason);
    buf_str(b, ",\"harm\":[");
    for (size_t k = 0; k < c->n_harm && k < MOST_HARMFUL; k++) {
        buf_str(b, k ? "," : "");
        put_swap(b, t, c->harm[k].pos, c->harm[k].word);
        buf_str(b, ",\"drop\":");
        buf_real(b, c->harm[k].drop);
        buf_char(b, '}');
    }
    buf_str(b, "],\"counter_example\":[");
    for (size_t k = 0; k < c->n_edits; k++) {
        buf_str(b, k ? "," : "");
        put_swap(b, t, c->edits[k].pos, c->edits[k].word);
        buf_char(b, '}');
    }
    buf_char(b, ']');
}
