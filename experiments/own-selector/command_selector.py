"""A selector as a command in Python: reads requests from standard input, writes answers to standard output."""

import json
import sys

from callable_selector import shared_words

items = []
for line in sys.stdin:
    message = json.loads(line)
    if "query" not in message:  # the catalog, sent before the first request over it
        items = message["items"]
        continue
    answer = shared_words(message["request"], items)
    sys.stdout.write(json.dumps({"query": message["query"], **answer}) + "\n")
    sys.stdout.flush()
