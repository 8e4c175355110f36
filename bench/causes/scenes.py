# SPDX-License-Identifier: MIT OR Apache-2.0
"""Causes as public reports of programs in Python have them (bench/causes/run): threads that write one log, which is synced to the disk with each line; a
queue whose consumer is slow; a pool of one connection to a data base; processes that compute under one lock; a program that is begun for each item; children that read what
their parent made; small parts for processes; a thread that looks whether another is done."""
import array
import concurrent.futures
import hashlib
import logging
import os
import queue
import sys
import tempfile
import threading
import time


def all_of(threads):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Durable(logging.FileHandler):
    def emit(self, record):
        super().emit(record)
        os.fsync(self.stream.fileno())


def handle():
    # As long on a fast disk as on a slow one: else the start of Python is all that there is.
    end, i = time.monotonic() + 1.5, 0
    while time.monotonic() < end:
        i += 1
        log.info("request %d", i)


def produce():
    for _ in range(40):
        blocks.put(bytes(4_000_000))


def consume():
    for _ in range(120):
        hashlib.sha256(blocks.get()).digest()


def through_a_queue():
    all_of([threading.Thread(target=produce) for _ in range(3)] + [threading.Thread(target=consume)])


def ask():
    for _ in range(25):
        connection = free.get()
        connection.query()
        free.put(connection)


def crunch(n):
    for i in range(60000):
        n = n * 31 ^ i & 0xFFFF
    return n


def tally(lock, total):
    for i in range(15):
        with lock:
            total.value += crunch(i)


def total(prices):
    found = 0
    for i in range(len(prices)):
        found += prices[i]
    return found


def square(i):
    return i * i


def digest():
    block = b""
    for _ in range(1_200_000):
        block = hashlib.md5(block).digest()
    done.set()


class Connection:
    def query(self):
        time.sleep(0.01)


if sys.argv[1:2] == ["pool"]:
    free = queue.Queue()
    for _ in range(4 if sys.argv[2:] == ["cured"] else 1):
        free.put(Connection())
    all_of([threading.Thread(target=ask) for _ in range(4)])
    sys.exit()

if sys.argv[1:] == ["workers"]:
    import multiprocessing

    multiprocessing.set_start_method("fork")
    lock, total = multiprocessing.Lock(), multiprocessing.Value("q", 0, lock=False)
    all_of([multiprocessing.Process(target=tally, args=(lock, total)) for _ in range(3)])
    sys.exit()

if sys.argv[1:2] == ["forked"]:
    prices = (i * 1.5 for i in range(1_500_000))
    prices = array.array("d", prices) if sys.argv[2:] == ["cured"] else list(prices)
    for _ in range(4):
        children = []
        for _ in range(2):
            children.append(os.fork())
            if children[-1] == 0:
                total(prices)
                os._exit(0)
        for child in children:
            os.waitpid(child, 0)
    sys.exit()

if sys.argv[1:2] == ["small_parts"]:
    with concurrent.futures.ProcessPoolExecutor(2) as processes:
        list(processes.map(square, range(9000), chunksize=500 if sys.argv[2:] == ["cured"] else 1))
    sys.exit()

if sys.argv[1:] == ["looks"]:
    done = threading.Event()
    worker = threading.Thread(target=digest)
    worker.start()
    while not done.wait(0.005):
        pass
    worker.join()
    sys.exit()

if sys.argv[1:] == ["programs"]:
    import subprocess

    for i in range(500):
        subprocess.run(["/bin/echo", str(i)], capture_output=True)
    sys.exit()

if sys.argv[1:] == ["consume"]:
    blocks = queue.Queue(maxsize=4)
    through_a_queue()
    sys.exit()

with tempfile.TemporaryDirectory() as folder:
    log = logging.getLogger("app")
    log.addHandler(Durable(os.path.join(folder, "app.log")))
    log.setLevel(logging.INFO)
    all_of([threading.Thread(target=handle) for _ in range(6)])
