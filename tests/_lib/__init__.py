"""Tests of fastrank_eval._lib."""
