"""The data model: items, catalogs, requests, candidates, selections, labels, and strategy protocols.

Nothing here searches, measures or prints. `ctxbench/README.md` explains the arrays. `Batch` says which items each
request may see, `Candidates` has one row per item and request, and `Selection` says what is offered and which rule
excludes each other item.

Start with `items`, then `Batch.of` in `requests`, then `Candidates` and `order` (the one order of rows) in
`candidates`. The class of a new strategy goes into `ctxbench/pipelines/strategies` or your package, its name into
`registry` or an entry point; see experiments/guide/extending.md.

`import ctxbench`, items, errors and the registry load no numpy.

Modules:
    arrays: Array types, facts about items, masks of available items, and labels and rankings of many queries as arrays.
    candidates: Candidates: one row per item and request, with scores, exclusion rules and token counts.
    formats: Models of files, and the one loader that reads them.
    items: Items, catalogs and item ids, with suggestions for unknown ids.
    registry: Strategies by name, from this package and from plugins, and pipeline descriptions read back from files.
    requests: Requests, batches of requests, and the analysed query that strategies read.
    resources: The protocol of resources, the options of an embedder, and indexes that catalogs with equal texts share.
    selection: Selections: the items offered for a request, with exclusion rules for all others.
    strategies: Protocols of strategies, and the steps and combinators that pipelines are built from.
"""
