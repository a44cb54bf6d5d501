"""Slices: which are asked for and what they are called."""

from __future__ import annotations

from fastrank_eval.slices.spec import SliceSpec
from fastrank_eval.slices.spec_text import parse, slices_asked

__all__ = ["SliceSpec", "parse", "slices_asked"]
