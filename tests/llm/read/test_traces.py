"""Requests read from CSV files and from the public forms of traces."""

import gzip
import time
import tracemalloc

import numpy as np
import pytest

from capplan.errors import UsageError
from capplan.llm.read import requests
from capplan.llm.read.requests import read_requests


@pytest.mark.parametrize(
    ("text", "times", "prompts", "answers"),
    [
        # the columns of AzurePublicDataset, AzureLLMInferenceTrace_conv.csv
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\n"
            "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n",
            [0.0, 4.314579],
            [374, 396],
            [44, 109],
        ),
        # those of BurstGPT; a request that failed has no answer
        (
            "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
            "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,API log\n118,GPT-4,417,276,693,API log\n",
            [0.0, 113.0],
            [472, 417],
            [18, 276],
        ),
        (
            '{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]}\n'
            '{"timestamp": 3000, "input_length": 7322, "output_length": 490, "hash_ids": [0, 14]}\n',
            [0.0, 3.0],
            [6758, 7322],
            [500, 490],
        ),
    ],
    ids=["Azure", "BurstGPT", "Mooncake"],
)
def test_public_traces_are_known_by_their_columns(text, times, prompts, answers, tmp_path):
    path = tmp_path / "trace"
    path.write_text(text)
    found = read_requests(path)
    assert found.at_s.tolist() == pytest.approx(times)
    assert found.prompts.tolist() == prompts
    assert found.answers.tolist() == answers


def test_a_large_file_of_no_requests_is_refused_without_being_held(tmp_path):
    path = tmp_path / "nothing.csv"
    with path.open("wb") as file:
        file.truncate(2**31)  # takes nothing on disk
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match="a line of more than 1,048,576 characters"):
            read_requests(path)
        assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    finally:
        tracemalloc.stop()


def test_a_compressed_trace_is_read(tmp_path):
    path = tmp_path / "lengths.csv.gz"
    path.write_bytes(gzip.compress(b"input_len,output_len\n100,10\n"))
    assert read_requests(path).prompts.tolist() == [100]


def test_a_large_cache_holds_what_a_small_one_has_dropped(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text(
        "".join(
            f'{{"timestamp": {at}, "input_length": 1200, "output_length": 10, "hash_ids": {hashes}}}\n'
            for at, hashes in ((0, [1, 2]), (1, [3, 4]), (2, [1, 2]))
        )
    )
    trace = read_requests(path)
    # two blocks of 512 tokens are found again where four fit, none where the second prompt has displaced the first
    assert trace.with_cache(4 * 512).cached.tolist() == [0, 0, 1024]
    assert trace.with_cache(2 * 512).cached.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "lacks the column input_len"),
        ("input_len,output_len\n0,5\n", "input_len must be a number of at least 1"),
        ('{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": "x"}\n', "hash_ids must be a list"),
        ('{"timestamp": 0\n', "is not JSON Lines"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,374,44\n", "TIMESTAMP must be a time"),
        ("input_len,output_len\n", "holds 0 requests"),
        ("Timestamp,Request tokens,Response tokens\n0,9,many\n", "line 2: Response tokens must be a number"),
        (f"[{{{'0' * 200_000}", "is not CSV"),
        ("input_len,output_len\n" + "5,1\n" * 5, "holds more than 4 requests"),
        ('{"input_len": 5, "output_len": 1}\n' * 5, "holds more than 4 requests"),
    ],
)
def test_a_file_that_cannot_be_simulated_is_refused_in_a_sentence(text, said, tmp_path, monkeypatch):
    monkeypatch.setattr(requests, "MOST_REQUESTS", 4)
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        read_requests(path)


def test_times_of_a_trace_do_not_depend_on_the_zone_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")  # where no clock showed 2:30 on this day
    time.tzset()
    path = tmp_path / "azure.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-03-31 01:59:59,5,1\n2024-03-31 03:00:01,5,1\n", encoding="utf-8"
    )
    try:
        assert read_requests(path).at_s.tolist() == [0.0, 3602.0]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_fewer_lines_than_requests_are_drawn_again(tmp_path):
    path = tmp_path / "lengths.csv"
    path.write_text("input_len,output_len\n100,10\n200,20\n300,30\n")
    drawn = read_requests(path).sampled(1000)
    assert len(drawn.prompts) == 1000
    assert set(drawn.prompts) == {100, 200, 300}
    assert np.all(drawn.answers * 10 == drawn.prompts)
