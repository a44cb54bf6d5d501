"""Read, join and report files of TREC."""
