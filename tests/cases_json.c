/* cases_json.c - reads the parts of a file of cases: arrays in all their encodings. */
#include "cases.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ELEMENTS = 1 << 24 };

__attribute__((format(printf, 2, 3))) static bool say(char why[REASON_LENGTH], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, REASON_LENGTH, format, arguments);
    va_end(arguments);
    return false;
}

bool read_number(const json_t *json, double *number)
{
    static const struct {
        const char *word;
        double number;
    } words[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
    if (json_is_number(json)) {
        *number = json_number_value(json);
        return true;
    }
    for (int i = 0; i < 3; i++)
        if (json_is_string(json) && strcmp(json_string_value(json), words[i].word) == 0) {
            *number = words[i].number;
            return true;
        }
    if (json_is_boolean(json)) {
        *number = json_is_true(json);
        return true;
    }
    return false;
}

/* ---- Elements ---------------------------------------------------------------------------------------------------- */

static bool store(array *a, int64_t i, const json_t *json, char why[REASON_LENGTH])
{
    double number;
    if (!read_number(json, &number))
        return say(why, "element %lld is no number", (long long)i);
    if (!a->integers)
        a->numbers[i] = number;
    else if (json_is_integer(json))
        a->integers[i] = json_integer_value(json);
    else
        return say(why, "element %lld is no integer", (long long)i);
    return true;
}

static bool read_data(array *a, const json_t *data, char why[REASON_LENGTH])
{
    if ((int64_t)json_array_size(data) != a->count)
        return say(why, "%zu elements in data, %lld in the shape", json_array_size(data), (long long)a->count);
    for (int64_t i = 0; i < a->count; i++)
        if (!store(a, i, json_array_get(data, (size_t)i), why))
            return false;
    return true;
}

static bool read_recipe(array *a, const json_t *recipe, char why[REASON_LENGTH])
{
    const char *kind = json_string_value(json_object_get(recipe, "kind"));
    uint64_t state = (uint64_t)json_integer_value(json_object_get(recipe, "seed"));
    bool is_mod = kind && strcmp(kind, "lcgmod") == 0;
    double scale = 1, offset = 0;
    int64_t mod = json_integer_value(json_object_get(recipe, "mod"));
    if (!kind || (!is_mod && strcmp(kind, "lcg16") != 0))
        return say(why, "recipe %s is not known", kind ? kind : "without a kind");
    if (is_mod ? mod < 1
               : !read_number(json_object_get(recipe, "scale"), &scale) ||
                     !read_number(json_object_get(recipe, "offset"), &offset))
        return say(why, "recipe %s lacks a number", kind);
    for (int64_t i = 0; i < a->count; i++) {
        state = (1103515245 * state + 12345) & 0x7fffffff;
        int64_t u = (int64_t)(state >> 15);
        double value = is_mod ? (double)(u % mod) : offset + scale * (double)(u - 32768) / 32768;
        if (a->integers)
            a->integers[i] = (int64_t)value;
        else
            a->numbers[i] = value;
    }
    return true;
}

static bool read_fill(array *a, const json_t *fill, const json_t *set, char why[REASON_LENGTH])
{
    for (int64_t i = 0; i < a->count; i++)
        if (!store(a, i, fill, why))
            return false;
    for (size_t i = 0; i < json_array_size(set); i++) {
        const json_t *pair = json_array_get(set, i);
        int64_t at = json_integer_value(json_array_get(pair, 0));
        if (at < 0 || at >= a->count)
            return say(why, "set names element %lld of %lld", (long long)at, (long long)a->count);
        if (!store(a, at, json_array_get(pair, 1), why))
            return false;
    }
    return true;
}

static bool read_true_at(array *a, const json_t *places, char why[REASON_LENGTH])
{
    for (size_t i = 0; i < json_array_size(places); i++) {
        int64_t at = json_integer_value(json_array_get(places, i));
        if (at < 0 || at >= a->count || !a->numbers)
            return say(why, "true_at names element %lld of %lld", (long long)at, (long long)a->count);
        a->numbers[at] = 1;
    }
    return true;
}

static bool read_hex(array *a, const char *hex, char why[REASON_LENGTH])
{
    if (!hex || (int64_t)strlen(hex) != 2 * a->count || !a->integers)
        return say(why, "%zu hexadecimal digits for %lld bytes", hex ? strlen(hex) : 0, (long long)a->count);
    for (int64_t i = 0; i < a->count; i++) {
        char digits[3] = {hex[2 * i], hex[2 * i + 1], 0}, *end;
        a->integers[i] = (int64_t)strtoul(digits, &end, 16);
        if (*end)
            return say(why, "byte %lld is %s", (long long)i, digits);
    }
    return true;
}

/* ---- Shapes and views -------------------------------------------------------------------------------------------- */

static bool read_shape(array *a, const json_t *json, char why[REASON_LENGTH])
{
    size_t rank = json_array_size(json);
    if (!json_is_array(json) || rank > LAB_MAX_RANK)
        return say(why, "the shape is missing, or has too many axes");
    a->rank = (int)rank;
    a->count = 1;
    for (size_t i = 0; i < rank; i++) {
        int64_t size = json_integer_value(json_array_get(json, i));
        if (size < 0 || size > MOST_ELEMENTS)
            return say(why, "size %lld", (long long)size);
        a->shape[i] = size;
        a->count *= size;
        if (a->count > MOST_ELEMENTS)
            return say(why, "too many elements");
    }
    return true;
}

static bool read_view(array *a, const json_t *view, char why[REASON_LENGTH])
{
    static const char *const names[] = {"perm", "slice", "expand"};
    const json_t *how = NULL;
    for (int i = 0; i < 3 && !how; i++) {
        how = json_object_get(view, names[i]);
        a->view = (view_kind)(VIEW_PERM + i);
    }
    size_t rank = json_array_size(how);
    bool fits = a->view == VIEW_EXPAND ? rank <= LAB_MAX_RANK : rank == (size_t)a->rank;
    if (!json_is_array(how) || !fits || json_object_size(view) != 1)
        return say(why, "a view that is not known");
    a->view_rank = (int)rank;
    for (size_t i = 0; i < rank; i++) {
        const json_t *entry = json_array_get(how, i);
        bool slice = a->view == VIEW_SLICE;
        a->view_first[i] = json_integer_value(slice ? json_array_get(entry, 0) : entry);
        a->view_stop[i] = json_integer_value(json_array_get(entry, 1));
        int64_t most = a->view == VIEW_PERM ? a->rank - 1 : slice ? a->shape[i] : MOST_ELEMENTS;
        if (a->view_first[i] < 0 || a->view_first[i] > most || (slice && a->view_stop[i] > most))
            return say(why, "the view reaches out of the array on axis %zu", i);
    }
    return true;
}

static bool read_dtype(array *a, const json_t *json, char why[REASON_LENGTH])
{
    const char *name = json ? json_string_value(json) : "float64";
    static const struct {
        const char *name;
        lab_dtype dtype;
    } known[] = {
        {"float32", LAB_F32}, {"float64", LAB_F64}, {"int64", LAB_I64}, {"bool", LAB_BOOL}, {"bytes", LAB_I64}};
    for (int i = 0; i < 5; i++)
        if (name && strcmp(name, known[i].name) == 0) {
            a->dtype = known[i].dtype;
            a->bytes = i == 4;
            return true;
        }
    return say(why, "dtype %s is not known", name ? name : "(not a string)");
}

bool read_array(array *a, const json_t *json, char why[REASON_LENGTH])
{
    *a = (array){0};
    if (!json_is_object(json) || !read_dtype(a, json_object_get(json, "dtype"), why) ||
        !read_shape(a, json_object_get(json, "shape"), why))
        return json_is_object(json) ? false : say(why, "is no object");
    void *memory = calloc((size_t)a->count + 1, sizeof(double));
    if (!memory)
        return say(why, "out of memory");
    *(a->dtype == LAB_I64 ? (void **)&a->integers : (void **)&a->numbers) = memory;
    const json_t *view = json_object_get(json, "view"), *given;
    if (view && !read_view(a, view, why))
        return false;
    if ((given = json_object_get(json, "data")))
        return read_data(a, given, why);
    if ((given = json_object_get(json, "recipe")))
        return read_recipe(a, given, why);
    if ((given = json_object_get(json, "fill")))
        return read_fill(a, given, json_object_get(json, "set"), why);
    if ((given = json_object_get(json, "true_at")))
        return read_true_at(a, given, why);
    if ((given = json_object_get(json, "hex")))
        return read_hex(a, json_string_value(given), why);
    a->in_words = json_object_get(json, "build");
    return a->in_words || say(why, "has no elements");
}

void free_array(array *a)
{
    free(a->numbers);
    free(a->integers);
    *a = (array){0};
}

/* ---- Parts ------------------------------------------------------------------------------------------------------- */

bool read_part(part *p, const json_t *json, char why[REASON_LENGTH])
{
    *p = (part){.json = json, .dtype = LAB_F64};
    p->id = json_string_value(json_object_get(json, "id"));
    p->op = json_string_value(json_object_get(json, "op"));
    const char *needs = json_string_value(json_object_get(json, "needs"));
    const char *note = json_string_value(json_object_get(json, "note"));
    p->needs = needs ? needs : "core";
    p->note = note ? note : "";
    if (!p->id || !p->op)
        return say(why, "a part has no id or no op");
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)json_object_get(json, "inputs"), name, value)
    {
        char inner[REASON_LENGTH];
        if (p->inputs == MOST_ARRAYS)
            return say(why, "%s: more than %d inputs", p->id, MOST_ARRAYS);
        p->name[p->inputs] = name;
        array *a = &p->input[p->inputs++];
        if (!read_array(a, value, inner))
            return say(why, "%s: input %s: %.400s", p->id, name, inner);
        if (a->dtype == LAB_F32)
            p->dtype = LAB_F32;
    }
    return true;
}

void free_part(part *p)
{
    for (int i = 0; i < p->inputs; i++)
        free_array(&p->input[i]);
    p->inputs = 0;
}
