"""Headers of safetensors and GGUF files: exact sizes, and hostile files refused in one sentence."""

import contextlib
import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capplan.errors import SpecError
from capplan.llm.read.weight_headers import read_gguf_header, read_safetensors_header


def safetensors_bytes(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def write(path, content):
    path.write_bytes(content)
    return path


def tensor(dtype, shape, start, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def test_safetensors_sizes_come_from_the_header(tmp_path):
    header = {
        "__metadata__": {"format": "pt"},
        "a": tensor("BF16", [2, 3], 0, 12),
        "b": tensor("F8_E4M3", [5], 12, 17),
    }
    found = read_safetensors_header(write(tmp_path / "x.safetensors", safetensors_bytes(header, bytes(17))))
    assert [(each.name, each.shape, each.size_bytes) for each in found] == [("a", (2, 3), 12), ("b", (5,), 5)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "at least 8 bytes"),
        (b"\x01\x00", "at least 8 bytes"),
        (struct.pack("<Q", 1 << 62) + b"{}", "impossible"),
        (struct.pack("<Q", 1000) + b"{}", "impossible"),
        (safetensors_bytes(b"[1, 2]"), "must be an object"),
        (safetensors_bytes(b"{nonsense"), "not valid JSON"),
        (safetensors_bytes(b"[" * 200_000), "nested too deeply"),
        (safetensors_bytes(b'{"a": 1, "a": 2}'), "repeated"),
        (safetensors_bytes(b'\xff\xfe{"a": 1}'), "not valid JSON"),
        (safetensors_bytes({"a": 7}), "must have dtype"),
        (safetensors_bytes({"a": tensor("Q9", [1], 0, 1)}, b"0"), "unknown dtype"),
        (safetensors_bytes({"a": tensor("U8", [-1], 0, 1)}, b"0"), "impossible"),
        (safetensors_bytes({"a": tensor("U8", [1e3], 0, 1)}, b"0"), "impossible"),
        (safetensors_bytes({"a": tensor("U8", [9], 0, 9)}, b"0"), "outside the file"),
        (safetensors_bytes({"a": tensor("U8", [1], 1, 0)}, b"0"), "outside the file"),
        (safetensors_bytes({"a": tensor("F32", [1], 0, 1)}, b"0"), "cannot take 1 bytes"),
        (safetensors_bytes({"a": tensor("F32", [1 << 40] * 16, 0, 1)}, b"0"), "cannot take"),
    ],
)
def test_hostile_safetensors_headers_are_refused(tmp_path, content, words):
    with pytest.raises(SpecError, match=words) as caught:
        read_safetensors_header(write(tmp_path / "bad.safetensors", content))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def text(value):
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def entry(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def gguf_bytes(keys=(), tensors=(), *, version=3, counts=None):
    tensor_count, key_count = counts or (len(tensors), len(keys))
    head = b"GGUF" + struct.pack("<IQQ", version, tensor_count, key_count)
    return head + b"".join(keys) + b"".join(tensors)


def gguf_tensor(name, shape, kind):
    dims = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + dims + struct.pack("<IQ", kind, 0)


def test_gguf_sizes_follow_from_the_types(tmp_path):
    keys = [
        entry("general.architecture", 8, text("llama")),
        entry("llama.block_count", 4, struct.pack("<I", 2)),
        entry("tokens", 9, struct.pack("<IQ", 8, 2) + text("a") + text("b")),
    ]
    # Q4_K: 144 bytes for 256 weights; Q8_0: 34 for 32; F32: 4
    tensors = [gguf_tensor("w", (512, 3), 12), gguf_tensor("v", (64,), 8), gguf_tensor("n", (7,), 0)]
    sizes = [512 * 3 // 256 * 144, 2 * 34, 28]
    found = read_gguf_header(write(tmp_path / "m.gguf", gguf_bytes(keys, tensors) + bytes(sum(sizes))))
    assert [each.size_bytes for each in found.tensors] == sizes
    assert found.tensors[0].shape == (3, 512)
    assert found.metadata["llama.block_count"] == 2
    assert found.metadata["tokens length"] == 2


NESTED = b"".join(struct.pack("<IQ", 9, 1) for _ in range(50))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "ends inside"),
        (b"PK\x03\x04" + bytes(40), "does not begin with GGUF"),
        (gguf_bytes(version=1), "version 1"),
        (gguf_bytes(counts=(1 << 60, 0)), "more than any model"),
        (gguf_bytes(counts=(0, 1 << 60)), "more than any model"),
        (gguf_bytes(counts=(5, 0)), "ends inside"),
        (gguf_bytes([struct.pack("<Q", 1 << 63)]), "longer than the file"),
        (gguf_bytes([entry("a", 99, b"1234")]), "unknown type"),
        (gguf_bytes([entry("a", 9, struct.pack("<IQ", 4, 1 << 61))]), "longer than the file"),
        (gguf_bytes([entry("a", 9, NESTED)]), "nested"),
        (gguf_bytes([entry("a", 7, b"\x01"), entry("a", 7, b"\x01")]), "repeated"),
        (gguf_bytes(tensors=[gguf_tensor("t", (33,), 8)]), "cannot have the shape"),
        (gguf_bytes(tensors=[gguf_tensor("t", (0,), 0)]), "cannot have the shape"),
        (gguf_bytes(tensors=[gguf_tensor("t", (1,) * 5, 0)]), "dimensions"),
        (gguf_bytes(tensors=[gguf_tensor("t", (32,), 77)]), "unknown type"),
        (gguf_bytes(tensors=[gguf_tensor("t", (1 << 30,), 0)]), "only 0 follow"),
    ],
)
def test_hostile_gguf_headers_are_refused(tmp_path, content, words):
    with pytest.raises(SpecError, match=words) as caught:
        read_gguf_header(write(tmp_path / "bad.gguf", content))
    assert "\n" not in str(caught.value)


@settings(max_examples=150)
@given(noise=st.binary(max_size=300), cut=st.integers(0, 200))
def test_damage_is_never_a_crash(tmp_path, noise, cut):
    keys = [entry("general.architecture", 8, text("llama"))]
    good = gguf_bytes(keys, [gguf_tensor("w", (256, 2), 12)])
    for content, read in (
        (good[:cut] + noise, read_gguf_header),
        (b"GGUF" + noise, read_gguf_header),
        (safetensors_bytes({"a": tensor("U8", [1], 0, 1)})[:cut] + noise, read_safetensors_header),
    ):
        path = write(tmp_path / "noise", content)
        with contextlib.suppress(SpecError):  # any other exception fails the test
            read(path)
