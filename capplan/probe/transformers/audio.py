"""Make sound for transformers models: waveforms and spectrograms."""

from collections.abc import Callable
from typing import Any

from capplan.core.trace.types import Affine
from capplan.probe.inputs.grammar import BATCH, InputRequest, InputSpec
from capplan.probe.transformers.architectures import architecture

_SECONDS = 10
"""Length of a clip where the model takes any. [s]"""

_FRAMES = 1000
"""Frames of a spectrogram of that length, 10 ms each."""

_RATE = 16_000
"""Samples per second where the config says none. [1/s]"""

_PARTS = ("audio_config", "asr_config", "encoder_config", "audio_encoder_config", "semantic_model_config")


def _audio_part(config: Any) -> Any:
    """Return the part of a config that describes sound; a part's part where it has one."""
    for key in _PARTS:
        part = getattr(config, key, None)
        if part is not None and not isinstance(part, dict):
            return _audio_part(part)
    return config


def _waveform(config: Any, request: InputRequest) -> list[InputSpec]:
    """Return samples at the config's rate; a spectrogram for the audio spectrogram transformer."""
    if config.model_type == "audio-spectrogram-transformer":
        return [InputSpec(shape=(BATCH, Affine(config.max_length), Affine(config.num_mel_bins)))]
    if config.model_type == "speecht5":
        shape = (BATCH, Affine(100), Affine(config.hidden_size))
        return [InputSpec(shape=shape), InputSpec(name="decoder_input_values", shape=shape)]
    rates = (getattr(config, key, None) for key in ("sampling_rate", "sample_rate"))
    rate = next((rate for rate in rates if isinstance(rate, int)), _RATE)
    samples = request.size[-1] if request.size else _SECONDS * rate
    hop = getattr(config, "hop_length", None)
    if isinstance(hop, int) and request.size is None:
        samples -= samples % hop
    channels = getattr(config, "audio_channels", None) or int(architecture(config.model_type).has_audio_channel)
    return [InputSpec(shape=(BATCH, *((Affine(channels),) if channels else ()), Affine(samples)))]


def _spectrogram(config: Any, request: InputRequest) -> list[InputSpec]:
    """Return mel bins by frames, in the order that the architecture takes them."""
    kind, bins, frames = config.model_type, _bins(config), _frames(config, request)
    if kind == "clvp":
        bins = config.decoder_config.feature_size
    if kind == "clap":
        return [InputSpec(shape=(BATCH, Affine(1), Affine(1001), Affine(bins)))]
    whisper_like = isinstance(getattr(_audio_part(config), "max_source_positions", None), int)
    stated = architecture(config.model_type).has_bins_first
    sides = (bins, frames) if (whisper_like if stated is None else stated) else (frames, bins)
    return [InputSpec(shape=(BATCH, *map(Affine, sides)))]


def _bins(config: Any) -> int:
    audio = _audio_part(config)
    bins = next((value for key in _BINS if isinstance(value := getattr(audio, key, None), int)), 80)
    return bins * architecture(config.model_type).stacked_frames


def _frames(config: Any, request: InputRequest) -> int:
    if request.size:
        return request.size[-1]
    positions = getattr(_audio_part(config), "max_source_positions", None)
    declared = architecture(config.model_type)
    if isinstance(positions, int) and declared.has_bins_first is not False:
        return 2 * positions
    if config.model_type == "voxtral_realtime":  # a token of text for each of sound
        return 8 * (request.seq_len or 128)
    return declared.frames or _FRAMES


_BINS = (
    "num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim", "feature_size", "mel_bins",
    "num_mel_channels", "model_in_dim", "input_dim", "n_mels", "input_feat_size", "feature_extractor_num_mel_bins",
)  # fmt: skip


def _frame_mask(config: Any, request: InputRequest) -> list[InputSpec]:
    shape = (BATCH, Affine(_frames(config, request)))
    return [InputSpec(dtype="int64", shape=shape, row=(1,))]


def _sample_mask(config: Any, _request: InputRequest) -> list[InputSpec]:
    samples = Affine(getattr(config, "audio_chunk_size", None) or _SECONDS * _RATE)
    return [InputSpec(dtype="int64", shape=(BATCH, samples), row=(1,))]


def sound_tokens(config: Any, request: InputRequest) -> int:
    """Return how many tokens of a text stand for a sound; 0 where the architecture's count is not known."""
    per_token = architecture(config.model_type).frames_per_token
    return 0 if per_token is None else round(_frames(config, request) / per_token)


AUDIO: dict[str, Callable[[Any, InputRequest], list[InputSpec]]] = {
    "input_values": _waveform,
    "input_features": _spectrogram,
    "input_features_mask": _frame_mask,
    "padding_mask": _sample_mask,
}
"""What makes each sound input, by the name of the forward's parameter."""
