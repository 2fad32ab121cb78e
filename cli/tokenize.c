/* fovea tokenize: text to tokens and back, and learning a tokenizer from text. */
#include "fovea/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "memory.h"
#include "options.h"
#include "output.h"

/* In the order of fv_tokenizer_kind. */
#define LEARN_KINDS "chars|words|bpe-bytes|bpe-words|bpe-metaspace|wordpiece"

static const cli_option options[] = {
    {.name = "jsonl",
     .type = CLI_FLAG,
     .help = "read {\"text\": ..., \"pair\": ...} lines, print ids and character offsets"},
    {.name = "ids", .type = CLI_FLAG, .help = "print ids instead of tokens"},
    {.name = "target", .type = CLI_FLAG, .help = "the target-side tokenizer of a folder with two"},
    {.name = "decode", .type = CLI_FLAG, .help = "decode: read lines of ids, print their text"},
    {.name = "no-specials",
     .type = CLI_FLAG,
     .help = "add no special tokens; with --decode, leave them out"},
    {.name = "learn",
     .type = CLI_CHOICE,
     .choices = LEARN_KINDS,
     .help = "learn a tokenizer from the files instead, and write it to --output"},
    {.name = "output",
     .letter = 'o',
     .type = CLI_PATH,
     .writes = true,
     .metavar = "FILE",
     .help = "where --learn writes the tokenizer.json"},
    {.name = "vocabulary",
     .type = CLI_INT,
     .default_value = "8000",
     .min = 1,
     .max = 1048576,
     .metavar = "N",
     .help = "vocabulary size to learn"},
    {.name = "min-count",
     .type = CLI_INT,
     .min = 1,
     .max = 1e15,
     .metavar = "N",
     .help = "how often a pair or word must occur to be learned (2; 1 for chars and words)"},
    {.name = "lowercase", .type = CLI_FLAG, .help = "learn with lower-cased text"},
    {.name = "normalize",
     .type = CLI_CHOICE,
     .choices = "nfc|nfd|nfkc|nfkd",
     .help = "learn with normalized text"},
    {.name = "around", .type = CLI_FLAG, .help = "learn to put <s> and </s> around each text"},
    CLI_MEMORY,
};

typedef struct session {
    const cli_call *call;
    fv_ctx *ctx;
    fv_tokenizer *tok;
    fv_tokenizer_encoder *enc;
    fv_text text, pair; /* of a JSON line; decoded text */
    int64_t *ids;
    size_t id_room;
} session;

static int library_error(const session *s, fv_status status)
{
    return cli_library_error("tokenize", s->ctx, status);
}

static unsigned encode_flags(const session *s)
{
    return cli_flag(s->call, "no-specials") ? 0 : FV_TOKENIZER_ADD_SPECIALS;
}

/* ---- encoding -------------------------------------------------------------------- */

static void print_tokens(const session *s, const fv_encoding *e)
{
    for (size_t i = 0; i < e->count; i++) {
        if (i) putchar(' ');
        if (cli_flag(s->call, "ids"))
            printf("%lld", (long long)e->ids[i]);
        else
            cli_safe_text(stdout, fv_tokenizer_id_to_token(s->tok, e->ids[i]).text);
    }
    putchar('\n');
}

/* Characters before a byte of a text; continues from the previous call's position. */
typedef struct char_counter {
    fv_string text;
    size_t byte, chars;
} char_counter;

static size_t chars_before(char_counter *c, size_t byte)
{
    if (byte < c->byte) c->byte = c->chars = 0;
    for (; c->byte < byte && c->byte < c->text.bytes; c->byte++)
        c->chars += (c->text.text[c->byte] & 0xC0) != 0x80;
    return c->chars;
}

static void print_jsonl(const fv_encoding *e, fv_string text, fv_string pair)
{
    char_counter counters[2] = {{.text = text}, {.text = pair}};
    fputs("{\"ids\": [", stdout);
    for (size_t i = 0; i < e->count; i++)
        printf("%s%lld", i ? ", " : "", (long long)e->ids[i]);
    fputs("], \"offsets\": [", stdout);
    for (size_t i = 0; i < e->count; i++) {
        char_counter *c = &counters[e->sequence_ids[i]];
        size_t begin = chars_before(c, e->offsets[i].begin);
        size_t end = chars_before(c, e->offsets[i].end);
        printf("%s[%zu, %zu]", i ? ", " : "", begin, end);
    }
    fputs("], \"type_ids\": [", stdout);
    for (size_t i = 0; i < e->count; i++)
        printf("%s%d", i ? ", " : "", e->type_ids[i]);
    fputs("]}\n", stdout);
}

static int encode_json(session *s, const char *name, const fv_line *line)
{
    bool found = false, paired = false;
    fv_status status =
        fv_json_get_string(s->ctx, name, line->text, line->bytes, "text", &s->text, &found);
    if (status == FV_OK)
        status =
            fv_json_get_string(s->ctx, name, line->text, line->bytes, "pair", &s->pair, &paired);
    if (status == FV_OK && !found) {
        cli_error("tokenize: %s:%llu: no \"text\"", name, (unsigned long long)line->number);
        return CLI_BAD_FILE;
    }
    fv_encoding e = {.struct_size = sizeof e};
    const fv_string text = {s->text.data, s->text.bytes}, pair = {s->pair.data, s->pair.bytes};
    if (status == FV_OK)
        status = paired ? fv_tokenizer_encode_pair(s->enc, text, pair, encode_flags(s), &e)
                        : fv_tokenizer_encode(s->enc, text.text, text.bytes, encode_flags(s), &e);
    if (status != FV_OK) return library_error(s, status);
    print_jsonl(&e, text, pair);
    return CLI_DONE;
}

static int encode_line(session *s, const fv_line *line)
{
    fv_encoding e = {.struct_size = sizeof e};
    fv_status status = fv_tokenizer_encode(s->enc, line->text, line->bytes, encode_flags(s), &e);
    if (status != FV_OK) return library_error(s, status);
    print_tokens(s, &e);
    return CLI_DONE;
}

/* ---- decoding -------------------------------------------------------------------- */

static int bad_ids(const char *name, const fv_line *line)
{
    cli_error("tokenize: %s:%llu: expected ids separated by blanks", name,
              (unsigned long long)line->number);
    return CLI_BAD_FILE;
}

static int decode_line(session *s, const char *name, const fv_line *line)
{
    size_t count = 0;
    for (const char *at = line->text; *at;) {
        char *end = NULL;
        long id = strtol(at, &end, 10);
        if (end == at || id < 0 || id > INT32_MAX || (*end && *end != ' '))
            return bad_ids(name, line);
        if (count == s->id_room) {
            size_t room = s->id_room ? 2 * s->id_room : 256;
            int64_t *bigger = realloc(s->ids, room * sizeof *bigger);
            if (!bigger) {
                cli_error("tokenize: out of memory");
                return CLI_FAILED;
            }
            s->ids = bigger;
            s->id_room = room;
        }
        s->ids[count++] = id;
        at = end + strspn(end, " ");
    }
    unsigned flags = cli_flag(s->call, "no-specials") ? FV_TOKENIZER_SKIP_SPECIALS : 0;
    fv_status status = fv_tokenizer_decode(s->ctx, s->tok, s->ids, count, flags, &s->text);
    if (status == FV_ERR_INDEX) {
        cli_error("tokenize: %s:%llu: %s", name, (unsigned long long)line->number,
                  fv_ctx_message(s->ctx));
        return CLI_BAD_FILE;
    }
    if (status != FV_OK) return library_error(s, status);
    fwrite(s->text.data, 1, s->text.bytes, stdout);
    putchar('\n');
    return CLI_DONE;
}

/* ---- files ----------------------------------------------------------------------- */

static int one_line(session *s, const char *name, const fv_line *line,
                    fv_tokenizer_trainer *trainer)
{
    if (trainer) {
        fv_status status = fv_tokenizer_trainer_add(trainer, line->text, line->bytes);
        return status == FV_OK ? CLI_DONE : library_error(s, status);
    }
    if (cli_flag(s->call, "jsonl")) return encode_json(s, name, line);
    if (cli_flag(s->call, "decode")) return decode_line(s, name, line);
    return encode_line(s, line);
}

static int one_file(session *s, const char *path, fv_tokenizer_trainer *trainer)
{
    cli_input in;
    fv_line line = {.text = ""};
    int code = cli_input_open(s->ctx, "tokenize", path, FV_LINES_POLICY_REJECT, &in);
    if (code) return code;
    while (!cli_cancelled && !(code = cli_input_next(&in, &line)) && line.text) {
        if ((code = one_line(s, in.name, &line, trainer))) break;
        if (cli_input_waits(&in)) fflush(stdout);
    }
    cli_input_close(&in);
    return cli_cancelled ? CLI_INTERRUPTED : code;
}

static int all_files(session *s, int first, fv_tokenizer_trainer *trainer)
{
    if (s->call->word_count == first) return one_file(s, "-", trainer);
    for (int i = first; i < s->call->word_count; i++) {
        int code = one_file(s, s->call->words[i], trainer);
        if (code) return code;
    }
    return CLI_DONE;
}

static int encode_all(session *s)
{
    const char *path = s->call->words[0];
    fv_status status = cli_flag(s->call, "target") ? fv_tokenizer_load_target(s->ctx, path, &s->tok)
                                                   : fv_tokenizer_load(s->ctx, path, &s->tok);
    /* A text in the place of the tokenizer, most likely; the reason alone would not say so. */
    if (status == FV_ERR_FORMAT && !cli_ends_with(path, ".json")) {
        cli_error(
            "tokenize: %s: expected a tokenizer (tokenizer.json, a SentencePiece .model, or a "
            "folder) as the first word: %s",
            path, fv_ctx_message(s->ctx));
        return CLI_BAD_FILE;
    }
    if (status == FV_OK) status = fv_tokenizer_encoder_create(s->ctx, s->tok, &s->enc);
    return status == FV_OK ? all_files(s, 1, NULL) : library_error(s, status);
}

/* ---- learning -------------------------------------------------------------------- */

static int choice_number(const char *choices, const char *text)
{
    int length;
    for (int i = 0;; i++) {
        const char *entry = cli_choice_at(choices, i, &length);
        if (!entry || (strlen(text) == (size_t)length && !strncmp(entry, text, (size_t)length)))
            return i;
    }
}

static int learn_all(session *s)
{
    const cli_call *call = s->call;
    const char *output = cli_text(call, "output"), *form = cli_text(call, "normalize");
    if (!output) {
        cli_error("tokenize: --learn needs --output");
        return CLI_USAGE;
    }
    fv_tokenizer_trainer_config cfg;
    fv_tokenizer_trainer_config_init(
        &cfg, sizeof cfg, (fv_tokenizer_kind)choice_number(LEARN_KINDS, cli_text(call, "learn")));
    cfg.vocabulary = (size_t)cli_int(call, "vocabulary");
    if (cli_given(call, "min-count")) cfg.min_count = (uint64_t)cli_int(call, "min-count");
    cfg.lowercase = cli_flag(call, "lowercase");
    cfg.normalize = form != NULL;
    if (form) cfg.form = (fv_normal_form)choice_number("nfc|nfd|nfkc|nfkd", form);
    if (cli_flag(call, "around")) {
        cfg.begin = "<s>";
        cfg.end = "</s>";
    }
    fv_tokenizer_trainer *trainer = NULL;
    fv_status status = fv_tokenizer_trainer_create(s->ctx, &cfg, &trainer);
    if (status != FV_OK) return library_error(s, status);
    int code = all_files(s, 0, trainer);
    if (!code) {
        status = fv_tokenizer_trainer_finish(trainer, &s->tok);
        if (status == FV_OK) status = fv_tokenizer_save(s->ctx, s->tok, output);
        if (status != FV_OK) code = library_error(s, status);
    }
    fv_tokenizer_trainer_destroy(&trainer);
    if (!code) cli_note("%s: %zu tokens", output, fv_tokenizer_vocab_size(s->tok));
    return code;
}

static int run(const cli_call *call)
{
    session s = {.call = call};
    int code = cli_plain_context("tokenize", &s.ctx);
    if (code) return code;
    code = cli_given(call, "learn") ? learn_all(&s) : encode_all(&s);
    fv_tokenizer_encoder_destroy(&s.enc);
    fv_tokenizer_destroy(&s.tok);
    fv_text_free(s.ctx, &s.text);
    fv_text_free(s.ctx, &s.pair);
    free(s.ids);
    fv_ctx_destroy(&s.ctx);
    return code;
}

const cli_verb verb_tokenize = {
    .name = "tokenize",
    .about = "turn text into tokens and back, or learn a tokenizer",
    .notes =
        "MODEL is a tokenizer.json, a SentencePiece .model or a folder that holds one of them, "
        "or a folder with source.spm, target.spm and vocab.json (Marian), with vocab.json and "
        "merges.txt, or with vocab.txt. Text comes from the files after it, or from standard "
        "input, one text per line. With --learn every argument is a training file.",
    .words = {.metavar = "MODEL",
              .type = CLI_PATH,
              .min = 1,
              .max = CLI_MAX_WORDS,
              .help = "the tokenizer, then files of text; - is standard input"},
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
