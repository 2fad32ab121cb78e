/* How alike two texts are: the cosine of their vectors.
 *
 *     examples/embed all-MiniLM-L6-v2 "A cat sleeps." "A kitten naps." */
#include <stdio.h>
#include <string.h>

#include "fovea/encode.h"

int main(int argc, char **argv)
{
    fv_ctx *ctx = NULL;
    fv_embedder *embedder = NULL;
    const fv_embeddings *vectors = NULL;
    if (argc != 4 || fv_ctx_create(NULL, &ctx) != FV_OK) return 2;
    const fv_string texts[] = {{argv[2], strlen(argv[2])}, {argv[3], strlen(argv[3])}};
    fv_status status = fv_embedder_open(ctx, argv[1], FV_WEIGHT_F32, &embedder);
    if (status == FV_OK) status = fv_embed_texts(embedder, 2, texts, &vectors);
    if (status == FV_OK) printf("%.4f\n", fv_embeddings_cosine(vectors, 0, 1));
    if (status != FV_OK) fprintf(stderr, "%s\n", fv_ctx_message(ctx));
    fv_embedder_close(&embedder);
    fv_ctx_destroy(&ctx);
    return status == FV_OK ? 0 : 1;
}
