"""Search: chunks, tokens, vectors, text indexes, graphs, and facts about source code."""
