"""Tests of fastrank_eval.results."""
