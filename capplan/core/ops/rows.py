"""The operator catalogue: a row per operator, read by `capplan.core.ops.catalogue`.

Columns:
    operator: Name without its library ("aten.", "torchvision.", "quanto.", ...: those of `catalogue`) and without a trailing
        underscore.
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
        "profiled as ...": names under which profilers report it, without library.

To add an operator, add a row, and a formula to `core.ops.flops` if it holds a new kind of product.
"""

ROWS = """
operator                                 | class       | efficiency     | fused role | instr | products             | notes
convolution                              | convolution | by filter      | own kernel |       | convolution          | profiled as conv1d conv2d conv3d conv_transpose2d
convolution_backward                     | convolution | by filter      | own kernel |       | convolution_backward |
_conv_depthwise2d                        | convolution | by shape       | own kernel |       | uncounted            |
conv_tbc                                 | convolution | by shape       | own kernel |       | uncounted            |
conv_tbc_backward                        | convolution | by shape       | own kernel |       | uncounted            |
deform_conv2d                            | convolution | by shape       | own kernel |       | deformable           |
_deform_conv2d_backward                  | convolution | by shape       | own kernel |       | uncounted            |
mm                                       | matmul      | linear         | own kernel |       | product              |
addmm                                    | matmul      | linear         | own kernel |       | product              |
bmm                                      | matmul      | batched matmul | own kernel |       | product              |
baddbmm                                  | matmul      | batched matmul | own kernel |       | product              |
addbmm                                   | matmul      | batched matmul | own kernel |       | product              |
mv                                       | matmul      | linear         | own kernel |       | matrix_vector        |
addmv                                    | matmul      | linear         | own kernel |       | matrix_vector        |
dot                                      | matmul      | by shape       | own kernel |       | dot                  |
vdot                                     | matmul      | by shape       | own kernel |       | dot                  |
addr                                     | matmul      | by shape       | own kernel |       | outer                |
ger                                      | matmul      | by shape       | own kernel |       | outer                |
linear                                   | matmul      | linear         | own kernel |       | linear               |
quantised_linear                         | matmul      | linear         | own kernel |       | linear_of_packed     |
widen                                    | cast        | pointwise      | own kernel |       |                      |
quantise                                 | cast        | pointwise      | pointwise  | 6     |                      |
quantize_per_tensor                      | cast        | pointwise      | pointwise  | 6     |                      |
quantize_per_tensor_dynamic              | cast        | pointwise      | pointwise  | 6     |                      |
quantize_per_channel                     | cast        | pointwise      | pointwise  | 6     |                      |
dequantize                               | cast        | pointwise      | pointwise  | 2     |                      |
rescale                                  | pointwise   | pointwise      | pointwise  | 4     |                      |
packed_linear                            | matmul      | linear         | own kernel |       | linear               |
matmul                                   | matmul      | batched matmul | own kernel |       | uncounted            |
_scaled_mm                               | matmul      | by shape       | own kernel |       | product              |
_int_mm                                  | matmul      | by shape       | own kernel |       | product              |
_grouped_mm                              | matmul      | by shape       | own kernel |       | grouped_product      |
_scaled_grouped_mm                       | matmul      | by shape       | own kernel |       | grouped_product      |
sparse_mm                                | matmul      | by shape       | own kernel |       | sparse_product       |
_addmm_activation                        | matmul      | by shape       | own kernel |       | product              |
_trilinear                               | matmul      | by shape       | own kernel |       | trilinear            |
linalg_matrix_exp                        | matmul      | batched matmul | own kernel |       | matrix_exponential   |
linalg_vecdot                            | matmul      | by shape       | own kernel |       | uncounted            |
_euclidean_dist                          | matmul      | batched matmul | own kernel |       | euclidean_distances  |
ormqr                                    | matmul      | by shape       | own kernel |       | reflectors           |
_weight_int8pack_mm                      | matmul      | by shape       | own kernel |       | linear               |
qbytes_mm                                | matmul      | linear         | own kernel |       | linear               |
int8_scaled_mm                           | matmul      | linear         | own kernel |       | linear               |
int8_linear_matmul                       | matmul      | linear         | own kernel |       | linear               |
int8_vectorwise_quant                    | cast        | pointwise      | own kernel |       |                      |
unpack                                   | pointwise   | pointwise      | own kernel |       |                      |
quantize_symmetric                       | cast        | pointwise      | pointwise  | 6     |                      |
_weight_int4pack_mm                      | matmul      | by shape       | own kernel |       | linear_of_packed     |
gemm_4bit                                | matmul      | linear         | own kernel |       | linear_of_packed     |
gemv_4bit                                | matmul      | linear         | own kernel |       | linear_of_packed     |
quantize_4bit                            | cast        | pointwise      | own kernel |       |                      |
dequantize_4bit                          | cast        | pointwise      | own kernel |       |                      |
quantize_blockwise                       | cast        | pointwise      | own kernel |       |                      |
dequantize_blockwise                     | cast        | pointwise      | own kernel |       |                      |
attention                                | attention   | attention      | own kernel |       | attention            | profiled as scaled_dot_product_attention
attention_backward                       | attention   | attention      | own kernel |       | attention_backward   |
rnn                                      | rnn         | recurrent      | own kernel |       | rnn                  | profiled as lstm gru rnn_tanh rnn_relu
rnn_backward                             | rnn         | recurrent      | own kernel |       | rnn_backward         |
_weight_norm_interface                   | norm        | by shape       | norm       | 2     |                      |
_weight_norm_interface_backward          | norm        | by shape       | norm       | 2     |                      |
native_layer_norm                        | norm        | layer norm     | norm       | 10    |                      | profiled as layer_norm
native_layer_norm_backward               | norm        | layer norm     | norm       | 2     |                      |
native_batch_norm                        | norm        | batch norm     | norm       | 6     |                      | profiled as batch_norm
native_batch_norm_backward               | norm        | batch norm     | norm       | 2     |                      |
native_group_norm                        | norm        | group norm     | norm       | 2     |                      | profiled as group_norm
native_group_norm_backward               | norm        | group norm     | norm       | 2     |                      |
_fused_rms_norm                          | norm        | layer norm     | norm       | 2     |                      |
_fused_rms_norm_backward                 | norm        | by shape       | norm       | 2     |                      |
renorm                                   | norm        | by shape       | own kernel |       |                      |
_batch_norm_with_update                  | norm        | by shape       | norm       | 2     |                      |
_batch_norm_no_update                    | norm        | by shape       | norm       | 2     |                      |
_native_batch_norm_legit                 | norm        | batch norm     | norm       | 2     |                      |
_native_batch_norm_legit_no_training     | norm        | batch norm     | norm       | 2     |                      |
rms_norm                                 | norm        | layer norm     | norm       | 2     |                      |
cudnn_batch_norm                         | norm        | batch norm     | norm       | 2     |                      |
cudnn_batch_norm_backward                | norm        | batch norm     | norm       | 2     |                      |
batch_norm                               | norm        | batch norm     | norm       | 2     |                      |
_softmax                                 | softmax     | softmax        | softmax    | 25    |                      | profiled as softmax
_softmax_backward_data                   | softmax     | softmax        | softmax    | 2     |                      |
_log_softmax                             | softmax     | softmax        | softmax    | 2     |                      | profiled as log_softmax
_log_softmax_backward_data               | softmax     | softmax        | softmax    | 2     |                      |
_safe_softmax                            | softmax     | softmax        | softmax    | 2     |                      |
logsumexp                                | softmax     | reduction      | softmax    | 2     |                      |
_masked_softmax                          | softmax     | by shape       | softmax    | 2     |                      |
_masked_softmax_backward                 | softmax     | by shape       | softmax    | 2     |                      |
relu                                     | activation  | activation     | pointwise  | 1     |                      |
gelu                                     | activation  | activation     | pointwise  | 40    |                      |
silu                                     | activation  | activation     | pointwise  | 25    |                      |
sigmoid                                  | activation  | activation     | pointwise  | 22    |                      |
hardswish                                | activation  | activation     | pointwise  | 6     |                      |
hardsigmoid                              | activation  | activation     | pointwise  | 5     |                      |
hardtanh                                 | activation  | activation     | pointwise  | 2     |                      |
leaky_relu                               | activation  | activation     | pointwise  | 3     |                      |
elu                                      | activation  | activation     | pointwise  | 25    |                      |
mish                                     | activation  | activation     | pointwise  | 60    |                      |
softplus                                 | activation  | activation     | pointwise  | 40    |                      |
threshold                                | activation  | activation     | pointwise  | 2     |                      |
_prelu_kernel                            | activation  | activation     | pointwise  | 2     |                      |
log_sigmoid_forward                      | activation  | activation     | pointwise  | 2     |                      |
softshrink                               | activation  | by shape       | pointwise  | 2     |                      |
hardshrink                               | activation  | by shape       | pointwise  | 2     |                      |
celu                                     | activation  | activation     | pointwise  | 25    |                      |
rrelu_with_noise                         | activation  | by shape       | pointwise  | 2     |                      |
glu                                      | activation  | activation     | pointwise  | 2     |                      |
gelu_backward                            | activation  | activation     | pointwise  | 2     |                      |
silu_backward                            | activation  | activation     | pointwise  | 2     |                      |
sigmoid_backward                         | activation  | activation     | pointwise  | 2     |                      |
tanh_backward                            | activation  | activation     | pointwise  | 2     |                      |
hardswish_backward                       | activation  | activation     | pointwise  | 2     |                      |
hardsigmoid_backward                     | activation  | activation     | pointwise  | 2     |                      |
hardtanh_backward                        | activation  | activation     | pointwise  | 2     |                      |
leaky_relu_backward                      | activation  | activation     | pointwise  | 2     |                      |
elu_backward                             | activation  | activation     | pointwise  | 2     |                      |
mish_backward                            | activation  | activation     | pointwise  | 2     |                      |
softplus_backward                        | activation  | by shape       | pointwise  | 2     |                      |
threshold_backward                       | activation  | activation     | pointwise  | 2     |                      |
glu_backward                             | activation  | by shape       | pointwise  | 2     |                      |
log_sigmoid_backward                     | activation  | by shape       | pointwise  | 2     |                      |
softshrink_backward                      | activation  | by shape       | pointwise  | 2     |                      |
hardshrink_backward                      | activation  | by shape       | pointwise  | 2     |                      |
rrelu_with_noise_backward                | activation  | by shape       | pointwise  | 2     |                      |
rrelu_with_noise_functional              | activation  | by shape       | pointwise  | 2     |                      |
_prelu_kernel_backward                   | activation  | by shape       | pointwise  | 2     |                      |
glu_jvp                                  | activation  | by shape       | pointwise  | 2     |                      |
prelu                                    | activation  | activation     | pointwise  | 2     |                      |
relu6                                    | activation  | activation     | pointwise  | 2     |                      |
selu                                     | activation  | activation     | pointwise  | 25    |                      |
tanh                                     | pointwise   | activation     | pointwise  | 25    |                      |
add                                      | pointwise   | add            | pointwise  | 2     |                      |
sub                                      | pointwise   | by shape       | pointwise  | 2     |                      |
rsub                                     | pointwise   | by shape       | pointwise  | 2     |                      |
mul                                      | pointwise   | by shape       | pointwise  | 2     |                      |
div                                      | pointwise   | by shape       | pointwise  | 8     |                      |
neg                                      | pointwise   | by shape       | pointwise  | 2     |                      |
abs                                      | pointwise   | by shape       | pointwise  | 2     |                      |
pow                                      | pointwise   | by shape       | pointwise  | 15    |                      |
sqrt                                     | pointwise   | by shape       | pointwise  | 8     |                      |
rsqrt                                    | pointwise   | by shape       | pointwise  | 8     |                      |
exp                                      | pointwise   | by shape       | pointwise  | 15    |                      |
exp2                                     | pointwise   | by shape       | pointwise  | 2     |                      |
expm1                                    | pointwise   | by shape       | pointwise  | 2     |                      |
log                                      | pointwise   | by shape       | pointwise  | 20    |                      |
log2                                     | pointwise   | by shape       | pointwise  | 2     |                      |
log10                                    | pointwise   | by shape       | pointwise  | 2     |                      |
log1p                                    | pointwise   | by shape       | pointwise  | 2     |                      |
sin                                      | pointwise   | by shape       | pointwise  | 2     |                      |
cos                                      | pointwise   | by shape       | pointwise  | 2     |                      |
tan                                      | pointwise   | by shape       | pointwise  | 2     |                      |
asin                                     | pointwise   | by shape       | pointwise  | 2     |                      |
acos                                     | pointwise   | by shape       | pointwise  | 2     |                      |
atan                                     | pointwise   | by shape       | pointwise  | 2     |                      |
atan2                                    | pointwise   | by shape       | pointwise  | 2     |                      |
sinh                                     | pointwise   | by shape       | pointwise  | 2     |                      |
cosh                                     | pointwise   | by shape       | pointwise  | 2     |                      |
asinh                                    | pointwise   | by shape       | pointwise  | 2     |                      |
acosh                                    | pointwise   | by shape       | pointwise  | 2     |                      |
atanh                                    | pointwise   | by shape       | pointwise  | 2     |                      |
erf                                      | pointwise   | by shape       | pointwise  | 30    |                      |
erfc                                     | pointwise   | by shape       | pointwise  | 2     |                      |
erfinv                                   | pointwise   | by shape       | pointwise  | 2     |                      |
floor                                    | pointwise   | by shape       | pointwise  | 2     |                      |
ceil                                     | pointwise   | by shape       | pointwise  | 2     |                      |
round                                    | pointwise   | by shape       | pointwise  | 2     |                      |
trunc                                    | pointwise   | by shape       | pointwise  | 2     |                      |
frac                                     | pointwise   | by shape       | pointwise  | 2     |                      |
sign                                     | pointwise   | by shape       | pointwise  | 2     |                      |
sgn                                      | pointwise   | by shape       | pointwise  | 2     |                      |
reciprocal                               | pointwise   | by shape       | pointwise  | 2     |                      |
clamp                                    | pointwise   | activation     | pointwise  | 2     |                      |
clamp_min                                | pointwise   | activation     | pointwise  | 2     |                      |
clamp_max                                | pointwise   | activation     | pointwise  | 2     |                      |
maximum                                  | pointwise   | by shape       | pointwise  | 2     |                      |
minimum                                  | pointwise   | by shape       | pointwise  | 2     |                      |
fmod                                     | pointwise   | by shape       | pointwise  | 2     |                      |
remainder                                | pointwise   | by shape       | pointwise  | 2     |                      |
floor_divide                             | pointwise   | by shape       | pointwise  | 2     |                      |
where                                    | pointwise   | by shape       | pointwise  | 2     |                      |
masked_fill                              | pointwise   | gather         | pointwise  | 2     |                      |
eq                                       | pointwise   | by shape       | pointwise  | 2     |                      |
ne                                       | pointwise   | by shape       | pointwise  | 2     |                      |
lt                                       | pointwise   | by shape       | pointwise  | 2     |                      |
le                                       | pointwise   | by shape       | pointwise  | 2     |                      |
gt                                       | pointwise   | by shape       | pointwise  | 2     |                      |
ge                                       | pointwise   | by shape       | pointwise  | 2     |                      |
logical_and                              | pointwise   | by shape       | pointwise  | 2     |                      |
logical_or                               | pointwise   | by shape       | pointwise  | 2     |                      |
logical_not                              | pointwise   | by shape       | pointwise  | 2     |                      |
logical_xor                              | pointwise   | by shape       | pointwise  | 2     |                      |
bitwise_and                              | pointwise   | by shape       | pointwise  | 2     |                      |
bitwise_or                               | pointwise   | by shape       | pointwise  | 2     |                      |
bitwise_not                              | pointwise   | by shape       | pointwise  | 2     |                      |
bitwise_xor                              | pointwise   | by shape       | pointwise  | 2     |                      |
bitwise_left_shift                       | pointwise   | by shape       | pointwise  | 2     |                      |
bitwise_right_shift                      | pointwise   | by shape       | pointwise  | 2     |                      |
__and__                                  | pointwise   | by shape       | pointwise  | 2     |                      |
__or__                                   | pointwise   | by shape       | pointwise  | 2     |                      |
__xor__                                  | pointwise   | by shape       | pointwise  | 2     |                      |
__lshift__                               | pointwise   | by shape       | pointwise  | 2     |                      |
__rshift__                               | pointwise   | by shape       | pointwise  | 2     |                      |
isnan                                    | pointwise   | by shape       | pointwise  | 2     |                      |
isinf                                    | pointwise   | by shape       | pointwise  | 2     |                      |
isfinite                                 | pointwise   | by shape       | pointwise  | 2     |                      |
lerp                                     | pointwise   | by shape       | pointwise  | 2     |                      |
addcmul                                  | pointwise   | by shape       | pointwise  | 2     |                      |
addcdiv                                  | pointwise   | by shape       | pointwise  | 2     |                      |
square                                   | pointwise   | by shape       | pointwise  | 2     |                      |
native_dropout                           | pointwise   | by shape       | pointwise  | 2     |                      |
native_dropout_backward                  | pointwise   | by shape       | pointwise  | 2     |                      |
dropout                                  | pointwise   | by shape       | pointwise  | 2     |                      |
polar                                    | pointwise   | by shape       | pointwise  | 2     |                      |
complex                                  | pointwise   | by shape       | pointwise  | 2     |                      |
nan_to_num                               | pointwise   | by shape       | pointwise  | 2     |                      |
heaviside                                | pointwise   | by shape       | pointwise  | 2     |                      |
hypot                                    | pointwise   | by shape       | pointwise  | 2     |                      |
xlogy                                    | pointwise   | by shape       | pointwise  | 2     |                      |
logaddexp                                | pointwise   | by shape       | pointwise  | 2     |                      |
sinc                                     | pointwise   | by shape       | pointwise  | 2     |                      |
digamma                                  | pointwise   | by shape       | own kernel |       |                      |
lgamma                                   | pointwise   | by shape       | pointwise  | 2     |                      |
special_i0                               | pointwise   | by shape       | pointwise  | 2     |                      |
conj_physical                            | pointwise   | by shape       | pointwise  | 2     |                      |
angle                                    | pointwise   | by shape       | pointwise  | 2     |                      |
signbit                                  | pointwise   | by shape       | pointwise  | 2     |                      |
gcd                                      | pointwise   | by shape       | own kernel |       |                      |
fmax                                     | pointwise   | by shape       | pointwise  | 2     |                      |
fmin                                     | pointwise   | by shape       | pointwise  | 2     |                      |
deg2rad                                  | pointwise   | by shape       | pointwise  | 2     |                      |
frexp                                    | pointwise   | by shape       | pointwise  | 2     |                      |
i0                                       | pointwise   | by shape       | pointwise  | 2     |                      |
isneginf                                 | pointwise   | by shape       | pointwise  | 2     |                      |
isposinf                                 | pointwise   | by shape       | pointwise  | 2     |                      |
lcm                                      | pointwise   | by shape       | pointwise  | 2     |                      |
logaddexp2                               | pointwise   | by shape       | pointwise  | 2     |                      |
logit_backward                           | pointwise   | by shape       | pointwise  | 2     |                      |
mvlgamma                                 | pointwise   | by shape       | pointwise  | 2     |                      |
nextafter                                | pointwise   | by shape       | pointwise  | 2     |                      |
rad2deg                                  | pointwise   | by shape       | pointwise  | 2     |                      |
special_bessel_j0                        | pointwise   | by shape       | pointwise  | 2     |                      |
special_bessel_j1                        | pointwise   | by shape       | pointwise  | 2     |                      |
special_bessel_y0                        | pointwise   | by shape       | pointwise  | 2     |                      |
special_bessel_y1                        | pointwise   | by shape       | pointwise  | 2     |                      |
special_entr                             | pointwise   | by shape       | pointwise  | 2     |                      |
special_erfcx                            | pointwise   | by shape       | pointwise  | 2     |                      |
special_i1                               | pointwise   | by shape       | pointwise  | 2     |                      |
special_log_ndtr                         | pointwise   | by shape       | pointwise  | 2     |                      |
special_modified_bessel_i0               | pointwise   | by shape       | pointwise  | 2     |                      |
special_modified_bessel_i1               | pointwise   | by shape       | pointwise  | 2     |                      |
special_xlog1py                          | pointwise   | by shape       | pointwise  | 2     |                      |
linalg_cross                             | pointwise   | by shape       | pointwise  | 3     |                      |
igamma                                   | pointwise   | by shape       | own kernel |       |                      |
igammac                                  | pointwise   | by shape       | own kernel |       |                      |
polygamma                                | pointwise   | by shape       | own kernel |       |                      |
special_airy_ai                          | pointwise   | by shape       | own kernel |       |                      |
special_chebyshev_polynomial_t           | pointwise   | by shape       | own kernel |       |                      |
special_chebyshev_polynomial_u           | pointwise   | by shape       | own kernel |       |                      |
special_chebyshev_polynomial_v           | pointwise   | by shape       | own kernel |       |                      |
special_chebyshev_polynomial_w           | pointwise   | by shape       | own kernel |       |                      |
special_hermite_polynomial_h             | pointwise   | by shape       | own kernel |       |                      |
special_hermite_polynomial_he            | pointwise   | by shape       | own kernel |       |                      |
special_i0e                              | pointwise   | by shape       | own kernel |       |                      |
special_i1e                              | pointwise   | by shape       | own kernel |       |                      |
special_laguerre_polynomial_l            | pointwise   | by shape       | own kernel |       |                      |
special_legendre_polynomial_p            | pointwise   | by shape       | own kernel |       |                      |
special_modified_bessel_k0               | pointwise   | by shape       | own kernel |       |                      |
special_modified_bessel_k1               | pointwise   | by shape       | own kernel |       |                      |
special_ndtri                            | pointwise   | by shape       | own kernel |       |                      |
special_scaled_modified_bessel_k0        | pointwise   | by shape       | own kernel |       |                      |
special_scaled_modified_bessel_k1        | pointwise   | by shape       | own kernel |       |                      |
special_shifted_chebyshev_polynomial_t   | pointwise   | by shape       | own kernel |       |                      |
special_shifted_chebyshev_polynomial_u   | pointwise   | by shape       | own kernel |       |                      |
special_shifted_chebyshev_polynomial_v   | pointwise   | by shape       | own kernel |       |                      |
special_shifted_chebyshev_polynomial_w   | pointwise   | by shape       | own kernel |       |                      |
special_spherical_bessel_j0              | pointwise   | by shape       | own kernel |       |                      |
special_zeta                             | pointwise   | by shape       | own kernel |       |                      |
fake_quantize_per_tensor_affine_cachemask | pointwise   | by shape       | pointwise  | 2     |                      |
tril                                     | pointwise   | copy           | pointwise  | 2     |                      |
triu                                     | pointwise   | copy           | pointwise  | 2     |                      |
view_as_real_copy                        | pointwise   | by shape       | pointwise  | 2     |                      |
ldexp                                    | pointwise   | by shape       | pointwise  | 2     |                      |
logit                                    | pointwise   | by shape       | pointwise  | 2     |                      |
special_expit                            | pointwise   | by shape       | pointwise  | 2     |                      |
_fake_quantize_per_tensor_affine_cachemask_tensor_qparams | pointwise   | by shape       | pointwise  | 2     |                      |
fake_quantize_per_channel_affine_cachemask | pointwise   | by shape       | pointwise  | 2     |                      |
_fake_quantize_learnable_per_tensor_affine | pointwise   | by shape       | pointwise  | 2     |                      |
_fake_quantize_learnable_per_channel_affine | pointwise   | by shape       | pointwise  | 2     |                      |
_fake_quantize_learnable_per_tensor_affine_backward | pointwise   | by shape       | pointwise  | 2     |                      |
_fake_quantize_learnable_per_channel_affine_backward | pointwise   | by shape       | pointwise  | 2     |                      |
copysign                                 | pointwise   | by shape       | pointwise  | 2     |                      |
true_divide                              | pointwise   | by shape       | pointwise  | 2     |                      |
masked_scale                             | pointwise   | by shape       | pointwise  | 2     |                      |
bucketize                                | pointwise   | by shape       | pointwise  | 2     |                      |
searchsorted                             | pointwise   | by shape       | own kernel |       |                      |
sum                                      | reduction   | reduction      | reduction  | 2     |                      |
mean                                     | reduction   | reduction      | reduction  | 2     |                      |
amax                                     | reduction   | reduction      | reduction  | 2     |                      |
amin                                     | reduction   | reduction      | reduction  | 2     |                      |
max                                      | reduction   | reduction      | reduction  | 2     |                      |
min                                      | reduction   | reduction      | reduction  | 2     |                      |
argmax                                   | reduction   | reduction      | reduction  | 2     |                      |
argmin                                   | reduction   | reduction      | reduction  | 2     |                      |
any                                      | reduction   | reduction      | reduction  | 2     |                      |
all                                      | reduction   | reduction      | reduction  | 2     |                      |
prod                                     | reduction   | reduction      | reduction  | 2     |                      |
var                                      | reduction   | reduction      | reduction  | 2     |                      |
std                                      | reduction   | reduction      | reduction  | 2     |                      |
var_mean                                 | reduction   | reduction      | reduction  | 2     |                      |
std_mean                                 | reduction   | reduction      | reduction  | 2     |                      |
norm                                     | reduction   | by shape       | reduction  | 2     |                      |
linalg_vector_norm                       | reduction   | reduction      | reduction  | 2     |                      |
nansum                                   | reduction   | by shape       | reduction  | 2     |                      |
aminmax                                  | reduction   | by shape       | reduction  | 2     |                      |
median                                   | reduction   | by shape       | own kernel |       |                      |
nanmedian                                | reduction   | by shape       | own kernel |       |                      |
kthvalue                                 | reduction   | by shape       | own kernel |       |                      |
count_nonzero                            | reduction   | by shape       | reduction  | 2     |                      |
mode                                     | reduction   | by shape       | own kernel |       |                      |
trace                                    | reduction   | by shape       | own kernel |       |                      |
linalg_matrix_norm                       | reduction   | by shape       | reduction  | 2     |                      |
_aminmax                                 | reduction   | by shape       | reduction  | 2     |                      |
_cdist_forward                           | reduction   | by shape       | own kernel |       |                      |
_cdist_backward                          | reduction   | by shape       | own kernel |       |                      |
_pdist_forward                           | reduction   | by shape       | own kernel |       |                      |
_pdist_backward                          | reduction   | by shape       | own kernel |       |                      |
dist                                     | reduction   | by shape       | reduction  | 2     |                      |
_is_all_true                             | reduction   | by shape       | reduction  | 2     |                      |
_is_any_true                             | reduction   | by shape       | reduction  | 2     |                      |
copy                                     | copy        | copy           | copy       | 1     |                      |
clone                                    | copy        | copy           | copy       | 1     |                      |
cat                                      | copy        | copy           | copy       | 4     |                      |
stack                                    | copy        | copy           | copy       | 2     |                      |
repeat                                   | copy        | copy           | copy       | 2     |                      |
roll                                     | copy        | copy           | copy       | 2     |                      |
flip                                     | copy        | copy           | copy       | 2     |                      |
constant_pad_nd                          | copy        | copy           | copy       | 2     |                      | stored input
reflection_pad1d                         | copy        | by shape       | copy       | 2     |                      |
reflection_pad2d                         | copy        | copy           | copy       | 2     |                      |
reflection_pad3d                         | copy        | by shape       | copy       | 2     |                      |
_local_scalar_dense                      | copy        | by shape       | copy       | 2     |                      | reads a value
is_nonzero                               | copy        | by shape       | copy       | 2     |                      | reads a value
equal                                    | copy        | by shape       | copy       | 2     |                      | reads a value
replication_pad1d                        | copy        | by shape       | copy       | 2     |                      |
replication_pad2d                        | copy        | copy           | copy       | 2     |                      |
replication_pad3d                        | copy        | by shape       | copy       | 2     |                      |
im2col                                   | copy        | copy           | copy       | 2     |                      | stored input
col2im                                   | copy        | by shape       | copy       | 2     |                      |
unfold_backward                          | copy        | by shape       | copy       | 2     |                      |
pixel_shuffle                            | copy        | copy           | copy       | 2     |                      |
pixel_unshuffle                          | copy        | copy           | copy       | 2     |                      |
channel_shuffle                          | copy        | copy           | copy       | 2     |                      |
slice_scatter                            | copy        | copy           | copy       | 2     |                      |
select_scatter                           | copy        | copy           | copy       | 2     |                      |
slice_backward                           | copy        | copy           | copy       | 2     |                      |
select_backward                          | copy        | copy           | copy       | 2     |                      |
as_strided_scatter                       | copy        | by shape       | copy       | 2     |                      |
diagonal_scatter                         | copy        | by shape       | copy       | 2     |                      |
diag_embed                               | copy        | by shape       | copy       | 2     |                      |
rot90                                    | copy        | copy           | copy       | 2     |                      |
native_channel_shuffle                   | copy        | by shape       | copy       | 2     |                      |
_reshape_copy                            | copy        | by shape       | copy       | 2     |                      |
view_copy                                | copy        | by shape       | copy       | 2     |                      |
expand_copy                              | copy        | copy           | copy       | 2     |                      |
_pad_enum                                | copy        | by shape       | copy       | 2     |                      |
permute_copy                             | copy        | copy           | copy       | 2     |                      |
as_strided_copy                          | copy        | copy           | copy       | 2     |                      |
split_with_sizes_copy                    | copy        | copy           | copy       | 2     |                      |
narrow_copy                              | copy        | by shape       | copy       | 2     |                      |
_chunk_cat                               | copy        | by shape       | copy       | 2     |                      |
reflection_pad2d_backward                | copy        | by shape       | copy       | 2     |                      |
reflection_pad1d_backward                | copy        | by shape       | copy       | 2     |                      |
replication_pad2d_backward               | copy        | by shape       | copy       | 2     |                      |
diagonal_backward                        | copy        | by shape       | copy       | 2     |                      |
replication_pad1d_backward               | copy        | by shape       | copy       | 2     |                      |
replication_pad3d_backward               | copy        | by shape       | copy       | 2     |                      |
reflection_pad3d_backward                | copy        | by shape       | copy       | 2     |                      |
block_diag                               | copy        | by shape       | copy       | 2     |                      |
unfold                                   | copy        | copy           | copy       | 2     |                      |
contiguous                               | copy        | copy           | copy       | 2     |                      |
_pad_circular                            | copy        | copy           | copy       | 2     |                      |
_to_copy                                 | cast        | cast           | pointwise  | 1     |                      |
to                                       | cast        | by shape       | pointwise  | 2     |                      |
_autocast_to_reduced_precision           | cast        | by shape       | pointwise  | 2     |                      |
max_pool2d_with_indices                  | pool        | pool           | pool       | 2     |                      | profiled as max_pool2d
max_pool2d_with_indices_backward         | pool        | pool           | pool       | 2     |                      |
max_pool3d_with_indices                  | pool        | pool           | pool       | 2     |                      |
max_pool3d_with_indices_backward         | pool        | by shape       | pool       | 2     |                      |
avg_pool2d                               | pool        | pool           | pool       | 2     |                      |
avg_pool2d_backward                      | pool        | pool           | pool       | 2     |                      |
avg_pool3d                               | pool        | pool           | pool       | 2     |                      |
avg_pool3d_backward                      | pool        | by shape       | pool       | 2     |                      |
avg_pool1d                               | pool        | pool           | pool       | 2     |                      |
_adaptive_avg_pool2d                     | pool        | pool           | pool       | 2     |                      | profiled as adaptive_avg_pool2d
_adaptive_avg_pool2d_backward            | pool        | pool           | pool       | 2     |                      |
_adaptive_avg_pool3d                     | pool        | pool           | pool       | 2     |                      |
_adaptive_avg_pool3d_backward            | pool        | by shape       | pool       | 2     |                      |
adaptive_max_pool2d                      | pool        | pool           | own kernel |       |                      |
adaptive_max_pool2d_backward             | pool        | by shape       | pool       | 2     |                      |
adaptive_max_pool3d                      | pool        | by shape       | own kernel |       |                      |
fractional_max_pool2d                    | pool        | by shape       | pool       | 2     |                      |
max_unpool2d                             | pool        | by shape       | own kernel |       |                      |
max_unpool3d                             | pool        | by shape       | own kernel |       |                      |
adaptive_max_pool3d_backward             | pool        | by shape       | own kernel |       |                      |
fractional_max_pool2d_backward           | pool        | by shape       | own kernel |       |                      |
fractional_max_pool3d                    | pool        | by shape       | own kernel |       |                      |
fractional_max_pool3d_backward           | pool        | by shape       | own kernel |       |                      |
roi_align                                | pool        | by shape       | own kernel |       |                      |
_roi_align_backward                      | pool        | by shape       | own kernel |       |                      |
roi_pool                                 | pool        | by shape       | own kernel |       |                      |
ps_roi_align                             | pool        | by shape       | own kernel |       |                      |
adaptive_avg_pool1d                      | pool        | by shape       | pool       | 2     |                      |
adaptive_avg_pool2d                      | pool        | pool           | pool       | 2     |                      |
upsample_nearest1d                       | resize      | upsample       | copy       | 2     |                      |
upsample_nearest2d                       | resize      | upsample       | copy       | 2     |                      |
upsample_nearest3d                       | resize      | upsample       | copy       | 2     |                      |
upsample_linear1d                        | resize      | upsample       | copy       | 2     |                      | stored input
upsample_bilinear2d                      | resize      | upsample       | copy       | 2     |                      | stored input
upsample_bicubic2d                       | resize      | upsample       | copy       | 2     |                      | stored input
upsample_trilinear3d                     | resize      | upsample       | copy       | 2     |                      | stored input
_upsample_nearest_exact1d                | resize      | by shape       | copy       | 2     |                      |
_upsample_nearest_exact2d                | resize      | by shape       | copy       | 2     |                      |
_upsample_nearest_exact3d                | resize      | by shape       | copy       | 2     |                      |
_upsample_bilinear2d_aa                  | resize      | upsample       | copy       | 2     |                      | stored input
_upsample_bicubic2d_aa                   | resize      | upsample       | copy       | 2     |                      | stored input
upsample_nearest2d_backward              | resize      | by shape       | copy       | 2     |                      |
upsample_bilinear2d_backward             | resize      | by shape       | copy       | 2     |                      |
upsample_bicubic2d_backward              | resize      | by shape       | copy       | 2     |                      |
upsample_nearest1d_backward              | resize      | by shape       | copy       | 2     |                      |
upsample_linear1d_backward               | resize      | by shape       | copy       | 2     |                      |
upsample_nearest3d_backward              | resize      | by shape       | copy       | 2     |                      |
upsample_trilinear3d_backward            | resize      | by shape       | copy       | 2     |                      |
_upsample_nearest_exact1d_backward       | resize      | by shape       | copy       | 2     |                      |
_upsample_nearest_exact2d_backward       | resize      | by shape       | copy       | 2     |                      |
_upsample_nearest_exact3d_backward       | resize      | by shape       | copy       | 2     |                      |
grid_sampler_2d                          | resize      | gather         | copy       | 2     |                      | stored input
grid_sampler_2d_backward                 | resize      | by shape       | own kernel |       |                      |
grid_sampler_3d                          | resize      | by shape       | own kernel |       |                      |
grid_sampler_3d_backward                 | resize      | by shape       | copy       | 2     |                      |
affine_grid_generator                    | resize      | by shape       | copy       | 2     |                      |
_upsample_bicubic2d_aa_backward          | resize      | by shape       | copy       | 2     |                      |
_upsample_bilinear2d_aa_backward         | resize      | by shape       | copy       | 2     |                      |
embedding                                | index       | gather         | copy       | 2     |                      |
embedding_dense_backward                 | index       | gather         | copy       | 2     |                      |
embedding_backward                       | index       | by shape       | copy       | 2     |                      |
_embedding_bag                           | index       | gather         | own kernel |       |                      |
embedding_renorm                         | index       | by shape       | copy       | 2     |                      |
index                                    | index       | gather         | copy       | 2     |                      | sized by masks
index_select                             | index       | gather         | copy       | 2     |                      |
index_put                                | index       | gather         | copy       | 2     |                      | sized by masks
_index_put_impl                          | index       | by shape       | copy       | 2     |                      |
_unsafe_index                            | index       | gather         | copy       | 2     |                      | sized by masks
_unsafe_index_put                        | index       | by shape       | copy       | 2     |                      |
gather                                   | index       | gather         | copy       | 2     |                      |
gather_backward                          | index       | by shape       | copy       | 2     |                      |
scatter                                  | index       | gather         | copy       | 2     |                      |
scatter_add                              | index       | gather         | copy       | 2     |                      |
scatter_reduce                           | index       | by shape       | copy       | 2     |                      |
index_add                                | index       | gather         | copy       | 2     |                      |
index_copy                               | index       | by shape       | copy       | 2     |                      |
index_fill                               | index       | by shape       | copy       | 2     |                      |
take                                     | index       | by shape       | copy       | 2     |                      |
take_along_dim                           | index       | gather         | copy       | 2     |                      |
masked_select                            | index       | by shape       | own kernel |       |                      | sized by values
masked_scatter                           | index       | by shape       | copy       | 2     |                      |
nonzero                                  | index       | by shape       | own kernel |       |                      | sized by values
nonzero_static                           | index       | by shape       | own kernel |       |                      |
one_hot                                  | index       | by shape       | copy       | 2     |                      |
repeat_interleave                        | index       | by shape       | own kernel |       |                      | sized by values
_unique2                                 | index       | by shape       | own kernel |       |                      | sized by values
unique_consecutive                       | index       | by shape       | own kernel |       |                      | sized by values
unique_dim                               | index       | by shape       | own kernel |       |                      | sized by values
bincount                                 | index       | by shape       | own kernel |       |                      |
topk                                     | index       | reduction      | own kernel |       |                      |
sort                                     | index       | reduction      | own kernel |       |                      |
argsort                                  | index       | by shape       | own kernel |       |                      |
histc                                    | index       | by shape       | own kernel |       |                      |
histogram                                | index       | by shape       | own kernel |       |                      |
put                                      | index       | by shape       | copy       | 2     |                      |
nms                                      | index       | by shape       | own kernel |       |                      | sized by values
_embedding_bag_forward_only              | index       | by shape       | copy       | 2     |                      |
_embedding_bag_backward                  | index       | by shape       | copy       | 2     |                      |
_embedding_bag_dense_backward            | index       | by shape       | copy       | 2     |                      |
_embedding_bag_per_sample_weights_backward | index       | by shape       | copy       | 2     |                      |
masked_scatter_backward                  | index       | by shape       | copy       | 2     |                      |
index_reduce                             | index       | by shape       | copy       | 2     |                      |
_unsafe_masked_index                     | index       | by shape       | copy       | 2     |                      |
isin                                     | index       | by shape       | own kernel |       |                      |
_unsafe_masked_index_put_accumulate      | index       | by shape       | copy       | 2     |                      |
multinomial                              | index       | by shape       | own kernel |       |                      |
segment_reduce                           | index       | by shape       | own kernel |       |                      |
cumsum                                   | scan        | reduction      | reduction  | 2     |                      |
cumprod                                  | scan        | by shape       | reduction  | 2     |                      |
cummax                                   | scan        | by shape       | reduction  | 2     |                      |
cummin                                   | scan        | by shape       | reduction  | 2     |                      |
logcumsumexp                             | scan        | by shape       | reduction  | 2     |                      |
_cummax_helper                           | scan        | by shape       | reduction  | 2     |                      |
rand                                     | random      | by shape       | pointwise  | 2     |                      |
randn                                    | random      | by shape       | pointwise  | 2     |                      |
rand_like                                | random      | by shape       | pointwise  | 2     |                      |
randn_like                               | random      | by shape       | pointwise  | 2     |                      |
randint                                  | random      | by shape       | pointwise  | 2     |                      |
randint_like                             | random      | by shape       | pointwise  | 2     |                      |
randperm                                 | random      | by shape       | pointwise  | 2     |                      |
bernoulli                                | random      | by shape       | pointwise  | 2     |                      |
normal                                   | random      | by shape       | pointwise  | 2     |                      |
uniform                                  | random      | by shape       | pointwise  | 2     |                      |
random                                   | random      | by shape       | pointwise  | 2     |                      |
exponential                              | random      | by shape       | pointwise  | 2     |                      |
normal_functional                        | random      | by shape       | pointwise  | 2     |                      |
poisson                                  | random      | by shape       | pointwise  | 2     |                      |
cauchy                                   | random      | by shape       | pointwise  | 2     |                      |
geometric                                | random      | by shape       | pointwise  | 2     |                      |
log_normal                               | random      | by shape       | pointwise  | 2     |                      |
binomial                                 | random      | by shape       | own kernel |       |                      |
_standard_gamma                          | random      | by shape       | own kernel |       |                      |
_standard_gamma_grad                     | random      | by shape       | own kernel |       |                      |
_sample_dirichlet                        | random      | by shape       | own kernel |       |                      |
_dirichlet_grad                          | random      | by shape       | own kernel |       |                      |
zeros                                    | fill        | by shape       | pointwise  | 2     |                      |
ones                                     | fill        | by shape       | pointwise  | 2     |                      |
full                                     | fill        | by shape       | pointwise  | 2     |                      |
zeros_like                               | fill        | copy           | pointwise  | 2     |                      |
ones_like                                | fill        | by shape       | pointwise  | 2     |                      |
full_like                                | fill        | by shape       | pointwise  | 2     |                      |
new_zeros                                | fill        | by shape       | pointwise  | 2     |                      |
new_ones                                 | fill        | by shape       | pointwise  | 2     |                      |
new_full                                 | fill        | by shape       | pointwise  | 2     |                      |
fill                                     | fill        | copy           | pointwise  | 2     |                      |
zero                                     | fill        | copy           | pointwise  | 2     |                      |
arange                                   | fill        | by shape       | pointwise  | 2     |                      |
linspace                                 | fill        | by shape       | pointwise  | 2     |                      |
logspace                                 | fill        | by shape       | pointwise  | 2     |                      |
eye                                      | fill        | by shape       | pointwise  | 2     |                      |
scalar_tensor                            | fill        | by shape       | pointwise  | 2     |                      |
tril_indices                             | fill        | by shape       | pointwise  | 2     |                      |
triu_indices                             | fill        | by shape       | pointwise  | 2     |                      |
hann_window                              | fill        | by shape       | pointwise  | 2     |                      |
hamming_window                           | fill        | by shape       | pointwise  | 2     |                      |
blackman_window                          | fill        | by shape       | pointwise  | 2     |                      |
bartlett_window                          | fill        | by shape       | pointwise  | 2     |                      |
kaiser_window                            | fill        | by shape       | pointwise  | 2     |                      |
range                                    | fill        | by shape       | pointwise  | 2     |                      |
lift_fresh_copy                          | fill        | by shape       | pointwise  | 2     |                      |
efficientzerotensor                      | fill        | by shape       | pointwise  | 2     |                      |
_efficientzerotensor                     | fill        | by shape       | pointwise  | 2     |                      |
nll_loss_forward                         | loss        | by shape       | reduction  | 2     |                      |
nll_loss_backward                        | loss        | by shape       | reduction  | 2     |                      |
nll_loss2d_forward                       | loss        | by shape       | reduction  | 2     |                      |
nll_loss2d_backward                      | loss        | by shape       | reduction  | 2     |                      |
mse_loss                                 | loss        | by shape       | reduction  | 2     |                      |
mse_loss_backward                        | loss        | by shape       | reduction  | 2     |                      |
smooth_l1_loss                           | loss        | by shape       | reduction  | 2     |                      |
smooth_l1_loss_backward                  | loss        | by shape       | reduction  | 2     |                      |
huber_loss                               | loss        | by shape       | reduction  | 2     |                      |
huber_loss_backward                      | loss        | by shape       | reduction  | 2     |                      |
binary_cross_entropy                     | loss        | by shape       | reduction  | 2     |                      |
binary_cross_entropy_backward            | loss        | by shape       | reduction  | 2     |                      |
binary_cross_entropy_with_logits         | loss        | by shape       | reduction  | 2     |                      |
_ctc_loss                                | loss        | by shape       | own kernel |       |                      |
_ctc_loss_backward                       | loss        | by shape       | own kernel |       |                      |
multi_margin_loss                        | loss        | by shape       | reduction  | 2     |                      |
multilabel_margin_loss_forward           | loss        | by shape       | reduction  | 2     |                      |
soft_margin_loss                         | loss        | by shape       | reduction  | 2     |                      |
soft_margin_loss_backward                | loss        | by shape       | pointwise  | 2     |                      |
multi_margin_loss_backward               | loss        | by shape       | own kernel |       |                      |
multilabel_margin_loss_backward          | loss        | by shape       | own kernel |       |                      |
_fused_adam                              | optimizer   | by shape       | own kernel |       |                      |
_fused_adamw                             | optimizer   | by shape       | own kernel |       |                      |
_fused_sgd                               | optimizer   | by shape       | own kernel |       |                      |
_fused_adagrad                           | optimizer   | by shape       | own kernel |       |                      |
_amp_foreach_non_finite_check_and_unscale | optimizer   | by shape       | own kernel |       |                      |
_amp_update_scale                        | optimizer   | by shape       | own kernel |       |                      |
empty                                    | allocation  | by shape       | own kernel |       |                      |
empty_like                               | allocation  | by shape       | own kernel |       |                      |
new_empty                                | allocation  | by shape       | own kernel |       |                      |
empty_strided                            | allocation  | by shape       | own kernel |       |                      |
new_empty_strided                        | allocation  | by shape       | own kernel |       |                      |
resize                                   | allocation  | by shape       | own kernel |       |                      |
_fft_r2c                                 | fft         | by shape       | own kernel |       | uncounted            |
_fft_c2r                                 | fft         | by shape       | own kernel |       | uncounted            |
_fft_c2c                                 | fft         | by shape       | own kernel |       | uncounted            |
stft                                     | fft         | by shape       | own kernel |       | uncounted            |
istft                                    | fft         | by shape       | own kernel |       | uncounted            |
linalg_inv_ex                            | other       | by shape       | own kernel |       | uncounted            |
linalg_eigh                              | other       | by shape       | own kernel |       | uncounted            |
_linalg_eigh                             | other       | by shape       | own kernel |       | uncounted            |
linalg_qr                                | other       | by shape       | own kernel |       | uncounted            |
linalg_svd                               | other       | by shape       | own kernel |       | uncounted            |
_linalg_svd                              | other       | by shape       | own kernel |       | uncounted            |
linalg_cholesky_ex                       | other       | by shape       | own kernel |       | uncounted            |
cholesky                                 | other       | by shape       | own kernel |       | uncounted            |
linalg_solve_ex                          | other       | by shape       | own kernel |       | uncounted            |
_linalg_solve_ex                         | other       | by shape       | own kernel |       | uncounted            |
triangular_solve                         | other       | by shape       | own kernel |       | uncounted            |
linalg_lu_factor_ex                      | other       | by shape       | own kernel |       | uncounted            |
linalg_lu                                | other       | by shape       | own kernel |       | uncounted            |
cholesky_inverse                         | other       | by shape       | own kernel |       | uncounted            |
linalg_householder_product               | other       | by shape       | own kernel |       | uncounted            |
linalg_solve_triangular                  | other       | by shape       | own kernel |       | uncounted            |
linalg_lstsq                             | other       | by shape       | own kernel |       | uncounted            |
linalg_lu_solve                          | other       | by shape       | own kernel |       | uncounted            |
_linalg_det                              | other       | by shape       | own kernel |       | uncounted            |
_linalg_slogdet                          | other       | by shape       | own kernel |       | uncounted            |
linalg_eig                               | other       | by shape       | own kernel |       | uncounted            |
_linalg_eigvals                          | other       | by shape       | own kernel |       | uncounted            |
linalg_ldl_factor_ex                     | other       | by shape       | own kernel |       | uncounted            |
linalg_ldl_solve                         | other       | by shape       | own kernel |       | uncounted            |
geqrf                                    | other       | by shape       | own kernel |       | uncounted            |
cholesky_solve                           | other       | by shape       | own kernel |       | uncounted            |
lu_unpack                                | other       | by shape       | own kernel |       |                      |
_linalg_check_errors                     | other       | by shape       | own kernel |       |                      |
"""
