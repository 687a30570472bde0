"""Wrong options and missing files are told at once: before Keras is imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest
from keras import layers

from ramet.cli.pruning import CRITERIA
from ramet.compress._prune import CRITERIA as KNOWN

pytestmark = pytest.mark.one_backend

SOURCE = Path(__file__).parents[1] / "src"

BLOCKED = """
import json, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("keras", "jax", "tensorflow", "torch"):
            raise AssertionError(f"{name} was imported")
sys.meta_path.insert(0, Blocker())
from typer.testing import CliRunner
from ramet.cli import app
for args in json.loads(sys.argv[1]):
    result = CliRunner().invoke(app, args)
    print(json.dumps([result.exit_code, result.stderr]))
"""

FILES = ["model.keras", "model.keras"]

WRONG = [
    (["show", "none.keras"], "there is no file 'none.keras'"),
    (["show", "model.keras", "none.keras"], "there is no file 'none.keras'"),
    (["show", "model.keras", "--to", "x.gif"], "show writes files with the suffix .html"),
    (["show", "model.keras", "--to", "no/x.html"], "there is no folder 'no'"),
    (["show", "model.keras", "--cost", "size", "--to", "x.html"], "unknown cost='size'"),
    (["show", *FILES, "--cost", "macs", "--to", "x.html"], "or use ramet profile with two files"),
    (["show", "text.keras"], "'text.keras' is not a Keras archive"),
    (["verify", "model.keras", "none.keras"], "there is no file 'none.keras'"),
    (["verify", *FILES, "--only", "names"], "unknown only='names'"),
    (["verify", *FILES, "--rtol", "-1"], "rtol must be a number of at least 0"),
    (["verify", *FILES, "--atol", "nan"], "atol must be a number of at least 0"),
    (["verify", *FILES, "--seed", "-1"], "seed must be an integer of at least 0"),
    (["diff", "model.keras", "none.keras"], "there is no file 'none.keras'"),
    (["masks", "none.keras"], "there is no file 'none.keras'"),
    (["masks", "model.keras", "--import", "lab"], "--import lab runs code; use --trust"),
    (["profile", "model.keras", "--by", "size"], "unknown by='size'"),
    (["profile", "model.keras", "--by", "time"], "--by time needs times; use --time"),
    (["profile", "model.keras", "--batch", "0"], "batch must be a positive integer, got 0"),
    (["profile", "model.keras", "--depth", "-1"], "depth must be a number of levels"),
    (["profile", "model.keras", "--shape", "a,b"], "ramet profile: --shape takes sizes"),
    (["prune", "model.keras", "x.keras"], "pass one of --ratio, --macs and --params"),
    (["prune", "model.keras", "x.keras", "--ratio", "2"], "ratio must be a number between 0 and 1"),
    (["prune", "model.keras", "x.keras", "--ratio", "nan"], "must be a number between 0 and 1"),
    (["prune", "model.keras", "x.keras", "--ratio", ".5", "--by", "l3"], "unknown by='l3'"),
    (["prune", "model.keras", "x.keras", "--ratio", ".5", "--scope", "all"], "unknown scope='all'"),
    (["clone", "model.keras", "x.keras", "--seed", "3"], "use --weights fresh"),
    (["clone", "model.keras", "model.keras"], "already exists; use --force"),
    (["clone", "none.keras", "x.keras"], "there is no file 'none.keras'"),
    (["emit", "model.keras", "--to", "model.keras"], "already exists; use --force"),
    (["edit", "model.keras", "x.keras"], "there are no edits"),
    (["edit", "model.keras", "x.txt", "--remove", "drop"], "has the suffix '.txt'"),
    (["fold", "model.keras"], "there is no file to write"),
    (["quantize", "model.keras", "x.keras", "--at", "head"], "names no mode"),
    (["cast", "none.keras", "x.keras", "--at", "*", "--dtype", "float16"], "there is no file"),
    (["merge-adapter", "none.keras", "x.keras"], "there is no file 'none.keras'"),
]


def test_wrong_options_need_neither_keras_nor_the_file(tmp_path):
    keras.Sequential([keras.Input((3,)), layers.Dense(2)]).save(tmp_path / "model.keras")
    (tmp_path / "text.keras").write_text("text", encoding="utf-8")
    result = subprocess.run(  # noqa: S603 our own
        [sys.executable, "-c", BLOCKED, json.dumps([args for args, _ in WRONG])],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(answers) == len(WRONG)
    for (args, message), (code, error) in zip(WRONG, answers, strict=True):
        assert code == 2, (args, error)
        assert message in error, args
        assert len(error.splitlines()) == 1


def test_a_backend_that_is_missing_is_one_line_with_a_remedy(tmp_path):
    keras.Sequential([keras.Input((3,)), layers.Dense(2)]).save(tmp_path / "model.keras")
    hidden = """
import sys
import importlib.util as util
found = util.find_spec
util.find_spec = lambda name, *rest: None if name == "jax" else found(name, *rest)
from ramet.cli import main
sys.argv = ["ramet", "masks", "model.keras"]
main()
"""
    result = subprocess.run(  # noqa: S603 our own
        [sys.executable, "-c", hidden],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("ramet masks: backend 'jax' is not installed (installed: ")
    assert "; use --backend " in line
    assert ", or set KERAS_BACKEND=" in line


def test_the_command_line_knows_all_criteria():
    assert {*CRITERIA} == {*KNOWN}
