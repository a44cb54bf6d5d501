"""Tests of fastrank_eval.apps.cli."""
