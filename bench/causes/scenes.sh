#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Three builds that take one lock file in turns (bench/causes/run).
lock=$(mktemp) || exit 1
build() {
    for _ in 1 2 3 4 5 6; do
        flock "$lock" sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done'
    done
}
build &
build &
build &
wait
rm "$lock"
