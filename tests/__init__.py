"""Tests of fastrank_eval."""
