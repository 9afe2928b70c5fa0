/* safetensors_types.c - elements as they lie in files, and as they lie in memory. */
#include <string.h>

#include "safetensors_impl.h"

/* ---- Types ----------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t bytes;
    lab_stored stored;
} types[] = {{"F64", 8, LAB_STORED_F64},       {"F32", 4, LAB_STORED_F32},       {"F16", 2, LAB_STORED_F16},
             {"BF16", 2, LAB_STORED_BF16},     {"I64", 8, LAB_STORED_I64},       {"I32", 4, LAB_STORED_I32},
             {"I16", 2, LAB_STORED_I16},       {"I8", 1, LAB_STORED_I8},         {"U64", 8, LAB_STORED_U64},
             {"U32", 4, LAB_STORED_U32},       {"U16", 2, LAB_STORED_U16},       {"U8", 1, LAB_STORED_U8},
             {"BOOL", 1, LAB_STORED_BOOL},     {"F8_E4M3", 1, LAB_STORED_OTHER}, {"F8_E5M2", 1, LAB_STORED_OTHER},
             {"F8_E8M0", 1, LAB_STORED_OTHER}, {"C64", 8, LAB_STORED_OTHER}};

enum { TYPES = sizeof types / sizeof *types };

size_t lab__stored_size(lab_stored stored)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].stored == stored)
            return stored == LAB_STORED_OTHER ? 0 : types[i].bytes;
    return 0;
}

const char *lab__stored_name(lab_stored stored)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].stored == stored && stored != LAB_STORED_OTHER)
            return types[i].name;
    return "a type this library does not know";
}

bool lab__stored_of(const char *name, lab_stored *stored, size_t *bytes)
{
    for (int i = 0; i < TYPES; i++)
        if (strcmp(types[i].name, name) == 0) {
            *stored = types[i].stored;
            *bytes = types[i].bytes;
            return true;
        }
    return false;
}

lab_stored lab__stored_as(lab_dtype dtype)
{
    switch (dtype) {
    case LAB_F32:
        return LAB_STORED_F32;
    case LAB_F64:
        return LAB_STORED_F64;
    case LAB_I64:
        return LAB_STORED_I64;
    case LAB_BOOL:
        return LAB_STORED_BOOL;
    }
    return LAB_STORED_OTHER;
}

bool lab__holds(lab_dtype dtype, lab_stored stored)
{
    const bool short_float = stored == LAB_STORED_F32 || stored == LAB_STORED_F16 || stored == LAB_STORED_BF16;
    switch (dtype) {
    case LAB_F32:
        return short_float;
    case LAB_F64:
        return short_float || stored == LAB_STORED_F64;
    case LAB_I64:
        return stored == LAB_STORED_I64 || stored == LAB_STORED_I32 || stored == LAB_STORED_I16 ||
               stored == LAB_STORED_I8 || stored == LAB_STORED_U32 || stored == LAB_STORED_U16 ||
               stored == LAB_STORED_U8;
    case LAB_BOOL:
        return stored == LAB_STORED_BOOL;
    }
    return false;
}

/* ---- Short floats ---------------------------------------------------------------------------------------------------- */

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of_half(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
    if (exponent == 0x1f) /* infinity, NaN */
        return float_of_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0) { /* zero, or fraction * 2^-24, which a float has as a normal number */
        float value = (float)fraction * 0x1p-24f;
        return float_of_bits(sign | bits_of_float(value));
    }
    return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

static uint16_t half_of_float(float value)
{
    const uint32_t bits = bits_of_float(value), size = bits & 0x7fffffff;
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (size > 0x7f800000) /* NaN stays one, quiet, with its upper digits */
        return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x1ff));
    if (size >= 0x477ff000) /* 65520 and above round to infinity */
        return sign | 0x7c00;
    if (size < 0x38800000) { /* below 2^-14: whole multiples of 2^-24, rounded by the addition */
        const float rounded = float_of_bits(size) + 0.5f;
        return (uint16_t)(sign | (bits_of_float(rounded) - bits_of_float(0.5f)));
    }
    const uint32_t odd = size >> 13 & 1;
    return (uint16_t)(sign | ((size - (112U << 23) + 0xfff + odd) >> 13));
}

static uint16_t bfloat_of_float(float value)
{
    const uint32_t bits = bits_of_float(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Rounded to odd: what is rounded again to 13 digits fewer comes out as if it had been rounded once. */
static float float_of_double(double value)
{
    const float rounded = (float)value;
    if ((double)rounded == value || value != value)
        return rounded;
    const bool away = rounded < 0 ? (double)rounded < value : rounded > 0 && (double)rounded > value;
    const uint32_t sign = value < 0 ? 0x80000000 : 0, size = bits_of_float(rounded) & 0x7fffffff;
    return float_of_bits(sign | (size - away) | 1);
}

/* ---- Elements -------------------------------------------------------------------------------------------------------- */

static double decode_float(const unsigned char *in, lab_stored stored, int64_t i)
{
    uint16_t half;
    float single;
    double value;
    switch (stored) {
    case LAB_STORED_F16:
    case LAB_STORED_BF16:
        memcpy(&half, in + 2 * i, 2);
        return stored == LAB_STORED_F16 ? float_of_half(half) : float_of_bits((uint32_t)half << 16);
    case LAB_STORED_F32:
        memcpy(&single, in + 4 * i, 4);
        return single;
    default:
        memcpy(&value, in + 8 * i, 8);
        return value;
    }
}

static int64_t decode_integer(const unsigned char *in, lab_stored stored, int64_t i)
{
    uint64_t raw = 0;
    const size_t bytes = lab__stored_size(stored);
    memcpy(&raw, in + (size_t)i * bytes, bytes);
    switch (stored) {
    case LAB_STORED_I8:
        return (int8_t)raw;
    case LAB_STORED_I16:
        return (int16_t)raw;
    case LAB_STORED_I32:
        return (int32_t)raw;
    default:
        return (int64_t)raw;
    }
}

void lab__decode(void *out, lab_dtype dtype, const void *in, lab_stored stored, int64_t n)
{
    if (n == 0)
        return;
    if (lab__stored_as(dtype) == stored && dtype != LAB_BOOL) {
        memcpy(out, in, (size_t)n * lab_dtype_size(dtype));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        switch (dtype) {
        case LAB_F32:
            ((float *)out)[i] = (float)decode_float(in, stored, i);
            break;
        case LAB_F64:
            ((double *)out)[i] = decode_float(in, stored, i);
            break;
        case LAB_I64:
            ((int64_t *)out)[i] = decode_integer(in, stored, i);
            break;
        case LAB_BOOL:
            ((unsigned char *)out)[i] = ((const unsigned char *)in)[i] != 0;
            break;
        }
}

static void encode_float(unsigned char *out, lab_stored stored, double value, int64_t i)
{
    const float single = (float)value, odd = float_of_double(value);
    const uint16_t half = stored == LAB_STORED_F16 ? half_of_float(odd) : bfloat_of_float(odd);
    switch (stored) {
    case LAB_STORED_F16:
    case LAB_STORED_BF16:
        memcpy(out + 2 * i, &half, 2);
        return;
    case LAB_STORED_F32:
        memcpy(out + 4 * i, &single, 4);
        return;
    default:
        memcpy(out + 8 * i, &value, 8);
    }
}

void lab__encode(void *out, lab_stored stored, const void *in, lab_dtype dtype, int64_t n)
{
    if (n == 0)
        return;
    if (lab__stored_as(dtype) == stored && dtype != LAB_BOOL) {
        memcpy(out, in, (size_t)n * lab_dtype_size(dtype));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        if (dtype == LAB_BOOL)
            ((unsigned char *)out)[i] = ((const unsigned char *)in)[i] != 0;
        else
            encode_float(out, stored, dtype == LAB_F32 ? (double)((const float *)in)[i] : ((const double *)in)[i], i);
}
