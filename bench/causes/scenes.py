# SPDX-License-Identifier: MIT OR Apache-2.0
"""Causes as public reports of programs in Python have them (bench/causes/run): threads that write one log, which is synced to the disk with each line; a
queue whose consumer is slow."""
import hashlib
import logging
import os
import queue
import sys
import tempfile
import threading


class Durable(logging.FileHandler):
    def emit(self, record):
        super().emit(record)
        os.fsync(self.stream.fileno())


def handle():
    for i in range(150):
        log.info("request %d", i)


def produce():
    for _ in range(40):
        blocks.put(bytes(4_000_000))


def consume():
    for _ in range(120):
        hashlib.sha256(blocks.get()).digest()


def through_a_queue():
    threads = [threading.Thread(target=produce) for _ in range(3)] + [threading.Thread(target=consume)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if sys.argv[1:] == ["consume"]:
    blocks = queue.Queue(maxsize=4)
    through_a_queue()
    sys.exit()

with tempfile.TemporaryDirectory() as folder:
    log = logging.getLogger("app")
    log.addHandler(Durable(os.path.join(folder, "app.log")))
    log.setLevel(logging.INFO)
    threads = [threading.Thread(target=handle) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
