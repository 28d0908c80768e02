"""The gallery behind its path of the port, and what operators see of it at GET /metrics."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from moothall.gateways.room import Served
from moothall.hall.gallery import MAX_MESSAGE, Gallery

WATCH_PATH: Final = "/watch"


def served(gallery: Gallery) -> Served:
    return Served(gallery, frozenset(), MAX_MESSAGE)


class GalleryMetrics(Collector):
    def __init__(self, gallery: Gallery) -> None:
        self._gallery = gallery

    def collect(self) -> Iterator[Metric]:
        gallery = self._gallery
        yield GaugeMetricFamily("moothall_watchers", "Connections that only look", len(gallery))
        yield CounterMetricFamily(
            "moothall_watchers_refused", "Watchers that found no place", gallery.refused
        )
        yield CounterMetricFamily(
            "moothall_watcher_gaps", "Times a watcher read too slowly and missed messages", gallery.gaps
        )
