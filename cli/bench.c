/* fovea bench: speed of the kernels as a share of what the machine can do. */
#include "bench.h"

#include <string.h>

#include "fovea/context.h"
#include "model.h"
#include "output.h"

static const cli_option options[] = {
    {.name = "json", .type = CLI_FLAG, .help = "print one JSON object per line"},
    {.name = "threads",
     .letter = 't',
     .type = CLI_INT,
     .min = 1,
     .max = 64,
     .metavar = "N",
     .help = "measure with N threads only (default: with one and with all CPUs)"},
    {.name = "level",
     .letter = 'l',
     .type = CLI_CHOICE,
     .choices = "auto|scalar|avx2|avx512|amx",
     .default_value = "auto",
     .metavar = "LEVEL",
     .help = "force a kernel level"},
    CLI_DEVICE,
    {.name = "only",
     .type = CLI_STRING,
     .metavar = "TEXT",
     .help = "measure only rows whose name contains TEXT; TEXT,TEXT: both"},
    {.name = "cpu-time",
     .type = CLI_FLAG,
     .help = "with --threads 1: CPU time instead of elapsed time, beside other programs"},
    {.name = "quick", .letter = 'q', .type = CLI_FLAG, .help = "fewer sizes and rounds"},
    {.name = "long",
     .type = CLI_FLAG,
     .help = "attention: one head over 131,072 positions, its time and memory (minutes)"},
    {.name = "types",
     .type = CLI_FLAG,
     .help = "attention: bf16 and f16 compared with f32, over 1 to 2048 positions at each level"},
    {.name = "output",
     .letter = 'o',
     .type = CLI_PATH,
     .writes = true,
     .metavar = "FILE",
     .help = "compare: draw a plot (.svg, .png or .html); seq2seq, pointer: a folder for models "
             "and batches"},
    {.name = "model",
     .type = CLI_PATH,
     .metavar = "MODEL",
     .help = "tokenizer: the tokenizer, as for `fovea tokenize`"},
    {.name = "text",
     .type = CLI_PATH,
     .metavar = "FILE",
     .help = "tokenizer: the text to encode, plain or compressed; - is standard input"},
    {.name = "plot",
     .type = CLI_CHOICE,
     .choices = "time|memory|operations|path",
     .default_value = "time",
     .metavar = "WHAT",
     .help = "compare: what the plot shows against the length"},
};

static const struct suite {
    const char *name;
    int (*run)(bench_run *run);
    bool any_device; /* it runs a model; the others measure the CPU's kernels */
} suites[] = {
    {.name = "peak", .run = bench_peak},
    {.name = "gemm", .run = bench_gemm},
    {.name = "attention", .run = bench_attention},
    {.name = "ops", .run = bench_ops},
    {.name = "conv", .run = bench_conv},
    {.name = "compare", .run = bench_compare},
    {.name = "seq2seq", .run = bench_seq2seq, .any_device = true},
    {.name = "ntm", .run = bench_ntm},
    {.name = "pointer", .run = bench_pointer, .any_device = true},
    {.name = "tokenizer", .run = bench_tokenizer},
    {.name = "model", .run = bench_model, .any_device = true},
    {.name = "shared", .run = bench_shared},
};

static const struct suite *suite_named(const char *name)
{
    int i = 0;
    while (strcmp(suites[i].name, name) != 0) /* one of the choices */
        i++;
    return &suites[i];
}

static fv_simd level_named(const char *name)
{
    for (int level = FV_SIMD_SCALAR; level <= FV_SIMD_AMX; level++)
        if (strcmp(fv_simd_name((fv_simd)level), name) == 0) return (fv_simd)level;
    return FV_SIMD_AUTO;
}

static int run(const cli_call *call)
{
    fv_cpu_info cpu = {.struct_size = sizeof cpu};
    fv_cpu_info_get(&cpu);
    bench_run bench = {.suite = call->words[0],
                       .json = cli_flag(call, "json"),
                       .quick = cli_flag(call, "quick"),
                       .long_rows = cli_flag(call, "long"),
                       .types = cli_flag(call, "types"),
                       .threads = cpu.cpus,
                       .only = cli_text(call, "only"),
                       .output = cli_text(call, "output"),
                       .plot = cli_text(call, "plot"),
                       .model = cli_text(call, "model"),
                       .text = cli_text(call, "text"),
                       .threads_given = cli_given(call, "threads"),
                       .level = level_named(cli_text(call, "level")),
                       .now = cli_flag(call, "cpu-time") ? bench_thread_seconds : cli_now,
                       .slot_seconds = 0.008,
                       .rounds = 15,
                       .tries = 5};
    if (bench.threads_given) bench.threads = (int)cli_int(call, "threads");
    if (cli_flag(call, "cpu-time") && !(bench.threads_given && bench.threads == 1)) {
        cli_error("bench: --cpu-time is the time of one thread: add --threads 1");
        return CLI_USAGE;
    }
    if (bench.level == FV_SIMD_AUTO) bench.level = cpu.best;
    if (bench.level > cpu.best) {
        cli_error("bench: --level: this CPU does not support %s; its best level is %s",
                  fv_simd_name(bench.level), fv_simd_name(cpu.best));
        return CLI_MISSING;
    }
    const int absent = cli_device(call, &bench.device);
    if (absent) return absent;
    const struct suite *suite = suite_named(bench.suite);
    if (bench.device != FV_DEVICE_CPU && !suite->any_device) {
        cli_error("bench: --device is for model, seq2seq and pointer: %s measures the CPU",
                  suite->name);
        return CLI_USAGE;
    }
    if (bench.quick) {
        bench.slot_seconds = 0.002;
        bench.rounds = 5;
        bench.tries = 2;
    }
    const int code = suite->run(&bench);
    bench_buffers_free(&bench);
    if (bench.missing_memory) {
        cli_error("bench: not enough memory for arrays larger than the caches");
        return CLI_FAILED;
    }
    if (ferror(stdout)) return CLI_FAILED;
    if (code == CLI_DONE && bench.only && bench.printed == 0 && !cli_cancelled) {
        cli_error("bench: no row of %s contains '%s' in its name", bench.suite, bench.only);
        return CLI_USAGE;
    }
    return cli_cancelled ? CLI_INTERRUPTED : code;
}

const cli_verb verb_bench = {
    .name = "bench",
    .about = "measure speed against the limits of this machine",
    .notes = "  peak       the limits: multiply-adds, memory bandwidth; exp, log, tanh, erf\n"
             "  gemm       matrix products, compared with OpenBLAS and oneDNN if installed\n"
             "  attention  forward, backward, additive scores, one query over a cache of keys\n"
             "  ops        softmax, layer norm, GELU, AdamW on large arrays; tiny ops; LSTM\n"
             "  conv       convolutions of images, forward and backward\n"
             "  compare    convolution, recurrence and attention by sequence length\n"
             "  seq2seq    training and greedy search of a translator, per target token\n"
             "  ntm        training steps of a Neural Turing Machine, copying bits\n"
             "  pointer    training of a pointer network and greedy tours, per choice\n"
             "  model      GPT-2 124M: a pass, single tokens, training, memory\n"
             "  tokenizer  encoding --text with --model, starting with an empty word cache\n"
             "  shared     work beside threads that spin on all CPUs, against none of them\n"
             "\n"
             "Each figure is the median of interleaved rounds. The share is that of the limit\n"
             "measured just before and after; if these two differ by more than 5 % after\n"
             "several tries, the line is marked noisy: another program was using the machine.",
    .words = {.metavar = "SUITE",
              .type = CLI_CHOICE,
              .choices =
                  "peak|gemm|attention|ops|conv|compare|seq2seq|ntm|pointer|model|tokenizer|shared",
              .min = 1,
              .max = 1,
              .help = "what to measure"},
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
