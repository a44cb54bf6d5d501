"""Slices: which are asked for, which one each row belongs to, and what they are called.

The rooms, each importing only from those named before it: `spec` (slicings as values), `spec_text`
(texts to them), `labels` (values and bins as text), `edges` (values and edges that compare
exactly), `periods` (days and hours), `part_codes` (values of one column as codes), `bin_codes` (its
bins), `activity` (counts of groups), `quantiles` (edges of bins of equally many rows), `slicing`
(all of it together, and crosses), `decomposition` (change within slices and change of mix).
"""

from __future__ import annotations

from fastrank_eval.slices.decomposition import Decomposition, decompose
from fastrank_eval.slices.slicing import SliceCodes, Slices, Slicing, open_slicing, valued_columns
from fastrank_eval.slices.spec import SliceSpec
from fastrank_eval.slices.spec_text import parse, slices_asked

__all__ = [
    "Decomposition",
    "SliceCodes",
    "SliceSpec",
    "Slices",
    "Slicing",
    "decompose",
    "open_slicing",
    "parse",
    "slices_asked",
    "valued_columns",
]
