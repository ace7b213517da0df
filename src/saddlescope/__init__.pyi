"""The public names: this list is their only one, which __init__.py reads."""

from .analysis.stages import detect_stages as detect_stages
from .checkpoints.advice import advise as advise
from .checkpoints.diff import diff as diff
from .checkpoints.extract import extract as extract
from .core.claim import (
    Claim as Claim,
    Verdict as Verdict,
    aligned as aligned,
    all_of as all_of,
    bounded as bounded,
    by_field as by_field,
    close as close,
    monotone as monotone,
    only as only,
    ordered as ordered,
    rows_over as rows_over,
    scales_as as scales_as,
    share_of as share_of,
    together as together,
)
from .core.errors import BadArgument as BadArgument
from .core.experiment import (
    Erratum as Erratum,
    Experiment as Experiment,
    Figure as Figure,
    Size as Size,
    listed as listed,
    misprints as misprints,
    over as over,
)
from .core.observable import (
    Coordinate as Coordinate,
    Observable as Observable,
    Once as Once,
    OverTime as OverTime,
)
from .core.paper import Paper as Paper
from .core.parts import (
    Descent as Descent,
    ExactDescent as ExactDescent,
    Flow as Flow,
    HasFreshData as HasFreshData,
    HasInvariants as HasInvariants,
    HasJacobian as HasJacobian,
    HasLandmarks as HasLandmarks,
    HasProducts as HasProducts,
    HasSamples as HasSamples,
    Limit as Limit,
    OwnLoop as OwnLoop,
    Symmetry as Symmetry,
    Theory as Theory,
    part as part,
)
from .core.registry import (
    subject as subject,
    subject_types as subject_types,
    system as system,
    system_types as system_types,
)
from .core.run import Run as Run
from .core.source import source as source
from .core.spec import Parameters as Parameters, Spec as Spec, require as require
from .core.stage import Ending as Ending, Mark as Mark, Prediction as Prediction, Stage as Stage
from .core.start import ReducedStart as ReducedStart, Start as Start
from .core.subject import Subject as Subject
from .core.system import System as System
from .core.trajectory import build_trajectory as build_trajectory
from .lab.cite import cite as cite
from .lab.compare import compare as compare
from .lab.ensemble import run_seeds as run_seeds
from .lab.job import reproduce as reproduce
from .lab.judge import judge as judge
from .lab.run import flow as flow, predict as predict, run as run, train as train
from .lab.stages import measured_stages as measured_stages
from .spectra.ranks import stable_rank as stable_rank
from .systems.gradual_rank.from_function import from_function as from_function
from .testing.conformance import check_system as check_system
from .watch.huggingface import SaddleCallback as SaddleCallback
from .watch.jax_tree import TreeWatch as TreeWatch
from .watch.lightning import LightningCallback as LightningCallback
from .watch.series import read_series as read_series
from .watch.watch import Watch as Watch

__version__: str
HOMES: dict[str, str]
