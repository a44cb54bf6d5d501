"""The tools themselves, run on random and real data beside the profiles that stand for them."""
