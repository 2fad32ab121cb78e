#include "support/reading.h"

#include <sys/stat.h>

#include "fovea/model.h"
#include "support/files.h"
#include "support/program.h"
#include "support/values.h"

static void copy_file(const char *from, const char *to)
{
    size_t bytes = 0;
    void *data = file_read(from, &bytes);
    file_write(to, data, bytes);
    free(data);
}

const char *reading_model(void)
{
    fv_ctx *ctx = values_begin();
    fv_model *model = NULL;
    CHECK_OK(ctx, fv_model_open(ctx, test_path("fixtures/bert"), &model));
    CHECK_EQ(mkdir(program_path("bert"), 0777), 0);
    if (model) CHECK_OK(ctx, fv_model_save(model, program_path("bert")));
    copy_file(test_path("../fuzz/corpus/tokenizer/bert.json"), program_path("bert/tokenizer.json"));
    fv_model_close(&model);
    values_end(&ctx);
    return program_path("bert");
}
