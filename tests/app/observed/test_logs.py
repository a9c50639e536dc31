"""Request logs in their documented forms; the lines are made by these forms, not taken from a service."""

import gzip
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from capplan.app.observed.load_file import load_file_text
from capplan.app.observed.logs import LONGEST_LOG_LINE, read_logs
from capplan.core.serving.observed import ObservedLoad
from capplan.errors import UsageError
from capplan.report.render import render
from capplan.report.sections import Format
from capplan.report.text.observed import observed_sections
from capplan.shapes.observed import OBSERVED_LOAD
from capplan.verbs.statement.contract import to_json

SECRET = "the patient is called Smith"


def written(folder: Path, lines: Sequence[str], name: str = "requests.log") -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def read(folder: Path, lines: Sequence[str], **options: str) -> ObservedLoad:
    return read_logs([written(folder, lines)], **options)


def test_an_azure_trace_gives_rate_and_lengths(tmp_path: Path) -> None:
    """AzureLLMInferenceDataset2023.md: TIMESTAMP,ContextTokens,GeneratedTokens; 4 requests in 30 s."""
    observed = read(
        tmp_path,
        [
            "TIMESTAMP,ContextTokens,GeneratedTokens",
            "2023-11-16 18:17:00.0000000,100,10",
            "2023-11-16 18:17:10.5000000,200,20",
            "2023-11-16 18:17:20.2500000,300,30",
            "2023-11-16 18:17:30.0000000,400,60",
        ],
    )
    assert observed.form == "Azure trace"
    assert observed.arrivals.mean_per_s == pytest.approx(4 / 30)
    assert observed.prompt is not None
    assert observed.prompt.mean == 250.0
    assert observed.prompt.cv == pytest.approx(111.8 / 250, rel=1e-3)  # √((150² + 50² + 50² + 150²) ÷ 4)
    assert observed.prompt.quantiles[0.5] == pytest.approx(200.0, rel=0.01)
    assert observed.answer is not None
    assert observed.answer.mean == 30.0


def test_the_trace_of_2024_has_a_zone(tmp_path: Path) -> None:
    observed = read(
        tmp_path,
        ["TIMESTAMP,ContextTokens,GeneratedTokens", "2024-05-10 00:00:00.009930+00:00,2162,5"],
    )
    assert observed.arrivals.first_s == pytest.approx(1715299200.00993)


# Requests, tokens of prompts and of answers in the first ten hours of the coding trace of 2024, as a published run over
# the whole file prints them (16,803,695 requests, 27.8/s in the mean); looked up on 2026-11-28.
HOURS_OF_2024 = (
    (77540, 191030427, 1950802), (76895, 172724830, 1898068), (66953, 162954792, 1721114), (57781, 142495634, 1451475),
    (46575, 123213394, 1157315), (38670, 94751957, 984351), (32595, 83413090, 850672), (29267, 76844759, 734632),
    (25758, 68051750, 623697), (28504, 78130465, 744121),
)  # fmt: skip
P50, P90 = 1955.0, 5884.0
"""Quantiles of the prompts of the first hour; answers have 9 and 49."""


def test_the_trace_of_2024_has_the_rates_and_lengths_of_its_hours(tmp_path: Path) -> None:
    """AzureLLMInferenceDataset2024.md: TIMESTAMP,ContextTokens,GeneratedTokens; a hundredth of each hour's requests."""
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for hour, (requests, prompts, answers) in enumerate(HOURS_OF_2024):
        count = requests // 100
        for number in range(count):
            at = datetime(2024, 5, 10, hour, tzinfo=UTC) + timedelta(seconds=3600 * number / count)
            lines.append(f"{at.isoformat(sep=' ')},{round(prompts / requests)},{round(answers / requests)}")
    observed = read(tmp_path, lines)
    assert observed.broken == ()  # of 36 in an hour one time has no fraction of a second
    rates = [rate * 100 for _, rate in observed.arrivals.hourly]
    assert rates == pytest.approx([requests / 3600 for requests, _, _ in HOURS_OF_2024], rel=0.005)
    assert observed.arrivals.busiest[1] * 100 == pytest.approx(77540 / 3600, rel=0.005)
    came, asked, answered = (sum(column) for column in zip(*HOURS_OF_2024, strict=True))
    assert observed.prompt is not None
    assert observed.answer is not None
    assert observed.prompt.mean == pytest.approx(asked / came, rel=0.005)
    assert observed.answer.mean == pytest.approx(answered / came, rel=0.02)  # 25 tokens, rounded


def test_prompts_of_2024_have_the_quantiles_of_their_hour(tmp_path: Path) -> None:
    """The first hour: prompts of 1,955 and 5,884 tokens at the 50th and 90th percentile, answers of 9 and 49."""
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for number in range(1000):
        share = (number + 0.5) / 1000
        grown = (P90 / P50) ** ((share - 0.5) / 0.4), (49 / 9) ** ((share - 0.5) / 0.4)
        at = f"2024-05-10 00:{number // 60:02d}:{number % 60:02d}.{number:06d}+00:00"
        lines.append(f"{at},{round(P50 * grown[0])},{max(1, round(9 * grown[1]))}")
    observed = read(tmp_path, lines)
    assert observed.prompt is not None
    assert observed.answer is not None
    assert [observed.prompt.quantiles[share] for share in (0.5, 0.9)] == pytest.approx([P50, P90], rel=0.015)
    assert [observed.answer.quantiles[share] for share in (0.5, 0.9)] == pytest.approx([9, 49], rel=0.06)


def test_burstgpt_counts_answers_of_no_token_as_failed(tmp_path: Path) -> None:
    """HPMLL/BurstGPT: Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type."""
    observed = read(
        tmp_path,
        [
            "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
            "5,ChatGPT,472,18,490,Conversation log",
            "45,ChatGPT,1087,230,1317,Conversation log",
            "118,GPT-4,417,0,417,Conversation log",
        ],
    )
    assert observed.form == "BurstGPT trace"
    assert not observed.arrivals.has_dates
    assert observed.arrivals.weekly_mean_per_s is None
    assert (observed.arrivals.total, observed.failed) == (2, 1)


def test_failures_of_burstgpt_are_those_that_its_readme_counts(tmp_path: Path) -> None:
    """HPMLL/BurstGPT, README of release 1.1: 1,429.7k lines in BurstGPT_1.csv, 1,404.3k of them without failures."""
    lines = ["Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"]
    for number in range(14_297):
        answer = 0 if number < 14_297 - 14_043 else 100
        lines.append(f"{number * 360},ChatGPT,500,{answer},{500 + answer},Conversation log")
    observed = read(tmp_path, lines)
    assert (observed.arrivals.total, observed.failed) == (14_043, 254)
    assert observed.failed is not None
    assert observed.failed / len(lines[1:]) == pytest.approx(0.0178, abs=1e-4)


def test_lengths_of_azure_have_the_medians_that_splitwise_states(tmp_path: Path) -> None:
    """Splitwise (ISCA 2024), section 3: in coding 1,500 tokens in the middle of prompts, 13 of answers; from memory."""
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for number in range(999):
        skewed = 3.0 ** ((number - 499) / 250)  # as many requests above as below, by as much in logarithms
        at = f"2023-11-16 18:{17 + number // 60:02d}:{number % 60:02d}.0000000"
        lines.append(f"{at},{round(1500 * skewed)},{max(1, round(13 * skewed))}")
    observed = read(tmp_path, lines)
    assert observed.prompt is not None
    assert observed.answer is not None
    assert observed.prompt.quantiles[0.5] == pytest.approx(1500, rel=0.015)
    assert observed.answer.quantiles[0.5] == pytest.approx(13, rel=0.05)
    assert observed.prompt.mean > 1500  # a long tail
    assert observed.arrivals.mean_per_s == pytest.approx(1.0, rel=0.01)


def test_a_log_comes_through_a_pipe(tmp_path: Path) -> None:
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens", "2023-11-16 18:17:00.0000000,100,10",
             "2023-11-16 18:17:10.0000000,300,30"]  # fmt: skip
    for packed in (False, True):
        text = "\n".join(lines).encode()
        reader, writer = os.pipe()
        with os.fdopen(writer, "wb") as stream:
            stream.write(gzip.compress(text) if packed else text)
        try:
            observed = read_logs([Path(f"/dev/fd/{reader}")])
        finally:
            os.close(reader)
        assert observed.arrivals.total == 2


def test_usage_records_of_openai_are_read_without_what_was_said(tmp_path: Path) -> None:
    """The objects of chat completions, of responses, and of a batch's output file."""
    chat = {
        "object": "chat.completion", "created": 1_700_000_000,
        "choices": [{"message": {"role": "assistant", "content": SECRET}}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 50}},
    }  # fmt: skip
    response = {
        "object": "response", "created_at": 1_700_000_010, "output": [{"content": SECRET}],
        "usage": {"input_tokens": 300, "output_tokens": 30, "input_tokens_details": {"cached_tokens": 50}},
    }  # fmt: skip
    batch = {"custom_id": SECRET, "response": {"status_code": 200, "body": {**chat, "created": 1_700_000_020}}}
    failed = {"custom_id": SECRET, "response": {"status_code": 429, "body": {"error": {"message": SECRET}}}}
    observed = read(tmp_path, [json.dumps(row) for row in (chat, response, batch, failed)])
    assert observed.form == "usage records"
    assert (observed.arrivals.total, observed.failed) == (3, 1)
    assert observed.prompt is not None
    assert observed.prompt.mean == pytest.approx(500 / 3)
    assert observed.prefix_fraction == pytest.approx(150 / 500)
    shown = [
        load_file_text(observed, latency_s=None, percentile=95.0),
        to_json(OBSERVED_LOAD.document(observed)),
        *(render(observed_sections(observed), form) for form in (Format.TABLE, Format.CSV, Format.MD)),
    ]
    assert all("Smith" not in text for text in shown)


def test_litellm_payloads_show_times_as_they_are(tmp_path: Path) -> None:
    """docs.litellm.ai, StandardLoggingPayload: startTime, endTime, completionStartTime as seconds."""
    rows = [
        {
            "startTime": 1_700_000_000.0 + place, "completionStartTime": 1_700_000_000.5 + place,
            "endTime": 1_700_000_002.5 + place, "prompt_tokens": 80, "completion_tokens": 101, "status": "success",
            "messages": [{"content": SECRET}],
        }
        for place in range(3)
    ]  # fmt: skip
    observed = read(tmp_path, [json.dumps(row) for row in [*rows, {**rows[0], "status": "failure"}]])
    assert observed.form == "LiteLLM payloads"
    assert observed.failed == 1
    assert observed.ttft_s is not None
    assert observed.tpot_s is not None
    assert observed.e2e_s is not None
    assert observed.ttft_s.mean == pytest.approx(0.5)
    assert observed.tpot_s.mean == pytest.approx(0.02)  # 2 s for 100 gaps
    assert observed.e2e_s.mean == pytest.approx(2.5)


NGINX = '203.0.113.7 - alice [27/Nov/2026:13:55:{second:02d} +0100] "POST {path} HTTP/1.1" {status} 2326 "-" "curl/8"'
ENVOY = (
    '[2026-11-27T13:55:{second:02d}.310Z] "POST {path} HTTP/2" {status} - 154 2000 {ms} 100 "10.0.35.28" "nsq2http" '
    '"cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80"'
)


def test_access_logs_of_nginx_give_rates(tmp_path: Path) -> None:
    """nginx's `combined` format has no duration; times have whole seconds and a zone."""
    lines = [NGINX.format(second=second, path="/v1/chat/completions?user=Smith", status=200) for second in (0, 10, 20)]
    lines += [NGINX.format(second=21, path="/v1/chat/completions", status=502)]
    lines += [NGINX.format(second=22, path="/health", status=200)]
    observed = read(tmp_path, lines, path="/v1/")
    assert observed.form == "nginx access log"
    assert (observed.arrivals.total, observed.failed) == (3, 1)
    assert observed.arrivals.first_s == 1_795_784_100.0  # 2026-11-27 12:55 UTC
    assert not observed.has_tokens
    assert observed.e2e_s is None


def test_access_logs_of_envoy_give_durations(tmp_path: Path) -> None:
    lines = [ENVOY.format(second=second, path="/classify", status=200, ms=40) for second in range(5)]
    observed = read(tmp_path, [*lines, ENVOY.format(second=9, path="/classify", status=503, ms=1)])
    assert observed.form == "Envoy access log"
    assert (observed.arrivals.total, observed.failed) == (5, 1)
    assert observed.e2e_s is not None
    assert observed.e2e_s.mean == pytest.approx(0.04)


def test_broken_lines_are_counted_by_reason_and_change_nothing_else(tmp_path: Path) -> None:
    good = '{"created": 1700000000, "usage": {"prompt_tokens": 10, "completion_tokens": 5}}'
    observed = read(
        tmp_path,
        [
            good, good, "{", "not json", '{"created": 1700000000}', "",
            '{"created": 1700000000, "usage": {"prompt_tokens": -4, "completion_tokens": 5}}',
            '{"usage": {"prompt_tokens": 4, "completion_tokens": 5}}',
            f'{{"created": 1700000000, "messages": "{"x" * (LONGEST_LOG_LINE + 2**21)}"}}',
            good,
        ],
    )  # fmt: skip
    assert observed.arrivals.total == 3
    assert observed.prompt is not None
    assert observed.prompt.mean == 10.0
    assert {why.reason: (why.lines, why.first) for why in observed.broken} == {
        "it is not a JSON object of the known form": (2, 3),
        "it has no usage": (1, 5),
        "its tokens are not a number of tokens": (1, 7),
        "it has no time": (1, 8),
        f"it has more than {LONGEST_LOG_LINE:,} bytes": (1, 9),
    }


def test_a_stray_time_does_not_stretch_the_window(tmp_path: Path) -> None:
    rows = [f"2023-11-16 18:17:{second:02d},100,10" for second in range(60)]
    observed = read(tmp_path, ["TIMESTAMP,ContextTokens,GeneratedTokens", "1999-01-01 00:00:00,1,1", *rows])
    assert observed.arrivals.total == 60
    assert observed.arrivals.window_s == 59
    assert [why.lines for why in observed.broken] == [1]


def test_several_compressed_logs_count_as_one(tmp_path: Path) -> None:
    one = written(tmp_path, ["TIMESTAMP,ContextTokens,GeneratedTokens", "2023-11-16 18:17:00,100,10"])
    other = tmp_path / "b.gz"
    other.write_bytes(gzip.compress(one.read_bytes()))
    assert read_logs([one, other]).arrivals.total == 2


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["hello"] * 60, "of no known form"),
        (['{"a":' * 5000] * 60, "not a JSON object of the known form"),
        ([], "of no known form"),
        (["TIMESTAMP,ContextTokens,GeneratedTokens", "x,1,1"], "holds no request"),
    ],
)
def test_what_is_no_log_is_refused_in_a_sentence(tmp_path: Path, lines: Sequence[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read(tmp_path, lines)


def test_a_damaged_archive_and_a_folder_are_refused(tmp_path: Path) -> None:
    damaged = tmp_path / "a.gz"
    damaged.write_bytes(gzip.compress(b"TIMESTAMP,ContextTokens,GeneratedTokens\n" * 5000)[:60])
    for path in (damaged, tmp_path, tmp_path / "gone.csv"):
        with pytest.raises(UsageError, match=path.name):
            read_logs([path])
