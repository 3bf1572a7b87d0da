"""Strategies by kind: analyse, retrieve, rank, cut, expand, pack and format."""
