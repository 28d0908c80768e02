"""`moothall mesh`: deals with signed envelopes. The commands are in `_mesh_*.py`, by subject."""

from moothall.cli._exits import group
from moothall.cli._mesh_log import log, prove, verify
from moothall.cli._mesh_risk import batch, risk

app = group("mesh", "Deals on the mesh: offers, escrow, notaries and their log.")

# Those that read what a hall keeps, or nothing.
for command in (log, prove, verify, batch, risk):
    app.command()(command)
