"""Indexes over the items of a catalog, and the resources that steps use."""
