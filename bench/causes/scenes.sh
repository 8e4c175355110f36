#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Causes as public reports of scripts have them (bench/causes/run): three builds that take one lock file in turns; a loop that starts programs for each line;
# one program for each file, one at a time; jobs behind each of which it looks ten times a second.
builds() {
    lock=$(mktemp) || exit 1
    for _ in 1 2 3; do
        for _ in 1 2 3 4 5 6; do
            flock "$lock" sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done'
        done &
    done
    wait
    rm "$lock"
}

second_field() {
    seq 1 150 | while read -r n; do
        line="user:$n:x"
        if [ "$1" = cured ]; then
            line=${line#*:}
            field=${line%%:*}
        else
            field=$(echo "$line" | cut -d: -f2)
        fi
        : "$field"
    done
}

compressed() {
    folder=$(mktemp -d) || exit 1
    for n in 1 2 3 4 5 6 7 8; do
        head -c 3000000 /dev/urandom >"$folder/$n"
    done
    at_once=1
    [ "$1" != cured ] || at_once=$(nproc)
    find "$folder" -type f -print0 | xargs -0 -n 1 -P "$at_once" gzip
    rm -r "$folder"
}

looks() {
    folder=$(mktemp -d) || exit 1
    for n in 1 2 3 4 5 6 7 8 9 10 11 12; do
        (
            i=0
            while [ $i -lt 40000 ]; do i=$((i + 1)); done
            : >"$folder/$n"
        ) &
        if [ "$1" = cured ]; then
            wait
        else
            while [ ! -e "$folder/$n" ]; do sleep 0.1; done
        fi
    done
    rm -r "$folder"
}

case $1 in
    looks_again) looks "$2" ;;
    file) builds ;;
    line_by_line) second_field "$2" ;;
    in_turn) compressed "$2" ;;
esac
