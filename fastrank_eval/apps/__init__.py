"""Programs: the command line and the nightly report."""
