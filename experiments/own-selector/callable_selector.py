"""A selector as a Python function: ranks items by how many words of the request they share, and chooses the best."""

import re


def words(text):
    """The words of a text of more than three letters, in lower case."""
    return {word for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 3}


def shared_words(request, items, most=3):
    """Answer one request: {id, text, available?, ...} and the rows of the catalog in, an answer out."""
    available = request.get("available")
    asked = words(request["text"])
    ranking = []
    for item in items:
        if available is not None and item["_id"] not in available:
            continue
        if item.get("include", "agent") != "agent":  # in the session from the start, or put there by hand
            continue
        text = " ".join([item["name"], item.get("description", ""), item["text"]])
        score = len(asked & words(text))
        if score > 0:
            ranking.append({"id": item["_id"], "score": score})
    ranking.sort(key=lambda row: -row["score"])
    best = [row for row in ranking if row["score"] == ranking[0]["score"]]
    return {"items": best[:most], "ranking": ranking}


def ids_only(request, items):
    """The shortest form: the ids chosen, best first. Without a ranking there are no ranking metrics."""
    return [row["id"] for row in shared_words(request, items)["items"]]
