"""Questions of LoCoMo whose evidence a public audit corrects: the numbers of the questions, by conversation.

Source: https://github.com/dial481/locomo-audit, commit 9493fb4b4af4 (2026-04-02), which went through all questions but
the adversarial ones. Of its 156 findings (99 of wrong answers among them) these are the 94 that name other turns than
the published labels do. Their corrections are not taken over.
"""

DISPUTED = {
    conversation: frozenset(map(int, numbers.split()))
    for conversation, numbers in {
        "conv-26": "1 4 32 38 43 48 56 66 70 72 77 106 107 111 132 137 138 139 144",
        "conv-30": "24 31 43 44 47",
        "conv-41": "5 10 16 32 44 49 116 129",
        "conv-42": "4 34 50 51 52 54 55 58 61 66 67 68 69 81 88 184",
        "conv-43": "11 17 26 56 59 60 128 135 136 164",
        "conv-44": "2 8 51 103",
        "conv-47": "2 11 19 24 38 53 65 88 93 113 115",
        "conv-48": "78 105 117 152 155 174 188",
        "conv-49": "4 7 18 28 36 37 43",
        "conv-50": "1 11 29 58 63 105 111",
    }.items()
}
