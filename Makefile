# Every target sets up what it needs in .venv; PYTHON may name any Python from 3.11 on.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
SOURCES := pyproject.toml constraints.txt

.PHONY: help demo test test-slow test-cluster lab notebooks lint clean
help:
	@echo "make demo       run the main job on the tiny models that come with the project (build/demo)"
	@echo "make test       ruff, mypy, tests; offline, on CPU"
	@echo "make test-slow  tests that need minutes or the 93 MB model wheel"
	@echo "make test-cluster  tests on Ray and Spark (some 700 MB more, and Java 17)"
	@echo "make lab        JupyterLab on the notebooks"
	@echo "make notebooks  run the notebooks again and keep their outputs"

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + ": make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv

.venv/.run: .venv/bin/python $(SOURCES)
	@echo "installing (once, minutes: torch is large)"
	$(PIP) --editable '.[collect,report]'
	@touch $@

.venv/.dev: .venv/.run
	$(PIP) --editable '.[collect,report,dev]'
	@touch $@

.venv/.lab: .venv/.run
	$(PIP) --editable '.[notebooks]'
	@touch $@

demo: .venv/.run
	$(BIN)/collect run collect/demo/demo.toml --out build/demo
	$(BIN)/catalog compare large-base large-domain --from build/demo --text
	$(BIN)/catalog report large-base large-domain --from build/demo --out build/demo/report.html

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest -m "not slow" --numprocesses 2
	$(BIN)/pytest --nbval-lax notebooks --numprocesses 2 --dist loadfile

test-slow: .venv/.dev
	$(BIN)/pytest -m slow

test-cluster: .venv/.dev
	$(PIP) --editable '.[ray,spark]' 'pyspark>=4.1'
	$(BIN)/pytest -m slow tests/test_work.py tests/test_spark.py

# JupyterLab hides the charts of a notebook it does not trust until it is run
lab: .venv/.lab
	@$(BIN)/jupyter trust notebooks/*.ipynb > /dev/null
	$(BIN)/jupyter lab notebooks

notebooks: .venv/.lab
	$(BIN)/jupyter nbconvert --to notebook --execute --inplace --ExecutePreprocessor.record_timing=False notebooks/*.ipynb

clean:
	rm -rf build .venv
