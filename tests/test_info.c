/* What the library says about itself and the machine, also to callers with older structs. */
#include "fovea/context.h"
#include "support/test.h"

static void version_is_the_build_info_s(void)
{
    fv_build_info build = {.struct_size = sizeof build};
    fv_build_info_get(&build);
    CHECK_STR(fv_version(), build.version);
    CHECK(strchr(build.version, '.') != NULL);
    CHECK(strcmp(build.type, "release") == 0 || strcmp(build.type, "debug") == 0);
    CHECK(build.compiler[0] && build.target[0] && build.sanitizer);
}

static void cpu_fits_the_chosen_level(void)
{
    fv_cpu_info cpu = {.struct_size = sizeof cpu};
    fv_cpu_info_get(&cpu);
    CHECK_EQ(cpu.best, fv_simd_detect());
    CHECK(cpu.best >= FV_SIMD_SCALAR && cpu.best <= FV_SIMD_AMX);
    CHECK(cpu.cpus >= 1);
#if defined(__aarch64__)
    CHECK_EQ(cpu.best, FV_SIMD_NEON);
#else
    if (cpu.best >= FV_SIMD_AVX2) CHECK(cpu.avx2 && cpu.fma && cpu.f16c && cpu.os_ymm);
    if (cpu.best >= FV_SIMD_AVX512)
        CHECK(cpu.avx512f && cpu.avx512dq && cpu.avx512bw && cpu.avx512vl && cpu.os_zmm);
    if (cpu.best >= FV_SIMD_AMX)
        CHECK(cpu.amx_tile && cpu.amx_bf16 && cpu.os_tiles && cpu.tiles_permitted);
#endif
}

/* A caller built against a shorter struct: the bytes after its end are not touched. */
static void older_structs_are_respected(void)
{
    fv_cpu_info cpu;
    memset(&cpu, 0x5a, sizeof cpu);
    cpu.struct_size = offsetof(fv_cpu_info, cpus);
    fv_cpu_info_get(&cpu);
    CHECK_EQ(cpu.struct_size, offsetof(fv_cpu_info, cpus));
    CHECK_EQ(cpu.best, fv_simd_detect());
    const unsigned char *bytes = (const unsigned char *)&cpu;
    for (size_t i = offsetof(fv_cpu_info, cpus); i < sizeof cpu; i++)
        CHECK_EQ(bytes[i], 0x5a);

    fv_feature feature = {.name = "unchanged"}; /* struct_size 0: a forgotten size writes nothing */
    CHECK(fv_feature_get(0, &feature));
    CHECK_STR(feature.name, "unchanged");
}

static void features_have_names_and_an_end(void)
{
    fv_feature feature = {.struct_size = sizeof feature};
    int count = 0;
    while (fv_feature_get(count, &feature)) {
        CHECK(feature.name[0] && feature.description[0]);
        fv_feature other = {.struct_size = sizeof other};
        for (int i = 0; i < count && fv_feature_get(i, &other); i++)
            CHECK(strcmp(feature.name, other.name) != 0);
        count++;
    }
    CHECK(count >= 3);
    CHECK(!fv_feature_get(-1, &feature));
    CHECK(!fv_feature_get(count, &feature));
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(version_is_the_build_info_s);
    RUN(cpu_fits_the_chosen_level);
    RUN(older_structs_are_respected);
    RUN(features_have_names_and_an_end);
    return TEST_END();
}
