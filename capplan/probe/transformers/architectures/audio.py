"""Speech, sound and music: what their configs and forward methods do not say."""

from capplan.probe.transformers.architecture import Architecture, SpectrogramOrder
from capplan.probe.transformers.completions import value_of

ARCHITECTURES = {
    "audioflamingo3": Architecture(frames_per_token=4),
    "clvp": Architecture(inputs=("input_ids", "input_features"), spectrogram=SpectrogramOrder.BINS_FIRST),
    "csm": Architecture(inputs=("input_ids",)),
    "dac": Architecture(has_audio_channel=True),
    "fastspeech2_conformer": Architecture(inputs=("input_ids",)),
    "fun_asr_nano": Architecture(frames=166, stacked_frames=7, frames_per_token=1),
    "glmasr": Architecture(spectrogram=SpectrogramOrder.BINS_FIRST, frames=3000, frames_per_token=8),
    "granite_speech5_ctc": Architecture(stacked_frames=4),
    "moonshine_streaming": Architecture(completions={"num_key_value_heads": value_of("num_attention_heads")}),
    "moss_transcribe_diarize": Architecture(frames_per_token=8),
    "musicflamingo": Architecture(frames_per_token=4),
    "nemo_speechlm": Architecture(frames_per_token=8),
    "neucodec": Architecture(has_audio_channel=True, spectrogram=SpectrogramOrder.TIME_FIRST, frames=500),
    "pe_audio": Architecture(has_audio_channel=True),
    "pe_audio_encoder": Architecture(has_audio_channel=True),
    "pe_audio_video": Architecture(
        inputs=("pixel_values_videos", "input_values"), image_side=336, has_audio_channel=True
    ),
    "qwen3_asr": Architecture(
        spectrogram=SpectrogramOrder.BINS_FIRST,
        frames_per_token=100 / 13,
        completions={"audio_config.output_dim": value_of("text_config.hidden_size")},
    ),
    "seamless_m4t": Architecture(spectrogram=SpectrogramOrder.TIME_FIRST),
    "seamless_m4t_v2": Architecture(spectrogram=SpectrogramOrder.TIME_FIRST),
    "speech-encoder-decoder": Architecture(inputs=("input_values", "decoder_input_ids")),
    "speech_to_text": Architecture(spectrogram=SpectrogramOrder.TIME_FIRST),
    "vibevoice_acoustic_tokenizer": Architecture(has_audio_channel=True),
    "voxtral": Architecture(frames_per_token=8, completions={"audio_token_id": 24}),
    "voxtral_realtime": Architecture(spectrogram=SpectrogramOrder.BINS_FIRST),
    "wav2vec2-bert": Architecture(spectrogram=SpectrogramOrder.TIME_FIRST),
    "xcodec": Architecture(has_audio_channel=True),
    "xcodec2": Architecture(has_audio_channel=True, spectrogram=SpectrogramOrder.TIME_FIRST, frames=500),
}
