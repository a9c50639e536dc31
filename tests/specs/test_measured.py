import gzip
import io
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from capplan.core.calibrate.measured import Switch
from capplan.core.workload import Framework, Layout, Optimizer, Precision
from capplan.errors import UsageError
from capplan.specs.measurements import read_measured
from tests.refusals import assert_refused

HEAD = "model,gpu,framework,torch,precision,layout,task,batch,input_size,reparam,fast_norm,latency_ms\n"


def read(tmp_path, text, name="measured.csv"):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return read_measured(path)


@pytest.mark.parametrize("name", ["measured.csv", "measured.csv.gz"])
def test_a_row_becomes_a_step(tmp_path, name):
    found = read(tmp_path, HEAD + "timm:resnet50,rtx-4090,eager,2.9,amp-fp16,nhwc,infer,32,3x224x224,1,,12.5\n", name)
    (step,) = found.steps
    assert (step.model, step.gpu, step.batch, step.latency_s, step.input_size) == (
        "timm:resnet50",
        "rtx-4090",
        32,
        0.0125,
        (3, 224, 224),
    )
    assert step.workload.precision is Precision.AMP_FP16
    assert step.workload.layout is Layout.NHWC
    assert step.workload.framework is Framework.EAGER
    assert step.workload.torch_version == (2, 9)
    assert (step.reparameterized, step.fast_norm) == (Switch.ON, Switch.UNKNOWN)


def test_tokens_optimizer_and_gpus_are_read_and_the_rate_is_that_of_all_gpus(tmp_path):
    head = "model,gpu,batch,task,samples_per_s,seq_len,optimizer,gpus,power_w\n"
    (step,) = read(tmp_path, head + "hf:bert,rtx-3090,16,train,200,384,adam,4,310\n").steps
    assert step.input_size == (384,)
    assert step.workload.training is not None
    assert step.workload.training.optimizer is Optimizer.ADAM
    assert (step.workload.gpu_count, step.power_w) == (4, 310.0)
    assert step.latency_s == pytest.approx(4 * 16 / 200)  # each GPU takes 16, all take 200 a second


@pytest.mark.parametrize("power", ["nan", "inf", "-3", "0"])
def test_a_power_that_cannot_be_is_refused(tmp_path, power):
    found = read(tmp_path, f"model,gpu,batch,latency_ms,power_w\nresnet50,t4,1,5,{power}\n")
    assert found.skipped[0].reason == f"power_w must be positive, is {power}"


def test_several_gpus_in_inference_are_refused(tmp_path):
    found = read(tmp_path, "model,gpu,batch,latency_ms,gpus\nresnet50,t4,1,5,2\n")
    assert found.skipped[0].reason.startswith("2 gpus are estimated in training alone")


def test_two_columns_that_say_different_lengths_are_refused(tmp_path):
    found = read(tmp_path, "model,gpu,batch,latency_ms,input_size,seq_len\nhf:bert,t4,1,5,128,384\n")
    assert found.skipped[0].reason == "input_size 128 and seq_len 384 contradict each other"


def test_columns_that_nothing_reads_are_named(tmp_path):
    found = read(tmp_path, "model,gpu,batch,latency_ms,seqlen,source\nhf:bert,t4,1,5,384,mine\n")
    assert found.unread_columns == ("seqlen",)


def test_a_rate_is_a_latency_of_its_batch(tmp_path):
    found = read(tmp_path, "model,gpu,batch,samples_per_s\nresnet50,t4,8,400\n")
    assert found.steps[0].latency_s == pytest.approx(0.02)


@pytest.mark.parametrize(("latency_ms", "rate", "expected_s"), [(60.71, 5154, 256 / 5154), (40.0, 5154, 0.040)])
def test_of_a_mean_latency_and_a_rate_the_shorter_time_is_the_step(tmp_path, latency_ms, rate, expected_s):
    """NVIDIA's EfficientNet-B0 on an A100: a mean that holds the first steps; and a rate that holds a wait for data."""
    text = f"model,gpu,batch,latency_ms,samples_per_s\nresnet50,t4,256,{latency_ms},{rate}\n"
    assert read(tmp_path, text).steps[0].latency_s == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("model,gpu,batch,precision,layout,latency_ms\nm,g,1,amp-fp16,,5\n", Layout.NHWC),
        ("model,gpu,batch,precision,layout,latency_ms\nm,g,1,fp16,,5\n", Layout.NCHW),
        ("model,gpu,batch,precision,latency_ms\nm,g,1,amp-fp16,5\n", Layout.NCHW),
    ],
)
def test_a_layout_left_empty_is_that_of_autocast_recipes(tmp_path, text, layout):
    assert read(tmp_path, text).steps[0].workload.layout is layout


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("m,g,eager,2.9,fp32,nchw,infer,8,,,,0", "latency_ms must be positive, is 0"),
        ("m,g,eager,2.9,fp32,nchw,infer,8,,,,-3", "latency_ms must be positive, is -3"),
        ("m,g,eager,2.9,fp32,nchw,infer,8,,,,nan", "latency_ms must be positive, is nan"),
        ("m,g,eager,2.9,fp32,nchw,infer,8,,,,fast", "latency_ms 'fast' is not a number"),
        ("m,g,eager,2.9,fp32,nchw,infer,0,,,,5", "batch '0' is not a positive integer"),
        ("m,g,eager,2.9,fp32,nchw,infer,nan,,,,5", "batch 'nan' is not a positive integer"),
        ("m,g,eager,2.9,fp32,nchw,infer,inf,,,,5", "batch 'inf' is not a positive integer up to 2^40"),
        ("m,g,eager,2.9,fp32,nchw,infer,2.5,,,,5", "batch '2.5' is not a positive integer"),
        ("m,g,eager,2.9,fp32,nchw,infer,8,0x0,,,5", "input_size '0' is not a positive integer"),
        ("m,g", "batch '' is not a positive integer"),
        ("m,g,eager,2.9,fp61,nchw,infer,8,,,,5", "unknown precision 'fp61'; did you mean fp16?"),
        ("m,g,eager,new,fp32,nchw,infer,8,,,,5", "torch 'new' is not a version such as 2.9"),
        ("m,g,eager,2.9,fp32,nchw,sleep,8,,,,5", "task 'sleep' is neither infer nor train"),
        ("m,g,eager,2.9,fp32,nchw,infer,8,,,,9999999", "a step of 10000 s: are the units mixed up?"),
        (",g,eager,2.9,fp32,nchw,infer,8,,,,5", "model is empty"),
    ],
)
def test_a_row_that_is_no_step_is_told_with_its_line(tmp_path, row, reason):
    found = read(tmp_path, HEAD + row + "\n")
    assert found.steps == ()
    assert [(skipped.line, skipped.reason) for skipped in found.skipped] == [(1, reason)]


def test_a_file_without_times_is_refused(tmp_path):
    with pytest.raises(UsageError, match="lacks the column latency_ms or samples_per_s"):
        read(tmp_path, "model,gpu,batch\nm,g,1\n")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot read"):
        read_measured(tmp_path / "none.csv")


ROWS = "timm:resnet18,l4,eager,2.9,amp-fp16,nhwc,infer,32,224,1,,12.5\nm,g,eager,2.9,fp32,nchw,infer,0,,,,5\n"


def test_parquet_says_what_csv_says(tmp_path):
    from_csv = read(tmp_path, HEAD + ROWS)
    path = tmp_path / "measured.parquet"
    pd.read_csv(io.StringIO(HEAD + ROWS)).to_parquet(path)
    found = read_measured(path)
    assert [replace(step, file="measured.csv") for step in found.steps] == list(from_csv.steps)
    assert [(row.line, row.reason) for row in found.skipped] == [(2, "batch '0' is not a positive integer")]
    assert found.steps[0].batch == 32


def test_parquet_without_its_engine_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "measured.parquet").write_bytes(b"")
    with pytest.raises(UsageError, match="needs pyarrow; install it with pip install pyarrow, or write CSV"):
        read_measured(tmp_path / "measured.parquet")


def test_parquet_of_more_rows_than_are_read_is_refused_by_its_footer(tmp_path):
    """Equal rows take no space: 4 million of them a few kB, of which nothing is read but the footer."""
    path = tmp_path / "measured.parquet"
    equal = pa.DictionaryArray.from_arrays(pa.array(np.zeros(4_000_000, "int8")), ["l4"])
    parquet.write_table(pa.table(dict.fromkeys(("model", "gpu", "batch", "latency_ms"), equal)), path)
    assert path.stat().st_size < 200_000
    assert_refused(lambda: read_measured(path), match="holds 4,000,000 rows", path=str(tmp_path))


@pytest.mark.parametrize(
    ("cells", "skipped"),
    [
        ({"model": [{"a": 1}]}, "code, which is not run"),
        ({"batch": [[1]]}, "is not a number"),
        ({"batch": [10**18]}, "batch"),
        ({"model": [None]}, "model is empty"),
        ({"model": ["evil.py:Net"]}, "code, which is not run"),
        ({"latency_ms": [float("inf")]}, "latency_ms"),
    ],
)
def test_parquet_of_other_types_is_skipped_by_row(tmp_path, cells, skipped):
    path = tmp_path / "measured.parquet"
    row = {"model": ["timm:resnet18"], "gpu": ["l4"], "batch": [1], "latency_ms": [5.0]}
    parquet.write_table(pa.table({**row, **cells}), path)
    found = read_measured(path)
    assert (found.steps, len(found.skipped)) == ((), 1)
    assert skipped in found.skipped[0].reason


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("junk.parquet", b"junk"),
        ("cut.csv.gz", gzip.compress(HEAD.encode() * 50, mtime=0)[:60]),
        ("bytes.csv", b"\xff\xfe\x00"),
        ("empty.csv", b""),
        ("broken.jsonl", b"{\n"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_is_none_is_one_sentence(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError, match=name):
        read_measured(path)


def test_rows_of_the_same_words_share_them(tmp_path):
    # What makes a million rows fit into memory.
    first, second = read(tmp_path, HEAD + "timm:resnet18,l4,eager,2.9,fp32,nchw,infer,8,,,,5\n" * 2).steps
    assert first.workload is second.workload
    assert first.model is second.model
    assert first.gpu is second.gpu


def test_a_row_says_arguments_and_what_its_timer_held(tmp_path):
    head = "model,gpu,batch,latency_ms,arg,host_copy\n"
    found = read(tmp_path, head + "hf:bert,t4,1,5,attn_implementation=eager num_hidden_layers=2,1\nhf:bert,t4,1,5,,\n")
    first, second = found.steps
    assert first.arguments == ("attn_implementation=eager", "num_hidden_layers=2")
    assert first.includes_copy
    assert second.arguments == ()
    assert not second.includes_copy


@pytest.mark.parametrize("words", ["eager", "=eager", "a b=1", "attn="])
def test_an_argument_without_key_or_value_is_skipped(tmp_path, words):
    found = read(tmp_path, f"model,gpu,batch,latency_ms,arg\nhf:bert,t4,1,5,{words}\n")
    assert "is not KEY=VALUE" in found.skipped[0].reason
