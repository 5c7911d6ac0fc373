// Chains and rings of goroutines. A line "chain|round HOPS MESSAGES" on standard input is answered by the nanoseconds
// that it took and the sum (of a ring: the message) that came out.
package main

import (
	"fmt"
	"time"
)

const capacity = 64

var stage = func(message uint64) uint64 { return message + 1 }

// through starts the stages between first and what it returns.
func through(first chan uint64, hops int) chan uint64 {
	from := first
	for range make([]struct{}, hops-1) {
		in, out, work := from, make(chan uint64, capacity), stage
		go func() {
			for message := range in {
				out <- work(message)
			}
			close(out)
		}()
		from = out
	}
	return from
}

func chain(hops int, messages uint64) uint64 {
	first := make(chan uint64, capacity)
	last := through(first, hops)
	go func() {
		for message := uint64(0); message < messages; message++ {
			first <- message
		}
		close(first)
	}()
	sum := uint64(0)
	for message := range last {
		sum += message
	}
	return sum
}

func round(hops int, rounds uint64) uint64 {
	first := make(chan uint64, capacity)
	last := through(first, hops)
	message := uint64(0)
	for ; rounds > 0; rounds-- {
		first <- message
		message = stage(<-last)
	}
	close(first)
	return message
}

func main() {
	var what string
	var hops int
	var messages uint64
	for {
		if read, _ := fmt.Scan(&what, &hops, &messages); read < 3 {
			return
		}
		begin := time.Now()
		run := chain
		if what == "round" {
			run = round
		}
		result := run(hops, messages)
		fmt.Println(time.Since(begin).Nanoseconds(), result)
	}
}
