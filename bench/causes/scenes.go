// SPDX-License-Identifier: MIT OR Apache-2.0

// Causes as public reports of programs in Go have them (bench/causes/run): goroutines that compute while they hold one lock, or wait at a channel for a slow one.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

var (
	mu    sync.Mutex
	total int
)

// As many goroutines, each of which does that so many times.
func begin(goroutines, times int, do func(int)) *sync.WaitGroup {
	all := new(sync.WaitGroup)
	for g := 0; g < goroutines; g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; i < times; i++ {
				do(i)
			}
		}()
	}
	return all
}

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
	all := begin(4, 60, func(i int) { results <- i })
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
	all := begin(4, 60, func(int) { tree(14) })
	all.Wait()
	runtime.KeepAlive(stays)
}

// Goroutines that compute, of which one may run at a time.
func inTurns() {
	if len(os.Args) < 3 {
		runtime.GOMAXPROCS(1)
	}
	all := begin(4, 40, func(i int) { hashBlock(i) })
	all.Wait()
}

//go:noinline
func hashBlock(n int) uint64 {
	x := uint64(n)
	for i := 0; i < 8_000_000; i++ {
		x = x*6364136223846793005 + 1
	}
	return x
}

// Looks at a channel again and again, with nothing else to do.
func waitFor(results chan int) int {
	for {
		select {
		case n := <-results:
			return n
		default:
		}
	}
}

func poll() {
	results := make(chan int)
	begin(2, 1, func(int) {
		n := 0
		for i := 0; i < 150; i++ {
			n += score(i)
		}
		results <- n
	})
	total = waitFor(results) + waitFor(results)
}

// A report, line by line, without a buffer.
func writeReport() {
	file, err := os.CreateTemp("", "report")
	if err != nil {
		panic(err)
	}
	defer file.Close()
	os.Remove(file.Name())
	for i := 0; i < 400_000; i++ {
		fmt.Fprintf(file, "%d;item %d\n", i, i)
	}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "select" {
		poll()
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "report" {
		writeReport()
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "turns" {
		inTurns()
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "garbage" {
		growTrees()
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "consumer" {
		throughOneChannel()
		return
	}
	all := begin(8, 30, handle)
	all.Wait()
}
