"""Detects ranks of one machine that together use more threads than it has cores."""

from collections import defaultdict

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding, Replayed, priced_by_time
from scalewise.records.rows import StartRow
from scalewise.records.spec import Change

CHECK = Check(
    name="threads-per-rank",
    group="machine",
    severity="slow",
    detects="The ranks of one machine compute with more threads together than there are cores.",
    why="Threads of one operation wait for each other. When they take turns on a core, every operation waits for a "
    "thread that is not running, and a step can take several times as long.",
    example="torch.set_num_threads(os.cpu_count())  # in each of 4 ranks",
    fix="torch.set_num_threads(max(1, os.cpu_count() // int(os.environ['LOCAL_WORLD_SIZE'])))",
    needs="two ranks on one machine that compute on its cores",
    silent="Ranks that compute on GPUs need few cores. Torch's own choice is not the script's. It is a "
    "suspicion until a replay with fewer threads is faster.",
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Counts threads and cores of each machine, and returns one finding per machine with too many threads."""
    starts = [rank.record.start for rank in case.ranks if rank.record.start is not None]
    if any("cuda" in device for rank in case.ranks if rank.record.model for device in rank.record.model.devices):
        raise Abstain("the ranks compute on GPUs")
    by_host: dict[str, list[StartRow]] = defaultdict(list)
    for start in starts:
        by_host[start.host].append(start)
    shared = {host: rows for host, rows in by_host.items() if len(rows) > 1}
    if not shared:
        raise Abstain("no two ranks run on one machine")
    found = (_judge(case, host, rows) for host, rows in sorted(shared.items()))
    return tuple(finding for finding in found if finding is not None)


def _judge(case: Case, host: str, rows: list[StartRow]) -> Finding | None:
    cores = {core for row in rows for core in row.affinity}
    threads = [row.threads for row in rows]
    # More ranks than cores are the user's choice; several threads per rank are not.
    if not cores or sum(threads) <= max(len(cores), len(rows)):
        return None
    if not any(_chosen(row, case.run.spec.threads_per_rank) for row in rows):
        raise Abstain(
            f"torch itself chose {sum(threads)} threads for {len(cores)} cores; the script did not ask for them"
        )
    fair = max(1, len(cores) // len(rows))
    listed = f"{threads[0]} each" if len(set(threads)) == 1 else ", ".join(map(str, threads))
    return Finding(
        check=CHECK.name,
        severity="slow",
        sentence=f"{len(rows)} ranks compute with {sum(threads)} threads ({listed}) on {len(cores)} cores.",
        evidence=(
            f"torch's number of threads at the first step on {host}: "
            + ", ".join(f"rank {row.rank} {row.threads}" for row in rows),
            f"cores that these ranks may use: {len(cores)}, {fair} for each rank",
        ),
        fix=f"torch.set_num_threads({fair})  # or leave it out: torchrun sets OMP_NUM_THREADS=1",
        proof="suspected",
        ranks=tuple(row.rank for row in rows),
        steps_seen=len(case.first.windows),
        change=Change("threads", {"count": fair}),
    )


def _chosen(row: StartRow, given: int | None) -> bool:
    """Returns True if the script asked for this number: torch's default is the given one, or one thread per core."""
    return row.threads != given if given is not None else row.threads > len(row.affinity)


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Prices the finding if fewer threads are faster; if not, the threads do no harm here."""
    return priced_by_time(finding, replayed, "threads that take turns on too few cores")
