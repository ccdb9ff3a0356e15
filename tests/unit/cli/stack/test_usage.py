"""CPU time and memory of processes."""

from antiphon.cli.stack.usage import ProcessUsage, processes_of, with_generator


def test_usage_is_of_processes_that_ran_all_the_time() -> None:
    pids = with_generator({})
    before = ProcessUsage.of({**pids, "gone": 2**22 + 1})
    assert set(before.cpu_s) == {"generator"}
    sum(n * n for n in range(200_000))
    used = ProcessUsage.of(pids).since(before)
    assert 0 <= used["generator"] < 30
    assert ProcessUsage.of({}).since(before) == {}
    assert processes_of(2**22 + 1) == {}
