"""Remembers which hosts failed under a command's jobs, and leaves out one that failed twice."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from scalewise.errors import BadRequest
from scalewise.launch.slurm import queue
from scalewise.launch.slurm.queue import JobState, SlurmSilent
from scalewise.records.codec import BadRecord, read_json, write_json
from scalewise.records.submission import JobFolder, Submission

MOST_LOSSES = 2  # of one host; then the command does without it


def avoided_hosts(losses: tuple[str, ...]) -> tuple[str, ...]:
    """The hosts that are lost too often to be used again."""
    return tuple(sorted(host for host, times in Counter(losses).items() if times >= MOST_LOSSES))


def note_losses(folder: JobFolder, node_list: str) -> tuple[str, ...]:
    """Notes which hosts of a job that has just lost some are down now, and returns their names."""
    try:
        lost = queue.lost_hosts(node_list) if node_list else ()
        known = read_json(folder.submission, Submission)
    except (BadRequest, SlurmSilent, BadRecord):
        return ()
    if lost:
        write_json(folder.submission, replace(known, losses=(*known.losses, *lost)))
    return lost


def avoid_hosts(job: JobState, hosts: tuple[str, ...]) -> bool:
    """Makes a waiting job avoid these hosts; False if it needs them, or Slurm refuses."""
    fields = dict(job.fields)
    if not _enough_without(fields.get("Partition", ""), fields.get("NumNodes", ""), hosts):
        return False
    before = [one for one in (fields.get("ExcNodeList", ""),) if one not in ("", "(null)")]
    try:
        queue.ask("scontrol", "update", f"JobId={job.job_id}", f"ExcNodeList={','.join((*before, *hosts))}")
    except (BadRequest, SlurmSilent):
        return False
    return True


def options_without(options: Mapping[str, str], nodes: int, hosts: tuple[str, ...]) -> dict[str, str]:
    """The options of a job that avoids these hosts, unless it asks for hosts by name or needs these."""
    named = "nodelist" in options or "clusters" in options
    if not hosts or named or not _enough_without(options.get("partition", ""), str(nodes), hosts):
        return dict(options)
    before = [options["exclude"]] if options.get("exclude") else []
    return {**options, "exclude": ",".join((*before, *hosts))}


def _enough_without(partition: str, nodes: str, hosts: tuple[str, ...]) -> bool:
    """Tells whether the partition has so many hosts beside these; a count may be written as 2 or 2-2."""
    try:
        known = queue.partitions()
    except (BadRequest, SlurmSilent):
        return False
    found = known.get(partition) or next((one for one in known.values() if one.get("Default") == "YES"), {})
    total, needed = found.get("TotalNodes", ""), nodes.partition("-")[0]
    return total.isdecimal() and needed.isdecimal() and int(total) - len(hosts) >= int(needed)
