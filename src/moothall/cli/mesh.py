"""`moothall mesh`: deals with signed envelopes, and what a hall keeps of them. Its commands are in `_mesh_*.py`."""

from moothall.cli._addresses import HallCommand
from moothall.cli._exits import group
from moothall.cli._mesh_dealing import (
    accept,
    approve,
    cancel,
    consent,
    counter,
    deliver,
    dispute,
    feedback,
    propose,
    reject,
)
from moothall.cli._mesh_listen import listen
from moothall.cli._mesh_log import log, prove, verify
from moothall.cli._mesh_looking import balance, conversations, reputation, show
from moothall.cli._mesh_node import node
from moothall.cli._mesh_notaries import notarize, verdict
from moothall.cli._mesh_publishing import advertise, broadcast, discover
from moothall.cli._mesh_risk import batch, risk
from moothall.cli._mesh_simulate import simulate

app = group("mesh", "Deals on the mesh, its log with proofs, and how agents behave.")

# Those that go to a hall, in the order of `--help`.
for command in (
    listen,
    advertise,
    discover,
    propose,
    counter,
    accept,
    reject,
    deliver,
    approve,
    notarize,
    verdict,
    dispute,
    feedback,
    cancel,
    consent,
    conversations,
    show,
    balance,
    reputation,
    broadcast,
):
    # A score may be negative: then it is not an option.
    context = {"ignore_unknown_options": command is feedback}
    app.command(cls=HallCommand, context_settings=context)(command)

# Those that read what a hall keeps, or nothing; and a node, which needs no hall.
for local in (log, prove, verify, batch, risk, simulate, node):
    app.command()(local)
