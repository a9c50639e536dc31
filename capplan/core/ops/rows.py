"""The operator catalogue: operators that are alike share a row, read by `capplan.core.ops.catalogue`.

A line that begins with a space goes on with the operators of the row above.

Columns:
    class: What kind of work it does, an `OperatorClass`.
    efficiency: The class of the latency model whose fitted efficiency it has: a label of `core.latency.classes`;
        "by filter" for convolutions, which are sorted by their filters; "by shape" for an operator that is
        "pointwise" where its result has as many elements as an input, else "other".
    fused role: What it is inside a kernel that Inductor makes of several operators; "own kernel" where it is never
        fused, or where Inductor calls PyTorch's own kernel.
    instr: Instructions per element inside a fused kernel, in fp32: a division or an exponential takes many.
    products: The formula of `core.ops.flops` that counts its multiply-accumulates; empty where it holds no matrix
        product; "uncounted" where it holds one, a transform or a decomposition that no formula counts, which is
        reported.
    notes: "stored input": its input must be materialised, because each element is read several times or gathered.
        "reads a value", "sized by values", "sized by masks": where torch.compile interrupts the graph.
    operators: Names without library ("aten.", "torchvision.", "quanto.", ...: those of `catalogue`) and trailing
        underscore; in brackets those under which profilers report one.

To add an operator, add its name to the row that holds for it, or a row, and a formula to `core.ops.flops` if it holds a
new kind of product.
"""

ROWS = """
class       | efficiency     | fused role | instr | products             | notes           | operators
convolution | by filter      | own kernel |       | convolution          |                 | convolution(conv1d,conv2d,conv3d,conv_transpose2d)
convolution | by filter      | own kernel |       | convolution_backward |                 | convolution_backward
convolution | by shape       | own kernel |       | uncounted            |                 | _conv_depthwise2d conv_tbc
    conv_tbc_backward _deform_conv2d_backward
convolution | by shape       | own kernel |       | deformable           |                 | deform_conv2d
matmul      | linear         | own kernel |       | product              |                 | mm addmm
matmul      | batched matmul | own kernel |       | product              |                 | bmm baddbmm addbmm
matmul      | linear         | own kernel |       | matrix_vector        |                 | mv addmv
matmul      | by shape       | own kernel |       | dot                  |                 | dot vdot
matmul      | by shape       | own kernel |       | outer                |                 | addr ger
matmul      | linear         | own kernel |       | linear               |                 | linear packed_linear
    qbytes_mm int8_scaled_mm int8_linear_matmul
matmul      | linear         | own kernel |       | linear_of_packed     |                 | quantised_linear gemm_4bit
    gemv_4bit
matmul      | batched matmul | own kernel |       | uncounted            |                 | matmul
matmul      | by shape       | own kernel |       | product              |                 | _scaled_mm _int_mm
    _addmm_activation
matmul      | by shape       | own kernel |       | grouped_product      |                 | _grouped_mm
    _scaled_grouped_mm
matmul      | by shape       | own kernel |       | sparse_product       |                 | sparse_mm
matmul      | by shape       | own kernel |       | trilinear            |                 | _trilinear
matmul      | batched matmul | own kernel |       | matrix_exponential   |                 | linalg_matrix_exp
matmul      | by shape       | own kernel |       | uncounted            |                 | linalg_vecdot
matmul      | batched matmul | own kernel |       | euclidean_distances  |                 | _euclidean_dist
matmul      | by shape       | own kernel |       | reflectors           |                 | ormqr
matmul      | by shape       | own kernel |       | linear               |                 | _weight_int8pack_mm
matmul      | by shape       | own kernel |       | linear_of_packed     |                 | _weight_int4pack_mm
cast        | pointwise      | own kernel |       |                      |                 | widen int8_vectorwise_quant
    quantize_4bit dequantize_4bit quantize_blockwise dequantize_blockwise
cast        | pointwise      | pointwise  | 6     |                      |                 | quantise
    quantize_per_tensor quantize_per_tensor_dynamic quantize_per_channel quantize_symmetric
cast        | pointwise      | pointwise  | 2     |                      |                 | dequantize
cast        | cast           | pointwise  | 1     |                      |                 | _to_copy
cast        | by shape       | pointwise  | 2     |                      |                 | to
    _autocast_to_reduced_precision
pointwise   | pointwise      | pointwise  | 4     |                      |                 | rescale
pointwise   | pointwise      | own kernel |       |                      |                 | unpack
pointwise   | activation     | pointwise  | 25    |                      |                 | tanh
pointwise   | add            | pointwise  | 2     |                      |                 | add
pointwise   | by shape       | pointwise  | 2     |                      |                 | sub rsub mul neg abs exp2
    expm1 log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh erfc erfinv floor ceil round
    trunc frac sign sgn reciprocal maximum minimum fmod remainder floor_divide where eq ne lt le gt ge logical_and
    logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor bitwise_left_shift
    bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__ isnan isinf isfinite lerp addcmul addcdiv square
    native_dropout native_dropout_backward dropout polar complex nan_to_num heaviside hypot xlogy logaddexp sinc lgamma
    special_i0 conj_physical angle signbit fmax fmin deg2rad frexp i0 isneginf isposinf lcm logaddexp2 logit_backward
    mvlgamma nextafter rad2deg special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1 special_entr
    special_erfcx special_i1 special_log_ndtr special_modified_bessel_i0 special_modified_bessel_i1 special_xlog1py
    fake_quantize_per_tensor_affine_cachemask view_as_real_copy ldexp logit special_expit
    _fake_quantize_per_tensor_affine_cachemask_tensor_qparams fake_quantize_per_channel_affine_cachemask
    _fake_quantize_learnable_per_tensor_affine _fake_quantize_learnable_per_channel_affine
    _fake_quantize_learnable_per_tensor_affine_backward _fake_quantize_learnable_per_channel_affine_backward copysign
    true_divide masked_scale bucketize
pointwise   | by shape       | pointwise  | 8     |                      |                 | div sqrt rsqrt
pointwise   | by shape       | pointwise  | 15    |                      |                 | pow exp
pointwise   | by shape       | pointwise  | 20    |                      |                 | log
pointwise   | by shape       | pointwise  | 30    |                      |                 | erf
pointwise   | activation     | pointwise  | 2     |                      |                 | clamp clamp_min clamp_max
pointwise   | gather         | pointwise  | 2     |                      |                 | masked_fill
pointwise   | by shape       | own kernel |       |                      |                 | digamma gcd igamma igammac
    polygamma special_airy_ai special_chebyshev_polynomial_t special_chebyshev_polynomial_u
    special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_hermite_polynomial_h
    special_hermite_polynomial_he special_i0e special_i1e special_laguerre_polynomial_l special_legendre_polynomial_p
    special_modified_bessel_k0 special_modified_bessel_k1 special_ndtri special_scaled_modified_bessel_k0
    special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u
    special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w special_spherical_bessel_j0
    special_zeta searchsorted
pointwise   | by shape       | pointwise  | 3     |                      |                 | linalg_cross
pointwise   | copy           | pointwise  | 2     |                      |                 | tril triu
attention   | attention      | own kernel |       | attention            |                 | attention(scaled_dot_product_attention)
attention   | attention      | own kernel |       | attention_backward   |                 | attention_backward
rnn         | recurrent      | own kernel |       | rnn                  |                 | rnn(lstm,gru,rnn_tanh,rnn_relu)
rnn         | recurrent      | own kernel |       | rnn_backward         |                 | rnn_backward
norm        | by shape       | norm       | 2     |                      |                 | _weight_norm_interface
    _weight_norm_interface_backward _fused_rms_norm_backward _batch_norm_with_update _batch_norm_no_update
norm        | layer norm     | norm       | 10    |                      |                 | native_layer_norm(layer_norm)
norm        | layer norm     | norm       | 2     |                      |                 | native_layer_norm_backward
    _fused_rms_norm rms_norm
norm        | batch norm     | norm       | 6     |                      |                 | native_batch_norm(batch_norm)
norm        | batch norm     | norm       | 2     |                      |                 | native_batch_norm_backward
    _native_batch_norm_legit _native_batch_norm_legit_no_training cudnn_batch_norm cudnn_batch_norm_backward batch_norm
norm        | group norm     | norm       | 2     |                      |                 | native_group_norm(group_norm)
    native_group_norm_backward
norm        | by shape       | own kernel |       |                      |                 | renorm
softmax     | softmax        | softmax    | 25    |                      |                 | _softmax(softmax)
softmax     | softmax        | softmax    | 2     |                      |                 | _softmax_backward_data
    _log_softmax(log_softmax) _log_softmax_backward_data _safe_softmax
softmax     | reduction      | softmax    | 2     |                      |                 | logsumexp
softmax     | by shape       | softmax    | 2     |                      |                 | _masked_softmax
    _masked_softmax_backward
activation  | activation     | pointwise  | 1     |                      |                 | relu
activation  | activation     | pointwise  | 40    |                      |                 | gelu softplus
activation  | activation     | pointwise  | 25    |                      |                 | silu elu celu selu
activation  | activation     | pointwise  | 22    |                      |                 | sigmoid
activation  | activation     | pointwise  | 6     |                      |                 | hardswish
activation  | activation     | pointwise  | 5     |                      |                 | hardsigmoid
activation  | activation     | pointwise  | 2     |                      |                 | hardtanh threshold
    _prelu_kernel log_sigmoid_forward glu gelu_backward silu_backward sigmoid_backward tanh_backward hardswish_backward
    hardsigmoid_backward hardtanh_backward leaky_relu_backward elu_backward mish_backward threshold_backward prelu relu6
activation  | activation     | pointwise  | 3     |                      |                 | leaky_relu
activation  | activation     | pointwise  | 60    |                      |                 | mish
activation  | by shape       | pointwise  | 2     |                      |                 | softshrink hardshrink
    rrelu_with_noise softplus_backward glu_backward log_sigmoid_backward softshrink_backward hardshrink_backward
    rrelu_with_noise_backward rrelu_with_noise_functional _prelu_kernel_backward glu_jvp
reduction   | reduction      | reduction  | 2     |                      |                 | sum mean amax amin max min
    argmax argmin any all prod var std var_mean std_mean linalg_vector_norm
reduction   | by shape       | reduction  | 2     |                      |                 | norm nansum aminmax
    count_nonzero linalg_matrix_norm _aminmax dist _is_all_true _is_any_true
reduction   | by shape       | own kernel |       |                      |                 | median nanmedian kthvalue
    mode trace _cdist_forward _cdist_backward _pdist_forward _pdist_backward
copy        | copy           | copy       | 1     |                      |                 | copy clone
copy        | copy           | copy       | 4     |                      |                 | cat
copy        | copy           | copy       | 2     |                      |                 | stack repeat roll flip
    reflection_pad2d replication_pad2d pixel_shuffle pixel_unshuffle channel_shuffle slice_scatter select_scatter
    slice_backward select_backward rot90 expand_copy permute_copy as_strided_copy split_with_sizes_copy unfold
    contiguous _pad_circular
copy        | copy           | copy       | 2     |                      | stored input    | constant_pad_nd im2col
copy        | by shape       | copy       | 2     |                      |                 | reflection_pad1d
    reflection_pad3d replication_pad1d replication_pad3d col2im unfold_backward as_strided_scatter diagonal_scatter
    diag_embed native_channel_shuffle _reshape_copy view_copy _pad_enum narrow_copy _chunk_cat reflection_pad2d_backward
    reflection_pad1d_backward replication_pad2d_backward diagonal_backward replication_pad1d_backward
    replication_pad3d_backward reflection_pad3d_backward block_diag
copy        | by shape       | copy       | 2     |                      | reads a value   | _local_scalar_dense
    is_nonzero equal
pool        | pool           | pool       | 2     |                      |                 | max_pool2d_with_indices(max_pool2d)
    max_pool2d_with_indices_backward max_pool3d_with_indices avg_pool2d avg_pool2d_backward avg_pool3d avg_pool1d
    _adaptive_avg_pool2d(adaptive_avg_pool2d) _adaptive_avg_pool2d_backward _adaptive_avg_pool3d adaptive_avg_pool2d
pool        | by shape       | pool       | 2     |                      |                 | max_pool3d_with_indices_backward
    avg_pool3d_backward _adaptive_avg_pool3d_backward adaptive_max_pool2d_backward fractional_max_pool2d
    adaptive_avg_pool1d
pool        | pool           | own kernel |       |                      |                 | adaptive_max_pool2d
pool        | by shape       | own kernel |       |                      |                 | adaptive_max_pool3d
    max_unpool2d max_unpool3d adaptive_max_pool3d_backward fractional_max_pool2d_backward fractional_max_pool3d
    fractional_max_pool3d_backward roi_align _roi_align_backward roi_pool ps_roi_align
resize      | upsample       | copy       | 2     |                      |                 | upsample_nearest1d
    upsample_nearest2d upsample_nearest3d
resize      | upsample       | copy       | 2     |                      | stored input    | upsample_linear1d
    upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa
resize      | by shape       | copy       | 2     |                      |                 | _upsample_nearest_exact1d
    _upsample_nearest_exact2d _upsample_nearest_exact3d upsample_nearest2d_backward upsample_bilinear2d_backward
    upsample_bicubic2d_backward upsample_nearest1d_backward upsample_linear1d_backward upsample_nearest3d_backward
    upsample_trilinear3d_backward _upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward
    _upsample_nearest_exact3d_backward grid_sampler_3d_backward affine_grid_generator _upsample_bicubic2d_aa_backward
    _upsample_bilinear2d_aa_backward
resize      | gather         | copy       | 2     |                      | stored input    | grid_sampler_2d
resize      | by shape       | own kernel |       |                      |                 | grid_sampler_2d_backward
    grid_sampler_3d
index       | gather         | copy       | 2     |                      |                 | embedding
    embedding_dense_backward index_select gather scatter scatter_add index_add take_along_dim
index       | by shape       | copy       | 2     |                      |                 | embedding_backward
    embedding_renorm _index_put_impl _unsafe_index_put gather_backward scatter_reduce index_copy index_fill take
    masked_scatter one_hot put _embedding_bag_forward_only _embedding_bag_backward _embedding_bag_dense_backward
    _embedding_bag_per_sample_weights_backward masked_scatter_backward index_reduce _unsafe_masked_index
    _unsafe_masked_index_put_accumulate
index       | gather         | own kernel |       |                      |                 | _embedding_bag
index       | gather         | copy       | 2     |                      | sized by masks  | index index_put
    _unsafe_index
index       | by shape       | own kernel |       |                      | sized by values | masked_select nonzero
    repeat_interleave _unique2 unique_consecutive unique_dim nms
index       | by shape       | own kernel |       |                      |                 | nonzero_static bincount
    argsort histc histogram isin multinomial segment_reduce
index       | reduction      | own kernel |       |                      |                 | topk sort
scan        | reduction      | reduction  | 2     |                      |                 | cumsum
scan        | by shape       | reduction  | 2     |                      |                 | cumprod cummax cummin
    logcumsumexp _cummax_helper
random      | by shape       | pointwise  | 2     |                      |                 | rand randn rand_like
    randn_like randint randint_like randperm bernoulli normal uniform random exponential normal_functional poisson
    cauchy geometric log_normal
random      | by shape       | own kernel |       |                      |                 | binomial _standard_gamma
    _standard_gamma_grad _sample_dirichlet _dirichlet_grad
fill        | by shape       | pointwise  | 2     |                      |                 | zeros ones full ones_like
    full_like new_zeros new_ones new_full arange linspace logspace eye scalar_tensor tril_indices triu_indices
    hann_window hamming_window blackman_window bartlett_window kaiser_window range lift_fresh_copy efficientzerotensor
    _efficientzerotensor
fill        | copy           | pointwise  | 2     |                      |                 | zeros_like fill zero
loss        | by shape       | reduction  | 2     |                      |                 | nll_loss_forward
    nll_loss_backward nll_loss2d_forward nll_loss2d_backward mse_loss mse_loss_backward smooth_l1_loss
    smooth_l1_loss_backward huber_loss huber_loss_backward binary_cross_entropy binary_cross_entropy_backward
    binary_cross_entropy_with_logits multi_margin_loss multilabel_margin_loss_forward soft_margin_loss
loss        | by shape       | own kernel |       |                      |                 | _ctc_loss
    _ctc_loss_backward multi_margin_loss_backward multilabel_margin_loss_backward
loss        | by shape       | pointwise  | 2     |                      |                 | soft_margin_loss_backward
optimizer   | by shape       | own kernel |       |                      |                 | _fused_adam _fused_adamw
    _fused_sgd _fused_adagrad _amp_foreach_non_finite_check_and_unscale _amp_update_scale
allocation  | by shape       | own kernel |       |                      |                 | empty empty_like new_empty
    empty_strided new_empty_strided resize
fft         | by shape       | own kernel |       | uncounted            |                 | _fft_r2c _fft_c2r _fft_c2c
    stft istft
other       | by shape       | own kernel |       | uncounted            |                 | linalg_inv_ex linalg_eigh
    _linalg_eigh linalg_qr linalg_svd _linalg_svd linalg_cholesky_ex cholesky linalg_solve_ex _linalg_solve_ex
    triangular_solve linalg_lu_factor_ex linalg_lu cholesky_inverse linalg_householder_product linalg_solve_triangular
    linalg_lstsq linalg_lu_solve _linalg_det _linalg_slogdet linalg_eig _linalg_eigvals linalg_ldl_factor_ex
    linalg_ldl_solve geqrf cholesky_solve
other       | by shape       | own kernel |       |                      |                 | lu_unpack
    _linalg_check_errors
"""
