/* fovea version: what this build is. */
#include "fovea/context.h"
#include "options.h"
#include "output.h"

static const cli_option options[] = {
    {.name = "json", .type = CLI_FLAG, .help = "print one JSON object"},
};

static void print_json(const fv_build_info *build)
{
    cli_json j = {.to = stdout};
    fv_feature feature = {.struct_size = sizeof feature};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "version", build->version);
    cli_json_text(&j, "build", build->type);
    cli_json_text(&j, "compiler", build->compiler);
    cli_json_text(&j, "target", build->target);
    cli_json_text(&j, "sanitizer", build->sanitizer[0] ? build->sanitizer : NULL);
    cli_json_open(&j, "features", '{');
    for (int i = 0; fv_feature_get(i, &feature); i++)
        cli_json_bool(&j, feature.name, feature.present);
    cli_json_close(&j, '}');
    cli_json_close(&j, '}');
}

static int run(const cli_call *call)
{
    fv_build_info build = {.struct_size = sizeof build};
    fv_build_info_get(&build);
    if (cli_flag(call, "json")) {
        print_json(&build);
        return CLI_DONE;
    }
    printf("fovea %s\n", build.version);
    printf("build     %s, %s, %s%s%s\n", build.type, build.compiler, build.target,
           build.sanitizer[0] ? ", sanitizer: " : "", build.sanitizer);
    fv_feature feature = {.struct_size = sizeof feature};
    for (int present = 1; present >= 0; present--) {
        printf("%-9s", present ? "features" : "left out");
        for (int i = 0; fv_feature_get(i, &feature); i++)
            if (feature.present == (bool)present) printf(" %s", feature.name);
        fputc('\n', stdout);
    }
    return CLI_DONE;
}

const cli_verb verb_version = {
    .name = "version",
    .about = "print the version, and how the program was built",
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
