# SPDX-License-Identifier: MIT OR Apache-2.0
"""Threads of Python that lose their CPUs to the cause that is the argument (bench/causes/run)."""
import multiprocessing
import sys
import threading
import time

ROUNDS = 25
lock = threading.Lock()
done = 0


def count(n):
    return sum(j * j for j in range(n))


def gil():
    for _ in range(ROUNDS):
        count(200000)


def locker():
    for _ in range(ROUNDS):
        with lock:
            time.sleep(0.01)  # a slow disk: the GIL is given up, the lock is kept
        count(2000)


def napper():
    for _ in range(ROUNDS):
        time.sleep(0.02)
        count(2000)


def worker():
    global done
    for i in range(ROUNDS):
        count(200000)
        done = i + 1


def poller():
    for i in range(ROUNDS):
        while done <= i:
            time.sleep(0.001)


PARTS = {"gil": [gil, gil], "lock": [locker] * 4, "nap": [napper, napper], "poll": [poller, worker]}
made_of = multiprocessing.Process if sys.argv[2:] == ["cured"] else threading.Thread
threads = [made_of(target=part) for part in PARTS[sys.argv[1]]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
