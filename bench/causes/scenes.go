// SPDX-License-Identifier: MIT OR Apache-2.0

// Causes as public reports of programs in Go have them (bench/causes/run): goroutines that compute while they hold one lock, or wait at a channel for a slow one.
package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

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

func store(results <-chan int) {
	for n := range results {
		total += score(n)
	}
}

func throughOneChannel() {
	results := make(chan int)
	var all sync.WaitGroup
	for g := 0; g < 4; g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; i < 60; i++ {
				results <- i
			}
		}()
	}
	go func() {
		all.Wait()
		close(results)
	}()
	store(results)
}

type node struct {
	left, right *node
}

func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{tree(depth - 1), tree(depth - 1)}
}

// Short-lived trees beside one that stays, which the collector follows again and again.
func growTrees() {
	if len(os.Args) > 2 {
		debug.SetGCPercent(800)
	}
	stays := tree(19)
	var all sync.WaitGroup
	for g := 0; g < 4; g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; i < 60; i++ {
				tree(14)
			}
		}()
	}
	all.Wait()
	runtime.KeepAlive(stays)
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "garbage" {
		growTrees()
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "consumer" {
		throughOneChannel()
		return
	}
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
