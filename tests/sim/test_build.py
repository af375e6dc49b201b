"""The build cache: equal content is built once, an interrupted build leaves nothing, missing tools are named."""

import os
import subprocess
import sys

import pytest

from firmware.errors import UserError
from sim import build
from sim.build import compile_model, toolchain

COUNTER = """module counter(input clk, output reg [7:0] count = 0);
always @(posedge clk) count <= count + {step};
endmodule
"""

MAIN = """#include "Vtop.h"
#include <cstdio>
int main() {
    Vtop top;
    for (int n = 0; n < 20; n++) { top.clk = n & 1; top.eval(); }
    printf("%d\\n", top.count);
}
"""


def counter(step, **options):
    files = {"counter.v": COUNTER.format(step=step), "main.cpp": MAIN}
    return compile_model("counter", files, top="counter", cocotb=False, **options)


def output(program):
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_BUILD", str(tmp_path))
    return tmp_path


def test_built_once_for_each_content(root, monkeypatch):
    first = counter(3)
    assert output(first) == "30"
    assert output(counter(5)) == "50"
    monkeypatch.setattr(build, "_run", lambda *_: pytest.fail("built again"))
    assert counter(3) == first


def test_trained_build_is_another_program(root):
    if "clang" in toolchain().version:
        pytest.skip("profiles are GCC's")
    trained = []

    def train(program):
        trained.append(output(program))
    program = counter(3, train=train)
    assert output(program) == "30" and trained == ["30"]
    profiles = list(program.parent.glob("*.gcda"))
    assert profiles
    assert counter(3, train=train) == program and len(trained) == 1
    assert counter(3) != program
    before = [profile.stat().st_mtime_ns for profile in profiles]
    output(program)
    assert [profile.stat().st_mtime_ns for profile in profiles] == before, "the second program is instrumented too"


def test_interrupted_build_leaves_nothing(root, monkeypatch):
    run = build._run

    def interrupted(command, folder, environment):
        if command[0] == "make":
            raise KeyboardInterrupt
        run(command, folder, environment)

    monkeypatch.setattr(build, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        counter(3)
    assert os.listdir(root / "models") == []
    monkeypatch.setattr(build, "_run", run)
    (root / "models" / "left-by-a-killed-process.partial").mkdir()
    program = counter(3)
    assert output(program) == "30"
    assert os.listdir(root / "models") == [program.parent.name]


def test_broken_design_shows_the_tools_words(root):
    with pytest.raises(RuntimeError, match="verilator failed.*\n(.*\n)*.*syntax error"):
        counter("+;")


def test_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(UserError, match="no C.. compiler.*apt install g"):
        toolchain.__wrapped__()


def test_nowhere_to_build(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADRACE_BUILD", str(tmp_path / "file"))
    with pytest.raises(UserError, match="cannot build in .*HEADRACE_BUILD"):
        counter(3)


def test_no_space(root, monkeypatch):
    run = build._run
    full = [sys.executable, "-c", "import sys; sys.exit('fatal error: error writing to x.o: No space left on device')"]
    monkeypatch.setattr(build, "_run", lambda command, folder, environment: run(full, folder, environment))
    with pytest.raises(UserError, match="no space left"):
        counter(7)
