"""What the agents do when a person, or an agent that is not of the play, turns to them: exactly one answers."""

import asyncio
import shutil
from collections import deque
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Final, NoReturn

from moothall.client import Assignment, FileOffer, FloorPolicy, Message, Proposal
from moothall.client.floor import MAX_DELAY, MIN_DELAY, is_mentioned
from moothall.demo.answers import answer_to
from moothall.demo.cast import CHANNELS, GENERAL, TRADERS, Cast, Talker, Trader, wait_for_the_scene
from moothall.demo.pace import Pace
from moothall.errors import MoothallError, TransferFailed
from moothall.hall.wires import MESH
from moothall.mesh import Message as MeshMessage
from moothall.wire.mesh.broadcast import Broadcast

MAX_FILES: Final = 1_000_000  # bytes of one offer of a guest
REMEMBERED: Final = 1000  # messages of agents that cannot tell what is a reply to them


class Hosts:
    """The agents of the cast, as hosts. `folder` is for files until they have been looked at."""

    def __init__(self, cast: Cast, pace: Pace, folder: Path) -> None:
        self._cast = cast
        self._pace = pace
        self._folder = folder
        self._elsewhere: deque[str] = deque(maxlen=REMEMBERED)  # ids of messages from keep and the mesh
        self._policy = FloorPolicy(pace.seconds(MIN_DELAY), pace.seconds(MAX_DELAY))
        self._own: frozenset[str] = frozenset()

    def attend(self) -> None:
        """From now on guests get answers. The agents are connected."""
        self._own = frozenset(actor.id for actor in self._cast.everyone)
        for talker in self._cast.talkers:
            self._attend(talker)
        for trader in self._cast.traders:
            trader.on_assigned = self.consider_case
            self._attend_on_mesh(trader)

    async def consider_case(self, assignment: Assignment) -> str | None:
        """Leave a case of the play to its scene. Decline that of a guest: there would be too few to judge it."""
        if self._own.issuperset(assignment.parties):
            return None
        return "the agents of the demo judge only the cases of their play"

    async def listen_on_keep(self) -> NoReturn:
        """Answer guests that mention the agent on keep. A packet does not tell who they are by name."""
        watcher = self._cast.watcher
        while True:
            message = await watcher.heard.get()
            is_guest = f"@{message.src.removeprefix('agent:')}" not in self._own
            if is_guest and is_mentioned(message.body, [watcher.name, watcher.id]):
                await self._pace.beat()
                await watcher.client.send(
                    answer_to(message.body, "guest"), dst=message.dst or GENERAL, typ=1, msg_id=message.id
                )

    def _attend(self, talker: Talker) -> None:
        is_first = talker is self._cast.talkers[0]

        @talker.agent.on_message(*CHANNELS, dms=True)
        async def answer(message: Message) -> None:
            if message.via is not None and message.id is not None and is_first:
                self._elsewhere.append(message.id)
            if self._is_of_the_play(message):
                return
            if is_first and message.in_reply_to in self._elsewhere:
                # The agents of other wires do not hear what is a reply to them.
                await self._pace.beat()
                await message.reply(answer_to(message.content, message.sender_name))
                return
            async with message.floor(self._policy):
                await self._pace.beat()
                await message.reply(answer_to(message.content, message.sender_name))

        talker.agent.on_arbiter_assigned(self.consider_case)
        talker.agent.on_case(wait_for_the_scene)

        @talker.agent.on_proposal
        async def consider(proposal: Proposal) -> None:
            if proposal.proposer in self._own:
                return
            await self._pace.beat()
            with suppress(MoothallError):  # the guest has left, or the offer has expired
                await proposal.accept()
                await talker.say(
                    proposal.proposer, "Agreed, and done: complete the deal when you are content."
                )

        @talker.agent.on_file_offer
        async def take(offer: FileOffer) -> None:
            is_guest = offer.sender not in self._own
            if offer.size > MAX_FILES:
                await offer.reject("the agents of the demo take at most 1 MB")
                return
            folder = await asyncio.to_thread(mkdtemp, dir=self._folder)
            try:
                received = await offer.accept(folder)
            except TransferFailed:
                return  # the sender knows
            finally:
                await asyncio.to_thread(shutil.rmtree, folder)
            if is_guest:
                names = ", ".join(file.path.name for file in received.files)
                with suppress(MoothallError):  # the guest has left
                    await talker.say(
                        offer.sender, f"I got {names}, {received.size:,} bytes. The hash is right."
                    )

    def _is_of_the_play(self, message: Message) -> bool:
        """An agent of the mesh has another id there while it is in court; then its name tells."""
        return message.sender in self._own or (message.via == MESH and message.sender_name in TRADERS)

    def _attend_on_mesh(self, trader: Trader) -> None:
        @trader.mesh.on_broadcast
        async def answer(message: MeshMessage) -> None:
            said = message.payload
            if not isinstance(said, Broadcast) or not is_mentioned(message.text, [trader.name, trader.id]):
                return
            guest, _, author = said.title.rpartition(" (")  # `name (@id)`, as the hall passes lines on
            if author.rstrip(")") in self._own:
                return
            await self._pace.beat()
            with suppress(MoothallError):  # on its way back from court
                await trader.mesh.broadcast(said.topic, answer_to(message.text, guest or "guest"))
