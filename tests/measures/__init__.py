"""Tests of fastrank_eval.measures."""
