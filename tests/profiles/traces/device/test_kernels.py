"""What kernels do, by operator and by name, and the matrix products among them."""

import pytest
from trace_builder import (
    Event,
    a_call,
    a_copy,
    a_kernel,
    a_launch,
    a_step,
    a_trace,
    an_annotation,
    an_operator,
    near,
)

from advisor.profiles.facts.recorded import DeviceFacts, Product
from advisor.profiles.traces.device.kernels import KINDS, kind_of
from advisor.profiles.traces.ops import window_of


@pytest.mark.parametrize(
    ("operator", "kernel", "kind"),
    [
        ("aten::addmm", "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16>", "gemm"),
        ("aten::mm", "void splitKreduce_kernel<float, float, float>(cublasSplitKParams)", "gemm"),
        ("aten::bmm", "Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64", "gemm"),
        ("vllm::rocm_unquantized_gemm", "wvSplitK_hf_sml_", "gemm"),
        ("aten::cudnn_convolution", "void cudnn::engines_precompiled::nchwToNhwcKernel<bf16>", "convolution"),
        ("aten::miopen_convolution", "batched_transpose_256x4_half", "convolution"),
        ("aten::convolution_backward", "SubTensorOpWithScalar1d", "convolution"),
        ("aten::_flash_attention_forward", "attn_fwd", "attention"),
        ("vllm::unified_attention_with_output", "kernel_unified_attention_2d", "attention"),
        ("_C_cache_ops::reshape_and_cache_flash", "void vllm::reshape_and_cache_flash_kernel", "attention"),
        ("sglang::store_cache", "void store_kvcache<2048l>", "attention"),
        ("aten::native_batch_norm", "void at::native::vectorized_elementwise_kernel<4>", "normalization"),
        ("aiter::add_rmsnorm", "_ZN5aiter24add_rmsnorm_quant_kernel", "normalization"),
        ("aten::copy_", "void at::native::elementwise_kernel<128, 2, direct_copy>", "elementwise"),
        ("aten::native_dropout", "void at::native::fused_dropout_kernel_vec", "elementwise"),
        ("aten::mse_loss", "void at::native::vectorized_elementwise_kernel<4, mse>", "elementwise"),
        ("sgl_kernel::silu_and_mul", "void act_and_mul_kernel<__hip_bfloat16>", "elementwise"),
        ("aten::sum", "void at::native::reduce_kernel<128, 4>", "reduction"),
        ("aten::_foreach_norm", "void at::native::reduce_kernel<512, 1>", "reduction"),
        ("aten::_fused_adamw_", "void at::native::multi_tensor_apply_kernel<FusedAdam>", "optimizer"),
        ("", "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>", "optimizer"),
        ("record_param_comms", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "communication"),
        ("", "rcclGenericKernel", "communication"),
        ("symm_mem::multimem_all_reduce_", "void multimem_all_reduce_kernel<bf16, 16>", "communication"),
        ("symm_mem::two_shot_all_reduce_", "void two_shot_all_reduce_kernel<c10::BFloat16>", "communication"),
        ("_C_custom_ar::all_reduce", "void vllm::cross_device_reduce_1stage<bf16, 8>", "communication"),
        ("", "void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*, float*)", "communication"),
        ("", "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(__nv_bfloat16*)", "communication"),
        ("", "void allreduce_fusion_kernel_oneshot_lamport<bf16>", "communication"),
        ("aten::sum", "void block_all_reduce_kernel<float>", "reduction"),
        ("triton_poi_fused_mul_silu_2", "triton_poi_fused_mul_silu_2", "triton"),
        ("", "triton_red_fused_add_mean_0", "triton"),
        ("", "Cijk_Alik_Bljk_BBS_BH_Bias", "gemm"),
        ("", "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", "gemm"),
        ("", "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized>", "convolution"),
        ("", "igemm_fwd_gtcx3_nhwc_bf16", "convolution"),
        ("", "batched_transpose_16x64_pack_1x4_ediv_1x2_half", "convolution"),
        ("", "SubTensorOpWithScalar1d", "convolution"),
        ("aten::transpose", "batched_transpose_kernel", "other"),
        ("Torch-Compiled Region: 0/0", "sage_fwd", "attention"),
        ("vllm::moe_forward", "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256", "gemm"),
        ("", "fused_moe_kernel", "gemm"),
        ("", "submm_lookup", "other"),
        ("", "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>", "attention"),
        ("", "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdE", "normalization"),
        ("", "void cub::DeviceReduceKernel<int>", "reduction"),
        ("aten::index_select", "void at::native::indexSelectLargeIndex<c10::BFloat16>", "indexing"),
        ("aten::_softmax", "void at::native::cunn_SoftMaxForward<4, float>", "softmax"),
        ("", "void (anonymous namespace)::softmax_warp_forward<float, float, float, 9>", "softmax"),
        ("aten::cat", "void at::native::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>", "indexing"),
        ("", "void cub::DeviceRadixSortOnesweepKernel<long, int, int>", "indexing"),
        ("aten::index", "void at::native::index_elementwise_kernel<128, 4>", "indexing"),
        ("fbgemm::split_embedding_codegen_lookup_adagrad_function", "split_embedding_forward", "indexing"),
        ("torch::autograd::CppNode<SplitLookupFunction_adagrad_Op>", "split_backward", "indexing"),
        ("", "reduce_segments", "attention"),
        ("", "void moe::dev::routing::routingIndicesHistogramKernel<KernelParams>", "indexing"),
        ("", "void vllm::moe::moe_align_block_size_kernel<int>", "indexing"),
        ("", "void dpsk::ep::cuda::get_dispatch_layout<256, 32, 8>(long const*, int*)", "indexing"),
        ("vllm::moe_forward", "void moe::dev::finalize::finalizeKernelVecLoad<bf16>", "indexing"),
        ("", "void cuda::per_token_cast_to_fp8_with_channels<__nv_bfloat16, 128>", "elementwise"),
        ("", "void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16>", "elementwise"),
        ("", "void tensorrt_llm::kernels::quantize_with_block_size<2, __nv_bfloat16>", "elementwise"),
        ("", "void cuda::swiglu_forward_backward_with_weight_impl<__nv_bfloat16>", "elementwise"),
        ("", "void cuda::batched_transpose<512, 128, 1, 1>(unsigned char const*)", "elementwise"),
        ("", "void vllm::rotary_embedding_kernel<c10::BFloat16, true>", "elementwise"),
        ("aten::max_pool2d_with_indices", "void at::native::max_pool_forward_nchw<float>", "other"),
        ("fbgemm::permute_sparse_features", "void fbgemm_gpu::permute_indices_weights_kernel", "indexing"),
        ("fbgemm::linearize_index", "linearize_index_kernel", "indexing"),
        ("aten::_convert_indices_from_coo_to_csr", "convert_indices_kernel", "other"),
    ],
)  # fmt: skip
def test_a_kernel_is_known_by_its_operator_and_else_by_its_name(
    operator: str, kernel: str, kind: str
) -> None:
    assert kind_of(kernel, operator) == kind
    assert kind in KINDS


def test_what_an_optimizers_step_launches_updates_parameters() -> None:
    assert kind_of("void at::native::elementwise_kernel<128>", "aten::add_", updating=True) == "optimizer"
    assert kind_of("ncclDevKernel_ReduceScatter", "", updating=True) == "communication"


def test_filling_memory_belongs_to_the_operator_that_needs_it() -> None:
    assert kind_of("Memset (Device)", "aten::cudnn_convolution", memset=True) == "convolution"
    assert kind_of("Memset (Device)", "aten::embedding_dense_backward", memset=True) == "indexing"
    assert kind_of("Memset (Device)", "aten::max_unpool2d", memset=True) == "copy"


def _device(*events: Event) -> DeviceFacts:
    found = window_of(a_trace(*events), clean_step_ms=None).device
    assert found is not None
    return found


def test_kernels_are_summed_by_kind_per_step() -> None:
    device = _device(
        a_step(0, 0, 500), a_step(1, 500, 500),
        an_operator("aten::mm", 10, 50), *a_launch("gemm", 20, 30, 40, 1),
        an_operator("aten::mm", 510, 50), *a_launch("gemm", 520, 530, 60, 2),
        an_operator("aten::copy_", 100, 50), *a_copy("Memcpy HtoD (Pinned -> Device)", 110, 120, 10, 3, 64),
        an_annotation("Optimizer.step#SGD.step", 200, 100), an_operator("aten::add_", 210, 50),
        *a_launch("elementwise_kernel", 220, 230, 30, 4),
    )  # fmt: skip
    found = {kind: spent for kind, spent in device.kernels_ms if spent}
    assert found == {"gemm": near(0.05), "optimizer": near(0.015), "copy": near(0.005)}
    assert tuple(kind for kind, _ in device.kernels_ms) == KINDS


def test_products_are_told_with_their_sizes_and_rate() -> None:
    device = _device(
        a_step(0, 0, 2000),
        an_operator("aten::linear", 5, 100, [8, 16, 64], [32, 64]),
        an_operator("aten::addmm", 10, 50, [32], [128, 64], [64, 32]),
        *a_launch("gemm", 20, 30, 2, 1), *a_launch("splitKreduce", 26, 33, 2, 2),
        an_operator("aten::addmm", 110, 50, [32], [128, 64], [64, 32]), *a_launch("gemm", 120, 130, 8, 3),
        an_operator("aten::bmm", 200, 50, [6, 10, 20], [6, 20, 30]), *a_launch("gemm", 210, 220, 50, 4),
        an_operator("aten::mm", 300, 50), *a_launch("gemm", 310, 320, 90, 5),
    )  # fmt: skip
    bmm, addmm = device.products
    assert bmm == Product("aten::bmm", 10, 30, 20, 6, "float32", 1.0, near(50), near(2 * 6 * 6000 / 50e6))
    assert (addmm.m, addmm.n, addmm.k, addmm.calls, addmm.kernel_us) == (128, 32, 64, 2.0, near(12))
    rates = [2 * 128 * 32 * 64 / us / 1e6 for us in (4, 8)]
    assert addmm.tflops == near(sum(rates) / 2)


def test_only_the_eight_largest_products_are_told() -> None:
    events: list[Event] = [a_step(0, 0, 99_000)]
    for at in range(1, 12):
        events += [an_operator("aten::mm", 1000 * at, 500, [at, 4], [4, 4])]
        events += a_launch("gemm", 1000 * at + 10, 1000 * at + 20, 10 * at, at)
    assert [product.m for product in _device(*events).products] == [11, 10, 9, 8, 7, 6, 5, 4]


def test_kernels_of_a_graph_are_known_by_their_names() -> None:
    graph = a_call("hipGraphLaunch", 10, 20, 7)
    replayed = [a_kernel("Cijk_Alik_Bljk", 40, 30, 7), a_kernel("triton_poi_fused_0", 70, 10, 7)]
    device = _device(a_step(0, 0, 500), an_operator("aten::empty", 0, 5), graph, *replayed)
    assert {kind: spent for kind, spent in device.kernels_ms if spent} == {
        "gemm": near(0.03), "triton": near(0.01),
    }  # fmt: skip
    assert device.products == ()
