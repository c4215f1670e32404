"""Formulas as MathML, which browsers draw themselves: no script, no font and no network for a page to be readable."""

from __future__ import annotations

from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert


def inline(writer: Any, node: Any) -> None:
    writer.body.append(convert(node.astext()))
    raise SkipNode


def block(writer: Any, node: Any) -> None:
    formula = convert(node.astext(), display="block")
    writer.body.append(f'<div class="math-block">{formula}</div>')
    raise SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
