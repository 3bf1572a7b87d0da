"""What aider's repo map ranks for a request: run by the Python of an environment that has `aider-chat` installed.

    python aider_map.py REPOSITORY FOLDER < requests.jsonl > rankings.jsonl

A request is a line {"query": a commit, "text": its message}; asked of the tree of the commit's first parent, which
is laid out in FOLDER. The answer is a line {"query", "tags": [[path, name], ...], "named": {tokens: [path, ...]}}: tags
as aider ranks them, a file without any as [path, ""]; and the files that its map of so many tokens names. Identifiers
and file names are taken from the message as aider takes them from what a user types. Nothing of the repository is run.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from aider.coders.base_coder import Coder
from aider.repomap import RepoMap

BUDGETS = (1000, 2000, 4000, 8000, 16000, 32000)


class Quiet:
    """What the map reads files by, and says things to."""

    def read_text(self, path):
        """The text of a file; empty where it is none."""
        return Path(path).read_text("utf-8", errors="replace")

    def tool_output(self, *_):
        """Nobody reads it."""

    tool_warning = tool_error = tool_output


class Map(RepoMap):
    """The map, with the tokens of all lines in the place of a sample of them."""

    ranked = ()

    def token_count(self, text):
        """Four characters are a token, rounded up."""
        return -(-len(text) // 4)

    def get_ranked_tags(self, *given, **named):
        """The tags, ranked once for all budgets of a request."""
        self.ranked = self.ranked or super().get_ranked_tags(*given, **named)
        return self.ranked


class Mentions:
    """What aider's coder has of a chat without files, so that its own functions find what a message mentions."""

    abs_read_only_fnames = ()
    get_ident_mentions = Coder.get_ident_mentions
    get_ident_filename_matches = Coder.get_ident_filename_matches
    get_file_mentions = Coder.get_file_mentions

    def __init__(self, paths):
        """All files may be added."""
        self.paths = paths

    def get_all_relative_files(self):
        """The paths of the tree."""
        return self.paths

    get_addable_relative_files = get_all_relative_files

    def get_inchat_relative_files(self):
        """None."""
        return []


def git(repository, *words, given=None):
    """What git says, by plumbing that runs nothing of the repository."""
    command = ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C", str(repository), *words]
    return subprocess.run(command, input=given, capture_output=True, check=True).stdout  # noqa: S603 - git, told what to do by us


def tree(repository, commit):
    """The blob of each regular file, by path; paths that are not UTF-8 are left out."""
    found = {}
    for entry in git(repository, "ls-tree", "-rz", "--full-tree", commit).split(b"\0"):
        mode, _, rest = entry.partition(b" ")
        if mode.startswith(b"100"):
            blob, path = rest[5:].split(b"\t", 1)
            if path.isascii() and not path.startswith(b".git/"):
                found[path.decode()] = blob.decode()
    return found


def lay_out(repository, folder, before, after):
    """Make the files in a folder those of a tree; equal ones stay as they are, so that aider knows them again."""
    for path in before.keys() - after.keys():
        (folder / path).unlink()
        with suppress(OSError):  # it holds more
            os.removedirs((folder / path).parent)
    changed = [path for path in after if before.get(path) != after[path]]
    answer = git(repository, "cat-file", "--batch", given="".join(f"{after[path]}\n" for path in changed).encode())
    at = 0
    for path in changed:
        head = answer[at : answer.index(b"\n", at)]
        at += len(head) + 1
        content = b""
        if not head.endswith(b"missing"):
            content = answer[at : at + int(head.split()[2])]
            at += len(content) + 1
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def answered(aider, folder, paths, text):
    """The tags of a tree that are ranked for a text, and the files that maps of each budget name."""
    mentions = Mentions(paths)
    words = mentions.get_ident_mentions(text)
    files = mentions.get_file_mentions(text) | mentions.get_ident_filename_matches(words)
    whole = [str(folder / path) for path in paths]
    aider.ranked = aider.get_ranked_tags([], whole, files, words)
    order = list(dict.fromkeys(tag[0] for tag in aider.ranked))
    named = {}
    for budget in BUDGETS:
        shown = aider.get_ranked_tags_map_uncached([], whole, budget, files, words) or ""
        lines = set(shown.splitlines())
        named[budget] = [path for path in order if path in lines or f"{path}:" in lines]
    tags = dict.fromkeys((tag[0], getattr(tag, "name", "")) for tag in aider.ranked)
    aider.ranked = ()
    return {"tags": list(tags), "named": named}


def main():
    """Answer the requests that come in."""
    repository, folder = Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    aider = Map(root=str(folder), io=Quiet())
    now = {}
    for line in sys.stdin:
        request = json.loads(line)
        after = tree(repository, f"{request['query']}^")
        lay_out(repository, folder, now, after)
        now = after
        answer = answered(aider, folder, sorted(now), request["text"])
        sys.stdout.write(json.dumps({"query": request["query"], **answer}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
