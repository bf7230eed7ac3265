"""Who may do what: the rules of Kubernetes' role-based access control (RBAC). Changes nothing.

`policy.Policy` is compiled from the Roles, ClusterRoles and their bindings, and answers every question from memory.
`escalation` decides which roles and bindings a user may write. `default_roles` has the roles of a new installation.
"""
