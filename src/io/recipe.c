/* Recipes: typed keys with defaults, read from TOML. Each value is kept as a string and as a
 * number. */
#include "fovea/recipe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/arena.h"
#include "io/decimal.h"
#include "io/file.h"
#include "io/json_write.h"
#include "io/recipe.h"
#include "io/toml.h"
#include "io/utf8.h"

typedef struct slot {
    const char *text;
    double real;
    int64_t integer;
    bool is_set;
} slot;

struct fv_recipe {
    fv_ctx *ctx;
    fv_key *keys;
    size_t count;
    slot *slots;
    fv_arena arena; /* strings; replaced ones are freed with the recipe */
};

/* ---- parsing ------------------------------------------------------------------------ */

static bool in_bounds(const fv_key *key, double value)
{
    return isfinite(value) && (key->min == key->max || (value >= key->min && value <= key->max));
}

/* [+-]digits[.digits][e[+-]digits], as fv_decimal_to_double requires. */
static bool is_decimal(const char *p)
{
    if (*p == '+' || *p == '-') p++;
    const size_t whole = strspn(p, "0123456789");
    p += whole;
    size_t fraction = 0;
    if (*p == '.') {
        fraction = strspn(p + 1, "0123456789");
        p += 1 + fraction;
    }
    if (whole + fraction == 0) return false;
    if (*p != 'e' && *p != 'E') return *p == '\0';
    p++;
    if (*p == '+' || *p == '-') p++;
    const size_t exponent = strspn(p, "0123456789");
    return exponent > 0 && p[exponent] == '\0';
}

static int choice_index(const char *choices, const char *text)
{
    const size_t n = strlen(text);
    int index = 0;
    for (const char *p = choices; p && n > 0; index++) {
        const size_t length = strcspn(p, "|");
        if (length == n && memcmp(p, text, n) == 0) return index;
        p = p[length] ? p + length + 1 : NULL;
    }
    return -1;
}

static const char *nearest_choice(const char *choices, fv_nearest *nearest, const char *text)
{
    fv_nearest_init(nearest, text);
    for (const char *p = choices; p;) {
        const size_t length = strcspn(p, "|");
        fv_nearest_add(nearest, p, length);
        p = p[length] ? p + length + 1 : NULL;
    }
    return fv_nearest_best(nearest);
}

/* True for text that TOML can represent without escapes. */
static bool is_plain_text(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F) return false;
    return fv_utf8_valid(text, n);
}

/* Parses `text` as the key's type. Returns NULL, or what is wrong with it, possibly in `why`. */
static const char *read_value(const fv_key *key, const char *text, slot *out, char why[200])
{
    const size_t n = strlen(text);
    bool ok = true;
    out->text = text;
    out->real = 0;
    out->integer = 0;
    switch (key->type) {
    case FV_KEY_INT:
        ok = is_decimal(text) && strcspn(text, ".eE") == n &&
             fv_decimal_to_i64(text, n, &out->integer) && in_bounds(key, (double)out->integer);
        out->real = (double)out->integer;
        break;
    case FV_KEY_REAL:
        ok = is_decimal(text) && fv_decimal_to_double(text, n, &out->real) &&
             in_bounds(key, out->real);
        break;
    case FV_KEY_BOOL:
        out->integer = strcmp(text, "true") == 0;
        ok = out->integer || strcmp(text, "false") == 0;
        break;
    case FV_KEY_CHOICE:
        out->integer = choice_index(key->choices, text);
        ok = out->integer >= 0;
        break;
    case FV_KEY_TEXT:
    case FV_KEY_PATH:
        ok = is_plain_text(text, n);
        break;
    }
    if (ok) return NULL;
    if (key->type == FV_KEY_TEXT || key->type == FV_KEY_PATH)
        return "invalid UTF-8 or a control character";
    if (key->type == FV_KEY_CHOICE) {
        fv_nearest nearest;
        const char *found = nearest_choice(key->choices, &nearest, text);
        snprintf(why, 200, "'%.40s' is invalid, expected one of %.90s%s%.30s%s", text, key->choices,
                 found ? "; did you mean '" : "", found ? found : "", found ? "'?" : "");
    } else if (key->type == FV_KEY_BOOL) {
        snprintf(why, 200, "'%.40s' is invalid, expected true or false", text);
    } else if (key->min == key->max) {
        snprintf(why, 200, "'%.40s' is invalid, expected %s", text,
                 key->type == FV_KEY_INT ? "an integer" : "a number");
    } else {
        snprintf(why, 200, "'%.40s' is invalid, expected %s from %.12g to %.12g", text,
                 key->type == FV_KEY_INT ? "an integer" : "a number", key->min, key->max);
    }
    return why;
}

/* ---- keys --------------------------------------------------------------------------- */

static int64_t key_index(const fv_recipe *recipe, const char *name)
{
    for (size_t i = 0; i < recipe->count; i++)
        if (strcmp(recipe->keys[i].name, name) == 0) return (int64_t)i;
    return -1;
}

static fv_status fill_defaults(fv_recipe *recipe)
{
    char why[200];
    for (size_t i = 0; i < recipe->count; i++) {
        const fv_key *key = &recipe->keys[i];
        FV_RETURN_IF(key_index(recipe, key->name) != (int64_t)i, recipe->ctx, FV_ERR_ARGUMENT,
                     "recipe: duplicate key '%.60s'", key->name);
        const char *wrong =
            read_value(key, key->default_value ? key->default_value : "", &recipe->slots[i], why);
        FV_RETURN_IF(wrong, recipe->ctx, FV_ERR_ARGUMENT, "recipe: default of '%.60s': %.150s",
                     key->name, wrong);
    }
    return FV_OK;
}

/* Copies all keys into one array, with a slot for each. */
static fv_status join_tables(fv_recipe *recipe, const fv_key_table *tables, size_t count)
{
    fv_mem *mem = &recipe->ctx->mem;
    for (size_t i = 0; i < count; i++)
        recipe->count += tables[i].count;
    recipe->keys = fv_mem_alloc(mem, recipe->count * sizeof *recipe->keys);
    recipe->slots = fv_mem_zalloc(mem, recipe->count * sizeof *recipe->slots);
    FV_RETURN_IF(!recipe->keys || !recipe->slots, recipe->ctx, FV_ERR_MEMORY,
                 "recipe: out of memory");
    fv_key *to = recipe->keys;
    for (size_t i = 0; i < count; i++) {
        if (tables[i].count) memcpy(to, tables[i].keys, tables[i].count * sizeof *to);
        to += tables[i].count;
    }
    return FV_OK;
}

fv_status fv_recipe_create(fv_ctx *ctx, const fv_key_table *tables, size_t count, fv_recipe **out)
{
    fv_recipe *recipe = fv_mem_zalloc(&ctx->mem, sizeof *recipe);
    FV_RETURN_IF(!recipe, ctx, FV_ERR_MEMORY, "recipe: out of memory");
    recipe->ctx = ctx;
    fv_arena_init(&recipe->arena, &ctx->mem);
    fv_status status = join_tables(recipe, tables, count);
    if (status == FV_OK) status = fill_defaults(recipe);
    if (status == FV_OK)
        *out = recipe;
    else
        fv_recipe_destroy(&recipe);
    return status;
}

const fv_key *fv_recipe_key(const fv_recipe *recipe, size_t i)
{
    return i < recipe->count ? &recipe->keys[i] : NULL;
}

void fv_recipe_destroy(fv_recipe **recipe_ptr)
{
    fv_recipe *recipe = *recipe_ptr;
    if (!recipe) return;
    fv_mem *mem = &recipe->ctx->mem;
    fv_arena_free(&recipe->arena);
    if (recipe->keys) fv_mem_free(mem, recipe->keys, recipe->count * sizeof *recipe->keys);
    if (recipe->slots) fv_mem_free(mem, recipe->slots, recipe->count * sizeof *recipe->slots);
    fv_mem_free(mem, recipe, sizeof *recipe);
    *recipe_ptr = NULL;
}

/* Where a value comes from, for messages: a position in a file, or a call. */
typedef struct origin {
    const fv_doc *doc;
    const fv_value *where;
    const char *path;
    const char *folder; /* of the file, including the '/'; "" if it has none */
    size_t folder_bytes;
} origin;

static fv_status reject(const fv_recipe *recipe, const origin *from, const char *text)
{
    if (from->doc) return fv_doc_fail(from->doc, from->where, FV_ERR_FORMAT, "%s", text);
    return fv_fail(recipe->ctx, FV_ERR_ARGUMENT, "%s", text);
}

/* The key, of any section, whose last part is closest to that of `name`; or NULL. */
static const char *in_another_section(const fv_recipe *recipe, const char *name)
{
    const char *dot = strrchr(name, '.'), *found = NULL;
    fv_nearest nearest;
    fv_nearest_init(&nearest, dot ? dot + 1 : name);
    for (size_t i = 0; i < recipe->count; i++) {
        const char *key = recipe->keys[i].name, *last = strrchr(key, '.');
        const int before = nearest.distance;
        if (last) fv_nearest_add(&nearest, last + 1, strlen(last + 1));
        if (nearest.distance < before) found = key;
    }
    return found;
}

static fv_status unknown_key(const fv_recipe *recipe, const origin *from, const char *name)
{
    fv_nearest nearest;
    fv_nearest_init(&nearest, name);
    for (size_t i = 0; i < recipe->count; i++)
        fv_nearest_add(&nearest, recipe->keys[i].name, strlen(recipe->keys[i].name));
    const char *found = fv_nearest_best(&nearest);
    if (!found) found = in_another_section(recipe, name);
    char text[200];
    snprintf(text, sizeof text, "unknown key '%.60s'%s%s%s", name, found ? "; did you mean '" : "",
             found ? found : "", found ? "'?" : "");
    return reject(recipe, from, text);
}

/* Checks a value and stores it in its slot, with a copy of the text. */
static fv_status put(fv_recipe *recipe, slot *slots, const origin *from, const char *name,
                     const char *text)
{
    const int64_t i = key_index(recipe, name);
    if (i < 0) return unknown_key(recipe, from, name);
    const fv_key *key = &recipe->keys[i];
    char why[200], message[240];
    slot value;
    const char *wrong = read_value(key, text, &value, why);
    if (wrong) {
        snprintf(message, sizeof message, "%.60s: %.170s", name, wrong);
        return reject(recipe, from, message);
    }
    const bool relative = key->type == FV_KEY_PATH && *text && *text != '/' && *text != '$';
    const size_t lead = relative ? from->folder_bytes : 0, n = strlen(text);
    char *copy = fv_arena_alloc(&recipe->arena, lead + n + 1);
    FV_RETURN_IF(!copy, recipe->ctx, FV_ERR_MEMORY, "recipe: out of memory");
    if (lead) memcpy(copy, from->folder, lead);
    memcpy(copy + lead, text, n + 1);
    value.text = copy;
    value.is_set = true;
    slots[i] = value;
    return FV_OK;
}

fv_status fv_recipe_set(fv_recipe *recipe, const char *name, const char *text)
{
    const origin call = {.folder = ""};
    return put(recipe, recipe->slots, &call, name, text);
}

/* ---- reading a file ----------------------------------------------------------------- */

#define SMALL "small" /* the table of the small form; no key's section has this name */

/* A TOML value as the string that would be passed to fv_recipe_set. */
static fv_status value_text(const fv_recipe *recipe, const origin *from, const fv_key *key,
                            char room[FV_DECIMAL_BYTES], const char **out)
{
    const fv_value *v = from->where;
    const bool wants_text =
        !key || key->type == FV_KEY_TEXT || key->type == FV_KEY_PATH || key->type == FV_KEY_CHOICE;
    if (v->kind == FV_VALUE_STRING && wants_text) return fv_doc_string(from->doc, v, out);
    *out = room;
    if (v->kind == FV_VALUE_BOOL && key && key->type == FV_KEY_BOOL) {
        snprintf(room, FV_DECIMAL_BYTES, "%s", v->as.boolean ? "true" : "false");
    } else if (v->kind == FV_VALUE_INT && !wants_text && key->type != FV_KEY_BOOL) {
        snprintf(room, FV_DECIMAL_BYTES, "%lld", (long long)v->as.integer);
    } else if (v->kind == FV_VALUE_REAL && isfinite(v->as.real) && key &&
               key->type == FV_KEY_REAL) {
        fv_double_to_decimal(v->as.real, room);
    } else {
        static const char *const wanted[] = {"an integer", "a number", "true or false",
                                             "a string",   "a string", "a string"};
        char text[200];
        snprintf(text, sizeof text, "%.60s: expected %s, found %s", key ? key->name : "",
                 key ? wanted[key->type] : "a value", fv_value_kind_name(v->kind));
        return reject(recipe, from, text);
    }
    return FV_OK;
}

static fv_status read_member(fv_recipe *recipe, slot *slots, origin *from, const char *section,
                             const fv_member *member)
{
    char name[128], room[FV_DECIMAL_BYTES];
    const int n = snprintf(name, sizeof name, "%s%s%s", section, *section ? "." : "", member->key);
    from->where = &member->value;
    if (n < 0 || (size_t)n >= sizeof name) return unknown_key(recipe, from, member->key);
    const int64_t i = key_index(recipe, name);
    if (i < 0) return unknown_key(recipe, from, name);
    const char *text = NULL;
    FV_TRY(value_text(recipe, from, &recipe->keys[i], room, &text));
    return put(recipe, slots, from, name, text);
}

/* A section's keys, or one key without a section. */
static fv_status read_section(fv_recipe *recipe, slot *slots, origin *from,
                              const fv_member *section)
{
    if (section->value.kind != FV_VALUE_OBJECT)
        return read_member(recipe, slots, from, "", section);
    for (uint32_t i = 0; i < section->value.count; i++)
        FV_TRY(read_member(recipe, slots, from, section->key, &section->value.as.members[i]));
    return FV_OK;
}

/* The table that holds the sections of the small form; NULL if there is none. */
static const fv_value *small_form(const fv_value *root)
{
    for (uint32_t i = 0; i < root->count; i++) {
        const fv_member *m = &root->as.members[i];
        if (strcmp(m->key, SMALL) == 0 && m->value.kind == FV_VALUE_OBJECT) return &m->value;
    }
    return NULL;
}

/* "[small] steps = 5" lacks its section: the message gives the key as the file has it. */
static fv_status read_small(fv_recipe *recipe, slot *slots, origin *from, const fv_value *small)
{
    for (uint32_t i = 0; i < small->count; i++) {
        const fv_member *section = &small->as.members[i];
        if (section->value.kind == FV_VALUE_OBJECT)
            FV_TRY(read_section(recipe, slots, from, section));
        else
            FV_TRY(read_member(recipe, slots, from, SMALL, section));
    }
    return FV_OK;
}

/* Reads the document into slots[0]. The small form goes there too, over the rest, if it is wanted;
 * else into slots[1], which only checks it. */
static fv_status read_document(fv_recipe *recipe, slot *slots[2], origin *from, bool want_small)
{
    const fv_value *root = &from->doc->root, *small = small_form(root);
    for (uint32_t i = 0; i < root->count; i++)
        if (&root->as.members[i].value != small)
            FV_TRY(read_section(recipe, slots[0], from, &root->as.members[i]));
    FV_RETURN_IF(want_small && !small, recipe->ctx, FV_ERR_UNSUPPORTED,
                 "%.200s: there is no small form, expected sections such as [small.train]",
                 from->path);
    return small ? read_small(recipe, slots[want_small ? 0 : 1], from, small) : FV_OK;
}

static fv_status load(fv_recipe *recipe, const char *path, bool want_small)
{
    fv_ctx *ctx = recipe->ctx;
    const size_t bytes = recipe->count * sizeof *recipe->slots;
    fv_doc *doc = NULL;
    FV_TRY(fv_toml_load(ctx, path, &doc));
    slot *both = fv_mem_alloc(&ctx->mem, 2 * bytes);
    fv_status status = FV_OK;
    if (!both) status = fv_fail(ctx, FV_ERR_MEMORY, "recipe: out of memory");
    if (status == FV_OK) {
        const char *slash = strrchr(path, '/');
        origin from = {.doc = doc,
                       .path = path,
                       .folder = path,
                       .folder_bytes = slash ? (size_t)(slash - path) + 1 : 0};
        slot *slots[2] = {both, both + recipe->count};
        for (int i = 0; i < 2 && bytes; i++)
            memcpy(slots[i], recipe->slots, bytes);
        status = read_document(recipe, slots, &from, want_small);
        if (status == FV_OK && bytes) memcpy(recipe->slots, slots[0], bytes);
    }
    if (both) fv_mem_free(&ctx->mem, both, 2 * bytes);
    fv_doc_free(&doc);
    return status;
}

fv_status fv_recipe_load(fv_recipe *recipe, const char *path) { return load(recipe, path, false); }

fv_status fv_recipe_load_small(fv_recipe *recipe, const char *path)
{
    return load(recipe, path, true);
}

/* ---- writing ------------------------------------------------------------------------ */

static void write_raw(fv_json_writer *w, const char *text) { fv_json_raw(w, text, strlen(text)); }

static void write_key(fv_json_writer *w, const fv_key *key, const slot *value)
{
    if (key->help) {
        write_raw(w, "# ");
        write_raw(w, key->help);
        write_raw(w, "\n");
    }
    const char *dot = strchr(key->name, '.');
    write_raw(w, dot ? dot + 1 : key->name);
    write_raw(w, " = ");
    const bool quoted =
        key->type == FV_KEY_TEXT || key->type == FV_KEY_PATH || key->type == FV_KEY_CHOICE;
    w->comma = false;
    if (quoted)
        fv_json_string(w, value->text); /* a JSON string is a TOML string */
    else
        write_raw(w, value->text);
    write_raw(w, "\n");
}

static size_t section_bytes(const fv_key *key)
{
    const char *dot = strchr(key->name, '.');
    return dot ? (size_t)(dot - key->name) : 0;
}

static bool same_section(const fv_key *a, const fv_key *b)
{
    const size_t n = section_bytes(a);
    return n == section_bytes(b) && memcmp(a->name, b->name, n) == 0;
}

/* A section's keys may come from several tables, but the file has each section once. Keys without a
 * section come first. */
static void write_sections(const fv_recipe *recipe, fv_json_writer *w)
{
    for (int named = 0; named < 2; named++)
        for (size_t i = 0; i < recipe->count; i++) {
            const fv_key *head = &recipe->keys[i];
            bool seen = (section_bytes(head) > 0) != (named == 1);
            for (size_t j = 0; j < i && !seen; j++)
                seen = same_section(&recipe->keys[j], head);
            if (seen) continue;
            if (named) {
                write_raw(w, w->bytes ? "\n[" : "[");
                fv_json_raw(w, head->name, section_bytes(head));
                write_raw(w, "]\n");
            }
            for (size_t j = i; j < recipe->count; j++)
                if (same_section(&recipe->keys[j], head))
                    write_key(w, &recipe->keys[j], &recipe->slots[j]);
        }
}

fv_status fv_recipe_save(fv_recipe *recipe, const char *path)
{
    fv_json_writer w;
    fv_json_begin(&w, recipe->ctx);
    write_raw(&w, "# Written by fovea: every key of this run, with its value.\n\n");
    write_sections(recipe, &w);
    const fv_status status = fv_json_save(&w, path);
    fv_json_free(&w);
    return status;
}

/* ---- values ------------------------------------------------------------------------- */

static const slot *find(const fv_recipe *recipe, const char *name)
{
    const int64_t i = key_index(recipe, name);
    return i < 0 ? NULL : &recipe->slots[i];
}

int64_t fv_recipe_int(const fv_recipe *recipe, const char *name)
{
    const slot *value = find(recipe, name);
    return value ? value->integer : 0;
}

double fv_recipe_real(const fv_recipe *recipe, const char *name)
{
    const slot *value = find(recipe, name);
    return value ? value->real : 0;
}

bool fv_recipe_bool(const fv_recipe *recipe, const char *name)
{
    return fv_recipe_int(recipe, name) != 0;
}

const char *fv_recipe_text(const fv_recipe *recipe, const char *name)
{
    const slot *value = find(recipe, name);
    return value ? value->text : "";
}

bool fv_recipe_is_set(const fv_recipe *recipe, const char *name)
{
    const slot *value = find(recipe, name);
    return value && value->is_set;
}

int fv_recipe_choice(const fv_recipe *recipe, const char *name)
{
    const int64_t i = key_index(recipe, name);
    if (i < 0 || recipe->keys[i].type != FV_KEY_CHOICE) return -1;
    return (int)recipe->slots[i].integer;
}

fv_status fv_recipe_set_choices(fv_recipe *recipe, const char *name, const char *choices)
{
    for (size_t i = 0; i < recipe->count; i++) {
        if (strcmp(recipe->keys[i].name, name) != 0) continue;
        recipe->keys[i].choices = fv_arena_text(&recipe->arena, choices, strlen(choices));
        FV_RETURN_IF(!recipe->keys[i].choices, recipe->ctx, FV_ERR_MEMORY,
                     "no memory for the choices of %s", name);
        return FV_OK;
    }
    return fv_fail(recipe->ctx, FV_ERR_ARGUMENT, "recipe: there is no key '%.100s'", name);
}
