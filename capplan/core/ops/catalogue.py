"""Which class of work an operator is: what latency constants, coverage and views by operator go by."""

from collections.abc import Mapping
from enum import StrEnum

from capplan.core.trace.types import Kernel


class OperatorClass(StrEnum):
    """Kinds of kernels that behave alike."""

    CONVOLUTION = "convolution"
    MATMUL = "matmul"
    ATTENTION = "attention"
    RNN = "rnn"
    NORM = "norm"
    SOFTMAX = "softmax"
    ACTIVATION = "activation"
    POINTWISE = "pointwise"
    REDUCTION = "reduction"
    COPY = "copy"
    CAST = "cast"
    POOL = "pool"
    RESIZE = "resize"
    INDEX = "index"
    SCAN = "scan"
    RANDOM = "random"
    FILL = "fill"
    LOSS = "loss"
    OPTIMIZER = "optimizer"
    ALLOCATION = "allocation"
    FFT = "fft"
    CUSTOM = "custom"
    OTHER = "other"


_NAMES: Mapping[OperatorClass, str] = {
    OperatorClass.CONVOLUTION: (
        "convolution convolution_backward _conv_depthwise2d conv_tbc conv_tbc_backward deform_conv2d "
        "_deform_conv2d_backward"
    ),
    OperatorClass.MATMUL: (
        "mm addmm bmm baddbmm addbmm mv addmv dot vdot addr ger linear matmul _scaled_mm _int_mm _grouped_mm "
        "_scaled_grouped_mm _addmm_activation _trilinear linalg_vecdot _cdist_forward _weight_int8pack_mm "
        "_weight_int4pack_mm"
    ),
    OperatorClass.ATTENTION: "attention attention_backward",
    OperatorClass.RNN: "rnn rnn_backward",
    OperatorClass.NORM: (
        "_weight_norm_interface _weight_norm_interface_backward "
        "native_layer_norm native_layer_norm_backward native_batch_norm native_batch_norm_backward "
        "native_group_norm native_group_norm_backward _fused_rms_norm _fused_rms_norm_backward renorm "
        "_batch_norm_with_update _batch_norm_no_update _native_batch_norm_legit "
        "_native_batch_norm_legit_no_training"
    ),
    OperatorClass.SOFTMAX: (
        "_softmax _softmax_backward_data _log_softmax _log_softmax_backward_data _safe_softmax logsumexp "
        "_masked_softmax"
    ),
    OperatorClass.ACTIVATION: (
        "relu gelu silu sigmoid tanh hardswish hardsigmoid hardtanh leaky_relu elu mish softplus threshold "
        "_prelu_kernel log_sigmoid_forward softshrink hardshrink celu rrelu_with_noise glu gelu_backward "
        "silu_backward sigmoid_backward tanh_backward hardswish_backward hardsigmoid_backward hardtanh_backward "
        "leaky_relu_backward elu_backward mish_backward softplus_backward threshold_backward glu_backward "
        "log_sigmoid_backward _prelu_kernel_backward glu_jvp"
    ),
    OperatorClass.POINTWISE: (
        "add sub rsub mul div neg abs pow sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos "
        "atan atan2 sinh cosh tanh asinh acosh atanh erf erfc erfinv floor ceil round trunc frac sign sgn "
        "reciprocal clamp clamp_min clamp_max maximum minimum fmod remainder floor_divide where masked_fill eq ne "
        "lt le gt ge logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not "
        "bitwise_xor bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__ isnan "
        "isinf isfinite lerp addcmul addcdiv square native_dropout native_dropout_backward dropout polar complex "
        "nan_to_num heaviside hypot xlogy logaddexp sinc digamma lgamma special_i0 conj_physical angle signbit "
        "gcd fmax fmin fake_quantize_per_tensor_affine_cachemask tril triu view_as_real_copy ldexp logit "
        "special_expit _fake_quantize_per_tensor_affine_cachemask_tensor_qparams copysign true_divide "
        "masked_scale bucketize searchsorted"
    ),
    OperatorClass.REDUCTION: (
        "sum mean amax amin max min argmax argmin any all prod var std var_mean std_mean norm linalg_vector_norm "
        "nansum aminmax median nanmedian kthvalue count_nonzero mode trace linalg_matrix_norm _aminmax "
        "_cdist_backward _is_all_true _is_any_true"
    ),
    OperatorClass.COPY: (
        "copy clone cat stack repeat roll flip constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d "
        "_local_scalar_dense is_nonzero equal "
        "replication_pad1d replication_pad2d replication_pad3d im2col col2im unfold_backward pixel_shuffle "
        "pixel_unshuffle channel_shuffle slice_scatter select_scatter slice_backward select_backward "
        "as_strided_scatter diagonal_scatter diag_embed rot90 native_channel_shuffle _reshape_copy view_copy "
        "expand_copy _pad_enum permute_copy as_strided_copy split_with_sizes_copy narrow_copy _chunk_cat "
        "reflection_pad2d_backward reflection_pad1d_backward replication_pad2d_backward diagonal_backward "
        "replication_pad1d_backward replication_pad3d_backward reflection_pad3d_backward block_diag"
    ),
    OperatorClass.CAST: "_to_copy to _autocast_to_reduced_precision",
    OperatorClass.POOL: (
        "max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d_with_indices "
        "max_pool3d_with_indices_backward avg_pool2d avg_pool2d_backward avg_pool3d avg_pool3d_backward "
        "avg_pool1d _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d "
        "_adaptive_avg_pool3d_backward adaptive_max_pool2d adaptive_max_pool2d_backward adaptive_max_pool3d "
        "fractional_max_pool2d max_unpool2d roi_align _roi_align_backward roi_pool ps_roi_align "
        "adaptive_avg_pool1d"
    ),
    OperatorClass.RESIZE: (
        "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d "
        "upsample_bicubic2d upsample_trilinear3d _upsample_nearest_exact1d _upsample_nearest_exact2d "
        "_upsample_nearest_exact3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa upsample_nearest2d_backward "
        "upsample_bilinear2d_backward upsample_bicubic2d_backward upsample_nearest1d_backward "
        "upsample_linear1d_backward upsample_nearest3d_backward upsample_trilinear3d_backward grid_sampler_2d "
        "grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward affine_grid_generator "
        "_upsample_bicubic2d_aa_backward _upsample_bilinear2d_aa_backward"
    ),
    OperatorClass.INDEX: (
        "embedding embedding_dense_backward embedding_backward _embedding_bag embedding_renorm index index_select "
        "index_put _index_put_impl _unsafe_index _unsafe_index_put gather gather_backward scatter scatter_add "
        "scatter_reduce index_add index_copy index_fill take take_along_dim masked_select masked_scatter nonzero "
        "nonzero_static one_hot repeat_interleave _unique2 unique_consecutive unique_dim bincount topk sort "
        "argsort histc put nms _embedding_bag_forward_only index_reduce _unsafe_masked_index isin "
        "_unsafe_masked_index_put_accumulate multinomial segment_reduce"
    ),
    OperatorClass.SCAN: "cumsum cumprod cummax cummin logcumsumexp _cummax_helper",
    OperatorClass.RANDOM: (
        "rand randn rand_like randn_like randint randint_like randperm bernoulli normal uniform random "
        "exponential normal_functional poisson cauchy geometric log_normal"
    ),
    OperatorClass.FILL: (
        "zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full fill zero arange linspace "
        "logspace eye scalar_tensor tril_indices triu_indices hann_window lift_fresh_copy efficientzerotensor "
        "_efficientzerotensor"
    ),
    OperatorClass.LOSS: (
        "nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward mse_loss mse_loss_backward "
        "smooth_l1_loss smooth_l1_loss_backward huber_loss huber_loss_backward binary_cross_entropy "
        "binary_cross_entropy_backward binary_cross_entropy_with_logits _ctc_loss _ctc_loss_backward "
        "multi_margin_loss multilabel_margin_loss_forward soft_margin_loss"
    ),
    OperatorClass.ALLOCATION: "empty empty_like new_empty empty_strided new_empty_strided resize",
    OperatorClass.FFT: "_fft_r2c _fft_c2r _fft_c2c stft istft",
    OperatorClass.OPTIMIZER: (
        "_fused_adam _fused_adamw _fused_sgd _fused_adagrad _amp_foreach_non_finite_check_and_unscale "
        "_amp_update_scale"
    ),
    OperatorClass.OTHER: (
        "linalg_inv_ex linalg_eigh _linalg_eigh linalg_qr linalg_svd _linalg_svd linalg_cholesky_ex cholesky "
        "linalg_solve_ex _linalg_solve_ex triangular_solve linalg_lu_factor_ex linalg_lu cholesky_inverse "
        "linalg_householder_product linalg_solve_triangular linalg_lstsq linalg_lu_solve _linalg_det "
        "_linalg_slogdet lu_unpack _linalg_check_errors"
    ),
}  # fmt: skip

_BY_NAME: Mapping[str, OperatorClass] = {
    name: operator_class for operator_class, names in _NAMES.items() for name in names.split()
}
_OWN_NAMESPACES = frozenset({"aten", "capplan", "torchvision", "prims"})


def operator_class(kernel: Kernel) -> OperatorClass:
    """Classify a kernel by its operator; `CUSTOM` outside PyTorch's own, `OTHER` where it is not known."""
    namespace, _, name = kernel.name.partition(".")
    if namespace not in _OWN_NAMESPACES:
        return OperatorClass.CUSTOM
    if name.startswith("_foreach_"):
        return OperatorClass.OPTIMIZER
    found = _BY_NAME.get(name, OperatorClass.OTHER)
    if found is OperatorClass.CAST and kernel.inputs and kernel.outputs[0].dtype == kernel.inputs[0].dtype:
        return OperatorClass.COPY
    return found


def is_known(kernel: Kernel) -> bool:
    """Tell whether it is certain which matrix products, if any, a kernel holds."""
    namespace, _, name = kernel.name.partition(".")
    return namespace in _OWN_NAMESPACES and (name in _BY_NAME or name.startswith("_foreach_"))
