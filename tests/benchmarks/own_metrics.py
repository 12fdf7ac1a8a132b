"""What a scrape of our own ``/metrics`` costs: a report that was not shown yet, rendered and packed.

``python -m tests.benchmarks.own_metrics``. The reference is ``prometheus_client`` writing the same
families from metrics that stand ready in memory, which leaves out all that makes them.
"""

import gzip
import sys
import time
from statistics import median

from isal import isal_zlib
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from sidecar.export.metrics import GZIP_LEVEL, GZIP_WINDOW, Exposition, Format
from sidecar.export.render import Metrics
from tests.benchmarks.row import Row
from tests.benchmarks.virtual import EVIDENCE_KEYS, VirtualServer

SCRAPES = 60
TARGET_MS = 0.3


def measure(scrapes: int = SCRAPES) -> list[Row]:
    """A row for one engine, and one for eight."""
    rows = []
    for engines in (1, 8):
        server, exposition = VirtualServer(engines), Exposition(EVIDENCE_KEYS)
        ours, theirs, packing, zlibs, body = [], [], [], [], b""
        for _ in range(scrapes):
            report = server.step(server.body()).report
            begun = time.process_time()
            payload = exposition.payload(report, Format.TEXT, compressed=True)
            ours.append((time.process_time() - begun) * 1e3)
            body = gzip.decompress(payload.body)
        families = Metrics(tuple(text_string_to_metric_families(body.decode())))
        for _ in range(scrapes):
            begun = time.process_time()
            generate_latest(families)
            theirs.append((time.process_time() - begun) * 1e3)
            begun = time.process_time()
            isal_zlib.compress(body, GZIP_LEVEL, GZIP_WINDOW)
            packing.append((time.process_time() - begun) * 1e3)
            begun = time.process_time()
            gzip.compress(body, GZIP_LEVEL, mtime=0)
            zlibs.append((time.process_time() - begun) * 1e3)
        cost, reference = median(ours), median(theirs)
        rows.append(
            Row(
                what=f"own /metrics, {engines} engine{'s' * (engines > 1)}",
                ours=cost,
                unit="ms CPU a scrape",
                reference="prometheus_client's generate_latest",
                theirs=reference,
                ratio=reference / cost,
                target=f"<= {TARGET_MS} ms" if engines == 1 else "",
                met=cost <= TARGET_MS if engines == 1 else None,
            )
        )
        rows.append(
            Row(
                what=f"of it: gzip of the {len(body) / 1000:.0f} kB alone",
                ours=median(packing),
                unit="ms CPU",
                reference="by zlib at the same level",
                theirs=median(zlibs),
                ratio=median(zlibs) / median(packing),
            )
        )
    return rows


def main() -> None:
    """Print the rows."""
    for row in measure():
        sys.stdout.write(f"{row}\n")


if __name__ == "__main__":
    main()
