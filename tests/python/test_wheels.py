"""tools/wheels.py: wheels for several releases of PyTorch become one."""

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


def test_releases_are_those_of_the_project():
    assert wheels.supported() == ["2.11", "2.12", "2.13"]
