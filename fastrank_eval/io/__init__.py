"""Read rows of any source as columns of Arrow."""
