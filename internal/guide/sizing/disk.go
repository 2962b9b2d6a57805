package sizing

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/unit"
)

// decimal has the decimal units of disks, largest first.
var decimal = []struct {
	name string
	size uint64
}{{"PB", 1e15}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}}

// parseDisk parses the size of a disk. kB to PB are powers of 1000; unit.ParseSize parses all
// other units.
func parseDisk(s string) (unit.Size, error) {
	text := strings.TrimSpace(s)
	for _, u := range decimal {
		if len(text) < 2 || !strings.EqualFold(text[len(text)-2:], u.name) {
			continue
		}
		digits := strings.TrimSpace(text[:len(text)-2])
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil {
			break // unit.ParseSize returns the error
		}
		if hi, lo := bits.Mul64(n, u.size); hi == 0 {
			return unit.Size(lo), nil
		}
		return 0, fmt.Errorf("size %q: more than 16 EiB", s)
	}
	return unit.ParseSize(s)
}

// printDisk prints a size exactly, in a decimal unit if that is shorter. parseDisk parses
// it back.
func printDisk(n unit.Size) string {
	text := n.String()
	for _, u := range decimal {
		if n != 0 && uint64(n)%u.size == 0 {
			if in := strconv.FormatUint(uint64(n)/u.size, 10) + u.name; len(in) < len(text) {
				return in
			}
			break
		}
	}
	return text
}
