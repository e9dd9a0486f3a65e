"""Runs the benchmarks: `python -m bench [BENCHMARK ...] [--quick] [--json PATH]`; without a name, all of them.

`wild` needs a folder of training scripts: `python -m bench wild --from FOLDER`. `revisions` needs a commit:
`python -m bench revisions --before REV`. `clusters` needs a table of measured steps:
`python -m bench clusters --from TABLE.csv`.
"""

import argparse
import importlib
import json
import platform
import sys
from pathlib import Path

from bench.scripts.unseen_sets import SETS
from scalewise.errors import BadRequest

ALONE = (
    "overhead",
    "start",
    "launchers",
    "agreement",
    "examination",
    "doctor",
    "parity",
    "rehearse",
    "unseen",
    "shapes",
    "strategies",
    "shaped_hosts",
    "cluster",
)
BENCHMARKS = (*ALONE, "wild", "revisions", "clusters")  # these want to be told what to compare


def main() -> None:
    """Each benchmark prints its own table; their results go into one JSON file."""
    parser = _parser()
    args = parser.parse_args()
    _check(parser, args)
    results: dict[str, object] = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "quick": args.quick,
    }
    for name in args.which or _asked(args):
        benchmark = importlib.import_module(f"bench.{name}")
        try:
            results[name] = benchmark.run(quick=args.quick, cuda=args.cuda, **_own_options(args).get(name, {}))
        except BadRequest as error:
            parser.exit(1, f"{error.sentence} {error.hint}".strip() + "\n")
        sys.stdout.flush()
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("which", nargs="*", metavar="BENCHMARK", help=f"any of {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a look, not a result")
    parser.add_argument("--cuda", action="store_true", help="overhead and doctor on the GPU instead of the CPU")
    parser.add_argument("--json", type=Path, help="write the results here, too")
    wild = parser.add_argument_group("wild", "training scripts of your own")
    wild.add_argument("--from", dest="folder", type=Path, metavar="FOLDER|TABLE", help="holds the scripts and "
                      "wild.toml; clusters: the table of measured steps")  # fmt: skip
    wild.add_argument("--only", action="append", default=[], metavar="NAME", help="this script; may be given again")
    wild.add_argument("--verbs", default="run,doctor,rehearse", help="[default: %(default)s]")
    wild.add_argument("--results", type=Path, help="kept here, and continued from here; default: in FOLDER")
    parser.add_argument("--set", default="unseen", choices=SETS, help="unseen: which models: "
                        + "; ".join(f"{name}: {one.told}" for name, one in SETS.items()))  # fmt: skip
    parser.add_argument("--minutes", type=float, default=60.0, help="unseen: for the runs, at most")
    parser.add_argument("--skip", type=int, default=0, help="unseen: leave out so many models, the first of the set")
    parser.add_argument("--most", type=int, help="unseen: so many models at most, the first that are not left out")
    parser.add_argument("--runs", type=Path, help="unseen: folder for the runs, or with runs to judge again")
    parser.add_argument("--learn", action="append", default=[], type=Path, metavar="FOLDER", help="unseen: learn from "
                        "these runs what errors predictions expect; sittings learnt before stay")  # fmt: skip
    parser.add_argument("--kills", type=int, default=0, help="cluster: also kill so many processes at random")
    parser.add_argument("--before", metavar="REV", help="revisions: the commit, or a folder of its files, to compare "
                        "the working tree with")  # fmt: skip
    clusters = parser.add_argument_group("clusters", "a table of steps measured on placements of a cluster")
    clusters.add_argument("--hold-back", metavar="RULE", help="nodes>2, gpus>4 or each; default: what the table allows")
    clusters.add_argument("--link", action="append", default=[], metavar="CLUSTER=LINK", help="joins a cluster's nodes")
    clusters.add_argument("--plots", type=Path, metavar="FOLDER", help="write the plots there; unseen: of --runs")
    return parser


def _check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Ends with a sentence if a benchmark is not there, or lacks what it is to look at."""
    unknown = [name for name in args.which if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; choose from {', '.join(BENCHMARKS)}")
    if not args.minutes > 0:
        parser.error(f"--minutes {args.minutes:g} leaves no time to measure")
    for name, given, wanted in (
        ("wild", args.folder, "--from FOLDER, a folder with training scripts and their wild.toml"),
        ("clusters", args.folder, "--from TABLE.csv, a table of measured steps"),
        ("revisions", args.before, "--before REV, the commit to compare the working tree with"),
    ):
        if name in args.which and given is None:
            parser.error(f"{name} needs {wanted}")


def _asked(args: argparse.Namespace) -> list[str]:
    """The benchmarks of a call that names none: those that need nothing, and those that were given what they need."""
    wild = ["wild"] if args.folder is not None and args.folder.is_dir() else []
    return [*ALONE, *wild, *(["revisions"] if args.before is not None else [])]


def _own_options(args: argparse.Namespace) -> dict[str, dict[str, object]]:
    """The options that only one benchmark has, by its name."""
    return {
        "wild": {
            "folder": args.folder,
            "only": args.only,
            "verbs": args.verbs.split(","),
            "results": args.results,
        },
        "revisions": {"before": args.before},
        "cluster": {"kills": args.kills},
        "unseen": {
            "which": args.set,
            "folder": args.runs,
            "minutes": args.minutes,
            "skip": args.skip,
            "most": args.most,
            "learn_from": args.learn,
            "plots": args.plots,
        },
        "clusters": {
            "folder": args.folder,
            "hold_back": args.hold_back,
            "links": args.link,
            "plots": args.plots,
        },
    }


if __name__ == "__main__":
    main()
