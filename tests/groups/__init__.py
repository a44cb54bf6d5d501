"""Tests of fastrank_eval.groups."""
