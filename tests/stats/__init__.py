"""Tests of fastrank_eval.stats."""
