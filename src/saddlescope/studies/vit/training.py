"""The loop: epochs of Adam, watched at the end of each, checkpointed on the way."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from saddlescope.core.errors import BadArgument
from saddlescope.core.progress import Tick, silent
from saddlescope.core.words import duration
from saddlescope.watch.watch import Watch

from . import checkpoint
from .feed import Batch, Feed, images_of
from .images import Images
from .needs import device_of
from .network import VisionTransformer, initialize
from .processes import Process, taking_part
from .schedule import learning_rate
from .spec import ViTSpec
from .truncation import Judgement, Weights

JUDGED_AT_ONCE = 1000
"""Images; a divisor of most test sets, so that a compiled network sees one size."""

CURVES = ("loss", "accuracy", "test_loss", "test_accuracy")

SAVING_SHARE = 0.02
"""Of the time that may go into checkpoints: a small model is saved after every epoch, a large one now and then."""

EVALUATED = 10_000
"""Training images that the start and cut networks are judged by; a run's loss is else the mean over each epoch's own
steps."""

Adapt = Callable[[VisionTransformer], torch.nn.Module]


class Trained(NamedTuple):
    """What a run showed. watched: the heads' spectra over steps.

    start, end: weights; of a run that diverged the start in both places.  judge: what the network does with others.
    seconds: by kind: `training` with all that belongs to it, and of these `spectra`, for which it stood still;
    `preparing` (images to the device, compiling) comes before.
    """

    curves: dict[str, list[float]]
    watched: Any
    start: Weights
    end: Weights
    judge: Callable[[Weights], Judgement]
    steps_per_epoch: int
    result: str
    seconds: dict[str, float]
    device: str


def train(
    spec: ViTSpec,
    seed: int,
    images: Images,
    folder: Path | None = None,
    tick: Tick = silent,
    start: Weights | None = None,
    adapt: Adapt = lambda model: model,
    schedule: Literal["every", "log"] = "every",
) -> Trained | None:
    """Train from the weights of `seed`, or from `start`; None in all but the first of several processes.

    folder: what is needed to go on after a kill; the same call takes it up.  adapt: puts adapters into the network
    that begins with these weights; what then requires no gradient is not trained.  schedule: "log" watches at the steps
    1, 2, 4, ... too, not only at the end of every epoch.
    """
    with taking_part(device_of(spec)) as process, kept(folder) as home:
        return _Training(spec, seed, images, home, process, start, adapt, schedule).run(tick)


def kept(folder: Path | None) -> AbstractContextManager[Any]:
    """The folder to work in: one that vanishes where none is given."""
    return TemporaryDirectory(ignore_cleanup_errors=True) if folder is None else nullcontext(folder)


class _Training:
    def __init__(
        self,
        spec: ViTSpec,
        seed: int,
        images: Images,
        folder: str | Path,
        process: Process,
        start: Weights | None,
        adapt: Adapt,
        schedule: Literal["every", "log"],
    ):
        began = time.perf_counter()
        self.spec, self.process, self.folder, self.schedule = spec, process, Path(folder), schedule
        self.identity = f"{spec.digest} seed {seed}"
        channels, height, width = images.train_pixels.shape[1:]
        _check_sizes(spec, images, process.world)
        network = VisionTransformer(spec, channels, height, width, images.classes)
        initialize(network, spec.init_scale, torch.Generator().manual_seed(seed))
        if start is not None:
            network.load_state_dict(dict(start))
        self.model = adapt(network).to(process.device)
        self.start = self._weights()
        cuda = process.device.type == "cuda"
        # On a GPU the rate is a tensor, so that its change does not wait for the steps under way.
        rate = torch.tensor(0.0, device=process.device) if cuda else 0.0
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.Adam(trained, lr=rate, fused=cuda, capturable=cuda)
        self.feed = Feed(
            images.train_pixels, images.train_labels, process.device, spec.augment, process.rank, process.world
        )
        self.test = Feed(images.test_pixels, images.test_labels, process.device, False)
        self.steps_per_epoch = len(images.train_labels) // spec.batch_size
        self.mean, self.deviation = (
            torch.tensor(values, dtype=torch.float32, device=process.device).view(1, -1, 1, 1)
            for values in _moments(images.train_pixels)
        )
        shared = DistributedDataParallel(self.model) if process.world > 1 else self.model
        self.score = self._scorer(shared)
        if cuda:
            torch.compiler.reset()  # what earlier networks of this process compiled counts against a limit
        self.compiled = torch.compile(self.score, dynamic=False) if cuda else self.score
        plain = self._scorer(self.model)
        self.plain_score = torch.compile(plain, dynamic=False) if cuda else plain
        self.curves: dict[str, list[float]] = {name: [] for name in CURVES}
        self.seconds = {"training": 0.0, "spectra": 0.0, "preparing": time.perf_counter() - began}

    def _scorer(self, network: torch.nn.Module) -> Any:
        """batch -> (mean loss, number of right answers)."""
        narrow = self.spec.precision == "bfloat16"
        kind = self.process.device.type

        def score(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
            images = (images_of(batch).float() - self.mean) / self.deviation
            with torch.autocast(kind, torch.bfloat16, enabled=narrow):
                logits = network(images)
            logits = logits.float()
            return functional.cross_entropy(logits, batch.labels), (logits.argmax(1) == batch.labels).sum()

        return score

    # ---- the run -----------------------------------------------------------------------------------------

    def run(self, tick: Tick) -> Trained | None:
        saved = checkpoint.load(self.folder / "checkpoint.safetensors", self.identity)
        first = 0
        if saved is not None:
            checkpoint.restore(saved, self.model, self.optimizer)
            first, self.curves = saved.epoch, dict(saved.curves)
            for kind, spent in saved.seconds.items():
                self.seconds[kind] += spent
        self._compile()
        began = last_saved = time.perf_counter()
        saving = 0.0
        before = self.seconds["training"]
        with self._watch(first) as watch:
            if saved is None:
                self._note(*self._evaluated(self.feed, EVALUATED))
            result = "finished"
            for epoch in range(first, self.spec.epochs):
                loss, accuracy = self._epoch(epoch, watch)
                self._note(loss, accuracy)
                if not math.isfinite(loss):
                    result = f"diverged in epoch {epoch + 1}"
                    break
                self._measure(watch, (epoch + 1) * self.steps_per_epoch, loss)
                now = time.perf_counter()
                self.seconds["training"] = before + now - began
                if saving <= SAVING_SHARE * (now - last_saved) or epoch + 1 == self.spec.epochs:
                    self._save(watch, epoch + 1)
                    last_saved = time.perf_counter()
                    saving = last_saved - now
                share = (epoch + 1 - first) / (self.spec.epochs - first)
                tick((epoch + 1) / self.spec.epochs, self._words(epoch + 1, watch, (now - began) * (1 / share - 1)))
            if self.process.device.type == "cuda":
                torch.cuda.synchronize()
            self.seconds["training"] = before + time.perf_counter() - began
            if not self.process.leads:
                return None
            watched = watch.trajectory
        end = self._weights() if result == "finished" else self.start
        return Trained(
            self.curves,
            watched,
            self.start,
            end,
            self._judged,
            self.steps_per_epoch,
            result,
            self.seconds,
            self._device_name(),
        )

    def _weights(self) -> dict[str, torch.Tensor]:
        return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}

    def _judged(self, weights: Weights) -> Judgement:
        """Changes the network: for when the training is over."""
        self.model.load_state_dict(dict(weights))
        loss, _ = self._evaluated(self.feed, EVALUATED)
        return Judgement(loss, *self._evaluated(self.test, len(self.test.labels)))

    def _watch(self, epoch: int) -> Watch:
        step = epoch * self.steps_per_epoch
        options = {"every": max(1, self.steps_per_epoch), "schedule": self.schedule, "modes": self.spec.modes}
        if epoch:
            watch = Watch(self.model, folder=self.folder / "watched", start=step, **options)
            watch.resume_from(step)
            return watch
        # What a killed run measured before its first checkpoint is measured again.
        return Watch(self.model, folder=self.folder / "watched", fresh=True, **options)

    def _compile(self) -> None:
        """Compiling is no training: one batch forth and back, whose gradients are thrown away."""
        if self.process.device.type != "cuda":
            return
        began = time.perf_counter()
        batch = next(self.feed.epoch(0, self.spec.data_seed, self.spec.batch_size))
        self.compiled(batch)[0].backward()
        self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        self.seconds["preparing"] += time.perf_counter() - began

    def _epoch(self, epoch: int, watch: Watch) -> tuple[float, float]:
        """Mean loss and accuracy over the epoch's own steps."""
        spec, total = self.spec, torch.zeros(2, device=self.process.device)
        self.model.train()
        for number, batch in enumerate(self.feed.epoch(epoch, spec.data_seed, spec.batch_size)):
            step = epoch * self.steps_per_epoch + number
            self._set_rate(step)
            loss, right = self.compiled(batch)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            total += torch.stack([loss.detach() * len(batch.labels), right])
            if number + 1 < self.steps_per_epoch:  # the last step is measured when the mean loss is known
                self._measure(watch, step + 1)
        count = self.steps_per_epoch * spec.batch_size
        loss_sum, right_sum = self.process.summed(total).tolist()
        return loss_sum / count, right_sum / count

    def _set_rate(self, step: int) -> None:
        steps, warmup = self.spec.epochs * self.steps_per_epoch, self.spec.warmup_epochs * self.steps_per_epoch
        rate = learning_rate(step, steps, warmup, self.spec.learning_rate)
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    @torch.no_grad()
    def _evaluated(self, feed: Feed, most: int) -> tuple[float, float]:
        total, count = torch.zeros(2, device=self.process.device), 0
        self.model.eval()
        for batch in feed.plain(JUDGED_AT_ONCE, most):
            loss, right = self.plain_score(batch)
            total += torch.stack([loss * len(batch.labels), right])
            count += len(batch.labels)
        loss_sum, right_sum = total.tolist()
        return loss_sum / count, right_sum / count

    def _note(self, loss: float, accuracy: float) -> None:
        test = self._evaluated(self.test, len(self.test.labels))
        for name, value in zip(CURVES, (loss, accuracy, *test), strict=True):
            self.curves[name].append(value)

    def _measure(self, watch: Watch, step: int, loss: float | None = None) -> None:
        began = time.perf_counter()
        watch.step(step, loss)
        self.seconds["spectra"] += time.perf_counter() - began

    def _save(self, watch: Watch, epoch: int) -> None:
        if self.process.leads:
            watch.state()  # what the checkpoint builds on is on disk before it
            path = self.folder / "checkpoint.safetensors"
            checkpoint.save(path, self.identity, epoch, self.seconds, self.model, self.optimizer, self.curves)

    def _words(self, epoch: int, watch: Watch, left: float) -> str:
        ranks = watch.latest
        shown = (
            f", rank of change QK {ranks['stable_rank_qk']:.1f} OV {ranks['stable_rank_ov']:.1f}"
            if "stable_rank_qk" in ranks
            else ""
        )
        return (
            f"epoch {epoch} of {self.spec.epochs}, loss {self.curves['loss'][-1]:.3g}, test accuracy "
            f"{self.curves['test_accuracy'][-1]:.1%}{shown}, {duration(left)} left"
        )

    def _device_name(self) -> str:
        device = self.process.device
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
        return f"{self.process.world} x {name}" if self.process.world > 1 else name


def _check_sizes(spec: ViTSpec, images: Images, world: int) -> None:
    height, width = images.train_pixels.shape[2:]
    if height % spec.patch or width % spec.patch:
        raise BadArgument(
            f"`patch` = {spec.patch} does not divide the images of {images.source}, which are {height} x {width}: set "
            "`patch`, or `image_size`"
        )
    if spec.batch_size > len(images.train_labels):
        raise BadArgument(
            f"`batch_size` = {spec.batch_size} exceeds the {len(images.train_labels)} training images of "
            f"{images.source}"
        )
    if spec.batch_size % world:
        raise BadArgument(f"`batch_size` = {spec.batch_size} cannot be shared by {world} processes")


def _moments(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each channel, over as many images as tell, a few at a time."""
    places = range(0, len(pixels), max(1, len(pixels) // 20_000))
    # Stored bytes are whole numbers: their sums are exact.
    sums = np.zeros((2, pixels.shape[1]))
    for first in range(0, len(places), 500):
        some = pixels[places[first : first + 500]].astype(np.float64)
        sums += [some.sum((0, 2, 3)), (some**2).sum((0, 2, 3))]
    mean, square = sums / (len(places) * pixels[0, 0].size)
    deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
    return mean, np.where(deviation > 0, deviation, 1.0)
