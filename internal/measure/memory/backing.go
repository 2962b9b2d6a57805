package memory

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"fettle.dev/fettle/internal/fact"
)

// backing returns two shares of a touched region, as read from the kernel: pages of the requested
// size, and pages on the requested node.
func (v Task) backing(region []byte) (share, placed float64, err error) {
	from := uint64(uintptr(unsafe.Pointer(&region[0])))
	to := from + uint64(len(region))
	inHuge := int64(0)
	if err := parsed("/proc/self/smaps", func(in io.Reader) (err error) {
		inHuge, err = hugeBytes(in, from, to)
		return err
	}); err != nil {
		return 0, 0, err
	}
	share = float64(inHuge) / float64(len(region))
	if v.Pages == Small {
		share = 1 - share
	}
	if len(v.CPUs) == 0 {
		return share, 1, nil
	}
	maps, err := os.ReadFile("/proc/self/numa_maps")
	if err == nil {
		placed, err = onNode(string(maps), from, to, v.Node)
	}
	return share, placed, err
}

func parsed(path string, read func(io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := read(f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// hugeBytes returns the bytes in huge pages of both kinds, in the mappings between two addresses
// (Documentation/filesystems/proc.rst, smaps).
func hugeBytes(smaps io.Reader, from, to uint64) (int64, error) {
	total, found, inside := int64(0), false, false
	in := bufio.NewScanner(smaps)
	for in.Scan() {
		word, rest, _ := strings.Cut(in.Text(), " ")
		if begin, end, is := addresses(word); is {
			inside = begin < to && end > from
			found = found || inside
			continue
		}
		if inside && (word == "AnonHugePages:" || word == "Private_Hugetlb:" || word == "Shared_Hugetlb:") {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 50)
			if err != nil {
				return 0, fmt.Errorf("%s %q: want a number of kB", word, rest)
			}
			total += n << 10
		}
	}
	if err := in.Err(); err != nil {
		return 0, err
	}
	if !found {
		return 0, fmt.Errorf("no mapping at %x", from)
	}
	return total, nil
}

// addresses parses a mapping's address range, the first word of its first line: 7f00-7f10. is is
// false for other words.
func addresses(word string) (begin, end uint64, is bool) {
	a, b, cut := strings.Cut(word, "-")
	if !cut {
		return 0, 0, false
	}
	begin, err := strconv.ParseUint(a, 16, 64)
	if err != nil {
		return 0, 0, false
	}
	end, err = strconv.ParseUint(b, 16, 64)
	return begin, end, err == nil && end > begin
}

// onNode returns the share of the memory on a node, in the mappings that begin between two
// addresses (numa(7), /proc/PID/numa_maps).
func onNode(maps string, from, to uint64, node int) (float64, error) {
	all, there := 0.0, 0.0
	fact.ParseNumaMaps(maps, int64(os.Getpagesize()), func(m *fact.NumaMapping) {
		if m.Address < from || m.Address >= to {
			return
		}
		for _, n := range m.Nodes {
			bytes := float64(n.Pages) * float64(m.PageBytes)
			all += bytes
			if n.Node == node {
				there += bytes
			}
		}
	})
	if all == 0 {
		return 0, fmt.Errorf("no page at %x", from)
	}
	return there / all, nil
}
