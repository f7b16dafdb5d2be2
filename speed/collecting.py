"""Option scoring and generation against lm-eval: the same model and questions in turn; rates, padding, ratios, agreement.

    python speed/collecting.py                             # a random Llama of 20 M parameters
    python speed/collecting.py --model FOLDER --runs 3     # another model, saved with save_pretrained
    python speed/collecting.py --device cuda

lm-eval runs in a virtual environment of its own, made at the first call (build/lm-eval, some minutes). Both sides stay
loaded and answer in turn, so that a busy machine slows both; medians of the runs are printed, and ratios of medians.
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

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build"
LM_EVAL = "lm_eval[hf]==0.4.13"
WORDS = """
the of and to in is was for that with on as by at from his an were are which this also be had first one their its new after who
they has two her she been other when time during there into school more years over only year most would world city some where
between later three state such then national used made known under many university united while part season team film life several
family through water small river house island north south great second day church area music group work called long song company
old village born people number
""".split()  # noqa: SIM905 (a hundred quoted words read worse)
# question words, options (0: text is generated), words an option, examples before it, letters instead of texts
CELLS = {
    "text k=4": (72, 4, 8, 0, False),
    "text k=10": (72, 10, 8, 0, False),
    "letters": (72, 4, 8, 0, True),
    "text k=4, 120-token questions": (116, 4, 8, 0, False),
    "text k=4, 1,000-token questions": (970, 4, 8, 0, False),
    "text k=4, 5-shot": (72, 4, 8, 5, False),
    "generation, 64 tokens": (72, 0, 8, 2, False),
}
NEW_TOKENS, STOP = 64, ("\n\n", "Question", " of", " to")  # the last two so that a random model ends here and there, too
LEAST = 8  # questions a cell


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
        listed = "".join(f"\n({'ABCDEFGHIJ'[i]}) {option}" for i, option in enumerate(options)) if letters else ""
        ends = [f" {'ABCDEFGHIJ'[i]}" for i in range(k)] if letters else [f" {option}" for option in options]
        rows.append({"lead": lead, "prompt": f"{lead}Question: {text(words)}{listed}\nAnswer:", "options": ends})
    return rows


def make_model(folder: Path, hidden: int = 512, layers: int = 5) -> Path:
    """A random Llama (as it stands, of 20 M parameters) with a tokenizer of its own, saved once."""
    if (folder / "model.safetensors").exists():
        return folder
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = ["<pad>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=2000, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([" ".join(WORDS), *(f" {word}" for word in WORDS), "\nQuestion: Answer: (A)"] * 20, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>").save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=8192, hidden_size=hidden, intermediate_size=hidden * 43 // 16, num_hidden_layers=layers,
        num_attention_heads=8, num_key_value_heads=8,
        max_position_embeddings=2048, tie_word_embeddings=True, pad_token_id=0, bos_token_id=1, eos_token_id=2, initializer_range=0.05,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def lm_eval_python() -> Path | None:
    """The interpreter of lm-eval's own environment, made where it is missing; None where that does not work."""
    python = BUILD / "lm-eval" / "bin" / "python"
    if not python.exists():
        print("installing lm-eval, once", file=sys.stderr)
        venv.create(BUILD / "lm-eval", with_pip=True)
    have = subprocess.run([python, "-c", "import lm_eval.models.huggingface"], capture_output=True, check=False)
    if have.returncode:
        command = [python, "-m", "pip", "install", "--quiet", LM_EVAL, "gguf", "--constraint", ROOT / "constraints.txt"]
        if subprocess.run(command, check=False, timeout=900).returncode:
            print("lm-eval does not install here: ours alone", file=sys.stderr)
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
    sampling = Sampling(None, None, NEW_TOKENS, STOP, 0)
    COUNT.watch(engine.model)
    SIDE["engine"] = engine

    def answer(rows: list[dict[str, Any]]) -> list[Answer]:
        if not rows[0]["options"]:
            return [g.text for g in engine.generate([GenerateRequest(row["prompt"]) for row in rows], sampling, lambda n: None)]
        return [list(s.logprobs or ()) for s in engine.score([request_of(row) for row in rows], lambda n: None)]

    return answer


def theirs(folder: str, batch: int, device: str) -> Callable[[list[dict[str, Any]]], list[Answer]]:
    """lm-eval's Hugging Face model."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    model = HFLM(pretrained=folder, device=device, dtype="float32", batch_size=batch)
    COUNT.watch(model.model)

    def answer(rows: list[dict[str, Any]]) -> list[Answer]:
        if not rows[0]["options"]:
            told = {"until": list(STOP), "max_gen_toks": NEW_TOKENS, "do_sample": False}
            wanted = [Instance("generate_until", {}, (row["prompt"], told), 0) for row in rows]
            return list(model.generate_until(wanted, disable_tqdm=True))
        asked = [(row["prompt"], option) for row in rows for option in row["options"]]
        found = iter(model.loglikelihood([Instance("loglikelihood", {}, pair, 0) for pair in asked], disable_tqdm=True))
        return [[next(found)[0] for _ in row["options"]] for row in rows]

    return answer


class Count:
    """Tokens a model was given, and how many were padding (id 0)."""

    tokens = padding = 0

    def watch(self, model: Any) -> None:
        """Count from now on."""
        model.register_forward_pre_hook(self.see, with_kwargs=True)

    def see(self, _: Any, args: Any, kwargs: Any) -> None:
        """One forward pass."""
        ids = args[0] if args else kwargs["input_ids"]
        self.tokens += ids.numel()
        self.padding += int((ids == 0).sum())


COUNT = Count()
CLOCK = time.perf_counter
SIDE: dict[str, Any] = {}


def prefill(rows: list[dict[str, Any]]) -> float:
    """Tokens a second of the bare model on rows as long as ours, without padding: the most option scoring can reach."""
    import torch

    model = SIDE["engine"].model
    asked = SIDE["engine"].questions([request_of(row) for row in rows], 0)
    cost = round(
        statistics.mean(
            q.cost - (len(SIDE["engine"].encode(row["lead"], False)) if row["lead"] else 0) for q, row in zip(asked, rows, strict=True)
        )
    )
    ids = torch.randint(1, 100, (max(1, 2048 // cost), cost))
    passes = max(1, len(rows) // len(ids))
    began = CLOCK()
    with torch.inference_mode():
        for _ in range(passes):
            model(input_ids=ids, use_cache=False, logits_to_keep=1)
    return passes * ids.numel() / (CLOCK() - began)


def request_of(row: dict[str, Any]) -> Any:
    """A row as a request."""
    from collect.engines import ScoreRequest

    return ScoreRequest(row["prompt"], tuple(row["options"]), lead=row["lead"])


def worker(side: str, folder: str, batch: int, cpu: bool, device: str) -> None:
    """Answer cells from standard input, one JSON line each."""
    global CLOCK  # noqa: PLW0603 (one process, one clock)
    CLOCK = time.process_time if cpu else time.perf_counter
    sys.path.insert(0, str(ROOT))
    out, sys.stdout = sys.stdout, sys.stderr  # libraries print
    answers = {"ours": ours, "lm-eval": theirs}[side](folder, batch, device)
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


# ---- both in turn ----


def ask(process: "subprocess.Popen[str]", cell: str, n: int) -> dict[str, Any]:
    """One cell of one side."""
    assert process.stdin and process.stdout  # noqa: S101 (both are pipes)
    print(json.dumps([cell, n]), file=process.stdin, flush=True)
    if not (line := process.stdout.readline()):
        raise SystemExit(f"{process.args} ended; what it says: run it by hand, with a line [{json.dumps(cell)}, 4]")
    answer: dict[str, Any] = json.loads(line)
    return answer


def agreement(a: list[Any], b: list[Any]) -> tuple[int, str]:
    """Questions with the same best option, or text, and the largest difference of two log-likelihoods."""
    if isinstance(a[0], str):
        return sum(x.strip() == y.strip() for x, y in zip(a, b, strict=True)), ""
    same = sum(x.index(max(x)) == y.index(max(y)) for x, y in zip(a, b, strict=True))
    return same, f"{max(abs(p - q) for x, y in zip(a, b, strict=True) for p, q in zip(x, y, strict=True)):.1e}"


def table(runs: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    """Print a row a cell and side, Markdown."""
    print("| | | items/s | tokens/s | tokens/item | padded | items/s of lm-eval | same answer | max difference | of prefill rate |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for cell, sides in runs.items():
        n = len(sides["ours"][0]["answers"])
        medians = {side: statistics.median(r["seconds"] for r in found) for side, found in sides.items()}
        for side, found in sides.items():
            last, seconds = found[-1], medians[side]
            row = [
                cell,
                side,
                f"{n / seconds:.1f}",
                f"{last['tokens'] / seconds:.0f}",
                f"{last['tokens'] / n:.0f}",
                f"{last['padding'] / last['tokens']:.1%}",
            ]
            more = ["", "", "", ""]
            if "prefill" in last:
                rate = statistics.median((r["tokens"] - r["padding"]) / r["seconds"] / r["prefill"] for r in found)
                more[3] = f"{rate:.0%}"
            if side == "ours" and "lm-eval" in sides:
                same, most = agreement(last["answers"], sides["lm-eval"][-1]["answers"])
                more[:3] = [f"{medians['lm-eval'] / seconds:.2f}x", f"{same}/{n}", most]
            print("| " + " | ".join(row + more) + " |")


def size(sides: dict[str, "subprocess.Popen[str]"], cell: str, args: argparse.Namespace) -> int:
    """Questions of a cell: those that the slower side answers in the seconds given, by a first pass over few."""
    slowest = max(ask(process, cell, LEAST)["seconds"] for process in sides.values()) / LEAST
    return max(LEAST, min(args.items, int(args.seconds / slowest)))


def main() -> None:
    """Run both sides and print the table."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", type=Path, help="folder of a model; default: a random Llama of 20 M parameters")
    p.add_argument("--items", type=int, default=500, help="questions a cell, at most")
    p.add_argument("--seconds", type=float, default=60, help="a cell has fewer questions where the slower side would take longer")
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--batch", type=int, default=16, help="lm-eval's batch size")
    p.add_argument("--cells", nargs="+", default=list(CELLS), choices=CELLS)
    p.add_argument(
        "--cpu", action="store_true", help="seconds of processor time, where others use the machine too (with OMP_NUM_THREADS=1)"
    )
    p.add_argument("--device", default="cpu", help="cpu, cuda")
    p.add_argument("--worker", choices=["ours", "lm-eval"], help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.worker:
        return worker(args.worker, str(args.model), args.batch, args.cpu, args.device)
    folder = args.model or make_model(BUILD / "speed-collect")
    pythons = {"ours": Path(sys.executable), "lm-eval": lm_eval_python()}
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
