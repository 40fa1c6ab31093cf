"""tools/release_check.py finds what a release must not have."""

import email
import re

import pytest
import release_check

GOOD = [
    "torch_ocl/__init__.py",
    "torch_ocl/inductor/codegen/kernel.py",
    "torch_ocl/include/torch_ocl/program.h",
    "torch_ocl/torch2_13/_C.cpython-311-x86_64-linux-gnu.so",
    "torch_ocl/torch2_13/count_devices",
    "torch_ocl-0.1.0.dist-info/METADATA",
    "torch_ocl-0.1.0.dist-info/licenses/LICENSE",
    "torch_ocl-0.1.0.dist-info/licenses/NOTICE",
]


def test_a_good_wheel_has_no_problem():
    assert list(release_check.content_problems(GOOD, ["2.13"], "cp311")) == []


@pytest.mark.parametrize(
    "names, problem",
    [
        ([*GOOD, "torch_ocl.libs/libc10-1.so"], "not expected: .'torch_ocl.libs/libc10-1.so'."),
        ([*GOOD, "torch_ocl/notes.txt"], "not expected"),
        (
            [name for name in GOOD if "_C" not in name],
            r"one extension is needed, .*torch2_13.*, not \[\]$",
        ),
        ([name.replace("311", "312") for name in GOOD], r"one .*/_C.cpython-311-\*, not .*312"),
        ([*GOOD, GOOD[3].replace("311", "312")], "one extension is needed"),
        (GOOD[:-1], "NOTICE is missing"),
    ],
)
def test_contents(names, problem):
    [found] = release_check.content_problems(names, ["2.13"], "cp311")
    assert re.match(problem, found)


def test_each_python_has_a_wheel():
    assert list(release_check.python_problems({"cp311", "cp312", "cp313"})) == []
    [found] = release_check.python_problems({"cp311", "cp313t"})
    assert found.startswith("no wheel for Python 3.12, 3.13")


@pytest.mark.parametrize(
    "heading, problem",
    [
        ("## 0.1.0 (2026-12-01)", None),
        ("## 0.1.0 (not released yet)", "CHANGELOG.md says of 0.1.0: not released yet"),
        ("## 0.2.0 (2026-12-01)", "CHANGELOG.md is at 0.2.0, pyproject.toml at 0.1.0"),
    ],
)
def test_versions(heading, problem):
    found = list(release_check.version_problems(f"# Changelog\n\n{heading}\n", "0.1.0"))
    assert found == ([problem] if problem else [])


def test_dependencies():
    text = (
        "Requires-Dist: numpy\nRequires-Dist: torch<2.16,>=2.11\nRequires-Dist: x; extra == 'a'\n"
    )
    assert list(release_check.metadata_problems(email.message_from_string(text))) == []
    text += "Requires-Dist: scipy\n"
    assert len(list(release_check.metadata_problems(email.message_from_string(text)))) == 1
