"""Dead letters: tuples that failed for good, recorded in the transaction of the wave that leaves them out."""
