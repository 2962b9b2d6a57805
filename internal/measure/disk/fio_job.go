// Jobs of fio and their figures.

package disk

import (
	"fmt"
	"strconv"
	"time"
)

// Job is one run of fio on a file. All options not listed have fio's defaults (fio(1)).
type Job struct {
	File      string // an existing file
	SizeBytes int64  // counted from the beginning of the file
	RW        string // read, write, randread, randwrite, randrw
	// ReadPercent is the share of reads in randrw, 0 to 100.
	ReadPercent int
	BlockBytes  int64
	Engine      string // psync, io_uring, libaio
	Depth       int    // requests in flight
	Direct      bool   // O_DIRECT
	Fdatasync   bool   // after each write
	EndFsync    bool   // at the end, within the measured time
	Warm        bool   // reads the file into the page cache first
	// Runtime is the time limit of the job, which repeats the file until then. 0 means one pass.
	Runtime time.Duration
	Seed    uint64 // for random offsets
	// EverySecond also requests the figures so far each second.
	EverySecond bool
}

// Args returns fio's command line without the program.
func (j Job) Args() []string {
	flag := func(yes bool) string {
		if yes {
			return "1"
		}
		return "0"
	}
	args := []string{
		"--name=fettle", "--filename=" + j.File, "--size=" + strconv.FormatInt(j.SizeBytes, 10),
		// --thread accounts all reads to one process. fio must not create, lay out or remove any file.
		"--thread", "--allow_file_create=0", "--fallocate=none", "--group_reporting", "--eta=never", "--output-format=json",
		"--percentile_list=50:90:99:99.9",
		"--rw=" + j.RW, "--bs=" + strconv.FormatInt(j.BlockBytes, 10), "--ioengine=" + j.Engine, "--iodepth=" + strconv.Itoa(max(j.Depth, 1)),
		"--direct=" + flag(j.Direct), "--randseed=" + strconv.FormatUint(j.Seed, 10), "--norandommap",
	}
	if j.RW == "randrw" {
		args = append(args, "--rwmixread="+strconv.Itoa(j.ReadPercent))
	}
	if j.Fdatasync {
		args = append(args, "--fdatasync=1")
	}
	if j.EndFsync {
		args = append(args, "--end_fsync=1")
	}
	if j.Warm {
		args = append(args, "--pre_read=1", "--invalidate=0")
	}
	if j.Runtime > 0 {
		args = append(args, "--time_based", fmt.Sprintf("--runtime=%dms", j.Runtime.Milliseconds()))
	}
	if j.EverySecond {
		args = append(args, "--status-interval=1")
	}
	return args
}
