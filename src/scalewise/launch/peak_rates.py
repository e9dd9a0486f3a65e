"""Reads and keeps the measured peak rates of this machine, in the user's cache."""

import hashlib
from dataclasses import replace
from pathlib import Path

from scalewise.launch.this_machine import cache_folder
from scalewise.records.codec import read_json_or_none, write_json
from scalewise.records.machine import MachineFacts, PeakRates
from scalewise.records.spec import RunSpec


def seat_of(facts: MachineFacts, spec: RunSpec) -> PeakRates:
    """The device, cores and threads of a rank of this run, as PeakRates whose rates are empty."""
    if spec.device == "cuda":
        name, cores, threads = facts.gpus[0].name if facts.gpus else "", 0, 0
    else:
        name, cores, threads = facts.cpu_model, len(spec.shares[0]) if spec.shares else 0, spec.threads_per_rank or 0
    return PeakRates(spec.device, name, cores, threads, facts.versions.get("torch", ""), 0.0, {}, 0.0)


def same_seat(a: PeakRates, b: PeakRates) -> bool:
    """Tells whether both are about the same device, cores and threads, under the same torch."""
    return _key(a) == _key(b)


def kept_peaks(seat: PeakRates) -> PeakRates | None:
    """The last measurement for this device, cores and threads, or None."""
    kept = read_json_or_none(_path(seat), PeakRates)
    return kept if kept is not None and same_seat(kept, seat) else None


def all_kept_peaks(facts: MachineFacts) -> tuple[PeakRates, ...]:
    """All kept measurements of this machine's devices."""
    names = {facts.cpu_model, *(gpu.name for gpu in facts.gpus)}
    found = []
    for path in sorted(cache_folder().glob("peak-*.json")):
        kept = read_json_or_none(path, PeakRates)
        if kept is not None and kept.name in names and kept.torch == facts.versions.get("torch", ""):
            found.append(kept)
    return tuple(found)


def keep_peaks(measured: PeakRates) -> PeakRates:
    """Keeps a measurement, with the higher of its and the last rates: a busy machine can only make a rate too low."""
    last = kept_peaks(measured)
    if last is not None:
        names = {*last.flops_per_second, *measured.flops_per_second}
        rates = {
            name: max(last.flops_per_second.get(name, 0.0), measured.flops_per_second.get(name, 0.0)) for name in names
        }
        copy = max(last.copy_bytes_per_second, measured.copy_bytes_per_second)
        measured = replace(measured, flops_per_second=rates, copy_bytes_per_second=copy)
    path = _path(measured)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, measured)
    except OSError:
        return measured
    return measured


def _key(peaks: PeakRates) -> tuple[object, ...]:
    return peaks.device, peaks.name, peaks.cores, peaks.threads, peaks.torch


def _path(peaks: PeakRates) -> Path:
    return cache_folder() / f"peak-{hashlib.sha256(repr(_key(peaks)).encode()).hexdigest()[:16]}.json"
