/* fovea doctor: what this machine and build support, and a self-test. */
#include <string.h>

#include "fovea/context.h"
#include "machine.h"
#include "options.h"
#include "output.h"
#include "selftest.h"

static const cli_option options[] = {
    {.name = "json", .type = CLI_FLAG, .help = "print one JSON object"},
};

typedef struct check {
    const char *name;
    void (*run)(fv_simd level, selftest_result *out);
} check;

static const check checks[] = {
    {"gemm", selftest_gemm},
    {"training", selftest_training},
};

enum { CHECKS = CLI_COUNT(checks), LEVELS = FV_SIMD_AMX - FV_SIMD_SCALAR + 1 };

typedef struct report {
    fv_build_info build;
    fv_cpu_info cpu;
    machine_memory memory;
    selftest_result results[CHECKS][LEVELS]; /* by level - scalar, up to the best one */
    bool healthy;
} report;

static void examine(report *r)
{
    memset(r, 0, sizeof *r);
    r->build.struct_size = sizeof r->build;
    r->cpu.struct_size = sizeof r->cpu;
    fv_build_info_get(&r->build);
    fv_cpu_info_get(&r->cpu);
    machine_memory_get(&r->memory);
    r->healthy = true;
    for (int i = 0; i < CHECKS; i++) {
        for (int level = FV_SIMD_SCALAR; level <= (int)r->cpu.best; level++) {
            selftest_result *result = &r->results[i][level - FV_SIMD_SCALAR];
            checks[i].run((fv_simd)level, result);
            if (!result->ok) r->healthy = false;
        }
    }
}

/* ---- for people ----------------------------------------------------------------- */

static void heading(const char *text)
{
    fputc('\n', stdout);
    cli_styled(stdout, CLI_BOLD, text, 0);
    fputc('\n', stdout);
}

static void row_bytes(const char *name, uint64_t bytes, const char *unknown)
{
    char text[24];
    cli_bytes_text(text, bytes);
    printf("  %-14s %s\n", name, bytes ? text : unknown);
}

static void print_cpu(const fv_cpu_info *cpu)
{
    heading("CPU");
    fputs("  name           ", stdout);
    cli_safe_text(stdout, cpu->name[0] ? cpu->name : "unknown");
    printf("\n  %-14s %d\n", "usable CPUs", cpu->cpus);
    const bool neon = strcmp(fv_simd_name(cpu->best), "neon") == 0;
    printf("  %-14s%s%s%s%s%s%s%s%s%s%s%s%s%s\n", "instructions", neon ? " neon" : "",
           cpu->avx2 ? " avx2" : "", cpu->fma ? " fma" : "", cpu->f16c ? " f16c" : "",
           cpu->avx512f ? " avx512f" : "", cpu->avx512dq ? " avx512dq" : "",
           cpu->avx512bw ? " avx512bw" : "", cpu->avx512vl ? " avx512vl" : "",
           cpu->avx512_bf16 ? " avx512_bf16" : "", cpu->avx512_vnni ? " avx512_vnni" : "",
           cpu->amx_tile ? " amx_tile" : "", cpu->amx_bf16 ? " amx_bf16" : "",
           cpu->amx_int8 ? " amx_int8" : "");
    if (!neon)
        printf("  %-14s ymm %s, zmm %s, tiles %s\n", "saved by OS", cpu->os_ymm ? "yes" : "no",
               cpu->os_zmm ? "yes" : "no",
               !cpu->os_tiles         ? "no"
               : cpu->tiles_permitted ? "yes"
                                      : "not permitted to this process");
    printf("  %-14s", "kernel levels");
    for (int level = FV_SIMD_SCALAR; level <= (int)cpu->best; level++)
        printf(" %s%s", fv_simd_name((fv_simd)level), level == (int)cpu->best ? " (chosen)" : "");
    fputc('\n', stdout);
    row_bytes("L1 data", cpu->l1d_bytes, "unknown");
    row_bytes("L2", cpu->l2_bytes, "unknown");
    row_bytes("L3", cpu->l3_bytes, "unknown");
}

static void print_features(void)
{
    heading("Features");
    fv_feature feature = {.struct_size = sizeof feature};
    for (int i = 0; fv_feature_get(i, &feature); i++) {
        printf("  %-14s ", feature.name);
        cli_styled(stdout, feature.present ? CLI_GREEN : CLI_DIM,
                   feature.present ? "yes" : "left out", 9);
        printf(" %s\n", feature.description);
    }
}

static void print_libraries(void)
{
    heading("Libraries");
    fv_library library = {.struct_size = sizeof library};
    for (int i = 0; fv_library_get(i, &library); i++) {
        printf("  %-14s ", library.name);
        cli_styled(stdout, library.found ? CLI_GREEN : CLI_DIM,
                   library.found  ? "found"
                   : library.used ? "not found"
                                  : "left out",
                   9);
        printf(" %s", library.purpose);
        if (library.found) {
            fputs(": ", stdout);
            cli_safe_text(stdout, library.path[0] ? library.path : library.file);
        } else if (library.used) {
            printf(": install %s (Debian: apt install %s)", library.file, library.package);
        }
        fputc('\n', stdout);
    }
}

static void print_checks(const report *r)
{
    heading("Self-test");
    for (int i = 0; i < CHECKS; i++) {
        for (int level = FV_SIMD_SCALAR; level <= (int)r->cpu.best; level++) {
            const selftest_result *result = &r->results[i][level - FV_SIMD_SCALAR];
            printf("  %-9s %-8s ", checks[i].name, fv_simd_name((fv_simd)level));
            cli_styled(stdout, result->ok ? CLI_GREEN : CLI_RED, result->ok ? "ok" : "FAIL", 5);
            cli_safe_text(stdout, result->detail);
            fputc('\n', stdout);
        }
    }
}

static void print_text(const report *r)
{
    printf("fovea %s, %s, %s, %s\n", r->build.version, r->build.type, r->build.compiler,
           r->build.target);
    print_cpu(&r->cpu);
    heading("Memory");
    row_bytes("total", r->memory.total, "unknown");
    row_bytes("free", r->memory.available, "unknown");
    row_bytes("cap", r->memory.cap, "none");
    print_features();
    print_libraries();
    print_checks(r);
}

/* ---- for programs --------------------------------------------------------------- */

static void json_cpu(cli_json *j, const fv_cpu_info *cpu)
{
    const struct {
        const char *key;
        bool value;
    } flags[] = {
        {"avx2", cpu->avx2},         {"fma", cpu->fma},
        {"f16c", cpu->f16c},         {"avx512f", cpu->avx512f},
        {"avx512dq", cpu->avx512dq}, {"avx512bw", cpu->avx512bw},
        {"avx512vl", cpu->avx512vl}, {"avx512_bf16", cpu->avx512_bf16},
        {"os_ymm", cpu->os_ymm},     {"avx512_vnni", cpu->avx512_vnni},
        {"os_zmm", cpu->os_zmm},     {"amx_tile", cpu->amx_tile},
        {"amx_bf16", cpu->amx_bf16}, {"amx_int8", cpu->amx_int8},
        {"os_tiles", cpu->os_tiles}, {"tiles_permitted", cpu->tiles_permitted},
    };
    cli_json_open(j, "cpu", '{');
    cli_json_text(j, "name", cpu->name);
    cli_json_int(j, "cpus", cpu->cpus);
    for (int i = 0; i < CLI_COUNT(flags); i++)
        cli_json_bool(j, flags[i].key, flags[i].value);
    cli_json_open(j, "levels", '[');
    for (int level = FV_SIMD_SCALAR; level <= (int)cpu->best; level++)
        cli_json_text(j, NULL, fv_simd_name((fv_simd)level));
    cli_json_close(j, ']');
    cli_json_text(j, "level", fv_simd_name(cpu->best));
    cli_json_size(j, "l1d_bytes", cpu->l1d_bytes);
    cli_json_size(j, "l2_bytes", cpu->l2_bytes);
    cli_json_size(j, "l3_bytes", cpu->l3_bytes);
    cli_json_close(j, '}');
}

static void json_libraries(cli_json *j)
{
    fv_library library = {.struct_size = sizeof library};
    cli_json_open(j, "libraries", '[');
    for (int i = 0; fv_library_get(i, &library); i++) {
        cli_json_open(j, NULL, '{');
        cli_json_text(j, "name", library.name);
        cli_json_text(j, "gives", library.purpose);
        cli_json_bool(j, "used", library.used);
        cli_json_bool(j, "found", library.found);
        cli_json_text(j, "path", library.path);
        cli_json_text(j, "package", library.package);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static void print_json(const report *r)
{
    cli_json j = {.to = stdout};
    fv_feature feature = {.struct_size = sizeof feature};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "version", r->build.version);
    cli_json_text(&j, "build", r->build.type);
    cli_json_text(&j, "compiler", r->build.compiler);
    cli_json_text(&j, "target", r->build.target);
    json_cpu(&j, &r->cpu);
    cli_json_open(&j, "memory", '{');
    cli_json_size(&j, "total", r->memory.total);
    cli_json_size(&j, "free", r->memory.available);
    cli_json_size(&j, "cap", r->memory.cap);
    cli_json_close(&j, '}');
    cli_json_open(&j, "features", '[');
    for (int i = 0; fv_feature_get(i, &feature); i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "name", feature.name);
        cli_json_bool(&j, "present", feature.present);
        cli_json_text(&j, "gives", feature.description);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    json_libraries(&j);
    cli_json_open(&j, "checks", '[');
    for (int i = 0; i < CHECKS; i++) {
        for (int level = FV_SIMD_SCALAR; level <= (int)r->cpu.best; level++) {
            const selftest_result *result = &r->results[i][level - FV_SIMD_SCALAR];
            cli_json_open(&j, NULL, '{');
            cli_json_text(&j, "name", checks[i].name);
            cli_json_text(&j, "level", fv_simd_name((fv_simd)level));
            cli_json_bool(&j, "ok", result->ok);
            cli_json_text(&j, "detail", result->detail);
            cli_json_close(&j, '}');
        }
    }
    cli_json_close(&j, ']');
    cli_json_bool(&j, "ok", r->healthy);
    cli_json_close(&j, '}');
}

static int run(const cli_call *call)
{
    report r;
    examine(&r);
    if (cli_flag(call, "json"))
        print_json(&r);
    else
        print_text(&r);
    if (r.healthy) return CLI_DONE;
    cli_error("doctor: the self-test failed: results on this machine cannot be trusted");
    return CLI_FAILED;
}

const cli_verb verb_doctor = {
    .name = "doctor",
    .about = "show what this machine and this build support, and run a self-test",
    .notes = "Exits with 1 if the self-test fails.",
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
