"""What the benchmarks make of their numbers; the numbers themselves are not tested."""

import numpy as np
import pytest
from benchmarks import instructions, measure
from benchmarks.report import markdown, number, verdict
from benchmarks.results import MODELS, best, per_layer, ratio
from benchmarks.targets import targets

RESULT = {
    "backend": "torch",
    "date": "2026-01-31",
    "versions": {"python": "3.11.7", "keras": "3.15.1"},
    "machine": {"system": "Linux x86_64", "cpu": "a processor", "cores": 2, "memory_gib": 24},
    "models": {
        "ResNet50": {
            "layers": 177,
            "weights": 320,
            "bytes": 102_500_000,
            "timings": {
                "ramet.clone": {"seconds": [0.3, 0.1, 0.2]},
                "weights=share": {"seconds": [0.05]},
                "ramet.clone, all kept": {"seconds": [0.8]},
                "clone_model": {"seconds": [1.0]},
                "clone_model + set_weights": {"seconds": [1.3, 1.2]},
                "plain torch, deepcopy": {"seconds": [0.09]},
            },
        },
        "chain of 5,000": {
            "layers": 5001,
            "weights": 5000,
            "bytes": 720_000,
            "timings": {
                "ramet.clone": {"seconds": [2.0]},
                "ramet.clone, all kept": {"not_run": "takes too long"},
                "clone_model": {"error": "RecursionError", "message": "too deep"},
                "deepcopy": {"error": "RecursionError", "message": "too deep"},
            },
        },
    },
    "per_layer": {"500": {"seconds": [0.2, 0.1]}, "5000": {"seconds": [2.0]}},
    "memory": {"bytes": 2_000_000_000, "growth": 2_100_000_000},
    "imports": {
        "import keras": {"seconds": [1.5]},
        "import ramet": {"seconds": [0.06, 0.03]},
        "import ramet, name ramet.clone": {"seconds": [0.051]},
    },
}


@pytest.mark.backend_free
def test_the_best_time_counts():
    timings = RESULT["models"]["ResNet50"]["timings"]
    assert best(timings, "ramet.clone") == 0.1
    assert ratio(timings, "clone_model + set_weights", "ramet.clone") == pytest.approx(12)
    assert per_layer(RESULT, 500) == pytest.approx(0.0002)


@pytest.mark.backend_free
def test_what_has_no_time_has_no_ratio():
    timings = RESULT["models"]["chain of 5,000"]["timings"]
    assert best(timings, "clone_model") is None
    assert ratio(timings, "clone_model", "ramet.clone") is None
    assert ratio(timings, "ramet.clone", "save + load") is None


@pytest.mark.backend_free
def test_verdicts():
    said = {
        (target.figure, target.subject): (target.aim, verdict(target, RESULT))
        for target in targets(list(RESULT["models"]))
    }
    assert said == {
        ("clone_model + set_weights / ramet.clone", "ResNet50"): ("≥ 10", "12.0 met"),
        ("clone_model + set_weights / ramet.clone", "EfficientNetB7"): ("≥ 10", "-"),
        ("plain torch, deepcopy / ramet.clone", "ResNet50"): ("≥ 1", "0.90 **missed**"),
        ("ramet.clone / memcpy", "MLP of 2 GB"): ("≤ 1.3", "-"),
        ("clone_model / weights=share", "ResNet50"): ("≥ 30", "20.0 **missed**"),
        ("clone_model / weights=share", "chain of 5,000"): ("≥ 30", "-"),
        ("peak of memory / bytes of the weights", "MLP of 2 GB"): ("≤ 1.1", "1.05 met"),
        ("time per layer / that of 500 layers", "chain of 5,000"): ("≤ 1.3", "2.00 **missed**"),
        ("import ramet, ms", "after keras"): ("≤ 50", "30.0 met"),
        ("import ramet, name ramet.clone, ms", "after keras"): ("≤ 50", "51.0 **missed**"),
    }


@pytest.mark.backend_free
def test_a_limit_that_is_just_reached_is_met():
    for target in targets(list(MODELS)):
        worse = target.limit * (0.99 if target.at_least else 1.01)
        assert target.met(target.limit)
        assert not target.met(worse)


@pytest.mark.backend_free
def test_the_tables():
    text = markdown([{**RESULT, "backend": "jax"}, RESULT])
    assert "\n\njax, torch: 2026-01-31; Linux x86_64, a processor, 2 cores, 24 GiB; python" in text
    assert "| figure | of | target | jax | torch |" in text
    assert (
        "| model | layers | MB | ramet.clone, ms | weights=share | ramet.clone, all kept "
        "| clone_model | clone_model + set_weights | deepcopy | plain torch, deepcopy |"
    ) in text
    assert "| ResNet50 | 177 | 102 | 100 | 0.50 | 8.00 | 10.0 | 12.0 | - | 0.90 |" in text
    assert (
        "| chain of 5,000 | 5,001 | 0.72 | 2,000 | - | not run | failed: RecursionError | - "
        "| failed: RecursionError | - |"
    ) in text
    assert "- chain of 5,000, failed: RecursionError: too deep (clone_model, deepcopy)" in text
    assert "- chain of 5,000, not run: takes too long (ramet.clone, all kept)" in text
    assert "| a clone of 5,000 layers, µs per layer | 400 | 400 |" in text
    assert "| a clone's peak of memory, MB | 2,100 | 2,100 |" in text


@pytest.mark.backend_free
def test_numbers_have_two_or_three_digits_that_count():
    figures = (0.00018, 0.034, 0.1, 1.0, 9.99, 10.0, 99.9, 100.0, 12345.6)
    assert [number(figure) for figure in figures] == [
        "0.00018", "0.034", "0.10", "1.00", "9.99", "10.0", "99.9", "100", "12,346",
    ]  # fmt: skip


@pytest.mark.backend_free
def test_ways_take_turns_and_a_failure_is_a_result():
    events = []

    def fail():
        events.append("fail")
        raise KeyError("a\nb")

    timings = measure.alternate(
        {"a": lambda: events.append("a"), "fail": fail, "b": lambda: events.append("b")},
        rounds=2,
        prepare=lambda: events.append("prepare"),
        check=lambda name, _: events.append(f"check {name}"),
    )
    first = ["prepare", "a", "check a", "prepare", "fail", "prepare", "b", "check b"]
    assert events == [*first, "prepare", "a", "prepare", "b"]
    assert timings["fail"] == {"error": "KeyError", "message": r"'a\nb'"}
    assert [len(timings[name]["seconds"]) for name in "ab"] == [2, 2]


@pytest.mark.backend_free
def test_a_failed_check_is_a_failure():
    def check(_name, _result):
        raise ValueError("differs")

    timings = measure.alternate({"a": lambda: None}, rounds=3, check=check)
    assert timings == {"a": {"error": "ValueError", "message": "differs"}}


@pytest.mark.backend_free
@pytest.mark.parametrize(("name", "rounds"), [("PATIENCE", 2), ("LIMIT", 1)])
def test_slow_ways_have_fewer_rounds(monkeypatch, name, rounds):
    monkeypatch.setattr(measure, name, 0.0)
    timings = measure.alternate(
        {"a": lambda: None, "steady": lambda: None}, rounds=5, steady=["steady"]
    )
    assert len(timings["a"]["seconds"]) == rounds
    assert len(timings["steady"]["seconds"]) == 5


@pytest.mark.backend_free
def test_peaks_that_are_over_are_seen():
    growth = measure.peak_growth(lambda: np.ones(50_000_000).sum())
    if growth is None:
        pytest.skip("this system does not tell peaks")
    assert 0.95 < growth / 400_000_000 < 1.2


def test_the_plain_resnet_is_that_of_keras(backend):
    if backend != "torch":
        pytest.skip("plain torch is a peer on PyTorch only")
    import torch
    from benchmarks.plain_resnet import ResNet50

    plain = ResNet50().eval()
    assert sum(weight.numel() for weight in plain.parameters()) == 25_583_592
    statistics = [buffer for buffer in plain.buffers() if buffer.dim()]
    assert sum(buffer.numel() for buffer in statistics) == 53_120
    with torch.no_grad():
        chances = plain(torch.ones(2, 3, 64, 64))
    assert chances.shape == (2, 1000)
    assert torch.allclose(chances.sum(1), torch.ones(2))


def test_the_driver_knows_the_models_that_are_built():
    from benchmarks.models import CASES

    assert tuple(CASES) == MODELS


def test_the_limit_of_recursion_is_restored():
    import sys

    from benchmarks.models import chain

    before = sys.getrecursionlimit()
    assert len(chain(20).layers) == 21
    assert sys.getrecursionlimit() == before


def test_weights_that_differ_are_found():
    from benchmarks.models import chain
    from benchmarks.peers import check_weights, clone_and_set_weights, save_and_load, ways

    model = chain(4)
    for copy in (clone_and_set_weights, save_and_load):
        check_weights(model, "deepcopy", copy(model))
    assert "ramet.clone" in ways(model, "chain")
    with pytest.raises(ValueError, match=r"deepcopy: weight 'dense.*/kernel' is not that of the"):
        check_weights(model, "deepcopy", chain(4))


def test_counted_instructions_are_read():
    printed = "noise\nlayers 91\n==12== Events    : Ir\n==12== Collected : 35191658\n"
    assert instructions.read_count(printed) == (91, 35_191_658)
    with pytest.raises(RuntimeError, match=r"nothing was counted; .*: no such tool"):
        instructions.read_count("no such tool")


def test_counting_needs_valgrind(monkeypatch, capsys):
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr("sys.argv", ["instructions"])
    with pytest.raises(SystemExit):
        instructions.main()
    assert "install the package" in capsys.readouterr().err
