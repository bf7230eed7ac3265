"""Estimates: how many replicas fit on a cluster, from what its nodes and pods report."""
