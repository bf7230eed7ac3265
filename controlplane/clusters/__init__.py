"""Clusters: health, heartbeats and taints of member clusters, fences, unjoining, and the questions to members."""
