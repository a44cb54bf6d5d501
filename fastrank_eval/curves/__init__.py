"""Curves as tables: ROC, PR, DET, lift and calibration of scores; by cutoff, by activity."""

from fastrank_eval.curves.asking import KINDS, curve, curve_of
from fastrank_eval.curves.curve_table import Curve

__all__ = ["KINDS", "Curve", "curve", "curve_of"]
