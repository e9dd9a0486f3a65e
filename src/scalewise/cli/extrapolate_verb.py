"""The request of `scalewise extrapolate`, and its answer: in the terminal, as JSON or as a page."""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from scalewise.cli.request import spelled
from scalewise.console.output import Output
from scalewise.errors import BadRequest
from scalewise.jobs.arguments import Arguments
from scalewise.jobs.extrapolate import ExtrapolateRequest
from scalewise.jobs.rehearse_request import asked_link
from scalewise.predict.cluster_answer import ClusterAnswer
from scalewise.predict.placement import MOST_PER_NODE, read_placement
from scalewise.report.documents.cluster_document import cluster_document

MOST_NODES = 65_536  # a larger number is a typing mistake


def requested_extrapolation(source: Path, options: Mapping[str, Any]) -> ExtrapolateRequest:
    """The request, or a BadRequest with everything that is wrong with it."""
    asked = Arguments()
    nodes = asked.attempt(lambda: _nodes(options["nodes"]), ())
    placements = tuple(asked.attempt(partial(read_placement, text), None) for text in options["placement"])
    per_node = options["per_node"]
    if per_node is not None and not 1 <= per_node <= MOST_PER_NODE:
        asked.wrong(f"{spelled('per_node', per_node)} is no number of GPUs of a node.")
    for batch in options["local_batch"]:
        if not 0 < batch < float("inf"):
            asked.wrong(f"{spelled('local_batch', f'{batch:g}')} is no batch: it must be above 0.")
    link = asked.attempt(lambda: asked_link(options["link"], per_node or 1, 1), None)
    asked.check()
    return ExtrapolateRequest(
        source=source,
        nodes=nodes,
        per_node=per_node,
        placements=tuple(one for one in placements if one is not None),
        models=tuple(options["model"]),
        local_batches=tuple(options["local_batch"]),
        link=link,
    )


def _nodes(text: str | None) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")] if text else []
    bad = [word for word in words if not re.fullmatch(r"[0-9]{1,6}", word) or not 1 <= int(word) <= MOST_NODES]
    if bad:
        raise BadRequest(
            f"--nodes {(text or '')[:60]}: {', '.join(repr(word[:20]) for word in bad)} is no number of nodes.",
            f"Give whole numbers from 1 to {MOST_NODES} with commas between, such as --nodes 4,8,16.",
        )
    return tuple(sorted({int(word) for word in words}))


def present_extrapolation(output: Output, answer: ClusterAnswer, as_json: bool, html: Path | None) -> int:
    """Shows it and writes it."""
    if as_json:
        from scalewise.predict.cluster_json import cluster_json

        output.json(cluster_json(answer))
    else:
        from scalewise.console.terminal import show_document

        show_document(output, cluster_document(answer))
    if html is not None:
        from scalewise.report.html import write_page

        try:
            write_page(html, cluster_document(answer))
        except OSError as error:
            raise BadRequest(
                f"{error.filename} cannot be written: {error.strerror}.", "Choose another path."
            ) from error
        output.say(f"written: {html}")
    return 0
