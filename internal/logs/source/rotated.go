package source

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/lazyregexp"
)

// extensions are those of compressed logs.
var extensions = []string{".gz", ".zst", ".bz2", ".xz"}

// How logrotate (start, dateext, dateformat), rotatelogs and logback (%d, %i) name what
// was rotated: by a number or a date, at the end or in front of an extension.
const rotation = `(.+?)(?:\.(\d{1,6})|[-._](\d{4}-?\d\d-?\d\d(?:[-._T]?\d{1,10})?)(?:\.(\d{1,6}))?)`

var (
	atEnd  = lazyregexp.New(`^` + rotation + `$`)
	before = lazyregexp.New(`^` + rotation + `(\.[a-z]+)$`)
)

// Names are the names that a file may have had before it was compressed and rotated
// away, itself first: access.log-20261120.gz was access.log, and access.log.2.gz too.
func Names(file string) []string {
	names := []string{file}
	add := func(name string) {
		if base := path.Base(name); base != "" && base != "." && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if plain := uncompressed(file); plain != file {
		file = plain
		add(file)
	}
	if m := atEnd().FindStringSubmatch(file); m != nil {
		add(m[1])
	}
	if m := before().FindStringSubmatch(file); m != nil { // logrotate's extension
		add(m[1] + m[5])
	}
	return names
}

// uncompressed is a name without the extension of a compressed file.
func uncompressed(file string) string {
	for _, ext := range extensions {
		if rest, ok := strings.CutSuffix(file, ext); ok {
			return rest
		}
	}
	return file
}

// part is which part of a log a file is, by its name.
type part struct {
	log    string
	rank   int // numbered, dated, or the log itself
	number int // of one that is numbered, the higher the older; of a date the later the newer
	date   string
}

const (
	numbered = iota
	dated
	itself
)

func partOf(file string) part {
	file = uncompressed(file)
	m, ext := atEnd().FindStringSubmatch(file), ""
	if m == nil {
		if m = before().FindStringSubmatch(file); m == nil {
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

// older orders files so that the parts of a log come together, the oldest first.
func older(a, b string) int {
	x, y := partOf(a), partOf(b)
	newer := cmp.Compare(x.number, y.number)
	if x.rank == numbered {
		newer = -newer
	}
	return cmp.Or(cmp.Compare(x.log, y.log), cmp.Compare(x.rank, y.rank), cmp.Compare(x.date, y.date), newer)
}

// Beside are the files beside a log that it may have been rotated into: their names begin
// as its own does. The newest comes first.
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
