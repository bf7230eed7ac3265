"""Scheduling: decides on which clusters a binding is placed, with how many replicas, and explains why."""
