"""Report every night on the models of a team."""
