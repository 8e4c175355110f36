// Writes three profiles of itself: CPU time with labels, contended mutexes, and memory.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"
)

//go:noinline
func spin(until time.Time) (n int) {
	for time.Now().Before(until) {
		for i := 0; i < 1000; i++ {
			n += i ^ n
		}
	}
	return n
}

func worker(done *sync.WaitGroup, lock *sync.Mutex) {
	defer done.Done()
	for i := 0; i < 5; i++ {
		lock.Lock()
		spin(time.Now().Add(10 * time.Millisecond))
		lock.Unlock()
	}
}

func create(name string) *os.File {
	file, err := os.Create(name)
	if err != nil {
		panic(err)
	}
	return file
}

func main() {
	runtime.SetMutexProfileFraction(1)
	if err := pprof.StartCPUProfile(create("cpu.pb.gz")); err != nil {
		panic(err)
	}
	var done sync.WaitGroup
	var lock sync.Mutex
	for i := 0; i < 2; i++ {
		done.Add(1)
		labels := pprof.Labels("thread", fmt.Sprintf("worker %d", i))
		go pprof.Do(context.Background(), labels, func(context.Context) { worker(&done, &lock) })
	}
	done.Wait()
	pprof.StopCPUProfile()
	for _, name := range []string{"mutex", "heap"} {
		if err := pprof.Lookup(name).WriteTo(create(name+".pb.gz"), 0); err != nil {
			panic(err)
		}
	}
}
