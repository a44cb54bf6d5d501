"""Provide tools: errors, arguments, arrays, kernels, files and signals."""

__version__ = "0.1.0"
