"""Is one model better than another? Inference on the terms of each group, groups being clusters.

Everything here is a function of arrays with an item for each group. A measure is a function of
sums over groups: of p = w A and w for the mean of A with weights w, of a group's own sums for
measures of all rows. A group for which a measure is undefined has terms of 0.
"""
