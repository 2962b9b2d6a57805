// Command access maps memory without any advice, touches all of it, then reads it at random places.
// Each read depends on the result of the previous one, so reads cannot overlap. It prints the time
// of one read.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	mib := flag.Int("mib", 512, "size of the mapping")
	reads := flag.Int("reads", 2_000_000, "random reads")
	flag.Parse()
	region, err := unix.Mmap(-1, 0, *mib<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		fmt.Fprintln(os.Stderr, "access:", err)
		os.Exit(1)
	}
	for at := 0; at < len(region); at += 4096 {
		region[at] = byte(at >> 12)
	}
	began, at := time.Now(), uint64(1)
	for range *reads {
		// Knuth's MMIX generator; the byte that was read takes part, so that no read
		// can begin before the last one has ended.
		at = at*6364136223846793005 + 1442695040888963407 + uint64(region[(at>>16)%uint64(len(region))])
	}
	took := time.Since(began)
	fmt.Printf("%.2f ns a read (%d)\n", float64(took.Nanoseconds())/float64(*reads), at&1)
}
