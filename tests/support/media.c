#include "support/media.h"

#include "support/test.h"

void check_texts(fv_ctx *ctx, fv_media *set, int64_t most)
{
    const fv_media_facts *facts = fv_media_facts_of(set);
    fv_media_example whole, alone;
    for (fv_media_part part = 0; part < FV_MEDIA_PARTS; part++)
        for (int64_t i = 0; i < facts->count[part] && i < most; i++) {
            CHECK_OK(ctx, fv_media_get(set, part, i, NULL, &whole));
            CHECK_OK(ctx, fv_media_text(set, part, i, &alone));
            CHECK(alone.text[0] && !alone.values);
            CHECK_STR(alone.text, whole.text);
        }
    CHECK_EQ(fv_media_text(set, FV_MEDIA_VALID, facts->count[FV_MEDIA_VALID], &alone),
             FV_ERR_ARGUMENT);
    CHECK_EQ(fv_media_text(set, FV_MEDIA_PARTS, 0, &alone), FV_ERR_ARGUMENT);
}
