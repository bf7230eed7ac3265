"""The agent of a Pull member: the core of the members process on a store in memory, inside the member.

It needs no database, no Redis and no Django. It calls the API of the control plane and the API of its own cluster.
"""
