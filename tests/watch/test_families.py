"""Names of real kernels and operators belong to the families that an engineer would put them into."""

import pytest

from scalewise.records.inspection import FAMILIES
from scalewise.watch.families import family_of

NAMES = {
    "matmul": [
        "aten::addmm",
        "aten::mm",
        "aten::bmm",
        "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT",
        "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_stage3_warpsize2x2x1",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(Params)",
        "void gemv2T_kernel_val<int, int, float>",
        "triton_tem_fused_mm_3",
    ],
    "attention": [
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>",
        "fmha_cutlassF_f32_aligned_64x64_rf_sm80(AttentionKernel::Params)",
        "void cudnn::fusion::compute_dot_do_o_specialized<true, 128>(void const*, void const*, void*)",
        "void cudnn::fusion::convert_dq_to_16bits<true, 128>(void const*, void*)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_6_64x128x128_4x1x1_kernel0_0",
    ],
    "convolution": [
        "aten::convolution_backward",
        "aten::mkldnn_convolution",
        "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64",
        "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>",
        "sm80_xmma_wgrad_implicit_gemm_indexed_bf16bf16_bf16f32_f32",
    ],
    "normalisation": [
        "aten::native_layer_norm_backward",
        "aten::native_batch_norm",
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>",
        "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<float>",
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>",
    ],
    "elementwise": [
        "aten::add_",
        "aten::gelu_backward",
        "aten::threshold_backward",
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
        "triton_poi_fused_gelu_2",
    ],
    "reduction": [
        "aten::sum",
        "aten::_log_softmax",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>",
        "triton_red_fused__log_softmax_5",
        "aten::mse_loss",
    ],
    "indexing": [
        "void at::native::(anonymous namespace)::compute_num_of_partial_segments<long>(long const*)",
        "aten::embedding_dense_backward",
        "aten::index_select",
        "void indexSelectLargeIndex<float, long>",
    ],
    "copy": [
        "aten::copy_",
        "aten::cat",
        "Memcpy HtoD (Pageable -> Device)",
        "Memset (Device)",
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>",
        "aten::zeros_like",
    ],
    "optimizer": [
        "aten::_foreach_addcdiv_",
        "aten::_fused_adamw_",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>",
    ],
    "communication": ["ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "c10d::allreduce_"],
    "other": ["fancy_kernel", "mylib::secret"],
}


@pytest.mark.parametrize(("family", "name"), [(family, name) for family, names in NAMES.items() for name in names])
def test_a_name_belongs_to_its_family(family, name):
    assert family_of(name) == family


def test_every_family_has_an_example():
    assert set(NAMES) == set(FAMILIES)
