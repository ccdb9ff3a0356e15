"""What a unit of MiniCPM-o costs: random weights at the real sizes on a GPU, the tiny ones on a CPU.

    python bench/gpu_duplex.py                     # on a GPU: real sizes, 1 to 32 sessions
    python bench/gpu_duplex.py --sessions 1,4 --frames

No checkpoint is needed. Every session hears a second of noise per unit; a LISTEN unit is forced to
listen, a SPEAK unit is made to write its full 18 words and speak 25 codes. The vocoder is not part
of it. Prints Markdown.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from random_model import TINY, WordySampler, config_of, noise_picture, random_network
from roofline import Card, roofline

from inference_worker.engines.minicpmo.duplex import DuplexSession
from inference_worker.engines.minicpmo.duplex_settings import DuplexSettings
from inference_worker.engines.minicpmo.engine import Engine
from inference_worker.engines.minicpmo.hearing import Ears
from inference_worker.engines.minicpmo.images import cut, decode_picture
from inference_worker.engines.minicpmo.runner import Runner
from inference_worker.engines.minicpmo.speaking import Speaker
from inference_worker.engines.minicpmo.speech_sampler import SpeechSettings
from inference_worker.engines.minicpmo.tokenizer import Tokenizer

GIB = 2**30


class Bench:
    """A network, and crowds of sessions over it."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.args = args
        self.sizes = args.sizes or ("real" if self.device.type == "cuda" else "tiny")
        self.config = config_of(self.sizes)
        self.tokenizer = Tokenizer(TINY)
        self.network = random_network(self.config, self.device)
        self.frames = [noise_picture()] if args.frames else []
        self.stages: dict[str, list[float]] = defaultdict(list)

    def crowd(self, count: int) -> tuple[Runner, list[DuplexSession]]:
        """A runner with `count` slots and a prepared session in each."""
        runner = Runner(
            self.network,
            WordySampler(self.tokenizer.ids, self.tokenizer.forbidden, "upstream"),
            slots=count,
            context=self.args.context,
            speech_context=1024,
            invariant=False,
            cuda_graphs=self.device.type == "cuda" and not self.args.eager,
        )
        runner.capture_graphs()
        return runner, [self.session(slot) for slot in range(count)]

    def session(self, slot: int) -> DuplexSession:
        """A session in `slot`, not yet prepared."""
        end = self.config.tts_config.end_code
        return DuplexSession(
            slot,
            self.tokenizer,
            Ears(slot=slot, capacity=self.config.audio_config.max_source_positions),
            Speaker(slot=slot, capacity=1024, end_code=end, settings=SpeechSettings()),
            capacity=self.args.context,
            settings=DuplexSettings(),
        )

    def measure(self, count: int) -> dict[str, Any]:
        """Unit times of `count` sessions in step: milliseconds, all sessions, all units."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        runner, sessions = self.crowd(count)
        engine = Engine(runner)
        try:
            with ThreadPoolExecutor(count) as threads:
                list(threads.map(lambda s: engine.run(s.prepare("system", "end", [])), sessions))
                self.round(engine, threads, sessions, units=2)
                listen = self.round(engine, threads, sessions, listen=True, units=self.args.units)
                speak = self.round(engine, threads, sessions, units=self.args.units)
                ran = (runner.graphs.replayed, runner.graphs.eager)
                self.profile(runner, lambda: self.round(engine, threads, sessions, units=2))
        finally:
            engine.close()
        return {
            "sessions": count,
            "listen": listen,
            "speak": speak,
            "graphs": ran[0] / max(1, sum(ran)),
            "vram": torch.cuda.max_memory_allocated() if self.device.type == "cuda" else 0,
        }

    def round(
        self,
        engine: Engine,
        threads: ThreadPoolExecutor,
        sessions: list[DuplexSession],
        *,
        listen: bool = False,
        units: int,
    ) -> list[float]:
        """Run `units` units of every session, all beginning together."""
        together = threading.Barrier(len(sessions))
        noise = np.random.default_rng(0).normal(0, 0.05, 16000).astype(np.float32)

        def one(session: DuplexSession) -> list[float]:
            times = []
            for _ in range(units):
                together.wait()
                began = time.perf_counter()
                mel = session.ears.listen(noise)
                pictures = [
                    cut(decode_picture(f), self.config.slice_config, 1) for f in self.frames
                ]
                engine.run(session.prefill(mel, pictures))
                engine.run(session.generate(force_listen=listen))
                times.append((time.perf_counter() - began) * 1000)
                engine.run(session.finalize())
            return times

        return [t for times in threads.map(one, sessions) for t in times]

    def profile(self, runner: Runner, work: Callable[[], object]) -> None:
        """Time every batch of `work` by the kind of its steps."""
        self.stages.clear()
        run = runner.run

        def timed(steps: Any) -> Any:
            self.settle()
            began = time.perf_counter()
            answers = run(steps)
            self.settle()
            kind = type(steps[0]).__name__
            size = getattr(steps[0], "size", 1)
            label = f"{kind} of {size}" if kind in ("Feed", "Utter") and size == 1 else kind
            self.stages[label].append((time.perf_counter() - began) * 1000)
            return answers

        runner.run = timed  # type: ignore[method-assign]
        work()
        runner.run = run  # type: ignore[method-assign]

    def settle(self) -> None:
        """Wait for the GPU."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def percentile(times: list[float], share: float) -> float:
    """The value below which `share` of `times` lie."""
    ranked = sorted(times)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sessions", default="", help="crowd sizes, such as 1,2,4,8,16,32")
    parser.add_argument("--units", type=int, default=8, help="units of each kind per session")
    parser.add_argument("--context", type=int, default=4096, help="tokens per slot")
    parser.add_argument("--frames", action="store_true", help="a picture in every unit")
    parser.add_argument("--sizes", choices=["real", "tiny"], help="instead of by device")
    parser.add_argument("--eager", action="store_true", help="without CUDA graphs")
    parser.add_argument(
        "--tbps", type=float, default=4.8, help="memory bandwidth, TB/s (H200: 4.8)"
    )
    parser.add_argument("--tflops", type=float, default=989.0, help="bfloat16 TFLOP/s (H200: 989)")
    args = parser.parse_args()
    bench = Bench(args)
    on_gpu = bench.device.type == "cuda"
    card = torch.cuda.get_device_name() if on_gpu else "CPU"
    print(f"{bench.sizes} sizes with random weights on {card}, torch {torch.__version__}\n")
    if not on_gpu:
        print("No GPU here: these numbers say that the bench runs, and nothing about the model.\n")
    default = "1,2,4,8,16,32" if on_gpu else "1,4"
    print("| sessions | LISTEN p50 | p99 | SPEAK p50 | p99, ms | from graphs | VRAM, GiB |")
    print("|---|---|---|---|---|---|---|")
    count = 1
    for count in map(int, (args.sessions or default).split(",")):
        got = bench.measure(count)
        listen, speak = got["listen"], got["speak"]
        print(
            f"| {count} | {statistics.median(listen):.1f} | {percentile(listen, 0.99):.1f} "
            f"| {statistics.median(speak):.1f} | {percentile(speak, 0.99):.1f} "
            f"| {got['graphs']:.0%} | {got['vram'] / GIB:.1f} |"
        )
    print(f"\nStages of two SPEAK units with {count} sessions, each batch waited for:\n")
    print("| stage | batches | ms each | ms in all |\n|---|---|---|---|")
    for name, times in sorted(bench.stages.items(), key=lambda item: -sum(item[1])):
        print(f"| {name} | {len(times)} | {statistics.median(times):.2f} | {sum(times):.0f} |")
    if on_gpu:
        print(f"\nA SPEAK unit of {count} sessions at {args.context // 2} tokens against {card}:\n")
        ceilings = Card(args.tbps, args.tflops)
        print(
            "\n".join(roofline(bench.network, ceilings, sessions=count, context=args.context // 2))
        )


if __name__ == "__main__":
    main()
