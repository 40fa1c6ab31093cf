"""A package has extensions for several releases of PyTorch, which tools/wheels.py joins."""

import pathlib
import platform
import sys
import sysconfig

import pytest
import wheels


def unpacked(folder, release, text="same"):
    """A wheel as `wheel unpack` leaves it."""
    package = folder / "torch_ocl"
    (package / wheels.folder_of(release)).mkdir(parents=True)
    (package / wheels.folder_of(release) / "_C.so").write_text(release)
    (package / "__init__.py").write_text(text)
    (folder / "RECORD").write_text(release)
    return folder


def test_extensions_are_joined(tmp_path):
    folders = [unpacked(tmp_path / each, each) for each in ("2.11", "2.13")]
    joined = wheels.merge(folders)
    assert sorted(wheels.extensions(joined)) == ["torch2_11", "torch2_13"]
    for release in ("2.11", "2.13"):
        file = joined / "torch_ocl" / wheels.folder_of(release) / "_C.so"
        assert file.read_text() == release


def test_wheels_of_other_sources_are_refused(tmp_path):
    folders = [unpacked(tmp_path / "a", "2.11"), unpacked(tmp_path / "b", "2.13", "other")]
    with pytest.raises(SystemExit, match=r"outside of .'torch2_13'.: .'torch_ocl/__init__.py'."):
        wheels.merge(folders)


def test_wheels_for_one_python_and_processor_belong_together():
    names = ["cp311-cp311-linux_x86_64", "cp312-cp312-linux_x86_64", "cp311-cp311-linux_aarch64"]
    files = [
        pathlib.Path(release) / f"torch_ocl-0.1.0-{name}.whl"
        for name in names
        for release in ("2.12", "2.13")
    ]
    assert wheels.groups(files[::-1]) == {
        name: files[2 * i : 2 * i + 2] for i, name in enumerate(names)
    }


def test_pythons_have_the_tag_of_their_extensions():
    [(tag, python)] = wheels.by_tag(sys.executable).items()
    assert python == sys.executable
    assert tag == "cp" + sysconfig.get_config_var("SOABI").split("-")[1]


def test_each_python_needs_one_wheel():
    here = platform.machine()
    one, other, again, elsewhere = (
        pathlib.Path(f"torch_ocl-0.1.0-{name}.whl")
        for name in (
            f"cp311-cp311-linux_{here}",
            f"cp312-cp312-linux_{here}",
            f"cp311-cp311-manylinux_2_35_{here}",
            "cp311-cp311-linux_another",
        )
    )
    assert wheels.wheels_of({"cp311": "python3"}, [one, elsewhere]) == {"cp311": one}
    for found in ([elsewhere], [other], [one, other], [one, again]):
        with pytest.raises(SystemExit, match="one wheel for each of cp311 is needed"):
            wheels.wheels_of({"cp311": "python3"}, found)


def test_releases_are_those_of_the_project():
    assert wheels.supported() == ["2.11", "2.12", "2.13", "2.14", "2.15"]
