"""What a server asks to wait, and which certificates are read."""

from __future__ import annotations

import ssl
import time
from email.utils import formatdate

import pytest

from ctxbench.io.http import certificates, seconds_asked


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("7", 7), (" 7 ", 7), ("1.5", 1.5)])
def test_seconds(text, seconds):
    assert seconds_asked(text, 0.25) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-3", "1.2.3", "٣", "NaN", "Mon, 99 Foo 2030 00:00:00 GMT"])
def test_what_tells_no_time_changes_nothing(text):
    assert seconds_asked(text, 0.25) == 0.25


def test_a_date():
    assert 50 < seconds_asked(formatdate(time.time() + 60, usegmt=True), 0.25) <= 60
    assert seconds_asked("Wed, 21 Oct 2015 07:28:00 GMT", 0.25) == 0


@pytest.mark.parametrize(
    ("scheme", "proxies", "read"), [("https", False, True), ("http", True, True), ("http", False, False)]
)
def test_certificates_are_read_where_something_may_be_encrypted(scheme, proxies, read, monkeypatch):
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    context = certificates(scheme, proxies=proxies)
    assert (context.cert_store_stats()["x509_ca"] > 0) is read
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
