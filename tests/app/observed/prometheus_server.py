"""A real Prometheus server as a child process, filled with what a replayed serving engine would have exported."""

import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SCRAPE_S = 60
_THINNED = 20
"""Samples of which one is kept where only the whole window is asked about."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What a replayed vLLM server was asked for: requests of each scrape, and each request's tokens and times.

    The names are those of vLLM's production metrics (docs.vllm.ai, usage/metrics) and of DCGM's exporter.
    """

    end_s: int
    requests: Sequence[int]
    prompt_tokens: Mapping[float, float]
    """Share of the requests by the upper bound of the bucket that their prompts fall into."""
    prompt_mean: float
    answer_tokens: Mapping[float, float]
    answer_mean: float
    ttft_s: Mapping[float, float]
    ttft_mean_s: float
    tpot_s: Mapping[float, float]
    tpot_mean_s: float
    hit_fraction: float
    gpus: int = 6

    def lines(self) -> Iterator[str]:
        """Yield the samples in the format of OpenMetrics, a metric after the other."""
        begin_s = self.end_s - SCRAPE_S * len(self.requests)
        totals = [0]
        for count in self.requests:
            totals.append(totals[-1] + count)
        at = [begin_s + SCRAPE_S * place for place in range(len(totals))]
        labels = 'model_name="m",engine="0"'

        def counter(name: str, per_request: float, more: str = "") -> Iterator[str]:
            every = 1 if "request_success" in name else _THINNED
            for time, total in zip(at[::every], totals[::every], strict=True):
                yield f"{name}{{{labels}{more}}} {total * per_request:.6f} {time}"

        yield "# TYPE vllm:request_success counter"
        yield from counter("vllm:request_success_total", 0.98, ',finished_reason="stop"')
        yield from counter("vllm:request_success_total", 0.02, ',finished_reason="abort"')
        for name, shares, mean in (
            ("vllm:request_prompt_tokens", self.prompt_tokens, self.prompt_mean),
            ("vllm:request_generation_tokens", self.answer_tokens, self.answer_mean),
            ("vllm:time_to_first_token_seconds", self.ttft_s, self.ttft_mean_s),
            ("vllm:request_time_per_output_token_seconds", self.tpot_s, self.tpot_mean_s),
        ):
            yield f"# TYPE {name} histogram"
            reached = 0.0
            for bound, share in shares.items():
                reached += share
                yield from counter(f"{name}_bucket", reached, f',le="{bound}"')
            yield from counter(f"{name}_bucket", 1.0, ',le="+Inf"')
            yield from counter(f"{name}_sum", mean)
            yield from counter(f"{name}_count", 1.0)
        for name, share in (("prefix_cache_queries", 1.0), ("prefix_cache_hits", self.hit_fraction)):
            yield f"# TYPE vllm:{name} counter"
            yield from counter(f"vllm:{name}_total", self.prompt_mean * share)
        for name, value in (("running", 12), ("waiting", 3)):
            yield f"# TYPE vllm:num_requests_{name} gauge"
            for time in at[::4]:
                yield f"vllm:num_requests_{name}{{{labels}}} {value} {time}"
        for name, value in (("DCGM_FI_DEV_GPU_UTIL", 55), ("DCGM_FI_DEV_POWER_USAGE", 410.5)):
            yield f"# TYPE {name} gauge"
            for gpu in range(self.gpus):
                for time in at[::_THINNED]:
                    yield f'{name}{{gpu="{gpu}",modelName="NVIDIA H100 80GB HBM3"}} {value} {time}'
        yield "# EOF"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running_prometheus(folder: Path, replay: Replay) -> Iterator[str]:
    """Run a server over the samples of a replay, and give its address."""
    samples, data, config = folder / "samples.txt", folder / "data", folder / "prometheus.yml"
    samples.write_text("\n".join(replay.lines()) + "\n")
    config.write_text("global: {scrape_interval: 1m}\n")
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(samples), str(data)],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    port = _free_port()
    command = [
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={data}", "--storage.tsdb.retention.time=20y",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=info",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            for line in server.stderr:
                if "ready to receive web requests" in line:
                    break
            else:
                raise AssertionError("Prometheus ended before it was ready")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()
