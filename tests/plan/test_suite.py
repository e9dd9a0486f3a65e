"""Tests of reading suites: what is right is read, what is wrong is all said at once."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.errors import BadRequest
from scalewise.plan.suite import ExperimentTable, load_suite, read_suite
from scalewise.records.spec import Change

HERE = Path("/suites/mine.toml")

GOOD = """
name = "mine"
title = "Mine"
about = "What it is about."

[[experiment]]
name = "strong"
title = "Strong scaling"
question = "Does it scale?"
script = "train.py"
args = ["--dim", "{dim}", "--world", "{ranks}"]
env = {DEPTH = "{dim}"}
ranks = [1, 2]
repeat = 3
scaling = "strong"
base = {ranks = 1}
changes = ["none", "remove_communication", "slow_rank:0.02@0"]
limit_seconds = 100
[experiment.axes]
dim = [1024, 2048]

[[experiment]]
name = "plain"
script = "scalewise:linear"
mode = "python"
device = "cpu"
launcher = "torchrun"
interleave = false
"""


def problems(text: str) -> list[str]:
    with pytest.raises(BadRequest) as caught:
        read_suite(text, HERE)
    head, *lines = caught.value.sentence.split("\n")
    assert str(HERE) in head
    return [line.strip() for line in lines]


def one_experiment(lines: str) -> str:
    return f'name = "mine"\n[[experiment]]\nname = "e"\nscript = "x.py"\n{lines}\n'


def test_a_suite_in_older_words_is_read_as_one_in_new_words():
    old = GOOD.replace("changes = ", "interventions = ").replace("{ranks = 1}", '{intervention = "none"}')
    new = GOOD.replace("{ranks = 1}", '{change = "none"}')
    assert read_suite(old, HERE).experiments == read_suite(new, HERE).experiments
    assert problems(one_experiment('interventions = ["slow_rank:1"]'))[0].startswith("experiment[0].changes[0]: ")
    both = one_experiment('interventions = ["none"]\nchanges = ["none"]')
    assert problems(both)[0].startswith("experiment[0].interventions: unknown field")


def test_a_good_suite_is_read_whole():
    suite = read_suite(GOOD, HERE)
    strong, plain = suite.experiments
    assert (suite.name, suite.title, suite.about, suite.source) == ("mine", "Mine", "What it is about.", GOOD)
    assert strong.script == "/suites/train.py"
    assert strong.axes == {"dim": (1024, 2048)}
    assert strong.changes == (
        (),
        (Change("remove_communication"),),
        (Change("slow_rank", {"seconds": 0.02, "rank": 0}),),
    )
    assert (strong.repeat, strong.scaling, strong.base, strong.limit_seconds) == (3, "strong", {"ranks": 1}, 100.0)
    assert len(strong.arms()) == 2 * 3 * 2
    assert (plain.script, plain.mode, plain.ranks, plain.interleave) == ("scalewise:linear", "python", (1,), False)


def test_every_error_is_reported_at_once_with_its_path():
    text = """
name = "Mine!"
titel = "x"
[[experiment]]
name = "a"
script = "scalewise:lineer"
ranks = [0, 2, 2]
args = ["--dim", "{dmi}"]
axes = {dim = [1, 1], ranks = [1]}
changes = ["slow_rank:0.02", "slow_rank:0.1@9"]
base = {dmi = 3, ranks = 7}
device = "cdua"
[[experiment]]
name = "a"
repeat = 0
env = {A = 1}
"""
    found = problems(text)
    expected = [
        "name: 'Mine!' is not a name",
        "titel: unknown field; did you mean 'title'?",
        "experiment[0].device: 'cdua' is not one of 'auto', 'cpu' or 'cuda'; did you mean 'cuda'?",
        "experiment[0].ranks[0]: 0: input should be greater than or equal to 1",
        "experiment[0].ranks[2]: 2 is named twice",
        "experiment[0].script: no built-in subject 'lineer'; did you mean 'linear'?",
        "experiment[0].args[1]: {dmi} is not an axis; did you mean 'dim'?",
        "experiment[0].axes.dim: nothing in script, args or env uses {dim}",
        "experiment[0].axes.dim: 1 is named twice",
        "experiment[0].axes.ranks: this name is taken",
        "experiment[0].changes[0]: 'slow_rank:0.02' lacks its rank",
        "experiment[0].changes[1]: there is no rank 9 among 2",
        "experiment[0].base.dmi: not an axis of this experiment; did you mean 'dim'?",
        "experiment[0].base.ranks: 7 is not among its values [0, 2, 2]",
        "experiment[1].name: 'a' is used by another experiment",
        "experiment[1].script: is required",
        "experiment[1].repeat: 0: input should be greater than or equal to 1",
        "experiment[1].env.A: 1: input should be a valid string",
    ]
    for start in expected:
        assert any(line.startswith(start) for line in found), start
    assert len(found) == len(expected)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ('device = "gpu"', "experiment[0].device: 'gpu' is not one of 'auto', 'cpu' or 'cuda'; did you mean 'cuda'?"),
        (
            'changes = ["slow_rnk:1@0"]',
            "experiment[0].changes[0]: 'slow_rnk' is not a change; did you mean 'slow_rank'? Allowed",
        ),
        ('ranks = "1,2"', "experiment[0].ranks: '1,2': input should be a valid list"),
        ("ranks = []", "experiment[0].ranks: []: list should have at least 1 item"),
        ("ranks = [1.5]", "experiment[0].ranks[0]: 1.5: input should be a valid integer"),
        ("ranks = [5000]", "experiment[0].ranks[0]: 5000: input should be less than or equal to 1024"),
        ('mode = "python"\nranks = [1, 2]', "experiment[0].ranks: mode 'python' starts one plain process"),
        ("axes = {dim = []}", "experiment[0].axes.dim: []: list should have at least 1 item"),
        ("axes = {dim = [[1]]}", "experiment[0].axes.dim[0]: [1] is not a text, a number, true or false"),
        ('axes = {"a b" = [1]}', "experiment[0].axes.a b: an axis is named by letters"),
        ("limit_seconds = -1", "experiment[0].limit_seconds: -1: input should be greater than 0"),
        ("stall_seconds = inf", "experiment[0].stall_seconds: inf: input should be a finite number"),
        ("changes = []", "experiment[0].changes: []: list should have at least 1 item"),
        ('changes = ["none", "none"]', "experiment[0].changes[1]: 'none' is named twice"),
        ("interleave = 1", "experiment[0].interleave: 1: input should be a valid boolean"),
        ("rnaks = [1]", "experiment[0].rnaks: unknown field; did you mean 'ranks'?"),
        ("zzzzzz = [1]", "experiment[0].zzzzzz: unknown field; allowed are name, script"),
        ("title = 1979-05-27", "experiment[0].title: datetime.date(1979, 5, 27): input should be a valid string"),
    ],
)
def test_a_wrong_field_is_named_with_what_is_allowed(lines, expected):
    found = problems(one_experiment(lines))
    assert any(line.startswith(expected) for line in found), found


def test_a_value_that_is_no_axis_type_gives_one_path_and_not_one_per_type():
    found = problems(one_experiment("axes = {dim = [[1]]}\nargs = ['{dim}']"))
    assert {line.split(":")[0] for line in found} == {"experiment[0].axes.dim[0]"}
    assert len(found) == 1


def test_a_suite_without_experiments_is_refused():
    assert problems('name = "x"') == ["experiment: is required"]
    assert problems('name = "x"\nexperiment = []')[0].startswith("experiment: []: list should have at least 1 item")
    assert problems('name = "x"\nexperiment = 3') == ["experiment: 3: input should be a valid list"]


def test_a_syntax_error_gives_line_and_column_in_one_sentence():
    with pytest.raises(BadRequest) as caught:
        read_suite('name = "x"\nranks = [1,,2]\n', HERE)
    assert "at line 2, column 12" in caught.value.sentence
    assert "\n" not in caught.value.sentence


def test_a_file_that_is_no_text_or_not_there_is_a_bad_request(tmp_path):
    binary = tmp_path / "a.toml"
    binary.write_bytes(b"name = \xff\xfe")
    for path, part in ((binary, "is not UTF-8 text"), (tmp_path / "no.toml", "No such file"), (tmp_path, "directory")):
        with pytest.raises(BadRequest, match=part):
            load_suite(path)


TOML_VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(-5, 2000), st.floats(-2, 2), st.text(max_size=5), st.just("{dim}")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["dim", "ranks", "a b"]), inner, max_size=2)
    ),
    max_leaves=6,
)
FIELDS = st.sampled_from([*ExperimentTable.model_fields, "rnaks"])


@given(st.dictionaries(FIELDS, TOML_VALUES, max_size=8))
def test_any_table_is_either_a_suite_or_a_list_of_problems(table):
    text = f'name = "x"\nexperiment = [{_inline(table)}]\n'
    try:
        suite = read_suite(text, HERE)
        assert suite.experiments[0].arms()
    except BadRequest as error:
        assert " error" in error.sentence and "\n  " in error.sentence


@given(st.text(max_size=200))
def test_any_text_is_either_a_suite_or_a_bad_request(text):
    with pytest.raises(BadRequest):
        read_suite(text, HERE)


def test_nesting_beyond_the_parser_and_numbers_beyond_the_digits_are_bad_requests():
    for text in ("a = " + "[" * 100_000, "a = " + "9" * 10_000):
        with pytest.raises(BadRequest, match="not valid TOML"):
            read_suite(text, HERE)


def _inline(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") if isinstance(value, str) else _bare(value)


def _bare(value):
    return str(value).lower() if isinstance(value, bool) else repr(value)


SIZED = 'env = { DIM = "8192", DEPTH = "8", BATCH = "64" }'


def test_cases_shrink_and_inspection_are_read():
    lines = (
        'cases = { small = { DIM = "8" }, large = { DIM = "16" } }\n'
        'env = { DEPTH = "8", BATCH = "64" }\nshrink = { gflop_per_core = 2 }\n'
        'inspect = true\ninspect_env = { STEPS = "6" }'
    )
    (one,) = read_suite(one_experiment(lines), HERE).experiments
    assert [arm.axes for arm in one.arms()] == [{"case": "small"}, {"case": "large"}]
    assert one.shrink is not None and one.shrink.gflop_per_core == 2
    assert one.inspect and one.inspect_env == {"STEPS": "6"}


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('cases = { a = { X = "1" }, b = { Y = "1" } }', "experiment[0].cases.a: lacks Y, which another case sets"),
        ('cases = { a = { X = "1" } }\naxes = { case = [1] }', "experiment[0].axes.case: `cases` makes this axis"),
        ('cases = { a = { X = "{y}" } }', "experiment[0].cases.a.X: {y} is not an axis"),
        ("cases = { a = { X = 1 } }", "experiment[0].cases.a.X: 1: input should be a valid string"),
        ("cases = { a = {} }", "experiment[0].cases.a: {}: dictionary should have at least 1 item"),
        ("shrink = { gflop_per_core = 2 }", "experiment[0].shrink: its rule needs DIM, DEPTH, BATCH"),
        (
            f"{SIZED}\nshrink = {{ gflops_per_core = 2 }}",
            "experiment[0].shrink.gflops_per_core: unknown field; did you",
        ),
        (f"{SIZED}\nshrink = {{ gflop_per_core = 0 }}", "experiment[0].shrink.gflop_per_core: 0"),
        (SIZED.replace("8192", "wide") + "\nshrink = { gflop_per_core = 2 }", "experiment[0].shrink: its rule needs"),
        ('inspect = true\nchanges = ["remove_communication"]', "experiment[0].inspect: only runs with nothing"),
        ('inspect_env = { STEPS = "6" }', "experiment[0].inspect_env: there is no inspected run"),
    ],
)
def test_a_slip_in_cases_shrink_or_inspect_is_named(lines, problem):
    assert any(line.startswith(problem) for line in problems(one_experiment(lines)))


def test_a_script_of_the_course_is_named_by_its_file():
    text = one_experiment("").replace('"x.py"', '"course:practical6_ddp"')
    assert problems(text) == [
        "experiment[0].script: 'course:practical6_ddp' is not a script of the course; "
        "write it as course:practical6_ddp.py"
    ]
    good = one_experiment("").replace('"x.py"', '"course:practical6_ddp.py"')
    assert read_suite(good, HERE).experiments[0].script == "course:practical6_ddp.py"


def test_an_axis_may_stand_in_the_script_and_braces_in_the_suites_folder_are_no_axis():
    text = one_experiment('axes = { code = ["a", "b"] }').replace('"x.py"', '"{code}.py"')
    (one,) = read_suite(text, Path("/odd/{name}/mine.toml")).experiments
    assert one.script == "/odd/{{name}}/{code}.py"


@pytest.mark.parametrize("devices", ["two", "0", "-1"])
def test_a_number_of_devices_that_is_none_is_named(devices):
    (problem,) = problems(one_experiment(f'devices = "{devices}"'))
    assert problem.startswith(f"experiment[0].devices: '{devices}' is not a number of devices; write \"2\"")


def test_an_axis_that_is_not_there_is_named_in_devices_too():
    assert any("experiment[0].devices" in problem for problem in problems(one_experiment('devices = "{cards}"')))
