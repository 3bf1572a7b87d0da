"""The all-MiniLM-L6-v2 network as an ONNX graph whose weights stay in the published safetensors file.

onnxruntime reads ONNX, the model is published as safetensors, and converting it needs PyTorch. But the file's
tensors are plain little-endian arrays, so `minilm_graph` writes only the graph (about 25 kB) and declares each
weight as *external data*: file name, offset, length. Nothing is copied or converted, and what runs is exactly the
file whose hash was checked.

The graph is written by the few lines of protobuf encoding at the end of this module: onnxruntime cannot write
graphs, and the `onnx` package is 20 MB for this one purpose.

`python -m ctxbench.embedding.onnx_graph MODEL_DIR OUT.onnx` writes the graph to a file, to look at it in a viewer.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LAYERS = 6
HEADS = 12
HIDDEN = 384
LAYER_NORM_EPSILON = 1e-12
IR_VERSION = 8  # with operator set 17, read by every onnxruntime since 1.14
OPSET = 17
CONTRIB = "com.microsoft"  # onnxruntime's own operators: fused attention, and GELU with its bias

_FLOAT, _INT64 = 1, 7  # TensorProto.DataType
_NUMBERS = {"F32": _FLOAT, "I64": _INT64}


@dataclass(frozen=True, slots=True)
class Tensor:
    """Where one tensor stands in a safetensors file.

    Attributes:
        dtype: safetensors' name of the element type, such as `F32`.
        shape: its dimensions.
        offset: bytes from the beginning of the file.
        length: bytes.
    """

    dtype: str
    shape: tuple[int, ...]
    offset: int
    length: int


def read_header(path: Path) -> dict[str, Tensor]:
    """Read the names and places of the tensors of a safetensors file.

    Args:
        path: the file. It is trusted: its hash has been checked.

    Returns:
        Tensor places by name.

    Source: the format's description, https://huggingface.co/docs/safetensors (8 bytes little-endian header length,
    JSON header with offsets counted from its end, data).
    """
    with path.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    start = 8 + size
    return {
        name: Tensor(
            dtype=entry["dtype"],
            shape=tuple(entry["shape"]),
            offset=start + entry["data_offsets"][0],
            length=entry["data_offsets"][1] - entry["data_offsets"][0],
        )
        for name, entry in header.items()
    }


def minilm_graph(tensors: Mapping[str, Tensor], *, location: str) -> bytes:
    """Write the network as an ONNX model.

    Input `ids`: int64 (batch, pieces), word pieces of texts of one and the same length, so that no mask and no
    padding are needed. Output `hidden`: float32 (batch, pieces, 384), the last layer's states.

    Args:
        tensors: places of the weights in the safetensors file.
        location: name of that file, relative to the folder that the session is told.

    Returns:
        The serialised ModelProto.
    """
    graph = _Graph(tensors, location)
    shape = graph.add("Concat", graph.add("Shape", "ids"), graph.constant([HIDDEN]), axis=0)
    flat = graph.constant([-1, HIDDEN])
    x = _embeddings(graph, flat)
    for layer in range(LAYERS):
        x = _layer(graph, x, f"encoder.layer.{layer}.", shape=shape, flat=flat)
    graph.add("Reshape", x, shape, output="hidden")
    return graph.serialise()


def _embeddings(graph: _Graph, flat: str) -> str:
    """Sum of word, position and type embeddings, normalised: (batch * pieces, hidden)."""
    prefix = "embeddings."
    zero, unit = graph.constant([0]), graph.constant([1])
    pieces = graph.add("Slice", graph.add("Shape", "ids"), unit, graph.constant([2]))
    positions = graph.add("Slice", graph.weight(prefix + "position_embeddings.weight"), zero, pieces, zero)
    kind = graph.add("Slice", graph.weight(prefix + "token_type_embeddings.weight"), zero, unit, zero)
    words = graph.add("Gather", graph.weight(prefix + "word_embeddings.weight"), "ids", axis=0)
    total = graph.add("Add", words, graph.add("Add", positions, kind))
    return _normalise(graph, graph.add("Reshape", total, flat), prefix + "LayerNorm")


def _layer(graph: _Graph, x: str, prefix: str, *, shape: str, flat: str) -> str:
    """One transformer layer over (batch * pieces, hidden)."""
    projected = [
        graph.add("Reshape", _linear(graph, x, f"{prefix}attention.self.{name}"), shape)
        for name in ("query", "key", "value")
    ]
    attended = graph.add("MultiHeadAttention", *projected, domain=CONTRIB, num_heads=HEADS)
    attended = _linear(graph, graph.add("Reshape", attended, flat), f"{prefix}attention.output.dense")
    x = _add_and_normalise(graph, attended, x, f"{prefix}attention.output.LayerNorm")
    inner = graph.add(
        "BiasGelu",
        _linear(graph, x, f"{prefix}intermediate.dense", bias=False),
        graph.weight(f"{prefix}intermediate.dense.bias"),
        domain=CONTRIB,
    )
    return _add_and_normalise(graph, _linear(graph, inner, f"{prefix}output.dense"), x, f"{prefix}output.LayerNorm")


def _linear(graph: _Graph, x: str, name: str, *, bias: bool = True) -> str:
    """`x @ weight.T + bias`; the file's weights are (out, in), which Gemm reads as they are."""
    terms = [graph.weight(f"{name}.weight")] + ([graph.weight(f"{name}.bias")] if bias else [])
    return graph.add("Gemm", x, *terms, transB=1)


def _add_and_normalise(graph: _Graph, x: str, skip: str, name: str) -> str:
    """Two operators: onnxruntime's fused SkipLayerNormalization took eight times as long on a processor (1.31)."""
    return _normalise(graph, graph.add("Add", x, skip), name)


def _normalise(graph: _Graph, x: str, name: str) -> str:
    weight, bias = graph.weight(f"{name}.weight"), graph.weight(f"{name}.bias")
    return graph.add("LayerNormalization", x, weight, bias, axis=-1, epsilon=LAYER_NORM_EPSILON)


class _Graph:
    """Collects nodes, weights and constants, and writes them as a ModelProto."""

    def __init__(self, tensors: Mapping[str, Tensor], location: str) -> None:
        self._tensors = tensors
        self._location = location
        self._nodes: list[bytes] = []
        self._initializers: dict[str, bytes] = {}

    def add(self, op: str, *inputs: str, output: str = "", domain: str = "", **attributes: float) -> str:
        """Add a node with one output; return the output's name."""
        output = output or f"{op}_{len(self._nodes)}"
        node = b"".join(_text(1, name) for name in inputs) + _text(2, output) + _text(3, output) + _text(4, op)
        node += b"".join(_message(5, _attribute(name, value)) for name, value in attributes.items())
        self._nodes.append(node + (_text(7, domain) if domain else b""))
        return output

    def weight(self, name: str) -> str:
        """Declare the tensor `name` of the weights file; return its name."""
        tensor = self._tensors[name]
        entries = {"location": self._location, "offset": str(tensor.offset), "length": str(tensor.length)}
        self._initializers[name] = (
            b"".join(_number(1, size) for size in tensor.shape)
            + _number(2, _NUMBERS[tensor.dtype])
            + _text(8, name)
            + b"".join(_message(13, _text(1, key) + _text(2, value)) for key, value in entries.items())
            + _number(14, 1)  # data_location = EXTERNAL
        )
        return name

    def constant(self, values: Sequence[int]) -> str:
        """Declare a constant int64 vector; return its name."""
        name = "constant_" + "_".join(map(str, values))
        data = struct.pack(f"<{len(values)}q", *values)
        self._initializers[name] = _number(1, len(values)) + _number(2, _INT64) + _text(8, name) + _message(9, data)
        return name

    def serialise(self) -> bytes:
        """Return the ModelProto."""
        graph = b"".join(_message(1, node) for node in self._nodes) + _text(2, "all-MiniLM-L6-v2")
        graph += b"".join(_message(5, tensor) for tensor in self._initializers.values())
        graph += _message(11, _value("ids", _INT64, ("batch", "pieces")))
        graph += _message(12, _value("hidden", _FLOAT, ("batch", "pieces", HIDDEN)))
        model = _number(1, IR_VERSION) + _text(2, "ctxbench") + _message(7, graph)
        model += _message(8, _text(1, "") + _number(2, OPSET))
        return model + _message(8, _text(1, CONTRIB) + _number(2, 1))


# Protocol buffers, https://protobuf.dev/programming-guides/encoding: a field is a tag (field number and wire type)
# and its value. The field numbers are those of onnx.proto3.


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers stand as their 64-bit two's complement
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _message(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _text(field: int, value: str) -> bytes:
    return _message(field, value.encode())


def _attribute(name: str, value: float) -> bytes:
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, 2)
    return _text(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)


def _value(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    sizes = (_number(1, size) if isinstance(size, int) else _text(2, size) for size in shape)
    tensor = _number(1, kind) + _message(2, b"".join(_message(1, size) for size in sizes))
    return _text(1, name) + _message(2, _message(1, tensor))


def main(arguments: Sequence[str]) -> None:
    """Write the graph of the model in the folder `arguments[0]` to the file `arguments[1]`."""
    weights = Path(arguments[0]) / "model.safetensors"
    Path(arguments[1]).write_bytes(minilm_graph(read_header(weights), location=weights.name))


if __name__ == "__main__":
    main(sys.argv[1:])
