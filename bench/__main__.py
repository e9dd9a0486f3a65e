"""Runs the benchmarks: `python -m bench [BENCHMARK ...] [--quick] [--json PATH]`; without a name, all of them."""

import argparse
import importlib
import json
import platform
import sys
from pathlib import Path

BENCHMARKS = ("overhead", "start", "launchers", "agreement", "examination", "doctor", "rehearse", "shapes")


def main() -> None:
    """Each benchmark prints its own table; their results go into one JSON file."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("which", nargs="*", metavar="BENCHMARK", help=f"any of {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a look, not a result")
    parser.add_argument("--cuda", action="store_true", help="overhead and doctor on the GPU instead of the CPU")
    parser.add_argument("--json", type=Path, help="write the results here, too")
    args = parser.parse_args()
    unknown = [name for name in args.which if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; choose from {', '.join(BENCHMARKS)}")
    results: dict[str, object] = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "quick": args.quick,
    }
    for name in args.which or BENCHMARKS:
        benchmark = importlib.import_module(f"bench.{name}")
        results[name] = benchmark.run(quick=args.quick, cuda=args.cuda)
        sys.stdout.flush()
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
