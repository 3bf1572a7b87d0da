"""Labels: imports, traces, evals, labelling sessions, git history and curation.

Every import returns a `Dataset`, and a report of what was converted, what could not be, and why. No query is dropped
silently. For users: `datasets/README.md`, `datasets/traces.md`, `datasets/labelling.md`, `datasets/curation.md` and
`datasets/repositories.md`.

Where to start, and the rule of each task:
    Public datasets: `BFCL` in `published`. Files are pinned by version and SHA-256; no data goes into this repository.
    Files of users: `sources` (any file as documents, and how its kind is recognised), then `import_files`. Each family
        has one reader. Content decides, never a name; a label is never guessed.
    Evals: `eval_forms` turns the files of programs into records, `evals` reads these.
    Collections: `conversion`, then `judgment_files`. A file with unreadable labels is refused.
    Logs: `trace_exports` and `agent_sessions`, then `Builder` in `trace_labels`. Items that were called are required;
        others are unknown, except in turns that offered everything.
    Git history: `history_dataset` in `git_history`. A dataset cut after a commit holds the same items in the same order
        for all queries up to it.
    Labelling: `session`, then `Queue` in `sampling`. The stratified sample is drawn before the first answer;
        predictions decide what is asked first, never what is estimated. `experiments/labelling` measures how well its
        intervals hold.
    Curation: `curation`, then `rebase`. A report names everything that is dropped.

Modules:
    agent_sessions: Sessions of coding agents, and transcripts.
    answer_log: The log of labelling answers, and the state of each query.
    benchmarks: Importers of LoCoMo, LongMemEval, LiveMCPBench, MetaTool and ToolLens.
    conversion: Read the documents, queries and scored pairs of a collection, and collect them for a dataset.
    curation: Compare datasets, make new splits, find leaked names, and compute statistics.
    eval_forms: Records of evals from files of evaluation programs and trigger evals of skills.
    evals: Datasets from evals, hand-written or of evaluation programs.
    git_history: Datasets from git history: commits as queries, changed files as labels.
    import_files: Import files of any kind: recognise each, group them by family, read each family.
    judgment_files: Read collections (BEIR, MTEB, TREC, AutoRAG ...) and lists of items, and export datasets.
    overlap: Near-duplicate items, and items that a search confuses.
    pools: Pools of what selectors offer, and predictions of what queries require.
    published: Datasets from installed packages, and files fetched from publishers.
    rebase: Move a dataset to a changed catalog, following renamed items.
    record_files: What the fields of records hold, and which items their names, paths and phrases mean.
    review: Labels that selectors contradict, and agreement between two labellings.
    sampling: The stratified sample of queries to label, and estimates from the answers to it.
    session: A labelling session and the folder that it is stored in.
    sources: Any file as documents, by its content, and the kinds of files.
    trace_exports: Spans in the forms of the programs that export them, their links in a trace, and the kinds of logs.
    trace_import: Import logs: read them, report what is unreadable, and write a dataset.
    trace_labels: Queries and labels from turns, the report of an import, and the items that a session of an agent used.
    trace_messages: Records of a log, and chat messages in the formats of providers and libraries.
    trace_turns: Turns from rows and API bodies, and turns grouped into conversations.
"""
