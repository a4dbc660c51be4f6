"""vLLM's source is found wherever a person points at it, or it is said not to be."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from loadgen.doctor.source import tree as tree_module
from loadgen.doctor.source.tree import read_tree
from loadgen.errors import UsageError
from tests.unit.doctor_sources import NEW, OLD, write_sdist, write_tree, write_wheel


def test_every_way_to_name_a_folder_leads_to_the_package(tmp_path: Path) -> None:
    site = write_tree(NEW, tmp_path / "venv/lib/python3.12/site-packages")
    for named in (site / "vllm", site, tmp_path / "venv"):
        tree = read_tree(named)
        assert tree.version == "0.33.0"
        assert "vllm/config/scheduler.py" in tree.files
        assert tree.seen == len(NEW)


def test_a_folder_that_holds_an_unpacked_sdist(tmp_path: Path) -> None:
    write_tree(OLD, tmp_path / "vllm-0.8.5")
    assert read_tree(tmp_path).version == "0.8.5"


def test_an_sdist_and_a_wheel_hold_the_same(tmp_path: Path) -> None:
    sdist = write_sdist(OLD, tmp_path / "vllm-0.8.5.tar.gz", "vllm-0.8.5")
    wheel = write_wheel(OLD, tmp_path / "vllm-0.8.5-py3-none-any.whl")
    assert read_tree(sdist) == read_tree(wheel)
    assert read_tree(sdist).version == "0.8.5"


def test_only_files_that_matter_are_kept(tmp_path: Path) -> None:
    files = NEW | {"vllm/model.py": "x = max_num_seqs\n", "tests/t.py": '"vllm:x"\n'}
    tree = read_tree(write_tree(files, tmp_path))
    assert "vllm/model.py" not in tree.files
    assert "tests/t.py" not in tree.files
    assert "vllm/v1/metrics/loggers.py" in tree.files


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vllm-9.9.dist-info/METADATA", "Metadata-Version: 2.4\nVersion: 9.9\n"),
        ("PKG-INFO", "Name: vllm\nVersion: 9.9\r\n"),
    ],
)
def test_the_version_from_metadata_where_the_package_has_none(
    tmp_path: Path, name: str, text: str
) -> None:
    files = {k: v for k, v in OLD.items() if "_version" not in k}
    assert read_tree(write_tree(files | {name: text}, tmp_path)).version == "9.9"
    wheel = write_wheel(files | {name: text}, tmp_path / "v.whl")
    assert read_tree(wheel).version == "9.9"
    assert read_tree(write_wheel(files, tmp_path / "w.whl")).version is None


def test_a_file_beyond_all_bounds_is_passed_over_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_module, "MAX_FILE_BYTES", 1000)
    files = NEW | {"vllm/huge.py": '"vllm:x"\n' * 1000}
    for named in (
        write_tree(files, tmp_path / "folder"),
        write_sdist(files, tmp_path / "v.tar.gz", "vllm-1"),
        write_wheel(files, tmp_path / "v.whl"),
    ):
        tree = read_tree(named)
        assert "vllm/huge.py" in tree.skipped
        assert "vllm/huge.py" not in tree.files


def test_what_unpacks_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_module, "MAX_TOTAL_BYTES", 10)
    for named in (
        write_tree(NEW, tmp_path / "folder"),
        write_sdist(NEW, tmp_path / "v.tar.gz", "vllm-1"),
        write_wheel(NEW, tmp_path / "v.whl"),
    ):
        with pytest.raises(UsageError, match="unpacks to more than"):
            read_tree(named)


def test_members_that_point_elsewhere_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text('"vllm:secret"\n')
    path = write_sdist(OLD, tmp_path / "v.tar", "vllm-1")
    with tarfile.open(tmp_path / "w.tar", "w") as archive:
        link = tarfile.TarInfo("vllm-1/vllm/link.py")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        archive.addfile(link)
        archive.addfile(tarfile.TarInfo("vllm-1/vllm/__init__.py"))
    assert "vllm/link.py" not in read_tree(tmp_path / "w.tar").files
    assert read_tree(path).seen == len(OLD)


def test_what_is_no_source_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "junk.tar.gz").write_bytes(b"\x1f\x8bjunk")
    (tmp_path / "text.whl").write_text("not an archive")
    write_wheel({"other/x.py": ""}, tmp_path / "other.whl")
    whole = write_sdist(OLD, tmp_path / "whole.tar.gz", "vllm-1").read_bytes()
    (tmp_path / "half.tar.gz").write_bytes(whole[: len(whole) // 2])
    for name in ("nowhere", "empty", "junk.tar.gz", "text.whl", "other.whl"):
        with pytest.raises(UsageError, match=f"--vllm .*{name}"):
            read_tree(tmp_path / name)
    with pytest.raises(UsageError, match="broken archive"):
        read_tree(tmp_path / "half.tar.gz")
