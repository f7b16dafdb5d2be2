"""Merged and rounded weights, by hand."""

import json
from math import sqrt
from pathlib import Path

import pytest
import torch
from models import DEMO
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

from catalog.errors import CatalogError
from collect import shards
from collect.__main__ import main
from collect.device import place
from collect.engines.transformers import TransformersEngine
from collect.merge import lerp, merge, rounded_to_8_bits, slerp
from collect.models import ModelSpec, locate, model_row


def test_half_way_along_a_right_angle():
    """Between (2, 0) and (0, 2) the line's middle is (1, 1), the arc's (sqrt 2, sqrt 2)."""
    a, b = torch.tensor([2.0, 0.0]), torch.tensor([0.0, 2.0])
    assert lerp(a, b, 0.5).tolist() == [1, 1]
    assert slerp(a, b, 0.5).tolist() == pytest.approx([sqrt(2), sqrt(2)])
    assert slerp(a, b, 1 / 3).tolist() == pytest.approx([2 * sqrt(3) / 2, 2 / 2])  # 30 of 90 degrees


def test_ends_and_aligned_vectors():
    """Weight 0 is the first, 1 the second; where there is no angle, or a zero vector, the line is taken; shapes stay."""
    a, b = torch.randn(3, 4, generator=torch.manual_seed(0)), torch.randn(3, 4, generator=torch.manual_seed(1))
    for method in (lerp, slerp):
        assert torch.allclose(method(a, b, 0.0), a, atol=1e-6) and torch.allclose(method(a, b, 1.0), b, atol=1e-6)
    assert torch.equal(slerp(a, 3 * a, 0.5), 2 * a)
    assert torch.equal(slerp(a, torch.zeros(3, 4), 0.5), a / 2)


def test_other_architectures_are_refused():
    """Names and shapes must agree; the odd ones are named."""
    with pytest.raises(ValueError, match=r"not of one architecture: w differ"):
        merge({"w": torch.zeros(2)}, {"w": torch.zeros(3)}, "lerp", 0.5)
    with pytest.raises(ValueError, match="v, w differ"):
        merge({"w": torch.zeros(2)}, {"v": torch.zeros(2)}, "slerp", 0.5)
    half = merge({"w": torch.zeros(2, dtype=torch.float16)}, {"w": torch.ones(2, dtype=torch.float16)}, "lerp", 0.25)
    assert half["w"].tolist() == [0.25, 0.25] and half["w"].dtype == torch.float32


def test_eight_bits_a_row():
    """Every row on its own grid of 255 steps, its largest value exactly; rows of zeros and vectors stay as they are."""
    weights = {"w": torch.tensor([[1.27, 0.014, -0.016], [0.0, 0.0, 0.0]]), "norm": torch.tensor([0.123456])}
    rounded = rounded_to_8_bits(weights)
    assert rounded["w"].flatten().tolist() == pytest.approx([1.27, 0.01, -0.02, 0, 0, 0], abs=1e-6)
    assert torch.equal(rounded["norm"], weights["norm"])


# ---- folders: `collect merge`, `collect quantise` -------------------------------

VOCABULARY = {"a": 0, "b": 1}


@pytest.fixture
def model(tmp_path):
    """Make a model folder of a few tensors, one safetensors file for each dict of them."""

    def make(name, *shards, vocabulary=VOCABULARY, **config):
        folder = tmp_path / name
        folder.mkdir()
        for n, tensors in enumerate(shards, 1):
            save_file(tensors, folder / f"model-{n:05d}-of-{len(shards):05d}.safetensors")
        (folder / "config.json").write_text(json.dumps({"model_type": "llama", "num_attention_heads": 1, **config}))
        (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}, "added_tokens": []}))
        (folder / "trainer_state.json").write_text("{}")
        return str(folder)

    return make


def weights_of(folder):
    """Every tensor of a model folder."""
    return {name: tensor for path in sorted(Path(folder).glob("*.safetensors")) for name, tensor in load_file(path).items()}


def test_merged_folder_by_hand(model, tmp_path):
    """A quarter of the way from (0 2; 4 6) to (4 2; 0 -2) is (1 2; 3 4); shards may be cut in other places; A's files are copied."""
    embedding, square = torch.tensor([[8.0, 0.0], [0.0, 8.0]]), torch.tensor([[0.0, 2.0], [4.0, 6.0]])
    a = model("a", {"embed_tokens": embedding, "w": square.bfloat16()}, {"norm": torch.tensor([1.0])})
    b = model("b", {"norm": torch.tensor([3.0])}, {"w": torch.tensor([[4.0, 2.0], [0.0, -2.0]]).bfloat16(), "embed_tokens": embedding})
    assert main(["merge", f"org/a@1={a}", b, "--method", "lerp", "--weight", ".25", "--out", str(tmp_path / "out")]) == 0
    merged = weights_of(tmp_path / "out")
    assert merged["w"].tolist() == [[1, 2], [3, 4]] and merged["w"].dtype == torch.bfloat16
    assert merged["norm"].tolist() == [1.5] and torch.equal(merged["embed_tokens"], embedding)
    located = locate(ModelSpec(str(tmp_path / "out")))
    row = model_row(located, None, True)
    assert row["parents"] == ["org/a@1", locate(ModelSpec(b)).model_id] and row["recipe"] == "lerp, weight 0.25" and row["kind"] == "merged"
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["catalog_model.json", "config.json", "model.safetensors", "tokenizer.json"]


def test_slerp_of_folders_and_several_files(model, tmp_path, monkeypatch):
    """30 of 90 degrees as above; files of at most 15 bytes hold a tensor each and the index says which."""
    monkeypatch.setattr(shards, "SHARD", 15)
    a, b = (model(n, {"v": torch.tensor([1.0]), "w": torch.tensor([w])}) for n, w in (("a", [2.0, 0.0, 0.0]), ("b", [0.0, 2.0, 0.0])))
    shards.merge_folders(ModelSpec(a), ModelSpec(b), "slerp", 1 / 3, tmp_path / "out")
    assert weights_of(tmp_path / "out")["w"].flatten().tolist() == pytest.approx([sqrt(3), 1, 0])
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    assert index["weight_map"] == {"v": "model-00001-of-00002.safetensors", "w": "model-00002-of-00002.safetensors"}
    assert index["metadata"] == {"total_size": 16}
    assert all(set(load_file(tmp_path / "out" / file)) == {name} for name, file in index["weight_map"].items())


def test_shared_embeddings_may_be_written_out_on_one_side(model, tmp_path):
    """An output layer that repeats shared embeddings is left out; one that differs from them is another model's."""
    embedding, other = torch.eye(2), torch.ones(2, 2)
    a = model("a", {"embed_tokens": embedding}, tie_word_embeddings=True)
    b = model("b", {"embed_tokens": other, "lm_head": other.clone()}, tie_word_embeddings=True)
    shards.merge_folders(ModelSpec(a), ModelSpec(b), "lerp", 0.5, tmp_path / "out")
    assert weights_of(tmp_path / "out")["embed_tokens"].tolist() == [[1, 0.5], [0.5, 1]] and "lm_head" not in weights_of(tmp_path / "out")
    odd = model("odd", {"embed_tokens": other, "lm_head": embedding}, tie_word_embeddings=True)
    with pytest.raises(CatalogError, match=r"/a has no lm_head, .*/odd has"):
        shards.merge_folders(ModelSpec(a), ModelSpec(odd), "lerp", 0.5, tmp_path / "out2")


W = {"w": torch.eye(2)}
REFUSED = {
    "shapes": ([{"w": torch.zeros(3, 2)}], {}, r"not of one architecture: w is \(2, 2\) in .*/a and \(3, 2\) in .*/b"),
    "names": ([{"w": 2 * torch.eye(2), "v": torch.zeros(1), "x": torch.zeros(1)}], {}, r"/a has no v and 1 more, .*/b has"),
    "tokenizer": ([{"w": 2 * torch.eye(2)}], {"vocabulary": {"a": 1, "b": 0}},
                  r"tokenizers differ in 2 tokens, first 'a': id 0 in .*/a, 1 in .*/b"),
    "config": ([{"w": 2 * torch.eye(2)}], {"num_attention_heads": 2}, r"differ in .*num_attention_heads = 1 and 2; .*: wanted two checkpoints"),
    "same": ([W], {}, r"are the same weights \(local/a@[0-9a-f]{12}\): nothing to merge"),
    "quantised": ([{"w": 2 * torch.eye(2)}], {"quantization_config": {"bits": 4}}, r"/b holds quantised weights: wanted floats"),
    "twice": ([{"w": 2 * torch.eye(2)}, {"w": torch.eye(2)}], {}, r"/b holds w in two files"),
    "whole numbers": ([{"w": torch.tensor([[1, 0], [0, 2]])}], {}, "w holds whole numbers and differs between"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_merging_refuses(model, tmp_path, case):
    """What cannot be merged is named, and nothing is left behind."""
    tensors, told, why = REFUSED[case]
    a, b = model("a", {"w": torch.eye(2).long()} if case == "whole numbers" else W), model("b", *tensors, **told)
    with pytest.raises(CatalogError, match=why):
        shards.merge_folders(ModelSpec(a), ModelSpec(b), "lerp", 0.5, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_configs_of_two_versions_of_transformers_are_one(model, tmp_path):
    """An older transformers wrote rope_theta, a newer one rope_parameters and what else it fills in: the same model."""
    a, b = (Path(model(name, {"w": w * torch.eye(2)})) for name, w in (("a", 1), ("b", 2)))
    old = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
           "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 8, "rope_theta": 10000.0, "rope_scaling": None}  # fmt: skip
    (a / "config.json").write_text(json.dumps(old))
    AutoConfig.from_pretrained(a).save_pretrained(b)
    assert "rope_theta" not in json.loads((b / "config.json").read_text())
    shards.merge_folders(ModelSpec(str(a)), ModelSpec(str(b)), "lerp", 0.5, tmp_path / "out")
    assert weights_of(tmp_path / "out")["w"].tolist() == [[1.5, 0], [0, 1.5]]
    (a / "config.json").write_text(json.dumps(old | {"rope_theta": 5e5}))
    with pytest.raises(CatalogError, match="differ in rope_parameters"):
        shards.merge_folders(ModelSpec(str(a)), ModelSpec(str(b)), "lerp", 0.5, tmp_path / "out2")


def test_ids_that_were_typed_say_nothing_of_weights(model, tmp_path):
    """org/a@1 and org/b@1 are other weights; org/a@1 and org/a@2 may be the same."""
    a, b = model("a", W), model("b", {"w": 2 * torch.eye(2)})
    shards.merge_folders(ModelSpec(a, name="org/a@1"), ModelSpec(b, name="org/b@1"), "lerp", 0.5, tmp_path / "out")
    with pytest.raises(CatalogError, match="are the same weights"):
        shards.merge_folders(ModelSpec(a, name="org/a@1"), ModelSpec(model("c", W), name="org/a@2"), "lerp", 0.5, tmp_path / "out2")


def test_ends_and_existing_folders_are_refused(model, tmp_path, capsys):
    """Weight 1 would be B itself; a folder that is there is not written over, nor one with a missing shard read."""
    a, b = model("a", W), model("b", {"w": 2 * torch.eye(2)})
    assert main(["merge", a, b, "--weight", "1", "--out", str(tmp_path / "out")]) == 1
    assert "wanted between 0 and 1 (0 would be A itself, 1 B)" in capsys.readouterr().err
    assert main(["merge", a, b, "--weight", ".5", "--out", b]) == 1
    assert f"{b} exists already: remove it, or choose another --out" in capsys.readouterr().err
    (Path(b) / shards.INDEX).write_text(json.dumps({"weight_map": {"w": "1", "v": "2"}}))
    assert main(["merge", a, b, "--weight", ".5", "--out", str(tmp_path / "out")]) == 1
    assert "lacks 1 tensors of its model.safetensors.index.json, first v" in capsys.readouterr().err


def test_quantised_folder_by_hand(model, tmp_path):
    """4 bits: 7 steps to each side of the largest of 32; a 33rd weight has its own scale. Embeddings and vectors stay; dtype too."""
    row = torch.zeros(2, 33)
    row[0, :3], row[0, 32], row[1, :2] = torch.tensor([7.0, 2.6, -0.4]), 0.3, torch.tensor([-0.7, 0.16])
    m = model("m", {"embed_tokens": row + 0.1, "norm": row[0].clone(), "w": row.bfloat16()})
    assert main(["quantise", f"org/m@1={m}", "--bits", "4", "--out", str(tmp_path / "q")]) == 0
    got = weights_of(tmp_path / "q")
    assert got["w"][0].tolist()[:3] == [7, 3, 0] and got["w"].dtype == torch.bfloat16
    assert got["w"][1].tolist()[:2] == pytest.approx([-0.7, 0.2], rel=0.01) and got["w"][0, 32].item() == pytest.approx(0.3, rel=0.01)
    assert torch.equal(got["embed_tokens"], row + 0.1) and torch.equal(got["norm"], row[0])
    described = model_row(locate(ModelSpec(str(tmp_path / "q"))), None, False)
    assert described["parents"] == ["org/m@1"] and described["quantisation"].startswith("int4 weights, one scale each 32 of a row")
    shards.quantise_folder(ModelSpec(m), 8, tmp_path / "q8")  # one scale a row: 7/127; 2.6 is 47.17 steps, .3 is 5.44
    assert weights_of(tmp_path / "q8")["w"][0, [0, 1, 32]].tolist() == pytest.approx([7, 47 * 7 / 127, 5 * 7 / 127], rel=0.005)


def test_a_full_disk_and_a_kill_leave_nothing_half_written(model, tmp_path, monkeypatch):
    """The second file cannot be written: no folder. What a killed call left is no part of the next call's folder."""
    m = model("m", {"v": torch.eye(2), "w": torch.eye(2)})
    monkeypatch.setattr(shards, "SHARD", 16)

    def full(tensors, path, metadata):
        if path.name.startswith("1"):
            raise OSError(28, "No space left on device")
        save_file(tensors, path, metadata)

    with monkeypatch.context() as patch, pytest.raises(CatalogError, match=r"cannot write .*/out: .*No space left on device"):
        patch.setattr(shards, "save_file", full)
        shards.quantise_folder(ModelSpec(m), 8, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    killed = tmp_path / "out.part"
    killed.mkdir()
    (killed / "7.safetensors").write_bytes(b"half")
    shards.quantise_folder(ModelSpec(m), 8, tmp_path / "out")
    assert not killed.exists() and not list((tmp_path / "out").glob("7*")) and set(weights_of(tmp_path / "out")) == {"v", "w"}


def test_merge_of_the_shipped_models_answers(tmp_path):
    """Half-way between base and domain, from their files: the shipped merge to rounding, and every engine loads it."""
    models = DEMO / "models"
    shards.merge_folders(ModelSpec(str(models / "medium-base")), ModelSpec(str(models / "medium-domain")), "lerp", 0.5, tmp_path / "half")
    ours, shipped = weights_of(tmp_path / "half"), weights_of(models / "medium-lerp")
    assert ours.keys() == shipped.keys()
    assert max((ours[n].float() - shipped[n].float()).abs().max().item() for n in ours) < 2e-3
    assert TransformersEngine(locate(ModelSpec(str(tmp_path / "half"))), place("cpu", None)).has_template is False
