"""Catalogs: agent files, rules, tool lists, MCP servers and git trees.

Reads item files, tool lists, rules and references of a repository, MCP servers, agent files, and trees of files in git.
Returns items, with every fault by file and line, or a snapshot folder that stores a captured catalog. Secrets are
detected by their form, and reported or hidden. The page for users is `datasets/catalogs.md`.

Start with `snapshots` (`corpus.jsonl` and snapshots), then `tool_lists`, then `instructions`.

MCP: needs the extra `mcp`. Variables are expanded by the rules of the program that the configuration is for. Each
server has a time limit, no process stays alive, and bodies of more than 32 MiB are refused. Values of `env` and of
headers never reach a message or a file. Digests of the configuration and of the server's files show when a capture is
out of date.

Git: a repository may be hostile. No hook, filter, textconv, external diff or file-system monitor is run, nothing is
fetched, and symbolic links are not followed. Git is ended after 60 s without output. Commit messages are read up to
20,000 characters.

Modules:
    agent_file: Agent files: the selector, sources, include modes and servers of an agent.
    git_history: Read trees, blobs, commits and changed lines from a git repository.
    git_trees: Catalogs of the files or definitions of a git tree, with the commits that changed them.
    instructions: Read rules and references from AGENTS.md, CLAUDE.md, Cursor, Copilot and skill files.
    mcp_capture: Start MCP servers and list their tools, with time limits and errors by server.
    mcp_config: Read MCP server configurations and their variables, and detect changed server files.
    snapshots: Read catalogs from files, and take and merge snapshots of them.
    tool_lists: Read tool definitions in the formats of MCP, OpenAI, Anthropic, the AI SDK and gateways.
"""
