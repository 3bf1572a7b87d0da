"""Pipelines: strategies composed in YAML, and the features and fits that they read.

A pipeline analyses a request, retrieves candidates, refines them and formats the result. Each step is a strategy: a
frozen dataclass whose fields are its parameters. Strategies exclude rows and say by which rule; they never drop rows
and never change their arguments. `experiments/strategies.md` lists all of them; `make strategies` writes it from the
docstrings.

Start with `strategies/cut` (the shortest strategies), then `Pipeline.run` in `pipeline`.
`experiments/guide/extending.md` shows how to write one.

Rules: a feature describes a candidate for a fitted ranking and never sees a label. A batch gives what its requests give
one by one. An item without a time has age 0. Fits are plain numbers in JSON files; scikit-learn is not needed to use
one. Strategies of one module never import another module of strategies.

Modules:
    code_requests: Requests about code: intent, search plan from rules or a language model, and file features.
    feature_families: Built-in families of features: similarity, words, items, requests, threads and memories.
    features: Features of candidates by name, what they are computed from, and a logistic regression on them.
    fits: Fits in JSON files: probabilities and weights by dataset, and how a pipeline finds them.
    pipeline: Pipelines: parse a description, check it, run it, and reuse outputs of shared steps.
    strategies/analyse: Analyse a request: chunks of its text, history and tool results, and keywords.
    strategies/cut: Cut a ranking by count, score, margin, gap, query chunk, diversity or the probability that anything
        is needed.
    strategies/expand: Expand chosen items by similarity, stored links and tool rules.
    strategies/files: Strategies for files and code: intent, plan, full text, symbols, commits, file kinds and code
        links.
    strategies/format: Format a selection as messages, a template, or a text with citations.
    strategies/pack: Pack items into a token budget: greedy, knapsack, truncated, excerpts or outlines.
    strategies/rank: Rank candidates by fused scores, weighted features, fitted probabilities, token counts or a
        language model.
    strategies/retrieve: Retrieve candidates by vectors with pooling, words, fuzzy names, or from the request.
"""
