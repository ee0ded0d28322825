/* text/read_jsonl.c - one JSON object a line; fields by name. */
#include "text/reader.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/number.h"

/* The label as text: numbers and truth values are written out. */
static const char *label_text(const json_t *value, char *out, size_t size)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        return json_string_value(value);
    case JSON_INTEGER:
        snprintf(out, size, "%lld", (long long)json_integer_value(value));
        return out;
    case JSON_REAL:
        number_print(out, size, "%.17g", json_real_value(value));
        return out;
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    default:
        return NULL;
    }
}

static const json_t *field(const json_t *object, stet_str name)
{
    char key[256];
    if (name.len >= sizeof key)
        return NULL;
    memcpy(key, name.data, name.len);
    key[name.len] = '\0';
    return json_object_get(object, key);
}

/* Append the text fields; *missing names one that is not there or no string. */
static stet_status add_text(data_builder *b, json_t *object, stet_str *missing)
{
    const char *list = b->how->text;
    stet_str name;
    while (next_name(&list, &name)) {
        const json_t *value = field(object, name);
        if (!json_is_string(value)) {
            *missing = name;
            return STET_OK;
        }
        TRY(builder_text(b, json_string_value(value), json_string_length(value)));
    }
    if (b->how->text)
        return STET_OK;
    *missing = (stet_str){"text", 4};
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (!is_usual_text_name(key, strlen(key)) || !json_is_string(value))
            continue;
        missing->len = 0;
        TRY(builder_text(b, json_string_value(value), json_string_length(value)));
    }
    return STET_OK;
}

static const json_t *find_label(const data_builder *b, const json_t *object)
{
    if (b->how->label)
        return json_object_get(object, b->how->label);
    const json_t *value = NULL;
    for (const char *const *name = usual_label_names; *name && !value; name++)
        value = json_object_get(object, *name);
    return value;
}

static stet_status take_object(data_builder *b, size_t line, json_t *object)
{
    if (!json_is_object(object))
        return builder_bad(b, line, "expected a JSON object");
    stet_str missing = {"", 0};
    TRY(add_text(b, object, &missing));
    if (missing.len)
        return builder_bad(b, line, "no string field '%.*s'",
                           missing.len < 64 ? (int)missing.len : 64, missing.data);
    if (b->how->unlabelled)
        return builder_row(b, line, "", 0);
    char number[40];
    const json_t *value = find_label(b, object);
    const char *label = value ? label_text(value, number, sizeof number) : NULL;
    if (!label)
        return builder_bad(b, line, "no label in field '%s'",
                           b->how->label ? b->how->label : "label");
    return builder_row(b, line, label, strlen(label));
}

stet_status read_jsonl(data_builder *b, line_source *in)
{
    stet_status st = STET_OK;
    while (st == STET_OK && source_next(in, &st)) {
        if (in->len == 0)
            continue;
        const size_t line = source_line_number(in);
        json_t *object = NULL;
        st = json_read_text("JSON", in->line, in->len, &object);
        if (st == STET_OK)
            st = take_object(b, line, object);
        else if (st == STET_EFORMAT)
            st = builder_bad(b, line, "%s", stet_last_error());
        json_decref(object);
    }
    return st;
}
