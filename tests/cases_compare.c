/* cases_compare.c - is what the library gave what the part says? Derived outputs, tolerances, messages. */
#include "cases.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- The verdict ------------------------------------------------------------------------------------------------- */

static void judge(run *r, outcome outcome, const char *format, va_list arguments)
{
    verdict *v = r->verdict;
    if (outcome <= v->outcome)
        return; /* the first sentence of the worst kind stays */
    v->outcome = outcome;
    int used = snprintf(v->why, sizeof v->why, "%s%s%s%s", r->dtype == LAB_F32 ? "float32" : "float64",
                        r->path == LAB_PATH_FUSED ? ", fused" : "", r->convention ? ", " : "",
                        r->convention ? r->convention : "");
    used += snprintf(v->why + used, sizeof v->why - (size_t)used, "%s%s: ", r->threads > 1 ? ", threads" : "",
                     r->copies > 1 ? ", repeated" : "");
    vsnprintf(v->why + used, sizeof v->why - (size_t)used, format, arguments);
}

bool fail(run *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    judge(r, FAILED, format, arguments);
    va_end(arguments);
    return false;
}

bool cannot(run *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    judge(r, UNSUPPORTED, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- Single values ----------------------------------------------------------------------------------------------- */

tolerance tolerance_of(const run *r, const json_t *expected)
{
    tolerance allowed = {.given = true};
    if (r->instead.given)
        return r->instead;
    if (!read_number(json_object_get(expected, "rtol"), &allowed.rtol))
        allowed.rtol = 0;
    if (!read_number(json_object_get(expected, "atol"), &allowed.atol))
        allowed.atol = 0;
    return allowed;
}

bool compare_value(run *r, const char *of, int64_t at, double got, double want, tolerance allowed)
{
    double units;
    if (!isfinite(want) || !isfinite(got))
        units = (isnan(want) && isnan(got)) || got == want ? 0 : INFINITY;
    else if (got == want)
        units = 0;
    else
        units = fabs(got - want) / (allowed.atol + allowed.rtol * fabs(want));
    if (units > r->verdict->worst) {
        r->verdict->worst = units;
        snprintf(r->verdict->worst_of, sizeof r->verdict->worst_of, "%s", of);
    }
    return units <= 1 ||
           fail(r, "%s[%lld] is %.17g, not %.17g: %.3g times what is allowed", of, (long long)at, got, want, units);
}

/* ---- What a name stands for -------------------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *ending, size_t *stem)
{
    size_t length = strlen(name), tail = strlen(ending);
    *stem = length - tail;
    return length > tail && strcmp(name + length - tail, ending) == 0;
}

/* The result that `name` speaks of, and which of the derived outputs of it: "" is the result itself. */
static const result *find_result(const run *r, const char *name, const char **derived)
{
    static const char *const endings[] = {"_sumsq",    "_sum",  "_max_abs",   "_first4",
                                          "_last_row", "_each", "_all_equal", "_kept"};
    *derived = "";
    for (int i = 0; i < r->results; i++)
        if (strcmp(r->result[i].name, name) == 0)
            return &r->result[i];
    for (size_t e = 0; e < sizeof endings / sizeof *endings; e++) {
        size_t stem;
        if (!ends_with(name, endings[e], &stem))
            continue;
        *derived = endings[e];
        for (int i = 0; i < r->results; i++)
            if (strlen(r->result[i].name) == stem && strncmp(r->result[i].name, name, stem) == 0)
                return &r->result[i];
    }
    /* Of the first result, by the bare word. */
    static const char *const words[] = {"trace", "sum", "sumsq"}, *const meanings[] = {"_trace", "_sum", "_sumsq"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, words[i]) == 0 && r->results > 0) {
            *derived = meanings[i];
            return &r->result[0];
        }
    return NULL;
}

/* The rows of t at the keys that may be used, in order, written over `at`; the others must be exactly 0. */
static bool keep_rows(run *r, const char *name, const lab_tensor *t, double *at, int64_t *count)
{
    const array *keep = input_array(r, "key_keep");
    if (!keep)
        keep = input_array(r, "keep");
    int64_t width = lab_tensor_size(t, -1), rows = lab_tensor_size(t, -2), n = lab_tensor_numel(t), kept = 0;
    if (!keep || lab_tensor_rank(t) < 2 || keep->count != rows)
        return fail(r, "%s: there is no mask with one entry for each row", name);
    for (int64_t i = 0; i < n; i++) {
        if (keep->numbers[i / width % rows] != 0)
            at[kept++] = at[i];
        else if (at[i] != 0)
            return fail(r, "%s: row %lld is masked, but holds %.17g", name, (long long)(i / width % rows), at[i]);
    }
    *count = kept;
    return true;
}

/* Sums, the greatest magnitude, the trace: one number. */
static double reduced(const lab_tensor *t, const char *derived, const double *at, int64_t n)
{
    double value = 0;
    if (strcmp(derived, "_trace") == 0) {
        int64_t columns = lab_tensor_size(t, -1);
        for (int64_t i = 0; i * columns + i < n && i < columns; i++)
            value += at[i * columns + i];
        return value;
    }
    for (int64_t i = 0; i < n; i++)
        if (strcmp(derived, "_sum") == 0)
            value += at[i];
        else if (strcmp(derived, "_sumsq") == 0)
            value += at[i] * at[i];
        else if (!(fabs(at[i]) <= value))
            value = isnan(value) ? value : fabs(at[i]);
    return value;
}

/* Turns the elements of t into those of the derived output; `each` says that all of them have the one value wanted. */
static bool derive(run *r, const char *name, const lab_tensor *t, const char *derived, double *at, int64_t *n,
                   bool *each)
{
    *each = strcmp(derived, "_each") == 0 || strcmp(derived, "_all_equal") == 0;
    if (strcmp(derived, "_kept") == 0)
        return keep_rows(r, name, t, at, n);
    if (strcmp(derived, "_first4") == 0) {
        *n = *n < 4 ? *n : 4;
    } else if (strcmp(derived, "_last_row") == 0) {
        int64_t width = lab_tensor_size(t, -1);
        memmove(at, at + *n - width, (size_t)width * sizeof *at);
        *n = width;
    } else if (strcmp(derived, "_all_equal") == 0) {
        for (int64_t i = 1; i < *n; i++)
            if (at[i] != at[0])
                return fail(r, "%s: element %lld is %.17g, element 0 %.17g", name, (long long)i, at[i], at[0]);
    } else if (*derived && !*each) {
        at[0] = reduced(t, derived, at, *n);
        *n = 1;
    }
    return true;
}

/* ---- Comparison -------------------------------------------------------------------------------------------------- */

static bool same_shape(run *r, const char *name, const lab_tensor *t, const array *want)
{
    bool same = lab_tensor_rank(t) == want->rank;
    for (int i = 0; same && i < want->rank; i++)
        same = lab_tensor_size(t, i) == want->shape[i] * (want->rank == 1 ? r->copies : 1);
    return same || fail(r, "%s has another shape than is wanted (%d axes, %lld elements; wanted %d, %lld)", name,
                        lab_tensor_rank(t), (long long)lab_tensor_numel(t), want->rank, (long long)want->count);
}

static bool compare_elements(run *r, const char *name, const result *result, const char *derived, const array *want,
                             tolerance allowed)
{
    int64_t n = lab_tensor_numel(result->tensor);
    double *at = elements(result->tensor);
    bool each = false, fine = at && derive(r, name, result->tensor, derived, at, &n, &each);
    if (fine && (each ? want->count != 1 : n != want->count * r->copies))
        fine = fail(r, "%s: %lld elements, wanted %lld", name, (long long)n, (long long)want->count);
    for (int64_t i = 0; i < n && fine; i++) {
        int64_t of = each ? 0 : i % want->count;
        fine =
            compare_value(r, name, i, at[i], want->integers ? (double)want->integers[of] : want->numbers[of], allowed);
    }
    free(at);
    return fine;
}

static bool compare_one(run *r, const char *name, const json_t *expected)
{
    char why[REASON_LENGTH];
    const char *derived;
    array want;
    const result *result = find_result(r, name, &derived);
    if (!result)
        return fail(r, "%s is wanted, but the runner has nothing of that name", name);
    if (!result->tensor)
        return true; /* this path does not offer it */
    if (!read_array(&want, expected, why)) {
        free_array(&want);
        return fail(r, "%s: %.400s", name, why);
    }
    bool fine = *derived || same_shape(r, name, result->tensor, &want);
    if (fine && !(*derived && r->copies > 1)) /* sums and the like are of the inputs as they are */
        fine = compare_elements(r, name, result, derived, &want, tolerance_of(r, expected));
    free_array(&want);
    return fine;
}

bool compare_all(run *r, const json_t *expectation)
{
    const char *name;
    json_t *expected;
    bool fine = true;
    int compared = 0;
    json_object_foreach((json_t *)expectation, name, expected)
    {
        if (!json_is_object(expected))
            continue; /* the convention's name */
        compared++;
        fine = compare_one(r, name, expected) && fine;
    }
    return compared > 0 ? fine : fail(r, "the part gives nothing to compare with");
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

static bool holds_number(const char *message, int64_t number)
{
    char text[32];
    int length = snprintf(text, sizeof text, "%lld", (long long)number);
    for (const char *at = message; (at = strstr(at, text)); at++) {
        bool starts = at == message || (!isdigit((unsigned char)at[-1]) && at[-1] != '-' && at[-1] != '.');
        if (starts && !isdigit((unsigned char)at[length]))
            return true;
    }
    return false;
}

/* The first number of a sentence, powers written as 2^32+1 included. */
static bool first_number(const char *sentence, int64_t *number)
{
    const char *at = sentence;
    while (*at && !isdigit((unsigned char)*at))
        at++;
    if (!*at)
        return false;
    bool minus = at > sentence && at[-1] == '-';
    char *end;
    *number = strtoll(at, &end, 10);
    if (*end == '^' && isdigit((unsigned char)end[1])) {
        long power = strtol(end + 1, &end, 10);
        *number = power < 63 ? (int64_t)1 << power : INT64_MAX;
        if ((*end == '+' || *end == '-') && isdigit((unsigned char)end[1]))
            *number += strtoll(end, &end, 10);
    }
    *number = minus ? -*number : *number;
    return true;
}

static bool holds_word(const char *message, const char *sentence)
{
    for (const char *at = sentence; *at;) {
        char word[32];
        size_t n = 0;
        while (isalpha((unsigned char)*at) || *at == '_') {
            if (n < sizeof word - 1)
                word[n++] = *at;
            at++;
        }
        word[n] = 0;
        if (n >= 4 && strcmp(word, "larger") != 0 && strcmp(word, "than") != 0 && strcmp(word, "with") != 0 &&
            strstr(message, word))
            return true;
        at += *at != 0 && n == 0;
    }
    return false;
}

/* A number of the sentence is what the call was given, and must be in the message; of a file it says how the bytes were
 * made, and the words will do. */
bool names_the_thing(const run *r, const char *message, const char *sentence)
{
    int64_t number;
    const bool of_a_file = r->part->inputs > 0 && r->part->input[0].bytes;
    if (first_number(sentence, &number) && (holds_number(message, number) || !of_a_file))
        return holds_number(message, number);
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(r->part->json, "params"), name, value)
    {
        if (json_is_number(value) && holds_number(message, (int64_t)json_number_value(value)))
            return true;
    }
    return holds_word(message, sentence);
}
