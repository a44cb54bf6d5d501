"""Tests of fastrank_eval.slicing."""
