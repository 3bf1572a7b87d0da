# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
#

# %% [markdown]
# # Your own tools in ten minutes
#
# An agent that has many tools cannot be sent all of them with every request: a *selector* decides which it gets to see.
# This notebook takes a list of tools and a few requests of yours, says how often selectors offer **everything** that a
# request needs, how many tokens that costs, and explains single answers.
#
# No model is asked for an answer, and nothing leaves this machine.

# %%
import ctxbench

# %% [markdown]
# ## The tools
#
# Rows as you have them: dicts or a DataFrame with `name`, and what else there is (`server`, `description`, `schema`).
# `ctxbench data capture --mcp-config .mcp.json` reads them from running MCP servers.

# %%
tools = [
    {"server": "mail", "name": "send_email", "description": "Send an email to one or several people."},
    {"server": "mail", "name": "search_inbox", "description": "Find emails by sender, subject or date."},
    {"server": "calendar", "name": "create_event", "description": "Put a meeting into the calendar and invite people."},
    {"server": "calendar", "name": "find_free_slot", "description": "When are these people free at the same time?"},
    {"server": "files", "name": "search_files", "description": "Find documents by their words."},
    {"server": "files", "name": "share_file", "description": "Give somebody access to a document."},
    {"server": "crm", "name": "find_customer", "description": "Look up a customer by name or number."},
    {"server": "crm", "name": "add_note", "description": "Add a note to a customer's record."},
    {"server": "billing", "name": "create_invoice", "description": "Write an invoice for a customer."},
    {"server": "billing", "name": "refund_payment", "description": "Pay back all or a part of a payment."},
]

# %% [markdown]
# ## What requests need
#
# Labels say which tools a request needs; twenty requests of real users tell more than a hundred that somebody made up.

# %%
requests = [
    ("q1", "Send Ann the minutes of yesterday by email", ["send_email"]),
    ("q2", "Find an hour next week when Ann and Ben are free, and invite both", ["find_free_slot", "create_event"]),
    ("q3", "The customer Miller wants half of the payment back", ["find_customer", "refund_payment"]),
    ("q4", "Share the contract with Ben", ["search_files", "share_file"]),
    ("q5", "Write Miller an invoice and send it by email", ["create_invoice", "send_email"]),
    ("q6", "Did anyone write about the offer in March?", ["search_inbox"]),
    ("q7", "Note that Miller is on holiday until June", ["find_customer", "add_note"]),
    ("q8", "Thank you, that is all", []),
]
mine = ctxbench.dataset(
    tools,
    [{"query": query, "text": text, **({} if needed else {"needs": "nothing"})} for query, text, needed in requests],
    [{"query": query, "item": name} for query, _, needed in requests for name in needed],
)
mine.labels.head()

# %% [markdown]
# ## How often is everything there?
#
# `complete` is the share of requests for which every tool that they need was offered, with a 95% interval: with eight
# requests it is wide, and the table says so. `prompt tokens` is what the offer costs. `*`: significant.
#
# A function is a selector, too. Here: every tool whose name shares a word with the request.


# %%
def by_words(request, items):
    words = set(request["text"].lower().split())
    return [item["_id"] for item in items if words & set(item["name"].split("_"))]


res = ctxbench.evaluate(
    mine,
    {
        "everything": "everything",
        "three by BM25": ctxbench.pipeline("bm25", refine=[{"first": {"n": 3}}]),
        "five by BM25": ctxbench.pipeline("bm25", refine=[{"first": {"n": 5}}]),
        "by words": by_words,
    },
    metrics=["completeness", "tokens", "items", "recall", "abstention"],
    embedder="hashing",  # no model; leave it out to search by meaning, too (all-MiniLM-L6-v2)
)
res

# %% [markdown]
# ## Which requests, and why?
#
# A mean hides who pays. These requests lack something under five by BM25:

# %%
by_query = res.per_query()
lacking = by_query[(by_query["selector"] == "five by BM25") & (by_query["completeness"] == 0)]
lacking[["query", "recall", "tokens"]]

# %% [markdown]
# Every candidate of one of them, in order, with the rule that excludes it. `grade` 2 is what it needs.

# %%
res.explain("q2", "three by BM25")

# %% [markdown]
# ## One request, live

# %%
ctxbench.select("invite Ann to a meeting", mine, selector="bm25", n=2).to_frame(near=3)

# %% [markdown]
# ## Next
#
# * More requests: `ctxbench data import` makes them of your logs, and `ctxbench data label` asks about those
#   that tell the most.
# * The best setting: `ctxbench.tune(mine, "learned", minimise="tokens", completeness="0.98 of base")`.
# * Keep it that way: `ctxbench.check(now, before)`, or `ctxbench check` in CI.
