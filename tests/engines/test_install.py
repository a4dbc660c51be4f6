"""The cache of installs, with recipes that only write a file."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tests.engines import install as installing
from tests.engines.install import NotInstalledError, install, installed

WORKS = """
mkdir -p "$2/venv/bin"
touch "$2/venv/bin/python"
echo once >> "$(dirname "$2")/runs"
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "recipes" / "proxies"
    folder.mkdir(parents=True)
    monkeypatch.setattr(installing, "RECIPES", folder.parent)
    monkeypatch.setattr(installing, "ENGINES", {"proxies": 0.0})
    monkeypatch.setenv("LOADGEN_ENGINES_HOME", str(tmp_path / "home"))
    script = folder / "install.sh"
    script.write_text(WORKS)
    return script


def runs() -> int:
    return len((installing.home() / "runs").read_text().splitlines())


def test_an_install_is_made_once_and_found_again(recipe: Path) -> None:
    folder, _ = install("proxies")
    assert install("proxies") == (folder, 0.0)
    assert installed("proxies") == folder
    assert runs() == 1


def test_a_changed_recipe_is_another_install(recipe: Path) -> None:
    first, _ = install("proxies")
    recipe.write_text(WORKS + "# changed\n")
    with pytest.raises(NotInstalledError, match="not-installed"):
        installed("proxies")
    second, _ = install("proxies")
    assert first != second
    assert runs() == 2


def test_a_half_made_install_is_made_anew(recipe: Path) -> None:
    folder = installing.target("proxies")
    folder.mkdir(parents=True)
    folder.joinpath("left-over").touch()
    assert install("proxies")[0] == folder
    assert not folder.joinpath("left-over").exists()


def test_an_install_whose_python_has_gone_is_made_anew(recipe: Path) -> None:
    folder, _ = install("proxies")
    folder.joinpath("venv/bin/python").unlink()
    with pytest.raises(NotInstalledError):
        installed("proxies")
    install("proxies")
    assert runs() == 2


def test_a_failure_says_why_and_leaves_it_for_the_tests(recipe: Path) -> None:
    recipe.write_text("echo 'ERROR: no such thing at https://secret@host/x'; exit 3")
    with pytest.raises(NotInstalledError) as failed:
        install("proxies")
    assert failed.value.reason == "recipe-failed"
    assert "ERROR: no such thing at (address) (exit 3" in failed.value.why
    assert not installing.target("proxies").exists()
    with pytest.raises(NotInstalledError) as skipped:
        installed("proxies")
    assert str(skipped.value) == str(failed.value)
    left = installing.target("proxies").with_suffix(".failed.json")
    assert json.loads(left.read_text())["reason"] == "recipe-failed"


def test_too_little_disk_is_said_before_anything_is_made(
    recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installing, "ENGINES", {"proxies": 1e9})
    with pytest.raises(NotInstalledError, match="disk-space"):
        install("proxies")


def test_two_at_once_install_once(recipe: Path) -> None:
    threads = [threading.Thread(target=install, args=("proxies",)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert runs() == 1


def test_every_recipe_pins_exact_versions() -> None:
    for pins in installing.RECIPES.glob("*/requirements.txt"):
        for line in pins.read_text().splitlines():
            assert line.count("==") == 1, f"{pins}: {line}"
            assert "://" not in line
