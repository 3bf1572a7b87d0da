"""ctxbench tests what a context selector offers an AI agent's model, and at what price in tokens."""

__version__ = "0.1.0"
