/* fovea compare A B: two models, tensor by tensor. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "fovea/file.h"
#include "input.h"
#include "options.h"
#include "output.h"

static const cli_option options[] = {
    {.name = "tolerance",
     .type = CLI_FLOAT,
     .min = 0,
     .max = 1e300,
     .metavar = "X",
     .help = "also accept values that differ by at most X"},
    {.name = "json",
     .type = CLI_FLAG,
     .help = "print one JSON object per line: tensors that differ, then totals"},
};

enum { SHOWN = 20, CHUNK = 1 << 15 }; /* elements that are read at once */

/* What is different, the most serious first. */
typedef enum difference {
    ONLY_IN_FIRST,
    ONLY_IN_SECOND,
    SHAPES,
    DTYPES,
    VALUES,
    WITHIN_TOLERANCE,
    SAME_BITS
} difference;

typedef struct row {
    const fv_file_entry *a, *b; /* NULL: not there */
    difference kind;
    bool has_values; /* what follows is known: equal shapes, and types that can be read */
    uint64_t elements, differing;
    double absolute, relative; /* largest |a - b|, and largest |a - b| / max(|a|, |b|) */
} row;

typedef struct comparison {
    fv_ctx *ctx;
    fv_safetensors *file[2];
    unsigned char *data[2]; /* a chunk of each, elements of up to 8 bytes */
    double tolerance;       /* negative: equal bits are expected */
    row *rows;
    size_t count, different;
} comparison;

static const char *name_of(const row *r) { return r->a ? r->a->name : r->b->name; }

/* ---- values ------------------------------------------------------------------------------- */

static double half_value(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    if (exponent == 31) size = fraction ? NAN : INFINITY;
    return bits & 0x8000 ? -size : size;
}

static double brain_value(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

#define READ(type, convert)                                                                        \
    {                                                                                              \
        type value;                                                                                \
        memcpy(&value, from, sizeof value);                                                        \
        return convert(value);                                                                     \
    }

static double value_at(fv_dtype dtype, const unsigned char *from)
{
    switch (dtype) {
    case FV_F32:
        READ(float, (double))
    case FV_F64:
        READ(double, )
    case FV_BF16:
        READ(uint16_t, brain_value)
    case FV_F16:
        READ(uint16_t, half_value)
    case FV_I32:
        READ(int32_t, (double))
    case FV_I64:
        READ(int64_t, (double))
    default:
        return (double)*from;
    }
}

/* Whether two values differ. Equal infinities and two NaNs do not; a NaN and a number differ by
 * infinity. */
static bool add_pair(row *r, double a, double b)
{
    double absolute = 0, relative = 0;
    if (isnan(a) != isnan(b)) {
        absolute = relative = INFINITY;
    } else if (!isnan(a) && a != b) {
        const double larger = fmax(fabs(a), fabs(b));
        absolute = fabs(a - b);
        relative = isinf(absolute) ? INFINITY : absolute / larger;
    }
    if (absolute > r->absolute) r->absolute = absolute;
    if (relative > r->relative) r->relative = relative;
    return absolute > 0;
}

/* Compares data of equal shape; *same_bits turns false where bytes differ. */
static int compare_data(comparison *c, row *r, bool *same_bits)
{
    const fv_file_entry *e[] = {r->a, r->b};
    const bool one_type = strcmp(e[0]->dtype_name, e[1]->dtype_name) == 0;
    r->has_values = e[0]->loadable && e[1]->loadable;
    size_t size[2] = {1, 1}; /* of an element; bytes are compared where types are not known */
    for (int i = 0; i < 2 && r->has_values; i++)
        size[i] = fv_dtype_size(e[i]->dtype);
    r->elements = e[0]->bytes / size[0];
    if (!r->has_values && !one_type) return CLI_DONE;
    for (uint64_t at = 0; at < r->elements; at += CHUNK) {
        const uint64_t left = r->elements - at;
        const size_t n = left < CHUNK ? (size_t)left : CHUNK;
        if (cli_cancelled) return CLI_INTERRUPTED;
        for (int i = 0; i < 2; i++) {
            const fv_status status =
                fv_safetensors_read(c->file[i], e[i], at * size[i], c->data[i], n * size[i]);
            if (status != FV_OK) return cli_library_error("compare", c->ctx, status);
        }
        if (one_type && memcmp(c->data[0], c->data[1], n * size[0]) == 0) continue;
        *same_bits = false;
        for (size_t k = 0; k < n; k++) {
            const unsigned char *x = c->data[0] + k * size[0], *y = c->data[1] + k * size[1];
            const bool differ =
                r->has_values && add_pair(r, value_at(e[0]->dtype, x), value_at(e[1]->dtype, y));
            r->differing += one_type ? memcmp(x, y, size[0]) != 0 : differ;
        }
    }
    return CLI_DONE;
}

static bool same_shape(const fv_file_entry *a, const fv_file_entry *b)
{
    return a->rank == b->rank &&
           memcmp(a->shape, b->shape, (size_t)a->rank * sizeof a->shape[0]) == 0;
}

static int compare_pair(comparison *c, row *r)
{
    bool same_bits = true;
    if (!r->a || !r->b) {
        r->kind = r->a ? ONLY_IN_FIRST : ONLY_IN_SECOND;
        return CLI_DONE;
    }
    r->kind = SHAPES;
    if (!same_shape(r->a, r->b)) return CLI_DONE;
    const int code = compare_data(c, r, &same_bits);
    if (strcmp(r->a->dtype_name, r->b->dtype_name) != 0)
        r->kind = DTYPES;
    else if (same_bits)
        r->kind = SAME_BITS;
    else
        r->kind = r->has_values && r->absolute <= c->tolerance ? WITHIN_TOLERANCE : VALUES;
    return code;
}

/* ---- all tensors -------------------------------------------------------------------------- */

static int by_weight(const void *x, const void *y)
{
    const row *a = x, *b = y;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->absolute != b->absolute) return a->absolute > b->absolute ? -1 : 1;
    return strcmp(name_of(a), name_of(b));
}

static int compare_all(comparison *c)
{
    const size_t first = fv_safetensors_count(c->file[0]),
                 second = fv_safetensors_count(c->file[1]);
    c->rows = calloc(first + second + 1, sizeof *c->rows);
    for (int i = 0; i < 2; i++)
        c->data[i] = malloc((size_t)CHUNK * 8);
    if (!c->rows || !c->data[0] || !c->data[1]) {
        cli_error("compare: no memory for %zu tensors", first + second);
        return CLI_FAILED;
    }
    for (size_t i = 0; i < first; i++) {
        const fv_file_entry *e = fv_safetensors_entry(c->file[0], i);
        c->rows[c->count++] = (row){.a = e, .b = fv_safetensors_find(c->file[1], e->name)};
    }
    for (size_t i = 0; i < second; i++) {
        const fv_file_entry *e = fv_safetensors_entry(c->file[1], i);
        if (!fv_safetensors_find(c->file[0], e->name)) c->rows[c->count++] = (row){.b = e};
    }
    for (size_t i = 0; i < c->count; i++) {
        const int code = compare_pair(c, &c->rows[i]);
        if (code) return code;
        c->different += c->rows[i].kind < WITHIN_TOLERANCE;
    }
    qsort(c->rows, c->count, sizeof *c->rows, by_weight);
    return CLI_DONE;
}

/* ---- printing ----------------------------------------------------------------------------- */

static void shape_text(const fv_file_entry *e, char *out, size_t bytes)
{
    cli_format(out, bytes, "[");
    for (int i = 0; i < e->rank; i++) {
        const size_t at = strlen(out);
        cli_format(out + at, bytes - at, "%s%lld", i ? "," : "", (long long)e->shape[i]);
    }
    const size_t at = strlen(out);
    cli_format(out + at, bytes - at, "]");
}

/* What follows the name: at most 39 columns. */
static void difference_text(const row *r, char *out, size_t bytes)
{
    char shape[2][18] = {"", ""};
    switch (r->kind) {
    case ONLY_IN_FIRST:
    case ONLY_IN_SECOND:
        cli_format(out, bytes, "only in %s", r->kind == ONLY_IN_FIRST ? "A" : "B");
        break;
    case SHAPES:
        shape_text(r->a, shape[0], sizeof shape[0]);
        shape_text(r->b, shape[1], sizeof shape[1]);
        cli_format(out, bytes, "%s, %s", shape[0], shape[1]);
        break;
    case DTYPES:
        if (r->has_values)
            cli_format(out, bytes, "%-9.3g %-9.3g %.8s, %.8s", r->absolute, r->relative,
                       r->a->dtype_name, r->b->dtype_name);
        else
            cli_format(out, bytes, "%.17s, %.17s", r->a->dtype_name, r->b->dtype_name);
        break;
    default:
        if (r->has_values)
            cli_format(out, bytes, "%-9.3g %-9.3g %llu of %llu", r->absolute, r->relative,
                       (unsigned long long)r->differing, (unsigned long long)r->elements);
        else
            cli_format(out, bytes, "%llu of %llu bytes", (unsigned long long)r->differing,
                       (unsigned long long)r->elements);
    }
}

/* The end of a long name: that is where names differ. */
static void print_name(const char *name)
{
    enum { WIDTH = 40 };
    const size_t length = strlen(name);
    int columns = 0;
    if (length > WIDTH) {
        name += length - (WIDTH - 3);
        while (((unsigned char)*name & 0xc0) == 0x80) /* not inside a character */
            name++;
        columns += printf("...");
    }
    columns += cli_safe_text(stdout, name);
    printf("%*s ", columns < WIDTH ? WIDTH - columns : 0, "");
}

static void print_text(const comparison *c)
{
    char text[40];
    if (c->different > 0)
        printf("%-40s %-9s %-9s %s\n", "tensor", "absolute", "relative", "differing elements");
    for (size_t i = 0; i < c->different && i < SHOWN; i++) {
        difference_text(&c->rows[i], text, sizeof text);
        print_name(name_of(&c->rows[i]));
        printf("%s\n", text);
    }
    if (c->different > SHOWN) printf("... and %zu more\n", c->different - SHOWN);
    const bool bits = c->different == 0 && (c->count == 0 || c->rows[0].kind == SAME_BITS);
    if (c->different > 0)
        printf("\n%zu of %zu tensors differ\n", c->different, c->count);
    else if (bits)
        printf("%zu tensors, equal to the bit\n", c->count);
    else
        printf("%zu tensors, equal within %g (largest difference %.3g)\n", c->count, c->tolerance,
               c->rows[0].absolute);
}

static void json_side(cli_json *j, const char *key, const fv_file_entry *e)
{
    if (!e) {
        cli_json_text(j, key, NULL);
        return;
    }
    cli_json_open(j, key, '{');
    cli_json_text(j, "dtype", e->dtype_name);
    cli_json_open(j, "shape", '[');
    for (int i = 0; i < e->rank; i++)
        cli_json_int(j, NULL, e->shape[i]);
    cli_json_close(j, ']');
    cli_json_close(j, '}');
}

static void print_json(const comparison *c)
{
    static const char *const kinds[] = {"only in A", "only in B", "shape", "dtype", "values"};
    cli_json j = {.to = stdout};
    bool bits = true;
    for (size_t i = 0; i < c->count; i++) {
        const row *r = &c->rows[i];
        bits = bits && r->kind == SAME_BITS;
        if (r->kind >= WITHIN_TOLERANCE) continue;
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "name", name_of(r));
        cli_json_text(&j, "difference", kinds[r->kind]);
        json_side(&j, "a", r->a);
        json_side(&j, "b", r->b);
        if (r->has_values) {
            cli_json_exact(&j, "absolute", r->absolute);
            cli_json_exact(&j, "relative", r->relative);
            cli_json_size(&j, "differing", r->differing);
            cli_json_size(&j, "elements", r->elements);
        }
        cli_json_close(&j, '}');
    }
    cli_json_open(&j, NULL, '{');
    cli_json_size(&j, "tensors", c->count);
    cli_json_size(&j, "different", c->different);
    cli_json_bool(&j, "equal", c->different == 0);
    cli_json_bool(&j, "equal_bits", bits);
    cli_json_close(&j, '}');
}

/* ---- the verb ----------------------------------------------------------------------------- */

static int open_both(comparison *c, const cli_call *call)
{
    for (int i = 0; i < 2; i++) {
        char path[CLI_PATH_BYTES];
        const int code = cli_weights_file("compare", call->words[i], path);
        if (code) return code;
        const fv_status status =
            fv_safetensors_open(c->ctx, path, FV_SAFETENSORS_COPY, &c->file[i]);
        if (status != FV_OK) return cli_library_error("compare", c->ctx, status);
    }
    return CLI_DONE;
}

static int run(const cli_call *call)
{
    comparison c = {.tolerance = cli_given(call, "tolerance") ? cli_float(call, "tolerance") : -1};
    int code = cli_plain_context("compare", &c.ctx);
    if (code) return code;
    code = open_both(&c, call);
    if (!code) code = compare_all(&c);
    if (!code) {
        if (cli_flag(call, "json"))
            print_json(&c);
        else
            print_text(&c);
        code = c.different > 0 ? CLI_FAILED : CLI_DONE;
    }
    free(c.rows);
    free(c.data[0]);
    free(c.data[1]);
    fv_safetensors_close(&c.file[0]);
    fv_safetensors_close(&c.file[1]);
    fv_ctx_destroy(&c.ctx);
    return code;
}

const cli_verb verb_compare = {
    .name = "compare",
    .about = "compare two models tensor by tensor",
    .notes = "Lists tensors that one of them lacks, that have another shape or type, and that\n"
             "have other values: the largest absolute and relative difference, and how many\n"
             "elements differ. The 20 worst are shown; --json lists all. Metadata is not\n"
             "compared.\n"
             "\n"
             "The exit code is 0 if all tensors are equal to the bit (with --tolerance: nearly\n"
             "equal), and 1 if they differ.",
    .words = {.metavar = "A B",
              .type = CLI_PATH,
              .min = 2,
              .max = 2,
              .help = "safetensors or .bin files, or folders that hold one or its index"},
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
