#include "text/unicode_data.h"

#include "text/data/canonical.inc"
#include "text/data/combining.inc"
#include "text/data/compatible.inc"
#include "text/data/forms.inc"
#include "text/data/kind.inc"
#include "text/data/lower.inc"
#include "text/data/pairs.inc"
#include "text/data/pool.inc"

/* Looks up a three-stage table of tools/make-unicode; `code` is below FV_CODES. */
#define LOOK_UP(table, code)                                                                       \
    table##_leaf                                                                                   \
        [(unsigned)table##_middle[(unsigned)table##_top[(code) >> 10] << 6 | ((code) >> 4 & 63)]   \
             << 4 |                                                                                \
         ((code)&15)]

/* A byte of the kind table: category, sigma view, whether it composes. */
static unsigned kind_of(uint32_t code) { return code < FV_CODES ? LOOK_UP(kind, code) : 0; }

fv_category fv_unicode_category(uint32_t code) { return (fv_category)(kind_of(code) & 31); }
fv_sigma_view fv_unicode_sigma_view(uint32_t code)
{
    return (fv_sigma_view)(kind_of(code) >> 5 & 3);
}
bool fv_unicode_can_compose(uint32_t code) { return kind_of(code) >> 7; }

const char *fv_category_name(fv_category category)
{
    static const char names[FV_CATEGORY_COUNT][3] = {
        "Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl",
        "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"};
    return (unsigned)category < FV_CATEGORY_COUNT ? names[category] : names[0];
}

static bool between(uint32_t code, fv_category first, fv_category last)
{
    fv_category category = fv_unicode_category(code);
    return category >= first && category <= last;
}

bool fv_unicode_is_letter(uint32_t code) { return between(code, FV_CATEGORY_LL, FV_CATEGORY_LU); }
bool fv_unicode_is_mark(uint32_t code) { return between(code, FV_CATEGORY_MC, FV_CATEGORY_MN); }
bool fv_unicode_is_number(uint32_t code) { return between(code, FV_CATEGORY_ND, FV_CATEGORY_NO); }
bool fv_unicode_is_punctuation(uint32_t code)
{
    return between(code, FV_CATEGORY_PC, FV_CATEGORY_PS);
}
bool fv_unicode_is_space(uint32_t code)
{
    if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13);
    return code == 0x85 || between(code, FV_CATEGORY_ZL, FV_CATEGORY_ZS);
}

int fv_unicode_combining(uint32_t code) { return code < FV_CODES ? LOOK_UP(combining, code) : 0; }

int fv_unicode_lower(uint32_t code, uint32_t out[2])
{
    if (code == 0x130) { /* capital I with dot: the only one that becomes two code points */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = code;
    if (code < FV_CODES) out[0] = (uint32_t)((int32_t)code + lower_change[LOOK_UP(lower, code)]);
    return 1;
}

int fv_unicode_decompose(uint32_t code, bool compatible, const uint32_t **form)
{
    if (code < 0xA0 || code >= FV_CODES) return 0;
    unsigned number = compatible ? LOOK_UP(compatible, code) : LOOK_UP(canonical, code);
    *form = form_pool + form_place[number];
    return form_length[number];
}

uint32_t fv_unicode_compose(uint32_t first, uint32_t second)
{
    size_t low = 0, high = sizeof pair_first / sizeof pair_first[0];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pair_first[middle] == first && pair_second[middle] == second)
            return pair_joined[middle];
        if (pair_first[middle] < first ||
            (pair_first[middle] == first && pair_second[middle] < second))
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}
