"""The link for homework 1's predictions: measured right after computing, or known from the name of the GPUs."""

from dataclasses import replace

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.link_points import link_points
from scalewise.predict.catalogue import named_link
from scalewise.predict.link import Link
from scalewise.predict.measured_link import NoLink, measured_link
from scalewise.predict.probe import LinkProbe, place_of
from scalewise.predict.wire_fit import MeasuredCollective
from scalewise.records.load import Run
from scalewise.records.spec import Device

EXPERIMENT = "link-in-training"
# Part of a GPU's name -> its link. For other GPUs no link is assumed.
BY_GPU = (("A100-SXM", "nvlink3"), ("H100 80GB HBM3", "nvlink4"), ("H200", "nvlink4"), ("B200", "nvlink5"))
MOST_OF_A_NODE = 8


def training_link(evidence: Evidence, ranks: int, device: Device) -> Link | NoLink:
    """Returns the link among so many ranks, or why there is none."""
    runs = [run for run in evidence.loaded.runs if run.spec.experiment == EXPERIMENT and _real(run)]
    points = tuple(MeasuredCollective(one.ranks, one.bytes, one.seconds) for run in runs for one in link_points(run))
    if not points or evidence.machine is None:
        return _by_name(evidence, ranks) if device == "cuda" else NoLink("no two ranks exchanged anything here")
    place = place_of(evidence.machine, device, runs[0].spec.threads_per_rank or 0)
    return measured_link(LinkProbe(place, runs[0].started_unix_seconds or 0.0, 0.0, points), ranks)


def _real(run: Run) -> bool:
    return run.measured and not run.spec.oversubscribed and not run.spec.emulated


def _by_name(evidence: Evidence, ranks: int) -> Link | NoLink:
    gpus = evidence.machine.gpus if evidence.machine else ()
    name = gpus[0].name if gpus else "no GPU"
    entry = next((link for part, link in BY_GPU if part in name and "NVL" not in name), "")  # NVL: cards in pairs
    if not entry:
        return NoLink(f"no link was measured, and the one between GPUs of this kind ({name}) is not known")
    if ranks > MOST_OF_A_NODE:
        return NoLink(f"{ranks} ranks are more than one node, and what would join the nodes is not known")
    link = named_link(entry, most_ranks=ranks)
    return replace(link, guesses=(f"that {ranks} {name} are joined by {entry} (catalogue)", *link.guesses))
