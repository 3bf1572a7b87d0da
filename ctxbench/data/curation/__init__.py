"""Tools for datasets: statistics, comparison, new splits, a changed catalog, exports to other formats."""
