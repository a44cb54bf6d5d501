"""Analyse results: comparisons, curves, thresholds, several classes."""
