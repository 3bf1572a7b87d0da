"""Evaluation: experiments, run folders, metrics, statistics and latency.

Asks every selector of an experiment for every query, computes metrics, and stores the result in a folder that can be
resumed. All faults of an experiment are reported before a model is loaded. A run folder holds the manifest, values by
query, answers, candidates and timings.

Start with `runner`, then `run_folder`. For metrics: the declarations in `metrics`, then `metric_kernels`. For
statistics: the docstring of `statistics` (which method fits which scale), then `comparisons`.

Rules: a resumed run gives the same bytes as an uninterrupted one. A metric is NaN where it does not apply. Whether a
difference is better or worse is decided in `gate` and `tuning`. No metrics library is imported, and neither scipy nor
pandas.

Modules:
    answers: Answers of selectors: in blocks, in files, as rows, and joined with labels.
    comparisons: Comparisons with grouped queries, of gains and losses, and at equal token counts.
    experiment: Experiment files in YAML, failures of selectors, and provenance: versions, hashes, machine.
    inputs: Open the datasets, embedders and counters of an experiment, with all faults at once; manifests.
    latency: Time selectors: quantiles of one request, and how time grows with items and queries.
    metric_kernels: Labels joined to offered and ranked items, and the metric functions over them.
    metrics: Declarations of all metrics, and metrics by name: values by query and means.
    run_folder: Run folders: write, read, and summarise by estimates and comparisons.
    runner: Run an experiment into a run folder, resuming where it stopped, also in several processes.
    statistics: Confidence intervals for a mean, paired comparisons of two selectors, and power laws.
"""
