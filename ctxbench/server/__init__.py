"""The context service: a service over a store, its cache, metrics and HTTP interface."""
