"""Draw faults of a room by seed, to be looked at by hand: `python -m tests.mutants.draw ROOM [-n N] [--skip K]`.

Leave out what no user would notice, and draw the next. Without a room: how many of the mutants each room gets, by its
statements.
"""

from __future__ import annotations

import argparse
import ast
import random
from collections import Counter

from tests.mutants.mutate import MUTANTS, ROOT, Site, find, functions_of, read_mutants

N_MUTANTS = 30
PACKAGE = ROOT / "ctxbench"


def shares() -> dict[str, int]:
    """The number of mutants of each room, by largest remainder."""
    sizes: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        if len(parts := path.relative_to(PACKAGE).parts) > 1:
            sizes[parts[0]] += sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    exact = {room: N_MUTANTS * size / sizes.total() for room, size in sizes.items()}
    rounded = {room: int(share) for room, share in exact.items()}
    by_remainder = sorted(exact, key=lambda room: rounded[room] - exact[room])
    for room in by_remainder[: N_MUTANTS - sum(rounded.values())]:
        rounded[room] += 1
    return dict(sorted(rounded.items()))


def drawn(room: str, *, seed: int) -> list[Site]:
    """All faults of a room in the order of the seed; each operator is as likely as any other."""
    by_operator: dict[str, list[Site]] = {}
    for path in sorted((PACKAGE / room).rglob("*.py")):
        for function in functions_of(path):
            for site in function.sites():
                by_operator.setdefault(site.operator, []).append(site)
    generator = random.Random(f"{seed} {room}")
    for operator in sorted(by_operator):
        generator.shuffle(by_operator[operator])
    order = []
    while by_operator:
        operator = generator.choice(sorted(by_operator))
        order.append(by_operator[operator].pop())
        if not by_operator[operator]:
            del by_operator[operator]
    return order


def as_yaml(site: Site, id_: str = "") -> str:
    """An entry of `mutants.yaml`, with an id of its own if none is named."""
    before, after = site.lines()
    room = site.path.relative_to(PACKAGE).parts[0]
    name = site.function.rpartition(".")[2].strip("_")
    return (
        f"- id: {id_ or f'{room}-{name}-{site.operator}'}\n"
        f"  path: {site.path.relative_to(ROOT)}\n  function: {site.function}\n"
        f"  operator: {site.operator}\n  index: {site.index}\n  shape: {site.shape}\n"
        f"  # - {before}\n  # + {after}\n"
    )


def main() -> None:
    """Print what was drawn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("room", nargs="?")
    parser.add_argument("-n", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first so many")
    parser.add_argument("--update", action="store_true", help="write where the mutants stand now into mutants.yaml")
    options = parser.parse_args()
    if options.update:
        head = "".join(line for line in MUTANTS.read_text("utf-8").splitlines(True) if line.startswith("#"))
        MUTANTS.write_text(head + "".join(as_yaml(find(one), one.id) for one in read_mutants()), "utf-8")
        return
    if options.room is None:
        print(shares())  # noqa: T201
        return
    for site in drawn(options.room, seed=options.seed)[options.skip : options.skip + options.n]:
        print(as_yaml(site))  # noqa: T201


if __name__ == "__main__":
    main()
