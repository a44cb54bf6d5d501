"""Plan a run, measure its groups in threads, and merge the totals."""
