"""Evaluate, and show the result: values, tables, states and gates."""
