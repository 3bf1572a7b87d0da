"""Labels: imports, traces, evals, labelling sessions, git history and curation."""
