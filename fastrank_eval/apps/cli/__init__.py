"""Provide the commands of fastrank-eval."""
