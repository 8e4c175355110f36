// SPDX-License-Identifier: MIT OR Apache-2.0
// Workers that take turns by Atomics.wait, or calls that take turns in a small pool of libuv's (bench/causes/run).
const crypto = require("crypto");
const { Worker, isMainThread, workerData } = require("worker_threads");

function hashBlock(n) {
  for (let i = 0; i < 3e6; i++) n = (n * 31) ^ i;
  return n;
}

if (process.argv[2] === "uv_pool") {
  process.env.UV_THREADPOOL_SIZE = process.argv[3] ? "4" : "1";
  for (let i = 0; i < 8; i++) crypto.pbkdf2("secret", "salt" + i, 120000, 64, "sha512", () => {});
} else if (isMainThread) {
  const shared = new SharedArrayBuffer(4);
  for (let i = 0; i < 3; i++) new Worker(__filename, { workerData: shared });
} else {
  const turn = new Int32Array(workerData);
  for (let i = 0; i < 25; i++) {
    while (Atomics.compareExchange(turn, 0, 0, 1) !== 0) Atomics.wait(turn, 0, 1);
    hashBlock(i);
    Atomics.store(turn, 0, 0);
    Atomics.notify(turn, 0, 1);
  }
}
