package source

import (
	"cmp"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
)

// part is a file name, parsed as a part of a rotated log.
type part struct {
	log    string
	rank   int // numbered, dated, or the log itself
	number int // if numbered, higher is older; if dated, higher is newer
	date   string
}

const (
	numbered = iota
	dated
	itself
)

func partOf(file string) part {
	file = logformat.Uncompressed(file)
	m, ext := logformat.RotatedAtEnd().FindStringSubmatch(file), ""
	if m == nil {
		if m = logformat.RotatedBefore().FindStringSubmatch(file); m == nil {
			return part{log: file, rank: itself}
		}
		ext = m[5]
	}
	p := part{log: m[1] + ext}
	if m[2] != "" {
		p.number, _ = strconv.Atoi(m[2])
		return p
	}
	p.rank, p.date = dated, strings.ReplaceAll(m[3], "-", "")
	p.number, _ = strconv.Atoi(m[4])
	return p
}

// older compares file names for sorting: parts of a log are together, oldest first.
func older(a, b string) int {
	x, y := partOf(a), partOf(b)
	newer := cmp.Compare(x.number, y.number)
	if x.rank == numbered {
		newer = -newer
	}
	return cmp.Or(cmp.Compare(x.log, y.log), cmp.Compare(x.rank, y.rank), cmp.Compare(x.date, y.date), newer)
}

// Beside returns the files in a log's directory that may be its rotated parts, newest first.
// Their names begin with the log's name.
func Beside(h *host.Host, log string) ([]Log, error) {
	dir, name := filepath.Split(log)
	all, err := h.Files.ReadDir(filepath.Clean(dir + "."))
	if err != nil {
		return nil, err
	}
	stem := strings.TrimSuffix(name, filepath.Ext(name))
	type file struct {
		Log
		changed int64
	}
	var found []file
	for _, e := range all {
		if e.Name() == name || !strings.HasPrefix(e.Name(), stem) || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil {
			found = append(found, file{Log{Path: filepath.Join(dir, e.Name()), Size: info.Size(), host: h}, info.ModTime().UnixNano()})
		}
	}
	slices.SortStableFunc(found, func(a, b file) int { return cmp.Compare(b.changed, a.changed) })
	logs := make([]Log, len(found))
	for i := range found {
		logs[i] = found[i].Log
	}
	return logs, nil
}
