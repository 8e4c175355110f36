# SPDX-License-Identifier: MIT OR Apache-2.0
"""Threads that write one log, which is synced to the disk with each line (bench/causes/run)."""
import logging
import os
import tempfile
import threading


class Durable(logging.FileHandler):
    def emit(self, record):
        super().emit(record)
        os.fsync(self.stream.fileno())


def handle():
    for i in range(150):
        log.info("request %d", i)


with tempfile.TemporaryDirectory() as folder:
    log = logging.getLogger("app")
    log.addHandler(Durable(os.path.join(folder, "app.log")))
    log.setLevel(logging.INFO)
    threads = [threading.Thread(target=handle) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
