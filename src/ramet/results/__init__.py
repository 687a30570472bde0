"""What the verbs return. Importing this package does not import Keras."""

from ramet.graph.match import Miss
from ramet.results.casting import Casting, CastLayer
from ramet.results.checkup import Checkup, Fact
from ramet.results.diff import Diff, Entry
from ramet.results.divergence import Divergence
from ramet.results.explanation import Explanation
from ramet.results.factorization import Factored, Factorization
from ramet.results.folding import Fold, Folding
from ramet.results.groups import Group, Groups, Member
from ramet.results.masks import Finding, MaskFlow, TensorMask
from ramet.results.profile import CallCost, Profile
from ramet.results.profile_comparison import ProfileComparison
from ramet.results.proof import Proof, Proven
from ramet.results.quantization import Quantization, QuantizedLayer
from ramet.results.report import Check, Report
from ramet.results.sensitivity import LayerSensitivity, Sensitivity
from ramet.results.source import Source
from ramet.results.transfer import Transfer, TransferReport

__all__ = [
    "CallCost",
    "CastLayer",
    "Casting",
    "Check",
    "Checkup",
    "Diff",
    "Divergence",
    "Entry",
    "Explanation",
    "Fact",
    "Factored",
    "Factorization",
    "Finding",
    "Fold",
    "Folding",
    "Group",
    "Groups",
    "LayerSensitivity",
    "MaskFlow",
    "Member",
    "Miss",
    "Profile",
    "ProfileComparison",
    "Proof",
    "Proven",
    "Quantization",
    "QuantizedLayer",
    "Report",
    "Sensitivity",
    "Source",
    "TensorMask",
    "Transfer",
    "TransferReport",
]
