"""Deals and court: what there is, what waits for the person, and the steps to take."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, ClassVar, Final

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Footer, OptionList
from textual.widgets.option_list import Option

from moothall.client import case_import
from moothall.client.proposal import Deal
from moothall.errors import MoothallError
from moothall.tui.affairs import Affair, Affairs, NameOf, affair_row, deal_rows, filing_rows, id_of
from moothall.tui.cases import Rows, case_rows
from moothall.tui.overlays import Overlay
from moothall.tui.printable import steady_line
from moothall.tui.rendering import labelled
from moothall.tui.signature import Signature
from moothall.tui.steps import STEPS, step_of
from moothall.tui.widgets import Plain

if TYPE_CHECKING:
    from moothall import Agent

NO_KEY: Final = (
    "Deals and cases are signed, and you came without a key. `moothall identity new FILE` makes one;"
    " `moothall chat -i FILE` uses it."
)
NOTHING: Final = (
    "You have no deals and no cases. `moothall propose` makes an offer; offers to you appear here."
)


class Panel(Overlay[None]):
    """`load` asks the hall for the latest."""

    DEFAULT_CSS = """
    Panel #affairs { height: 2fr; min-height: 3; text-wrap: nowrap; text-overflow: ellipsis; }
    Panel #details { height: 3fr; border-top: solid $panel; }
    Panel #said { height: auto; max-height: 3; color: $text-accent; }
    """
    # Some steps share a key; the footer shows the one that is due.
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(step.key, f"take('{step.verb}')", step.verb, key_display=step.key) for step in STEPS),
        Binding("f5", "load", "Reload", key_display="F5"),
        Binding("f3,q", "close", show=False),
    ]

    def __init__(
        self, agent: "Agent", affairs: Affairs, name_of: NameOf, load: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__()
        self._agent = agent
        self._affairs = affairs
        self._name_of = name_of
        self._load = load
        self._files: dict[tuple[str, str], Rows] = {}  # of cases, by id and phase
        self._is_built = False
        self._shown_id = ""
        # Kept by name: news may come while the screen is taken down, when no query finds them.
        self._listed = OptionList(id="affairs", markup=False, compact=True)
        self._details = VerticalScroll(id="details", can_focus=False)
        self._shown = Plain(id="shown")
        self._said = Plain(id="said")

    def compose(self) -> ComposeResult:
        with Vertical(classes="frame") as frame:
            frame.border_title = "Deals and cases"
            yield self._listed
            with self._details:
                yield self._shown
            yield self._said
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self._is_built = True
        self._listed.focus()
        self.show_list()
        self.action_load()

    # -- the list ----------------------------------------------------------------------------------

    def show_list(self) -> None:
        """The deals and cases as they are now; the cursor stays on the same one."""
        if not self._is_built:
            return
        current = self._current()
        affairs = self._affairs.listed()
        self._listed.set_options(Option(affair_row(each, self._name_of), id=id_of(each)) for each in affairs)
        ids = [id_of(each) for each in affairs]
        if ids:
            self._listed.highlighted = ids.index(id_of(current)) if current and id_of(current) in ids else 0
        else:
            self._show([("", NOTHING if self._agent.identity else NO_KEY)])
        self.refresh_bindings()

    def say(self, text: str) -> None:
        self._said.update(steady_line(text))

    def action_load(self) -> None:
        if self._agent.identity is not None:
            self._reload()

    @work(group="load", exclusive=True)
    async def _reload(self) -> None:
        try:
            await self._load()
        except MoothallError as error:
            self.say(f"The hall does not list deals and cases: {error}")
        self.show_list()

    def _current(self) -> Affair | None:
        option = self._listed.highlighted_option
        return self._affairs.get(option.id) if option is not None and option.id else None

    # -- one of them -------------------------------------------------------------------------------

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        affair = self._current()
        if affair is None:
            return
        self._show(self._rows(affair))
        if self._shown_id != id_of(affair):
            self._shown_id = id_of(affair)
            self._details.scroll_home(animate=False)
        self.refresh_bindings()
        if not isinstance(affair, Deal) and (affair.dispute_id, affair.phase) not in self._files:
            self._read(affair.dispute_id, affair.phase)

    def _rows(self, affair: Affair) -> Rows:
        if isinstance(affair, Deal):
            return deal_rows(affair, self._name_of)
        return [*filing_rows(affair, self._name_of), *self._files.get((affair.dispute_id, affair.phase), [])]

    def _show(self, rows: Rows) -> None:
        self._shown.update(labelled(rows))

    @work(group="file", exclusive=True)
    async def _read(self, dispute_id: str, phase: str) -> None:
        """The file of the case: evidence and votes, as far as the person may see them."""
        try:
            case = case_import.read(await self._agent.case_file(dispute_id))
        except MoothallError as error:
            self.say(f"The file of the case cannot be read: {error}")
            return
        self._files[dispute_id, phase] = [("", ""), *case_rows(case)]
        affair = self._current()
        if affair is not None and id_of(affair) == dispute_id:
            self._show(self._rows(affair))

    # -- steps -------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The footer shows the steps that are due."""
        if action != "take":
            return True
        affair = self._current()
        return affair is not None and step_of(affair, str(parameters[0])) is not None

    def action_take(self, verb: str) -> None:
        affair = self._current()
        step = step_of(affair, verb) if affair is not None else None
        if affair is None or step is None:
            return

        def taken(is_taken: bool | None) -> None:
            if is_taken:
                self.say(f"{step.verb}: done.")
                self.action_load()

        signer = f"{self._agent.name} {self._agent.address}"
        signature = Signature(
            step,
            affair,
            self._rows(affair),
            signer,
            lambda values: step.take(self._agent, id_of(affair), values),
        )
        self.app.push_screen(signature, taken)
