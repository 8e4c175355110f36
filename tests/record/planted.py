"""A program of known paths: grind() is called by heavy(), middle() and light() only, for 60, 30 and 10 % of its time; nap() waits."""
import sys
import time


def grind(n):
    x = 1
    for i in range(n):
        x = (x * 69069 + i) & 0xFFFFFFFF  # line 9
    return x


def heavy():
    return grind(6000)


def middle():
    return grind(3000)


def light():
    return grind(1000)


def nap():
    time.sleep(0.1)  # line 26


def main(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        for _ in range(5):
            heavy()
            middle()
            light()
    for _ in range(4):
        nap()


main(float(sys.argv[1]))
