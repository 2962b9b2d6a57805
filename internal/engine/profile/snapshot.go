package profile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"
	"unicode/utf8"

	"fettle.dev/fettle/internal/host"
)

// SnapshotSchema names the format of a saved snapshot.
const SnapshotSchema = "fettle/profile-snapshot/v1"

// Limits of a snapshot, in bytes and files. A profile directory has a few scripts. Files beyond
// the limits are left out and listed in Omitted.
const (
	maxSnapshotFile  = 1 << 20
	maxSnapshotTotal = 16 << 20
	maxSnapshotFiles = 2000
)

// Snapshot contains every file of a load, so accepted profiles can be loaded again even if their
// files change. It has every tuned.conf and variables file, and the other files in the profiles'
// directories (scripts). A Loader with a Snapshot reads only these files.
type Snapshot struct {
	Schema string `json:"schema"`
	// Names are the profiles. Dirs is the search path of the load.
	Names []string `json:"names"`
	Dirs  []string `json:"dirs"`
	// Answers are the results of functions that ran programs.
	Answers map[string]Answer `json:"answers,omitempty"`
	Files   []SnapshotFile    `json:"files"`
	// Absent lists optional profiles and variables files that did not exist.
	Absent []string `json:"absent,omitempty"`
	// Omitted lists files that were left out because they are too large or too many.
	Omitted []string `json:"omitted,omitempty"`
}

// SnapshotFile is one file of a snapshot.
type SnapshotFile struct {
	Path string
	Mode fs.FileMode // permission bits
	Data []byte
}

// snapshotFileJSON is the JSON form of a file. Text stays readable in it.
type snapshotFileJSON struct {
	Path   string  `json:"path"`
	Mode   string  `json:"mode"` // octal
	SHA256 string  `json:"sha256"`
	Text   *string `json:"text,omitempty"`
	Data   []byte  `json:"data_base64,omitempty"`
}

func (f SnapshotFile) MarshalJSON() ([]byte, error) {
	out := snapshotFileJSON{Path: f.Path, Mode: fmt.Sprintf("%04o", f.Mode.Perm()), SHA256: hexSum(f.Data)}
	if utf8.Valid(f.Data) {
		text := string(f.Data)
		out.Text = &text
	} else {
		out.Data = f.Data
	}
	return json.Marshal(out)
}

func (f *SnapshotFile) UnmarshalJSON(b []byte) error {
	var in snapshotFileJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	var mode fs.FileMode
	if _, err := fmt.Sscanf(in.Mode, "%o", &mode); err != nil || mode != mode.Perm() {
		return fmt.Errorf("%s: mode %q is not octal permission bits", in.Path, in.Mode)
	}
	*f = SnapshotFile{Path: in.Path, Mode: mode, Data: in.Data}
	if in.Text != nil {
		f.Data = []byte(*in.Text)
	}
	if hexSum(f.Data) != in.SHA256 {
		return fmt.Errorf("%s: checksum mismatch", in.Path)
	}
	return nil
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// UnmarshalJSON returns an error for JSON that is not a snapshot. The caller must trust the origin
// of the JSON: Trusted does not check its files again.
func (s *Snapshot) UnmarshalJSON(data []byte) error {
	type fields Snapshot // omits this method
	if err := json.Unmarshal(data, (*fields)(s)); err != nil {
		return fmt.Errorf("profile snapshot: %w", err)
	}
	if s.Schema != SnapshotSchema {
		return fmt.Errorf("profile snapshot: schema %q, expected %q", s.Schema, SnapshotSchema)
	}
	for _, f := range s.Files {
		if !IsBuiltin(f.Path) && !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path {
			return fmt.Errorf("profile snapshot: %q is not a clean absolute path", f.Path)
		}
	}
	return nil
}

// File returns the file with a path on the machine, and false if the snapshot lacks it.
func (s *Snapshot) File(p string) (SnapshotFile, bool) {
	if f := s.file(p); f != nil {
		return *f, true
	}
	return SnapshotFile{}, false
}

func (s *Snapshot) file(p string) *SnapshotFile {
	for i := range s.Files {
		if s.Files[i].Path == p {
			return &s.Files[i]
		}
	}
	return nil
}

// profileNames lists the profiles in one directory of the search path.
func (s *Snapshot) profileNames(dir string) []string {
	var names []string
	for _, f := range s.Files {
		if path.Base(f.Path) == profileFile && path.Dir(path.Dir(f.Path)) == path.Join(dir) {
			names = append(names, path.Base(path.Dir(f.Path)))
		}
	}
	return names
}

// Snapshot returns all files of the profile. It also reads the other files in the profiles'
// directories. An unreadable file is an error, because a profile is accepted only as a whole.
func (p *Profile) Snapshot() (*Snapshot, error) {
	l := p.loader
	if l == nil {
		return nil, errors.New("cannot take a snapshot: the profile was not loaded from files")
	}
	s := &Snapshot{Schema: SnapshotSchema, Names: p.Names, Dirs: l.dirs(), Answers: p.Answers, Absent: p.absent}
	if l.Snapshot != nil {
		s.Files, s.Omitted, s.Absent = l.Snapshot.Files, l.Snapshot.Omitted, l.Snapshot.Absent
		return s, nil
	}
	c := &snapshotCollector{Snapshot: s, loader: l, seen: map[string]bool{}}
	for _, src := range p.Sources {
		mode := fs.FileMode(0o644)
		if st, err := l.stat(src.Path); err == nil {
			mode = st.Mode().Perm()
		}
		c.add(src.Path, mode, src.Data)
	}
	for _, dir := range p.dirs {
		if err := c.collect(dir, 0); err != nil {
			return nil, fmt.Errorf("snapshot of %s: %w", dir, err)
		}
	}
	sort.Slice(s.Files, func(i, j int) bool { return s.Files[i].Path < s.Files[j].Path })
	return s, nil
}

type snapshotCollector struct {
	*Snapshot
	loader *Loader
	seen   map[string]bool
	total  int
}

func (c *snapshotCollector) add(p string, mode fs.FileMode, data []byte) {
	if !c.seen[p] {
		c.seen[p] = true
		c.total += len(data)
		c.Files = append(c.Files, SnapshotFile{Path: p, Mode: mode, Data: data})
	}
}

// collect adds the regular files below a profile's directory. It skips the directories of other
// profiles below it.
func (c *snapshotCollector) collect(dir string, depth int) error {
	entries, err := c.loader.readDir(dir)
	if host.NotFound(err) && c.loader.Pending[dir+"/"+profileFile] != nil {
		return nil
	} else if err != nil {
		return err
	}
	for _, e := range entries {
		p := dir + "/" + e.Name()
		if strings.ContainsRune(e.Name(), '/') || c.seen[p] {
			continue
		}
		st, err := c.loader.stat(p)
		if host.NotFound(err) {
			continue // a dangling link, or removed meanwhile
		} else if err != nil {
			return err
		}
		switch {
		case st.IsDir():
			if e.Type()&fs.ModeSymlink != 0 || depth == 3 || c.loader.isFile(p+"/"+profileFile) {
				continue
			}
			if err := c.collect(p, depth+1); err != nil {
				return err
			}
		case st.Mode().IsRegular():
			if st.Size() > maxSnapshotFile || c.total+int(st.Size()) > maxSnapshotTotal || len(c.Files) >= maxSnapshotFiles {
				c.Omitted = append(c.Omitted, p)
				continue
			}
			data, err := c.loader.readFile(p)
			if err != nil {
				return err
			}
			c.add(p, st.Mode().Perm(), data)
		}
	}
	return nil
}
