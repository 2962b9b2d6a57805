package puppetrun

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
)

// File is a report stored by a Puppet server.
type File struct {
	Path string
	// Stored is the minute in which the server stored the report, by the server's clock. It is
	// zero if the file name lacks it.
	Stored time.Time
}

// storedLayout is the time layout of a stored report's file name: YYYYmmddHHMM.yaml, in UTC.
const storedLayout = "200601021504"

// Find returns the reports below a directory (reportdir, with one directory per node), or a
// single report.
func Find(h *host.Host, dir string) ([]File, error) {
	info, err := h.Files.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []File{file(dir)}, nil
	}
	files, err := below(h, dir, 0)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s contains no reports (files NODE/TIME.yaml of Puppet's store processor)", dir)
	}
	return files, err
}

// mostDepth is the maximum depth below a directory at which reports are searched.
const mostDepth = 3

func below(h *host.Host, dir string, depth int) (files []File, err error) {
	all, err := h.Files.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		name := filepath.Join(dir, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."): // incomplete: still being written
		case e.IsDir() && depth < mostDepth:
			further, err := below(h, name, depth+1)
			if err != nil {
				return nil, err
			}
			files = append(files, further...)
		case e.Type().IsRegular() && path.Ext(e.Name()) == ".yaml":
			files = append(files, file(name))
		}
	}
	return files, nil
}

func file(name string) File {
	stored, err := time.Parse(storedLayout, strings.TrimSuffix(path.Base(name), ".yaml"))
	if err != nil {
		stored = time.Time{}
	}
	return File{name, stored}
}
