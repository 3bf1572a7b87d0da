"""What everything is made of: items, requests, candidates, selections, and the pipeline between them."""
