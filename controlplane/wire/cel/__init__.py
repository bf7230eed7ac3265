"""Rules in the Common Expression Language (CEL), as CustomResourceDefinitions have them.

Expressions of users run only in the process of `apps/objects/cel_process.py`, because an expression can need more time
or memory than it may have.
"""
