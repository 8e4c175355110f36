// SPDX-License-Identifier: MIT OR Apache-2.0

// Goroutines that compute while they hold one lock (bench/causes/run).
package main

import "sync"

var (
	mu    sync.Mutex
	total int
)

func score(n int) int {
	for i := 0; i < 3000000; i++ {
		n = n*31 ^ i
	}
	return n
}

func handle(n int) {
	mu.Lock()
	defer mu.Unlock()
	total += score(n)
}

func main() {
	var all sync.WaitGroup
	for g := 0; g < 8; g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; i < 30; i++ {
				handle(i)
			}
		}()
	}
	all.Wait()
}
