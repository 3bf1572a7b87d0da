"""The gate: compare a selector with its accepted baseline, and explain what changed.

Reads a gate file (an experiment with tolerances and pins) and the folder of a baseline, or two finished runs. Returns
one verdict per selector (better, worse, same, inconclusive, not comparable) and every change with its cause; or writes
a new baseline, which is text for a diff. For users: `experiments/gate/README.md`; false alarms, power and time:
`reports/gate.md`.

Start with `results` (what a check finds), then `gate`, `verdict`, `causes`. `history` reads the baselines in git.

A change under test cannot loosen the gate: a baseline stores the gate's settings, a check uses the stricter of both,
and a newly accepted baseline is reported with old and new figures.

Words:
    base, head: the baseline or the older run; the answers of now.
    snapshot: what a selector answered on a dataset at one time.
    change: an item that is newly offered, or no longer offered.
    cause: the change of an item, parameter, model or code that explains a change.
    input difference: anything that differs besides the answers.
    pin: an item that a request must, or must not, be offered.

Modules:
    baseline: Write baselines without rounding differences between machines, and reuse unchanged answers.
    baseline_reader: Read a baseline with all its faults, and the vectors stored in it.
    baseline_rows: Files of a baseline folder and the rows in them.
    cause_finder: Candidates and scores of a query in both snapshots, and causes found from them.
    causes: The cause of every change, suggested fixes for lost items, and their token change.
    comparability: Queries on which two snapshots can be compared, and datasets with an edited catalog.
    differences: Items that two snapshots offer differently, and these changes grouped by cause.
    gate: Check selectors against a baseline, or accept a new baseline.
    history: Accepted baselines in git, the replaced baseline, and changed gate settings.
    inputs: Differences of items, parameters, models and code between snapshots, and replayed cuts.
    results: Results of a check: changes, causes, fixes, and verdicts on metrics.
    settings: Gate files in YAML, the settings of a check, and protection from plugin code.
    snapshot_sources: Take snapshots from an experiment or from a finished run.
    snapshots: Snapshots of a selector on a dataset, flat pipeline steps, and values as text.
    verdict: Pins, and the verdict on a selector with its reasons.
"""
