# SPDX-License-Identifier: MIT OR Apache-2.0
"""Books 400 payments; what is booked shall outlive a power failure."""
import os


def book(file, payment):
    file.write(f"{payment}\n")
    file.flush()
    os.fsync(file.fileno())


def main():
    with open("journal.txt", "w", encoding="ascii") as file:
        for n in range(400):
            payment = sum(i * i % 97 for i in range(n, n + 2_000))
            book(file, payment)


if __name__ == "__main__":
    main()
