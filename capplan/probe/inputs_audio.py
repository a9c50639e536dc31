"""Sound that transformers models are fed: waveforms and spectrograms."""

from collections.abc import Callable
from typing import Any

from capplan.core.affine import Affine
from capplan.probe.inputs import BATCH, InputRequest, InputSpec

_SECONDS = 10
"""Length of a clip where the model takes any. [s]"""

_FRAMES = 1000
"""Frames of a spectrogram of that length, 10 ms each."""


def _audio_part(config: Any) -> Any:
    for key in ("audio_config", "encoder_config", "audio_encoder_config"):
        part = getattr(config, key, None)
        if part is not None and not isinstance(part, dict):
            return part
    return config


def _waveform(config: Any, request: InputRequest) -> list[InputSpec]:
    """Samples at the config's rate; a spectrogram for the audio spectrogram transformer."""
    if config.model_type == "audio-spectrogram-transformer":
        return [InputSpec(name="input_values", shape=(BATCH, Affine(config.max_length), Affine(config.num_mel_bins)))]
    if config.model_type == "speecht5":
        return [
            InputSpec(name="input_values", shape=(BATCH, Affine(100), Affine(config.hidden_size))),
            InputSpec(name="decoder_input_values", shape=(BATCH, Affine(100), Affine(config.hidden_size))),
        ]
    rate = next(
        (
            getattr(config, key)
            for key in ("sampling_rate", "sample_rate")
            if isinstance(getattr(config, key, None), int)
        ),
        16_000,
    )
    samples = request.size[-1] if request.size else _SECONDS * rate
    hop = getattr(config, "hop_length", None)
    if isinstance(hop, int) and request.size is None:
        samples -= samples % hop
    channels = getattr(config, "audio_channels", None) or (1 if config.model_type in _CHANNELLED else None)
    return [InputSpec(name="input_values", shape=(BATCH, *((Affine(channels),) if channels else ()), Affine(samples)))]


_CHANNELLED = ("dac", "xcodec", "xcodec2", "neucodec", "vibevoice_acoustic_tokenizer", "pe_audio", "pe_audio_encoder")


def _spectrogram(config: Any, request: InputRequest) -> list[InputSpec]:
    """Mel bins by frames, in the order that the architecture takes them."""
    audio = _audio_part(config)
    kind = config.model_type
    bins = next((value for key in _BINS if isinstance(value := getattr(audio, key, None), int)), 80)
    frames = request.size[-1] if request.size else _FRAMES
    if kind == "clvp":
        return [
            InputSpec(name="input_features", shape=(BATCH, Affine(config.decoder_config.feature_size), Affine(frames)))
        ]
    if kind == "clap":
        return [InputSpec(name="input_features", shape=(BATCH, Affine(1), Affine(1001), Affine(bins)))]
    if isinstance(positions := getattr(audio, "max_source_positions", None), int) and kind not in _TIME_FIRST:
        return [InputSpec(name="input_features", shape=(BATCH, Affine(bins), Affine(2 * positions)))]
    return [InputSpec(name="input_features", shape=(BATCH, Affine(frames), Affine(bins)))]


_TIME_FIRST = ("speech_to_text", "wav2vec2-bert", "seamless_m4t", "seamless_m4t_v2")
_BINS = (
    "num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim", "feature_size", "mel_bins",
    "num_mel_channels", "model_in_dim", "input_dim", "n_mels", "input_feat_size", "feature_extractor_num_mel_bins",
)  # fmt: skip

AUDIO: dict[str, Callable[[Any, InputRequest], list[InputSpec]]] = {
    "input_values": _waveform,
    "input_features": _spectrogram,
}
"""What makes each sound input, by the name of the forward's parameter."""
