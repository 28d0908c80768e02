"""The last question before a signature: exactly this text, or nothing."""

from collections.abc import Awaitable, Callable
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widget import Widget
from textual.widgets import Button, Footer, Input, RadioButton, RadioSet

from moothall.errors import MoothallError, Refusal, UsageError
from moothall.tui.affairs import Affair
from moothall.tui.cases import Rows
from moothall.tui.overlays import Overlay
from moothall.tui.printable import exactly, steady_line
from moothall.tui.rendering import labelled
from moothall.tui.steps import Field, Step, Values
from moothall.tui.widgets import Plain

BAR_NOTE = "A | in a field reads like the end of the field. The signature covers only the joined text."
SEEN_NOTE = (
    "The text names the deal or the case by its id. What stands above is what the hall has under this id."
)


class Signature(Overlay[bool]):
    """Shows what a step means, asks for its fields, and shows the text while they are filled in.

    `take` takes the step; it signs what `step.text` shows. True: it was taken.
    """

    DEFAULT_CSS = """
    Signature #about-pane { height: auto; max-height: 30%; border-bottom: solid $panel; }
    Signature .label { height: 1; color: $text-muted; }
    Signature RadioSet { height: auto; }
    Signature #text { height: auto; border: solid $warning; margin-top: 1; }
    Signature #note, Signature #mistake { height: auto; }
    Signature #mistake { color: $text-error; text-style: bold; }
    Signature Horizontal { height: 1; }
    Signature Button { margin-right: 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Do not sign", key_display="Esc"),
    ]

    def __init__(
        self,
        step: Step,
        affair: Affair,
        about: Rows,
        signer: str,
        take: Callable[[Values], Awaitable[object]],
    ) -> None:
        super().__init__()
        self._step = step
        self._affair = affair
        self._about = about
        self._signer = signer
        self._take = take
        self._is_waiting = False

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="frame", can_focus=False) as frame:
            frame.border_title = f"{self._step.verb}: sign or not"
            yield Plain(id="meaning")
            with VerticalScroll(id="about-pane"):
                yield Plain(id="about")
            for field in self._step.fields:
                yield Plain(id=f"label-{field.name}")
                yield self._asking(field)
            yield Plain(id="text")
            yield Plain(id="note")
            yield Plain(id="mistake")
            with Horizontal():
                yield Button("Sign", id="sign", variant="warning", compact=True)
                yield Button("Do not sign", id="cancel", compact=True)
        yield Footer(compact=True)

    def _asking(self, field: Field) -> Widget:
        if field.choices:
            return RadioSet(*(RadioButton(choice) for choice in field.choices), id=field.name, compact=True)
        return Input(id=field.name, compact=True)

    def on_mount(self) -> None:
        self.query_one("#meaning", Plain).update(self._step.meaning)
        self.query_one("#about", Plain).update(labelled(self._about))
        title = Text(
            steady_line(f"{self._signer} signs exactly this")
        )  # in a str, [brackets] would be markup
        self.query_one("#text", Plain).border_title = title
        for field in self._step.fields:
            label = self.query_one(f"#label-{field.name}", Plain)
            label.add_class("label")
            label.update(field.label)
        first = self._step.fields[0].name if self._step.fields else "cancel"
        self.query_one(f"#{first}").focus()
        self._show_text()

    def values(self) -> dict[str, str]:
        found = {}
        for field in self._step.fields:
            if field.choices:
                pressed = self.query_one(f"#{field.name}", RadioSet).pressed_index
                found[field.name] = field.choices[pressed] if pressed >= 0 else ""
            else:
                found[field.name] = self.query_one(f"#{field.name}", Input).value
        return found

    def _show_text(self) -> None:
        values = self.values()
        notes = [SEEN_NOTE, BAR_NOTE] if self._step.has_bar(values) else [SEEN_NOTE]
        try:
            text: Text | str = Text(exactly(self._step.text(self._affair, values)), style="bold")
            mistake = ""
        except UsageError as error:
            text, mistake = "", str(error)
        self.query_one("#text", Plain).update(text)
        self.query_one("#note", Plain).update("\n".join(notes))
        self.say(mistake)
        self.query_one("#sign", Button).disabled = bool(mistake) or self._is_waiting

    def say(self, text: str) -> None:
        self.query_one("#mistake", Plain).update(text)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._show_text()

    def on_radio_set_changed(self, event: RadioSet.Changed) -> None:
        self._show_text()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter leads on to the next field, and from the last one to the button: never to a signature."""
        self.focus_next()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "cancel":
            self.action_close()
        elif not self._is_waiting:
            self._is_waiting = True
            self._show_text()
            self.say("waiting for the hall…")
            self._sign(self.values())

    @work
    async def _sign(self, values: Values) -> None:
        try:
            await self._take(values)
        except MoothallError as error:
            self._is_waiting = False
            self._show_text()
            code = f"{error.code}: " if isinstance(error, Refusal) else ""
            self.say(steady_line(f"{code}{error}"))
        else:
            self.dismiss(True)

    def action_close(self) -> None:
        """Not while the hall has the signature and has not answered."""
        if not self._is_waiting:
            self.dismiss(False)
