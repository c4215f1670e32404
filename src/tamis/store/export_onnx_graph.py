"""A growing ONNX graph: nodes and constants with names of their own, one input per column."""

from __future__ import annotations

from typing import Any

import numpy as np

from tamis.core.errors import TamisError

#: The first opset with Equal on texts, and the oldest file version that may carry it (onnxruntime 1.16 reads it).
OPSET, FILE_VERSION = 19, 9
_PREFIX = "tamis:"


def onnx_library() -> Any:
    """The onnx package, or one sentence."""
    try:
        import onnx
    except ImportError:
        raise TamisError(
            "ONNX export needs the package onnx, which is not installed, so nothing was written; run pip install 'tamis[onnx]'."
        ) from None
    return onnx


class Graph:
    """Collects nodes; every method gives the name of what it made."""

    def __init__(self) -> None:
        self.onnx = onnx_library()
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.constants: dict[tuple[Any, ...], tuple[str, Any]] = {}
        self.types: dict[str, int] = {}

    def input(self, column: str, text: bool) -> None:
        """One column, [rows, 1]."""
        kind = self.onnx.TensorProto.STRING if text else self.onnx.TensorProto.DOUBLE
        self.inputs.append(self.onnx.helper.make_tensor_value_info(column, kind, ["rows", 1]))

    def constant(self, value: np.ndarray[Any, Any]) -> str:
        """An array; the same array is stored once."""
        content = tuple(value.ravel().tolist()) if value.dtype == object else value.tobytes()
        key = (str(value.dtype), value.shape, content)
        if key not in self.constants:
            name = f"{_PREFIX}constant {len(self.constants)}"
            self.constants[key] = (name, self.onnx.numpy_helper.from_array(value, name))
        return self.constants[key][0]

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """One operation with one result."""
        if "to" in attributes:
            attributes["to"] = getattr(self.onnx.TensorProto, attributes["to"])
        name = f"{_PREFIX}{operator} {len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def number(self, truth: str) -> str:
        """0 and 1 for false and true."""
        return self.node("Cast", truth, to="DOUBLE")

    def output(self, value: str, name: str, columns: int | None, kind: str = "DOUBLE") -> None:
        """A result of shape [rows, columns], or [rows]."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name], name=f"{_PREFIX}{name}"))
        shape = ["rows"] if columns is None else ["rows", columns]
        self.outputs.append(self.onnx.helper.make_tensor_value_info(name, getattr(self.onnx.TensorProto, kind), shape))

    def serialised(self, target: str) -> bytes:
        """The checked model as bytes; equal graphs give equal bytes."""
        helper = self.onnx.helper
        constants = [tensor for _, tensor in self.constants.values()]
        graph = helper.make_graph(self.nodes, "tamis", self.inputs, self.outputs, constants, doc_string=f"scores of {target}")
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=FILE_VERSION, producer_name="tamis")
        self.onnx.checker.check_model(model)
        return bytes(model.SerializeToString(deterministic=True))
