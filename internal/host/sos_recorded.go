package host

import (
	"bytes"
	"context"
	"io/fs"
	"path/filepath"
)

// A sosreport may contain a complete fettle archive: with /etc/sos/extras.d/fettle, sos runs
// "fettle facts --output archive". The report then provides what the archive lacks.

// sosRecorded is the path of the archive. Its directory is named after the file in extras.d
// (sos/report/plugins/sos_extras.py).
const sosRecorded = "/sos_commands/sos_extras/*/fettle_facts_--output_archive*"

// overlayArchive returns a host that reads the report's archive first, then the report.
// Without a complete archive it returns h.
func (s *sosreport) overlayArchive(h *Host) *Host {
	names, _ := filepath.Glob(s.files.outer(sosRecorded))
	for _, name := range names {
		inner, err := filepath.Rel(s.files.root, name)
		if err != nil {
			continue
		}
		text, err := s.files.ReadFile("/" + inner)
		if err != nil {
			continue
		}
		// sos merges standard error into the file: progress of a recording that takes seconds.
		if at := bytes.Index(text, []byte("\n"+archiveHeading+"\n")); at >= 0 && !bytes.HasPrefix(text, []byte(archiveHeading)) {
			text = text[at+1:]
		}
		a, err := ParseArchive(name, text)
		if err != nil || a.Incomplete != "" {
			continue
		}
		below := h.Files.(copiedFiles)
		a.Name, a.Incomplete = h.Name, h.Incomplete
		a.Files = layeredFiles{a.Files.(archivedFiles), below}
		a.Exec = layeredExec{a.Exec, h.Exec}
		a.SpaceReader = nil // layeredFiles provides them, in the same order
		return a
	}
	return h
}

// layeredFiles reads the archive first, then the report.
type layeredFiles struct {
	archivedFiles
	below copiedFiles
}

func layered[T any](first, second func(string) (T, error), p string) (T, error) {
	v, err := first(p)
	if Unknown(err) {
		if below, err := second(p); err == nil {
			return below, nil
		}
	}
	return v, err
}

func (l layeredFiles) ReadFile(p string) ([]byte, error) {
	return layered(l.archivedFiles.ReadFile, l.below.ReadFile, p)
}

func (l layeredFiles) ReadDir(p string) ([]fs.DirEntry, error) {
	return layered(l.archivedFiles.ReadDir, l.below.ReadDir, p)
}

func (l layeredFiles) Stat(p string) (fs.FileInfo, error) {
	return layered(l.archivedFiles.Stat, l.below.Stat, p)
}

func (l layeredFiles) Lstat(p string) (fs.FileInfo, error) {
	return layered(l.archivedFiles.Lstat, l.below.Lstat, p)
}

func (l layeredFiles) Readlink(p string) (string, error) {
	return layered(l.archivedFiles.Readlink, l.below.Readlink, p)
}

func (l layeredFiles) Resolve(p string) (string, error) {
	return layered(l.archivedFiles.Resolve, l.below.Resolve, p)
}

// layeredExec uses the archive first, then the report.
type layeredExec struct{ first, second Exec }

func (l layeredExec) Run(ctx context.Context, c Command) (Result, error) {
	r, err := l.first.Run(ctx, c)
	if Unknown(err) {
		return l.second.Run(ctx, c)
	}
	return r, err
}

func (l layeredExec) LookPath(name string) (string, error) { return l.first.LookPath(name) }
