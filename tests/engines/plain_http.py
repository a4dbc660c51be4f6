"""The little HTTP that the tests need beside the product: one bounded GET or POST."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

__all__ = ["Answer", "counter", "get", "post"]


class Answer(NamedTuple):
    """An answer, or its absence: status 0 and the reason as body."""

    status: int
    body: str


def get(url: str, timeout_s: float = 10.0) -> Answer:
    return ask(urllib.request.Request(url), timeout_s)


def post(url: str, body: Any, timeout_s: float = 30.0) -> Answer:
    headers = {"Content-Type": "application/json"}
    data = json.dumps(body).encode()
    return ask(urllib.request.Request(url, data, headers), timeout_s)


def ask(request: urllib.request.Request, timeout_s: float) -> Answer:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            return Answer(answer.status, answer.read().decode(errors="replace"))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read().decode(errors="replace"))
    except (OSError, http.client.HTTPException) as error:
        return Answer(0, repr(error))


def counter(url: str, name: str, **labels: str) -> float:
    """The sum of a Prometheus sample over all series that carry these labels.

    Raises:
        LookupError: the server has no such series.
    """
    answer = get(url + "/metrics")
    values = [
        sample.value
        for family in text_string_to_metric_families(answer.body)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    if not values:
        raise LookupError(f"no {name}{labels} at {url} (status {answer.status})")
    return sum(values)
