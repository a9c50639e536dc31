"""Tables of single kernels: known by their columns, thinned, launches taken off."""

import gzip
from pathlib import Path

import pytest

from capplan.errors import UsageError
from capplan.specs.kernels import holds_kernels, read_kernels

FP32 = "op,device,latency_ms,B,M,N,K,H,in_ch,out_ch,kernel,input_size,stride,padding,torch,kernel_name"
SERVING = "gpu,device,framework,version,kernel_source,gemm_dtype,m,n,k,latency_ms,tflops,source_file"


def table(tmp_path: Path, *lines: str, name: str = "anything.csv.gz") -> Path:
    path = tmp_path / name
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def softmax(latency_ms: float, *, device: str = "Tesla T4", width: int = 1024, torch: str = "p2.1.0") -> str:
    return f"softmax,{device},{latency_ms},4096,,,,{width},,,,,,,{torch},kernel"


def linear(*, m: int, n: int, k: int, latency_ms: float = 50.0) -> str:
    return f"linear,Tesla T4,{latency_ms},1,{m},{n},{k},,,,,,,,p2.1.0,kernel"


def test_a_table_is_known_by_its_columns_whatever_its_name(tmp_path):
    assert holds_kernels(table(tmp_path, FP32, name="mine.csv.gz"))
    assert holds_kernels(table(tmp_path, SERVING, name="mine.csv.gz"))
    assert not holds_kernels(table(tmp_path, "model,gpu,batch,latency_ms", name="op-mine.csv.gz"))


@pytest.mark.parametrize("content", [b"", b"no gzip"])
def test_what_cannot_be_read_holds_no_kernels(tmp_path, content):
    path = tmp_path / "broken.csv.gz"
    path.write_bytes(content)
    assert not holds_kernels(path)
    assert not holds_kernels(tmp_path / "missing.csv.gz")


def test_half_of_the_launch_is_taken_off_long_kernels_and_short_ones_are_left_out(tmp_path):
    # The shortest is 0.02 ms: from 8 times that, 0.16 ms, rows count, each less 0.01 ms.
    found = read_kernels(table(tmp_path, FP32, softmax(0.02), softmax(0.15), softmax(0.17), softmax(2.0)))
    assert [kernel.latency_s for kernel in found] == pytest.approx([0.16e-3, 1.99e-3])


def test_gpu_and_torch_are_read(tmp_path):
    lines = [softmax(0.02), softmax(1.0), softmax(0.02, device="AMD Instinct MI100", torch="")]
    known, unknown = read_kernels(
        table(
            tmp_path, FP32, *lines, softmax(1.0, device="AMD Instinct MI100", torch=""), softmax(9.0, device="Abacus")
        )
    )
    assert (known.gpu, known.workload.torch_version, known.torch_known) == ("t4", (2, 1), True)
    assert (unknown.gpu, unknown.torch_known) == ("mi100", False)


def test_shapes_that_no_model_has_are_left_out(tmp_path):
    start = linear(m=64, n=64, k=64, latency_ms=0.05)
    wide, odd, usual = linear(m=4096, n=20480, k=512), linear(m=4096, n=513, k=512), linear(m=100, n=512, k=512)
    (found,) = read_kernels(table(tmp_path, FP32, start, wide, odd, usual))
    assert [operand.shape_at(1) for operand in found.kernel.inputs] == [(512,), (100, 512), (512, 512)]


def test_many_rows_are_thinned_evenly_and_always_alike(tmp_path):
    lines = [softmax(0.02), *(softmax(1.0 + index) for index in range(400))]
    path = table(tmp_path, FP32, *lines)
    found = read_kernels(path)
    times = sorted(kernel.latency_s for kernel in found)
    assert len(found) == 40
    assert times[0] < 2e-3
    assert times[-1] > 380e-3
    assert read_kernels(path) == found


def test_a_bad_number_is_told(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read kernels from .*anything\.csv\.gz"):
        read_kernels(table(tmp_path, FP32, "softmax,Tesla T4,fast,1,,,,64,,,,,,,p2.1.0,kernel"))


def test_serving_tables_are_read_as_before(tmp_path):
    line = "a100_sxm,A100,vllm,0.1,cublas,bfloat16,4096,4096,4096,1.0,100,file"
    (found,) = read_kernels(table(tmp_path, SERVING, line))
    assert (found.gpu, found.m, found.latency_s) == ("a100-sxm4-80gb", 4096, 1e-3)


@pytest.mark.shared
@pytest.mark.slow
def test_the_shared_table_gives_some_dozen_rows_per_gpu_and_operator():
    path = Path(__file__).resolve().parents[3] / "shared" / "data" / "measured" / "kernels-fp32.csv.gz"
    found = read_kernels(path)
    assert {kernel.gpu for kernel in found} == {
        "p4", "p100-pcie-16gb", "v100-pcie-32gb", "t4", "a100-pcie-40gb", "mi100",
    }  # fmt: skip
    assert 2000 < len(found) < 4000
