"""The tables of docs/accuracy.md (tests/accuracy/accuracy_tables.py), of a few rows."""

import accuracy_tables


def row(name, dtype, ulp, kinds=()):
    result = {"ulp": ulp, "at": [1.5], "wrong": 0}
    examples = {"count": len(kinds), "examples": list(kinds)}
    return {"name": name, "dtype": dtype, "ocl": result, "cpu": result, "kinds": examples}


def rows_of(text):
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]


def test_a_function_that_one_runtime_lacks_has_an_empty_cell():
    files = {
        "PoCL": {"unary": [row("exp", "float32", 1), row("tan", "float16", 2)]},
        "Intel": {"unary": [row("exp", "float32", 3), row("sin", "float32", 1)]},
    }
    functions = rows_of(accuracy_tables.of_functions(files, "unary"))
    assert functions[2:] == [
        ["`exp`", "1", "3", "1.5", "1", "2", "3"],
        ["`sin`", "", "1", "1.5", "1", "2", "4"],
    ]
    halves = rows_of(accuracy_tables.of_halves(files, "unary"))
    assert halves[0] == ["function", "type", "PoCL", "Intel", "at", "CPU"]
    assert halves[2:] == [["`tan`", "float16", "2", "", "1.5", "2"]]


def test_runtimes_with_the_same_kinds_share_a_line():
    kinds = [[[1.5], float("nan"), 0.0]]
    files = {
        "PoCL": {"unary": [row("exp", "float32", 1, kinds)]},
        "Intel": {"unary": [row("exp", "float32", 2, kinds)]},
        "PoCL (GPU family)": {"complex": [row("exp", "float32", 2, kinds * 2)]},
    }
    lines = rows_of(accuracy_tables.of_kinds(files))[2:]
    assert [line[:4] for line in lines] == [
        ["`exp`", "PoCL (GPU family)", "float32", "2"],
        ["`exp`", "PoCL, Intel", "float32", "1"],
    ]


def test_small_errors_are_counted():
    lines = [
        {"name": name, "ocl": error, "cpu": 0.5}
        for name, error in [("sum", 0.25), ("var", 3.0), ("norm", float("inf"))]
    ]
    text = accuracy_tables.of_pairs({"PoCL": {"sums": lines}}, "sums", "name", small=2)
    assert text.startswith("Not shown: 1 lines of at most 2 everywhere.")
    assert rows_of(text)[2:] == [["var", "3", "0.5"], ["norm", "other kind", "0.5"]]
