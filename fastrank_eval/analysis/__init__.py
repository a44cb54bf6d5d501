"""Compute curves, thresholds, several classes, and explain groups."""
