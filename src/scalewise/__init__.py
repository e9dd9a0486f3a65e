"""scalewise tells how a PyTorch training script uses parallel hardware; `scalewise.measure` and others from Python."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scalewise.errors import BadRequest as Error
    from scalewise.jobs.calls import compare, diagnose, measure, parity, rehearse, show
    from scalewise.jobs.reporter import Lines, Reporter
    from scalewise.jobs.strategies_call import strategies

__version__ = "0.1.0"
__all__ = [
    "Error", "Lines", "Reporter", "__version__", "compare", "diagnose", "measure", "parity", "rehearse", "show",
    "strategies",
]  # fmt: skip

_PLACES = {"Error": "errors.BadRequest", "Lines": "jobs.reporter.Lines", "Reporter": "jobs.reporter.Reporter"}
_PLACES |= {name: f"jobs.calls.{name}" for name in ("compare", "diagnose", "measure", "parity", "rehearse", "show")}
_PLACES["strategies"] = "jobs.strategies_call.strategies"


if not TYPE_CHECKING:  # a type checker knows the names from above

    def __getattr__(name: str) -> object:
        """A public name, imported when it is first used: ranks and `--help` import this package, too."""
        if name not in _PLACES:
            raise AttributeError(f"module 'scalewise' has no attribute {name!r}")
        import importlib

        module, _, attribute = _PLACES[name].rpartition(".")
        found: object = getattr(importlib.import_module(f"scalewise.{module}"), attribute)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
