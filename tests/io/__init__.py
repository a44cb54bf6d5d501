"""Tests of fastrank_eval.io."""
