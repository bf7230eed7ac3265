"""The members process, which probes member clusters, applies Works to them and watches them.

The number of requests in flight is limited for each member, so that a slow member does not delay the others.
"""
