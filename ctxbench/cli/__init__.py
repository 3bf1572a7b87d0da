"""The commands of `ctxbench`.

Parses arguments, calls the library and prints. Data goes to stdout; progress and errors go to stderr. Every error is
one message that says what is wrong, where, and what to do.

Exit codes: 0 done; 1 a check is worse; 2 the input is wrong, or a selector failed on more than half of the queries;
129, 130 and 143 ended by SIGHUP, Ctrl-C and SIGTERM.

Start with `app`: its commands import what they need when they are called. `ctxbench --help` loads neither numpy, pandas
nor rich (`tests/cli/test_app.py`).

Modules:
    app: The command `ctxbench`: arguments of its commands.
    capture: `ctxbench data capture` and the import of tool lists; the location of an edited rule in its file.
    check: `ctxbench check` and `ctxbench comment`: run a check, write its files, and comment on a pull request.
    common: Groups, commands, options and JSON output of all commands, without heavy imports.
    curate: `ctxbench data stats`, `split`, `diff`, `rebase` and `export`.
    data: `ctxbench data list`, `show`, `validate`, `fetch`, `from-git` and `import`.
    data_app: `ctxbench data`: arguments of its commands.
    init: `ctxbench init` and `setup`: write an agent's first files, and install the embedding model.
    label: `ctxbench data label`, `review`, `pool` and `agreement`.
    memory: `ctxbench memory` and `ctxbench serve`.
    memory_app: `ctxbench memory` and `ctxbench context`, and their sub-commands.
    run: `ctxbench run`, `score`, `report`, `latency`, `graph` and `data overlap`: run them and print.
    select: `ctxbench select`: one request, explained, also within a session.
    tune: `ctxbench tune` and `ctxbench calibrate`.
"""
