"""Everything that capplan assumes without a measurement behind it, on one page: each value with why it is taken.

A measurement or a published figure takes a value off this page: it then stands in a calibration file, with the command
that makes it, or in a GPU's spec, with its source. Guesses that only serve where no calibration file is read are sets
of their own: `prior_calibration` of `core.latency.calibration`, `GUESSED_LAWS` of `core.gpus.rate_laws` and `PRIOR` of
`llm.core.serving.priors`.
"""

import math

# Devices

CPU_USABLE_SHARE = 0.95
"""Of a computer's memory, where a CPU is the device: the operating system and other processes take the rest."""

UNKNOWN_PCIE_BYTES_PER_S = 32e9
"""One direction of PCIe 4.0 x16, taken where a card's own link is not known. [bytes/s]"""

BOARD_SYSTEM_BYTES = {"low": 0.6 * 2**30, "expected": 1.0 * 2**30, "high": 2.0 * 2**30}
"""What Linux and its services hold of a board's memory, which its GPU shares: JetPack without and with a desktop (from
memory of users' reports). [bytes]"""

BOARD_SLOWNESS = 2.0
"""How long a board's own cores take for a call, against a server of the last year that was timed: Cortex-A78AE at 1.5
to 2.2 GHz against 3.5 GHz, at about the same work per clock. No board was timed."""

BOARD_HALF_WIDTH = 0.4
"""What boards add in square to the half-width of steps that wait for their cores: clocks alone differ by 1.5 times."""

USUAL_PROCESS_M = 5e-9
"""Process of a chip whose family is not known: that of most GPUs of 2022 to 2024 (TSMC N5 and 4N). [m]"""

DIMM_FRACTION = 0.8
"""Share of the printed bandwidth of a CPU's memory that plain reads reach, as STREAM finds on most."""

NETWORK_BYTES_PER_S = 50e9
"""Network of one GPU to another server, one direction: a port of 400 Gbit/s for each GPU of a board, as DGX H100
has. [bytes/s]"""

NETWORK_OF_CARD_BYTES_PER_S = 12.5e9
"""The same of a card in training: 100 Gbit/s, because servers of cards have one or two ports for all. [bytes/s]"""

STORAGE_OF_SERVER_BYTES_PER_S = 1e9
"""Rate at which one server of a cluster writes checkpoints while all do: Llama 3's storage sustained 2 TB/s for 16,384
GPUs, 0.98 GB/s for every eight (arXiv 2407.21783, section 3.3.1). [bytes/s]"""

CARD_SERVER = 8
"""Cards that one server holds at most: larger ones exist and are seldom offered."""

COPIED_FRACTION = 0.82
"""Share of the printed rate of PCIe, one direction, that copies from pinned memory reach: 26 of 31.5 GB/s on A100 and
55 of 63 GB/s on H100 in NVIDIA's bandwidthTest, less a few per cent for blocks of tens of kB (from memory)."""

# Latency

UNCALIBRATED_HALF_WIDTH = 0.6
"""Half-width of log errors without any calibration, which is in no file then: nine of ten of 150 eager steps of timm's
tables lie within 0.54 of the guesses, compiled ones within 0.78, training steps within 1.5."""

UNCALIBRATED_WORKLOAD = 0.4
"""Half-width of log errors, added in square, where constants of another kind of steps serve: nine of ten of
120 compiled steps lie within 0.26 of what eager constants say, training steps within 0.57."""

INHERITED_SHARE = 0.5
"""How much of a relative's deviation an architecture without measurements takes over, in logs. Between the
three architectures with many eager steps the deviations of classes correlate by about -0.5, which is what
independent ones do that sum to zero; in training steps those of 7.0 and 7.5 do by 0.87, of 8.0 and 9.0 by 0.77."""

ENGINE_INHERITED_SHARE = 0.5
"""How much of the factors of timed GPUs another GPU of their architecture takes over in TensorRT and
ONNX Runtime, in logs: of no architecture were two chips timed."""

FORK_JOIN_S = 3e-6
"""Time that each doubling of the cores adds to an operator, which all of them begin and end together. OpenMP's
fork and join take five to thirty microseconds on tens of cores, and no machine of many cores was timed. [s]"""

GATHERED_HALF_WIDTH = math.log(1.5)
"""Half width of the logarithm of what a step waits for where weights are gathered: no such step was measured, and a
share of the link between two thirds and one and a half times that of summed gradients is assumed."""

SHARED_LATENCY_VARIANCE = 0.5
"""Share of the latency estimate's log-variance that all GPUs have in common, as errors in counts are."""

# Pipelines

STREAMED_SHARE = {"low": 0.25, "expected": 0.4, "high": 0.8}
"""The share of the printed PCIe rate at which weights move layer by layer on a stream of their own: expected is that of
copies from pageable memory; memory that is pinned throughout and large layers come up to the high end. diffusers' own
benchmark of group offload by leaf with streams (huggingface/diffusers, benchmarks/) ran FLUX.1-dev at 12.8 GB/s over
PCIe 4, which was known when the expected value was chosen."""

# Language models

UNTIMED_SHARE = 1.0
"""How far one service may differ from another in the rate of state-space updates, as a deviation of its logarithm: it
is derived from their blocks and was not timed alone."""

HIDING_SHARE = 0.9
"""The share of a step's products that collectives may hide behind; the first layer's have nothing before them."""

OFFLOADED_SHARE = 0.9
"""The share of kept activations that is moved to the host: the last layers' are needed before a copy has ended."""
