"""The code blocks of the book and of README run: Python from top to bottom, and the book's commands marked `sh,run`."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from phalanx import lab

SOURCES = Path(__file__).parents[2] / "docs" / "book" / "src"
README = Path(__file__).parents[2] / "README.md"
CHAPTERS = sorted(SOURCES.glob("*.md"))


def blocks(chapter, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", chapter.read_text(), re.MULTILINE | re.DOTALL)


def titles(path):
    return path.stem


@pytest.mark.parametrize("chapter", [page for page in (README, *CHAPTERS) if blocks(page, "python")], ids=titles)
def test_the_python_of_a_chapter_runs(chapter, tmp_path, monkeypatch):
    monkeypatch.setenv("PHALANX_CACHE_DIR", str(tmp_path / "cache"))
    script = "\n".join(blocks(chapter, "python"))
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("chapter", [chapter for chapter in CHAPTERS if blocks(chapter, "sh,run")], ids=titles)
def test_the_commands_of_a_chapter_run(chapter, tmp_path, monkeypatch):
    try:
        command = lab.command()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("PHALANX_CACHE_DIR", str(tmp_path / "cache"))
    for file in blocks(chapter, "toml"):
        name = re.match(r"# (\S+)", file).group(1)
        (tmp_path / name).write_text(file)
    for line in "".join(blocks(chapter, "sh,run")).splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "phalanx", line
        done = subprocess.run([command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def test_every_chapter_is_in_the_summary():
    listed = set(re.findall(r"\(([\w-]+\.md)\)", (SOURCES / "SUMMARY.md").read_text()))
    assert listed | {"SUMMARY.md"} == {chapter.name for chapter in CHAPTERS}
