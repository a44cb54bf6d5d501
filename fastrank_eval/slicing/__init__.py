"""Encode the slice that each row belongs to."""
