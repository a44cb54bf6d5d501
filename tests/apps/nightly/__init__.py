"""Tests of fastrank_eval.apps.nightly."""
