"""Gather rows into whole groups, and rank each once."""
