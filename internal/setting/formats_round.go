package setting

import (
	"math/bits"
	"path"
	"strconv"
	"strings"
)

// compareRounded compares a number that the kernel rounds: the rounded number is the same
// value. A leading 0 means octal in files of /proc/sys. Files of disks ignore it
// (block/blk-sysfs.c queue_var_store, base 10).
func compareRounded(round func(n, page int64) int64) func(comparisonInput) Comparison {
	return func(c comparisonInput) Comparison {
		text := strings.TrimSpace(c.want)
		if octal(text) && !strings.HasPrefix(c.file, "/proc/") {
			text = decimal(text)
		}
		want, ok := number(text)
		read, okRead := number(strings.TrimSpace(c.read))
		if !ok || !okRead {
			return Different
		}
		return comparison(want == read || round(want, c.host.PageSize()) == read)
	}
}

// wholePages rounds a number of KiB down to whole pages.
func wholePages(kib, page int64) int64 { return kib &^ (page/1024 - 1) }

// atLeastFour applies the minimum queue depth of 4 (BLKDEV_MIN_RQ).
func atLeastFour(n, _ int64) int64 { return max(n, 4) }

func powerOfTwo(n, _ int64) int64 {
	if n <= 1 {
		return n
	}
	return 1 << bits.Len64(uint64(n-1))
}

// pipeSize rounds up to a power of two of at least a page (fs/pipe.c round_pipe_size).
func pipeSize(n, page int64) int64 { return max(powerOfTwo(n, page), page) }

// pageOfHeads rounds a number of 8-byte pointers up to whole pages.
func pageOfHeads(n, page int64) int64 { return (n + page/8 - 1) / (page / 8) * (page / 8) }

// compareApproximate compares numbers that the kernel rounds to clock ticks or device limits,
// or replaces by the device's default if 0. A different number may be the result of the write.
func compareApproximate(c comparisonInput) Comparison {
	if compareNumbers(c) == Same {
		return Same
	}
	want, ok := number(strings.TrimSpace(c.want))
	read, okRead := number(strings.TrimSpace(c.read))
	if !ok || !okRead {
		return Different
	}
	const tick = 10 // ms, at a kernel frequency of 100 Hz
	if want == 0 || strings.HasSuffix(c.file, "_bytes") && read < want || max(want-read, read-want) <= tick {
		return Unclear
	}
	return Different
}

// compareLatency compares the target of write-back throttling, in microseconds. -1 selects the
// default: 2 ms for solid-state disks, 75 ms for rotating ones. With the bfq scheduler
// throttling is off, and the file reads 0 (block/blk-wbt.c wbt_default_latency_nsec).
func compareLatency(c comparisonInput) Comparison {
	if strings.TrimSpace(c.want) != "-1" {
		return compareNumbers(c)
	}
	rotating, err := c.host.Files.ReadFile(path.Join(path.Dir(c.file), "rotational"))
	standard := map[string]string{"0": "2000", "1": "75000"}[strings.TrimSpace(string(rotating))]
	switch read := strings.TrimSpace(c.read); {
	case err != nil || read == "0":
		return Unclear
	default:
		return comparison(read == standard)
	}
}

// compareSize compares a size that may have a suffix with a number of bytes in whole pages.
func compareSize(c comparisonInput) Comparison {
	want, ok := size(c.want)
	read, okRead := size(c.read)
	if !ok || !okRead {
		return Unclear // max, and the largest number that represents it
	}
	return comparison(want == read || want&^(c.host.PageSize()-1) == read)
}

// size parses a number with a suffix as lib/cmdline.c memparse does.
func size(s string) (int64, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	if s == "" {
		return 0, false
	}
	shift := 10 * (strings.IndexByte("kmgtpe", s[len(s)-1]) + 1)
	if shift > 0 {
		s = s[:len(s)-1]
	}
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil || n < 0 || shift > 0 && bits.Len64(uint64(n))+shift > 63 {
		return 0, false
	}
	return n << shift, true
}
