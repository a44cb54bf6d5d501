"""Tests of fastrank_eval.engine."""
