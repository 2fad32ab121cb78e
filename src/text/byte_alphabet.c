/* GPT-2's byte alphabet, and the word characters of regular expressions. */
#include "text/tokenizer_pipeline.h"

/* Bytes that are printable in Latin-1 map to themselves, the others in order to U+0100 and up. */
static bool is_printable(unsigned byte)
{
    /* 173 is the soft hyphen */
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

uint32_t fv_gpt2_byte_to_codepoint(unsigned byte)
{
    if (is_printable(byte)) return byte;
    /* 0 to 32, then 127 to 160, then 173 */
    if (byte <= 32) return 256 + byte;
    return byte == 173 ? 256 + 67 : 256 + 33 + (byte - 127);
}

int fv_gpt2_codepoint_to_byte(uint32_t code)
{
    if (code < 256) return is_printable(code) ? (int)code : -1;
    if (code < 256 + 33) return (int)code - 256;
    if (code < 256 + 67) return (int)code - 256 - 33 + 127;
    return code == 256 + 67 ? 173 : -1;
}

bool fv_is_word_char(uint32_t code)
{
    if (code < 0x80)
        return (code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') ||
               (code >= 'A' && code <= 'Z') || code == '_';
    fv_category c = fv_unicode_category(code);
    /* letters, marks, decimal and letter numbers (the enum is alphabetical) */
    if ((c >= FV_CATEGORY_LL && c <= FV_CATEGORY_NL) || c == FV_CATEGORY_PC) return true;
    /* Rust's \w (Alphabetic, Join_Control) also matches circled and squared letters and joiners. */
    return (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
           (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189) ||
           code == 0x200C || code == 0x200D;
}
