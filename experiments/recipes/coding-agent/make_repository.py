"""Make the repository `till`, the cash desk of a shop: 27 commits, with the same hashes every time."""

import os
import subprocess
import sys
from pathlib import Path

FILES = {
    "AGENTS.md": "# Till\n\nThe cash desk of a shop. Run `python -m pytest` before you commit.\n",
    "till/AGENTS.md": "Modules here import nothing of `shop/`. Every public function has a docstring.\n",
    ".cursor/rules/money.mdc": (
        "---\ndescription: Amounts of money are whole cents; rounding of prices, discounts and tax\n---\n"
        "Never use floats for money. Round half up, once, at the end of a line.\n"
    ),
    ".cursor/rules/receipts.mdc": (
        "---\ndescription: What the law wants on a receipt, and how wide paper is\n---\n"
        "Date, number, tax by rate, and the name of the shop. Lines have 32 characters.\n"
    ),
    ".cursor/rules/cards.mdc": (
        "---\ndescription: Card payments, refunds to a card, and what may be logged of them\n---\n"
        "Log the last four digits and nothing else. A refund goes to the card that paid.\n"
    ),
    ".cursor/rules/stock.mdc": (
        "---\ndescription: Stock levels, deliveries, and how to count an inventory\n---\n"
        "Stock changes in one transaction with the sale. Levels may be negative for a day.\n"
    ),
    "till/cart.py": (
        '"""The cart of a sale: lines of articles with their quantity."""\n\n\n'
        "class Cart:\n    def __init__(self):\n        self.lines = {}\n\n"
        "    def add(self, article, quantity=1):\n        self.lines[article] = quantity\n\n"
        "    def total(self):\n        return sum(article.price * n for article, n in self.lines.items())\n"
    ),
    "till/discounts.py": (
        '"""Discounts: percentages, coupons and staff prices."""\n\n\n'
        "def percent(amount, share):\n    return amount - int(amount * share / 100)\n\n\n"
        "def coupon(amount, value):\n    return amount - value\n"
    ),
    "till/tax.py": (
        '"""Value added tax by rate."""\n\nRATES = {"food": 7, "other": 19}\n\n\n'
        "def included(amount, rate):\n    return amount - int(amount * 100 / (100 + RATES[rate]))\n"
    ),
    "till/receipt.py": (
        '"""The text of a receipt."""\n\nWIDTH = 40\n\n\n'
        "def header(shop):\n    return shop.center(WIDTH)\n\n\n"
        'def line(name, price):\n    return f"{name[:20]:<30}{price / 100:>10.2f}"\n\n\n'
        'def footer():\n    return "Thank you"\n'
    ),
    "till/printer.py": (
        '"""Send text to the receipt printer over its serial port."""\n\nTIMEOUT = 30\n\n\n'
        'def open_port(path="/dev/ttyS0"):\n    return open(path, "wb")\n\n\n'
        'def send(port, text):\n    port.write(text.encode("latin-1"))\n\n\n'
        'def cut(port):\n    port.write(b"\\x1dV0")\n'
    ),
    "till/cards.py": (
        '"""Card payments at the terminal."""\n\nRETRIES = 0\n\n\n'
        'def charge(terminal, amount):\n    print("charge", terminal.card_number, amount)\n'
        "    return terminal.request({'charge': amount})\n\n\n"
        "def refund(terminal, amount):\n    return terminal.request({'refund': amount})\n"
    ),
    "till/cash.py": (
        '"""Cash in the drawer, and change."""\n\nCOINS = (200, 100, 50, 20, 10, 5, 2, 1)\n\n\n'
        "def change(due, given):\n    return given - due\n\n\n"
        "def count(drawer):\n    return sum(value * pieces for value, pieces in drawer.items())\n"
    ),
    "till/stock.py": (
        '"""Stock levels of articles."""\n\n\n'
        "def take(levels, article, pieces):\n    levels[article] = levels[article] - pieces\n\n\n"
        "def deliver(levels, article, pieces):\n    levels[article] = pieces\n"
    ),
    "till/users.py": (
        '"""Cashiers: log in by PIN, and what each may do."""\n\n\n'
        "def log_in(users, pin):\n    return next(user for user in users if user.pin == pin)\n\n\n"
        'def may_cancel(user):\n    return user.role == "manager"\n'
    ),
    "till/reports.py": (
        '"""Reports of a day: turnover, tax and cancellations."""\n\n\n'
        "def turnover(sales):\n    return sum(sale.total for sale in sales)\n\n\n"
        "def by_hour(sales):\n    hours = {}\n    for sale in sales:\n"
        "        hours[sale.hour] = hours.get(sale.hour, 0) + sale.total\n    return hours\n"
    ),
    "till/search.py": (
        '"""Find articles by name or barcode."""\n\n\n'
        "def by_barcode(articles, code):\n    return articles.get(code)\n\n\n"
        "def by_name(articles, text):\n    return [article for article in articles.values() if text in article.name]\n"
    ),
    "tests/test_cash.py": "from till.cash import change\n\n\ndef test_change():\n    assert change(300, 500) == 200\n",
    "tests/test_tax.py": 'from till.tax import included\n\n\ndef test_food():\n    assert included(107, "food") == 7\n',
}

# Message, and by path what is replaced by what. The first commit adds all files; each of these is a request.
CHANGES = [
    ("Round discounts half up", {"till/discounts.py": ("int(amount * share / 100)", "(amount * share + 50) // 100")}),
    ("Make receipt lines 32 characters wide", {"till/receipt.py": ("WIDTH = 40", "WIDTH = 32")}),
    ("Never log the number of a card", {"till/cards.py": ("terminal.card_number", "terminal.card_number[-4:]")}),
    (
        "Refuse a coupon that is worth more than the cart",
        {"till/discounts.py": ("amount - value", "max(amount - value, 0)")},
    ),
    (
        "Refuse to give change if too little cash was given",
        {
            "till/cash.py": (
                "return given - due",
                'if given < due:\n        raise ValueError("too little")\n    return given - due',
            ),
            "tests/test_cash.py": ("== 200\n", "== 200\n    assert change(5, 5) == 0\n"),
        },
    ),
    (
        "Add a delivery to the stock level instead of replacing it",
        {"till/stock.py": ("= pieces", "= levels.get(article, 0) + pieces")},
    ),
    ("Wait five seconds for the printer, not thirty", {"till/printer.py": ("TIMEOUT = 30", "TIMEOUT = 5")}),
    (
        "Search article names without regard to case",
        {"till/search.py": ("text in article.name", "text.lower() in article.name.lower()")},
    ),
    ("Do not crash on an unknown PIN", {"till/users.py": ("if user.pin == pin)", "if user.pin == pin), None)")}),
    (
        "Raise the reduced tax rate for food to 8 percent",
        {"till/tax.py": ('"food": 7', '"food": 8'), "tests/test_tax.py": ('107, "food") == 7', '108, "food") == 8')},
    ),
    (
        "Leave cancelled sales out of the turnover",
        {"till/reports.py": ("sale.total for sale in sales)", "sale.total for sale in sales if not sale.cancelled)")},
    ),
    ("Try a card payment twice before it fails", {"till/cards.py": ("RETRIES = 0", "RETRIES = 2")}),
    ("Print umlauts on receipts", {"till/printer.py": ('"latin-1"', '"cp858"')}),
    (
        "Add up the pieces of an article that is scanned again",
        {
            "till/cart.py": ("] = quantity", "] = self.lines.get(article, 0) + quantity"),
            "till/receipt.py": ("name[:20]", "name[:18]"),
        },
    ),
    (
        "Let shift leaders cancel a sale",
        {"till/users.py": ('user.role == "manager"', 'user.role in ("manager", "leader")')},
    ),
    (
        "Print the tax by rate at the end of the receipt",
        {
            "till/receipt.py": ('"Thank you"', '"incl. VAT\\nThank you"'),
            "till/tax.py": ('"""Value', '"""For receipts: value'),
        },
    ),
    ("Show turnover by half hours", {"till/reports.py": ("sale.hour, 0)", "sale.half_hour, 0)")}),
    (
        "Give change in the largest coins and notes",
        {"till/cash.py": ("COINS = (200", "COINS = (5000, 2000, 1000, 500, 200")},
    ),
    (
        "Take stock back when a sale is cancelled",
        {
            "till/stock.py": ('"""Stock levels', '"""Sales, cancellations and stock levels'),
            "till/cart.py": (
                "def add(self, article, quantity=1)",
                "def add(self, article, quantity=1, cancelled=False)",
            ),
        },
    ),
    (
        "Find articles by a barcode with a leading zero",
        {"till/search.py": ("articles.get(code)", 'articles.get(code.lstrip("0"))')},
    ),
    (
        "Refund to the card that paid",
        {"till/cards.py": ("{'refund': amount}", "{'refund': amount, 'card': terminal.card}")},
    ),
    (
        "Log a cashier out after three wrong PINs",
        {"till/users.py": ("def log_in(users, pin)", "def log_in(users, pin, wrong=0)")},
    ),
    (
        "Centre the name of the shop on narrow paper",
        {"till/receipt.py": ("shop.center(WIDTH)", "shop[:WIDTH].center(WIDTH)")},
    ),
    (
        "Warn when the drawer holds more than 500 euros in cash",
        {"till/cash.py": ("return sum(value", "warn_above = 50_000\n    return sum(value")},
    ),
    ("Cut the paper only half through", {"till/printer.py": ("V0", "V1")}),
    ("Staff pay 20 percent less", {"till/discounts.py": ("\n\ndef coupon", "\n\nSTAFF = 20\n\n\ndef coupon")}),
]


def git(folder, *words, day=1):
    """Run git in a folder, with a date of its own and nobody's settings."""
    date = f"2026-03-{day:02d}T09:00:00+00:00"
    about = {"NAME": "Ada", "EMAIL": "ada@example.com", "DATE": date}
    people = {f"GIT_{role}_{field}": text for role in ("AUTHOR", "COMMITTER") for field, text in about.items()}
    env = {**os.environ, **people, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *words], cwd=folder, env=env, check=True, timeout=60)  # noqa: S603, S607


def main(folder):
    """Write the files and make a commit of each change."""
    if folder.exists():
        sys.exit(f"{folder} exists; delete it to make it again")
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    for day, (message, edits) in enumerate([("Begin", {}), *CHANGES], start=1):
        for path, (old, new) in edits.items():
            text = (folder / path).read_text("utf-8")
            if text.count(old) != 1:
                sys.exit(f"{message}: {path} has {old!r} {text.count(old)} times")
            (folder / path).write_text(text.replace(old, new), "utf-8")
        git(folder, "add", "--all", day=day)
        git(folder, "commit", "--quiet", "-m", message, day=day)


main(Path("till"))
