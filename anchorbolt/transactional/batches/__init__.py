"""The batches of a transactional topology, on their way from the coordinator to their commit.

1. `metadata`: what is kept of a batch, and the slots for it beside the decision record;
2. `coordinator`: asks the spout's coordinator for the metadata of a new batch;
3. `flights`: one try at a batch, and what its emitters have told;
4. `pipeline`: begins batches, several at a time, and has them begin again if one fails; `background` runs their
   processing phases on threads;
5. `hand_off`: what the tasks of late bolts keep of a batch for its commit phase.
"""
