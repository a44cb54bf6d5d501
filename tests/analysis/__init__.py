"""Tests of fastrank_eval.analysis."""
