"""The graph: places of its weights, and the encoding that it is written in. That it is right, test_minilm shows."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from ctxbench.search import minilm
from ctxbench.search.minilm import find_weights


@pytest.fixture(scope="module")
def weights():
    return find_weights().model


def test_a_header_gives_places_in_the_file(tmp_path):
    header = json.dumps(
        {"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
    ).encode()
    file = tmp_path / "small.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header + np.arange(6, dtype="<f4").tobytes())
    (tensor,) = minilm.read_header(file).values()
    assert (tensor.dtype, tensor.shape, tensor.length) == ("F32", (2, 3), 24)
    with file.open("rb") as data:
        data.seek(tensor.offset)
        assert np.frombuffer(data.read(), dtype="<f4").tolist() == [0, 1, 2, 3, 4, 5]


# Expected values: the encoding guide of protocol buffers (150 is 96 01; field 2 "testing" is 12 07 ...), and -1 as
# ten bytes of two's complement.
def test_protocol_buffers_as_their_guide_shows_them():
    assert minilm._number(1, 150) == bytes.fromhex("089601")
    assert minilm._text(2, "testing") == bytes.fromhex("120774657374696e67")
    assert minilm._message(3, minilm._number(1, 150)) == bytes.fromhex("1a03089601")
    assert minilm._number(1, -1) == bytes.fromhex("08ffffffffffffffffff01")


def test_the_graph_is_the_same_every_time(weights):
    tensors = minilm.read_header(weights)
    assert minilm.minilm_graph(tensors, location="w") == minilm.minilm_graph(
        dict(reversed(tensors.items())), location="w"
    )


def test_the_script_writes_a_graph(tmp_path, weights):
    minilm.main([str(weights.parent), str(tmp_path / "out.onnx")])
    written = (tmp_path / "out.onnx").read_bytes()
    assert written == minilm.minilm_graph(minilm.read_header(weights), location="model.safetensors")
    assert b"encoder.layer.5.output.dense.weight" in written


def test_every_weight_but_the_pooler_is_used(weights):
    tensors = minilm.read_header(weights)
    written = minilm.minilm_graph(tensors, location="w")
    unused = {name for name in tensors if name.encode() not in written}
    assert unused == {"embeddings.position_ids", "pooler.dense.bias", "pooler.dense.weight"}
