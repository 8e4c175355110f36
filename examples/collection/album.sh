#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Packs the pictures of an album, one by one.
set -e
for i in 1 2 3 4 5 6 7 8; do
    [ -e picture$i.raw ] || seq $((i * 1000)) $((i * 1000 + 400000)) >picture$i.raw
done
for picture in picture*.raw; do
    gzip -9 -f -k "$picture"
done
