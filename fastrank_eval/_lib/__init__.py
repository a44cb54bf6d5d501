"""Serve every package: errors, arguments, arrays, kernels, files and signals."""
