"""Option scoring and generation against lm-eval and lighteval: the same model and questions in turn; rates, padding, ratios, agreement.

    python speed/collecting.py                             # a random Llama of 20 M parameters
    python speed/collecting.py --model smollm2 --runs 3    # SmolLM2-135M out of a PyPI wheel; or a folder
    python speed/collecting.py --device cuda

lm-eval (and with --lighteval that) runs in a virtual environment of its own, made at the first call (build/lm-eval, some
minutes). All sides stay loaded and answer in turn, so that a busy machine slows all; medians of the runs are printed, and
ratios of medians.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from small_models import WORDS, make_model, make_smollm2

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build"
# a module that shows that a peer is there, and what is installed for it; torch and transformers as ours (constraints.txt)
PEERS = {
    "lm-eval": ("lm_eval.models.huggingface", "lm_eval[hf]==0.4.13", "gguf"),
    "lighteval": ("lighteval.models.transformers.transformers_model", "lighteval==0.13.0", "xxhash==3.8.2"),  # xxhash 4: it does not start
}
# question words, options (0: text is generated), words an option, examples before it, letters instead of texts
CELLS = {
    "text k=4": (72, 4, 8, 0, False),
    "text k=10": (72, 10, 8, 0, False),
    "letters": (72, 4, 8, 0, True),
    "text k=4, 120-token questions": (116, 4, 8, 0, False),
    "text k=4, 1,000-token questions": (970, 4, 8, 0, False),
    "text k=4, 5-shot": (72, 4, 8, 5, False),
    "64 tokens generated": (72, 0, 8, 0, False),
    "1 to 64 tokens generated": (72, 0, 8, 0, False),
    "1 to 64 tokens generated, 2-shot": (72, 0, 8, 2, False),
}
NEW_TOKENS = 64
STOPS = ("o",)  # of "1 to 64": letters, so that a random model's answers end here and there, too
LEAST = 2  # questions a cell, if a model is slow; 8 where they share examples, which run once from so many on


Answer = list[float] | str  # log-likelihoods of the options, or text


def questions(cell: str, n: int) -> list[dict[str, Any]]:
    """Made-up questions: lead (examples they share), prompt, options."""
    words, k, long, shots, letters = CELLS[cell]
    rng = random.Random(f"{cell}")

    def text(length: int) -> str:
        return " ".join(rng.choice(WORDS) for _ in range(max(1, round(length * rng.uniform(0.75, 1.25)))))

    lead = "".join(f"Question: {text(words)}\nAnswer: {text(long)}\n\n" for _ in range(shots))
    rows = []
    for _ in range(n):
        options = [text(long) for _ in range(k)]
        thought = "" if k else " Let me think. The"  # without, a chat model ends its answer at once
        listed = "".join(f"\n({'ABCDEFGHIJ'[i]}) {option}" for i, option in enumerate(options)) if letters else ""
        ends = [f" {'ABCDEFGHIJ'[i]}" for i in range(k)] if letters else [f" {option}" for option in options]
        rows.append(
            {
                "lead": lead,
                "stop": STOPS if cell.startswith("1 to") else ("\n\n\n",),
                "prompt": f"{lead}Question: {text(words)}{listed}\nAnswer:{thought}",
                "options": ends,
            }
        )
    return rows


def python_of(side: str) -> Path | None:
    """The interpreter of a peer's own environment, made where it is missing; None where that does not work."""
    python = BUILD / side / "bin" / "python"
    if not python.exists():
        print(f"installing {side}, once", file=sys.stderr)
        venv.create(BUILD / side, with_pip=True)
    module, *wanted = PEERS[side]
    if subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode:
        command = [python, "-m", "pip", "install", "--quiet", *wanted, "--constraint", ROOT / "constraints.txt"]
        if subprocess.run(command, check=False, timeout=900).returncode:
            print(f"{side} does not install here, it is left out", file=sys.stderr)
            return None
    return python


# ---- one side, in its own process ----


def ours(folder: str, batch: int, device: str) -> Callable[[list[dict[str, Any]]], list[Answer]]:
    """Our engine."""
    del batch  # it has a budget of tokens
    from collect.device import place
    from collect.engines import GenerateRequest, Sampling
    from collect.engines.transformers import TransformersEngine
    from collect.models import ModelSpec, locate

    engine = TransformersEngine(locate(ModelSpec(folder)), place(device, "float32"))
    COUNT.watch(engine.model, engine.tokenizer)
    SIDE["engine"] = engine

    def answer(rows: list[dict[str, Any]]) -> list[Answer]:
        if not rows[0]["options"]:
            sampling = Sampling(None, None, NEW_TOKENS, rows[0]["stop"], 0)
            return [g.text for g in engine.generate([GenerateRequest(row["prompt"]) for row in rows], sampling, lambda n: None)]
        return [list(s.logprobs or ()) for s in engine.score([request_of(row) for row in rows], lambda n: None)]

    return answer


def theirs(folder: str, batch: int, device: str) -> Callable[[list[dict[str, Any]]], list[Answer]]:
    """lm-eval's Hugging Face model."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    model = HFLM(pretrained=folder, device=device, dtype="float32", batch_size=batch)
    COUNT.watch(model.model, model.tokenizer)

    def answer(rows: list[dict[str, Any]]) -> list[Answer]:
        if not rows[0]["options"]:
            told = {"until": list(rows[0]["stop"]), "max_gen_toks": NEW_TOKENS, "do_sample": False}
            wanted = [Instance("generate_until", {}, (row["prompt"], told), 0) for row in rows]
            return list(model.generate_until(wanted, disable_tqdm=True))
        asked = [(row["prompt"], option) for row in rows for option in row["options"]]
        found = iter(model.loglikelihood([Instance("loglikelihood", {}, pair, 0) for pair in asked], disable_tqdm=True))
        return [[next(found)[0] for _ in row["options"]] for row in rows]

    return answer


def lighteval(folder: str, batch: int, device: str) -> Callable[[list[dict[str, Any]]], list[Answer]]:
    """lighteval's Hugging Face model, past its cache of answers.

    It rounds options to batches of 8 questions or 1: it gets 8, more rows than lm-eval has.
    """
    from lighteval.models.transformers.transformers_model import TransformersModel, TransformersModelConfig
    from lighteval.tasks.requests import Doc

    told = {"device": device, "dtype": "float32", "batch_size": batch, "model_parallel": False, "override_chat_template": False}
    model = TransformersModel(TransformersModelConfig(model_name=folder, **told))
    COUNT.watch(model.model, model.tokenizer)

    def answer(rows: list[dict[str, Any]]) -> list[Answer]:
        if not rows[0]["options"]:
            model.config.batch_size = batch
            docs = [Doc(row["prompt"], [], 0, generation_size=NEW_TOKENS, stop_sequences=list(row["stop"])) for row in rows]
            texts = [response.text[0] for response in model._padded_greedy_until(docs)]
            return [text[: min(f"{text}{stop}".find(stop) for stop in rows[0]["stop"])] for text in texts]
        model.config.batch_size = 8 * len(rows[0]["options"])
        found = model._loglikelihood_tokens([Doc(row["prompt"], row["options"], 0) for row in rows])
        return [[float(value) for value in response.logprobs] for response in found]

    return answer


class Count:
    """Tokens a model was given, and how many were padding."""

    tokens = padding = 0

    def watch(self, model: Any, tokenizer: Any) -> None:
        """Count from now on. Both sides pad with 0, or with the tokenizer's own; neither is in the questions."""
        self.pads = {0, tokenizer.pad_token_id or 0}
        model.register_forward_pre_hook(self.see, with_kwargs=True)

    def see(self, _: Any, args: Any, kwargs: Any) -> None:
        """One forward pass."""
        ids = args[0] if args else kwargs["input_ids"]
        self.tokens += ids.numel()
        self.padding += sum(int((ids == pad).sum()) for pad in self.pads)


COUNT = Count()
CLOCK = time.perf_counter
SIDE: dict[str, Any] = {}


def prefill(rows: list[dict[str, Any]]) -> float:
    """Tokens a second of the bare model on rows as long as ours, without padding: the most option scoring can reach.

    Where the rows begin with the same examples, the model has read these, and reads the rows behind them.
    """
    import torch

    from collect.engines.packing import repeated

    engine = SIDE["engine"]
    past = len(engine.encode(rows[0]["lead"], chat=False)) if rows[0]["lead"] else 0
    asked = engine.questions([request_of(row) for row in rows], 0)
    cost = round(statistics.mean(q.cost for q in asked)) - past
    n = min(len(rows), max(1, 2048 // cost))
    device = engine.place.device
    ids = torch.randint(1, 100, (n, cost), device=device)
    told = {
        "attention_mask": torch.ones(n, past + cost, device=device),
        "position_ids": torch.arange(past, past + cost, device=device)[None],
    }
    with torch.inference_mode():
        if past:
            examples = torch.randint(1, 100, (1, past), device=device)
            cache = engine.model(input_ids=examples, use_cache=True, logits_to_keep=1).cache
        passes = max(1, len(rows) // n)
        began = CLOCK()
        for _ in range(passes):
            more = {"use_cache": True, "cache": repeated(cache, n)} if past else {"use_cache": False}
            engine.model(input_ids=ids, logits_to_keep=1, **told, **more).logits.sum().item()  # waits for a GPU
    return passes * ids.numel() / (CLOCK() - began)


def request_of(row: dict[str, Any]) -> Any:
    """A row as a request."""
    from collect.engines import ScoreRequest

    return ScoreRequest(row["prompt"], tuple(row["options"]), lead=row["lead"])


SIDES = {"ours": ours, "lm-eval": theirs, "lighteval": lighteval}


def worker(side: str, folder: str, batch: int, cpu: bool, device: str) -> None:
    """Answer cells from standard input, one JSON line each."""
    global CLOCK  # noqa: PLW0603 (one process, one clock)
    CLOCK = time.process_time if cpu else time.perf_counter
    sys.path.insert(0, str(ROOT))
    out, sys.stdout = sys.stdout, sys.stderr  # libraries print
    answers = SIDES[side](folder, batch, device)
    for line in sys.stdin:
        cell, n = json.loads(line)
        rows = questions(cell, n)
        COUNT.tokens = COUNT.padding = 0
        began = CLOCK()
        given = answers(rows)
        answer = {"seconds": CLOCK() - began, "tokens": COUNT.tokens, "padding": COUNT.padding, "answers": given}
        if side == "ours" and rows[0]["options"]:
            answer["prefill"] = prefill(rows)
        print(json.dumps(answer), file=out, flush=True)


# ---- all in turn ----


def ask(process: "subprocess.Popen[str]", cell: str, n: int) -> dict[str, Any]:
    """One cell of one side."""
    assert process.stdin and process.stdout  # noqa: S101 (both are pipes)
    print(json.dumps([cell, n]), file=process.stdin, flush=True)
    if not (line := process.stdout.readline()):
        raise SystemExit(f"{process.args} ended; what it says: run it by hand, with a line [{json.dumps(cell)}, 4]")
    answer: dict[str, Any] = json.loads(line)
    return answer


def agreement(a: list[Any], b: list[Any], side: str) -> tuple[int, str]:
    """Questions with the same best option, or text, and the largest difference of two log-likelihoods.

    Where the best options differ, what both sides said is printed (stderr).
    """
    if isinstance(a[0], str):
        return sum(x.strip() == y.strip() for x, y in zip(a, b, strict=True)), ""
    unequal = [(n, x, y) for n, (x, y) in enumerate(zip(a, b, strict=True)) if x.index(max(x)) != y.index(max(y))]
    for n, x, y in unequal:
        print(f"question {n}: ours {[round(v, 5) for v in x]}, {side} {[round(v, 5) for v in y]}", file=sys.stderr)
    most = max(abs(p - q) for x, y in zip(a, b, strict=True) for p, q in zip(x, y, strict=True))
    return len(a) - len(unequal), f"{most:.1e}"


def table(runs: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    """Print a row a cell and side, Markdown."""
    print("| | | items/s | tokens/s | tokens/item | padded | of prefill rate | ours is faster | same answer | max difference |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for cell, sides in runs.items():
        medians = {side: statistics.median(r["seconds"] for r in found) for side, found in sides.items()}
        for side, found in sides.items():
            last, seconds, n = found[-1], medians[side], len(found[-1]["answers"])
            row = [cell, side, f"{n / seconds:.1f}", f"{last['tokens'] / seconds:.0f}", f"{last['tokens'] / n:.0f}"]
            more = [f"{last['padding'] / last['tokens']:.1%}", "", "", "", ""]
            if "prefill" in last:
                rate = statistics.median((r["tokens"] - r["padding"]) / r["seconds"] / r["prefill"] for r in found)
                more[1] = f"{rate:.0%}"
            if side != "ours":
                same, most = agreement(sides["ours"][-1]["answers"], last["answers"], side)
                more[2:] = [f"{seconds / medians['ours']:.2f}x", f"{same}/{n}", most]
            print("| " + " | ".join(row + more) + " |")


def size(sides: dict[str, "subprocess.Popen[str]"], cell: str, args: argparse.Namespace) -> int:
    """Questions of a cell: those that the slower side answers in the seconds given, by passes over ever more."""
    n = least = 8 if CELLS[cell][3] else LEAST
    while True:
        slowest = max(ask(process, cell, n)["seconds"] for process in sides.values())
        fit = max(least, min(args.items, int(args.seconds * n / slowest)))
        if fit <= 2 * n or n >= 16:
            return fit
        n = min(16, fit)


def main() -> None:
    """Run all sides and print the table."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", help="smollm2, or the folder of a model; default: a random Llama of 20 M parameters")
    p.add_argument("--items", type=int, default=500, help="questions a cell, at most")
    p.add_argument("--seconds", type=float, default=60, help="a cell has fewer questions where the slower side would take longer")
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--batch", type=int, default=16, help="lm-eval's batch size")
    p.add_argument("--cells", nargs="+", default=list(CELLS), choices=CELLS)
    p.add_argument(
        "--cpu", action="store_true", help="seconds of processor time, where others use the machine too (with OMP_NUM_THREADS=1)"
    )
    p.add_argument("--device", default="cpu", help="cpu, cuda")
    p.add_argument("--lighteval", action="store_true", help="ask lighteval too")
    p.add_argument("--worker", choices=SIDES, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.worker:
        return worker(args.worker, str(args.model), args.batch, args.cpu, args.device)
    made = {None: (make_model, "speed-collect"), "smollm2": (make_smollm2, "speed-smollm2")}
    folder = made[args.model][0](BUILD / made[args.model][1]) if args.model in made else Path(args.model)
    peers = ["lm-eval", "lighteval"] if args.lighteval else ["lm-eval"]
    pythons = {"ours": Path(sys.executable), **{peer: python_of(peer) for peer in peers}}
    sides = {
        side: subprocess.Popen(
            [python, __file__, "--worker", side, "--model", folder, "--batch", str(args.batch), "--device", args.device]
            + ["--cpu"] * args.cpu,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        for side, python in pythons.items() if python
    }  # fmt: skip
    sizes = {cell: size(sides, cell, args) for cell in args.cells}
    runs = {cell: {side: [] for side in sides} for cell in args.cells}
    for number in range(args.runs):
        for cell in args.cells:
            for side, process in sides.items():
                runs[cell][side].append(ask(process, cell, sizes[cell]))
        print(f"run {number + 1} of {args.runs}", file=sys.stderr)
    table(runs)
    for process in sides.values():
        process.communicate()


if __name__ == "__main__":
    main()
