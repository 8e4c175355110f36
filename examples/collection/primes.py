# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts primes with a thread for each CPU."""
import concurrent.futures
import os


def primes(begin, end):
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(begin, end))


def main():
    parts = [(n, n + 8_000) for n in range(2, 96_002, 8_000)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        print(sum(pool.map(primes, *zip(*parts))))


if __name__ == "__main__":
    main()
