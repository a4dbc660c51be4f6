"""Signature files: read, checked, and a user's own before ours."""

from __future__ import annotations

import pytest

from loadgen.analysis.attribution import attribute
from loadgen.analysis.signatures import built_in, load_signatures, parse_signatures
from loadgen.errors import UsageError
from tests.signature_rows import Row, replayed

OWN = """
[[signature]]
id = "acme-full"
system = "Acme gateway"
layer = "gateway"
resource = "concurrency"
headers = { X-Acme-Queue-Reason = "full" }
source = "our own gateway"
"""
FIELDS = 'id = "mine"\nsystem = "s"\nlayer = "gateway"\nresource = "other"\n'
FIELDS += 'source = "x"\n'
BAD = {
    "not TOML": ("[[signature", "is not TOML"),
    "another table": ("[[rule]]\nid = 'x'", "unknown table rule"),
    "a table that is no list": ("signature = 3", "unknown table signature"),
    "unknown key": (f"[[signature]]\n{FIELDS}txet = ['a']", "'mine'.*txet"),
    "unknown layer": (
        f"[[signature]]\n{FIELDS.replace('gateway', 'moon')}text=['a']",
        "'mine'.*'moon'",
    ),
    "missing key": ("[[signature]]\nid = 'mine'\ntext = ['a']", "'mine'.*system"),
    "no id": ("[[signature]]\nsystem = 's'", "number 1.*id"),
    "bad regular expression": (
        f"[[signature]]\n{FIELDS}regex = '('",
        r"'mine'.*'\(' is not a regular expression",
    ),
    "bad header pattern": (
        f"[[signature]]\n{FIELDS}headers = {{ x-a = '[' }}",
        "'mine'.*is not a regular expression",
    ),
    "status alone": (f"[[signature]]\n{FIELDS}status = [503]", "'mine'.*proves no"),
    "Server alone": (
        f"[[signature]]\n{FIELDS}headers = {{ Server = 'envoy' }}",
        "'mine'.*proves no layer",
    ),
    "Content-Type and status alone": (
        f"[[signature]]\n{FIELDS}status=[503]\nheaders={{ content-type='html' }}",
        "'mine'.*proves no layer",
    ),
    "a header no record keeps": (
        f"[[signature]]\n{FIELDS}headers = {{ x-acme-why = 'full' }}",
        "'mine'.*'x-acme-why' is not kept in records",
    ),
    "used twice": (OWN + OWN, "'acme-full' is there twice"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_file_names_the_entry(name: str) -> None:
    text, message = BAD[name]
    with pytest.raises(UsageError, match=rf"my\.toml.*{message}"):
        parse_signatures(text, name="my.toml")


def test_built_in_are_sound() -> None:
    entries = built_in()
    assert len(entries) > 120
    assert len({entry.id for entry in entries}) == len(entries)
    assert all(entry.source and entry.system for entry in entries)


def test_a_users_own_come_first() -> None:
    row: Row = {
        "id": "x",
        "status": 503,
        "headers": {"x-acme-queue-reason": "FULL up"},
        "content_type": "text/plain",
        "body": "Service Unavailable",
    }
    found = attribute(replayed(row), load_signatures(OWN, name="my.toml"))
    assert found is not None
    assert (found.layer, found.limiting_resource) == ("gateway", "concurrency")
    assert found.confidence == "high"
    assert "acme-full" in found.evidence[0]


def test_header_before_body_before_status() -> None:
    """A layer's own header outweighs words; words outweigh a bare status."""
    busy = '{"error":{"message":"The engine is currently busy","type":"x","code":503}}'
    row: Row = {
        "id": "x",
        "status": 503,
        "headers": {"x-envoy-overloaded": "true", "server": "envoy"},
        "content_type": "application/json",
        "body": busy,
    }
    by_header = attribute(replayed(row), load_signatures())
    row["headers"] = {"server": "envoy"}
    by_body = attribute(replayed(row), load_signatures())
    row["body"] = ""
    by_status = attribute(replayed(row), load_signatures())
    assert by_header is not None
    assert by_body is not None
    assert by_status is not None
    assert by_header.layer == "gateway"
    assert by_body.layer == "engine_admission"
    assert (by_status.layer, by_status.confidence) == ("gateway", "low")


@pytest.mark.parametrize("server", ["uvicorn", "envoy", "nginx", "llama.cpp", ""])
@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
def test_server_and_content_type_do_not_decide(server: str, content_type: str) -> None:
    row: Row = {
        "id": "x",
        "status": 503,
        "headers": {"server": server},
        "content_type": content_type,
        "body": '{"error":{"message":"The engine is currently busy and cannot '
        'accept new requests.","type":"Service Unavailable","code":503}}',
    }
    found = attribute(replayed(row), load_signatures())
    assert found is not None
    assert (found.layer, found.limiting_resource) == (
        "engine_admission",
        "queued_requests",
    )
