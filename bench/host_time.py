"""Measures the CPU time of the engine thread, without a GPU, in ms per second of all sessions.

    python bench/host_time.py --sessions 32               # units spread over the second, as served
    python bench/host_time.py --sessions 32 --in-step     # all units begin together: large batches

Sessions, engine, scheduler and tables are the real ones, with the small vocabulary of the tests. A simulated
device (simulated_device.py) says in virtual time which steps share a batch, and what a session says. The
CUDA graphs of a GPU return constants. The rest is Python and the calls
of torch, which the host executes while a GPU computes. Other programs change the figures little, because they
are CPU times. Prints Markdown.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.code_decoder import DrawnCodes
from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import GraphPool, Inputs
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import Sampler
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import EngineStep, FeedResult
from random_model import TINY, config_of, random_network
from schedule import MOST_TOKENS, WARM_UP_UNITS, Scenario, Simulation
from simulated_device import ASSUMED, SimulatedCodes, SimulatedDevice, WaitForEvent


class ConstantGraphs(GraphPool):
    """Stands for CUDA graphs: each returns what its first run returned. The host copies inputs and outputs, as
    for a real graph.
    """

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"), enabled=False)
        self._known: dict[Hashable, tuple[Inputs, Any]] = {}

    def __contains__(self, key: Hashable) -> bool:
        return True

    def run(self, key: Hashable, inputs: Inputs, forward: Callable[..., Any]) -> Any:
        if key not in self._known:
            self._known[key] = tuple(given.clone() for given in inputs), forward(*inputs)
        kept, output = self._known[key]
        for own, given in zip(kept, inputs, strict=True):
            own.copy_(given)
        return output.clone()


class HostRunner(ModelRunner):
    """Does the work of the host for each batch, then lets the simulated device take its time.

    `spent` is CPU time by type of step, and `simulated` that of the simulation, in ms.
    """

    def __init__(self, device: SimulatedDevice) -> None:
        tokenizer = Tokenizer(TINY)
        super().__init__(
            random_network(config_of("tiny"), torch.device("cpu"), "torch"),
            Sampler(tokenizer.ids, tokenizer.forbidden, "upstream"),
            slots=device.slots,
            context=2048,
            speech_context=1024,
            invariant=False,
            ragged=True,
            graphs=ConstantGraphs(),
        )
        self.starts_codes = True
        self.spent: dict[str, list[float]] = defaultdict(list)
        self.simulated = 0.0
        self._simulation = device

    def run(self, steps: Sequence[EngineStep]) -> Sequence[Any]:
        if isinstance(steps[0], WaitForEvent):
            waited: Sequence[Any] = self.simulate(self._simulation.run, steps)
            return waited
        answers = self._timed(super().run, steps)
        simulated = self.simulate(self._simulation.run, steps)
        return [_with_words(*pair) for pair in zip(answers, simulated, strict=True)]

    def start(self, steps: Sequence[Any]) -> Any:
        codes = self._timed(super().start, steps)
        return _StartedCodes(codes, self.simulate(self._simulation.start, steps), self)

    def reset(self) -> None:
        self.spent.clear()
        self.simulated = 0.0

    def simulate(self, act: Callable[..., Any], *given: Any) -> Any:
        began = time.thread_time()
        result = act(*given)
        self.simulated += (time.thread_time() - began) * 1000
        return result

    def _timed(self, work: Callable[..., Any], steps: Sequence[EngineStep]) -> Any:
        began = time.thread_time()
        result = work(steps)
        self.spent[type(steps[0]).__name__].append((time.thread_time() - began) * 1000)
        return result


@dataclass(frozen=True)
class _StartedCodes:
    drawn: DrawnCodes
    simulated: SimulatedCodes
    runner: HostRunner

    def is_ready(self) -> bool:
        return self.simulated.is_ready()

    def read(self) -> list[Any]:
        self.runner.simulate(self.simulated.read)
        return self.drawn.read()


def _with_words(answer: Any, simulated: Any) -> Any:
    """An answer of the runner, with the token that the simulated session says."""
    if isinstance(answer, FeedResult):
        return replace(answer, drawn=simulated.drawn)
    return answer if isinstance(answer, Tensor | list) else simulated


def measure(scenario: Scenario) -> tuple[float, dict[str, list[float]]]:
    """CPU time of the engine thread for a second of all sessions, and by type of step, in ms.

    The first units are not counted, so `scenario` has them in addition.
    """
    runners = list[HostRunner]()

    def runner_on(device: SimulatedDevice) -> HostRunner:
        runners.append(HostRunner(device))
        return runners[0]

    simulation = Simulation(scenario, ASSUMED, runner_on)
    marks = list[float]()

    def begin() -> None:
        runners[0].reset()
        marks.append(time.thread_time())

    simulation.gpu.at(1000 * WARM_UP_UNITS, begin)
    simulation.at_end = lambda: marks.append(time.thread_time())
    simulation.run()
    counted = scenario.units - WARM_UP_UNITS
    spent = {kind: [one / counted for one in times] for kind, times in runners[0].spent.items()}
    return ((marks[1] - marks[0]) * 1000 - runners[0].simulated) / counted, spent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=MOST_TOKENS, help="tokens of a unit")
    parser.add_argument("--in-step", action="store_true", help="all units begin together")
    args = parser.parse_args()
    torch.set_num_threads(1)
    phases: Any = "aligned" if args.in_step else "even"
    units = args.seconds + WARM_UP_UNITS
    total, spent = measure(Scenario(args.sessions, units, args.tokens, phases=phases, ticks=1))
    print(f"{args.sessions} sessions that speak {args.tokens} tokens a second:")
    print(f"{total:.0f} ms of the engine thread per second\n")
    print("| step | batches | ms each | ms |\n|---|---|---|---|")
    for name, times in sorted(spent.items(), key=lambda item: -sum(item[1])):
        count, each = len(times) / args.seconds, np.median(times) * args.seconds
        print(f"| {name} | {count:.0f} | {each:.2f} | {sum(times):.0f} |")
    print(f"| sessions and scheduler | | | {total - sum(map(sum, spent.values())):.0f} |")


if __name__ == "__main__":
    main()
