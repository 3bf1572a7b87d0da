"""Drawn requests, good and bad, against what the interface says of itself: schemathesis finds nothing."""

from __future__ import annotations

import pytest

from ctxbench.memory.web_app import UserTokens
from tests.draws import draws
from tests.memory.service_world import filled, service_over

schemathesis = pytest.importorskip("schemathesis")
from schemathesis import engine  # noqa: E402
from schemathesis.config import SchemathesisConfig  # noqa: E402

from ctxbench.memory.web_app import Access, web_app  # noqa: E402 - needs the extra

TOKEN = "a" * 16
POSTS = {f"POST /context/{what}" for what in ("build", "preview", "feedback", "sufficient", "import")}


def failures(app, headers):
    """What was found, in words, and the statuses that each address answered with."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=SchemathesisConfig(seed=1))
    checks = schema.config.checks
    for check in (checks.positive_data_acceptance, checks.negative_data_rejection):
        check.expected_statuses = [*check.expected_statuses, "413"]  # no schema limits the length of a body
    schema.config.generation.update(max_examples=draws(100, 25))
    schema.config.update(base_url="http://127.0.0.1", headers=headers)
    schema.config.checks.negative_data_rejection.expected_statuses.append("413")  # drawn contents may be that long
    found, statuses = [], {}
    for event in engine.from_schema(schema).execute():
        if "Error" in type(event).__name__:
            found.append(str(event))
        recorder = getattr(event, "recorder", None)
        for key, checks in ({} if recorder is None else recorder.checks).items():
            case = recorder.cases[key].value
            bad = [one for one in checks if one.status.name != "SUCCESS"]
            found += [f"{case.method} {case.path} {case.body!r:.300}: {one.name} {one.failure_info}" for one in bad]
        for key, interaction in ({} if recorder is None else recorder.interactions).items():
            case = recorder.cases[key].value
            if interaction.response is not None:
                statuses.setdefault(f"{case.method} {case.path}", set()).add(interaction.response.status_code)
    return found, statuses


@pytest.mark.parametrize("tokens", [None, UserTokens({TOKEN: "ana"})], ids=["one user", "tokens"])
def test_drawn_requests_find_nothing(tokens):
    app = web_app(service_over(filled()), Access(tokens=tokens))
    found, statuses = failures(app, {"Authorization": f"Bearer {TOKEN}"} if tokens else {})
    assert found == []
    assert set(statuses) >= POSTS | {"GET /metrics"}
    of_what_is_there = {"POST /context/feedback", "POST /context/sufficient"}
    assert all({200, 422} <= statuses[one] for one in POSTS - of_what_is_there)
    assert all({404, 422} <= statuses[one] for one in of_what_is_there)


def test_a_fault_is_found():
    service = service_over(filled())
    service.build = None
    found, _ = failures(web_app(service, Access()), {})
    assert any("POST /context/build" in one for one in found)
