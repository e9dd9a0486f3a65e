"""The verbs in workflow order, each a short pipeline of values; rooms are imported only when a verb needs them."""

import errno
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scalewise import __version__
from scalewise.cli import exit_codes
from scalewise.cli import options as words
from scalewise.cli.cluster import goes_to_slurm, noted, send
from scalewise.cli.exit_codes import BAD_REQUEST, DONE, DOUBTFUL, FAILED
from scalewise.cli.options import report_options, with_options
from scalewise.errors import BadRequest, ReaderGone

if TYPE_CHECKING:
    from scalewise.cli.present import ResultFile
    from scalewise.console.output import Output
    from scalewise.jobs.reporter import Reporter
    from scalewise.report.document import Document


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
@with_options(*words.MACHINE)
def machine(measure: bool, nodes: int, as_json: bool, quiet: bool, **options: Any) -> int:
    """What is here: cores, GPUs, versions, the precisions that really work, and what was measured of it."""
    from scalewise.jobs.as_json import machine_json
    from scalewise.jobs.machine_probes import look
    from scalewise.report.documents.machine_document import machine_document

    output, reporter = _streams(quiet)
    if nodes != 1 and (not measure or nodes < 1 or options["launcher"] != "slurm"):
        raise BadRequest(f"--nodes {nodes} needs hosts to measure between.", "Add: --measure --launcher slurm.")
    if goes_to_slurm(options):
        return send(reporter, {**options, "again": measure}, nodes)
    facts, probes = look(measure, reporter, link=nodes == 1)
    _present(output, machine_json(facts, probes) if as_json else machine_document(facts, probes))
    if nodes > 1:
        from scalewise.jobs.host_links import measure_host_links

        path, most = measure_host_links(nodes, options["out"], reporter)
        per_node = f" --per-node {most}" if most > 1 else ""
        example = f"scalewise rehearse train.py --ranks {4 * nodes * most}{per_node} --link-file {path}"
        output.say(f"between hosts: {path}; predict with it: {example}")
    return DONE


@verbs.command()
@with_options(*words.RUN)
def run(as_json: bool, quiet: bool, **options: Any) -> int:
    """Run a suite, or a script of your own: scalewise run train.py --ranks 1,2 -- --batch 64

    The same command continues where it was interrupted.
    """
    from scalewise.cli.request import requested_measurement, requested_nodes, spelled
    from scalewise.jobs.measure import Where, measure
    from scalewise.jobs.requests import suite_of

    output, reporter = _streams(quiet)
    suite, where = suite_of(requested_measurement(options), spelled), Where(options["out"], options["again"])
    if goes_to_slurm({**options, "launcher": "slurm" if suite.under_slurm else options["launcher"]}):
        return send(reporter, options, suite.most_nodes, suite.files(Path(options["what"])))
    folder, complete = measure(suite, reporter, where, requested_nodes(options))
    code = _show(output, folder.path, as_json, options["trace"])
    output.say(f"kept in {folder.path}; see it again with: scalewise show {folder.path}")
    return code if complete else FAILED


@verbs.command(epilog="Exit codes: 0 nothing found; 2 something found, or the script failed; 1 bad request.")
@with_options(*words.DOCTOR)
def doctor(as_json: bool, quiet: bool, **options: Any) -> int:
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
    from scalewise.report.sarif import write_sarif

    request = requested_diagnosis(options)
    if goes_to_slurm(options):
        observing_suite(request)  # a request that cannot be done is refused before it is queued
        return send(reporter, options, options["nodes"], [request.script])
    examined = diagnose_script(request, reporter)
    document = diagnosis_document(examined.diagnosis, examined.words)
    log = (options["sarif"], write_sarif, examined.diagnosis)
    _present(output, diagnosis_json(examined) if as_json else document, _page(options, document), log)
    return examined.exit_code


@verbs.command(epilog="Exit codes: 0 the same; 2 they differ; 3 it cannot be told; 1 bad request.")
@with_options(*words.PARITY)
def parity(as_json: bool, quiet: bool, **options: Any) -> int:
    """Do N ranks compute what one computes? scalewise parity train.py --ranks 2 -- --batch 64"""
    from scalewise.cli.request import requested_parity
    from scalewise.jobs.parity import parity as compared
    from scalewise.report.documents.parity_document import parity_document

    output, reporter = _streams(quiet)
    answer = compared(requested_parity(options), reporter)
    document = parity_document(answer)
    _present(output, answer.as_json() if as_json else document, _page(options, document))
    return answer.exit_code


@verbs.command(epilog="Exit codes: 0 done; 1 bad request; 2 no strategy has numbers.")
@with_options(*words.STRATEGIES)
def strategies(as_json: bool, quiet: bool, **options: Any) -> int:
    """Which way of parallel training is best here? scalewise strategies train.py --ranks 2 -- --batch 64"""
    from scalewise.cli.request import requested_strategies
    from scalewise.jobs.strategies import strategies as compared
    from scalewise.report.documents.strategies_document import strategies_document
    from scalewise.report.pdf import write_pdf

    output, reporter = _streams(quiet)
    answer = compared(requested_strategies(options), reporter)
    document = strategies_document(answer)
    pdf = (options["pdf"], write_pdf, document)
    _present(output, answer.as_json() if as_json else document, _page(options, document), pdf)
    return DONE if answer.applied else FAILED


@verbs.command(
    epilog=(
        "Exit codes: 0 done; 1 bad request; 2 a number of ranks has no prediction, or real ranks that were to check "
        "one failed; 3 what was measured lies outside the interval that was predicted for it."
    )
)
@with_options(*words.REHEARSE)
def rehearse(as_json: bool, quiet: bool, **options: Any) -> int:
    """What a script would do on N GPUs: scalewise rehearse train.py --ranks 2,8,64 --link nvlink4 -- --batch 64"""
    from scalewise.cli.request import requested_rehearsal

    output, reporter = _streams(quiet)
    request = requested_rehearsal(options)
    from scalewise.jobs.as_json import rehearsal_json
    from scalewise.jobs.rehearse import concluded
    from scalewise.jobs.rehearse import rehearse as rehearsed
    from scalewise.report.documents.rehearsal_document import rehearsal_document

    answer = rehearsed(request, reporter)
    found = concluded(answer, request)
    document = rehearsal_document(answer, found)
    _present(output, rehearsal_json(answer, found) if as_json else document, _page(options, document))
    return exit_codes.rehearsal_code(answer)


@verbs.command()
@with_options(*words.EXTRAPOLATE)
def extrapolate(as_json: bool, quiet: bool, **options: Any) -> int:
    """What more nodes would do, from steps measured on few: scalewise extrapolate steps.csv --nodes 4,8,16

    The table has a row for each placement that was measured, with model, nodes, gpus, local_batch and step_s; a folder
    of runs is one as well.
    """
    from scalewise.cli.request import requested_extrapolation
    from scalewise.jobs.as_json import cluster_json
    from scalewise.jobs.extrapolate import extrapolate_table
    from scalewise.report.documents.cluster_document import cluster_document

    output = _output(quiet)
    answer = extrapolate_table(requested_extrapolation(options))
    document = cluster_document(answer)
    _present(output, cluster_json(answer) if as_json else document, _page(options, document))
    return DONE


@verbs.command()
@with_options(*words.COURSE)
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
        _show_paths(output, files)
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
@with_options(*words.SHOW)
def show(folder: Path, trace: Path | None, as_json: bool, quiet: bool) -> int:
    """Tables of a suite's folder, or of one run in it."""
    output = _output(quiet)
    return _show(output, folder, as_json, trace)


@verbs.command()
@with_options(*words.REPORT)
def report(folders: tuple[Path, ...], out: Path, formats: str, link_raw_rows: bool, quiet: bool, **options: Any) -> int:
    """PDF, HTML and tables of a suite's folder, or of every suite in a folder.

    Several folders of one suite, measured on several machines, make one report about the first: what the others
    measured stands where it would have predictions.
    """
    from scalewise.report.write import parse_formats, suite_folders, write_merged_report, write_reports

    output = _output(quiet)
    wanted = report_options(options, out, formats=parse_formats(formats), link_raw_rows=link_raw_rows)
    first, *others = folders
    if others:
        _show_paths(output, write_merged_report(first, others, wanted, output.say))
    else:
        _show_paths(output, write_reports(suite_folders(first), wanted, output.say))
    return DONE


@verbs.command()
@with_options(*words.HANDIN)
def handin(homework: str, runs: Path, out: Path | None, quiet: bool, **options: Any) -> int:
    """A zip to hand in: scripts, report and commands of a homework, tried in an empty folder.

    scalewise handin homework2 --name "Ada Lovelace" --id 1815
    """
    from scalewise.jobs.course import hand_in

    output, reporter = _streams(quiet)
    _show_paths(output, [hand_in(homework, runs, out, report_options(options, Path("reports")), reporter)])
    return DONE


@verbs.command(
    epilog="Exit codes: 0 nothing speaks against it; 2 something is not fulfilled, or the script failed; 1 bad request."
)
@with_options(*words.CHECK)
def check(as_json: bool, quiet: bool, **options: Any) -> int:
    """Does a script do what a task of the course asks? scalewise check homework2 my_script.py

    TASK: homework1, homework2, homework3, practical5 to practical8, or the name of a course's script.
    """
    from scalewise.cli.request import requested_check
    from scalewise.course.check_document import check_document
    from scalewise.jobs.as_json import verdict_json
    from scalewise.jobs.check import check as checked

    output, reporter = _streams(quiet)
    verdict = checked(requested_check(options), reporter)
    _present(output, verdict_json(verdict) if as_json else check_document(verdict))
    return verdict.exit_code


@verbs.command()
@with_options(*words.COMPARE)
def compare(a: Path, b: Path, allow: tuple[str, ...], as_json: bool, quiet: bool) -> int:
    """Is B faster than A, by how much, or can it not be told?"""
    from scalewise.jobs.compare import compare as compared
    from scalewise.report.documents.comparison_document import comparison_document

    output = _output(quiet)
    comparisons = compared(a, b, allow)
    _present(output, comparisons if as_json else comparison_document(comparisons))
    if all(one.answer == "refused" for one in comparisons):
        return BAD_REQUEST
    return DOUBTFUL if any(caveat.severity == "doubt" for one in comparisons for caveat in one.caveats) else DONE


def _output(quiet: bool) -> "Output":
    from scalewise.console.output import Output

    return Output(quiet)


def _streams(quiet: bool) -> "tuple[Output, Reporter]":
    """Returns the output for results, and the reporter that tells what a job does meanwhile."""
    from scalewise.console.terminal_reporter import TerminalReporter

    output = _output(quiet)
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


def _show_paths(output: "Output", paths: Sequence[Path]) -> None:
    for path in paths:
        output.show(str(path))


def _page(options: Mapping[str, Any], document: "Document") -> "ResultFile":
    from scalewise.report.html import write_page

    return options["html"], write_page, document


def _present(output: "Output", result: object, *files: "ResultFile") -> None:
    from scalewise.cli.present import present

    present(output, result, *files)


def main(args: Sequence[str] | None = None) -> None:
    """Runs a verb and exits with its code; whatever a user can cause ends in a sentence, not in a traceback."""
    try:
        code = verbs.main(args, standalone_mode=False, obj=tuple(args) if args is not None else None)
    except BadRequest as error:
        _output(quiet=False).refuse(error)
        code = BAD_REQUEST
    except click.ClickException as error:
        error.show()
        code = BAD_REQUEST
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        name = str(error.filename)
        _output(quiet=False).refuse(
            BadRequest(f"{name[:60]}... is too long for the name of a file: {len(name)} letters.")
        )
        code = BAD_REQUEST
    except (click.Abort, KeyboardInterrupt):
        sys.stderr.write(exit_codes.interrupted(sys.argv[1:] if args is None else args))
        code = FAILED
    except ReaderGone:
        sys.stdout = None  # what is still in its buffer must not be written at exit, either
        code = DONE
    sys.exit(code)
