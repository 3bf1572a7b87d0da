"""Selectors: pipelines with presets, external selectors, explanations and sessions.

Shipped pipelines with parameters and presets (YAML in `shipped/`); four ways to connect an external selector: a file of
answers, a Python callable, a command, an HTTP endpoint; explanations of one request; sessions of a chat.
`protocol.schema()` is the JSON Schema of request and answer. For users: `experiments/own-selector/README.md` and
`datasets/sessions.md`.

Start with `selector` (the protocol), then `definition`, then `shipped/semantic.yaml`. For sessions: `Agent` and
`Session` in `session`, then `rebuild` and `compare` in `conversations`.

Rules: `Selector.select(batch)` gives one answer per request, with failures counted and named. A selector never sees
labels; only the oracle is given them. A session is a value: adding or removing an item returns a new one, so a stored
reply cannot change.

Modules:
    callable: A Python callable as a selector, run so that its code cannot end or disturb the process.
    command: A command as a selector: a child process that exchanges JSON lines.
    conversations: Exchanges of a conversation, their files, and stored contexts compared with today's.
    definition: A selector definition: a pipeline with named parameters, and tuned presets of it.
    definitions: Selectors by name or file: definitions in YAML, presets files, and specs of an experiment.
    explain: Explain one request: every candidate with its scores, chunks and exclusion rule.
    external: External selectors by file of answers, callable, command or HTTP, with cached answers; steps by functions.
    http: An HTTP endpoint as a selector, with its limits, headers and key.
    protocol: JSON messages between ctxbench and external selectors, and candidates from their answers.
    selector: The selector protocol, parameters of selectors, and selectors that run a pipeline.
    session: Agents and sessions: what is in a chat, and the context of each request.
"""
