"""Facts of the machine, and the search for an instruction set that really works."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scalewise.launch import nvml, this_machine
from scalewise.launch.forkserver import Servers
from scalewise.launch.this_machine import machine_facts, probe_precisions
from scalewise.records.orders import ProbeOrder

SIGILL_STATUS = -4


class FakeServer:
    """Lets chosen precisions die under chosen caps."""

    def __init__(self, statuses: dict[tuple[str, str], int]) -> None:
        self.statuses = statuses
        self.orders: list[ProbeOrder] = []

    def order(self, order: ProbeOrder) -> None:
        self.orders.append(order)

    def wait_for(self, kind: str, timeout_seconds: float) -> dict[str, Any]:
        last = self.orders[-1]
        return {"event": kind, "code": self.statuses.get((last.precision, last.isa_cap), 0)}


@pytest.mark.processes
def test_facts_are_found_once_and_then_read_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: Servers
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    facts = machine_facts(servers)
    assert facts.cores and facts.memory_bytes > 1 << 28
    assert {probe.precision for probe in facts.probes} == {"float32", "bfloat16", "float16"}
    assert [probe.result for probe in facts.probes if probe.isa_cap == facts.isa_cap] == ["works"] * 3
    assert facts.versions["torch"].startswith("2.")
    untouched = Servers()
    assert machine_facts(untouched) == facts
    assert not untouched._servers


def test_a_broken_cache_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: Servers) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    facts = machine_facts(servers)
    (cached,) = tmp_path.glob("scalewise/*.json")
    cached.write_text("{")
    assert machine_facts(servers) == facts
    cached.unlink()
    cached.parent.rmdir()
    cached.parent.write_text("a file where the folder should be")
    assert machine_facts(servers) == facts


def test_nothing_is_capped_where_everything_works() -> None:
    probes, cap = probe_precisions(FakeServer({}))  # type: ignore[arg-type]
    assert (cap, len(probes)) == ("", 3)


def test_the_widest_cap_that_lets_all_precisions_live_is_chosen() -> None:
    dies = {("bfloat16", cap): SIGILL_STATUS for cap in ("", "AVX512_CORE_FP16")}
    probes, cap = probe_precisions(FakeServer(dies))  # type: ignore[arg-type]
    assert cap == "AVX512_CORE"
    assert [probe.result for probe in probes if probe.precision == "bfloat16"] == ["SIGILL", "SIGILL", "works"]


def test_an_error_that_is_no_death_needs_no_cap() -> None:
    probes, cap = probe_precisions(FakeServer({("float16", ""): 3}))  # type: ignore[arg-type]
    assert (cap, probes[2].result) == ("", this_machine.RAISES)


def test_when_nothing_helps_the_narrowest_cap_stays() -> None:
    dies = {("bfloat16", cap): SIGILL_STATUS for cap in this_machine.CAPS}
    assert probe_precisions(FakeServer(dies))[1] == "AVX2"  # type: ignore[arg-type]


class FakeGpu:
    """A driver's library with one GPU that tells some things and not others."""

    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0
    nvmlClocksThrottleReasonGpuIdle = 1
    nvmlClocksThrottleReasonSwPowerCap = 4
    nvmlClocksThrottleReasonNone = 0
    nvmlClocksThrottleReasonAll = 5

    def __getattr__(self, name: str) -> Any:
        answers: dict[str, Any] = {
            "nvmlDeviceGetName": b"H200",
            "nvmlDeviceGetUUID": "GPU-1",
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=10, used=4),
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=50),
            "nvmlDeviceGetClockInfo": 1425,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 4,
            "nvmlDeviceGetTemperature": 60,
        }
        if name not in answers:
            raise AttributeError(name)
        return lambda *_: answers[name]


def test_a_gpu_is_sampled_with_reasons_by_name_and_gaps_where_it_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_library", FakeGpu)
    monkeypatch.setattr(nvml, "_handles", lambda: ("gpu",))
    (fact,) = nvml.facts()
    (sample,) = nvml.samples()
    assert (fact.name, fact.memory_bytes, fact.uuid) == ("H200", 10, "GPU-1")
    assert (sample.utilisation, sample.memory_bytes, sample.sm_clock_mhz) == (0.5, 4, 1425)
    assert sample.power_watts is None
    assert sample.throttle_reasons == ("SwPowerCap",)


def test_without_a_driver_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_library", lambda: None)
    assert (nvml.facts(), nvml.samples(), nvml.driver_version()) == ((), (), None)
