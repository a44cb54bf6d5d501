"""The nightly report: what a night comes to, its history, its page."""
