"""`capplan estimate --compare-frameworks` as a user meets it."""

import json

from tests.cli.conftest import EXAMPLES, Run


def test_every_way_is_set_beside_the_one_asked_about(run: Run) -> None:
    words = ("estimate", f"{EXAMPLES / 'net.py'}:Net", "--input", "x=3x224x224", "--gpu", "rtx-3090", "--batch", "64")
    result = run(*words, "--precision", "amp-fp16", "--compare-frameworks", "--json")
    assert result.exit_code == 0, result.stderr
    (estimate,) = json.loads(result.stdout)["estimates"]
    ways = estimate["frameworks"]
    assert (ways[0]["framework"], ways[0]["layout"], ways[0]["precision"]) == ("eager", "nchw", "amp-fp16")
    assert ways[0]["gain"] == 1
    assert {way["framework"] for way in ways} == {"eager", "compile", "compile-graphs"}
    for way in ways:
        assert way["gain"] == ways[0]["latency_s"]["expected"] / way["latency_s"]["expected"]
    text = run(*words, "--top", "0", "--compare-frameworks").stdout
    assert "compile-graphs" in text


def test_a_trace_file_says_which_recordings_it_lacks(run: Run, net_trace: object) -> None:
    words = ("estimate", net_trace, "--gpu", "rtx-3090", "--batch", "8", "--top", "0", "--compare-frameworks", "--json")
    ways = json.loads(run(*words).stdout)["estimates"][0]["frameworks"]
    lacking = [way for way in ways if way["latency_s"] is None]
    assert lacking
    assert all("capplan trace" in way["reason"] for way in lacking)
