"""Tests of fastrank_eval.integrations."""
