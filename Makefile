# Headrace. `make demo` and `make test` set up what they need on a fresh machine.

PYTHON ?= $(firstword $(foreach p,python3 python3.14 python3.13 python3.12 python3.11,$(shell \
	$(p) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(p))))
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/headrace-ready
WORKERS ?= 2
export AMARANTH_USE_YOSYS := builtin

.PHONY: demo test prove lint setup check clean

demo: setup
	@mkdir -p build
	@$(BIN)/headrace run --json build/demo.json

test: setup
	@$(BIN)/python -m pytest -n $(WORKERS)

prove: setup
	@$(BIN)/python -m sim.formal

lint: setup
	@$(BIN)/ruff check .

setup: $(READY)

$(READY): requirements.lock pyproject.toml
	@$(MAKE) --no-print-directory check
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing pinned packages into $(VENV)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps -r requirements.lock
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps -e .
	@$(BIN)/python -c 'import find_libpython, sys; sys.exit(not find_libpython.find_libpython())' || \
		{ echo "no shared libpython, which cocotb needs: install libpython3 (Debian, Ubuntu: apt install libpython3-dev)"; exit 2; }
	@touch $@

check:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer: install it (Debian, Ubuntu: apt install python3 python3-venv)"; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) cannot make virtual environments: apt install python3-venv"; exit 2; }
	@command -v perl >/dev/null || { echo "no perl, which Verilator needs: apt install perl"; exit 2; }
	@command -v $${CXX:-g++} >/dev/null || { echo "no C++ compiler: install g++ 10 or newer (apt install g++)"; exit 2; }
	@printf '#include <coroutine>\nint main() {}\n' | $${CXX:-g++} -std=c++20 -fcoroutines -fsyntax-only -x c++ - 2>/dev/null || \
		{ echo "$${CXX:-g++} does not compile C++20 coroutines: install g++ 10 or newer (apt install g++)"; exit 2; }

clean:
	rm -rf build
