"""Add exact, mergeable sums, and compute errors and tests from them."""
