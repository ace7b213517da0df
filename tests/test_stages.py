"""Stages of curves: passages of marks, noise-free drops, noisy drops; curves from the files of others."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from saddlescope.analysis.stages import detect_stages, looks_noisy, looks_rising, slowest, stages_at_marks
from saddlescope.core.errors import BadArgument
from saddlescope.core.registry import system
from saddlescope.core.stage import Mark, Stage
from saddlescope.dynamics.flow import flow
from saddlescope.lab import tensorboard
from saddlescope.lab.curves import read_curve
from saddlescope.lab.run import predict
from saddlescope.lab.stages import measured_stages


def staircase(time, drops, levels, width=0.02):
    """A smooth staircase in log-time."""
    loss = np.full_like(time, levels[0])
    for moment, before, after in zip(drops, levels, levels[1:], strict=False):
        loss -= (before - after) / (1 + np.exp(-np.log(time / moment) / width))
    return loss


def test_passages():
    time = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    series = {"x": np.array([3.0, 1.0, 2.0, 0.0, 1.0, 4.0])}
    assert Mark("x", 2.0, "falls").passage(time, series) == pytest.approx(0.5)
    assert Mark("x", 3.5, "rises").passage(time, series) == pytest.approx(4 + 2.5 / 3)
    assert Mark("x", 0.5, "stays above").passage(time, series) == pytest.approx(3.5)
    assert Mark("x", -1.0, "stays above").passage(time, series) == 0.0
    assert Mark("x", 9.0, "stays above").passage(time, series) is None
    assert Mark("x", -1.0, "falls").passage(time, series) is None
    assert Mark("x", 9.0, "falls").passage(time, series) == 0.0  # beyond the level from the start
    assert Mark("x", 0.0, "peak").passage(time, {"x": -series["x"]}) == 3.0
    assert Mark("x", 0.0, "peak").passage(time, series) is None  # the highest point is the end: no peak was passed
    columns = {"x": np.stack([time, series["x"]], axis=1)}
    assert Mark("x", 2.0, "falls", (1,)).passage(time, columns) == pytest.approx(0.5)


def test_stages_keep_their_predicted_order_and_the_level_where_it_is_flattest():
    time = np.geomspace(1, 1e4, 500)
    loss = staircase(time, [50, 1000], [1.0, 0.6, 0.1])
    assert slowest(time, loss, 50, 1000) == pytest.approx(0.6, abs=1e-6)
    marks = [Mark("loss", 0.8), Mark("loss", 0.35), Mark("loss", 0.01)]
    predicted = [Stage(index, None, None, f"mode {index}") for index in (1, 2, 3)]
    found = stages_at_marks(time, {"loss": loss}, marks, predicted)
    assert [stage.index for stage in found] == [1, 2]
    assert [stage.time for stage in found] == pytest.approx([50, 1000], rel=1e-3)
    assert [stage.loss for stage in found] == pytest.approx([0.6, 0.1], abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [1e-4, 1e-8])
def test_drops_of_a_flow_are_found_without_theory(scale, seed):
    chosen = system("squares", init_scale=scale)
    trajectory = flow(chosen, seed)
    known = measured_stages(trajectory, predict(chosen, seed))
    found = detect_stages(trajectory["time"].values, trajectory["loss"].values)
    assert not looks_noisy(trajectory["loss"].values)
    assert [stage.label for stage in known] == ["coordinate 1", "coordinate 2", "coordinate 3"]
    # The loss falls fastest where p = s/3, log(2)/(2s) before p = s/2; the grid and the slope in log-time add under 1%.
    steepest = [stage.time - np.log(2) / (2 * s) for stage, s in zip(known, chosen.spec.targets, strict=True)]
    assert [stage.time for stage in found] == pytest.approx(steepest, rel=1e-2)
    assert all(stage.confidence > 0.5 for stage in found)


def test_smooth_decay_has_at_most_one_stage():
    time = np.geomspace(0.01, 100, 400)
    assert len(detect_stages(time, np.exp(-time))) <= 1
    assert detect_stages(time, np.ones(400)) == []


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("moments", "levels", "noise"), [([60, 900, 9000], [1.0, 0.6, 0.35, 0.2], 0.02), ([60, 9000], [1.0, 2.0, 3.0], 0.1)]
)
def test_noisy_staircase(seed, moments, levels, noise):
    time, rising = np.geomspace(1, 1e5, 3000), levels[-1] > levels[0]
    curve = staircase(time, moments, levels, 0.05) + noise * np.random.default_rng(seed).standard_normal(len(time))
    assert looks_noisy(-curve if rising else curve)
    assert looks_rising(curve) == rising and looks_rising(-curve) != rising
    found = detect_stages(time, curve, rising=rising)
    # A resampled grid of 600 points over five decades is 2% wide; three cells are allowed.
    assert [stage.time for stage in found] == pytest.approx(moments, rel=0.06)
    assert [stage.loss_after for stage in found] == pytest.approx(levels[1:], abs=noise)
    assert all(stage.confidence > 0.9 for stage in found)
    counted = detect_stages(time, curve, rising=rising, count=len(moments))
    assert [stage.time for stage in counted] == pytest.approx(moments, rel=0.06)


@pytest.mark.parametrize("start", [0.0, 10.0, -500.0])
def test_times_of_a_noisy_curve_are_those_of_its_axis(start):
    """Linear steps from zero, from above and from below: drops are reported on the curve's own clock."""
    rng = np.random.default_rng(1)
    time = start + 10.0 * np.arange(1000)
    loss = np.where(time < 300, 1.0, np.where(time < 3000, 0.5, 0.2)) + 0.02 * rng.standard_normal(1000)
    found = detect_stages(time, loss)
    assert [stage.time for stage in found] == pytest.approx([300, 3000], rel=0.06)
    assert all(stage.start <= stage.time <= stage.end for stage in found)


@pytest.mark.parametrize("seed", range(20))
def test_pure_noise_has_no_stage(seed):
    """Five standard errors at some ten thousand pairs of segments: one false step in a hundred curves, at most."""
    rng = np.random.default_rng(seed)
    assert detect_stages(np.arange(1.0, 2001), 1 + 0.1 * rng.standard_normal(2000)) == []


@pytest.mark.parametrize(
    ("time", "loss", "words"),
    [
        (np.arange(20.0), np.r_[np.ones(10), np.nan, np.ones(9)], "not finite at row 10"),
        (np.arange(20.0), np.ones(19), "equal length"),
        (np.arange(5.0), np.ones(5), "at least 8"),
        (np.zeros(20), np.ones(20), "increase"),
        (np.arange(20.0), np.random.default_rng(0).random(20), "at least 40"),
        (np.ones((3, 9)), np.ones((3, 9)), "two columns"),
    ],
)
def test_bad_curves_get_a_clear_word(time, loss, words):
    with pytest.raises(ValueError, match=words):
        detect_stages(time, loss)


# ---- rising curves ---------------------------------------------------------------------------------------


def test_rises_are_the_drops_of_the_mirrored_curve():
    time = np.geomspace(1, 1e4, 2000)
    rank = staircase(time, [50, 1000], [1.0, 2.0, 4.0])
    found = detect_stages(time, rank, rising=True)
    assert [stage.time for stage in found] == pytest.approx([50, 1000], rel=1e-2)
    assert [stage.loss_before for stage in found] == pytest.approx([1, 2], abs=1e-3)
    assert [stage.loss_after for stage in found] == pytest.approx([2, 4], abs=1e-3)
    assert found[-1].loss_after in rank  # the curve's own value, to the last bit
    assert detect_stages(time, rank) == []
    assert [stage.loss_after for stage in detect_stages(time, rank, rising=True, count=1)] == pytest.approx([4.0])


def test_steps_of_an_integer_rank():
    time = np.arange(0, 5000, 5)
    rank = 1 + (time > 40) + (time > 900)
    found = detect_stages(time, rank, rising=True)
    assert [(stage.time, stage.loss_before, stage.loss_after) for stage in found] == [(42.5, 1, 2), (902.5, 2, 3)]


@pytest.mark.parametrize("seed", range(3))
def test_flicker_of_an_integer_rank_is_noise(seed):
    """Most steps of such a curve change nothing, so that the median says nothing of its noise."""
    time = np.arange(1, 5001)
    flicker = np.random.default_rng(seed).random(5000) < 0.05
    rank = 1 + (time > 40) + (time > 900) + flicker
    assert looks_noisy(-rank)
    found = detect_stages(time, rank, rising=True)
    assert [stage.time for stage in found] == pytest.approx([40, 900], rel=0.06)
    assert detect_stages(time, 1.0 + flicker, rising=True) == []
    assert detect_stages(time, np.ones(5000), noisy=True) == []


def test_what_looks_rising():
    assert looks_rising(np.array([1.0, 1.0, 3.0, 2.5]))
    assert not looks_rising(np.array([1.0, 0.2, 0.1, 1.4]))  # below its start for long, it ends a little above
    assert not looks_rising(np.array([2.0, 1.0])) and not looks_rising(np.ones(9)) and not looks_rising(np.array([]))
    assert not looks_rising(np.r_[5.0, 3.0, np.nan, np.inf, 1.0])


# ---- files -----------------------------------------------------------------------------------------------


def cannot_read(file, words, **columns):
    with pytest.raises(BadArgument, match=words):
        read_curve(file, **columns)


STEPS = np.arange(1, 401)
LOSS = staircase(STEPS.astype(float), [20, 150], [1.0, 0.6, 0.1], 0.05)


def write_json(path, records):
    """Each on a line of its own, but for .json."""
    path.write_text(json.dumps(records) if path.suffix == ".json" else "\n".join(map(json.dumps, records)) + "\n")
    return path


def records_of(steps, loss):
    return [{"step": int(step), "loss": float(value)} for step, value in zip(steps, loss, strict=True)]


def write_table(path, header, columns, delimiter=","):
    rows = [header, *zip(*columns, strict=True)]
    path.write_text("".join(delimiter.join(map(str, row)) + "\n" for row in rows))
    return path


def crc32c(data):
    """Castagnoli's checksum bit by bit, so that reader and writer share nothing."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def framed(data):
    """One TFRecord."""

    def masked(content):
        crc = crc32c(content)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def varint(number):
    number %= 2**64
    digits = [number >> shift & 127 for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(digit | 128 for digit in digits[:-1]), digits[-1]])


def part(field, content):
    """A length-delimited protobuf field."""
    return varint(field << 3 | 2) + varint(len(content)) + content


SCALARS = {
    "simple": lambda value: b"\x15" + struct.pack("<f", value),
    "float": lambda value: part(8, b"\x08\x01" + part(5, struct.pack("<f", value))),
    "unpacked": lambda value: part(8, b"\x08\x01" + b"\x2d" + struct.pack("<f", value)),
    "double": lambda value: part(8, b"\x08\x02" + part(6, struct.pack("<d", value))),
    "content": lambda value: part(8, b"\x08\x01" + part(2, b"") + part(4, struct.pack("<f", value))),
}


def event(step, tag, value, kind="simple"):
    summary = part(1, part(1, tag.encode()) + SCALARS[kind](value))
    return framed(b"\x09" + struct.pack("<d", 1e9 + step) + b"\x10" + varint(step) + part(5, summary))


def events(tag="loss", kind="simple", steps=STEPS, loss=LOSS):
    start = framed(b"\x09" + struct.pack("<d", 1e9) + part(3, b"brain.Event:2"))
    return start + b"".join(event(int(step), tag, value, kind) for step, value in zip(steps, loss, strict=True))


def write_events(folder, content, name="events.out.tfevents.1700000000.host.1.0"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    return folder / name


def test_every_format_gives_the_same_stages(answer, tmp_path):
    records = records_of(STEPS, LOSS)
    nested = [{"step": one["step"], "train": {"loss": one["loss"]}} for one in records]
    state = {"best_metric": None, "log_history": [*records, {"step": 400, "train_loss": 0.5, "train_runtime": 9.0}]}
    files = [
        write_table(tmp_path / "a.csv", ["step", "loss"], [STEPS, LOSS]),
        write_table(tmp_path / "A.TSV", ["step", "loss"], [STEPS, LOSS], "\t"),
        write_json(tmp_path / "a.jsonl", records),
        write_json(tmp_path / "nested.ndjson", nested),
        write_json(tmp_path / "trainer_state.json", state),
        write_json(tmp_path / "list.json", records),
        write_events(tmp_path / "run", events()),
        tmp_path / "run",
    ]
    for file in files:
        rows = answer("stages", file)
        assert [row["index"] for row in rows] == [1, 2], file
        assert list(rows[0]) == ["index", "time", "start", "end", "loss_before", "loss_after", "confidence"]
        assert [row["time"] for row in rows] == pytest.approx([20, 150], rel=0.05)
        assert rows[-1]["loss_after"] == pytest.approx(0.1, abs=1e-3)


@pytest.mark.parametrize(
    ("header", "chosen", "silent"),
    [
        (["step", "loss"], ("step", "loss"), True),
        (["loss", "time"], ("time", "loss"), True),
        (["a", "b"], ("a", "b"), False),
        (["loss", "b"], ("b", "loss"), False),
        (["lr", "iter", "acc"], ("iter", "lr"), False),
        (["_step", "train/loss"], ("_step", "train/loss"), False),
        (["epoch", "global_step", "eval_loss", "train_loss"], ("global_step", "train_loss"), False),
        (["Step", "run7 - train/loss", "run7 - train/loss__MIN"], ("Step", "run7 - train/loss"), False),
        (["lr", "iter", "loss_scale", "val_loss"], ("iter", "val_loss"), False),
        (["lr", "iteration", "stable_rank"], ("iteration", "stable_rank"), False),
        (["step", "time", "loss"], ("time", "loss"), False),
    ],
    ids=str,
)
def test_columns_are_guessed(call, tmp_path, header, chosen, silent):
    file = write_table(tmp_path / "a.csv", header, [np.arange(50)] * len(header))
    curve = read_curve(file)
    assert (curve.time_name, curve.loss_name) == chosen
    _, _, err = call("stages", file, "--no-rising", "--json")
    assert err == "" if silent else f"note: read {chosen[1]!r} over {chosen[0]!r}" in err
    assert read_curve(file, *chosen).notes == ()


def test_a_guess_prefers_columns_that_hold_numbers_together(tmp_path):
    """Dates under "time", and one summary at the end under a better name, as logs have them."""
    records = [{"time": "2025-01-01T00:00", "step": step, "eval_loss": 1 / step} for step in range(1, 20)]
    ends = {"config": {"lr": 1, "step": 3}}, {"step": 20, "train_loss": 1}
    file = write_json(tmp_path / "a.jsonl", [ends[0], *records, ends[1]])
    assert read_curve(file)[2:4] == ("step", "eval_loss")
    assert len(read_curve(file).time) == 19
    assert list(read_curve(file, loss="train_loss").time) == [20]
    file = write_table(tmp_path / "a.csv", ["name", "when", "x", "y"], [["a"] * 9, ["b"] * 9, range(9), range(9)])
    assert read_curve(file)[2:4] == ("x", "y")


def test_empty_cells_are_left_out_but_short_rows_are_not(tmp_path):
    (tmp_path / "a.csv").write_text("step,val_loss,loss\n1,,5\n2,7,\n\n3,,4\n")
    assert read_curve(tmp_path / "a.csv").loss.tolist() == [5, 4]
    (tmp_path / "b.csv").write_text("step,loss\n1,5\n\n2\n3,4\n")
    cannot_read(tmp_path / "b.csv", "line 4")
    (tmp_path / "c.csv").write_text("step,loss,loss\n1,5,6\n2,4,5\n")
    assert read_curve(tmp_path / "c.csv").loss.tolist() == [5, 4]


def test_later_records_of_a_resumed_run_count(refusal, tmp_path):
    points = [(1, 9.0), (2, 8.0), (3, 7.0), (4, 6.0), (3, 70.0), (5, 50.0), (5, 51.0), (6, 40.0)]
    records = records_of(*zip(*points, strict=True))
    write_json(tmp_path / "a.jsonl", records)
    write_json(tmp_path / "trainer_state.json", {"log_history": records})
    for name, some in (("tfevents.1", points[:4]), ("tfevents.2", points[4:])):
        write_events(tmp_path / "run", b"".join(event(step, "loss", loss) for step, loss in some), name)
    for name in ("a.jsonl", "trainer_state.json", "run"):
        curve = read_curve(tmp_path / name)
        assert curve.time.tolist() == [1, 2, 3, 5, 6]
        assert curve.loss.tolist() == [9, 8, 70, 51, 40]
        assert "3 records were left out" in curve.notes[-1]
    file = write_table(tmp_path / "a.csv", ["step", "loss"], zip(*points, strict=True))
    assert "increase strictly" in refusal("stages", file)


def test_records_without_the_columns_are_skipped(tmp_path):
    mixed = [{"config": {"lr": 0.1}}, {"step": 1, "loss": 2.0}, {"step": 1, "acc": 0.5}, {"step": 2, "loss": None}, {}]
    curve = read_curve(write_json(tmp_path / "a.jsonl", [*mixed, {"step": 3, "loss": 1}]))
    assert curve.time.tolist() == [1, 3] and curve.loss.tolist() == [2, 1]
    assert read_curve(tmp_path / "a.jsonl", loss="acc").loss.tolist() == [0.5]
    cannot_read(tmp_path / "a.jsonl", r"no row has both 'step' and 'config\.lr'", loss="config.lr")
    cannot_read(tmp_path / "a.jsonl", "did you mean 'loss'", loss="los")


def test_half_a_line_at_the_end_of_a_log_is_one_still_being_written(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"step": 1, "loss": 2}\n{"step": 2, "loss": 1}\n{"step": 3, "lo')
    assert read_curve(tmp_path / "a.jsonl").time.tolist() == [1, 2]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "run"])
def test_a_loss_that_is_not_a_number_is_named_by_its_row(refusal, tmp_path, name):
    loss = np.where(STEPS == 11, np.nan, LOSS)
    for file in ("a.jsonl", "a.json"):
        write_json(tmp_path / file, records_of(STEPS, loss))
    write_table(tmp_path / "a.csv", ["step", "loss"], [STEPS, loss])
    write_events(tmp_path / "run", events(loss=loss))
    assert "not finite at row 10 (time 11" in refusal("stages", tmp_path / name)


# ---- TensorBoard -----------------------------------------------------------------------------------------

WRITTEN_BY_TENSORBOARD = {
    "simple": "1e00000000000000d9dc123209e5e64ae390beda412a130a110a0a747261696e2f6c6f73731583febf3fe36b9adf",
    "float": "300000000000000095f5d05f09b89a4de390beda412a250a230a0a747261696e2f6c6f7373420808012a0483febf3f"
    "4a0b0a090a077363616c617273730ff259",
    "double": "3200000000000000241956ec09278a4de390beda4110032a250a230a06646f75626c65420c08023208000000000000d03f"
    "4a0b0a090a077363616c61727307aebd52",
}
"""Records of torch.utils.tensorboard 2.13 with tensorboard 2.21, byte for byte."""


def test_records_written_by_tensorboard_itself(tmp_path):
    record = {name: bytes.fromhex(text) for name, text in WRITTEN_BY_TENSORBOARD.items()}
    file = write_events(tmp_path, b"".join(record.values()))
    first = float(np.float32(1 / (1 + np.exp(-10)) + 0.5 / (1 + np.exp(-30))))
    assert tensorboard.read_scalars(file) == {"train/loss": [(0, first), (0, first)], "double": [(3, 0.25)]}
    assert framed(record["simple"][12:-4]) == record["simple"]  # the writer of these tests frames as TensorBoard does


@pytest.mark.parametrize("kind", SCALARS)
def test_scalars_in_every_dress(tmp_path, kind):
    content = b"".join(event(step, "loss", step / 4, kind) for step in (-3, 0, 5, 2**40))
    found = tensorboard.read_scalars(write_events(tmp_path, content))
    assert found == {"loss": [(-3, -0.75), (0, 0.0), (5, 1.25), (2**40, 2.0**38)]}


def test_what_is_no_scalar_is_passed_over(tmp_path):
    values = [
        part(1, b"histogram") + part(8, b"\x08\x02" + part(6, struct.pack("<3d", 1, 2, 3))),
        part(1, b"text") + part(8, b"\x08\x07" + part(8, b"hello")),
        part(1, b"image") + part(4, b"\x08\x01"),
        part(1, b"loss") + SCALARS["simple"](2.0),
    ]
    content = framed(part(5, b"".join(part(1, value) for value in values)))
    assert tensorboard.read_scalars(write_events(tmp_path, content)) == {"loss": [(0, 2.0)]}


def test_the_tag_is_chosen_or_asked_for(call, answer, refusal, tmp_path):
    single = event(400, "train/train_loss", 0.5)  # one number at the end is no curve
    file = write_events(tmp_path / "one", events("train/loss") + events("train/loss_scale") + events("lr") + single)
    code, _, err = call("stages", file)
    assert code == 0 and "read 'train/loss'" in err
    file = write_events(tmp_path / "two", events("train/loss") + events("eval/loss") + events("lr"))
    assert answer("stages", file, "--loss", "eval/loss")
    assert "--loss: train/loss, eval/loss\n" in refusal("stages", file)
    assert "did you mean 'eval/loss'" in refusal("stages", file, "--loss", "eval/los")
    assert "step" in refusal("stages", file, "--loss", "lr", "--time", "wall")
    assert "lr, acc" in refusal("stages", write_events(tmp_path / "none", events("lr") + events("acc")))
    err = refusal("stages", tmp_path)
    assert "is a folder" in err and str(tmp_path / "two") in err


@pytest.mark.parametrize("cut", [1, 4, 20, 30, 40])
def test_a_record_cut_off_at_the_end_is_ignored(tmp_path, cut):
    last = len(event(400, "loss", LOSS[-1]))
    assert cut < last
    curve = read_curve(write_events(tmp_path, events()[:-cut]))
    assert curve.time.tolist() == STEPS[:-1].tolist()


def test_damage_is_named_by_its_byte(monkeypatch, tmp_path):
    content = events()
    place = len(events(steps=STEPS[:100], loss=LOSS[:100]))
    for byte, words in [(place, "length"), (place + 9, "length"), (place + 30, "content")]:
        broken = bytearray(content)
        broken[byte] ^= 4
        file = write_events(tmp_path, bytes(broken))
        cannot_read(file, f"byte {place} is damaged, the checksum of its {words}")
    file = write_events(tmp_path, content[:place] + framed(b"\x2a\xff") + content[place:])
    cannot_read(file, f"byte {place} is damaged, it is no event")
    monkeypatch.setattr(tensorboard, "_check", lambda *given: None)
    cannot_read(file, f"byte {place} is damaged, it is no event")
    assert len(read_curve(write_events(tmp_path, content)).time) == 400


def test_a_huge_length_is_neither_read_nor_allocated(monkeypatch, tmp_path):
    huge = struct.pack("<Q", 2**63)
    cannot_read(write_events(tmp_path, huge + b"\0" * 100), "byte 0 is damaged")
    monkeypatch.setattr(tensorboard, "_check", lambda *given: None)
    cannot_read(write_events(tmp_path, huge + b"\0" * 100), "no scalars")
    # A field inside a record that claims more than the record holds.
    cannot_read(write_events(tmp_path, framed(b"\x2a" + varint(2**62) + b"ab")), "ends outside")


# ---- hostile files and pictures --------------------------------------------------------------------------

GOOD = b'{"step": 1, "loss": 2}\n'
NOISE = np.random.default_rng(0).bytes(5000)
ODD_LOSSES = {"word": b'"low"', "flag": b"true", "large": b"1" + b"0" * 400, "digits": b"1" + b"0" * 9000}
HOSTILE = [
    ("empty.jsonl", b"", "no records"),
    ("empty.json", b"", "no JSON"),
    ("empty.tsv", b"", "header"),
    ("events.out.tfevents.empty", b"", "no scalars"),
    ("noise.jsonl", NOISE, "line 1"),
    ("noise.json", NOISE, "no JSON"),
    ("noise.tsv", NOISE, "no tsv"),
    ("events.out.tfevents.noise", NOISE, "byte 0"),
    ("junk.jsonl", GOOD + b"hello\n" + GOOD, "line 2"),
    ("last.jsonl", GOOD + b"hello", "line 2"),
    ("latin.jsonl", GOOD + GOOD + '{"step": 2, "loss": "é"}\n'.encode("latin-1"), "line 3"),
    ("latin.json", '["é"]'.encode("latin-1"), "no JSON"),
    ("number.jsonl", GOOD + b"3\n", "line 2"),
    *((f"{name}.jsonl", GOOD + b'{"step": 2, "loss": %b}\n' % loss, "line 2") for name, loss in ODD_LOSSES.items()),
    ("deep.jsonl", GOOD + b'{"a":' * 100_000 + b"\n", "line 2"),
    ("deep.json", b"[" * 100_000, "no JSON"),
    ("words.jsonl", b'{"a": "b"}\n' * 20, "two columns"),
    ("object.json", b'{"a": 1}', "log_history"),
    ("state.json", b'{"log_history": 3}', "log_history"),
    ("items.json", b"[1, 2]", "record 1"),
    ("none.json", b"[]", "no records"),
    ("short.jsonl", GOOD, "at least 8"),
]


@pytest.mark.parametrize(("name", "content", "words"), HOSTILE, ids=[name for name, *_ in HOSTILE])
def test_hostile_files_get_a_clear_word(refusal, tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    err = refusal("stages", tmp_path / name)
    assert words in err and len(err) < 1000


@pytest.mark.parametrize("seed", range(30))
def test_no_damage_of_a_file_ends_in_a_traceback(monkeypatch, tmp_path, seed):
    """Without checksums, so that what is damaged reaches the parser."""
    monkeypatch.setattr(tensorboard, "_check", lambda *given: None)
    rng = np.random.default_rng(seed)
    for name, content in (("tfevents", events()), ("a.jsonl", GOOD * 50), ("a.json", b"[" + GOOD + b"]")):
        broken = np.frombuffer(content, np.uint8).copy()
        broken[rng.integers(len(broken), size=5)] = rng.integers(256, size=5)
        (tmp_path / name).write_bytes(broken.tobytes()[: rng.integers(1, len(broken))])
        try:
            read_curve(tmp_path / name)
        except BadArgument as error:
            assert name in str(error)


def test_a_rank_curve_on_the_command_line(call, tmp_path):
    file = write_table(tmp_path / "a.csv", ["step", "rank"], [STEPS, 3 - 2 * LOSS])
    code, out, err = call("stages", file, "--json")
    assert code == 0 and "rises were looked for" in err
    assert [row["loss_after"] for row in json.loads(out)] == pytest.approx([1.8, 2.8], abs=1e-2)
    code, given, err = call("stages", file, "--json", "--rising")
    assert code == 0 and given == out and "rises" not in err
    code, out, err = call("stages", file, "--json", "--no-rising")
    assert code == 0 and json.loads(out) == [] and "rises" not in err


DRAWN = {"from one": (STEPS, LOSS), "from zero": (STEPS - 1, LOSS), "from below": (STEPS - 100, LOSS)}
DRAWN |= {"flat": (STEPS, np.ones(400)), "tiny": (STEPS * 1e-40, LOSS)}


@pytest.mark.parametrize("curve", DRAWN)
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_picture(call, tmp_path, curve, suffix):
    """Whatever the names of the file and of its columns."""
    file = write_table(tmp_path / "a$x$$.csv", ["$step", "$\\loss$"], DRAWN[curve])
    code, _, err = call("stages", file, "--plot", tmp_path / f"stages{suffix}")
    assert code == 0 and "error" not in err
    assert (tmp_path / f"stages{suffix}").stat().st_size > 5000


def test_a_picture_that_cannot_be_is_refused_before_reading(refusal, tmp_path):
    err = refusal("stages", tmp_path / "missing.csv", "--plot", tmp_path / "a.bmp")
    assert "a.bmp" in err and ".png" in err
    assert "does not exist" in refusal("stages", tmp_path / "missing.csv", "--plot", tmp_path / "no" / "a.png")
