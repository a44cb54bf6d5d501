"""Add up exact, mergeable state, and infer from it."""
