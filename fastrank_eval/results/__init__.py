"""Evaluate, and return results: values, tables, states and gates."""
