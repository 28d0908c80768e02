"""Listeners."""

from moothall.node.listeners import Listeners


class Log:
    def __init__(self) -> None:
        self.events: list[str] = []

    def info(self, event: str, **facts: object) -> None:
        raise AssertionError(event)

    def warning(self, event: str, **facts: object) -> None:
        self.events.append(event)


def test_one_that_raises_does_not_keep_others_from_hearing() -> None:
    log = Log()
    listeners: Listeners[int] = Listeners(log)
    heard: list[int] = []

    def broken(news: int) -> None:
        raise ValueError(news)

    listeners.add(broken)
    remove = listeners.add(heard.append)
    listeners.tell(1)
    remove()
    remove()
    listeners.tell(2)
    assert heard == [1]
    assert log.events == ["listener_failed"] * 2
    assert len(listeners) == 1


def test_a_listener_may_remove_itself() -> None:
    listeners: Listeners[int] = Listeners(Log())
    heard: list[int] = []

    def once(news: int) -> None:
        heard.append(news)
        remove()

    remove = listeners.add(once)
    listeners.tell(1)
    listeners.tell(2)
    assert heard == [1]
