"""``headrace verilog``: what it refuses, and that a folder is replaced whole or not at all."""

import json

import pytest

from firmware.errors import UserError
from sim.cli import main
from sim.commands import verilog
from sim.commands.verilog import MANIFEST, SUMS, checked_folder, write_folder


def output(**files):
    """Files of an output."""
    files = {f"{name}.sv": text for name, text in files.items()}
    return {MANIFEST: json.dumps({"headrace": 1}), SUMS: "".join(f"0  {name}\n" for name in files), **files}


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_new_empty_and_former_folders_are_written(tmp_path):
    out = tmp_path / "deep" / "out"
    for files in (output(a="1", b="2"), output(a="3")):
        write_folder(checked_folder(out), files)
        assert contents(out) == files
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    (tmp_path / "empty").mkdir()
    write_folder(checked_folder(tmp_path / "empty"), output(a="1"))
    assert contents(tmp_path / "empty") == output(a="1")


@pytest.mark.parametrize("name", ["notes.txt", "rtl/mine.sv"])
def test_folder_of_others_is_refused(tmp_path, name):
    """Also a former output to which a file was added."""
    for files in ({}, output(a="1")):
        write_folder(tmp_path / "out", files) if files else None
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_text("mine")
        with pytest.raises(UserError, match=name):
            checked_folder(tmp_path / "out")
        assert (tmp_path / "out" / name).read_text() == "mine"
        (tmp_path / "out" / name).unlink()


def test_broken_manifest_is_nobodys_output(tmp_path):
    (tmp_path / MANIFEST).write_text("[1]")
    with pytest.raises(UserError, match=MANIFEST):
        checked_folder(tmp_path)


def test_file_and_current_folder_are_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "inner"):
        with pytest.raises(UserError, match="is a file"):
            checked_folder(path)
    monkeypatch.chdir(tmp_path)
    for path in (".", ".."):
        with pytest.raises(UserError, match="holds the current folder"):
            checked_folder(path)


def test_interruption_leaves_the_former_output(tmp_path, monkeypatch):
    out, former = tmp_path / "out", output(a="1")
    write_folder(out, former)

    def interrupted(self, target):
        if target == out and self.name.endswith(".partial"):
            raise KeyboardInterrupt
        return rename(self, target)

    rename = type(out).rename
    monkeypatch.setattr(type(out), "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_folder(out, output(a="2"))
    assert contents(out) == former
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(("words", "text"), [
    (["--set", "lanes=3"], "lanes is 3"),
    (["--set", "channels=2", "--set", "lanes=4"], "lanes 4 does not divide channels 2"),
    (["--set", "fifo_beats=32"], "fifo_beats is 32"),
    (["--set", "fifo=32"], "no field fifo"),
    (["--preset", "huge"], "unknown preset"),
])
def test_bad_parameters_write_nothing(tmp_path, monkeypatch, capsys, words, text):
    monkeypatch.setattr(verilog, "package", lambda config: pytest.fail("generated"))
    monkeypatch.setattr("sys.argv", ["headrace", "verilog", *words, "-o", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as end:
        main()
    lines = capsys.readouterr().err.splitlines()
    assert end.value.code == 2 and len(lines) == 1 and text in lines[0]
    assert not (tmp_path / "out").exists()
