"""What test_batch_counts plays: for each controller a case in which its first batch writes about every object.

A new controller gets a function `size -> Case` in the module of its group and a line in that module's BATCHES, and in
FAN_OUTS where it has a watch that fans out. The name is the controller's; further cases of one controller have a word
more ("garbage of events"). `LIFEBOAT_WRITE_QUERY_COUNTS=1 pytest tests/apps/test_batch_counts.py -k <name>` records
what it costs.
"""
