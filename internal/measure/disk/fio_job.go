// fio runs one job of fio on a file and reads what it measured.

package disk

import (
	"fmt"
	"strconv"
	"time"
)

// Job is what fio is to do with one file. fio's own names and defaults
// (fio(1)) are meant wherever nothing is said.
type Job struct {
	File      string // an existing file; fio makes none
	SizeBytes int64  // of it, from its beginning
	RW        string // read, write, randread, randwrite, randrw
	// ReadPercent is the share of reads in randrw, 0 to 100.
	ReadPercent int
	BlockBytes  int64
	Engine      string // psync, io_uring, libaio
	Depth       int    // requests in flight
	Direct      bool   // O_DIRECT
	Fdatasync   bool   // after each write
	EndFsync    bool   // at the end, within the time measured
	Warm        bool   // the file is read into the page cache first
	// Runtime ends the job, which goes over the file again and again until then; 0 is
	// once over the file.
	Runtime time.Duration
	Seed    uint64 // of the random places
	// EverySecond asks for the figures so far each second as well.
	EverySecond bool
}

// Args is fio's command line without its name.
func (j Job) Args() []string {
	flag := func(yes bool) string {
		if yes {
			return "1"
		}
		return "0"
	}
	args := []string{
		"--name=fettle", "--filename=" + j.File, "--size=" + strconv.FormatInt(j.SizeBytes, 10),
		// Threads, so that what the process read is all in one account; and nothing is
		// made, laid out or removed beside the given file.
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
