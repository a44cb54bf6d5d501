"""Programs: the command line, the nightly report and the demo logs."""
