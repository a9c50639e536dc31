"""More models beyond the zoos: libraries of one idea each, in sizes that run on a CPU in a second."""

import os
from importlib import import_module
from typing import Any

import torch
from wild_models import add, floats, ids, made

IMAGE = floats(3, 64, 64)

for _name, _size in (
    ("resnet18", 224), ("mobilenetv2_w1", 224), ("efficientnet_b0", 224), ("seresnet50", 224), ("shufflenetv2_w1", 224),
    ("densenet121", 224), ("ghostnet", 224), ("hrnet_w18_small_v1", 224), ("inceptionv3", 299), ("dla34", 224),
    ("nasnet_4a1056", 224), ("regnetx002", 224),
):  # fmt: skip
    add(
        "pytorchcv", _name, made("pytorchcv.model_provider:get_model", _name, pretrained=False), floats(3, _size, _size)
    )
for _name in ("resnest50", "resnest101"):
    add("resnest", _name, made(f"resnest.torch:{_name}", pretrained=False), floats(3, 224, 224))
for _name in ("mnasnet_100", "mixnet_s", "spnasnet_100", "efficientnet_lite0"):
    add("geffnet", _name, made(f"geffnet:{_name}", pretrained=False), floats(3, 224, 224))

add(
    "mlp-mixer-pytorch", "MLPMixer",
    made("mlp_mixer_pytorch:MLPMixer", image_size=64, channels=3, patch_size=8, dim=128, depth=4, num_classes=100),
    IMAGE,
)  # fmt: skip
add("res-mlp-pytorch", "ResMLP", made("res_mlp_pytorch:ResMLP", image_size=64, patch_size=8, dim=128, depth=4,
                                      num_classes=100), IMAGE)  # fmt: skip
add("g-mlp-pytorch", "gMLP", made("g_mlp_pytorch:gMLP", num_tokens=100, dim=128, depth=3, seq_len=64), ids(64))
add("g-mlp-pytorch", "gMLPVision", made("g_mlp_pytorch:gMLPVision", image_size=64, patch_size=8, num_classes=100,
                                        dim=128, depth=3), IMAGE)  # fmt: skip
add("axial-attention", "AxialAttention", made("axial_attention:AxialAttention", dim=64, dim_index=1, heads=4,
                                              num_dimensions=2), floats(64, 16, 16))  # fmt: skip
add("axial-attention", "AxialImageTransformer", made("axial_attention:AxialImageTransformer", dim=64, depth=2,
                                                     axial_pos_emb_shape=(16, 16)), floats(64, 16, 16))  # fmt: skip
add("linear-attention-transformer", "LinearAttentionTransformerLM",
    made("linear_attention_transformer:LinearAttentionTransformerLM", num_tokens=100, dim=128, heads=4, depth=2,
         max_seq_len=128, causal=False), ids(128))  # fmt: skip
add("linear-attention-transformer", "causal",
    made("linear_attention_transformer:LinearAttentionTransformerLM", num_tokens=100, dim=128, heads=4, depth=2,
         max_seq_len=128, causal=True), ids(128))  # fmt: skip
add("sinkhorn-transformer", "SinkhornTransformerLM",
    made("sinkhorn_transformer:SinkhornTransformerLM", num_tokens=100, dim=128, heads=4, depth=2, bucket_size=32,
         max_seq_len=128), ids(128))  # fmt: skip
add("egnn-pytorch", "EGNN", made("egnn_pytorch:EGNN", dim=64), lambda n: (torch.rand(n, 16, 64), torch.rand(n, 16, 3)))
add("egnn-pytorch", "EGNN_Network", made("egnn_pytorch:EGNN_Network", num_tokens=20, dim=32, depth=3,
                                         num_nearest_neighbors=8), lambda n: (torch.randint(0, 20, (n, 32)),
                                                                              torch.rand(n, 32, 3)))  # fmt: skip
add("timesformer-pytorch", "TimeSformer", made("timesformer_pytorch:TimeSformer", dim=128, image_size=64, patch_size=16,
                                               num_frames=4, num_classes=10, depth=2, heads=4, dim_head=32),
    floats(4, 3, 64, 64))  # fmt: skip
add("slot-attention", "SlotAttention", made("slot_attention:SlotAttention", num_slots=5, dim=64, iters=3),
    floats(128, 64))  # fmt: skip
add("slot-attention", "MultiHeadSlotAttention", made("slot_attention:MultiHeadSlotAttention", num_slots=5, dim=64,
                                                     iters=3), floats(128, 64))  # fmt: skip
add("halonet-pytorch", "HaloAttention", made("halonet_pytorch:HaloAttention", dim=64, block_size=8, halo_size=4,
                                             dim_head=16, heads=4), floats(64, 32, 32))  # fmt: skip
add("bottleneck-transformer-pytorch", "BottleStack",
    made("bottleneck_transformer_pytorch:BottleStack", dim=64, fmap_size=32, dim_out=128, proj_factor=4,
         downsample=True, heads=4, dim_head=16, rel_pos_emb=True), floats(64, 32, 32))  # fmt: skip
add("lambda-networks", "LambdaLayer", made("lambda_networks:LambdaLayer", dim=32, dim_out=32, r=23, dim_k=16, heads=4,
                                           dim_u=4), floats(32, 32, 32))  # fmt: skip
add("lambda-networks", "LambdaLayer (global)", made("lambda_networks:LambdaLayer", dim=32, dim_out=32, n=16,
                                                    dim_k=16, heads=4, dim_u=1), floats(32, 16, 16))  # fmt: skip
add("siren-pytorch", "SirenNet", made("siren_pytorch:SirenNet", dim_in=2, dim_hidden=128, dim_out=3, num_layers=4),
    floats(2))  # fmt: skip
add("siren-pytorch", "Siren", made("siren_pytorch:Siren", dim_in=64, dim_out=256), floats(64))
add("soft-moe-pytorch", "SoftMoE", made("soft_moe_pytorch:SoftMoE", dim=128, seq_len=64, num_experts=4),
    floats(64, 128))  # fmt: skip
add("soft-moe-pytorch", "DynamicSlotsSoftMoE", made("soft_moe_pytorch:DynamicSlotsSoftMoE", dim=128, num_experts=4),
    floats(64, 128))  # fmt: skip
add("st-moe-pytorch", "MoE", made("st_moe_pytorch:MoE", dim=64, num_experts=8, gating_top_n=2), floats(128, 64))
add("mixture-of-experts", "MoE", made("mixture_of_experts:MoE", dim=64, num_experts=8, hidden_dim=256),
    floats(128, 64))  # fmt: skip
add("mixture-of-experts", "HeirarchicalMoE", made("mixture_of_experts:HeirarchicalMoE", dim=64, num_experts=(2, 2)),
    floats(128, 64))  # fmt: skip
add("itransformer", "iTransformer",
    made("iTransformer:iTransformer", num_variates=20, lookback_len=48, dim=64, depth=2, heads=4, dim_head=16,
         pred_length=(12, 24)), floats(48, 20))  # fmt: skip
add("itransformer", "iTransformer2D",
    made("iTransformer:iTransformer2D", num_variates=20, num_time_tokens=8, lookback_len=48, dim=64, depth=2, heads=4,
         dim_head=16, pred_length=(12,)), floats(48, 20))  # fmt: skip
add("itransformer", "iTransformerFFT",
    made("iTransformer:iTransformerFFT", num_variates=20, lookback_len=48, dim=64, depth=2, heads=4, dim_head=16,
         pred_length=(12,)), floats(48, 20))  # fmt: skip
add("MEGABYTE-pytorch", "MEGABYTE",
    made("MEGABYTE_pytorch:MEGABYTE", num_tokens=256, dim=(64, 32), depth=(2, 2), max_seq_len=(32, 4)),
    lambda n: {"ids": torch.randint(0, 256, (n, 32, 4))})  # fmt: skip
add("point-transformer-pytorch", "PointTransformerLayer",
    made("point_transformer_pytorch:PointTransformerLayer", dim=64, pos_mlp_hidden_dim=32, attn_mlp_hidden_mult=4,
         num_neighbors=8), lambda n: (torch.rand(n, 32, 64), torch.rand(n, 32, 3)))  # fmt: skip
add("point-transformer-pytorch", "MultiheadPointTransformerLayer",
    made("point_transformer_pytorch:MultiheadPointTransformerLayer", dim=64, heads=4, pos_mlp_hidden_dim=32,
         attn_mlp_hidden_mult=4), lambda n: (torch.rand(n, 32, 64), torch.rand(n, 32, 3)))  # fmt: skip
add("invariant-point-attention", "InvariantPointAttention",
    made("invariant_point_attention:InvariantPointAttention", dim=64, heads=4, require_pairwise_repr=False),
    lambda n: {"single_repr": torch.rand(n, 32, 64), "rotations": torch.eye(3).expand(n, 32, 3, 3).contiguous(),
               "translations": torch.zeros(n, 32, 3)})  # fmt: skip
add("invariant-point-attention", "IPABlock",
    made("invariant_point_attention:IPABlock", dim=64, heads=4, require_pairwise_repr=False),
    lambda n: ((torch.rand(n, 32, 64),), {"rotations": torch.eye(3).expand(n, 32, 3, 3).contiguous(),
                                              "translations": torch.zeros(n, 32, 3)}))  # fmt: skip
add("feedback-transformer-pytorch", "FeedbackTransformer",
    made("feedback_transformer_pytorch:FeedbackTransformer", num_tokens=100, dim=64, depth=2, seq_len=2, mem_len=32,
         dim_head=16, heads=4), ids(16))  # fmt: skip
add("h-transformer-1d", "HTransformer1D",
    made("h_transformer_1d:HTransformer1D", num_tokens=100, dim=64, depth=2, causal=False, max_seq_len=128, heads=4,
         dim_head=16, block_size=16), ids(128))  # fmt: skip
add("bs-roformer", "BSRoformer",
    made("bs_roformer:BSRoformer", dim=64, depth=1, time_transformer_depth=1, freq_transformer_depth=1, heads=2,
         dim_head=32, flash_attn=True), floats(44_100 // 4))  # fmt: skip
add("bs-roformer", "MelBandRoformer",
    made("bs_roformer:MelBandRoformer", dim=32, depth=1, time_transformer_depth=1, freq_transformer_depth=1, heads=2,
         dim_head=16, num_bands=20, flash_attn=True), floats(44_100 // 4))  # fmt: skip
add("snac", "SNAC 24 kHz",
    made("snac:SNAC", sampling_rate=24000, encoder_dim=16, encoder_rates=[2, 4, 8, 8], decoder_dim=256,
         decoder_rates=[8, 8, 4, 2], attn_window_size=None, codebook_size=128, codebook_dim=8, vq_strides=[4, 2, 1],
         noise=False, depthwise=True), floats(1, 4096 * 4))  # fmt: skip
add("snac", "SNAC, dense convolutions",
    made("snac:SNAC", sampling_rate=24000, encoder_dim=16, encoder_rates=[2, 4, 8, 8], decoder_dim=256,
         decoder_rates=[8, 8, 4, 2], attn_window_size=None, codebook_size=128, codebook_dim=8, vq_strides=[4, 2, 1],
         noise=False, depthwise=False), floats(1, 4096 * 4))  # fmt: skip
add("titans-pytorch", "MemoryAsContextTransformer",
    made("titans_pytorch:MemoryAsContextTransformer", num_tokens=100, dim=64, depth=2, segment_len=32,
         neural_memory_layers=()), ids(64))  # fmt: skip
add("titans-pytorch", "NeuralMemory", made("titans_pytorch:NeuralMemory", dim=64, chunk_size=16), floats(64, 64))
add("pykan", "KAN", made("kan:KAN", width=[4, 8, 3], grid=5, k=3, seed=0, device="cpu", auto_save=False,
                         symbolic_enabled=False), floats(4))  # fmt: skip
add("lightweight-gan", "Generator",
    made("lightweight_gan.lightweight_gan:Generator", image_size=64, latent_dim=128, fmap_max=128),
    floats(128))  # fmt: skip
add("lightweight-gan", "Discriminator",
    made("lightweight_gan.lightweight_gan:Discriminator", image_size=64, fmap_max=128), IMAGE)  # fmt: skip


def _ani() -> Any:
    torchani = import_module("torchani")
    computer = torchani.AEVComputer.like_1x(num_species=4)

    class Energies(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.aev = computer
            self.net = torch.nn.Sequential(torch.nn.Linear(384, 160), torch.nn.CELU(), torch.nn.Linear(160, 1))

        def forward(self, species: torch.Tensor, coordinates: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.net(self.aev(species, coordinates)).sum(1)
            return out

    return Energies()


def _mace() -> Any:
    os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # for the constants of the release of e3nn that mace pins
    import numpy

    o3, modules = import_module("e3nn.o3"), import_module("mace.modules")
    return modules.MACE(
        r_max=5.0, num_bessel=8, num_polynomial_cutoff=5, max_ell=2,
        interaction_cls=modules.interaction_classes["RealAgnosticResidualInteractionBlock"],
        interaction_cls_first=modules.interaction_classes["RealAgnosticInteractionBlock"],
        num_interactions=2, num_elements=2, hidden_irreps=o3.Irreps("16x0e + 16x1o"), MLP_irreps=o3.Irreps("16x0e"),
        gate=torch.nn.functional.silu, atomic_energies=numpy.array([1.0, 3.0]), avg_num_neighbors=4.0,
        atomic_numbers=[1, 8], correlation=2, radial_type="bessel",
    )  # fmt: skip


def _molecules(count: int) -> dict[str, Any]:
    """Return water molecules whose atoms all see each other."""
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
    edges = torch.tensor([[3 * m + i for m in range(count) for i, _ in pairs],
                          [3 * m + j for m in range(count) for _, j in pairs]])  # fmt: skip
    positions = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 0.96], [0.0, 0.93, -0.24]])
    atoms = torch.nn.functional.one_hot(torch.tensor([1, 0, 0]), 2).float()
    return {
        "positions": positions.repeat(count, 1), "node_attrs": atoms.repeat(count, 1), "edge_index": edges,
        "batch": torch.arange(count).repeat_interleave(3), "ptr": torch.arange(0, 3 * count + 1, 3),
        "shifts": torch.zeros(edges.shape[1], 3), "unit_shifts": torch.zeros(edges.shape[1], 3),
        "cell": torch.zeros(3 * count, 3), "head": torch.zeros(count, dtype=torch.long),
    }  # fmt: skip


add("torchani", "AEV computer", _ani, lambda n: (torch.tensor([[0, 1, 1, 1, 1]] * n), torch.rand(n, 5, 3)))
# torch's counter with gradients on, which the model needs in inference; e3nn 0.6.0 in the place of the release it pins
add("mace-torch", "MACE", _mace, lambda n: (_molecules(n),), hand_macs=557_982)
