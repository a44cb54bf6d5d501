"""Number the slice that each row belongs to."""
