/*
 * Properties of code points as the steps of Hugging Face's library see them. Its tables have other
 * versions of Unicode than ours, and a tokenizer must follow the library that it was trained with:
 * the categories in fovea/unicode.h are for everything else. tools/make-hf-unicode writes the
 * tables.
 */
#ifndef FV_TEXT_HF_UNICODE_H
#define FV_TEXT_HF_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

bool fv_hf_is_control(uint32_t code);     /* removed by BertNormalizer's clean_text */
bool fv_hf_is_accent(uint32_t code);      /* removed by BertNormalizer's strip_accents */
bool fv_hf_is_mark(uint32_t code);        /* removed by StripAccents */
bool fv_hf_is_punctuation(uint32_t code); /* split off by Punctuation and BertPreTokenizer */
bool fv_hf_is_number(uint32_t code);      /* split off by Digits */
bool fv_hf_is_word_char(uint32_t code);   /* \w of Rust's regular expressions */

/* True for a code point that normal forms leave as it is, though our tables decompose it. */
bool fv_hf_keeps(uint32_t code, bool compatible);

/* Lower case without context, as fv_unicode_lower. */
int fv_hf_lower(uint32_t code, uint32_t out[2]);

#endif
