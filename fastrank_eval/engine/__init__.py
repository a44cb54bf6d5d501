"""Plan a run, measure its groups in threads, and merge the totals."""

#: The measures that are computed if none is named. It stands here because the command line reads it
#: before it imports anything else.
DEFAULT_MEASURES = "GAUC,AUC,nDCG@10,AP,RR,P@10,R@10"
