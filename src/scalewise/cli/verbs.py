"""The verbs in workflow order, each a short pipeline of values; rooms are imported only when a verb needs them."""

import errno
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from scalewise import __version__
from scalewise.cli import exit_codes
from scalewise.cli.cluster import goes_to_slurm, noted, send, slurm_option, slurm_options
from scalewise.cli.doctor_options import doctor_options
from scalewise.cli.exit_codes import BAD_REQUEST, DONE, DOUBTFUL, FAILED
from scalewise.cli.options import (
    author_options,
    device_option,
    extrapolate_options,
    out_option,
    rehearse_options,
    report_options,
)
from scalewise.cli.parity_options import parity_options
from scalewise.cli.strategies_options import strategies_options
from scalewise.errors import BadRequest, ReaderGone
from scalewise.records.spec import LauncherName

if TYPE_CHECKING:
    from scalewise.cli.present import ResultFile
    from scalewise.console.output import Output
    from scalewise.jobs.reporter import Reporter

_as_json = click.option("--json", "as_json", is_flag=True, help="Give the result as JSON on stdout.")
_in_place = click.option("--in-place", is_flag=True, help="Let the script work in this folder itself and write its "
                         "files there.  [default: in a private view of it]")  # fmt: skip
_quiet = click.option("--quiet", "-q", is_flag=True, help="No narration, only results and errors.")


class _InWorkflowOrder(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_InWorkflowOrder,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done; 1 bad request; 2 a run failed; 3 finished, but not to be trusted (see the caveats).",
)
@click.version_option(__version__, prog_name="scalewise")
def verbs() -> None:
    """Tells how a PyTorch training script uses parallel hardware, without editing it."""


@verbs.command()
@click.option("--measure", is_flag=True, help="Also measure how fast a device is, and what lies between ranks.")
@click.option("--nodes", type=int, default=1, help="With --measure and --launcher slurm: also what lies between hosts, "
              "as a link file for rehearse.")  # fmt: skip
@slurm_options
@out_option
@_as_json
@_quiet
def machine(measure: bool, nodes: int, out: Path, as_json: bool, quiet: bool, **options: Any) -> int:
    """What is here: cores, GPUs, versions, the precisions that really work, and what was measured of it."""
    from scalewise.jobs.as_json import machine_json
    from scalewise.jobs.machine_probes import look
    from scalewise.report.documents.machine_document import machine_document

    output, reporter = _streams(quiet)
    if nodes != 1 and (not measure or nodes < 1 or options["launcher"] != "slurm"):
        raise BadRequest(f"--nodes {nodes} needs hosts to measure between.", "Add: --measure --launcher slurm.")
    if goes_to_slurm(options):
        return send(reporter, {**options, "out": out, "again": measure}, nodes)
    facts, probes = look(measure, reporter, link=nodes == 1)
    _present(output, machine_json(facts, probes) if as_json else machine_document(facts, probes))
    if nodes > 1:
        from scalewise.jobs.host_links import measure_host_links

        path, most = measure_host_links(nodes, out, reporter)
        per_node = f" --per-node {most}" if most > 1 else ""
        example = f"scalewise rehearse train.py --ranks {4 * nodes * most}{per_node} --link-file {path}"
        output.say(f"between hosts: {path}; predict with it: {example}")
    return DONE


@verbs.command(context_settings={"ignore_unknown_options": False})
@click.argument("what", metavar="SCRIPT.py|SUITE")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--ranks", default=None, help="World sizes of a script, such as 1,2,4.  [default: 1]")
@click.option("--repeat", type=int, default=None, help="Fresh runs of each arm, interleaved.  [default: 1]")
@click.option("--change", multiple=True, metavar="WHAT", help="A further arm with one thing changed from outside: "
              "remove_communication, sleep_before_backward:0.01, slow_rank:0.02@0, emulate_link:1ms,1GB/s, workers:4, "
              "or a fix that the doctor applies, such as no_sync:window=4.")  # fmt: skip
@click.option("--emulate-link", default=None, metavar="LATENCY,RATE", help="Hold messages back as a link of, say, "
              "1ms,1GB/s would.")  # fmt: skip
@click.option("--turns", is_flag=True, help="Let the arms take turns step by step: small differences show.")
@click.option("--inspect", is_flag=True, help="One more run of each arm, not timed: memory by purpose, transfers, "
              "who works when, gradients.")  # fmt: skip
@click.option("--trace", type=click.Path(path_type=Path, dir_okay=False), default=None, help="Also write a step of all "
              "ranks as a trace for ui.perfetto.dev; inspects.")  # fmt: skip
@click.option("--plain", is_flag=True, help="Run as `python SCRIPT.py`: one process, no process group.")
@click.option("--devices", type=int, default=None, metavar="N", help="Show each process N GPUs; where fewer are "
              "there, all are stand-ins on one GPU or on the CPU, with real copies between them.")  # fmt: skip
@device_option
@click.option("--launcher", type=click.Choice(get_args(LauncherName)), default=None, help="[default: fork]")
@click.option("--steps", type=int, default=None, metavar="N", help="End each run when every rank has made so many "
              "steps.  [default: the script ends it]")  # fmt: skip
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="An environment variable for the script.")
@click.option("--limit", type=float, default=None, metavar="SECONDS", help="End a run that takes longer.")
@click.option("--stall", type=float, default=None, metavar="SECONDS", help="End a run that stands still so long.")
@click.option("--nodes", default=None, metavar="N", help="Hosts on which the ranks lie, equally many on each, for the "
              "launchers slurm and torchrun.  [default: 1]")  # fmt: skip
@slurm_option
@click.option("--node-rank", type=int, default=0, help="Number of this host, where it is started by hand on each.")
@click.option("--master", default="", metavar="HOST:PORT", help="Where host 0 listens.")
@click.option("--full", is_flag=True, help="A suite's own sizes, even where the machine is small for them.")
@_in_place
@out_option
@click.option("--again", is_flag=True, help="Measure anew, beside what was measured before.")
@_as_json
@_quiet
def run(what: str, args: tuple[str, ...], as_json: bool, quiet: bool, **options: Any) -> int:
    """Run a suite, or a script of your own: scalewise run train.py --ranks 1,2 -- --batch 64

    The same command continues where it was interrupted.
    """
    from scalewise.cli.request import requested_measurement, requested_nodes, spelled
    from scalewise.jobs.measure import Where, measure
    from scalewise.jobs.requests import suite_of

    output, reporter = _streams(quiet)
    suite, where = (
        suite_of(requested_measurement(what, args, options), spelled),
        Where(options["out"], options["again"]),
    )
    if goes_to_slurm({**options, "launcher": "slurm" if suite.under_slurm else options["launcher"]}):
        return send(reporter, options, suite.most_nodes, suite.files(Path(what)))
    folder, complete = measure(suite, reporter, where, requested_nodes(options))
    code = _show(output, folder.path, as_json, options["trace"])
    output.say(f"kept in {folder.path}; see it again with: scalewise show {folder.path}")
    return code if complete else FAILED


@verbs.command(epilog="Exit codes: 0 nothing found; 2 something found, or the script failed; 1 bad request.")
@doctor_options
@_in_place
@_as_json
@_quiet
def doctor(script: str | None, args: tuple[str, ...], as_json: bool, quiet: bool, **options: Any) -> int:
    """What is wrong with a script, proved and priced: scalewise doctor train.py --ranks 2 -- --batch 64"""
    output, reporter = _streams(quiet)
    if options["list_checks"] or options["explain"]:
        from scalewise.doctor.pages import explain_text, list_text

        output.show(list_text() if options["list_checks"] else explain_text(options["explain"]))
        return DONE
    from scalewise.cli.request import requested_diagnosis
    from scalewise.jobs.as_json import diagnosis_json
    from scalewise.jobs.diagnose import diagnose_script, observing_suite
    from scalewise.report.documents.diagnosis_document import diagnosis_document
    from scalewise.report.html import write_page
    from scalewise.report.sarif import write_sarif

    request = requested_diagnosis(script, args, options)
    if goes_to_slurm(options):
        observing_suite(request)  # a request that cannot be done is refused before it is queued
        return send(reporter, options, options["nodes"], [request.script])
    examined = diagnose_script(request, reporter)
    document = diagnosis_document(examined.diagnosis, examined.words)
    page, log = (options["html"], write_page, document), (options["sarif"], write_sarif, examined.diagnosis)
    _present(output, diagnosis_json(examined) if as_json else document, page, log)
    return examined.exit_code


@verbs.command(epilog="Exit codes: 0 the same; 2 they differ; 3 it cannot be told; 1 bad request.")
@parity_options
@_in_place
@_as_json
@_quiet
def parity(script: str, args: tuple[str, ...], as_json: bool, quiet: bool, **options: Any) -> int:
    """Do N ranks compute what one computes? scalewise parity train.py --ranks 2 -- --batch 64"""
    from scalewise.cli.parity_request import requested_parity
    from scalewise.jobs.parity import parity as compared
    from scalewise.report.documents.parity_document import parity_document
    from scalewise.report.html import write_page

    output, reporter = _streams(quiet)
    answer = compared(requested_parity(script, args, options), reporter)
    document = parity_document(answer)
    _present(output, answer.as_json() if as_json else document, (options["html"], write_page, document))
    return answer.exit_code


@verbs.command(epilog="Exit codes: 0 done; 1 bad request; 2 no strategy has numbers.")
@strategies_options
@_in_place
@_as_json
@_quiet
def strategies(script: str, args: tuple[str, ...], as_json: bool, quiet: bool, **options: Any) -> int:
    """Which way of parallel training is best here? scalewise strategies train.py --ranks 2 -- --batch 64"""
    from scalewise.cli.strategies_request import requested_strategies
    from scalewise.jobs.strategies import strategies as compared
    from scalewise.report.documents.strategies_document import strategies_document
    from scalewise.report.html import write_page
    from scalewise.report.pdf import write_pdf

    output, reporter = _streams(quiet)
    answer = compared(requested_strategies(script, args, options), reporter)
    document = strategies_document(answer)
    page, pdf = (options["html"], write_page, document), (options["pdf"], write_pdf, document)
    _present(output, answer.as_json() if as_json else document, page, pdf)
    return DONE if answer.applied else FAILED


@verbs.command(
    epilog=(
        "Exit codes: 0 done; 1 bad request; 2 a number of ranks has no prediction, or real ranks that were to check "
        "one failed; 3 what was measured lies outside the interval that was predicted for it."
    )
)
@rehearse_options
@_as_json
@_quiet
def rehearse(script: str, args: tuple[str, ...], as_json: bool, quiet: bool, **options: Any) -> int:
    """What a script would do on N GPUs: scalewise rehearse train.py --ranks 2,8,64 --link nvlink4 -- --batch 64"""
    from scalewise.cli.request import requested_rehearsal

    output, reporter = _streams(quiet)
    request = requested_rehearsal(script, args, options)
    from scalewise.jobs.as_json import rehearsal_json
    from scalewise.jobs.rehearse import concluded
    from scalewise.jobs.rehearse import rehearse as rehearsed
    from scalewise.report.documents.rehearsal_document import rehearsal_document
    from scalewise.report.html import write_page

    answer = rehearsed(request, reporter)
    found = concluded(answer, request)
    document = rehearsal_document(answer, found)
    _present(output, rehearsal_json(answer, found) if as_json else document, (options["html"], write_page, document))
    return exit_codes.rehearsal_code(answer)


@verbs.command()
@extrapolate_options
@_as_json
@_quiet
def extrapolate(source: Path, as_json: bool, quiet: bool, **options: Any) -> int:
    """What more nodes would do, from steps measured on few: scalewise extrapolate steps.csv --nodes 4,8,16

    The table has a row for each placement that was measured, with model, nodes, gpus, local_batch and step_s; a folder
    of runs is one as well.
    """
    from scalewise.cli.request import requested_extrapolation
    from scalewise.console.output import Output
    from scalewise.jobs.as_json import cluster_json
    from scalewise.jobs.extrapolate import extrapolate_table
    from scalewise.report.documents.cluster_document import cluster_document
    from scalewise.report.html import write_page

    output = Output(quiet)
    answer = extrapolate_table(requested_extrapolation(source, options))
    document = cluster_document(answer)
    _present(output, cluster_json(answer) if as_json else document, (options["html"], write_page, document))
    return DONE


@verbs.command()
@click.option("--full", is_flag=True, help="The course's own sizes, even where the machine is small for them.")
@device_option
@out_option
@click.option("--reports", type=click.Path(path_type=Path, file_okay=False), default=Path("reports"), show_default=True)
@click.option("--again", is_flag=True, help="Measure anew, beside what was measured before.")
@click.option(
    "--predict", is_flag=True, help="Ask before measuring what you expect, and show it beside what was measured."
)
@slurm_options
@author_options
@_as_json
@_quiet
def course(reports: Path, as_json: bool, quiet: bool, **options: Any) -> int:
    """The whole course: homework 1 to 3 and practical 7 are run, and a report is written of each.

    The same command continues where it was interrupted.
    """
    from scalewise.jobs.course import CourseRequest, run_suites, write_pdf_or_page
    from scalewise.jobs.measure import Where

    if options["predict"] and quiet:
        raise BadRequest("--predict asks questions, and --quiet hides them.", "Leave one of the two out.")
    output, reporter = _streams(quiet)
    if goes_to_slurm(options):
        if options["predict"]:
            raise BadRequest("--predict asks questions, and a job has nobody to ask.", "Leave --predict out.")
        return send(reporter, options)
    where, read_line = Where(options["out"], options["again"]), line_typed if options["predict"] else None
    folders, complete = run_suites(reporter, CourseRequest(where, options["device"], options["full"], read_line))
    files, written = write_pdf_or_page(reporter, folders, report_options(options, reports))
    if as_json:
        output.json({"runs": [str(path) for path in folders], "reports": [str(path) for path in files]})
    else:
        for path in files:
            output.show(str(path))
    return (
        max(map(exit_codes.folder_code, folders), key=exit_codes.SEVERITY.index, default=FAILED)
        if complete and written
        else FAILED
    )


def line_typed() -> str:
    """Returns the next line of standard input; empty if nobody can type: it is at its end, or closed."""
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "replace":
        sys.stdin.reconfigure(errors="replace")  # letters of another encoding are no number, and no reason to end
    return sys.stdin.readline() if sys.stdin is not None else ""


@verbs.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--trace", type=click.Path(path_type=Path, dir_okay=False), default=None, help="Also write a step of its "
              "inspected run as a trace.")  # fmt: skip
@_as_json
@_quiet
def show(folder: Path, trace: Path | None, as_json: bool, quiet: bool) -> int:
    """Tables of a suite's folder, or of one run in it."""
    from scalewise.console.output import Output

    return _show(Output(quiet), folder, as_json, trace)


@verbs.command()
@click.argument("folders", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("reports"), show_default=True)
@click.option("--format", "formats", default="pdf,html,tables", show_default=True, help="What to write.")
@click.option(
    "--link-raw-rows", is_flag=True, help="Let the HTML link to the measured steps in the folder of the runs."
)
@author_options
@_quiet
def report(folders: tuple[Path, ...], out: Path, formats: str, link_raw_rows: bool, quiet: bool, **options: Any) -> int:
    """PDF, HTML and tables of a suite's folder, or of every suite in a folder.

    Several folders of one suite, measured on several machines, make one report about the first: what the others
    measured stands where it would have predictions.
    """
    from scalewise.console.output import Output
    from scalewise.report.write import parse_formats, suite_folders, write_merged_report, write_reports

    output = Output(quiet)
    wanted = report_options(options, out, formats=parse_formats(formats), link_raw_rows=link_raw_rows)
    first, *others = folders
    if others:
        files = write_merged_report(first, others, wanted, output.say)
    else:
        files = write_reports(suite_folders(first), wanted, output.say)
    for path in files:
        output.show(str(path))
    return DONE


@verbs.command()
@click.argument("homework")
@click.option(
    "--runs",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs"),
    show_default=True,
    help="Where it was measured.",
)
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), default=None, help="[default: HOMEWORK-NAME.zip]"
)
@author_options
@_quiet
def handin(homework: str, runs: Path, out: Path | None, quiet: bool, **options: Any) -> int:
    """A zip to hand in: scripts, report and commands of a homework, tried in an empty folder.

    scalewise handin homework2 --name "Ada Lovelace" --id 1815
    """
    from scalewise.jobs.course import hand_in

    output, reporter = _streams(quiet)
    output.show(str(hand_in(homework, runs, out, report_options(options, Path("reports")), reporter)))
    return DONE


@verbs.command(
    epilog="Exit codes: 0 nothing speaks against it; 2 something is not fulfilled, or the script failed; 1 bad request."
)
@click.argument("task", metavar="TASK")
@click.argument("script", metavar="SCRIPT.py", type=click.Path(path_type=Path))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--ranks", type=int, default=2, show_default=True)
@click.option("--on", type=click.Choice(["cpu"]), default=None, help="Let CPU cores stand in for GPUs, as "
              "they do where there are too few.")  # fmt: skip
@device_option
@click.option("--limit", type=float, default=120.0, show_default=True, metavar="SECONDS", help="Judge what was seen "
              "until then.")  # fmt: skip
@out_option
@_as_json
@_quiet
def check(task: str, script: Path, args: tuple[str, ...], as_json: bool, quiet: bool, **options: Any) -> int:
    """Does a script do what a task of the course asks? scalewise check homework2 my_script.py

    TASK: homework1, homework2, homework3, practical5 to practical8, or the name of a course's script.
    """
    from scalewise.course.check_document import check_document
    from scalewise.jobs.as_json import verdict_json
    from scalewise.jobs.check import check as checked
    from scalewise.jobs.check import requested_check

    output, reporter = _streams(quiet)
    verdict = checked(requested_check(task, script, args, options), reporter)
    _present(output, verdict_json(verdict) if as_json else check_document(verdict))
    return verdict.exit_code


@verbs.command()
@click.argument("a", metavar="A", type=click.Path(path_type=Path))
@click.argument("b", metavar="B", type=click.Path(path_type=Path))
@click.option("--allow", multiple=True, help="A difference in the work that is meant, such as precision.")
@_as_json
@_quiet
def compare(a: Path, b: Path, allow: tuple[str, ...], as_json: bool, quiet: bool) -> int:
    """Is B faster than A, by how much, or can it not be told?"""
    from scalewise.console.output import Output
    from scalewise.jobs.compare import compare as compared
    from scalewise.report.documents.comparison_document import comparison_document

    comparisons = compared(a, b, allow)
    _present(Output(quiet), comparisons if as_json else comparison_document(comparisons))
    if all(one.answer == "refused" for one in comparisons):
        return BAD_REQUEST
    return DOUBTFUL if any(caveat.severity == "doubt" for one in comparisons for caveat in one.caveats) else DONE


def _streams(quiet: bool) -> "tuple[Output, Reporter]":
    """Returns the output for results, and the reporter that tells what a job does meanwhile."""
    from scalewise.console.output import Output
    from scalewise.console.terminal_reporter import TerminalReporter

    output = Output(quiet)
    return output, noted(TerminalReporter(output))


def _show(output: "Output", folder: Path, as_json: bool, trace: Path | None) -> int:
    from scalewise.analysis.summary import summarise
    from scalewise.cli.present import trace_file
    from scalewise.jobs.as_json import measurement_json
    from scalewise.records.load import load
    from scalewise.report.documents.measurement_document import measurement_document

    loaded = load(folder)
    analysis = summarise(loaded)
    result = measurement_json(analysis) if as_json else measurement_document(analysis)
    _present(output, result, (trace, trace_file, loaded))
    return exit_codes.measurement_code(analysis)


def _present(output: "Output", result: object, *files: "ResultFile") -> None:
    from scalewise.cli.present import present

    present(output, result, *files)


def main(args: Sequence[str] | None = None) -> None:
    """Runs a verb and exits with its code; whatever a user can cause ends in a sentence, not in a traceback."""
    try:
        code = verbs.main(args, standalone_mode=False, obj=tuple(args) if args is not None else None)
    except BadRequest as error:
        from scalewise.console.output import Output

        Output().refuse(error)
        code = BAD_REQUEST
    except click.ClickException as error:
        error.show()
        code = BAD_REQUEST
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        from scalewise.console.output import Output

        name = str(error.filename)
        Output().refuse(BadRequest(f"{name[:60]}... is too long for the name of a file: {len(name)} letters."))
        code = BAD_REQUEST
    except (click.Abort, KeyboardInterrupt):
        sys.stderr.write(exit_codes.interrupted(sys.argv[1:] if args is None else args))
        code = FAILED
    except ReaderGone:
        sys.stdout = None  # what is still in its buffer must not be written at exit, either
        code = DONE
    sys.exit(code)
