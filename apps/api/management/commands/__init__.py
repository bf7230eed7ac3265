"""Commands of the API: tokens, kubeconfigs, and what has to be there before the first request."""
