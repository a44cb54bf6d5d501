"""Provide tools: errors, arguments, arrays, kernels, files and signals."""
