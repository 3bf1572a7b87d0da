"""Tuning: choose the setting of a selector by a policy, and report it on the test split.

Searches all settings of several selectors for the one that a policy asks for, and measures it on queries that it was
not chosen on. Returns one recommendation per policy, or the reason why there is none and how many labels would be
needed. Also fits probabilities and weights on labels (`ctxbench calibrate`); scikit-learn is imported only then.

Start with `policy`, then `search`, then `tuner`. The exact sweep is `cut_families` and `rankings`
(`tests/tuning/sweep/test_exactness.py` checks that it equals running the selector). Fits are `fit_examples`,
`query_fits` and `linear_fits`.

Words:
    tuning set, evaluation set: queries that settings are chosen on, and measured on: the tuning and test split; with
        fewer than 400 labels, all labels for both.
    base: the first selector with its defaults.
    line: settings along one threshold, whose means are computed in one pass.
    optimum: the best setting of a sweep for one policy.

Rules:
    The test split is read once, when every choice is made.
    Shipped presets compete. A setting that a shipped preset beats in completeness and prompt tokens on the evaluation
        set is not recommended; the preset is, if it keeps the policy there.
    Figures of fits are out of fold: queries of a group are never split between folds.

Modules:
    cut_families: Families of cuts that keep a prefix of the ranking, swept over their settings.
    domains: Cuts by domain, and two domains under one token budget.
    fit_examples: Labelled examples for fits, and fitted weights with a prior.
    held_out: Measure settings on the tuning and evaluation sets, and adopt results of stricter policies.
    inputs: Open the inputs of a tuning, and recommend one of the best settings.
    linear_fits: Fit the weights of the strategy `linear` by exact line search.
    measures: Metric values at every length of a ranking, and measures: their means and paired differences.
    policy: Policies in YAML, and the constraints that a setting must keep.
    preset_files: Write presets files and fitted selectors, and find a preset for a token budget without labels.
    query_fits: Fit probabilities, abstention and weights out of fold, with ROC and threshold curves.
    rankings: Rankings before any cut, and sums of measures at every threshold.
    results: Tuning results as data, and query sets with their answers and metrics.
    search: The best setting for a policy, by exact sweep or by trials.
    setting_lines: Lines of settings along one threshold, and settings that only a run can evaluate.
    tunables: Selectors that can be tuned: ranking, cut, expansion and swept parameters.
    tuner: Tune on every dataset, then read the test splits once.
"""
