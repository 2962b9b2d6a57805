package host

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"
)

// SpaceReader returns the size of the machine's file systems.
type SpaceReader interface {
	// Space returns the size of a path's file system, and the space available to unprivileged
	// users, in bytes.
	Space(p string) (size, free uint64, err error)
}

// Space calls h.SpaceReader. If that is nil, it measures the file system that holds h.Files. A
// copy without a recorded measurement returns ErrNotRecorded.
func (h *Host) Space(p string) (size, free uint64, err error) {
	if h.SpaceReader != nil {
		return h.SpaceReader.Space(p)
	}
	outer := ""
	switch f := h.Files.(type) {
	case liveFiles:
		outer = p
	case rootedFiles:
		at, err := f.walk(p, true)
		if err != nil {
			return 0, 0, err
		}
		outer = f.outer(at)
	case copiedFiles:
		if size, free, ok := f.debug.space(p); ok {
			return size, free, nil
		}
		return f.sos.space(p)
	case layeredFiles:
		if size, free, err := (archivedSpace{f.archive}).Space(p); !Unknown(err) {
			return size, free, err
		}
		return f.below.sos.space(p)
	default:
		return 0, 0, NotRecorded("the space of " + path.Clean(p))
	}
	var st unix.Statfs_t
	if err := unix.Statfs(outer, &st); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: p, Err: err}
	}
	return st.Blocks * uint64(st.Bsize), st.Bavail * uint64(st.Bsize), nil
}

// spaceQuestion returns the key of a path's measurement among the recorded answers.
func spaceQuestion(p string) string { return "space of " + path.Clean("/"+p) }

// spaceRecord is a measurement in an archive.
type spaceRecord struct {
	SizeBytes uint64 `json:"size_bytes"`
	FreeBytes uint64 `json:"free_bytes"`
}

// recordingSpace records measurements.
type recordingSpace struct {
	r     *answerRecorder
	inner *Host
}

func (x recordingSpace) Space(p string) (size, free uint64, err error) {
	if size, free, err = x.inner.Space(p); err != nil {
		return 0, 0, err
	}
	b, err := json.Marshal(spaceRecord{size, free})
	if err != nil {
		return 0, 0, err
	}
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	x.r.asks[spaceQuestion(p)] = append(b, '\n')
	return size, free, nil
}

// archivedSpace returns recorded measurements.
type archivedSpace struct{ a *archive }

func (x archivedSpace) Space(p string) (size, free uint64, err error) {
	b, ok := x.a.asks[spaceQuestion(p)]
	if !ok {
		return 0, 0, NotRecorded("the space of " + path.Clean(p))
	}
	var n spaceRecord
	if err := json.Unmarshal(b, &n); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", spaceQuestion(p), err)
	}
	if n.SizeBytes == 0 || n.SizeBytes >= 1<<62 || n.FreeBytes > n.SizeBytes {
		return 0, 0, fmt.Errorf("%s: invalid record: %d bytes free of %d", spaceQuestion(p), n.FreeBytes, n.SizeBytes)
	}
	return n.SizeBytes, n.FreeBytes, nil
}
