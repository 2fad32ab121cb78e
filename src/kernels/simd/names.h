/*
 * The files of this folder compile once per level, so each function with external linkage needs a
 * symbol per level. Sources use one plain name; this list maps it to the symbol of the level:
 * fv_attn_pack is fv_attn_pack_avx2 in one object file and fv_attn_pack_avx512 in another.
 * Debuggers show the latter names.
 *
 * Every function of this folder that is not static is listed. A missing one has the same symbol at
 * both levels, so that linking fails with a multiple definition.
 */
#ifndef FV_KERNELS_SIMD_NAMES_H
#define FV_KERNELS_SIMD_NAMES_H

#if FV_SIMD_LEVEL == 3
#define FV_LEVEL_SYMBOL(name) name##_avx512
#elif FV_SIMD_LEVEL == 2
#define FV_LEVEL_SYMBOL(name) name##_avx2
#elif FV_SIMD_LEVEL == 1
#define FV_LEVEL_SYMBOL(name) name##_neon
#else
#error "only for the sources of src/kernels/simd, which compile with FV_SIMD_LEVEL 1, 2 and 3"
#endif

/* Entries of the kernel table. */
#define fv_simd_attention_register          FV_LEVEL_SYMBOL(fv_simd_attention_register)
#define fv_simd_attention_amx_register      FV_LEVEL_SYMBOL(fv_simd_attention_amx_register)
#define fv_simd_attention_emulated_register FV_LEVEL_SYMBOL(fv_simd_attention_emulated_register)
#define fv_simd_attention_grad_register     FV_LEVEL_SYMBOL(fv_simd_attention_grad_register)
#define fv_simd_attention_weights_register  FV_LEVEL_SYMBOL(fv_simd_attention_weights_register)
#define fv_simd_bf16_register               FV_LEVEL_SYMBOL(fv_simd_bf16_register)
#define fv_simd_batch_norm_register         FV_LEVEL_SYMBOL(fv_simd_batch_norm_register)
#define fv_simd_pool2d_register             FV_LEVEL_SYMBOL(fv_simd_pool2d_register)
#define fv_simd_conv2d_register             FV_LEVEL_SYMBOL(fv_simd_conv2d_register)
#define fv_simd_conv2d_weight_register      FV_LEVEL_SYMBOL(fv_simd_conv2d_weight_register)
#define fv_conv2d_images                    FV_LEVEL_SYMBOL(fv_conv2d_images)
#define fv_conv2d_images_fit                FV_LEVEL_SYMBOL(fv_conv2d_images_fit)
#define fv_conv2d_images_scratch            FV_LEVEL_SYMBOL(fv_conv2d_images_scratch)
#define fv_simd_elementwise_register        FV_LEVEL_SYMBOL(fv_simd_elementwise_register)
#define fv_simd_half_register               FV_LEVEL_SYMBOL(fv_simd_half_register)
#define fv_simd_register                    FV_LEVEL_SYMBOL(fv_simd_register)
#define fv_simd_gemm_register               FV_LEVEL_SYMBOL(fv_simd_gemm_register)
#define fv_simd_index_register              FV_LEVEL_SYMBOL(fv_simd_index_register)
#define fv_simd_loss_register               FV_LEVEL_SYMBOL(fv_simd_loss_register)
#define fv_simd_norm_register               FV_LEVEL_SYMBOL(fv_simd_norm_register)
#define fv_simd_optim_register              FV_LEVEL_SYMBOL(fv_simd_optim_register)
#define fv_simd_random_register             FV_LEVEL_SYMBOL(fv_simd_random_register)
#define fv_simd_recurrent_register          FV_LEVEL_SYMBOL(fv_simd_recurrent_register)
#define fv_simd_reduce_register             FV_LEVEL_SYMBOL(fv_simd_reduce_register)
#define fv_simd_rotary_register             FV_LEVEL_SYMBOL(fv_simd_rotary_register)
#define fv_simd_sequence_register           FV_LEVEL_SYMBOL(fv_simd_sequence_register)
#define fv_simd_softmax_register            FV_LEVEL_SYMBOL(fv_simd_softmax_register)
#define fv_simd_vnni_register               FV_LEVEL_SYMBOL(fv_simd_vnni_register)

/* Functions of fovea/kernels.h. */
#define fv_simd_verf  FV_LEVEL_SYMBOL(fv_simd_verf)
#define fv_simd_vexp  FV_LEVEL_SYMBOL(fv_simd_vexp)
#define fv_simd_vlog  FV_LEVEL_SYMBOL(fv_simd_vlog)
#define fv_simd_vtanh FV_LEVEL_SYMBOL(fv_simd_vtanh)

/* GEMM. */
#define fv_gemm_few_rows           FV_LEVEL_SYMBOL(fv_gemm_few_rows)
#define fv_gemm_add_row_sums       FV_LEVEL_SYMBOL(fv_gemm_add_row_sums)
#define fv_gemm_apply_epilogue     FV_LEVEL_SYMBOL(fv_gemm_apply_epilogue)
#define fv_gemm_join_row_sums      FV_LEVEL_SYMBOL(fv_gemm_join_row_sums)
#define fv_gemm_low_precision_rows FV_LEVEL_SYMBOL(fv_gemm_low_precision_rows)
#define fv_gemm_pack_a             FV_LEVEL_SYMBOL(fv_gemm_pack_a)
#define fv_gemm_pack_b             FV_LEVEL_SYMBOL(fv_gemm_pack_b)
#define fv_gemm_pack_slices        FV_LEVEL_SYMBOL(fv_gemm_pack_slices)
#define fv_gemm_row_by_matrix      FV_LEVEL_SYMBOL(fv_gemm_row_by_matrix)
#define fv_gemm_row_by_panel       FV_LEVEL_SYMBOL(fv_gemm_row_by_panel)
#define fv_gemm_tile               FV_LEVEL_SYMBOL(fv_gemm_tile)
#define fv_gemm_tile_pack          FV_LEVEL_SYMBOL(fv_gemm_tile_pack)
#define fv_gemm_tile_stream        FV_LEVEL_SYMBOL(fv_gemm_tile_stream)
#define fv_gemm_wide_tile          FV_LEVEL_SYMBOL(fv_gemm_wide_tile)
#define fv_gemm_wide_tile_pack     FV_LEVEL_SYMBOL(fv_gemm_wide_tile_pack)
#define fv_gemm_wide_tile_stream   FV_LEVEL_SYMBOL(fv_gemm_wide_tile_stream)
#define fv_gemm_widen_panel        FV_LEVEL_SYMBOL(fv_gemm_widen_panel)
#define fv_simd_gemm               FV_LEVEL_SYMBOL(fv_simd_gemm)
#define fv_simd_amx_register       FV_LEVEL_SYMBOL(fv_simd_amx_register)
#define fv_simd_gemm_amx           FV_LEVEL_SYMBOL(fv_simd_gemm_amx)
#define fv_simd_gemm_bf16_dot      FV_LEVEL_SYMBOL(fv_simd_gemm_bf16_dot)
#define fv_simd_gemm_bf16_emulated FV_LEVEL_SYMBOL(fv_simd_gemm_bf16_emulated)
#define fv_simd_gemm_bf16_fma      FV_LEVEL_SYMBOL(fv_simd_gemm_bf16_fma)
#define fv_simd_pack               FV_LEVEL_SYMBOL(fv_simd_pack)

/* Attention. */
#define fv_attn_add_to_keys        FV_LEVEL_SYMBOL(fv_attn_add_to_keys)
#define fv_attn_add_to_queries     FV_LEVEL_SYMBOL(fv_attn_add_to_queries)
#define fv_attn_additive           FV_LEVEL_SYMBOL(fv_attn_additive)
#define fv_attn_additive_floats    FV_LEVEL_SYMBOL(fv_attn_additive_floats)
#define fv_attn_additive_grad      FV_LEVEL_SYMBOL(fv_attn_additive_grad)
#define fv_attn_additive_buffers   FV_LEVEL_SYMBOL(fv_attn_additive_buffers)
#define fv_attn_additive_w         FV_LEVEL_SYMBOL(fv_attn_additive_w)
#define fv_attn_backward_bf16      FV_LEVEL_SYMBOL(fv_attn_backward_bf16)
#define fv_attn_backward_with      FV_LEVEL_SYMBOL(fv_attn_backward_with)
#define fv_attn_backward_bytes     FV_LEVEL_SYMBOL(fv_attn_backward_bytes)
#define fv_attn_backward_plan      FV_LEVEL_SYMBOL(fv_attn_backward_plan)
#define fv_attn_backward_job_of    FV_LEVEL_SYMBOL(fv_attn_backward_job_of)
#define fv_attn_prepare_queries    FV_LEVEL_SYMBOL(fv_attn_prepare_queries)
#define fv_attn_visible_key_blocks FV_LEVEL_SYMBOL(fv_attn_visible_key_blocks)
#define fv_attn_form_weights       FV_LEVEL_SYMBOL(fv_attn_form_weights)
#define fv_attn_bf16_step_dots     FV_LEVEL_SYMBOL(fv_attn_bf16_step_dots)
#define fv_attn_clear_rows         FV_LEVEL_SYMBOL(fv_attn_clear_rows)
#define fv_attn_decode             FV_LEVEL_SYMBOL(fv_attn_decode)
#define fv_attn_decode_bf16        FV_LEVEL_SYMBOL(fv_attn_decode_bf16)
#define fv_attn_decode_with        FV_LEVEL_SYMBOL(fv_attn_decode_with)
#define fv_attn_decode_scratch     FV_LEVEL_SYMBOL(fv_attn_decode_scratch)
#define fv_attn_store_rows         FV_LEVEL_SYMBOL(fv_attn_store_rows)
#define fv_attn_dots               FV_LEVEL_SYMBOL(fv_attn_dots)
#define fv_attn_apply_dropout      FV_LEVEL_SYMBOL(fv_attn_apply_dropout)
#define fv_attn_fill_rows          FV_LEVEL_SYMBOL(fv_attn_fill_rows)
#define fv_attn_finish_scores      FV_LEVEL_SYMBOL(fv_attn_finish_scores)
#define fv_attn_finish_sums        FV_LEVEL_SYMBOL(fv_attn_finish_sums)
#define fv_attn_finite             FV_LEVEL_SYMBOL(fv_attn_finite)
#define fv_attn_forward_with       FV_LEVEL_SYMBOL(fv_attn_forward_with)
#define fv_attn_forward_bytes      FV_LEVEL_SYMBOL(fv_attn_forward_bytes)
#define fv_attn_forward_plan       FV_LEVEL_SYMBOL(fv_attn_forward_plan)
#define fv_attn_forward_bytes_with FV_LEVEL_SYMBOL(fv_attn_forward_bytes_with)
#define fv_attn_single_query       FV_LEVEL_SYMBOL(fv_attn_single_query)
#define fv_attn_single_query_grad  FV_LEVEL_SYMBOL(fv_attn_single_query_grad)
#define fv_attn_job_of             FV_LEVEL_SYMBOL(fv_attn_job_of)
#define fv_attn_merge_partials     FV_LEVEL_SYMBOL(fv_attn_merge_partials)
#define fv_attn_merge_partial_w    FV_LEVEL_SYMBOL(fv_attn_merge_partial_w)
#define fv_attn_dropout_factors    FV_LEVEL_SYMBOL(fv_attn_dropout_factors)
#define fv_attn_add_key_sums       FV_LEVEL_SYMBOL(fv_attn_add_key_sums)
#define fv_attn_bf16_load          FV_LEVEL_SYMBOL(fv_attn_bf16_load)
#define fv_attn_bf16_multiply      FV_LEVEL_SYMBOL(fv_attn_bf16_multiply)
#define fv_attn_narrow             FV_LEVEL_SYMBOL(fv_attn_narrow)
#define fv_attn_pack               FV_LEVEL_SYMBOL(fv_attn_pack)
#define fv_attn_bf16_pack_values   FV_LEVEL_SYMBOL(fv_attn_bf16_pack_values)
#define fv_attn_bf16_pack          FV_LEVEL_SYMBOL(fv_attn_bf16_pack)
#define fv_attn_pack_zeros         FV_LEVEL_SYMBOL(fv_attn_pack_zeros)
#define fv_attn_bf16_dots          FV_LEVEL_SYMBOL(fv_attn_bf16_dots)
#define fv_attn_bf16_rows_at       FV_LEVEL_SYMBOL(fv_attn_bf16_rows_at)
#define fv_attn_bf16_scores        FV_LEVEL_SYMBOL(fv_attn_bf16_scores)
#define fv_attn_partial_floats     FV_LEVEL_SYMBOL(fv_attn_partial_floats)
#define fv_attn_product            FV_LEVEL_SYMBOL(fv_attn_product)
#define fv_attn_add_query_sums     FV_LEVEL_SYMBOL(fv_attn_add_query_sums)
#define fv_attn_exp_2x             FV_LEVEL_SYMBOL(fv_attn_exp_2x)
#define fv_attn_exp_keys           FV_LEVEL_SYMBOL(fv_attn_exp_keys)
#define fv_attn_exp_queries        FV_LEVEL_SYMBOL(fv_attn_exp_queries)
#define fv_attn_rows_at            FV_LEVEL_SYMBOL(fv_attn_rows_at)
#define fv_attn_rows_checked       FV_LEVEL_SYMBOL(fv_attn_rows_checked)
#define fv_attn_scores             FV_LEVEL_SYMBOL(fv_attn_scores)
#define fv_attn_operands_of        FV_LEVEL_SYMBOL(fv_attn_operands_of)
#define fv_attn_softmax            FV_LEVEL_SYMBOL(fv_attn_softmax)
#define fv_attn_bf16_deinterleave  FV_LEVEL_SYMBOL(fv_attn_bf16_deinterleave)
#define fv_attn_score_tile         FV_LEVEL_SYMBOL(fv_attn_score_tile)
#define fv_attn_sum_block          FV_LEVEL_SYMBOL(fv_attn_sum_block)
#define fv_attn_accumulator_at     FV_LEVEL_SYMBOL(fv_attn_accumulator_at)
#define fv_attn_row_max            FV_LEVEL_SYMBOL(fv_attn_row_max)
#define fv_attn_bf16_interleave    FV_LEVEL_SYMBOL(fv_attn_bf16_interleave)
#define fv_attn_store_partial_w    FV_LEVEL_SYMBOL(fv_attn_store_partial_w)
#define fv_attn_widen              FV_LEVEL_SYMBOL(fv_attn_widen)
#define fv_attn_widen_rows         FV_LEVEL_SYMBOL(fv_attn_widen_rows)
#define fv_attn_workspace_of       FV_LEVEL_SYMBOL(fv_attn_workspace_of)

#endif
