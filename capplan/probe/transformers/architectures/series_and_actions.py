"""Time series, reinforcement learning and robots: what their configs and forward methods do not say."""

from capplan.probe.transformers.architecture import Architecture

ARCHITECTURES = {
    "autoformer": Architecture(completions={"prediction_length": 24}),
    "decision_transformer": Architecture(inputs=("states", "actions", "rewards", "returns_to_go", "timesteps")),
    "informer": Architecture(completions={"prediction_length": 24}),
    "pi0": Architecture(
        inputs=("action_embeds", "input_ids", "pixel_values", "pixel_attention_mask"),
        images=1,
        image_tokens=lambda _config, _image: 256,
    ),
    "time_series_transformer": Architecture(completions={"prediction_length": 24}),
}
