"""Finds from its name what kind of work a kernel or an operator does; one table for GPU kernels and CPU operators.

The first pattern that matches wins, so the order matters: a fused attention kernel has `gemm` in its name, too.
"""

import functools
import re

_TABLE = (
    ("communication", r"nccl|gloo|c10d|ucc:|mpi:|allreduce|all_reduce|allgather|reduce_scatter|sendrecv"),
    ("attention", r"flash|fmha|attention|sdpa|mha_|dot_do_o|convert_dq"),
    ("optimizer", r"multi_tensor|_foreach_|_fused_(adam|sgd|adagrad|lamb)|fused_?adam|_amp_|amp_(update|non_finite)"),
    ("convolution", r"conv(?!ert)|cudnn.*(fprop|dgrad|wgrad)|_(fprop|dgrad|wgrad)_|implicit_gemm|winograd|"
                    r"wgrad|dgrad|im2col"),
    ("normalisation", r"layer_?norm|batch_?norm|group_?norm|instance_?norm|rms_?norm|bn_(fw|bw)|rownorm|rowwisemoments|"
                      r"gammabeta|computefusedparams|batchnorm|weight_norm|local_response"),
    ("matmul", r"gemm|gemv|cutlass|nvjet|xmma|splitk|cublas|wmma|::(mm|addmm|bmm|baddbmm|mv|addmv|dot|vdot|ger|addr|"
               r"matmul|linear|_scaled_mm|_int_mm|_grouped_mm|addbmm|mkldnn_linear|mkl_linear|mkldnn_rnn_layer|"
               r"_linear_pointwise)$|_linear_pointwise|dot_kernel|reduce_1block|triton_tem|_rnn|rnn_"),
    ("indexing", r"embedding|index|gather|scatter|take|::select_backward|slice_backward|masked_(select|scatter)|"
                 r"nonzero|one_hot|bincount|triton_.*embedding|krn_partial|compute_grad_weight|partial_segment"),
    ("reduction", r"reduce|softmax|nll_loss|cross_?entropy|triton_(red|per)_|scan|sort|topk|argm(ax|in)|cumsum|"
                  r"::(sum|mean|max|min|amax|amin|prod|norm|linalg_vector_norm|var|std|var_mean|any|all|logsumexp|aminmax|"
                  r"mse_loss|l1_loss|smooth_l1_loss|huber_loss|binary_cross_entropy|kl_div|_local_scalar_dense|count_nonzero|"
                  r"isfinite|allclose|equal)$|pool|histc|unique"),
    ("copy", r"memcpy|memset|copy|cat_?array|::(cat|stack|clone|contiguous|to|_to_copy|_pin_memory|pin_memory|repeat|"
             r"fill_|zero_|zeros|ones|zeros_like|ones_like|full|full_like|new_zeros|new_ones|new_full|constant_pad_nd|"
             r"pad|roll|flip|tril|triu|empty|empty_like|empty_strided|new_empty|new_empty_strided|resize_|set_|"
             r"split_with_sizes_copy|_foreach_copy_|arange|lift_fresh|item|scalar_tensor)$|nchwtonhwc|nhwctonchw|"
             r"transpose|fillfunctor|permute|_chunk_cat|reflection_pad|replication_pad"),
    ("elementwise", r"elementwise|pointwise|triton_poi_|dropout|distribution|philox|bernoulli|random|uniform|normal_|"
                    r"_thnn_fused|gelu|silu|relu|sigmoid|tanh|threshold|cpp_fused|"
                    r"::(add|sub|mul|div|rsub|neg|abs|exp|log|log1p|sqrt|rsqrt|pow|square|sin|cos|erf|sign|floor|ceil|round|"
                    r"clamp|clamp_min|clamp_max|maximum|minimum|where|lerp|addcmul|addcdiv|reciprocal|masked_fill|fmod|"
                    r"remainder|eq|ne|lt|le|gt|ge|logical_and|logical_or|logical_not|logical_xor|bitwise_and|bitwise_or|"
                    r"bitwise_not|bitwise_xor|isnan|isinf|atan2|hypot|softplus|softplus_backward|elu|elu_backward|glu|"
                    r"glu_backward|hardtanh|hardtanh_backward|hardswish|hardswish_backward|leaky_relu|mse_loss_backward|"
                    r"nan_to_num|xlogy|lgamma|digamma|polar|view_as_real|view_as_complex|complex|real|imag|expm1|erfinv|"
                    r"upsample_.*|grid_sampler.*|randn|rand|randint|randperm|rand_like|randn_like|exponential_|true_divide|"
                    r"log_sigmoid_forward|log_sigmoid_backward)_?$|upsample|grid_sampl"),
)  # fmt: skip
_PATTERNS = tuple((family, re.compile(pattern, re.IGNORECASE)) for family, pattern in _TABLE)

# Operators that only describe given memory in another way: they do no work.
VIEWS = frozenset(
    f"aten::{name}"
    for name in (
        "view", "t", "transpose", "permute", "expand", "as_strided", "as_strided_", "reshape", "_reshape_alias",
        "_unsafe_view", "select", "slice", "narrow", "squeeze", "unsqueeze", "detach", "detach_", "alias", "split",
        "split_with_sizes", "chunk", "unbind", "view_as", "expand_as", "numpy_T", "flatten", "unflatten", "diagonal",
        "resolve_conj", "resolve_neg", "result_type", "is_nonzero", "size", "stride", "requires_grad_",
        "broadcast_tensors", "broadcast_to", "unfold", "swapaxes", "movedim", "mT", "mH", "H", "T", "can_cast",
        "is_pinned", "data", "record_stream", "squeeze_", "unsqueeze_", "t_", "transpose_",
    )
)  # fmt: skip


@functools.cache
def family_of(name: str) -> str:
    """The family of a GPU kernel or of an operator, such as `aten::addmm`; views count as copies that cost nothing."""
    if name in VIEWS:
        return "copy"
    return next((family for family, pattern in _PATTERNS if pattern.search(name)), "other")
