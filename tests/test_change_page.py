"""The page about a weight change: the facts are on it, whatever is missing, and nothing of it runs or loads."""

from __future__ import annotations

import json
import re
import sys
import types
from functools import cache
from typing import Any

import numpy as np
import pytest

from saddlescope.core.errors import BadArgument
from saddlescope.show import change
from saddlescope.show.change import change_page, kind_of, kinds_of, lora_code, percent, rank_grid, short, tint

from .browser import opens_well
from .conftest import printed
from .test_page import Reader

HOSTILE = "h.0.<script>alert('$x^2$')</script>&\"{{ 7 * 7 }}.weight"


def module(name: str, above: int = 3, **changes: Any) -> dict[str, Any]:
    values = [0.5 / (1 + place) for place in range(above)] + [0.001] * (8 - above)
    return {
        "name": name,
        "shape": [48, 64],
        "dtype": "bfloat16",
        "relative_change": 0.0123,
        "stable_rank": 1.36,
        "entropy_rank": 2.04,
        "entropy_rank_bounds": [2.04, 2.04],
        "energy_rank_90": 2,
        "energy_rank_99": 3,
        "rank_above_floor": above,
        "floor": 0.0021,
        "random_stable_rank": 13.8,
        "singular_values": values,
        "residual_energy": 0.0001,
        "unchanged": 0.25,
        "remark": "",
    } | changes


def still(name: str) -> dict[str, Any]:
    zeros = dict.fromkeys(("relative_change", "stable_rank", "entropy_rank", "energy_rank_90", "energy_rank_99"), 0)
    return module(name, 0, singular_values=[0.0] * 8, floor=0.0, unchanged=1.0, entropy_rank_bounds=[0, 0], **zeros)


def head(layer: int, number: int, circuit: str, stable_rank: float | None = 2.5, **changes: Any) -> dict[str, Any]:
    return {
        "layer": layer,
        "head": number,
        "circuit": circuit,
        "relative_change": 0.034,
        "stable_rank": stable_rank,
        "rank": 5,
        "floor": 0.001,
        "random_stable_rank": 21.4,
        "singular_values": [0.1, 0.05],
    } | changes


def lora_of(ranks: dict[str, int]) -> dict[str, Any]:
    return {
        "r": 3,
        "lora_alpha": 3,
        "target_modules": list(ranks),
        "rank_pattern": ranks,
        "alpha_pattern": ranks,
        "fan_in_fan_out": True,
        "parameters": 1234567,
        "residual": 0.0567,
        "relative_residual": 0.089,
        "energy": 1.0,
        "budget": None,
        "left_out": [{"name": "conv.weight", "reason": "a LoRA changes linear layers and embeddings, no kernel"}],
    }


def sample() -> dict[str, Any]:
    names = [f"h.{layer}.{part}.weight" for layer in range(3) for part in ("attn.q", "mlp.up")]
    modules = [module(name, 2 + place % 4) for place, name in enumerate(names)]
    heads = [head(layer, number, circuit) for layer in range(3) for number in range(4) for circuit in ("QK", "OV")]
    return {
        "base": "models/base",
        "tuned": "models/tuned",
        "family": "gpt2",
        "notes": ["Positions are rotated: `QK` leaves that out."],
        "modules": [*modules, still("wte.weight")],
        "heads": heads,
        "lora": lora_of({one["name"].removesuffix(".weight"): one["rank_above_floor"] for one in modules}),
    }


def adapter() -> dict[str, Any]:
    alone = [module(f"h.{layer}.q", 4 + layer, rank=16, relative_change=None, unchanged=None) for layer in range(3)]
    return sample() | {"tuned": None, "family": None, "modules": alone, "heads": [], "lora": None}


def variants() -> dict[str, dict[str, Any]]:
    plain = sample() | {"lora": None}
    bare = plain | {"heads": []}
    uneven = [head(layer, number, "QK", stack="encoder") for layer in (0, 7) for number in range(1 + layer)]
    kept = ("name", "shape", "dtype", "singular_values", "entropy_rank_bounds", "residual_energy", "remark")
    unknown = {name: value if name in kept else None for name, value in module("h.0.q.weight").items()}
    return {
        "sample": sample(),
        "plain": plain,
        "without lora": {key: value for key, value in plain.items() if key != "lora"},
        "adapter": adapter(),
        "adapter on its base": adapter() | {"tuned": "models/adapter", "heads": plain["heads"]},
        "adapter of zeros": adapter() | {"modules": [still("h.0.q") | {"rank": 16, "relative_change": None}]},
        "no heads": bare,
        "uneven heads of one circuit": plain | {"heads": uneven},
        "one head": plain | {"heads": [head(5, 0, "OV", 1.0, relative_change=float("inf"))]},
        "heads without values": plain | {"heads": [head(0, 0, "QK"), head(0, 1, "QK", None, relative_change=None)]},
        "stacks": plain | {"heads": [head(0, 0, "QK", stack=stack) for stack in ("encoder", "decoder")]},
        "32 x 32": plain | {"heads": [head(n // 32, n % 32, "QK", 1 + n % 9) for n in range(1024)]},
        "nothing changed": bare | {"modules": [still(f"h.{n}.q.weight") for n in range(3)]},
        "heads unchanged": plain | {"heads": [head(0, 0, "QK", 0.0, relative_change=0.0)]},
        "nothing to advise": sample() | {"lora": lora_of({}) | {"parameters": 0, "left_out": []}},
        "one module": bare | {"modules": [module("w")]},
        "no module": bare | {"modules": []},
        "below the floor": bare | {"modules": [module("w", 0, singular_values=[1e-9, 1e-10])]},
        "nulls": bare | {"modules": [unknown, module("h.1.q.weight")]},
        "many": bare | {"modules": [module(f"h.{n % 9}.experts.{n}.up.weight") for n in range(300)]},
        "many kinds": bare | {"modules": [module(f"part_{n}") for n in range(60)]},
        "hostile": sample() | {"modules": [module(HOSTILE)], "lora": lora_of({HOSTILE: 3}), "base": HOSTILE},
    }


VARIANTS = variants()


def text_of(page: str) -> str:
    return " ".join(Reader(page).text.split())


@cache
def variant(name: str) -> str:
    """Its page, drawn once for all tests."""
    return change_page(VARIANTS[name])


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.filterwarnings("error")
def test_every_variant_has_a_whole_page(name):
    page = variant(name)
    reader = Reader(page)
    assert page.startswith("<!DOCTYPE html>") and page.rstrip().endswith("</html>")
    assert "What these numbers mean, and when they do not" in page
    assert not re.search(r"{{ (?!7 )|{%|\bNone\b(?! of the)|\bnan\b|\binf\b|Undefined", reader.text)
    assert not re.search(r"https?://|@import|<link|<script|src=", page)
    assert len(set(reader.ids)) == len(reader.ids)
    for one in VARIANTS[name]["modules"]:
        assert one["name"] in reader.text


def test_facts_are_on_the_page():
    text = text_of(variant("sample"))
    headline = "The change of 6 matrices has a median rank of 3 above rounding (of 48); its stable rank is 1.4; "
    assert headline + "a random change of the same size would have 14. Relative change 1.2%." in text
    assert "Medians over the 6 matrices that changed; 1 did not." in text
    assert "models/tuned minus models/base, gpt2" in text
    assert "A random change of the weights by the same amount would have 21 (QK), 21 (OV)" in text
    assert "h.*.attn.q.weight" in text and "2 to 4 of 48 above the floor, 3 matrices" in text
    assert "Did not change: wte.weight." in text
    assert "A LoRA of ranks 2 to 5 on 6 modules has 1,234,567 parameters" in text
    assert "leaves out 8.9% of the norm of the whole change, rounding included (residual 0.0567)" in text
    assert "conv.weight: a LoRA changes linear layers and embeddings, no kernel" in text
    assert "48 × 64" in text and "bfloat16" in text and "0.0021" in text and "25%" in text
    assert "Positions are rotated: QK leaves that out." in text


def test_the_written_adapter_is_named():
    data = sample()
    data["lora"] |= {"extracted": {"folder": "out/small", "residual": 0.0568, "relative_residual": 0.091}}
    assert "was written to out/small; as stored, it leaves out 9.1% (residual 0.0568)" in text_of(change_page(data))


def test_an_adapter_is_told_by_its_directions():
    text = text_of(change_page(adapter()))
    assert "The adapter uses a median of 5 of r = 16 directions in its 3 matrices (from 4 to 6)." in text
    assert "Relative change" not in text.split("Spectra")[0]
    assert "4 of r = 16" in text and "4 to 6 of 16 above the floor" in text


def test_hidden_directions_make_the_rank_a_lower_bound():
    data = sample() | {"modules": [module("w", hidden_at_least=12), module("v", hidden_at_least=0)]}
    text = text_of(change_page(data))
    assert "In 1 matrix the change is larger than rounding explains" in text and "3, at least 12 hidden" in text


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing changed", "None of the 3 matrices changed"),
        ("adapter on its base", "Adapter models/adapter on models/base"),
        ("adapter of zeros", "The adapter changes nothing"),
        ("no module", "No matrix was compared"),
        ("one module", "The change of 1 matrix has a rank of 3 above rounding (of 48)"),
        ("below the floor", "cannot be told from rounding"),
        ("nothing to advise", "There is nothing for a LoRA to hold"),
        ("many", "h.*.experts.*.up.weight 300 matrices, rank above the floor 3"),
        ("many kinds", "Not drawn, to keep the page small: part_24"),
        ("heads without values", "Empty: no such head, or no value."),
    ],
)
def test_special_cases_are_said_in_words(name, says):
    assert says in text_of(variant(name))


def test_missing_values_are_dashes():
    page = variant("nulls")
    row = page.split("<code>h.0.q.weight</code>")[1].split("</tr>")[0]
    assert row.count("–") == 9
    assert '<td class="none">–</td>' in page


def test_long_tables_are_folded():
    page = variant("sample")
    assert '<table class="modules"' in page and "<details>" not in page.split('id="modules"')[1]
    assert "<details>" in variant("many").split('id="modules"')[1]


def test_names_are_text_only():
    page = change_page(VARIANTS["hostile"], title="<b>title</b>")
    assert "<script" not in page and "49" not in text_of(page).split("Notes")[0]
    assert "&lt;script&gt;alert(" in page and HOSTILE in text_of(page)
    assert "<title>&lt;b&gt;title&lt;/b&gt;</title>" in page


def test_same_bytes_in_another_process_and_data_untouched(tmp_path):
    data = sample()
    assert change_page(data) == variant("sample")
    assert data == sample()
    (tmp_path / "found.json").write_text(json.dumps(data))
    script = (
        "import json, pathlib, sys; from saddlescope.show.change import write_change_page; "
        "write_change_page(pathlib.Path(sys.argv[2]), json.load(open(sys.argv[1])))"
    )
    printed(sys.executable, "-c", script, tmp_path / "found.json", tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == variant("sample")


def test_only_html_is_written(tmp_path):
    with pytest.raises(BadArgument, match=r"page\.png: its name must end in \.html"):
        change.write_change_page(tmp_path / "page.png", sample())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("alpha", [3, 6])
def test_the_code_gives_the_configuration_that_it_shows(alpha, monkeypatch):
    lora = lora_of({"h.0.q": 3, "it's": 5, 'a "b"\\': 3})
    lora["alpha_pattern"] = {name: alpha if rank == 3 else rank for name, rank in lora["rank_pattern"].items()}
    peft = types.ModuleType("peft")
    monkeypatch.setattr(peft, "LoraConfig", dict, raising=False)
    monkeypatch.setitem(sys.modules, "peft", peft)
    names: dict[str, Any] = {}
    exec(lora_code(lora), names)
    assert names["config"] == {name: lora[name] for name in names["config"]}
    assert len(names["config"]) == 6


@pytest.mark.parametrize(
    ("name", "kind", "layer"),
    [
        ("transformer.h.3.mlp.c_fc.weight", "transformer.h.*.mlp.c_fc.weight", 3),
        ("encoder.block.11.layer.0.SelfAttention.q.weight", "encoder.block.*.layer.0.SelfAttention.q.weight", 11),
        ("model.layers.2.mlp.experts.17.up.weight", "model.layers.*.mlp.experts.*.up.weight", 2),
        ("model.layers.2.mlp.experts.up_proj[5]", "model.layers.*.mlp.experts.up_proj[*]", 2),
        ("0.weight", "*.weight", 0),
        ("lm_head.weight", "lm_head.weight", None),
        ("conv2.weight", "conv2.weight", None),
        ("h.99999999999.weight", "h.99999999999.weight", None),
    ],
)
def test_kinds(name, kind, layer):
    assert kind_of(name) == (kind, layer)


def test_experts_of_a_layer_share_a_cell_and_twins_keep_their_names():
    ranks = {"encoder.1.experts.0.q": 2, "encoder.1.experts.1.q": 6, "decoder.4.experts.0.q": 3, "head": 1}
    grid = rank_grid(ranks, kinds_of([{"name": name} for name in ranks]))
    assert grid["layers"] == [1, 4] and grid["several"] and grid["others"] == [("head", 1)]
    assert [row["short"] for row in grid["rows"]] == ["encoder.*.experts.*.q", "decoder.*.experts.*.q"]
    assert [[cell and cell["text"] for cell in row["cells"]] for row in grid["rows"]] == [["4", None], [None, "3"]]


def test_tints_and_short_numbers():
    assert tint(0.0)[1] != tint(1.0)[1]  # ink that can be read on each
    assert tint(-1.0) == tint(0.0) and tint(7.0) == tint(1.0)
    values = (0, 4e-5, 0.004, 0.04, 0.29, 0.999, 6.84, 9.96, 309.2, None, float("inf"), np.float64(2.0))
    texts = ["0", "4\u00a0×\u00a010⁻⁵", "0.004", "0.04", "0.29", "1.0", "6.8", "10", "309", "–", "∞", "2.0"]
    assert [short(value) for value in values] == texts
    assert [percent(share) for share in (None, 0.0101, 1.0)] == ["–", "1.0%", "100%"]


# ---- in a browser ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["32 x 32", "hostile", "many"])
def test_page_in_a_browser(name, browser, tmp_path):
    opens_well(browser, variant(name), tmp_path)
