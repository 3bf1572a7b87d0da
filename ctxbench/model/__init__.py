"""The data model: items, catalogs, requests, candidates, selections, labels, and strategy protocols."""
